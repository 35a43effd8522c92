//! The chain embedded at departures: Poisson arrivals, one server whose service time depends on the queue.
//!
//! A departure leaves n requests behind. The next service begins with n outstanding (or, after an idle period, with the
//! one that arrives), takes S(n), and A(n) requests arrive meanwhile, so the next departure leaves `n − 1 + A(n)` behind
//! [Kleinrock 1975, section 5.3, with S(n) in place of S]. In the steady state departures leave behind the numbers that
//! arrivals find, which with Poisson arrivals are those of any time.
//!
//! Only one request leaves at a departure, so the flow over a cut between n and n + 1 has one term downwards:
//! `π(n+1) P(A(n+1) = 0) = Σ π(i) P(A(i) ≥ n + 2 − i)`. All terms are positive, so the recursion loses no digits.
//! A(n) of a service time with mean m and squared variation c is taken as that of a gamma distribution, a negative
//! binomial; of a constant time, Poisson.

use crate::error::{EstimateError, check_positive};
use crate::moments::ServiceMoments;
use crate::queueing::Steady;

/// Probability that stays beyond the last state.
const TAIL: f64 = 1e-9;

/// States of the chain at most.
const STATES_MAX: usize = 4_096;

/// Steady state of the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct DepartureChain {
    /// Means of the queue.
    pub steady: Steady,
    /// Share of the time in which 0, 1, … requests are outstanding.
    pub shares: Vec<f64>,
}

/// Service times of a server that depend on its queue.
pub trait QueueDependentService {
    /// Service time of a request that arrives at an idle device.
    fn after_idle(&self) -> ServiceMoments;
    /// Service time of the request chosen while `outstanding` requests (at least one, itself included) are there.
    fn with_outstanding(&self, outstanding: usize) -> ServiceMoments;
    /// Outstanding requests from which on the service time stays the same.
    fn constant_from(&self) -> usize;
}

/// Steady state of Poisson arrivals at a server whose service time depends on its queue.
///
/// # Errors
/// Service times that are not positive, no arrivals, arrivals that exceed the rate of the server with its longest queue,
/// or a queue that seldom ends below 4096 requests.
pub fn departure_chain(
    arrivals_per_s: f64,
    service: &impl QueueDependentService,
) -> Result<DepartureChain, EstimateError> {
    check_positive("arrivals_per_s", arrivals_per_s)?;
    let constant_from = service.constant_from().max(1);
    let last = service.with_outstanding(constant_from);
    last.check()?;
    let saturation_per_s = 1.0 / last.mean_s;
    if arrivals_per_s >= saturation_per_s {
        return Err(EstimateError::Overload { arrivals_per_s, saturation_per_s });
    }
    let mut arrivals = Vec::with_capacity(constant_from + 1);
    for outstanding in 0..=constant_from {
        let moments = match outstanding {
            0 => service.after_idle(),
            n => service.with_outstanding(n),
        };
        moments.check()?;
        arrivals.push(Arrivals::during(arrivals_per_s, moments));
    }
    let of = |outstanding: usize| &arrivals[outstanding.min(constant_from)];
    let most_arrivals = arrivals.iter().map(|arrivals| arrivals.tail.len()).max().unwrap_or(0);
    // Relative to the share of the idle state.
    let mut shares = vec![1.0];
    let mut sum = 1.0;
    while shares.len() < STATES_MAX {
        let n = shares.len() - 1;
        // From the idle state the next departure leaves behind what arrived during one service.
        let mut flow = shares[0] * of(0).at_least(n + 1);
        // A state contributes only if enough requests can arrive during its service.
        for (i, share) in shares.iter().enumerate().skip(1).rev() {
            let needed = n + 2 - i;
            if needed >= most_arrivals {
                break;
            }
            flow += share * of(i).at_least(needed);
        }
        let share = flow / of(n + 1).none();
        shares.push(share);
        sum += share;
        if n >= constant_from && share / sum < TAIL * (1.0 - arrivals_per_s / saturation_per_s) {
            break;
        }
    }
    if shares.len() == STATES_MAX {
        return Err(EstimateError::Overload { arrivals_per_s, saturation_per_s });
    }
    shares.iter_mut().for_each(|share| *share /= sum);
    let outstanding_mean: f64 = shares.iter().enumerate().map(|(n, share)| n as f64 * share).sum();
    let response_mean_s = outstanding_mean / arrivals_per_s;
    let service_mean_s = mean_service(service, &shares);
    let steady = Steady {
        throughput_per_s: arrivals_per_s,
        utilisation: (arrivals_per_s * service_mean_s).min(1.0),
        queue_time_mean_s: (response_mean_s - service_mean_s).max(0.0),
        response_mean_s,
        outstanding_mean,
    };
    Ok(DepartureChain { steady, shares })
}

/// Mean service time over the services that follow departures which leave so many behind.
fn mean_service(service: &impl QueueDependentService, shares: &[f64]) -> f64 {
    let of = |n: usize| match n {
        0 => service.after_idle().mean_s,
        n => service.with_outstanding(n.min(service.constant_from())).mean_s,
    };
    shares.iter().enumerate().map(|(n, share)| share * of(n)).sum()
}

/// Number of Poisson arrivals during a service time.
struct Arrivals {
    none: f64,
    /// Probabilities of at least 0, 1, … arrivals, up to the last that matters.
    tail: Vec<f64>,
}

impl Arrivals {
    fn during(arrivals_per_s: f64, service: ServiceMoments) -> Self {
        let mean = arrivals_per_s * service.mean_s;
        let variation = service.squared_variation();
        // Terms of Poisson, or of the negative binomial with 1 / variation successes.
        let (none, ratio): (f64, Box<dyn Fn(f64) -> f64>) = if variation < 1e-9 {
            ((-mean).exp(), Box::new(move |count| mean / count))
        } else {
            let successes = 1.0 / variation;
            let failure = mean / (mean + successes);
            let ratio = move |count: f64| failure * (successes + count - 1.0) / count;
            ((successes * (1.0 - failure).ln()).exp(), Box::new(ratio))
        };
        let mut probabilities = vec![none];
        let mut rest = 1.0 - none;
        while rest > 1e-14 && probabilities.len() < STATES_MAX {
            let count = probabilities.len() as f64;
            let next = probabilities[probabilities.len() - 1] * ratio(count);
            probabilities.push(next);
            rest -= next;
            if next < 1e-18 && count > mean {
                break;
            }
        }
        // Sums from the small end keep their digits.
        let mut tail = probabilities;
        let mut sum = 0.0;
        for probability in tail.iter_mut().rev() {
            sum += *probability;
            *probability = sum;
        }
        Self { none, tail }
    }

    const fn none(&self) -> f64 {
        self.none
    }

    fn at_least(&self, count: usize) -> f64 {
        self.tail.get(count).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::mg1;

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

    /// A server that is twice as fast with two or more requests.
    struct Faster;

    impl QueueDependentService for Faster {
        fn after_idle(&self) -> ServiceMoments {
            ServiceMoments::exponential(0.1)
        }
        fn with_outstanding(&self, outstanding: usize) -> ServiceMoments {
            ServiceMoments::exponential(if outstanding < 2 { 0.1 } else { 0.05 })
        }
        fn constant_from(&self) -> usize {
            2
        }
    }

    #[test]
    fn constant_law_gives_the_mean_of_pollaczek_and_khinchine() {
        for deviation_s in [0.0, 0.003, 0.01, 0.02] {
            let service = ServiceMoments::with_deviation(0.01, deviation_s);
            for arrivals_per_s in [10.0, 50.0, 80.0, 95.0] {
                let chain = departure_chain(arrivals_per_s, &Same(service)).unwrap();
                let exact = mg1(arrivals_per_s, service).unwrap();
                let error = chain.steady.response_mean_s / exact.response_mean_s - 1.0;
                assert!(error.abs() < 1e-5, "{arrivals_per_s} {deviation_s} {error}");
                assert!((chain.shares[0] - (1.0 - exact.utilisation)).abs() < 1e-6);
                assert!((chain.steady.utilisation - exact.utilisation).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn faster_service_with_a_queue_sustains_more() {
        // One server alone would be overloaded at 12 per second.
        let chain = departure_chain(12.0, &Faster).unwrap();
        assert!(chain.steady.utilisation < 1.0, "{chain:?}");
        // The hand-computed chain: a(j) of the slow service is (1/2.2)(1.2/2.2)^j, of the fast one (1/1.6)(0.6/1.6)^j.
        let (slow, fast) = (1.2 / 2.2, 0.6 / 1.6);
        let one = slow / (1.0 - slow);
        let two = (slow * slow + one * slow * slow) / (1.0 - fast);
        assert!((chain.shares[1] / chain.shares[0] - one).abs() < 1e-9, "{chain:?}");
        assert!((chain.shares[2] / chain.shares[0] - two).abs() < 1e-9, "{chain:?}");
        assert!(matches!(departure_chain(20.0, &Faster), Err(EstimateError::Overload { .. })));
    }
}
