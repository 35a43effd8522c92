//! Poisson arrivals that token buckets hold before one server in order of arrival: the recursion over drawn requests.
//!
//! ```text
//! arrival ─▶ held until each bucket has a token, in order of arrival ─▶ one server in order ─▶ completion
//!      └── a request that does not count passes at once ──────────────────▲
//! ```
//! A bucket of b tokens that return with the rate r releases a request at the earliest time at which it holds a token
//! [Le Boudec 2001, section 1.2]. The tokens that are missing are the queue of a server that takes 1/r for each: with the queue
//! time V of that server, a request is held for `max(0, V − (b − 1)/r)`. With one bucket, V is distributed as the queue time of
//! M/D/1, so the drawn V are replaced by the quantiles at their ranks. The time at the server of the device is that of the
//! recursion [Lindley 1952]. The draws are the same at every rate.
//!
//! # Assumptions
//! Arrivals are Poisson, and every request that counts takes one token. Service times are independent of each other and, but
//! for those after idle times, of the queue.
//!
//! # Scope and limits
//! 262,144 requests. With several buckets the held times are those drawn, whose random variation grows near the rate of a limit.

use seeklab_core::Seed;
use seeklab_devices::service_law::{RateLimit, ServiceTimes};

use crate::error::{EstimateError, check_positive};
use crate::method::{Quantiles, SHARES};
use crate::moments::ServiceMoments;
use crate::queueing::{Steady, mg1_response_times};

/// Requests of the recursion.
const REQUESTS: usize = 1 << 18;

/// Requests at the beginning that do not count: buckets begin full.
const WARM_UP: usize = REQUESTS / 16;

/// Steady state of a server behind limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitedSteady {
    /// Means over all requests. The server is utilised while it serves.
    pub steady: Steady,
    /// Service times.
    pub service: ServiceMoments,
    /// Response times that shares of the requests do not exceed, in seconds.
    pub quantiles_s: Quantiles,
}

/// A token bucket, as a server that takes the time of a token for each request that counts.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    token_s: f64,
    /// Queue time up to which a request is not held.
    room_s: f64,
    /// Time at which the tokens that were taken are back.
    back_s: f64,
}

impl Bucket {
    fn new(limit: &RateLimit) -> Self {
        let token_s = 1.0 / (limit.requests_per_s * limit.share);
        let room_s = (limit.burst_requests * limit.share - 1.0).max(0.0) * token_s;
        Self { token_s, room_s, back_s: 0.0 }
    }

    /// Earliest time from `now_s` on at which the bucket holds a token.
    const fn ready_s(&self, now_s: f64) -> f64 {
        now_s.max(self.back_s - self.room_s)
    }

    /// Takes a token, at a time at which there is one.
    const fn take(&mut self, now_s: f64) {
        self.back_s = self.back_s.max(now_s) + self.token_s;
    }
}

/// A drawn request.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    release_s: f64,
    /// Time for which it was held.
    held_s: f64,
    /// Queue time at its bucket, if there is one bucket and the request counts.
    queue_s: Option<f64>,
    /// Draw of its service time.
    service: f64,
}

/// Steady state of Poisson arrivals at a server behind limits that count the same `share` of the requests. `after_idle` are
/// the service times of requests that arrive at an idle server.
///
/// # Errors
/// No arrivals. Arrivals above the rate of a limit or of the server have no steady state; the caller refuses them.
pub fn limited_queue(
    arrivals_per_s: f64,
    limits: &[RateLimit],
    service: &ServiceTimes,
    after_idle: &ServiceTimes,
) -> Result<LimitedSteady, EstimateError> {
    check_positive("arrivals_per_s", arrivals_per_s)?;
    let share = limits.first().map_or(0.0, |limit| limit.share);
    let mut buckets: Vec<Bucket> = limits.iter().map(Bucket::new).collect();
    let mut stream = Seed(0).stream("estimate.limited_queue");
    let (mut now_s, mut last_release_s) = (0.0_f64, 0.0_f64);
    let mut requests: Vec<Drawn> = (0..REQUESTS)
        .map(|_| {
            let [interarrival, counts, service] = std::array::from_fn(|_| stream.unit());
            now_s -= (1.0 - interarrival).ln() / arrivals_per_s;
            if counts >= share {
                return Drawn { release_s: now_s, held_s: 0.0, queue_s: None, service };
            }
            let first_s = now_s.max(last_release_s);
            last_release_s = buckets.iter().map(|bucket| bucket.ready_s(first_s)).fold(first_s, f64::max);
            let queue_s = match &buckets[..] {
                [bucket] => Some((bucket.back_s - now_s).max(0.0)),
                _ => None,
            };
            buckets.iter_mut().for_each(|bucket| bucket.take(last_release_s));
            Drawn { release_s: last_release_s, held_s: last_release_s - now_s, queue_s, service }
        })
        .collect();
    if let [bucket] = &buckets[..] {
        hold_as_expected(&mut requests, arrivals_per_s * share, bucket)?;
    }
    requests.sort_by(|one, other| one.release_s.total_cmp(&other.release_s));
    let (mut free_s, mut busy_s, mut square_s2) = (0.0_f64, 0.0, 0.0);
    let mut times_s = Vec::with_capacity(REQUESTS);
    for (number, request) in requests.into_iter().enumerate() {
        let times = if request.release_s >= free_s { after_idle } else { service };
        let service_s = times.quantile_s(request.service);
        free_s = free_s.max(request.release_s) + service_s;
        if number >= WARM_UP {
            times_s.push(free_s - request.release_s + request.held_s);
            busy_s += service_s;
            square_s2 += service_s * service_s;
        }
    }
    let count = times_s.len() as f64;
    let response_mean_s = times_s.iter().sum::<f64>() / count;
    let mean_s = busy_s / count;
    times_s.sort_unstable_by(f64::total_cmp);
    let steady = Steady {
        throughput_per_s: arrivals_per_s,
        utilisation: (arrivals_per_s * mean_s).min(1.0),
        queue_time_mean_s: response_mean_s - mean_s,
        response_mean_s,
        outstanding_mean: arrivals_per_s * response_mean_s,
    };
    Ok(LimitedSteady {
        steady,
        service: ServiceMoments { mean_s, variance_s2: (square_s2 / count - mean_s * mean_s).max(0.0) },
        quantiles_s: SHARES.map(|share| times_s[((share * count) as usize).min(times_s.len() - 1)]),
    })
}

/// Replaces the drawn queue times at a bucket by the quantiles of M/D/1 at their ranks, and the held times that follow. Releases
/// stay, for the server sees the order and the distances of the draw.
fn hold_as_expected(requests: &mut [Drawn], held_per_s: f64, bucket: &Bucket) -> Result<(), EstimateError> {
    let (_, times) = mg1_response_times(held_per_s, &ServiceTimes::constant(bucket.token_s))?;
    let mut held: Vec<&mut Drawn> =
        requests[WARM_UP..].iter_mut().filter(|request| request.queue_s.is_some()).collect();
    held.sort_by(|one, other| one.queue_s.partial_cmp(&other.queue_s).expect("times are numbers"));
    let count = held.len() as f64;
    for (rank, request) in held.into_iter().enumerate() {
        let queue_s = times.quantile_s((rank as f64 + 0.5) / count) - bucket.token_s;
        request.held_s = (queue_s - bucket.room_s).max(0.0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::mg1_response_times;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    #[test]
    fn bucket_of_one_token_is_a_server_of_constant_time() {
        // A device that takes next to nothing: the response time is the queue time of M/D/1 with the time of a token.
        let (token, none) = (ServiceTimes::constant(0.01), ServiceTimes::constant(1e-9));
        let limit = RateLimit { requests_per_s: 100.0, burst_requests: 1.0, share: 1.0 };
        for arrivals_per_s in [50.0, 80.0] {
            let found = limited_queue(arrivals_per_s, &[limit], &none, &none).unwrap();
            let (steady, times) = mg1_response_times(arrivals_per_s, &token).unwrap();
            near(found.steady.response_mean_s, steady.queue_time_mean_s, 0.02);
            for (share, quantile_s) in SHARES.into_iter().zip(found.quantiles_s).skip(1) {
                near(quantile_s + 0.01, times.quantile_s(share), 0.03);
            }
        }
    }

    #[test]
    fn limits_that_never_hold_leave_the_server_alone() {
        let service = ServiceTimes::Exponential { mean_s: 0.01 };
        let limit = RateLimit { requests_per_s: 1e6, burst_requests: 1e9, share: 1.0 };
        let found = limited_queue(60.0, &[limit], &service, &service).unwrap();
        let (steady, times) = mg1_response_times(60.0, &service).unwrap();
        near(found.steady.response_mean_s, steady.response_mean_s, 0.02);
        near(found.quantiles_s[3], times.quantile_s(0.99), 0.03);
    }

    #[test]
    fn requests_that_do_not_count_are_not_held() {
        // Half of the requests share 60 tokens per second: 50 of 100 arrivals are held, the median one is not.
        let limit = RateLimit { requests_per_s: 120.0, burst_requests: 2.0, share: 0.5 };
        let none = ServiceTimes::constant(1e-6);
        let found = limited_queue(100.0, &[limit], &none, &none).unwrap();
        assert!(found.quantiles_s[0] < 2e-6 && found.quantiles_s[1] > 0.02, "{found:?}");
    }
}
