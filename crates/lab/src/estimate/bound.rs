//! A bound of a figure, such as `response_p99_ms<=20`.

use std::fmt;
use std::str::FromStr;

use seeklab_core::names::near_matches;
use seeklab_estimate::{Estimate, SHARES};

/// Figures that a bound may name.
const FIGURES: [&str; 8] = [
    "response_mean_ms",
    "response_p50_ms",
    "response_p90_ms",
    "response_p95_ms",
    "response_p99_ms",
    "response_p999_ms",
    "outstanding_mean",
    "utilisation_pct",
];

/// A figure of an estimate and its greatest allowed value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Place in [`FIGURES`].
    figure: usize,
    value: f64,
}

impl Bound {
    /// Name of the figure.
    pub fn figure(&self) -> &'static str {
        FIGURES[self.figure]
    }

    /// Greatest allowed value, in the unit of the figure.
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// Share of the requests whose response time is bounded; `None` of the other figures.
    pub(super) fn share(&self) -> Option<f64> {
        self.figure.checked_sub(1).and_then(|index| SHARES.get(index)).copied()
    }

    /// Value of the figure in an estimate; `None` if the method gives none.
    pub(super) fn value_in(&self, estimate: &Estimate) -> Option<f64> {
        let steady = &estimate.steady;
        match self.figure {
            0 => Some(steady.response_mean_s * 1e3),
            figure @ 1..=5 => estimate.quantiles_s.map(|quantiles| quantiles[figure - 1] * 1e3),
            6 => Some(steady.outstanding_mean),
            _ => Some(steady.utilisation * 100.0),
        }
    }
}

impl FromStr for Bound {
    type Err = String;

    /// Reads `FIGURE<=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once("<=").ok_or_else(|| {
            format!("`{text}` has no `<=` (hint: write for example 'response_p99_ms<=20', in quotes)")
        })?;
        let name = name.trim();
        let figure = FIGURES.iter().position(|figure| *figure == name).ok_or_else(|| {
            let near = near_matches(name, FIGURES);
            format!("there is no figure `{name}`{near} (hint: one of {})", FIGURES.join(", "))
        })?;
        let value: f64 = value.trim().parse().map_err(|_| {
            format!("`{}` is no number (hint: the unit stands in the name of the figure)", value.trim())
        })?;
        if !value.is_finite() || value <= 0.0 {
            return Err(format!("{value} is out of range (hint: a bound is above 0)"));
        }
        if name == "utilisation_pct" && value >= 100.0 {
            return Err(format!("{value} is out of range (hint: a bound of the utilisation is below 100)"));
        }
        Ok(Self { figure, value })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // Of amounts that nobody writes out, the digits alone.
        if (1e-6..1e15).contains(&self.value) {
            write!(f, "{}<={}", self.figure(), self.value)
        } else {
            write!(f, "{}<={:e}", self.figure(), self.value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_name_a_figure_and_a_value() {
        let bound: Bound = "response_p99_ms <= 20".parse().unwrap();
        assert_eq!((bound.figure(), bound.value(), bound.share()), ("response_p99_ms", 20.0, Some(0.99)));
        assert_eq!(bound.to_string(), "response_p99_ms<=20");
        let huge: Bound = "response_p99_ms<=1e300".parse().unwrap();
        assert_eq!(huge.to_string(), "response_p99_ms<=1e300");
        let of = |text: &str| text.parse::<Bound>().unwrap().share();
        assert_eq!((of("response_mean_ms<=1"), of("utilisation_pct<=80")), (None, None));
        assert_eq!((of("response_p50_ms<=1"), of("response_p999_ms<=1")), (Some(0.5), Some(0.999)));
    }

    #[test]
    fn mistakes_in_bounds_are_explained() {
        let problem = |text: &str| text.parse::<Bound>().unwrap_err();
        assert!(problem("response_p99_ms<20").contains("has no `<=`"));
        assert!(
            problem("response_p98_ms<=20").contains("there is no figure `response_p98_ms`; did you mean")
        );
        assert!(problem("response_p99_ms<=20ms").contains("`20ms` is no number"));
        assert!(problem("response_p99_ms<=-1").contains("out of range"));
        assert!(problem("utilisation_pct<=100").contains("below 100"));
    }
}
