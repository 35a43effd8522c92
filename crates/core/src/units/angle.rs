//! Angles as fixed-point fractions of a turn.

use std::fmt;
use std::ops::{Add, Sub};

/// A turn in units of 2⁻⁶⁴ turn.
const TURN: f64 = 18_446_744_073_709_551_616.0;

/// An angle in units of 2⁻⁶⁴ turn; arithmetic wraps, as angles do, and so never drifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Angle(u64);

impl Angle {
    /// The reference mark of the turn.
    pub const ZERO: Self = Self(0);

    /// The angle of `raw` times 2⁻⁶⁴ turn.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The angle in units of 2⁻⁶⁴ turn.
    pub const fn as_raw(self) -> u64 {
        self.0
    }

    /// `numerator / denominator` of a turn, rounded down to the next 2⁻⁶⁴ turn.
    ///
    /// # Panics
    /// If `denominator` is zero.
    pub const fn from_fraction(numerator: u64, denominator: u64) -> Self {
        let fraction = ((numerator % denominator) as u128) << 64;
        Self((fraction / denominator as u128) as u64)
    }

    /// The angle of a fraction of a turn in `[0, 1)`, rounded down to the next 2⁻⁶⁴ turn.
    pub fn from_turns(turns: f64) -> Self {
        Self((turns * TURN) as u64)
    }

    /// The angle as a fraction of a turn in `[0, 1)`, for people and plots.
    pub fn as_turns(self) -> f64 {
        self.0 as f64 / TURN
    }
}

impl Add for Angle {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Sub for Angle {
    type Output = Self;
    /// The turn forward from `other` to `self`.
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl fmt::Display for Angle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:.9}turn", self.as_turns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angle_arithmetic_wraps() {
        let three_quarters = Angle::from_fraction(3, 4);
        let half = Angle::from_fraction(1, 2);
        assert_eq!(three_quarters + half, Angle::from_fraction(1, 4));
        assert_eq!(half - three_quarters, three_quarters);
        assert_eq!(Angle::from_fraction(7, 4), three_quarters);
        assert_eq!(three_quarters.as_turns(), 0.75);
    }
}
