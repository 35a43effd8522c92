//! Angles at which the tracks of a zone begin: sums of steps, in closed form.
//!
//! ```text
//! track c of cylinders, p of its cylinder:
//!     origin + head_steps[0] + … + head_steps[p - 1] + c · cylinder_step + ⌊c / range⌋ · group_step
//! ```
//! A step is a fraction of a turn that is rounded once, to 2⁻¹²⁸ turn. Products and sums wrap at whole turns and are exact,
//! so an error does not accumulate from track to track: in a zone, which has fewer than 2³² sectors, it stays below
//! 2⁻⁹⁵ turn. The angle of a sector is that sum, rounded to the nearest 2⁻⁶⁴ turn. It is the nearest to the exact sum
//! wherever the common denominator of the steps is below 2³⁰, so equal angles that are written in two ways are equal to
//! the last bit.

use std::ops::{Add, Mul};

use seeklab_core::{Angle, AngleStep};

use super::divisor::Divisor;
use super::geometry::{Geometry, ZoneParameters};

/// A fraction of a turn in units of 2⁻¹²⁸; whole turns drop out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turns(u128);

impl Turns {
    const ZERO: Self = Self(0);

    /// `numerator / denominator` of a turn, rounded down.
    const fn from_fraction(numerator: i64, denominator: u64) -> Self {
        let denominator = denominator as u128;
        let numerator = (numerator as i128).rem_euclid(denominator as i128) as u128;
        let (high, rest) = ((numerator << 64) / denominator, (numerator << 64) % denominator);
        Self((high << 64) | ((rest << 64) / denominator))
    }

    /// A step on a track of so many sectors.
    fn from_step(step: AngleStep, sectors_per_track: u32) -> Self {
        let (numerator, denominator) = step.fraction(sectors_per_track);
        Self::from_fraction(numerator, denominator)
    }

    /// The angle, rounded to the nearest.
    pub(super) const fn to_angle(self) -> Angle {
        Angle::from_raw((self.0.wrapping_add(1 << 63) >> 64) as u64)
    }
}

impl Add for Turns {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Mul<u64> for Turns {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.wrapping_mul(u128::from(times)))
    }
}

/// Angles of the tracks of one zone.
#[derive(Debug, Clone)]
pub(super) struct TrackAngles {
    /// Angles of the tracks of the zone's first cylinder, in the order of use.
    tracks: Vec<Turns>,
    cylinder_step: Turns,
    /// Step from one spare group to the next, beside that of the cylinder; most drives have none.
    group_step: Turns,
    group_cylinders: Divisor,
    sector: Turns,
}

impl TrackAngles {
    /// Angles of a zone, whose last track but for the skew of slips lies at `last` in the zone before.
    pub(super) fn new(geometry: &Geometry, zone: &ZoneParameters, last: Option<Turns>) -> Self {
        let sectors_per_track = zone.sectors_per_track;
        let turns = |step: AngleStep| Turns::from_step(step, sectors_per_track);
        let sector = turns(AngleStep::from_sectors(1));
        let after_zone_before = match (last, zone.angles.zone_step) {
            (Some(last), Some(step)) => last + turns(step),
            _ => Turns::ZERO,
        };
        let mut angle =
            after_zone_before + turns(zone.angles.origin) + sector * u64::from(zone.first_block_offset);
        let mut steps = zone.angles.head_steps.iter().copied().map(turns).cycle();
        let track_skew = sector * u64::from(zone.track_skew);
        let mut tracks = Vec::with_capacity(geometry.surfaces as usize);
        for _ in 0..geometry.surfaces {
            tracks.push(angle);
            angle = angle + track_skew + steps.next().unwrap_or(Turns::ZERO);
        }
        let cylinder_step = turns(zone.angles.cylinder_step)
            + track_skew * u64::from(geometry.surfaces - 1)
            + sector * u64::from(zone.cylinder_skew);
        Self {
            tracks,
            cylinder_step,
            group_step: turns(zone.angles.group_step),
            group_cylinders: Divisor::new(u64::from(geometry.sparing_range)),
            sector,
        }
    }

    /// Angle of a sector on the track at `index` of a cylinder of the zone, in the order of use.
    pub(super) fn of_sector(&self, cylinder: u64, index: u64, sector: u64) -> Turns {
        let track = self.tracks[index as usize] + self.cylinder_step * cylinder;
        let track = if self.group_step == Turns::ZERO {
            track
        } else {
            track + self.group_step * self.group_cylinders.div_rem(cylinder).0
        };
        track + self.sector * sector
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `numerator / denominator` of a turn in units of 2⁻⁶⁴, rounded to the nearest, by long division bit by bit.
    fn nearest(numerator: i128, denominator: u64) -> u64 {
        let denominator = u128::from(denominator);
        let mut rest = numerator.rem_euclid(denominator as i128) as u128;
        let mut bits = 0_u64;
        for _ in 0..64 {
            rest *= 2;
            bits = (bits << 1) | u64::from(rest >= denominator);
            rest %= denominator;
        }
        bits.wrapping_add(u64::from(2 * rest >= denominator))
    }

    proptest! {
        #[test]
        fn sum_is_the_nearest_to_the_exact_sum(
            steps in proptest::collection::vec((-1_000_000_i64..1_000_000, 0..4_u64 << 24), 1..6),
            denominator in 1_u64..1 << 30,
        ) {
            let sum = steps.iter().fold(Turns::ZERO, |sum, (numerator, times)| {
                sum + Turns::from_fraction(*numerator, denominator) * *times
            });
            let exact = steps.iter().map(|(numerator, times)| i128::from(*numerator) * i128::from(*times)).sum();
            prop_assert_eq!(sum.to_angle().as_raw(), nearest(exact, denominator));
        }
    }

    #[test]
    fn a_hundred_million_steps_end_where_one_does() {
        // 134 steps of 17/134 turn are 17 turns.
        let step = Turns::from_fraction(17, 134);
        for times in [1, 7, 133] {
            assert_eq!((step * (134 * 100_000_000 + times)).to_angle(), (step * times).to_angle());
        }
    }
}
