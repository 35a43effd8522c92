//! The service law of a device: service times for a demand, with a number of requests outstanding.
//!
//! ```text
//!   Demand (operations, sizes, addresses, order) ─▶ Kind ─▶ ServiceLaw (service times by number outstanding, limits)
//!                                                  children's laws ─┘
//! ```
//! A kind states its law if it has a closed form or an integral. Where it states none, `seeklab-estimate` samples the
//! law by short closed runs.
//!
//! # Scope and limits
//! A law is of the steady state without faults. [`Device::estimate`](seeklab_core::Device) answers another question: the
//! positioning time of one request now.

mod demand;
mod service_times;
mod write_buffer;

pub use demand::{Addresses, Demand, SizeShare};
pub use service_times::ServiceTimes;
pub use write_buffer::{BufferedWrites, WriteBuffer};

use seeklab_core::Duration;

/// Origin of a law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LawOrigin {
    /// Exact formulas.
    Exact,
    /// The integral of the model's access times over addresses and rotation.
    Integrated,
    /// Short closed runs of the simulator.
    Sampled,
}

/// Service times with a number of requests outstanding.
#[derive(Debug, Clone, PartialEq)]
pub struct LawPoint {
    /// Outstanding requests of a closed load, at least one. When one completes, the next is chosen among one less.
    pub outstanding: u32,
    /// Time by which each request prolongs a busy period: the time between completions.
    pub service: ServiceTimes,
    /// Response times while this number is outstanding, if they were sampled.
    pub response: Option<ServiceTimes>,
}

/// Order in which waiting requests are served while their number stays the same.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderPoint {
    /// Requests among which each is chosen, at least one.
    pub waiting: u32,
    /// Shares of the requests that were passed over at least 0, 1, … times before they were chosen.
    pub passed_over: Vec<f64>,
}

/// Tokens of a limit that a share of the requests takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenShare {
    /// Tokens of a request, in those of the mean request.
    pub tokens: f64,
    /// Share of the requests that count, 0 to 1.
    pub share: f64,
}

/// A limit of the sustained rate.
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimit {
    /// Requests of the demand per second.
    pub requests_per_s: f64,
    /// Requests that pass at once after a pause.
    pub burst_requests: f64,
    /// Share of the requests of the demand that count and are held.
    pub share: f64,
    /// Tokens of the requests that count. The shares sum to 1, and the mean is 1.
    pub tokens: Vec<TokenShare>,
    /// Seconds after which all tokens return at once that the rate gives in them; 0 if they return evenly.
    pub interval_s: f64,
}

impl RateLimit {
    /// A limit of requests that take one token each.
    pub fn of_requests(requests_per_s: f64, burst_requests: f64, share: f64) -> Self {
        let tokens = vec![TokenShare { tokens: 1.0, share: 1.0 }];
        Self { requests_per_s, burst_requests, share, tokens, interval_s: 0.0 }
    }

    /// Time until requests at a rate have used up the burst. `None` if the limit sustains them.
    pub fn burst_lasts(&self, arrivals_per_s: f64) -> Option<Duration> {
        let excess_per_s = arrivals_per_s - self.requests_per_s;
        (excess_per_s > 0.0).then(|| Duration::from_ms_f64(1e3 * self.burst_requests / excess_per_s))
    }
}

/// Service times of a device for a demand.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceLaw {
    /// Origin of the law.
    pub origin: LawOrigin,
    /// Service times by ascending number outstanding, the first with one. Beyond the last they stay the same.
    pub points: Vec<LawPoint>,
    /// Service times of requests that arrive at an idle device, if they differ from those with one outstanding.
    pub after_idle: Option<ServiceTimes>,
    /// Requests that are in service together at most; 1 of one server.
    pub servers: f64,
    /// True if requests complete in order of arrival.
    pub in_order: bool,
    /// Order of service by ascending number waiting, if it is not that of arrival and was sampled.
    pub order: Vec<OrderPoint>,
    /// Limits of the sustained rate.
    pub limits: Vec<RateLimit>,
    /// Buffer of writes that complete before they are on the media. The points are then those of a full buffer.
    pub buffered_writes: Option<Box<BufferedWrites>>,
}

impl ServiceLaw {
    /// The law of one server in order of arrival, whose service time does not depend on the queue.
    pub fn of_server(origin: LawOrigin, service: ServiceTimes) -> Self {
        let points = vec![LawPoint { outstanding: 1, service, response: None }];
        Self {
            origin,
            points,
            after_idle: None,
            servers: 1.0,
            in_order: true,
            order: Vec::new(),
            limits: Vec::new(),
            buffered_writes: None,
        }
    }

    /// The points on both sides of a number outstanding and the weight of the second, on a logarithmic scale.
    fn around(&self, outstanding: f64) -> (&LawPoint, &LawPoint, f64) {
        let after = self.points.partition_point(|point| f64::from(point.outstanding) <= outstanding);
        let before = &self.points[after.saturating_sub(1)];
        let Some(next) = self.points.get(after).filter(|_| after > 0) else { return (before, before, 0.0) };
        let (low, high) = (f64::from(before.outstanding), f64::from(next.outstanding));
        (before, next, (outstanding / low).ln() / (high / low).ln())
    }

    /// Mean service time with a number outstanding, in seconds.
    pub fn mean_s(&self, outstanding: f64) -> f64 {
        let (before, next, weight) = self.around(outstanding);
        (1.0 - weight) * before.service.mean_s() + weight * next.service.mean_s()
    }

    /// Variance of the service time with a number outstanding, in seconds squared.
    pub fn variance_s2(&self, outstanding: f64) -> f64 {
        let (before, next, weight) = self.around(outstanding);
        (1.0 - weight) * before.service.variance_s2() + weight * next.service.variance_s2()
    }

    /// Service time, in seconds, that a share of the requests, below 1, does not exceed with a number outstanding.
    pub fn quantile_s(&self, outstanding: f64, share: f64) -> f64 {
        let (before, next, weight) = self.around(outstanding);
        (1.0 - weight) * before.service.quantile_s(share) + weight * next.service.quantile_s(share)
    }

    /// Outstanding requests from which on the law stays the same.
    pub fn constant_from(&self) -> u32 {
        self.points.last().map_or(1, |point| point.outstanding)
    }

    /// Requests per second with the longest queue of the law, its limits not counted; infinite without service time.
    pub fn service_rate_per_s(&self) -> f64 {
        let greatest = self.points.iter().map(|point| 1.0 / point.service.mean_s());
        greatest.fold(0.0, f64::max)
    }

    /// Share of the requests that pile up beyond the highest sustained rate: those that its limit holds, or all.
    pub fn saturating_share(&self) -> f64 {
        let least =
            self.limits.iter().min_by(|one, other| one.requests_per_s.total_cmp(&other.requests_per_s));
        least
            .filter(|limit| limit.requests_per_s < self.service_rate_per_s())
            .map_or(1.0, |limit| limit.share)
    }

    /// Highest sustained rate of completions per second, with its limits.
    pub fn saturation_per_s(&self) -> f64 {
        self.limits.iter().map(|limit| limit.requests_per_s).fold(self.service_rate_per_s(), f64::min)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::Description;

    fn law() -> ServiceLaw {
        let point = |outstanding, time_s| LawPoint {
            outstanding,
            service: ServiceTimes::constant(time_s),
            response: None,
        };
        ServiceLaw {
            points: vec![point(1, 0.01), point(4, 0.008), point(16, 0.004)],
            ..ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.01))
        }
    }

    #[test]
    fn means_are_interpolated_between_the_points() {
        let law = law();
        assert_eq!([1.0, 4.0, 16.0, 100.0].map(|n| law.mean_s(n)), [0.01, 0.008, 0.004, 0.004]);
        assert!((law.mean_s(2.0) - 0.009).abs() < 1e-12 && (law.mean_s(8.0) - 0.006).abs() < 1e-12);
        assert_eq!((law.constant_from(), law.variance_s2(3.0)), (16, 0.0));
    }

    #[test]
    fn saturation_is_the_least_of_service_and_limits() {
        let mut law = law();
        assert!((law.saturation_per_s() - 250.0).abs() < 1e-9);
        law.limits.push(RateLimit::of_requests(100.0, 50.0, 1.0));
        assert_eq!(law.saturation_per_s(), 100.0);
        assert_eq!(law.saturating_share(), 1.0);
        law.limits[0].share = 0.5;
        assert_eq!(law.saturating_share(), 0.5);
        law.limits.push(RateLimit::of_requests(300.0, 1.0, 0.1));
        assert_eq!(law.saturating_share(), 0.5);
        assert_eq!(law.limits[0].burst_lasts(150.0), Some(Duration::from_ms(1_000)));
        assert_eq!(law.limits[0].burst_lasts(100.0), None);
    }

    /// The law of a description for reads of 4 KiB, and the kinds of the devices that had to be sampled.
    fn law_of(text: &str) -> (Option<ServiceLaw>, Vec<&'static str>) {
        let description = Description::parse("test", "test.toml", text).unwrap();
        let sampled = RefCell::new(Vec::new());
        let sample = |node: &Description| {
            sampled.borrow_mut().push(node.kind().name);
            Some(ServiceLaw::of_server(LawOrigin::Sampled, ServiceTimes::constant(0.004)))
        };
        let demand = Demand::random_reads(&description.capabilities().unwrap(), 8);
        (description.service_law(&demand, &sample), sampled.into_inner())
    }

    const SERVER: &str =
        "kind = 'constant'\ncapacity_blocks = 1000\nblock_size = '512B'\nservice_time = '1ms'\n";

    #[test]
    fn limit_adds_its_rates_to_the_law_of_its_device() {
        let limit = "kind = 'limit'\n[[requests]]\nrate = '100/s'\nburst = 50\n[[bytes]]\nrate = '1MB/s'\n\
                     burst = '2MB'\n[device]\n";
        let (law, sampled) = law_of(&format!("{limit}{SERVER}"));
        let law = law.unwrap();
        assert!(sampled.is_empty() && law.mean_s(1.0) == 0.001);
        let [requests, bytes] = &law.limits[..] else { panic!("{:?}", law.limits) };
        assert_eq!((requests.requests_per_s, requests.burst_requests), (100.0, 50.0));
        // Requests have 4,096 bytes.
        assert!((bytes.requests_per_s - 1e6 / 4096.0).abs() < 1e-9, "{bytes:?}");
        assert_eq!(law.saturation_per_s(), 100.0);
        let writes = limit.replacen("'limit'", "'limit'\nof = 'writes'", 1);
        assert!(law_of(&format!("{writes}{SERVER}")).0.unwrap().limits.is_empty());
        assert!(requests.share == 1.0 && bytes.share == 1.0);
    }

    #[test]
    fn queue_passes_the_law_of_its_device_on_or_is_sampled() {
        let (law, sampled) = law_of(&format!("kind = 'queue'\n[device]\n{SERVER}"));
        assert!(law.unwrap().origin == LawOrigin::Exact && sampled.is_empty());
        let (law, sampled) = law_of(&format!("kind = 'queue'\nscheduler = 'c-look'\n[device]\n{SERVER}"));
        assert_eq!((law.unwrap().origin, sampled), (LawOrigin::Sampled, vec!["queue"]));
    }
}
