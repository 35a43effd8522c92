//! Rotation speed of a spindle.

use std::fmt;
use std::str::FromStr;

use super::{QuantityError, is_bare_number, serde_as_text, split_unit};

/// A rotation speed in millionths of a revolution per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RotationSpeed {
    micro_rpm: u64,
}

impl RotationSpeed {
    /// The fastest speed accepted, a million revolutions per minute.
    pub const MAX: Self = Self { micro_rpm: 1_000_000_000_000 };

    /// A speed of `rpm` revolutions per minute.
    pub const fn from_rpm(rpm: u64) -> Self {
        Self { micro_rpm: rpm * 1_000_000 }
    }

    /// A speed of `micro_rpm` millionths of a revolution per minute.
    pub const fn from_micro_rpm(micro_rpm: u64) -> Self {
        Self { micro_rpm }
    }

    /// Millionths of a revolution per minute.
    pub const fn as_micro_rpm(self) -> u64 {
        self.micro_rpm
    }

    /// Revolutions per minute, for people and plots.
    pub fn as_rpm(self) -> f64 {
        self.micro_rpm as f64 / 1e6
    }
}

impl FromStr for RotationSpeed {
    type Err = QuantityError;

    /// Reads `"7200rpm"`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if is_bare_number(text) {
            return Err(QuantityError::new(
                text,
                "has no unit",
                format!("write a rotation speed, for example \"{}rpm\"", text.trim()),
            ));
        }
        match split_unit(text) {
            Some((rpm, "rpm")) if rpm > 0.0 && rpm <= Self::MAX.as_rpm() => {
                Ok(Self { micro_rpm: (rpm * 1e6).round() as u64 })
            }
            Some((_, "rpm")) => Err(QuantityError::new(
                text,
                "is out of range",
                "a rotation speed lies above 0rpm and at or below 1000000rpm",
            )),
            _ => Err(QuantityError::new(text, "is not a rotation speed", "write for example \"7200rpm\"")),
        }
    }
}

impl fmt::Display for RotationSpeed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&format!("{}rpm", self.as_rpm()))
    }
}

serde_as_text!(RotationSpeed, "a rotation speed", "\"7200rpm\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_speeds_are_read_with_their_unit() {
        assert_eq!("10025rpm".parse(), Ok(RotationSpeed::from_rpm(10_025)));
        assert_eq!("5400.5 rpm".parse(), Ok(RotationSpeed::from_micro_rpm(5_400_500_000)));
        assert_eq!("7200".parse::<RotationSpeed>().unwrap_err().problem, "has no unit");
        assert_eq!("0rpm".parse::<RotationSpeed>().unwrap_err().problem, "is out of range");
        assert_eq!("7200rps".parse::<RotationSpeed>().unwrap_err().problem, "is not a rotation speed");
        assert_eq!(RotationSpeed::from_rpm(7_200).to_string(), "7200rpm");
    }
}
