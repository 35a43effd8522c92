//! The arrival modes of an experiment.

use std::fmt;

use seeklab_workloads::WorkloadSpec;
use seeklab_workloads::replay::{ARRIVAL_MODES, ArrivalMode, ArrivalModeError, Population};
use seeklab_workloads::synthetic::ArrivalSpec;

use crate::failure::Failure;

/// Rule by which requests arrive; `None`: as the workload itself says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mode(pub(super) Option<ArrivalMode>);

impl Mode {
    /// Reads `workload`, or a mode such as `closed 8`; an error is a problem and a hint.
    pub(super) fn parse(text: &str) -> Result<Self, (String, String)> {
        if text.trim() == "workload" {
            return Ok(Self(None));
        }
        let mode =
            text.parse().map_err(|error: ArrivalModeError| (format!("`{text}`: {error}"), allowed()))?;
        Ok(Self(Some(mode)))
    }

    /// Refuses what a workload cannot do, or would do in silence otherwise than it is called.
    pub(super) fn check(self, spec: &WorkloadSpec) -> Result<(), Failure> {
        let WorkloadSpec::Synthetic(synthetic) = spec else { return Ok(()) };
        let is_closed = matches!(synthetic.arrivals, ArrivalSpec::Closed { .. });
        match self.0 {
            None | Some(ArrivalMode::Closed(Population::Count(_))) => Ok(()),
            Some(ArrivalMode::Open) if is_closed => Err(Failure::new(format!(
                "`{self}`: the workload has a closed population and no arrival process"
            ))
            .hint("give it one, for example random,poisson=60/s")),
            Some(ArrivalMode::Open) => Ok(()),
            Some(_) => Err(Failure::new(format!("`{self}` is for traces, the workload is synthetic"))
                .hint("give the population, rate or think time in the workload, or vary it: [[parameters]]")),
        }
    }
}

fn allowed() -> String {
    format!("allowed: \"workload\", {ARRIVAL_MODES}")
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            None => f.write_str("workload"),
            Some(mode) => mode.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_mode_reads_back() {
        for text in ["workload", "open", "scaled 1.5", "closed auto", "follow"] {
            assert_eq!(Mode::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn error_names_the_text_and_what_is_allowed() {
        let (problem, hint) = Mode::parse("closed 0").unwrap_err();
        assert_eq!(problem, "`closed 0`: `0` is not a population of 1 to 1000000, or `auto`");
        assert!(hint.contains("\"workload\", \"open\""), "{hint}");
    }

    #[test]
    fn open_is_refused_where_nothing_arrives_by_itself() {
        let spec = |line: &str| WorkloadSpec::parse(line).unwrap();
        let mode = |text: &str| Mode::parse(text).unwrap();
        assert!(mode("open").check(&spec("random")).is_err());
        assert!(mode("open").check(&spec("random,poisson=60/s")).is_ok());
        assert!(mode("think").check(&spec("random,poisson=60/s")).is_err());
        assert!(mode("think").check(&spec("replay,trace=a.csv")).is_ok());
    }
}
