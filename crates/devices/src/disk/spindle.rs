//! Rotation of the platters.
//!
//! The angle at a time is computed from the time alone, in 128-bit fixed point, so that it is exact
//! to 2⁻⁶⁴ turn after any number of requests: rotation does not drift.

use seeklab_core::{Angle, Duration, Instant, RotationSpeed};

/// A spindle turning at a constant speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spindle {
    /// Turns per nanosecond in units of 2⁻¹²⁸.
    rate: u128,
    /// Nanoseconds per turn in units of 2⁻³².
    period: u64,
    /// Raw angle at time zero.
    start: u64,
}

/// Micro-turns per minute in one turn per nanosecond.
const MICRO_RPM_OF_ONE_TURN_PER_NS: u128 = 60_000_000_000_000_000;

impl Spindle {
    /// A spindle of that speed, at angle zero at time zero.
    ///
    /// # Panics
    /// If a turn takes longer than four seconds (below 15 rpm); the loader of parameters checks that.
    pub fn new(speed: RotationSpeed) -> Self {
        let speed = u128::from(speed.as_micro_rpm());
        let whole = (speed << 64) / MICRO_RPM_OF_ONE_TURN_PER_NS;
        let rest = (speed << 64) % MICRO_RPM_OF_ONE_TURN_PER_NS;
        let rate = (whole << 64) | ((rest << 64) / MICRO_RPM_OF_ONE_TURN_PER_NS);
        let period = (MICRO_RPM_OF_ONE_TURN_PER_NS << 32) / speed;
        let period = u64::try_from(period).expect("a turn takes at most four seconds");
        Self { rate, period, start: 0 }
    }

    /// Returns the same spindle with the angle `start` at time zero.
    #[must_use]
    pub const fn with_start(self, start: Angle) -> Self {
        Self { start: start.as_raw(), ..self }
    }

    /// The angle at time zero.
    pub const fn start(&self) -> Angle {
        Angle::from_raw(self.start)
    }

    /// The angle under the heads at `time`.
    pub const fn angle_at(&self, time: Instant) -> Angle {
        Angle::from_raw(self.turned(time.as_ns()).wrapping_add(self.start))
    }

    /// Returns the time to turn by `angle`, rounded to the nearest nanosecond.
    pub const fn time_to_turn(&self, angle: Angle) -> Duration {
        let fixed = angle.as_raw() as u128 * self.period as u128;
        Duration::from_ns(((fixed + (1 << 95)) >> 96) as u64)
    }

    /// Returns the angle by which the platters turn in `time`, the inverse of
    /// [`time_to_turn`](Self::time_to_turn).
    pub const fn turn_in(&self, time: Duration) -> Angle {
        Angle::from_raw(self.turned(time.as_ns()))
    }

    /// The raw angle by which the platters turn in `ns` nanoseconds.
    const fn turned(&self, ns: u64) -> u64 {
        ((ns as u128).wrapping_mul(self.rate) >> 64) as u64
    }

    /// One turn, rounded to the nearest nanosecond.
    pub const fn period(&self) -> Duration {
        Duration::from_ns((self.period + (1 << 31)) >> 32)
    }

    /// Time for one of `sectors_per_track` sectors to pass, in units of 2⁻³² ns.
    pub(super) const fn sector_time(&self, sectors_per_track: u64) -> u64 {
        self.period / sectors_per_track
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angle_does_not_drift() {
        // 10,025 rpm: 10,025 turns take exactly one minute, whatever the number of minutes.
        let spindle = Spindle::new(RotationSpeed::from_rpm(10_025));
        for minutes in [1, 1_000, 1_000_000, 100_000_000] {
            let angle = spindle.angle_at(Instant::from_ns(minutes * 60_000_000_000)).as_turns();
            let from_zero = angle.min(1.0 - angle);
            assert!(from_zero < 1e-9, "after {minutes} minutes: {angle} turns");
        }
    }

    #[test]
    fn start_shifts_the_angle_and_no_duration() {
        let spindle = Spindle::new(RotationSpeed::from_rpm(7_200));
        let shifted = spindle.with_start(Angle::from_fraction(3, 8));
        let time = Instant::from_ns(123_456_789);
        assert_eq!(shifted.start(), shifted.angle_at(Instant::ZERO));
        assert_eq!(shifted.angle_at(time) - spindle.angle_at(time), Angle::from_fraction(3, 8));
        assert_eq!(shifted.turn_in(Duration::from_us(777)), spindle.turn_in(Duration::from_us(777)));
        assert_eq!(shifted.period(), spindle.period());
    }

    #[test]
    fn half_a_turn_takes_half_a_period() {
        let spindle = Spindle::new(RotationSpeed::from_rpm(5_400));
        assert_eq!(spindle.period(), Duration::from_ns(11_111_111));
        assert_eq!(spindle.time_to_turn(Angle::from_fraction(1, 2)), Duration::from_ns(5_555_556));
        assert_eq!(spindle.time_to_turn(Angle::ZERO), Duration::ZERO);
        let there = spindle.turn_in(Duration::from_us(1_234));
        assert!(spindle.time_to_turn(there).as_ns().abs_diff(1_234_000) <= 1);
    }
}
