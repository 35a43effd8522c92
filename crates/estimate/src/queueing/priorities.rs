//! M/G/1 with priorities that do not preempt: Poisson arrivals of several classes, one server.
//!
//! A departure lets the most pressing class begin that waits, in order of arrival within the class. With
//! `W0 = Σ λ(i) E[S(i)²] / 2` and the utilisation σ(k) of class k and those before it, the mean queue time of class k is
//! `W0 / ((1 − σ(k − 1)) (1 − σ(k)))` [Cobham 1954; Kleinrock 1976, eq. 3.31].
//!
//! # Assumptions
//! The assumptions of [`mg1`](super::mg1) hold for each class. A service that has begun is finished.

use crate::error::{EstimateError, check_positive};
use crate::moments::ServiceMoments;
use crate::queueing::Steady;

/// One class of arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriorityClass {
    /// Arrivals per second.
    pub arrivals_per_s: f64,
    /// Service time.
    pub service: ServiceMoments,
}

/// Means of each class, the most pressing class first. The utilisation of a class is its own.
///
/// # Errors
/// No class, service times or arrivals that are not positive, or classes that together exceed the rate of the server.
pub fn mg1_priorities(classes: &[PriorityClass]) -> Result<Vec<Steady>, EstimateError> {
    check_positive("classes", classes.len() as f64)?;
    let (mut rest_s, mut utilisation, mut arrivals_per_s) = (0.0, 0.0, 0.0);
    for class in classes {
        check_positive("arrivals_per_s", class.arrivals_per_s)?;
        class.service.check()?;
        rest_s += class.arrivals_per_s * class.service.second_moment_s2() / 2.0;
        utilisation += class.arrivals_per_s * class.service.mean_s;
        arrivals_per_s += class.arrivals_per_s;
    }
    if utilisation >= 1.0 {
        return Err(EstimateError::Overload {
            arrivals_per_s,
            saturation_per_s: arrivals_per_s / utilisation,
        });
    }
    let mut before = 0.0;
    let steady = |class: &PriorityClass| {
        let own = class.arrivals_per_s * class.service.mean_s;
        let queue_s = rest_s / ((1.0 - before) * (1.0 - before - own));
        before += own;
        Steady::of_queue_time(class.arrivals_per_s, own, queue_s, class.service.mean_s)
    };
    Ok(classes.iter().map(steady).collect())
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Seed, Stream};

    use super::*;
    use crate::queueing::mg1;

    const CLASSES: [PriorityClass; 3] = [
        PriorityClass { arrivals_per_s: 20.0, service: ServiceMoments::constant(0.005) },
        PriorityClass { arrivals_per_s: 30.0, service: ServiceMoments::exponential(0.010) },
        PriorityClass { arrivals_per_s: 15.0, service: ServiceMoments::exponential(0.020) },
    ];

    #[test]
    fn one_class_is_mg1() {
        let found = mg1_priorities(&CLASSES[1..2]).unwrap();
        assert_eq!(found, [mg1(30.0, CLASSES[1].service).unwrap()]);
    }

    #[test]
    fn priorities_conserve_the_work_that_waits() {
        // Kleinrock's conservation law: Σ ρ(k) W(k) = ρ W0 / (1 − ρ), whatever the priorities.
        let waiting = |classes: &[PriorityClass]| {
            let steady = mg1_priorities(classes).unwrap();
            steady.iter().map(|class| class.utilisation * class.queue_time_mean_s).sum::<f64>()
        };
        let reversed: Vec<PriorityClass> = CLASSES.into_iter().rev().collect();
        let (rho, rest_s) = (0.7, (20.0 * 0.005_f64.powi(2) + 2.0 * (30.0 * 1e-4 + 15.0 * 4e-4)) / 2.0);
        let law = rho * rest_s / (1.0 - rho);
        assert!((waiting(&CLASSES) / law - 1.0).abs() < 1e-12, "{} {law}", waiting(&CLASSES));
        assert!((waiting(&reversed) / law - 1.0).abs() < 1e-12);
    }

    /// Mean queue times of a server that is simulated event by event.
    fn simulated(requests: usize) -> [f64; 3] {
        let mut stream: Stream = Seed(11).stream("test");
        let mut exponential = |mean: f64| -(1.0 - stream.unit()).ln() * mean;
        let mut next = CLASSES.map(|class| exponential(1.0 / class.arrivals_per_s));
        let mut waiting: [std::collections::VecDeque<f64>; 3] = Default::default();
        let (mut sums, mut counts, mut now) = ([0.0; 3], [0.0; 3], 0.0_f64);
        for _ in 0..requests {
            if waiting.iter().all(std::collections::VecDeque::is_empty) {
                now = now.max(next.iter().copied().fold(f64::INFINITY, f64::min));
            }
            for class in 0..3 {
                while next[class] <= now {
                    waiting[class].push_back(next[class]);
                    next[class] += exponential(1.0 / CLASSES[class].arrivals_per_s);
                }
            }
            let class = (0..3).find(|class| !waiting[*class].is_empty()).unwrap();
            sums[class] += now - waiting[class].pop_front().unwrap();
            counts[class] += 1.0;
            let mean = CLASSES[class].service.mean_s;
            now += if class == 0 { mean } else { exponential(mean) };
        }
        [0, 1, 2].map(|class| sums[class] / counts[class])
    }

    #[test]
    fn simulated_server_has_the_queue_times_of_the_formula() {
        let found = simulated(400_000);
        for (exact, found) in mg1_priorities(&CLASSES).unwrap().iter().zip(found) {
            assert!((found / exact.queue_time_mean_s - 1.0).abs() < 0.03, "{found} {exact:?}");
        }
    }

    #[test]
    fn classes_that_exceed_the_server_are_refused() {
        let heavy = PriorityClass { arrivals_per_s: 60.0, ..CLASSES[2] };
        assert!(matches!(mg1_priorities(&[CLASSES[0], heavy]), Err(EstimateError::Overload { .. })));
        assert!(mg1_priorities(&[]).is_err());
    }
}
