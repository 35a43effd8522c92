//! Angles at which the tracks of a zone begin: sums of steps, in closed form.
//!
//! ```text
//! cylinder first, track p of cylinder c:
//!     origin + head_steps[0] + … + head_steps[p - 1] + c · cylinder_step + ⌊c / range⌋ · group_step
//! surface first, k serpentines after the zone's first track:
//!     origin + track_steps[surface] for each step within a serpentine + k · serpentine_step
//! ```
//! A step is a fraction of a turn that is rounded once, to 2⁻¹²⁸ turn. Products and sums wrap at whole turns and are exact,
//! so an error does not accumulate from track to track: in a zone, which has fewer than 2³² sectors, it stays below
//! 2⁻⁹⁵ turn. The angle of a sector is that sum, rounded to the nearest 2⁻⁶⁴ turn. It is the nearest to the exact sum
//! wherever the common denominator of the steps is below 2³⁰, so equal angles that are written in two ways are equal to
//! the last bit.

use std::ops::{Add, Mul};

use seeklab_core::{Angle, AngleStep};

use super::divisor::Divisor;
use super::geometry::{Geometry, Mapping, ZoneParameters};
use super::tracks::Spot;

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
    #[inline]
    pub(super) const fn to_angle(self) -> Angle {
        Angle::from_raw((self.0.wrapping_add(1 << 63) >> 64) as u64)
    }
}

impl Add for Turns {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Mul<u64> for Turns {
    type Output = Self;
    #[inline]
    fn mul(self, times: u64) -> Self {
        Self(self.0.wrapping_mul(u128::from(times)))
    }
}

/// Angles of the tracks of one zone.
#[derive(Debug, Clone)]
pub(super) struct TrackAngles {
    steps: Steps,
    /// Angle of a sector, by surface.
    sectors: Vec<Turns>,
    /// Angle of a sector of a skew.
    skew_sector: Turns,
}

#[derive(Debug, Clone)]
enum Steps {
    Cylinders(CylinderSteps),
    Serpentines(SerpentineSteps),
}

/// Steps of a zone that is used cylinder by cylinder.
#[derive(Debug, Clone)]
struct CylinderSteps {
    /// Angles of the tracks of the zone's first cylinder, in the order of use.
    tracks: Vec<Turns>,
    cylinder_step: Turns,
    /// Step from one spare group to the next, beside that of the cylinder; most drives have none.
    group_step: Turns,
    group_cylinders: Divisor,
}

/// Steps of a zone that is used in serpentines.
#[derive(Debug, Clone)]
struct SerpentineSteps {
    origin: Turns,
    /// Step from track to track, by surface.
    tracks: Vec<Turns>,
    /// Sums of `tracks` over the surfaces that are used before each pass of a group: in order, and in reverse.
    before: [Vec<Turns>; 2],
    serpentine_step: Turns,
    /// Angle from the first track of a whole group to that of the next.
    group_step: Turns,
}

impl TrackAngles {
    /// Angles of a zone; `last` is the last track of the zone before.
    pub(super) fn new(geometry: &Geometry, zone: &ZoneParameters, last: Option<Turns>) -> Self {
        let turns = |step: AngleStep| Turns::from_step(step, zone.sectors_per_track);
        let after_zone_before = match (last, zone.angles.zone_step) {
            (Some(last), Some(step)) => last + turns(step),
            _ => Turns::ZERO,
        };
        let skew_sector = turns(AngleStep::from_sectors(1));
        let offset = skew_sector * u64::from(zone.first_block_offset);
        let origin = after_zone_before + turns(zone.angles.origin) + offset;
        let steps = if geometry.mapping == Mapping::SurfaceFirst {
            Steps::Serpentines(SerpentineSteps::new(geometry, zone, origin))
        } else {
            Steps::Cylinders(CylinderSteps::new(geometry, zone, origin))
        };
        let sector = |head| Turns::from_fraction(1, u64::from(zone.sectors_on(head)));
        Self { steps, sectors: (0..geometry.surfaces).map(sector).collect(), skew_sector }
    }

    /// Angle of a sector.
    #[inline]
    pub(super) fn of_sector(&self, spot: Spot) -> Turns {
        let track = match &self.steps {
            Steps::Cylinders(steps) => steps.of_track(spot),
            Steps::Serpentines(steps) => steps.of_track(spot),
        };
        track + self.sectors[spot.head as usize] * spot.sector
    }

    /// Angle by which so many slips push the skew of what follows them.
    pub(super) fn of_pushes(&self, slips: u64) -> Turns {
        self.skew_sector * slips
    }
}

impl CylinderSteps {
    fn new(geometry: &Geometry, zone: &ZoneParameters, origin: Turns) -> Self {
        let turns = |step: AngleStep| Turns::from_step(step, zone.sectors_per_track);
        let sector = turns(AngleStep::from_sectors(1));
        let track_skew = sector * u64::from(zone.track_skew);
        let mut steps = zone.angles.head_steps.iter().copied().map(turns).cycle();
        let mut angle = origin;
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
        }
    }

    #[inline]
    fn of_track(&self, spot: Spot) -> Turns {
        let track = self.tracks[spot.pass as usize] + self.cylinder_step * spot.cylinder;
        if self.group_step == Turns::ZERO {
            return track;
        }
        track + self.group_step * self.group_cylinders.div_rem(spot.cylinder).0
    }
}

impl SerpentineSteps {
    fn new(geometry: &Geometry, zone: &ZoneParameters, origin: Turns) -> Self {
        let turns = |step: AngleStep| Turns::from_step(step, zone.sectors_per_track);
        let listed = &zone.angles.track_steps;
        let track =
            |head: usize| if listed.is_empty() { Turns::ZERO } else { turns(listed[head % listed.len()]) };
        let tracks: Vec<Turns> = (0..geometry.surfaces as usize).map(track).collect();
        let add = |sum: &mut Turns, step: &Turns| {
            let before = *sum;
            *sum = before + *step;
            Some(before)
        };
        let before = [
            tracks.iter().scan(Turns::ZERO, add).collect(),
            tracks.iter().rev().scan(Turns::ZERO, add).collect(),
        ];
        let serpentine_step = turns(zone.angles.serpentine_step);
        let all = tracks.iter().fold(Turns::ZERO, |sum, step| sum + *step);
        let group_step =
            all * u64::from(geometry.serpentine_tracks - 1) + serpentine_step * u64::from(geometry.surfaces);
        Self { origin, tracks, before, serpentine_step, group_step }
    }

    #[inline(never)]
    fn of_track(&self, spot: Spot) -> Turns {
        let before = &self.before[usize::from(spot.group.is_reversed)];
        self.origin
            + self.group_step * spot.group.number
            + before[spot.pass as usize] * (spot.group.cylinders - 1)
            + self.serpentine_step * spot.pass
            + self.tracks[spot.head as usize] * spot.index
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
