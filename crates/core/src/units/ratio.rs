//! Shares and probabilities.

use std::fmt;
use std::str::FromStr;

use super::{QuantityError, serde_as_text, split_unit};

/// A dimensionless share, such as a probability or a part of a range.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Ratio(f64);

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);
    /// Everything.
    pub const ONE: Self = Self(1.0);

    /// The ratio `value`, or `None` if it is negative or not a number.
    pub fn new(value: f64) -> Option<Self> {
        (value >= 0.0 && value.is_finite()).then_some(Self(value))
    }

    /// The ratio `value` of a table in the code.
    ///
    /// # Panics
    /// If it is negative or not a number.
    pub const fn from_const(value: f64) -> Self {
        assert!(value >= 0.0 && value < f64::INFINITY, "a ratio is neither negative nor infinite");
        Self(value)
    }

    /// The ratio as a plain number.
    pub const fn as_f64(self) -> f64 {
        self.0
    }
}

impl FromStr for Ratio {
    type Err = QuantityError;

    /// Reads `"66%"`, `"1/1000"` and `"0.66"`; a ratio is the one quantity without a unit.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let trimmed = text.trim();
        let value = if let Some((numerator, denominator)) = trimmed.split_once('/') {
            numerator
                .trim()
                .parse::<f64>()
                .ok()
                .zip(denominator.trim().parse::<f64>().ok())
                .map(|(n, d)| n / d)
        } else {
            match split_unit(trimmed) {
                Some((number, "")) => Some(number),
                Some((number, "%")) => Some(number / 100.0),
                _ => None,
            }
        };
        value.and_then(Self::new).ok_or_else(|| {
            QuantityError::new(text, "is not a ratio", "write for example \"66%\", \"0.66\" or \"1/1000\"")
        })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&format!("{}", self.0))
    }
}

serde_as_text!(Ratio, "a ratio", "\"66%\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_in_all_three_spellings() {
        assert_eq!("66%".parse(), Ok(Ratio(0.66)));
        assert_eq!("0.25".parse(), Ok(Ratio(0.25)));
        assert_eq!("1/1000".parse(), Ok(Ratio(0.001)));
        for bad in ["1/0", "-1%", "half", "66 percent", ""] {
            assert!(bad.parse::<Ratio>().is_err(), "{bad}");
        }
    }
}
