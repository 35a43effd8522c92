//! Response times of one server whose queue is not in order of arrival: a request followed through the departure chain.
//!
//! A request that arrives during a service waits for its rest. At each departure after that, one of the m waiting requests
//! is chosen. The one that is followed has been passed over j times and is chosen with the probability h(m, j) that closed
//! runs show; otherwise a service of the chain passes, which takes S(m) and brings A(m) requests. So later arrivals, which
//! may be served before it, count as they come.
//!
//! ```text
//! arrival: services that left i behind, in proportion to π(i) E[S(i)], hold it up; L(i) the one that it falls into
//!   │  m = i − 1 others + itself + those that arrive during L(i)
//!   ▼
//! (m waiting) ──h(m, j)──▶ chosen: one more S(m), complete
//!      └──1 − h(m, j)──▶ (m − 1 + A(m) waiting), S(m) later
//! ```
//! L(i) is distributed as a service time in proportion to its length, and the arrival falls anywhere into it
//! [Kleinrock 1975, section 5.2]. Each number of passes keeps its share, mean and variance of the time so far; the
//! distribution of the response time is the sum of as many normal ones. Service times are taken as gamma distributed, as in
//! the chain, and those that bring a requests have the gamma distribution that follows from a.
//!
//! # Assumptions
//! The chain's. Between two numbers waiting that were sampled, the probability of the choice goes with passes per request
//! waiting.

use seeklab_devices::service_law::{OrderPoint, ServiceTimes};

use crate::moments::ServiceMoments;
use crate::queueing::{DepartureChain, QueueDependentService};

/// Shares below this are left out.
const LEAST: f64 = 1e-9;

/// Share of the requests that still wait when following ends.
const TAIL: f64 = 1e-5;

/// Choices followed at most.
const CHOICES_MAX: usize = 1 << 14;

/// Share of the sampled requests behind which the sample is too small for the probability of the choice.
const SAMPLED: f64 = 0.004;

/// Share that stands for none, so that it has a logarithm.
const NONE: f64 = 1e-9;

/// Bisections of a quantile.
const BISECTIONS: u32 = 40;

/// Distribution of a response time: a mixture of normal distributions beside the service time after an idle time.
#[derive(Debug, Clone, PartialEq)]
pub struct ReorderedTimes {
    idle_share: f64,
    idle: ServiceTimes,
    /// Share, mean and deviation of the requests by the number of choices that they waited for.
    parts: Vec<(f64, f64, f64)>,
    /// Factor of all times.
    scale: f64,
}

impl ReorderedTimes {
    /// Mean, in seconds.
    pub fn mean_s(&self) -> f64 {
        let waiting: f64 = self.parts.iter().map(|(share, mean_s, _)| share * mean_s).sum();
        self.scale * (self.idle_share * self.idle.mean_s() + waiting)
    }

    /// The same distribution with that mean.
    #[must_use]
    pub fn with_mean(self, mean_s: f64) -> Self {
        let scale = self.scale * mean_s / self.mean_s();
        Self { scale, ..self }
    }

    /// Share of the requests with a response time of at most `time_s`.
    fn share_up_to(&self, time_s: f64) -> f64 {
        let time_s = time_s / self.scale;
        let part = |(share, mean_s, deviation_s): &(f64, f64, f64)| {
            share * normal_share((time_s - mean_s) / deviation_s.max(1e-12))
        };
        self.idle_share * self.idle.share_up_to(time_s) + self.parts.iter().map(part).sum::<f64>()
    }

    /// Response time that a share of the requests does not exceed, in seconds.
    pub fn quantile_s(&self, share: f64) -> f64 {
        let (mut low, mut high) = (0.0, self.mean_s());
        while self.share_up_to(high) < share && high < self.mean_s() * 1e6 {
            (low, high) = (high, high * 2.0);
        }
        for _ in 0..BISECTIONS {
            let middle = (low + high) / 2.0;
            if self.share_up_to(middle) < share { low = middle } else { high = middle }
        }
        high
    }
}

/// Share of a standard normal distribution below a value, within 1.4e-4 [Bowling et al. 2009].
fn normal_share(value: f64) -> f64 {
    1.0 / (1.0 + (-1.5976 * value - 0.07056 * value.powi(3)).exp())
}

/// Response times of Poisson arrivals at a server whose waiting requests are chosen in that order; an empty order chooses
/// each with the same probability. `idle` are the service times of requests that arrive at an idle server.
pub fn reordered_response_times(
    arrivals_per_s: f64,
    service: &impl QueueDependentService,
    chain: &DepartureChain,
    order: &[OrderPoint],
    idle: &ServiceTimes,
) -> ReorderedTimes {
    let constant_from = service.constant_from().max(1);
    let services: Vec<Service> = (0..=constant_from)
        .map(|n| if n == 0 { service.after_idle() } else { service.with_outstanding(n) })
        .map(|moments| Service::new(arrivals_per_s, moments))
        .collect();
    let service_of = |n: usize| &services[n.min(constant_from)];
    let order = Order::new(order);
    let mut states = Vec::new();
    for (behind, share) in chain.shares.iter().enumerate().filter(|(_, share)| **share > LEAST) {
        let held = service_of(behind);
        // Of a service after an idle time none waits.
        let others = behind.saturating_sub(1);
        for (arrivals, (probability, rest_s, rest_square_s2)) in held.longer_arrivals.iter().enumerate() {
            let part = share * arrivals_per_s * held.mean_s * probability;
            let waiting = others + 1 + arrivals;
            Waiting::at(&mut states, waiting).add(part, *rest_s, *rest_square_s2, 0.0);
        }
    }
    let mut parts = Vec::new();
    let mut next: Vec<Waiting> = Vec::new();
    for _ in 0..CHOICES_MAX {
        let left: f64 = states.iter().map(|state| state.share).sum();
        if left < TAIL {
            break;
        }
        let mut done = Waiting::default();
        next.clear();
        for (waiting, state) in states.iter().enumerate().filter(|(_, state)| state.share > LEAST) {
            let service = service_of(waiting);
            let mean_s = state.time_s / state.share;
            let square_s2 = state.square_s2 / state.share;
            let passes = state.passes / state.share;
            let chosen = order.probability(waiting, passes);
            let own_s2 = service.variance_s2 + service.mean_s * service.mean_s;
            done.add(
                state.share * chosen,
                mean_s + service.mean_s,
                square_s2 + 2.0 * mean_s * service.mean_s + own_s2,
                0.0,
            );
            let kept = state.share * (1.0 - chosen);
            if kept <= LEAST {
                continue;
            }
            let passes = passes + 1.0 / waiting as f64;
            for (arrivals, (probability, step_s, step_s2)) in service.arrivals.iter().enumerate() {
                Waiting::at(&mut next, waiting - 1 + arrivals).add(
                    kept * probability,
                    mean_s + step_s,
                    square_s2 + 2.0 * mean_s * step_s + step_s2,
                    passes,
                );
            }
        }
        if done.share > 0.0 {
            let mean_s = done.time_s / done.share;
            let variance_s2 = (done.square_s2 / done.share - mean_s * mean_s).max(0.0);
            parts.push((done.share, mean_s, variance_s2.sqrt()));
        }
        std::mem::swap(&mut states, &mut next);
    }
    let waited: f64 = parts.iter().map(|(share, ..)| share).sum();
    let idle_share = chain.shares[0];
    let total = idle_share + waited;
    parts.iter_mut().for_each(|part| part.0 /= total);
    ReorderedTimes { idle_share: idle_share / total, idle: idle.clone(), parts, scale: 1.0 }
}

/// Requests that wait with a number of others, weighted by their share.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    share: f64,
    time_s: f64,
    square_s2: f64,
    /// Passes per request waiting.
    passes: f64,
}

impl Waiting {
    fn at(states: &mut Vec<Self>, waiting: usize) -> &mut Self {
        if states.len() <= waiting {
            states.resize(waiting + 1, Self::default());
        }
        &mut states[waiting]
    }

    fn add(&mut self, share: f64, time_s: f64, square_s2: f64, passes: f64) {
        self.share += share;
        self.time_s += share * time_s;
        self.square_s2 += share * square_s2;
        self.passes += share * passes;
    }
}

/// Service time with a number waiting, and the arrivals during it.
struct Service {
    mean_s: f64,
    variance_s2: f64,
    /// Probability of 0, 1, … arrivals, with mean and second moment of the service time that brings so many.
    arrivals: Vec<(f64, f64, f64)>,
    /// Probability of 0, 1, … other arrivals during a service that an arrival falls into, with mean and second moment of
    /// the rest of such a service.
    longer_arrivals: Vec<(f64, f64, f64)>,
}

impl Service {
    fn new(arrivals_per_s: f64, moments: ServiceMoments) -> Self {
        let ServiceMoments { mean_s, variance_s2 } = moments;
        // A constant time is taken as a gamma distributed one that hardly varies.
        let shape = 1.0 / moments.squared_variation().max(1e-6);
        let rate = shape / mean_s;
        let counts = |shape: f64| {
            let failure = arrivals_per_s / (arrivals_per_s + rate);
            let mut probabilities = vec![(shape * (1.0 - failure).ln()).exp()];
            let mut rest = 1.0 - probabilities[0];
            while rest > 1e-7 && probabilities.len() < 4_096 {
                let count = probabilities.len() as f64;
                let next = probabilities[probabilities.len() - 1] * failure * (shape + count - 1.0) / count;
                probabilities.push(next);
                rest -= next;
            }
            probabilities
        };
        // The service time that brings so many arrivals: gamma distributed with so much more shape, and a greater rate.
        let moments = |shape: f64| {
            let rate = rate + arrivals_per_s;
            (shape / rate, shape * (shape + 1.0) / (rate * rate))
        };
        let arrivals = counts(shape).into_iter().enumerate().map(|(count, probability)| {
            let (service_s, square_s2) = moments(shape + count as f64);
            (probability, service_s, square_s2)
        });
        // An arrival falls anywhere into the service, whose length has one more shape.
        let longer_arrivals = counts(shape + 1.0).into_iter().enumerate().map(|(count, probability)| {
            let (length_s, square_s2) = moments(shape + 1.0 + count as f64);
            (probability, length_s / 2.0, square_s2 / 3.0)
        });
        Self { mean_s, variance_s2, arrivals: arrivals.collect(), longer_arrivals: longer_arrivals.collect() }
    }
}

/// Probability of the choice.
pub(super) struct Order {
    levels: Vec<Level>,
}

/// Logarithm of the share that is passed over, by the number of times.
struct Level {
    waiting: f64,
    logarithms: Vec<f64>,
    /// Change of the logarithm with each time beyond the last.
    slope: f64,
}

impl Order {
    pub(super) fn new(points: &[OrderPoint]) -> Self {
        let level = |point: &OrderPoint| {
            let waiting = f64::from(point.waiting);
            // Up to the first share for which the sample is too small.
            let enough = point.passed_over.partition_point(|share| *share > SAMPLED);
            let kept = point.passed_over.iter().take(enough + 1);
            let logarithms: Vec<f64> = kept.map(|share| share.max(NONE).ln()).collect();
            let last = logarithms.len() - 1;
            // The slope over the last decade of the sample.
            let decade = logarithms.partition_point(|logarithm| *logarithm > (10.0 * SAMPLED).ln());
            let decade = decade.min(last.saturating_sub(1));
            let slope = (logarithms[last] - logarithms[decade]) / (last - decade).max(1) as f64;
            Level { waiting, logarithms, slope }
        };
        let points = points.iter().filter(|point| point.waiting > 1 && !point.passed_over.is_empty());
        Self { levels: points.map(level).collect() }
    }

    /// Probability that a request is chosen among `waiting`, after so many passes per request waiting.
    pub(super) fn probability(&self, waiting: usize, passes: f64) -> f64 {
        if waiting <= 1 {
            return 1.0;
        }
        let waiting = waiting as f64;
        let after = self.levels.partition_point(|level| level.waiting <= waiting);
        let of = |level: &Level| level.probability(waiting, passes);
        match (after.checked_sub(1).map(|before| &self.levels[before]), self.levels.get(after)) {
            (None, None) => 1.0 / waiting,
            (Some(only), None) | (None, Some(only)) => of(only),
            (Some(low), Some(high)) => {
                let weight = (waiting / low.waiting).ln() / (high.waiting / low.waiting).ln();
                (1.0 - weight) * of(low) + weight * of(high)
            }
        }
    }
}

impl Level {
    fn logarithm(&self, times: f64) -> f64 {
        let last = self.logarithms.len() - 1;
        if times >= last as f64 {
            return self.logarithms[last] + (times - last as f64) * self.slope;
        }
        let before = times as usize;
        let part = times - before as f64;
        (1.0 - part) * self.logarithms[before] + part * self.logarithms[before + 1]
    }

    fn probability(&self, waiting: f64, passes: f64) -> f64 {
        let from = passes * self.waiting;
        1.0 - (self.logarithm(from + self.waiting / waiting) - self.logarithm(from)).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::{departure_chain, mm1_response_quantile_s};

    struct Same(ServiceMoments);

    impl QueueDependentService for Same {
        fn after_idle(&self) -> ServiceMoments {
            self.0
        }
        fn with_outstanding(&self, _outstanding: usize) -> ServiceMoments {
            self.0
        }
        fn constant_from(&self) -> usize {
            1
        }
    }

    fn times(arrivals_per_s: f64, order: &[OrderPoint]) -> (f64, ReorderedTimes) {
        let service = Same(ServiceMoments::exponential(0.01));
        let chain = departure_chain(arrivals_per_s, &service).unwrap();
        let idle = ServiceTimes::Exponential { mean_s: 0.01 };
        let times = reordered_response_times(arrivals_per_s, &service, &chain, order, &idle);
        (chain.steady.response_mean_s, times)
    }

    #[test]
    fn any_order_has_the_mean_of_littles_law() {
        for arrivals_per_s in [20.0, 60.0, 90.0] {
            let (mean_s, times) = times(arrivals_per_s, &[]);
            assert!((times.mean_s() / mean_s - 1.0).abs() < 2e-3, "{arrivals_per_s} {}", times.mean_s());
        }
    }

    #[test]
    fn random_order_varies_as_theory_says() {
        // M/M/1 in random order: the second moment of the queue time is 2 / (2 − ρ) times that of order of arrival
        // [Kingman 1962], 2 ρ / (μ² (1 − ρ)²). The chain follows whole response times, so compare those.
        let (rho, mean) = (0.6_f64, 0.01_f64);
        let (_, times) = times(60.0, &[]);
        let second = times.parts.iter().map(|(share, mean_s, sd_s)| share * (mean_s * mean_s + sd_s * sd_s));
        let second: f64 = second.sum::<f64>() + times.idle_share * 2.0 * mean * mean;
        let queue_mean = rho * mean / (1.0 - rho);
        let queue_second = 2.0 * rho * mean * mean / (1.0 - rho).powi(2) * 2.0 / (2.0 - rho);
        let expected = queue_second + 2.0 * queue_mean * mean + 2.0 * mean * mean;
        assert!((second / expected - 1.0).abs() < 0.003, "{second} {expected}");
    }

    #[test]
    fn order_of_arrival_is_the_narrowest() {
        // Passed over by all that were there before, and by none after.
        let fair = |waiting: u32| OrderPoint {
            waiting,
            passed_over: vec![1.0; waiting as usize].into_iter().chain([1e-9]).collect(),
        };
        let points: Vec<OrderPoint> = [2, 3, 7, 15, 31].map(fair).into();
        let (_, fair) = times(80.0, &points);
        let (_, random) = times(80.0, &[]);
        let [fair_s, random_s] = [fair, random].map(|times| times.quantile_s(0.99));
        let exact_s = mm1_response_quantile_s(80.0, 0.01, 0.99).unwrap();
        assert!(
            (fair_s / exact_s - 1.0).abs() < 0.15 && random_s > 1.1 * fair_s,
            "{fair_s} {random_s} {exact_s}"
        );
    }
}
