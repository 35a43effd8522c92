//! Angles between tracks, as exact fractions.

use std::fmt;
use std::str::FromStr;

use super::{QuantityError, is_bare_number, serde_as_text};

/// An angle between tracks: a fraction of a turn, or a number of sectors.
///
/// The fraction is kept as it was written, so it is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AngleStep {
    numerator: i64,
    denominator: u64,
    unit: Unit,
}

/// The unit of an angle between tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Turn,
    Sectors,
}

/// Greatest numerator and denominator: with 65,535 sectors to the track, denominators stay below 2⁶⁴.
const LARGEST: u64 = 1_000_000_000_000;

const EXAMPLES: &str = "write for example \"17/134turn\", \"0.0625turn\" or \"63sectors\"";

impl AngleStep {
    /// No angle.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1, unit: Unit::Turn };

    /// `numerator / denominator` of a turn.
    ///
    /// # Panics
    /// If the denominator is zero, or one of the two exceeds 10¹².
    pub const fn from_turns(numerator: i64, denominator: u64) -> Self {
        assert!(denominator > 0 && denominator <= LARGEST && numerator.unsigned_abs() <= LARGEST);
        Self { numerator, denominator, unit: Unit::Turn }
    }

    /// An angle of so many sectors.
    pub const fn from_sectors(sectors: i32) -> Self {
        Self { numerator: sectors as i64, denominator: 1, unit: Unit::Sectors }
    }

    /// Returns true if the angle is zero.
    pub const fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// Numerator and denominator of the fraction of a turn, on a track of so many sectors.
    pub const fn fraction(self, sectors_per_track: u32) -> (i64, u64) {
        match self.unit {
            Unit::Turn => (self.numerator, self.denominator),
            Unit::Sectors => (self.numerator, self.denominator * sectors_per_track as u64),
        }
    }
}

impl Default for AngleStep {
    fn default() -> Self {
        Self::ZERO
    }
}

impl FromStr for AngleStep {
    type Err = QuantityError;

    /// Reads `"17/134turn"`, `"-0.0625turn"` and `"63sectors"`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(trimmed.len());
        let (number, unit) = (trimmed[..end].trim(), &trimmed[end..]);
        let is_number = |text: &str| text.split('/').all(is_bare_number);
        if unit.is_empty() && !number.is_empty() && is_number(number) {
            let hint = format!("write an angle, for example \"{number}turn\" or \"{number}sectors\"");
            return Err(QuantityError::new(text, "has no unit", hint));
        }
        let unit = match unit {
            "turn" | "turns" => Unit::Turn,
            "sector" | "sectors" => Unit::Sectors,
            _ => return Err(QuantityError::new(text, "is not a rotation angle", EXAMPLES)),
        };
        let (numerator, denominator) =
            fraction(number).ok_or_else(|| QuantityError::new(text, "is not a rotation angle", EXAMPLES))?;
        if denominator == 0 || denominator > LARGEST || numerator.unsigned_abs() > LARGEST {
            return Err(QuantityError::new(
                text,
                "is out of range",
                format!(
                    "numerator and denominator have at most 12 digits, the denominator is not 0; {EXAMPLES}"
                ),
            ));
        }
        Ok(Self { numerator, denominator, unit })
    }
}

/// Numerator and denominator of `"17"`, `"-17/134"` or `"0.0625"`.
fn fraction(number: &str) -> Option<(i64, u64)> {
    if let Some((numerator, denominator)) = number.split_once('/') {
        return numerator.trim().parse().ok().zip(denominator.trim().parse().ok());
    }
    let Some((whole, decimals)) = number.split_once('.') else {
        return number.parse().ok().map(|numerator| (numerator, 1));
    };
    if decimals.is_empty() || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let denominator = 10_u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    Some((format!("{whole}{decimals}").parse().ok()?, denominator))
}

impl fmt::Display for AngleStep {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { numerator, denominator, unit } = *self;
        let unit = match unit {
            Unit::Turn => "turn",
            Unit::Sectors => "sectors",
        };
        let decimals = denominator.ilog10();
        if denominator == 1 {
            f.pad(&format!("{numerator}{unit}"))
        } else if denominator == 10_u64.pow(decimals) {
            let (sign, digits) = (if numerator < 0 { "-" } else { "" }, numerator.unsigned_abs());
            let (whole, rest) = (digits / denominator, digits % denominator);
            f.pad(&format!("{sign}{whole}.{rest:0width$}{unit}", width = decimals as usize))
        } else {
            f.pad(&format!("{numerator}/{denominator}{unit}"))
        }
    }
}

serde_as_text!(AngleStep, "a rotation angle", "\"17/134turn\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_are_read_and_written_without_loss() {
        for (text, fraction) in [
            ("17/134turn", (17, 134)),
            ("-2/21turn", (-2, 21)),
            ("0turn", (0, 1)),
            ("0.062492turn", (62_492, 1_000_000)),
            ("-0.05turn", (-5, 100)),
            ("63sectors", (63, 500)),
            ("-5/2sectors", (-5, 1_000)),
            ("1.5sectors", (15, 5_000)),
        ] {
            let step: AngleStep = text.parse().unwrap();
            assert_eq!(step.fraction(500), fraction, "{text}");
            assert_eq!(step.to_string(), text);
        }
        assert_eq!(" 1 sector ".parse(), Ok(AngleStep::from_sectors(1)));
        assert_eq!("9 / 16 turn".parse(), Ok(AngleStep::from_turns(9, 16)));
    }

    #[test]
    fn malformed_angles_are_refused() {
        let problem = |text: &str| text.parse::<AngleStep>().unwrap_err().problem;
        for bare in ["17", "17/134", "0.25", "-3"] {
            assert_eq!(problem(bare), "has no unit", "{bare}");
        }
        for malformed in
            ["", "turn", "1/2/3turn", "1.5/2turn", "1.turn", "half turn", "1rad", "--1turn", "1.-5turn"]
        {
            assert_eq!(problem(malformed), "is not a rotation angle", "{malformed}");
        }
        for outside in ["1/0turn", "1/1000000000001turn", "1000000000001turn", "0.0000000000001turn"] {
            assert_eq!(problem(outside), "is out of range", "{outside}");
        }
    }
}
