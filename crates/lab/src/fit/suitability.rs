//! Loads for which a fitted device stands in for the measured one, and within what error.

use schemars::JsonSchema;
use seeklab_analysis::verdict::Bounds;
use seeklab_analysis::{ClassError, Verdict};
use seeklab_core::Operation;
use seeklab_learning::evaluation::{Evaluation, JUDGED_REQUESTS_MIN, OperationEvaluation};
use serde::Serialize;

/// Loads for which a fitted device stands in for the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Suitability {
    /// Operations for which it stands in.
    pub operations: Vec<Operation>,
    /// Bound of the errors of their means; null if there are none.
    pub mean_within_pct: Option<f64>,
    /// Bound of the errors of their 99th percentiles; null if there are none.
    pub p99_within_pct: Option<f64>,
    /// Requests for which it does not stand in.
    pub except: Vec<Exception>,
    /// Operations of which fewer than 100 requests were predicted, too few to judge.
    pub not_judged: Vec<Operation>,
}

/// Requests for which a fitted device does not stand in for the measured one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Exception {
    /// Their operation.
    pub operation: Operation,
    /// True if all requests of the operation are excepted; false if only those that met such queues are.
    pub is_whole_operation: bool,
    /// Shortest queue at which the mean is wrong; null if it is at all queue lengths together.
    pub queue_length_min: Option<u32>,
    /// Longest queue at which the mean is wrong; null if it is at all queue lengths together.
    pub queue_length_max: Option<u32>,
    /// Error of the predicted mean; negative if it is too short.
    pub mean_error_pct: f64,
    /// Demerit of the operation up to p99; null if the error of the mean is the reason.
    pub demerit_to_p99_pct: Option<f64>,
}

/// Bounds that people read, in percent.
const STEPS_PCT: [f64; 13] = [1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 75.0, 100.0];

/// Text between a verdict and what it was found by, in `validated` of a clone.
const EVIDENCE: &str = " It was ";

/// Returns the verdict of a fit from `validated` of its clone, without what it was found by. The statements of earlier versions have no
/// verdict and are returned whole.
pub fn clone_verdict(validated: &str) -> &str {
    validated.split_once(EVIDENCE).map_or(validated, |(verdict, _)| verdict)
}

/// The least step that is no less than an error; beyond the steps, the error itself in whole percent.
fn step(error_pct: f64) -> f64 {
    STEPS_PCT.into_iter().find(|step| *step >= error_pct).unwrap_or_else(|| error_pct.ceil())
}

impl Suitability {
    /// Returns the suitability of a model by its evaluation; `None` if too few requests were predicted.
    pub fn of(evaluation: &Evaluation) -> Option<Self> {
        if !evaluation.is_judged() {
            return None;
        }
        let (judged, few): (Vec<_>, Vec<_>) =
            evaluation.operations.iter().partition(|of| of.requests >= JUDGED_REQUESTS_MIN);
        let (unusable, usable): (Vec<&OperationEvaluation>, Vec<_>) =
            judged.into_iter().partition(|of| of.verdict == Verdict::NotUsable);
        let greatest =
            |errors: &mut dyn Iterator<Item = f64>| errors.map(f64::abs).max_by(f64::total_cmp).map(step);
        let whole = unusable.iter().map(|of| Exception::whole(of));
        let is_usable = |op: Operation| usable.iter().any(|of| of.operation == op);
        let classes: Vec<&ClassError> = evaluation
            .classes
            .iter()
            .filter(|class| is_usable(class.operation))
            .filter(|class| class.exceeds(Bounds::USABLE.class_error_pct))
            .collect();
        Some(Self {
            operations: usable.iter().map(|of| of.operation).collect(),
            mean_within_pct: greatest(&mut usable.iter().map(|of| of.mean_error_pct)),
            p99_within_pct: greatest(&mut usable.iter().map(|of| of.p99_error_pct)),
            except: whole.chain(joined(&classes)).collect(),
            not_judged: few.into_iter().map(|of| of.operation).collect(),
        })
    }

    /// Describes the suitability of a model, and then what it was found by: a sentence that begins with `fitted to`.
    pub(super) fn with_evidence(&self, model: &str, evidence: &str) -> String {
        format!("{}{EVIDENCE}{evidence}", self.sentence(model))
    }

    /// Describes the suitability of a model in one sentence.
    pub fn sentence(&self, model: &str) -> String {
        let few: Vec<&str> = self.not_judged.iter().map(|op| plural(*op)).collect();
        let few =
            if few.is_empty() { String::new() } else { format!(" Too few to judge: {}.", listed(&few)) };
        let (Some(mean), Some(p99)) = (self.mean_within_pct, self.p99_within_pct) else {
            let errors: Vec<String> = self.except.iter().map(Exception::text).collect();
            return match errors.is_empty() {
                true => {
                    format!("The clone (`{model}`) is not judged: no operation has enough requests.{few}")
                }
                false => format!(
                    "The clone (`{model}`) does not stand in for the device: {}.{few}",
                    errors.join(", ")
                ),
            };
        };
        let names: Vec<&str> = self.operations.iter().map(|op| plural(*op)).collect();
        let except: Vec<String> = self.except.iter().map(Exception::text).collect();
        let except = if except.is_empty() {
            String::new()
        } else {
            format!("; not for {}", except.join(", nor for "))
        };
        format!(
            "The clone (`{model}`) stands in for the device at the mean within {mean:.0} % and at p99 within {p99:.0} %, \
             for {} under loads like those of the trace{except}.{few}",
            listed(&names)
        )
    }
}

/// States that too few requests were predicted.
pub(super) fn not_judged(evaluation: &Evaluation) -> String {
    format!(
        "Not validated: of the requests, {} are fitted and {} left to predict, and at least {JUDGED_REQUESTS_MIN} of each are needed. Choose an \
         {} --split.",
        evaluation.fitted_requests,
        evaluation.predicted_requests,
        if evaluation.fitted_requests < evaluation.predicted_requests { "later" } else { "earlier" }
    )
}

impl Exception {
    /// An operation that is not usable, with the first of the errors that exceeds its bound.
    fn whole(of: &OperationEvaluation) -> Self {
        let bounds = Bounds::WITH_CARE;
        let is_mean = of.mean_error_pct.abs() > bounds.mean_error_pct;
        let class = of.worst_class.filter(|class| !is_mean && class.exceeds(bounds.class_error_pct));
        let demerit_to_p99_pct = of.prediction.demerit_to_p99.ea_rms_pct;
        Self {
            operation: of.operation,
            is_whole_operation: true,
            queue_length_min: class.map(|class| class.queue_length_min),
            queue_length_max: class.map(|class| class.queue_length_max),
            mean_error_pct: class.map_or(of.mean_error_pct, |class| class.mean_error_pct),
            demerit_to_p99_pct: demerit_to_p99_pct.filter(|_| !is_mean && class.is_none()),
        }
    }

    fn text(&self) -> String {
        let queue = match (self.queue_length_min, self.queue_length_max) {
            (Some(min), Some(max)) if min == max => format!(" at queue length {min}"),
            (Some(min), Some(max)) => format!(" at queue lengths {min} to {max}"),
            _ => String::new(),
        };
        let (name, mean) = (plural(self.operation), self.mean_error_pct);
        match (self.is_whole_operation, self.demerit_to_p99_pct) {
            (true, Some(demerit)) => format!("{name} (demerit up to p99 {demerit:.0} %)"),
            (true, None) => format!("{name} (mean {mean:+.0} %{queue})"),
            (false, _) => format!("{name}{queue} (mean {mean:+.0} %)"),
        }
    }
}

/// Joins neighbouring classes of an operation that err in the same direction. The error of several is the greatest.
fn joined(classes: &[&ClassError]) -> Vec<Exception> {
    let mut exceptions: Vec<Exception> = Vec::new();
    for class in classes {
        let follows = |last: &&mut Exception| {
            last.operation == class.operation
                && last.queue_length_max.is_some_and(|max| max + 1 == class.queue_length_min)
                && (last.mean_error_pct < 0.0) == (class.mean_error_pct < 0.0)
        };
        if let Some(last) = exceptions.last_mut().filter(follows) {
            last.queue_length_max = Some(class.queue_length_max);
            if class.mean_error_pct.abs() > last.mean_error_pct.abs() {
                last.mean_error_pct = class.mean_error_pct;
            }
        } else {
            exceptions.push(Exception {
                operation: class.operation,
                is_whole_operation: false,
                demerit_to_p99_pct: None,
                queue_length_min: Some(class.queue_length_min),
                queue_length_max: Some(class.queue_length_max),
                mean_error_pct: class.mean_error_pct,
            });
        }
    }
    exceptions
}

/// The name of the requests of an operation.
pub(super) const fn plural(op: Operation) -> &'static str {
    match op {
        Operation::Read => "reads",
        Operation::Write => "writes",
        Operation::Flush => "flushes",
        Operation::Discard => "discards",
        Operation::WriteZeroes => "write-zeroes",
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(operation: Operation, queue: (u32, u32), mean_error_pct: f64) -> ClassError {
        ClassError {
            operation,
            queue_length_min: queue.0,
            queue_length_max: queue.1,
            requests: 100,
            requests_pct: 5.0,
            measured_mean_ms: 1.0,
            predicted_mean_ms: 1.0 + mean_error_pct / 100.0,
            mean_error_pct,
            chance_pct: 1.0,
        }
    }

    #[test]
    fn neighbouring_classes_become_one_exception() {
        let classes = [
            class(Operation::Read, (7, 7), -30.0),
            class(Operation::Read, (8, 9), -45.0),
            class(Operation::Read, (10, 11), 60.0),
            class(Operation::Write, (12, 13), 26.0),
        ];
        let exceptions = joined(&classes.iter().collect::<Vec<_>>());
        let texts: Vec<String> = exceptions.iter().map(Exception::text).collect();
        assert_eq!(
            texts,
            [
                "reads at queue lengths 7 to 9 (mean -45 %)",
                "reads at queue lengths 10 to 11 (mean +60 %)",
                "writes at queue lengths 12 to 13 (mean +26 %)"
            ]
        );
    }

    #[test]
    fn sentence_states_bounds_and_exceptions() {
        let exception = Exception {
            operation: Operation::Flush,
            is_whole_operation: true,
            demerit_to_p99_pct: None,
            queue_length_min: None,
            queue_length_max: None,
            mean_error_pct: 48.4,
        };
        let suitability = Suitability {
            operations: vec![Operation::Read, Operation::Write],
            mean_within_pct: Some(step(4.2)),
            p99_within_pct: Some(step(15.01)),
            except: vec![exception],
            not_judged: vec![Operation::Discard],
        };
        assert_eq!(
            suitability.sentence("plain"),
            "The clone (`plain`) stands in for the device at the mean within 5 % and at p99 within 20 %, for reads and \
             writes under loads like those of the trace; not for flushes (mean +48 %). Too few to judge: discards."
        );
        let validated = suitability.with_evidence("plain", "fitted to the first 50 % of the time");
        assert_eq!(clone_verdict(&validated), suitability.sentence("plain"));
        assert!(
            validated.ends_with("Too few to judge: discards. It was fitted to the first 50 % of the time")
        );
        let earlier = "fitted to the first 50 % of the time; demerit of the rest up to p99: 2.00 %";
        assert_eq!(clone_verdict(earlier), earlier);
        let none = Suitability {
            operations: Vec::new(),
            mean_within_pct: None,
            p99_within_pct: None,
            not_judged: Vec::new(),
            ..suitability
        };
        assert_eq!(
            none.sentence("station"),
            "The clone (`station`) does not stand in for the device: flushes (mean +48 %)."
        );
        let at_queue = Exception { queue_length_min: Some(1), queue_length_max: Some(1), ..exception };
        assert_eq!(at_queue.text(), "flushes (mean +48 % at queue length 1)");
        let by_demerit = Exception { demerit_to_p99_pct: Some(61.2), ..exception };
        assert_eq!(by_demerit.text(), "flushes (demerit up to p99 61 %)");
        assert_eq!([0.0, 1.0, 20.1, 100.0, 212.3].map(step), [1.0, 1.0, 25.0, 100.0, 213.0]);
    }
}
