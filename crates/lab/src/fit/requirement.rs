//! A requirement on the errors of a clone, such as `read_p99_pct<=20`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_core::Operation;
use seeklab_core::names::near_matches;
use seeklab_learning::evaluation::{Evaluation, JUDGED_REQUESTS_MIN, OperationEvaluation};
use serde::Serialize;

/// Figures of an operation that a requirement may name, after the name of the operation. Without an operation, a figure is
/// the greatest of the operations that decide.
const FIGURES: [&str; 4] = ["mean_pct", "p99_pct", "demerit_pct", "class_pct"];

/// Figure of all requests.
const OUTSIDE: &str = "out_of_range_pct";

/// An error of a clone and its greatest allowed value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requirement {
    figure: Figure,
    value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// Of an operation, or of all that decide; its place in [`FIGURES`].
    Error(Option<Operation>, usize),
    /// The share of requests outside the fitted range.
    Outside,
}

/// Result of the check of a requirement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RequirementCheck {
    /// The requirement.
    pub requirement: String,
    /// Value of the figure without its sign; null if fewer than 100 requests of the operation were predicted, it has no class with 1 % of
    /// the requests, or the prediction lacked a limit of the device.
    pub value_pct: Option<f64>,
    /// True if the figure is known and no greater than allowed.
    pub is_met: bool,
}

impl Requirement {
    /// Checks the requirement by the evaluation of a model; `None` if there is none.
    pub fn check(&self, evaluation: Option<&Evaluation>) -> RequirementCheck {
        let value_pct =
            evaluation.filter(|evaluation| evaluation.is_judged()).and_then(|of| self.value_in(of));
        RequirementCheck {
            requirement: self.to_string(),
            value_pct,
            is_met: value_pct.is_some_and(|value| value <= self.value),
        }
    }

    fn value_in(&self, evaluation: &Evaluation) -> Option<f64> {
        let of = |operation: &OperationEvaluation, figure: usize| match figure {
            // A few requests say nothing about the others.
            _ if operation.requests < JUDGED_REQUESTS_MIN => None,
            0 => Some(operation.mean_error_pct.abs()),
            1 => Some(operation.p99_error_pct.abs()),
            2 => operation.prediction.demerit_to_p99.ea_rms_pct,
            // An operation without a class of 1 % of the requests has no error of a class.
            _ => operation.worst_class.map(|class| class.mean_error_pct.abs()),
        };
        match self.figure {
            Figure::Outside => Some(evaluation.out_of_fitted_range_pct),
            Figure::Error(wanted, figure) => {
                let is_wanted = |operation: &&OperationEvaluation| match wanted {
                    Some(wanted) => operation.operation == wanted,
                    None => operation.decides,
                };
                let values: Option<Vec<f64>> = evaluation
                    .operations
                    .iter()
                    .filter(is_wanted)
                    .map(|operation| of(operation, figure))
                    .collect();
                values?.into_iter().max_by(f64::total_cmp)
            }
        }
    }
}

impl RequirementCheck {
    /// Describes a requirement that is not met.
    pub fn sentence(&self) -> String {
        match self.value_pct {
            Some(value) => format!("--require {}: it is {value:.2} %", self.requirement),
            None => format!(
                "--require {}: it is unknown, as too few such requests were predicted, or the prediction lacked a limit of the device",
                self.requirement
            ),
        }
    }
}

/// Every name of a figure.
fn names() -> Vec<String> {
    let of_operations = Operation::ALL
        .into_iter()
        .flat_map(|op| FIGURES.into_iter().map(move |figure| format!("{}_{figure}", op.name())));
    FIGURES.into_iter().chain([OUTSIDE]).map(str::to_owned).chain(of_operations).collect()
}

impl FromStr for Requirement {
    type Err = String;

    /// Reads `FIGURE<=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once("<=").ok_or_else(|| {
            format!("`{text}` has no `<=` (hint: write for example 'read_p99_pct<=20', in quotes)")
        })?;
        let name = name.trim();
        let figure_of = |name: &str| FIGURES.iter().position(|figure| *figure == name);
        let of_operation = || {
            Operation::ALL.into_iter().find_map(|op| {
                let figure = figure_of(name.strip_prefix(op.name())?.strip_prefix('_')?)?;
                Some(Figure::Error(Some(op), figure))
            })
        };
        let figure = match figure_of(name) {
            Some(figure) => Some(Figure::Error(None, figure)),
            None if name == OUTSIDE => Some(Figure::Outside),
            None => of_operation(),
        };
        let figure = figure.ok_or_else(|| {
            let names = names();
            let near = near_matches(name, names.iter().map(String::as_str));
            format!(
                "there is no figure `{name}`{near} (hint: {} or {OUTSIDE}; read_p99_pct is that of reads alone)",
                FIGURES.join(", ")
            )
        })?;
        let value: f64 = value.trim().parse().map_err(|_| {
            format!("`{}` is no number (hint: the unit stands in the name of the figure)", value.trim())
        })?;
        if !value.is_finite() || value < 0.0 {
            return Err(format!("{value} is out of range (hint: an error is 0 or more)"));
        }
        Ok(Self { figure, value })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.figure {
            Figure::Outside => f.write_str(OUTSIDE)?,
            Figure::Error(None, figure) => f.write_str(FIGURES[figure])?,
            Figure::Error(Some(op), figure) => write!(f, "{}_{}", op.name(), FIGURES[figure])?,
        }
        write!(f, "<={}", self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_requirement_reads_back() {
        for text in ["read_p99_pct<=20", "mean_pct<=5", "write_zeroes_class_pct<=0.5", "out_of_range_pct<=1"]
        {
            assert_eq!(text.parse::<Requirement>().unwrap().to_string(), text);
        }
        assert_eq!(
            " flush_mean_pct <= 10 ".parse::<Requirement>().unwrap().to_string(),
            "flush_mean_pct<=10"
        );
        let every = names();
        assert_eq!(every.len(), 5 + 4 * Operation::ALL.len());
        assert!(every.iter().all(|name| format!("{name}<=1").parse::<Requirement>().is_ok()), "{every:?}");
    }

    #[test]
    fn mistakes_in_requirements_are_explained() {
        let problem = |text: &str| text.parse::<Requirement>().unwrap_err();
        assert!(problem("read_p99_pct<20").contains("has no `<=`"));
        assert!(problem("read_p98_pct<=20").contains("there is no figure `read_p98_pct`; did you mean"));
        assert!(problem("read_p99_pct<=20%").contains("`20%` is no number"));
        assert!(problem("mean_pct<=-1").contains("out of range"));
    }

    #[test]
    fn unknown_figure_meets_no_requirement() {
        let check = "mean_pct<=5".parse::<Requirement>().unwrap().check(None);
        assert!(!check.is_met && check.sentence().contains("unknown"), "{check:?}");
    }
}
