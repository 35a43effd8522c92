//! The clock of a device that stands still or runs slow.

use std::collections::VecDeque;

use seeklab_core::{Duration, Instant};

/// Segments beyond which those before every outstanding request are to be dropped.
const SEGMENTS_KEPT: usize = 32;

/// One: a device that runs as fast as the clock outside.
const ONE: u64 = 1 << 32;

/// The time inside a device as a function of the time outside.
///
/// ```text
/// inside ▲            ╱
///        │      ╱────╱   paused: a state of the device is kept, with the angle of its platters
///        │    ╱╱         slow: everything takes longer by one factor, also a rotation
///        │  ╱
///        └──────────────▶ outside
/// ```
/// Time inside never passes faster than outside, so a device that keeps its contract inside keeps it outside.
#[derive(Debug)]
pub struct DeviceClock {
    segments: VecDeque<Segment>,
}

/// Time from `outside` on; before it, the time inside is `inside`.
#[derive(Debug, Clone, Copy)]
struct Segment {
    inside: Instant,
    outside: Instant,
    /// Time outside beyond a nanosecond that a nanosecond inside takes, in 2^-32 ns.
    excess: u64,
}

impl Segment {
    /// Time outside at which the time inside is `inside`.
    fn outside(&self, inside: Instant) -> Instant {
        let ns = inside.saturating_since(self.inside).as_ns();
        let more = (u128::from(ns) * u128::from(self.excess)) >> 32;
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        Instant::from_ns(self.outside.as_ns().saturating_add(ns).saturating_add(more))
    }

    /// The latest time inside that has come when it is `outside`.
    fn inside(&self, outside: Instant) -> Instant {
        let ns = outside.saturating_since(self.outside).as_ns();
        if self.excess == 0 {
            return self.inside + Duration::from_ns(ns);
        }
        let passed = (u128::from(ns) << 32) / u128::from(ONE + self.excess);
        let mut inside = self.inside + Duration::from_ns(passed as u64);
        while self.outside(inside + Duration::from_ns(1)) <= outside.max(self.outside) {
            inside += Duration::from_ns(1);
        }
        inside
    }
}

impl Default for DeviceClock {
    fn default() -> Self {
        let segment = Segment { inside: Instant::ZERO, outside: Instant::ZERO, excess: 0 };
        let mut segments = VecDeque::with_capacity(2 * SEGMENTS_KEPT);
        segments.push_back(segment);
        Self { segments }
    }
}

impl DeviceClock {
    fn last(&self) -> &Segment {
        self.segments.back().expect("there is always a segment")
    }

    /// The time inside when it is `outside`, not before the last change.
    pub fn inside(&self, outside: Instant) -> Instant {
        self.last().inside(outside)
    }

    /// The time outside when it is `inside`; of a pause, its end.
    pub fn outside(&self, inside: Instant) -> Instant {
        let after = self.segments.partition_point(|segment| segment.inside <= inside);
        self.segments[after.max(1) - 1].outside(inside)
    }

    /// Returns true if the time inside has always been the time outside.
    pub fn is_even(&self) -> bool {
        let first = self.segments.front().filter(|first| first.excess == 0 && first.inside == first.outside);
        self.segments.len() == 1 && first.is_some()
    }

    /// Stands still for `length` from `now` on, or for as much longer than it does already.
    pub fn pause(&mut self, now: Instant, length: Duration) {
        let Segment { outside, excess, .. } = *self.last();
        let inside = self.inside(now);
        self.push(Segment { inside, outside: outside.max(now) + length, excess });
    }

    /// From `now` on everything takes `factor` times as long as outside, at least once.
    pub fn slow(&mut self, now: Instant, factor: f64) {
        let Segment { outside, .. } = *self.last();
        let inside = self.inside(now);
        let excess = ((factor - 1.0) * ONE as f64).round() as u64;
        self.push(Segment { inside, outside: outside.max(now), excess });
    }

    fn push(&mut self, segment: Segment) {
        // Nothing passed inside since the last change, which is over then.
        if self.last().inside == segment.inside && self.segments.len() > 1 {
            self.segments.pop_back();
        }
        self.segments.push_back(segment);
    }

    /// Returns true if it remembers so many changes that it should forget some.
    pub fn is_long(&self) -> bool {
        self.segments.len() > SEGMENTS_KEPT
    }

    /// Forgets what was before `inside`, the arrival of the oldest request there.
    pub fn forget_before(&mut self, inside: Instant) {
        let after = self.segments.partition_point(|segment| segment.inside <= inside);
        self.segments.drain(..after.max(1) - 1);
    }

    /// Becomes as `other`; allocates only where that holds more than this ever did.
    pub fn copy_from(&mut self, other: &Self) {
        self.segments.clear();
        self.segments.reserve(other.segments.capacity());
        self.segments.extend(&other.segments);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn pauses_shift_and_factors_stretch() {
        let mut clock = DeviceClock::default();
        clock.pause(at(100), Duration::from_ns(50));
        assert_eq!(clock.outside(at(99)), at(99));
        assert_eq!(clock.outside(at(100)), at(150), "the end of the pause");
        assert_eq!((clock.inside(at(149)), clock.inside(at(151))), (at(100), at(101)));
        clock.pause(at(120), Duration::from_ns(10));
        assert_eq!(clock.outside(at(100)), at(160), "pauses add up");
        clock.slow(at(260), 3.0);
        assert_eq!(clock.outside(at(210)), at(290));
        assert_eq!((clock.inside(at(289)), clock.inside(at(290))), (at(209), at(210)));
        clock.slow(at(290), 1.0);
        assert_eq!(clock.outside(at(215)), at(295));
        assert_eq!(clock.outside(at(205)), at(275), "the past keeps its speed");
        assert!(DeviceClock::default().is_even() && !clock.is_even());
    }

    proptest! {
        #[test]
        fn time_inside_never_goes_back_nor_passes_faster(
            changes in prop::collection::vec((1_u64..1_000, prop::option::of(0_u64..300), 1.0_f64..4.0), 1..40)
        ) {
            let mut clock = DeviceClock::default();
            let (mut now, mut before) = (0, at(0));
            for (step, pause, factor) in changes {
                let from = now;
                for time in from..=from + step {
                    let inside = clock.inside(at(time));
                    prop_assert!(inside >= before && inside <= before + Duration::from_ns(1));
                    // A device that is to be polled at a time inside is polled no earlier, and at that time.
                    let next = inside + Duration::from_ns(1);
                    let due = clock.outside(next);
                    prop_assert!(due > at(time) && clock.inside(due) >= next);
                    before = inside;
                }
                now = from + step;
                match pause {
                    Some(length) => clock.pause(at(now), Duration::from_ns(length)),
                    None => clock.slow(at(now), factor),
                }
            }
        }
    }
}
