//! Tests of the assumptions of an estimate.
//!
//! | assumption | figure | holds if |
//! | --- | --- | --- |
//! | Poisson arrivals | variance over mean of the arrivals in windows of 16 mean interarrival times, around the means of eight stretches | within four deviations of 1 |
//! | Poisson batches | as of Poisson arrivals; arrivals at one time count once | likewise |
//! | stationary arrivals | arrivals of the busiest of eight stretches of equal time over the mean of all | at most 1.1, or four deviations above 1 |
//! | independent services | correlation of the service times of consecutive requests | within four deviations of 0, or 0.1 |
//! | services independent of idle times | mean service after an idle time over that without | within 5 % of 1 |
//! | addresses of the law | mean distance between consecutive requests over that of the requests of the law | 0.8 to 1.25 |
//! | sizes of the law | mean length of the requests over that of the requests of the law | within 10 % of 1 |
//! | operations of the law | share of reads less that of the requests of the law | within 0.1 of 0 |
//! | writes of the law | share of the requests that are writes into a buffer that empties in idle times, if the law is that of a full buffer | 0 |
//! | exponential services | standard deviation over mean of the service times, of the device where it is farthest from 1 | within 0.1 of 1 |
//! | independent routing | consecutive requests of one device over as many as of independent requests | within 0.1 of 1 |
//! | no faults | share of the requests that a fault struck | 0 |
//! | limits in the steady state | time until the burst of a limit has run out over the time of the load | at most 0.1 |

use seeklab_core::{Instant, Operation};
use seeklab_devices::service_law::ServiceLaw;

use crate::method::Method;

/// Deviations of the figure of a random load that an assumption allows.
const DEVIATIONS: f64 = 4.0;

/// Mean interarrival times in a window of the dispersion.
const WINDOW: f64 = 16.0;

/// Stretches of equal time whose rates are compared.
const STRETCHES: usize = 8;

/// Windows of a stretch at least; with fewer the whole time is one stretch.
const STRETCH_WINDOWS: usize = 8;

/// A tested assumption.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assumption {
    /// The assumption.
    pub kind: AssumptionKind,
    /// Figure of the test.
    pub figure: f64,
    /// Least figure with which the assumption holds.
    pub min: f64,
    /// Greatest figure with which the assumption holds.
    pub max: f64,
}

/// Assumptions that are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssumptionKind {
    /// Arrivals are a Poisson process.
    PoissonArrivals,
    /// Batches of requests arrive as a Poisson process.
    PoissonBatches,
    /// The rate of arrivals does not change.
    StationaryArrivals,
    /// Service times do not depend on those before.
    IndependentServices,
    /// Service times do not depend on idle times before.
    ServicesIndependentOfIdle,
    /// Requests lie as far apart as those that the law was made from.
    AddressesOfTheLaw,
    /// Requests are as long as those that the law was made from.
    SizesOfTheLaw,
    /// As many requests are reads as of those that the law was made from.
    OperationsOfTheLaw,
    /// Think times are exponential.
    ExponentialThinkTimes,
    /// Service times of the devices of a network are exponential.
    ExponentialServices,
    /// The device of a request does not depend on that of the one before.
    IndependentRouting,
    /// No write goes into a buffer that empties in idle times, which a law of closed runs lacks.
    WritesOfTheLaw,
    /// No request is struck by a fault.
    NoFaults,
    /// The load outlasts the bursts of the limits.
    LimitsInSteadyState,
}

impl AssumptionKind {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PoissonArrivals => "poisson_arrivals",
            Self::PoissonBatches => "poisson_batches",
            Self::StationaryArrivals => "stationary_arrivals",
            Self::IndependentServices => "independent_services",
            Self::ServicesIndependentOfIdle => "services_independent_of_idle",
            Self::AddressesOfTheLaw => "addresses_of_the_law",
            Self::SizesOfTheLaw => "sizes_of_the_law",
            Self::OperationsOfTheLaw => "operations_of_the_law",
            Self::ExponentialThinkTimes => "exponential_think_times",
            Self::ExponentialServices => "exponential_services",
            Self::IndependentRouting => "independent_routing",
            Self::WritesOfTheLaw => "writes_of_the_law",
            Self::NoFaults => "no_faults",
            Self::LimitsInSteadyState => "limits_in_steady_state",
        }
    }

    /// The figure of the test, in words.
    pub const fn figure_in_words(self) -> &'static str {
        match self {
            Self::PoissonArrivals => "variance over mean of arrivals in windows",
            Self::PoissonBatches => "variance over mean of batches in windows",
            Self::StationaryArrivals => {
                "arrivals of the busiest eighth of the time over the mean of all eighths"
            }
            Self::IndependentServices => "correlation of consecutive service times",
            Self::ServicesIndependentOfIdle => "mean service time after an idle time over that without",
            Self::AddressesOfTheLaw => {
                "mean distance between consecutive requests over that of the requests of the law"
            }
            Self::SizesOfTheLaw => "mean length of the requests over that of the requests of the law",
            Self::OperationsOfTheLaw => "share of reads less that of the requests of the law",
            Self::ExponentialServices => {
                "standard deviation of the service times of a device over their mean"
            }
            Self::IndependentRouting => {
                "share of the requests for the device of the one before, over that of independent requests,"
            }
            Self::ExponentialThinkTimes => "standard deviation of the think times over their mean",
            Self::WritesOfTheLaw => {
                "share of the writes into a buffer that empties in idle times, where the law is that of a full one,"
            }
            Self::NoFaults => "share of the requests that a fault struck",
            Self::LimitsInSteadyState => {
                "time until the burst of a limit has run out over the time of the load"
            }
        }
    }
}

impl Method {
    /// Returns true if the figures of the method rest on an assumption.
    pub const fn relies_on(self, kind: AssumptionKind) -> bool {
        match kind {
            AssumptionKind::PoissonArrivals => !matches!(
                self,
                Self::Closed
                    | Self::ClosedReplay
                    | Self::FinitePopulation
                    | Self::ConstantThinkTimes
                    | Self::MeanValueAnalysis
                    | Self::Mxg1
                    | Self::Lindley
                    | Self::LindleyReordered
                    | Self::AllenCunneen
            ),
            AssumptionKind::PoissonBatches => matches!(self, Self::Mxg1),
            AssumptionKind::ExponentialServices | AssumptionKind::IndependentRouting => {
                matches!(self, Self::MeanValueAnalysis)
            }
            AssumptionKind::ExponentialThinkTimes => matches!(self, Self::FinitePopulation),
            // The recursion takes arrivals and service times as they are, and a closed load has no arrivals.
            AssumptionKind::StationaryArrivals
            | AssumptionKind::IndependentServices
            | AssumptionKind::ServicesIndependentOfIdle => {
                matches!(
                    self,
                    Self::Mg1
                        | Self::Mg1Priorities
                        | Self::Mxg1
                        | Self::DepartureChain
                        | Self::LimitedQueue
                        | Self::BirthDeath
                        | Self::AllenCunneen
                )
            }
            AssumptionKind::AddressesOfTheLaw
            | AssumptionKind::SizesOfTheLaw
            | AssumptionKind::OperationsOfTheLaw
            | AssumptionKind::WritesOfTheLaw
            | AssumptionKind::NoFaults
            // A closed replay is a run of the requests themselves and has no law.
            | AssumptionKind::LimitsInSteadyState => !matches!(self, Self::ClosedReplay),
        }
    }
}

impl Assumption {
    fn around(kind: AssumptionKind, figure: f64, centre: f64, allowed: f64) -> Self {
        Self { kind, figure, min: centre - allowed, max: centre + allowed }
    }

    /// Returns true if the assumption holds.
    pub fn holds(&self) -> bool {
        (self.min..=self.max).contains(&self.figure)
    }
}

/// Arrivals in windows of equal time, a number of windows for each of some stretches.
struct Windows {
    counts: Vec<u32>,
    stretches: usize,
}

impl Windows {
    /// Windows of 16 mean interarrival times; `None` with fewer than eight of them.
    fn of(arrivals: &[Instant]) -> Option<Self> {
        let (first, last) = (*arrivals.first()?, *arrivals.last()?);
        let span_s = last.saturating_since(first).as_s();
        let windows = (arrivals.len() as f64 / WINDOW) as usize;
        if windows < STRETCH_WINDOWS || span_s <= 0.0 {
            return None;
        }
        let stretches = if windows < STRETCHES * STRETCH_WINDOWS { 1 } else { STRETCHES };
        let windows = windows / stretches * stretches;
        let mut counts = vec![0_u32; windows];
        for arrival in arrivals {
            let place = arrival.saturating_since(first).as_s() / span_s * windows as f64;
            counts[(place as usize).min(windows - 1)] += 1;
        }
        Some(Self { counts, stretches })
    }

    /// Variance of the counts around the mean of their stretch, over the mean of all, and its degrees of freedom.
    fn dispersion(&self) -> (f64, f64) {
        let of_stretch = |counts: &[u32]| {
            let mean = counts.iter().copied().map(f64::from).sum::<f64>() / counts.len() as f64;
            counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>()
        };
        let squares: f64 = self.counts.chunks(self.counts.len() / self.stretches).map(of_stretch).sum();
        let freedom = (self.counts.len() - self.stretches) as f64;
        let mean = self.counts.iter().copied().map(f64::from).sum::<f64>() / self.counts.len() as f64;
        (squares / freedom / mean, freedom)
    }
}

/// Dispersion of arrivals in windows, for Poisson arrivals near 1. Changes of the rate from one eighth of the time to
/// another do not count, for they are those of [`stationary_arrivals`].
pub fn poisson_arrivals(arrivals: &[Instant]) -> Option<Assumption> {
    let (dispersion, freedom) = Windows::of(arrivals)?.dispersion();
    // Of a Poisson process the ratio has the deviation sqrt(2 / k) with k degrees of freedom.
    let allowed = DEVIATIONS * (2.0 / freedom).sqrt();
    Some(Assumption::around(AssumptionKind::PoissonArrivals, dispersion, 1.0, allowed))
}

/// As [`poisson_arrivals`], of arrivals that count once if they come at one time.
pub fn poisson_batches(arrivals: &[Instant]) -> Option<Assumption> {
    let mut batches = arrivals.to_vec();
    batches.dedup();
    poisson_arrivals(&batches)
        .map(|of_arrivals| Assumption { kind: AssumptionKind::PoissonBatches, ..of_arrivals })
}

/// Arrivals of the busiest of eight stretches over the mean. Bursts spread the rates of stretches, too, so the allowed
/// range grows with the dispersion of the arrivals.
pub fn stationary_arrivals(arrivals: &[Instant]) -> Option<Assumption> {
    let windows = Windows::of(arrivals).filter(|windows| windows.stretches > 1)?;
    let (dispersion, _) = windows.dispersion();
    let of_stretch = windows.counts.chunks(windows.counts.len() / windows.stretches);
    let busiest = of_stretch.map(|counts| counts.iter().sum::<u32>()).max()?;
    let mean = arrivals.len() as f64 / windows.stretches as f64;
    let allowed = (DEVIATIONS * (dispersion.max(1.0) / mean).sqrt()).max(0.1);
    Some(Assumption::around(AssumptionKind::StationaryArrivals, f64::from(busiest) / mean, 1.0, allowed))
}

/// Correlation of the service times of consecutive requests.
pub fn independent_services(services_s: &[f64]) -> Option<Assumption> {
    let count = services_s.len() as f64;
    if services_s.len() < 64 {
        return None;
    }
    let mean = services_s.iter().sum::<f64>() / count;
    let variance = services_s.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
    if variance <= 1e-12 * mean * mean {
        return None;
    }
    let products = services_s.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let correlation = products.sum::<f64>() / (count - 1.0) / variance;
    // Distances of consecutive independent places have a correlation of 0.1 already.
    let allowed = (DEVIATIONS / count.sqrt()).max(0.1);
    Some(Assumption::around(AssumptionKind::IndependentServices, correlation, 0.0, allowed))
}

/// Think times of a population of several members, whose standard deviation is that many times their mean.
pub fn exponential_think_times(variation: f64) -> Assumption {
    Assumption::around(AssumptionKind::ExponentialThinkTimes, variation, 1.0, 0.1)
}

/// Service times of the devices of a network, by the standard deviation over the mean of each: the farthest from 1.
pub fn exponential_services(variations: impl IntoIterator<Item = f64>) -> Option<Assumption> {
    let distance = |variation: &f64| (variation - 1.0).abs();
    let farthest = variations.into_iter().max_by(|one, other| distance(one).total_cmp(&distance(other)))?;
    Some(Assumption::around(AssumptionKind::ExponentialServices, farthest, 1.0, 0.1))
}

/// Requests that go to the device of the request before, over as many as independent requests with the same shares would. `None`
/// of fewer than 64 requests.
pub fn independent_routing(devices: impl IntoIterator<Item = u16>) -> Option<Assumption> {
    let mut counts = std::collections::BTreeMap::<u16, u64>::new();
    let (mut before, mut same, mut total) = (None, 0_u64, 0_u64);
    for device in devices {
        *counts.entry(device).or_default() += 1;
        same += u64::from(before == Some(device));
        total += 1;
        before = Some(device);
    }
    let of_all = total as f64;
    let independent: f64 = counts.values().map(|count| (*count as f64 / of_all).powi(2)).sum();
    let figure = same as f64 / (of_all - 1.0) / independent;
    (total >= 64).then(|| Assumption::around(AssumptionKind::IndependentRouting, figure, 1.0, 0.1))
}

/// Service times after idle times: those of a law that was sampled with and without them.
pub fn services_independent_of_idle(law: &ServiceLaw) -> Option<Assumption> {
    let alone_s = law.mean_s(1.0);
    let after_idle_s = law.after_idle.as_ref().map_or(alone_s, |times| times.mean_s());
    observed_after_idle(law, after_idle_s)
}

/// Service times after idle times, of a run in which their mean was `after_idle_s` seconds.
pub fn observed_after_idle(law: &ServiceLaw, after_idle_s: f64) -> Option<Assumption> {
    let alone_s = law.mean_s(1.0);
    let ratio = if alone_s > 0.0 { after_idle_s / alone_s } else { 1.0 };
    Some(Assumption::around(AssumptionKind::ServicesIndependentOfIdle, ratio, 1.0, 0.05))
}

/// Means of requests that decide about their service times.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RequestShape {
    /// Mean distance from the end of a request to the next, in blocks.
    pub distance_mean_blocks: f64,
    /// Mean length, in blocks.
    pub blocks_mean: f64,
    /// Share of reads.
    pub reads: f64,
}

impl RequestShape {
    /// Means of requests in their order: operation, first block, number of blocks. `None` of no requests.
    pub fn of(requests: impl IntoIterator<Item = (Operation, u64, u32)>) -> Option<Self> {
        let (mut count, mut reads, mut blocks_sum, mut distance_sum) = (0.0_f64, 0.0, 0.0, 0.0);
        let mut end_before = None;
        for (op, lbn, blocks) in requests {
            count += 1.0;
            reads += f64::from(u8::from(op == Operation::Read));
            blocks_sum += f64::from(blocks);
            distance_sum += end_before.map_or(0.0, |end: u64| lbn.abs_diff(end) as f64);
            end_before = Some(lbn.saturating_add(u64::from(blocks)));
        }
        (count > 0.0).then(|| Self {
            distance_mean_blocks: distance_sum / (count - 1.0).max(1.0),
            blocks_mean: blocks_sum / count,
            reads: reads / count,
        })
    }
}

/// Distances, lengths and operations of requests against those that a law was made from.
pub fn requests_of_the_law(requests: RequestShape, law: RequestShape) -> [Assumption; 3] {
    // A length is added so that sequential requests, without a distance, give a ratio.
    let length = law.blocks_mean.max(1.0);
    let distance = (requests.distance_mean_blocks + length) / (law.distance_mean_blocks + length);
    let length = requests.blocks_mean / law.blocks_mean.max(f64::MIN_POSITIVE);
    [
        Assumption { kind: AssumptionKind::AddressesOfTheLaw, figure: distance, min: 0.8, max: 1.25 },
        Assumption::around(AssumptionKind::SizesOfTheLaw, length, 1.0, 0.1),
        Assumption::around(AssumptionKind::OperationsOfTheLaw, requests.reads - law.reads, 0.0, 0.1),
    ]
}

/// Share of the requests that are writes into a buffer, of a law that has only full buffers.
pub fn writes_of_the_law(share: f64) -> Assumption {
    Assumption { kind: AssumptionKind::WritesOfTheLaw, figure: share, min: 0.0, max: 0.0 }
}

/// Share of the requests that a fault struck.
pub fn no_faults(struck: u64, requests: u64) -> Assumption {
    let share = if requests == 0 { 0.0 } else { struck as f64 / requests as f64 };
    Assumption { kind: AssumptionKind::NoFaults, figure: share, min: 0.0, max: 0.0 }
}

/// Time until the bursts of the limits have run out, over the time of a load that exceeds the limits. `None` if no limit
/// is exceeded.
pub fn limits_in_steady_state(law: &ServiceLaw, arrivals_per_s: f64, load_s: f64) -> Option<Assumption> {
    let lasts = law.limits.iter().filter_map(|limit| limit.burst_lasts(arrivals_per_s));
    let last_s = lasts.map(|time| time.as_s()).reduce(f64::min)?;
    let figure = last_s / load_s.max(f64::MIN_POSITIVE);
    Some(Assumption { kind: AssumptionKind::LimitsInSteadyState, figure, min: 0.0, max: 0.1 })
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, Seed};
    use seeklab_devices::service_law::{LawOrigin, RateLimit, ServiceTimes};

    use super::*;

    fn poisson(count: usize, growth: f64) -> Vec<Instant> {
        let mut stream = Seed(3).stream("test");
        let mut now = Instant::ZERO;
        let step = |index: usize| {
            let mean_ms = 10.0 / (1.0 + growth * index as f64 / count as f64);
            now += stream.exponential(Duration::from_ms_f64(mean_ms));
            now
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn poisson_arrivals_pass_and_bursts_fail() {
        let arrivals = poisson(20_000, 0.0);
        assert!(poisson_arrivals(&arrivals).unwrap().holds());
        assert!(stationary_arrivals(&arrivals).unwrap().holds());
        let bursts: Vec<Instant> =
            (0..20_000_u64).map(|i| Instant::from_ns(i / 32 * 1_000_000_000)).collect();
        let found = poisson_arrivals(&bursts).unwrap();
        assert!(!found.holds() && found.figure > 10.0, "{found:?}");
        let regular: Vec<Instant> = (0..20_000_u64).map(|i| Instant::from_ns(i * 1_000_000)).collect();
        assert!(!poisson_arrivals(&regular).unwrap().holds());
    }

    #[test]
    fn growing_rates_are_a_trend() {
        let found = stationary_arrivals(&poisson(20_000, 1.0)).unwrap();
        assert!(!found.holds() && found.figure > 1.2, "{found:?}");
        // The trend is no dispersion: within each eighth of the time the arrivals are Poisson.
        assert!(poisson_arrivals(&poisson(20_000, 1.0)).unwrap().holds());
    }

    #[test]
    fn stationary_bursts_are_no_trend() {
        let mut stream = Seed(5).stream("test");
        let mut now = Instant::ZERO;
        let burst = |index: u32| {
            if index.is_multiple_of(16) {
                now += stream.exponential(Duration::from_ms_f64(160.0));
            }
            now
        };
        let arrivals: Vec<Instant> = (0..20_000).map(burst).collect();
        assert!(!poisson_arrivals(&arrivals).unwrap().holds());
        let found = stationary_arrivals(&arrivals).unwrap();
        assert!(found.holds(), "{found:?}");
    }

    #[test]
    fn requests_outside_the_law_are_named() {
        let shape = |requests: &[(Operation, u64, u32)]| RequestShape::of(requests.iter().copied()).unwrap();
        let (read, write) = (Operation::Read, Operation::Write);
        let law = shape(&[(read, 0, 8), (read, 1_008, 8), (write, 16, 8)]);
        assert_eq!(law, RequestShape { distance_mean_blocks: 1_000.0, blocks_mean: 8.0, reads: 2.0 / 3.0 });
        let broken = |requests: &[(Operation, u64, u32)]| {
            let tests = requests_of_the_law(shape(requests), law);
            tests.into_iter().filter(|test| !test.holds()).map(|test| test.kind).collect::<Vec<_>>()
        };
        assert!(broken(&[(read, 0, 8), (read, 1_100, 8), (write, 16, 8)]).is_empty());
        assert_eq!(
            broken(&[(read, 0, 8), (write, 8, 8), (read, 16, 8)]),
            [AssumptionKind::AddressesOfTheLaw]
        );
        assert_eq!(
            broken(&[(read, 0, 9), (write, 1_009, 9), (read, 18, 9)]),
            [AssumptionKind::SizesOfTheLaw]
        );
        assert_eq!(
            broken(&[(read, 0, 8), (read, 1_008, 8), (read, 16, 8)]),
            [AssumptionKind::OperationsOfTheLaw]
        );
        assert_eq!(RequestShape::of([]), None);
    }

    #[test]
    fn faults_and_bursts_of_limits_are_named() {
        assert!(no_faults(0, 10).holds() && !no_faults(1, 1_000).holds());
        let mut law = ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.001));
        law.limits.push(RateLimit::of_requests(100.0, 1_000.0, 1.0));
        assert_eq!(limits_in_steady_state(&law, 100.0, 60.0), None);
        // 50 requests a second more than the limit use up the burst in 20 s.
        let found = limits_in_steady_state(&law, 150.0, 60.0).unwrap();
        assert!(!found.holds() && (found.figure - 1.0 / 3.0).abs() < 1e-9, "{found:?}");
        assert!(limits_in_steady_state(&law, 150.0, 600.0).unwrap().holds());
    }

    #[test]
    fn alternating_services_are_correlated() {
        let mut stream = Seed(4).stream("test");
        let random: Vec<f64> = (0..20_000).map(|_| stream.unit()).collect();
        assert!(independent_services(&random).unwrap().holds());
        let runs: Vec<f64> = (0..20_000).map(|i| f64::from(i / 10 % 2)).collect();
        assert!(!independent_services(&runs).unwrap().holds());
        assert_eq!(independent_services(&[0.5; 100]), None);
    }

    #[test]
    fn idle_services_that_differ_are_named() {
        let law = ServiceLaw::of_server(LawOrigin::Sampled, ServiceTimes::constant(0.01));
        assert!(services_independent_of_idle(&law).unwrap().holds());
        let faster = ServiceLaw { after_idle: Some(ServiceTimes::constant(0.001)), ..law };
        let found = services_independent_of_idle(&faster).unwrap();
        assert!(!found.holds() && (found.figure - 0.1).abs() < 1e-12);
    }
}
