//! Usability of a model for each operation, by bounds on its errors.
//!
//! A good figure over all requests can hide reads that are far off. Errors are therefore taken by *class*: an operation
//! and the number of requests that a request met, as measured. Both times of a class are of the same requests.
//!
//! | verdict | mean error | demerit up to the 99th percentile | mean error of every class |
//! | --- | --- | --- | --- |
//! | usable | 10 % | 20 % | 25 % |
//! | with care | 25 % | 50 % | 50 % |
//! | not usable | more | more | more |
//!
//! # Scope and limits
//! The demerit may reach twice that of resamples of the measured times, where that is more than its bound, and the error of a class
//! three times its standard error: a class of few requests, some of which waited for long, has a mean of chance.
//! Classes with less than 1 % of the requests do not count. An operation with fewer than 100 requests is usable with care at best.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seeklab_core::statistics::LogHistogram;
use seeklab_core::{Duration, Operation};
use serde::Serialize;

use crate::prediction::Prediction;
use crate::rounding::{percent, six_decimals};

/// Classes of queue lengths: 0 to 7 each, then four for each doubling.
type QueueLengths = LogHistogram<2>;

/// Share of all requests that a class has at least, in percent.
const CLASS_REQUESTS_PCT_MIN: f64 = 1.0;

/// Standard errors that the error of a class may reach: one class in 370 does so by chance.
const STANDARD_ERRORS_MAX: f64 = 3.0;

/// Requests of an operation from which on it can be usable without care.
const REQUESTS_MIN: u64 = 100;

/// Bounds of a verdict, all in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bounds {
    /// Greatest error of the mean response time.
    pub mean_error_pct: f64,
    /// Greatest demerit up to the 99th percentile.
    pub demerit_to_p99_pct: f64,
    /// Greatest error of the mean response time of a class.
    pub class_error_pct: f64,
}

impl Bounds {
    /// Bounds of [`Verdict::Usable`].
    pub const USABLE: Self = Self { mean_error_pct: 10.0, demerit_to_p99_pct: 20.0, class_error_pct: 25.0 };
    /// Bounds of [`Verdict::WithCare`].
    pub const WITH_CARE: Self =
        Self { mean_error_pct: 25.0, demerit_to_p99_pct: 50.0, class_error_pct: 50.0 };
}

/// Usability of a model for an operation, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All errors lie within [`Bounds::USABLE`].
    Usable,
    /// All errors lie within [`Bounds::WITH_CARE`].
    WithCare,
    /// An error exceeds [`Bounds::WITH_CARE`].
    NotUsable,
}

impl Verdict {
    /// The words for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Usable => "usable",
            Self::WithCare => "with care",
            Self::NotUsable => "not usable",
        }
    }

    /// Judges the prediction of an operation by its number of requests, the error of its mean, its demerit and its
    /// worst class.
    pub fn of(
        requests: u64,
        mean_error_pct: f64,
        prediction: &Prediction,
        worst_class: Option<&ClassError>,
    ) -> Self {
        let lies_within = |bounds: &Bounds| {
            let resampled_pct = prediction.resampled_demerit_to_p99.ea_rms_pct.unwrap_or(0.0);
            let demerit_pct_max = bounds.demerit_to_p99_pct.max(2.0 * resampled_pct);
            mean_error_pct.abs() <= bounds.mean_error_pct
                && prediction.demerit_to_p99.ea_rms_pct.is_some_and(|pct| pct <= demerit_pct_max)
                && worst_class.is_none_or(|class| !class.exceeds(bounds.class_error_pct))
        };
        match () {
            () if requests >= REQUESTS_MIN && lies_within(&Bounds::USABLE) => Self::Usable,
            () if lies_within(&Bounds::WITH_CARE) => Self::WithCare,
            () => Self::NotUsable,
        }
    }
}

/// Error of the mean response time of a class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ClassError {
    /// The operation.
    pub operation: Operation,
    /// Shortest queue of the class: requests outstanding at arrival, at the device of the measured times and at the model of the
    /// predicted ones.
    pub queue_length_min: u32,
    /// Longest queue of the class.
    pub queue_length_max: u32,
    /// Requests of the class, as measured.
    pub requests: u64,
    /// Share of all requests, as measured.
    pub requests_pct: f64,
    /// Mean response time as measured.
    pub measured_mean_ms: f64,
    /// Mean response time as predicted: of the requests that met such a queue at the model, or, if fewer than a tenth as many did,
    /// of those that were measured.
    pub predicted_mean_ms: f64,
    /// Error of the predicted mean; negative if it is too short.
    pub mean_error_pct: f64,
    /// Error that chance explains, if the requests of the class are independent of each other: three times its standard error.
    pub chance_pct: f64,
}

impl ClassError {
    /// Returns true if the error exceeds a bound in percent, and chance does not explain it.
    pub fn exceeds(&self, bound_pct: f64) -> bool {
        self.mean_error_pct.abs() > bound_pct.max(self.chance_pct)
    }
}

/// A request that was measured or predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// Requests outstanding when it arrived.
    pub queue_length: u32,
    /// Its response time.
    pub response: Duration,
}

/// Accumulates measured and predicted response times by class.
///
/// A model that draws times is busy at other moments than the device. So each side is classed by the queue that it met itself:
/// requests that found the device idle have short responses because of that, and those predicted for the same requests have not.
#[derive(Debug, Clone, Default)]
pub struct ClassErrors {
    requests: u64,
    classes: BTreeMap<(Operation, usize), Class>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Class {
    measured: Sum,
    /// Of the requests that met such a queue at the model, and of those that were measured.
    predicted: Sum,
    paired: Sum,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    requests: u64,
    ns: f64,
    squares: f64,
}

impl Sum {
    fn record(&mut self, time: Duration) {
        self.requests += 1;
        let ns = time.as_ns() as f64;
        self.ns += ns;
        self.squares += ns * ns;
    }

    fn mean_ns(&self) -> f64 {
        self.ns / self.requests.max(1) as f64
    }

    /// Square of the standard error of the mean, of independent times.
    fn error_squared(&self) -> f64 {
        let (count, mean) = (self.requests.max(1) as f64, self.mean_ns());
        (self.squares / count - mean * mean).max(0.0) / count
    }
}

impl Class {
    fn predicted(&self) -> Sum {
        let is_met = 10 * self.predicted.requests >= self.measured.requests;
        if is_met { self.predicted } else { self.paired }
    }
}

impl ClassErrors {
    /// Takes a request as it was measured and as it is predicted.
    pub fn record(&mut self, op: Operation, measured: Met, predicted: Met) {
        self.requests += 1;
        self.class(op, predicted).predicted.record(predicted.response);
        let of = self.class(op, measured);
        of.measured.record(measured.response);
        of.paired.record(predicted.response);
    }

    fn class(&mut self, op: Operation, met: Met) -> &mut Class {
        self.classes.entry((op, QueueLengths::bucket(met.queue_length.into()))).or_default()
    }

    /// Returns the errors of all classes with at least 1 % of the requests.
    pub fn classes(&self) -> impl Iterator<Item = ClassError> + '_ {
        self.classes.iter().filter_map(|((operation, class), of)| {
            let requests_pct = percent(of.measured.requests as f64, self.requests as f64)?;
            if requests_pct < CLASS_REQUESTS_PCT_MIN {
                return None;
            }
            let predicted = of.predicted();
            let (measured_ns, predicted_ns) = (of.measured.mean_ns(), predicted.mean_ns());
            let error_ns = (of.measured.error_squared() + predicted.error_squared()).sqrt();
            let length = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
            Some(ClassError {
                operation: *operation,
                queue_length_min: length(QueueLengths::least(*class)),
                queue_length_max: length(QueueLengths::greatest(*class)),
                requests: of.measured.requests,
                requests_pct,
                measured_mean_ms: six_decimals(measured_ns / 1e6),
                predicted_mean_ms: six_decimals(predicted_ns / 1e6),
                mean_error_pct: percent(predicted_ns - measured_ns, measured_ns)?,
                chance_pct: percent(STANDARD_ERRORS_MAX * error_ns, measured_ns)?,
            })
        })
    }
}

/// Returns the class with the greatest error, too long or too short; of those that chance does not explain, if there are any.
pub fn worst_class(classes: impl Iterator<Item = ClassError>) -> Option<ClassError> {
    let rank = |class: &ClassError| (class.exceeds(0.0), class.mean_error_pct.abs());
    classes.max_by(|one, other| {
        let ((one_exceeds, one), (other_exceeds, other)) = (rank(one), rank(other));
        one_exceeds.cmp(&other_exceeds).then(one.total_cmp(&other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Demerit;

    fn met(queue_length: u32, ms: f64) -> Met {
        Met { queue_length, response: Duration::from_ms_f64(ms) }
    }

    #[test]
    fn worst_class_is_found_behind_a_good_mean() {
        let mut errors = ClassErrors::default();
        for index in 0..1_000_u32 {
            errors.record(Operation::Write, met(index % 4, 10.0), met(index % 4, 10.1));
            // Reads are right on average: too long alone, too short behind others.
            let (queue_length, predicted) = if index % 2 == 0 { (0, 14.2) } else { (9, 5.0) };
            errors.record(Operation::Read, met(queue_length, 10.0), met(queue_length, predicted));
        }
        // Below 1 % of the requests, whatever the error.
        (0..19).for_each(|_| errors.record(Operation::Flush, met(0, 1.0), met(0, 100.0)));
        assert_eq!(errors.classes().count(), 6);
        let worst = worst_class(errors.classes()).unwrap();
        assert_eq!((worst.operation, worst.requests), (Operation::Read, 500));
        assert_eq!((worst.queue_length_min, worst.queue_length_max), (8, 9));
        assert_eq!(
            (worst.measured_mean_ms, worst.predicted_mean_ms, worst.mean_error_pct),
            (10.0, 5.0, -50.0)
        );
        (0..3).for_each(|_| errors.record(Operation::Flush, met(0, 1.0), met(0, 100.0)));
        assert_eq!(worst_class(errors.classes()).unwrap().operation, Operation::Flush, "1 % of the requests");
        assert!(worst_class(ClassErrors::default().classes()).is_none());
    }

    #[test]
    fn model_that_is_busy_at_other_moments_is_classed_by_its_own_queue() {
        let mut errors = ClassErrors::default();
        let (idle, busy) = (met(0, 0.1), met(2, 20.1));
        for index in 0..1_000_u32 {
            let measured = if index % 2 == 0 { idle } else { busy };
            let predicted = if index % 4 < 2 { idle } else { busy };
            errors.record(Operation::Write, measured, predicted);
        }
        assert!(errors.classes().all(|class| class.mean_error_pct == 0.0), "{errors:?}");
        // A model without queues has no such class to compare: the requests themselves are.
        let mut errors = ClassErrors::default();
        (0..1_000).for_each(|index| {
            errors.record(Operation::Write, if index % 2 == 0 { idle } else { busy }, idle)
        });
        let found: Vec<(u32, f64)> =
            errors.classes().map(|class| (class.queue_length_min, class.predicted_mean_ms)).collect();
        assert_eq!(found, [(0, 0.1), (2, 0.1)]);
    }

    #[test]
    fn error_of_a_class_counts_if_chance_does_not_explain_it() {
        // Some of so many requests wait for 100 ms, the others take 1.
        let worst = |requests: u32, waited: u32, predicted: u32| {
            let mut errors = ClassErrors::default();
            let ms = |index, waited| if index % requests < waited { 100.0 } else { 1.0 };
            for index in 0..requests {
                errors.record(Operation::Read, met(2, ms(index, waited)), met(2, ms(index, predicted)));
                errors.record(Operation::Read, met(0, 1.0), met(0, 1.1));
            }
            worst_class(errors.classes()).unwrap()
        };
        // Five of 66 in place of two: a difference of 4.5 ms, and standard errors of 3.2 and 2.1 ms.
        let by_chance = worst(66, 5, 2);
        assert_eq!((by_chance.queue_length_min, by_chance.mean_error_pct.round()), (0, 10.0));
        let certain = worst(6_600, 500, 200);
        assert_eq!((certain.queue_length_min, certain.mean_error_pct.round()), (2, -53.0));
        assert!((certain.chance_pct - 13.6).abs() < 0.1, "{certain:?}");
        assert!(certain.exceeds(50.0) && !certain.exceeds(54.0) && !by_chance.exceeds(25.0));
    }

    #[test]
    fn verdict_follows_the_stated_bounds() {
        let demerit = |pct| Demerit { ea_rms_ms: 1.0, ea_rms_pct: Some(pct) };
        let verdict = |requests, mean, up_to_p99, resampled, class: f64| {
            let prediction = Prediction {
                demerit_all: demerit(90.0),
                demerit_to_p99: demerit(up_to_p99),
                resampled_demerit_all: demerit(0.0),
                resampled_demerit_to_p99: demerit(resampled),
            };
            let mut errors = ClassErrors::default();
            errors.record(Operation::Read, met(0, 1_000.0), met(0, 1_000.0 + 10.0 * class));
            Verdict::of(requests, mean, &prediction, worst_class(errors.classes()).as_ref())
        };
        for (expected, mean, up_to_p99, resampled, class) in [
            (Verdict::Usable, 10.0, 20.0, 1.0, 25.0),
            (Verdict::Usable, -10.0, 0.0, 1.0, -25.0),
            (Verdict::WithCare, -10.1, 20.0, 1.0, 25.0),
            (Verdict::WithCare, 10.0, 20.1, 1.0, 25.0),
            (Verdict::WithCare, 10.0, 20.0, 1.0, -25.1),
            (Verdict::WithCare, 25.0, 50.0, 1.0, 50.0),
            (Verdict::NotUsable, -25.1, 50.0, 1.0, 50.0),
            (Verdict::NotUsable, 25.0, 50.1, 1.0, 50.0),
            (Verdict::NotUsable, 25.0, 50.0, 1.0, 50.1),
            // Random variation of the measured times explains 30 %.
            (Verdict::Usable, 10.0, 60.0, 30.0, 25.0),
            (Verdict::NotUsable, 10.0, 60.0, 29.9, 0.0),
        ] {
            let found = verdict(100, mean, up_to_p99, resampled, class);
            assert_eq!(found, expected, "{mean} {up_to_p99} {resampled} {class}");
        }
        assert_eq!(verdict(99, 0.0, 0.0, 1.0, 0.0), Verdict::WithCare, "too few requests");
    }
}
