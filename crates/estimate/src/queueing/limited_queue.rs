//! Poisson arrivals that token buckets hold before one server in order of arrival: the recursion over drawn requests.
//!
//! ```text
//! arrival ─▶ held until each bucket has its tokens, in order of arrival ─▶ one server in order ─▶ completion
//!      └── a request that does not count passes at once ──────────────────▲
//! ```
//! A bucket of b tokens that return with the rate r releases a request of c tokens at the earliest time at which it holds as
//! many, or is full [Le Boudec 2001, section 1.2]. The tokens that are missing are the queue of a server that takes 1/r for each:
//! with the queue time V of that server, a request is held for `max(0, V − max(0, b − c)/r)`. With one bucket, V is distributed as
//! the queue time of M/G/1, so the drawn V are replaced by the quantiles at their ranks. The time at the server of the device is
//! that of the recursion [Lindley 1952]. The draws are the same at every rate.
//!
//! The same draws without limits are M/G/1, whose mean and percentiles are known. Their differences from those correct the mean and
//! the percentiles (control variates [Law & Kelton 2000, section 11.4]), so limits that hardly hold leave the figures of M/G/1.
//!
//! Tokens that return in portions are missing until an interval ends. The first one begins with the first request that meets a full
//! bucket, as in `seeklab_devices::limit`. V has no known distribution then, so the drawn times stay.
//!
//! # Assumptions
//! Arrivals are Poisson. Service times are independent of each other, of the tokens, and, but for those after idle times, of the
//! queue.
//!
//! # Scope and limits
//! 262,144 requests. With several buckets, or portions, the held times are those drawn, whose random variation grows near the rate of
//! a limit.
//!
//! # References
//! - [Law & Kelton 2000] A. M. Law, W. D. Kelton, *Simulation Modeling and Analysis*, 3rd edition, McGraw-Hill, 2000.

use seeklab_core::Seed;
use seeklab_devices::service_law::{RateLimit, ServiceTimes, TokenShare};

use crate::error::{EstimateError, check_positive};
use crate::moments::ServiceMoments;
use crate::quantiles::{Quantiles, SHARES, quantile_s};
use crate::queueing::control::slope;
use crate::queueing::{Steady, mg1_queue_times};

/// Requests of the recursion.
const REQUESTS: usize = 1 << 18;

/// Requests at the beginning that do not count: buckets begin full.
const WARM_UP: usize = REQUESTS / 16;

/// Batches of the counted requests, from which the weights of the control variates follow.
const BATCHES: usize = 32;

/// Response times of a server without limits, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unlimited {
    /// Mean.
    pub mean_s: f64,
    /// Times that shares of the requests do not exceed.
    pub quantiles_s: Quantiles,
}

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

/// A token bucket, as a server that takes the time of its tokens for each request that counts.
#[derive(Debug, Clone)]
struct Bucket {
    /// Time of the tokens of the mean request.
    token_s: f64,
    /// Time in which an empty bucket fills.
    burst_s: f64,
    tokens: Vec<TokenShare>,
    /// Time after which all tokens return at once that the rate gives in it; 0 if they return evenly.
    interval_s: f64,
    /// Begin of the interval under way, or of the time since which tokens return evenly.
    since_s: f64,
    /// Time of the tokens that were missing then.
    missing_s: f64,
}

/// Share of an interval by which times that were added up may miss its end.
const ROUNDING: f64 = 1e-9;

impl Bucket {
    fn new(limit: &RateLimit) -> Self {
        let token_s = 1.0 / (limit.requests_per_s * limit.share);
        let burst_s = limit.burst_requests * limit.share * token_s;
        let (tokens, interval_s) = (limit.tokens.clone(), limit.interval_s);
        Self { token_s, burst_s, tokens, interval_s, since_s: 0.0, missing_s: 0.0 }
    }

    /// Time of the tokens of a request at a share of the requests, 0 to 1.
    fn tokens_s(&self, at: f64) -> f64 {
        let mut left = at;
        let taken = self.tokens.iter().find(|taken| {
            left -= taken.share;
            left < 0.0
        });
        taken.or(self.tokens.last()).map_or(1.0, |taken| taken.tokens) * self.token_s
    }

    /// Queue time up to which a request with tokens of that time is not held.
    const fn room_s(&self, tokens_s: f64) -> f64 {
        (self.burst_s - tokens_s).max(0.0)
    }

    /// Earliest time from `now_s` on at which the bucket holds the tokens of a request.
    fn ready_s(&self, now_s: f64, tokens_s: f64) -> f64 {
        let lacking_s = self.missing_s - self.room_s(tokens_s);
        if self.interval_s > 0.0 {
            let intervals = (lacking_s / self.interval_s - ROUNDING).ceil().max(0.0);
            return now_s.max(self.since_s + intervals * self.interval_s);
        }
        now_s.max(self.since_s + lacking_s)
    }

    /// Time that counts for the return of tokens: that since `since_s`, in whole intervals if there are any.
    fn passed_s(&self, now_s: f64) -> f64 {
        let passed_s = (now_s - self.since_s).max(0.0);
        if self.interval_s > 0.0 {
            return (passed_s / self.interval_s + ROUNDING).floor() * self.interval_s;
        }
        passed_s
    }

    /// Queue time of a request that arrives then at a server that takes the time of its tokens for each.
    const fn queue_s(&self, now_s: f64) -> f64 {
        (self.since_s + self.missing_s - now_s).max(0.0)
    }

    /// Time of the tokens that are missing.
    fn missing_s(&self, now_s: f64) -> f64 {
        (self.missing_s - self.passed_s(now_s)).max(0.0)
    }

    /// Takes the tokens of a request, at a time at which there are as many.
    fn take(&mut self, now_s: f64, tokens_s: f64) {
        let missing_s = self.missing_s(now_s);
        let is_full = missing_s <= self.token_s * ROUNDING;
        self.since_s = if is_full { self.since_s.max(now_s) } else { self.since_s + self.passed_s(now_s) };
        self.missing_s = missing_s + tokens_s;
    }
}

/// A drawn request.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    /// Place in order of arrival.
    number: usize,
    release_s: f64,
    /// Time for which it was held.
    held_s: f64,
    /// Queue time at its bucket and time of its tokens, if there is one bucket and the request counts.
    queue_and_tokens_s: Option<(f64, f64)>,
    /// Draw of its service time.
    service: f64,
}

/// Steady state of Poisson arrivals at a server behind limits that count the same `share` of the requests. `after_idle` are
/// the service times of requests that arrive at an idle server, and `unlimited` the response times of the server alone.
///
/// # Errors
/// No arrivals. Arrivals above the rate of a limit or of the server have no steady state; the caller refuses them.
pub fn limited_queue(
    arrivals_per_s: f64,
    limits: &[RateLimit],
    service: &ServiceTimes,
    after_idle: &ServiceTimes,
    unlimited: &Unlimited,
) -> Result<LimitedSteady, EstimateError> {
    check_positive("arrivals_per_s", arrivals_per_s)?;
    let mut requests = drawn(arrivals_per_s, limits);
    let mut server = Server { service, after_idle, free_s: 0.0 };
    // Arrivals are in order, so the server alone takes them as they come.
    let alone_s: Vec<f64> = requests
        .iter()
        .map(|request| {
            let arrival_s = request.release_s - request.held_s;
            server.serve(arrival_s, request.service);
            server.free_s - arrival_s
        })
        .collect();
    if let [limit] = limits
        && limit.interval_s <= 0.0
    {
        hold_as_expected(&mut requests, arrivals_per_s * limit.share, &Bucket::new(limit))?;
    }
    requests.sort_by(|one, other| one.release_s.total_cmp(&other.release_s));
    let mut server = Server { service, after_idle, free_s: 0.0 };
    let (mut busy_s, mut square_s2) = (0.0, 0.0);
    let mut times_s = vec![0.0; requests.len()];
    for request in requests {
        let service_s = server.serve(request.release_s, request.service);
        times_s[request.number] = server.free_s - request.release_s + request.held_s;
        if request.number >= WARM_UP {
            busy_s += service_s;
            square_s2 += service_s * service_s;
        }
    }
    let counted = Controlled { times_s: &times_s[WARM_UP..], controls_s: &alone_s[WARM_UP..] };
    let count = counted.times_s.len() as f64;
    let mean_s = busy_s / count;
    let response_mean_s = counted.figure(mean_of, unlimited.mean_s).max(mean_s);
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
        quantiles_s: counted.quantiles_s(&unlimited.quantiles_s),
    })
}

/// A server in order of arrival.
struct Server<'a> {
    service: &'a ServiceTimes,
    after_idle: &'a ServiceTimes,
    /// End of the last service.
    free_s: f64,
}

impl Server<'_> {
    /// Serves a request that comes then, and returns the time that its service takes.
    fn serve(&mut self, now_s: f64, draw: f64) -> f64 {
        let times = if now_s >= self.free_s { self.after_idle } else { self.service };
        let service_s = times.quantile_s(draw);
        self.free_s = self.free_s.max(now_s) + service_s;
        service_s
    }
}

/// Response times, and those of the same requests under a load whose figures are known.
struct Controlled<'a> {
    times_s: &'a [f64],
    controls_s: &'a [f64],
}

impl Controlled<'_> {
    /// A figure of the times, corrected by the deviation of the control from its exact figure.
    fn figure(&self, of: impl Fn(&[f64]) -> f64, exact_s: f64) -> f64 {
        let whole = (of(self.times_s), of(self.controls_s));
        let length = self.times_s.len() / BATCHES;
        let batches = self.times_s.chunks_exact(length).zip(self.controls_s.chunks_exact(length));
        let slope = slope(batches.map(|(times_s, controls_s)| (of(times_s), of(controls_s))), whole);
        // The time at the server is one part of the time behind limits, which can only make it shorter.
        whole.0 - slope.clamp(0.0, 1.0) * (whole.1 - exact_s)
    }

    fn quantiles_s(&self, exact_s: &Quantiles) -> Quantiles {
        let mut least_s = 0.0_f64;
        std::array::from_fn(|index| {
            let of = |times_s: &[f64]| quantile_s(&mut times_s.to_vec(), SHARES[index]);
            least_s = least_s.max(self.figure(of, exact_s[index]));
            least_s
        })
    }
}

fn mean_of(times_s: &[f64]) -> f64 {
    times_s.iter().sum::<f64>() / times_s.len() as f64
}

/// Draws requests and holds them.
fn drawn(arrivals_per_s: f64, limits: &[RateLimit]) -> Vec<Drawn> {
    let share = limits.first().map_or(0.0, |limit| limit.share);
    let mut buckets: Vec<Bucket> = limits.iter().map(Bucket::new).collect();
    let mut stream = Seed(0).stream("estimate.limited_queue");
    let mut lengths = Seed(0).stream("estimate.limited_queue.tokens");
    let (mut now_s, mut last_release_s) = (0.0_f64, 0.0_f64);
    (0..REQUESTS)
        .map(|number| {
            let [interarrival, counts, service] = std::array::from_fn(|_| stream.unit());
            now_s -= (1.0 - interarrival).ln() / arrivals_per_s;
            if counts >= share {
                return Drawn { number, release_s: now_s, held_s: 0.0, queue_and_tokens_s: None, service };
            }
            let first_s = now_s.max(last_release_s);
            let length = lengths.unit();
            let ready = |bucket: &Bucket| bucket.ready_s(first_s, bucket.tokens_s(length));
            last_release_s = buckets.iter().map(ready).fold(first_s, f64::max);
            let queue_and_tokens_s = match &buckets[..] {
                [bucket] => Some((bucket.queue_s(now_s), bucket.tokens_s(length))),
                _ => None,
            };
            for bucket in &mut buckets {
                bucket.take(last_release_s, bucket.tokens_s(length));
            }
            let held_s = last_release_s - now_s;
            Drawn { number, release_s: last_release_s, held_s, queue_and_tokens_s, service }
        })
        .collect()
}

/// Requests of Poisson arrivals that a limit holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    /// Mean time for which it holds them, in seconds, over all requests.
    pub mean_s: f64,
    /// Share of all requests that it holds at all.
    pub share: f64,
}

/// Requests that a limit holds, over all drawn requests.
pub fn drawn_held(arrivals_per_s: f64, limit: &RateLimit) -> Held {
    let requests = &drawn(arrivals_per_s, std::slice::from_ref(limit))[WARM_UP..];
    let count = requests.len() as f64;
    Held {
        mean_s: requests.iter().map(|request| request.held_s).sum::<f64>() / count,
        share: requests.iter().filter(|request| request.held_s > 0.0).count() as f64 / count,
    }
}

/// Points at which the times of the tokens are taken as those of services.
const TOKEN_POINTS: usize = 4_096;

/// Replaces the drawn queue times at a bucket by the quantiles of M/G/1 at their ranks, and the held times that follow. Releases
/// stay, for the server sees the order and the distances of the draw.
fn hold_as_expected(requests: &mut [Drawn], held_per_s: f64, bucket: &Bucket) -> Result<(), EstimateError> {
    let service = match &bucket.tokens[..] {
        [_] => ServiceTimes::constant(bucket.token_s),
        _ => {
            let at = |point: usize| bucket.tokens_s((point as f64 + 0.5) / TOKEN_POINTS as f64);
            ServiceTimes::sample((0..TOKEN_POINTS).map(at).collect())
        }
    };
    let times = mg1_queue_times(held_per_s, &service)?;
    let counted = requests[WARM_UP..].iter_mut().filter_map(|request| {
        let (queue_s, tokens_s) = request.queue_and_tokens_s?;
        Some((queue_s, tokens_s, &mut request.held_s))
    });
    let mut counted: Vec<(f64, f64, &mut f64)> = counted.collect();
    counted.sort_by(|one, other| one.0.total_cmp(&other.0));
    let count = counted.len() as f64;
    for (rank, (_, tokens_s, held_s)) in counted.into_iter().enumerate() {
        let queue_s = times.quantile_s((rank as f64 + 0.5) / count);
        *held_s = (queue_s - bucket.room_s(tokens_s)).max(0.0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::mg1_response_times;

    /// The steady state behind limits of a server without effects of idle times.
    fn limited(arrivals_per_s: f64, limits: &[RateLimit], service: &ServiceTimes) -> LimitedSteady {
        let (steady, times) = mg1_response_times(arrivals_per_s, service).unwrap();
        let quantiles_s = SHARES.map(|share| times.quantile_s(share));
        let unlimited = Unlimited { mean_s: steady.response_mean_s, quantiles_s };
        limited_queue(arrivals_per_s, limits, service, service, &unlimited).unwrap()
    }

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    #[test]
    fn bucket_of_one_token_is_a_server_of_constant_time() {
        // A device that takes next to nothing: the response time is the queue time of M/D/1 with the time of a token.
        let (token, none) = (ServiceTimes::constant(0.01), ServiceTimes::constant(1e-9));
        let limit = RateLimit::of_requests(100.0, 1.0, 1.0);
        for arrivals_per_s in [50.0, 80.0] {
            let found = limited(arrivals_per_s, std::slice::from_ref(&limit), &none);
            let (steady, times) = mg1_response_times(arrivals_per_s, &token).unwrap();
            near(found.steady.response_mean_s, steady.queue_time_mean_s, 0.02);
            for (share, quantile_s) in SHARES.into_iter().zip(found.quantiles_s).skip(1) {
                near(quantile_s + 0.01, times.quantile_s(share), 0.03);
            }
        }
    }

    #[test]
    fn tokens_that_return_in_portions_are_held_to_the_end_of_an_interval() {
        // One token in each second from the first request that meets a full bucket: the next interval begins with the request that
        // the last one let go, or with an arrival behind its end.
        let limit = RateLimit { interval_s: 1.0, ..RateLimit::of_requests(1.0, 1.0, 1.0) };
        let mut bucket = Bucket::new(&limit);
        for (now_s, ready_s) in [(0.3, 0.3), (0.4, 1.3), (1.4, 2.3), (3.5, 3.5), (4.0, 4.5)] {
            assert!((bucket.ready_s(now_s, 1.0) - ready_s).abs() < 1e-6, "{now_s} {bucket:?}");
            bucket.take(ready_s, 1.0);
        }
        // 60 in each tenth of a second: all are missing until it ends.
        let limit = RateLimit { interval_s: 0.1, ..RateLimit::of_requests(600.0, 60.0, 1.0) };
        let mut bucket = Bucket::new(&limit);
        for number in 0..600 {
            let ready_s = bucket.ready_s(0.0, bucket.token_s);
            assert!((ready_s - 0.1 * f64::from(number / 60)).abs() < 1e-6, "{number} {ready_s}");
            bucket.take(ready_s, bucket.token_s);
        }
    }

    #[test]
    fn long_requests_take_more_tokens() {
        // 60 % of 8 KiB and 40 % of 64 KiB, and a bucket that is full before it has the tokens of any: M/G/1 with the times of
        // their tokens.
        let tokens = vec![
            TokenShare { tokens: 8.0 / 30.4, share: 0.6 },
            TokenShare { tokens: 64.0 / 30.4, share: 0.4 },
        ];
        let limit = RateLimit { tokens: tokens.clone(), ..RateLimit::of_requests(100.0, 0.0, 1.0) };
        let none = ServiceTimes::constant(1e-9);
        let times = tokens.iter().flat_map(|taken| vec![taken.tokens / 100.0; (taken.share * 10.0) as usize]);
        let times = ServiceTimes::sample(times.collect());
        for arrivals_per_s in [50.0, 90.0] {
            let found = limited(arrivals_per_s, std::slice::from_ref(&limit), &none);
            let (steady, _) = mg1_response_times(arrivals_per_s, &times).unwrap();
            near(found.steady.response_mean_s, steady.queue_time_mean_s, 0.01);
            near(found.steady.response_mean_s, crate::open::held_by(arrivals_per_s, &limit).mean_s, 0.01);
            let queue = mg1_queue_times(arrivals_per_s, &times).unwrap();
            near(found.quantiles_s[3], queue.quantile_s(0.99), 0.01);
        }
    }

    #[test]
    fn limits_that_never_hold_leave_the_server_alone() {
        let service = ServiceTimes::Exponential { mean_s: 0.01 };
        let limit = RateLimit::of_requests(1e6, 1e9, 1.0);
        for arrivals_per_s in [60.0, 95.0] {
            let found = limited(arrivals_per_s, std::slice::from_ref(&limit), &service);
            let (steady, times) = mg1_response_times(arrivals_per_s, &service).unwrap();
            // The draw is corrected to the last digits, near saturation too.
            near(found.steady.response_mean_s, steady.response_mean_s, 1e-9);
            for (share, quantile_s) in SHARES.into_iter().zip(found.quantiles_s) {
                near(quantile_s, times.quantile_s(share), 1e-9);
            }
        }
    }

    #[test]
    fn requests_that_do_not_count_are_not_held() {
        // Half of the requests share 60 tokens per second: 50 of 100 arrivals are held, the median one is not.
        let limit = RateLimit::of_requests(120.0, 2.0, 0.5);
        let none = ServiceTimes::constant(1e-6);
        let found = limited(100.0, &[limit], &none);
        assert!(found.quantiles_s[0] < 2e-6 && found.quantiles_s[1] > 0.02, "{found:?}");
    }
}
