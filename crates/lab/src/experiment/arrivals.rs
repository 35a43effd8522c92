//! The arrival modes of an experiment: the flags of `seeklab simulate` as text.

use std::fmt;

use seeklab_core::Ratio;
use seeklab_workloads::WorkloadSpec;
use seeklab_workloads::synthetic::ArrivalSpec;

use crate::failure::Failure;
use crate::workload::Arrivals;

/// Arrivals of requests. `None`: as the workload defines them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mode(pub(super) Option<Arrivals>);

const ALLOWED: &str =
    "allowed: \"workload\", \"open\", \"closed 8\", \"closed auto\", \"scale 1.5\", \"think\"";

impl Mode {
    /// Reads `closed 8`; an error is a problem and a hint.
    pub(super) fn parse(text: &str) -> Result<Self, (String, String)> {
        let wrong = |problem: String| (problem, ALLOWED.to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        let arrivals = match words.as_slice() {
            ["workload"] => None,
            ["open"] => Some(Arrivals::Open),
            ["think"] => Some(Arrivals::Think),
            ["closed", "auto"] => Some(Arrivals::Closed(None)),
            ["closed", count] => match count.parse() {
                Ok(count) if count > 0 => Some(Arrivals::Closed(Some(count))),
                _ => return Err(wrong(format!("`{text}`: a population is 1 or more, or `auto`"))),
            },
            ["scale", factor] => match factor.parse::<Ratio>() {
                Ok(factor) if factor != Ratio::ZERO => Some(Arrivals::Scaled(factor)),
                _ => return Err(wrong(format!("`{text}`: a factor is a number above 0"))),
            },
            ["closed"] => return Err(wrong("`closed` needs a population".to_owned())),
            ["scale"] => return Err(wrong("`scale` needs a factor".to_owned())),
            _ => return Err(wrong(format!("`{text}` is not a way to arrive"))),
        };
        Ok(Self(arrivals))
    }

    /// Refuses what a workload cannot do, or would do in silence otherwise than it is called.
    pub(super) fn check(self, spec: &WorkloadSpec) -> Result<(), Failure> {
        let WorkloadSpec::Synthetic(synthetic) = spec else { return Ok(()) };
        let is_closed = matches!(synthetic.arrivals, ArrivalSpec::Closed { .. });
        match self.0 {
            None | Some(Arrivals::Closed(Some(_))) => Ok(()),
            Some(Arrivals::Open) if is_closed => Err(Failure::new(format!(
                "`{self}`: the workload has a closed population and no arrival process"
            ))
            .hint("give it one, for example random,poisson=60/s")),
            Some(Arrivals::Open) => Ok(()),
            Some(_) => Err(Failure::new(format!("`{self}` is for traces, the workload is synthetic"))
                .hint("give the population, rate or think time in the workload, or vary it: [[parameters]]")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            None => f.write_str("workload"),
            Some(Arrivals::Open) => f.write_str("open"),
            Some(Arrivals::Think) => f.write_str("think"),
            Some(Arrivals::Closed(None)) => f.write_str("closed auto"),
            Some(Arrivals::Closed(Some(count))) => write!(f, "closed {count}"),
            Some(Arrivals::Scaled(factor)) => write!(f, "scale {factor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_round_trip() {
        for text in ["workload", "open", "think", "closed 8", "closed auto", "scale 1.5"] {
            assert_eq!(Mode::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Mode::parse(" scale  150% ").unwrap().to_string(), "scale 1.5");
    }

    #[test]
    fn wrong_modes_give_the_reason() {
        let problem = |text: &str| Mode::parse(text).unwrap_err().0;
        assert_eq!(problem("closed 0"), "`closed 0`: a population is 1 or more, or `auto`");
        assert_eq!(problem("scale 0"), "`scale 0`: a factor is a number above 0");
        assert_eq!(problem("closed"), "`closed` needs a population");
        assert_eq!(problem("oben"), "`oben` is not a way to arrive");
    }

    #[test]
    fn open_is_refused_for_workloads_without_arrivals() {
        let spec = |line: &str| WorkloadSpec::parse(line).unwrap();
        let mode = |text: &str| Mode::parse(text).unwrap();
        assert!(mode("open").check(&spec("random")).is_err());
        assert!(mode("open").check(&spec("random,poisson=60/s")).is_ok());
        assert!(mode("think").check(&spec("random,poisson=60/s")).is_err());
        assert!(mode("think").check(&spec("replay,trace=a.csv")).is_ok());
    }
}
