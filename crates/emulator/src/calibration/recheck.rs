//! Check of a saved calibration: a short stream at the start of a run.
//!
//! # Scope and limits
//! Reads and writes of 4 KiB in alternation, for about a second altogether, on a device of the calibration's
//! own that lives for that second. The calibration holds if the median of the way in, and the median of the
//! way out with lateness, each moved by at most 5 us or a quarter of their sum, whichever is larger.
//! [`Recheck::adjust`] moves the fixed parts by the measured change: machine and load may have moved, the
//! cost of each byte hardly.

use std::fmt;

use seeklab_core::{Duration, Operation, SignedDuration};

use super::measure::sorted_quantile;
use super::stream::{Sample, Served, Setting, Stream};
use super::{Calibration, CalibrationError, Route, Row};
use crate::clock::{Clock, KeptAwake, Pacing, Processors};
use crate::pacer::{Allowance, Compensation};

/// Bytes of each request.
const BYTES: u32 = 4 << 10;

/// From which change on a calibration no longer holds, however short the time was.
const MOVED_MIN: Duration = Duration::from_us(5);

/// Change of the medians of one operation since the calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Operation.
    pub op: Operation,
    /// On the way in: now less then.
    pub arrival: SignedDuration,
    /// On the way out, lateness included: now less then.
    pub completion: SignedDuration,
    /// Largest allowed change of each.
    pub allowed: Duration,
}

impl Moved {
    fn holds(&self) -> bool {
        let within = |moved: SignedDuration| moved.as_ns().unsigned_abs() <= self.allowed.as_ns();
        within(self.arrival) && within(self.completion)
    }

    fn of(row: &Row, samples: &[Sample]) -> Self {
        let now = |time: &dyn Fn(&Sample) -> Duration| {
            sorted_quantile(&mut samples.iter().map(time).collect::<Vec<_>>(), 0.5)
        };
        let moved =
            |now: Duration, then: Duration| SignedDuration::from_ns(now.as_ns() as i64 - then.as_ns() as i64);
        let out = row.completion + row.lateness;
        let quarter = (row.arrival + out) / 4;
        Self {
            op: row.op,
            arrival: moved(now(&|sample| sample.arrival), row.arrival),
            completion: moved(now(&|sample| sample.completion + sample.lateness), out),
            allowed: MOVED_MIN.max(quarter),
        }
    }
}

/// Result of a recheck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recheck {
    /// Route that was checked.
    pub route: Route,
    /// Reads and writes.
    pub moved: Vec<Moved>,
}

impl Recheck {
    /// Returns true if the calibration still holds.
    pub fn holds(&self) -> bool {
        self.moved.iter().all(Moved::holds)
    }

    /// Moves the fixed parts by the measured change, if the calibration no longer holds. All operations except
    /// reads move with the writes.
    #[must_use]
    pub fn adjust(&self, mut compensation: Compensation) -> Compensation {
        let add = |allowance: &mut Allowance, moved: SignedDuration| {
            let fixed = allowance.fixed.as_ns().saturating_add_signed(moved.as_ns());
            allowance.fixed = Duration::from_ns(fixed);
        };
        for op in Operation::ALL {
            let like = if op == Operation::Read { op } else { Operation::Write };
            if let Some(moved) = self.moved.iter().find(|moved| moved.op == like && !moved.holds()) {
                add(compensation.arrival.of_mut(op), moved.arrival);
                add(compensation.early.of_mut(op), moved.completion);
            }
        }
        compensation
    }
}

impl fmt::Display for Recheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let route = self.route;
        let Some(moved) = self.moved.iter().find(|moved| !moved.holds()) else {
            return write!(formatter, "the calibration of {route} holds");
        };
        let Moved { op, arrival, completion, allowed } = moved;
        let op = op.name();
        write!(
            formatter,
            "the calibration of {route} no longer holds: {op}s arrive {arrival} and complete {completion} later than when calibrated ({allowed} allowed)"
        )
    }
}

impl Calibration {
    /// Looks for a second whether the calibration of `route` still holds, if it was calibrated.
    ///
    /// # Errors
    /// If the frontend cannot be served here.
    pub fn recheck(&self, route: Route, clock: Clock) -> Result<Option<Recheck>, CalibrationError> {
        self.recheck_by(route, clock, Duration::from_s(1))
    }

    /// As [`recheck`](Self::recheck), for that long.
    pub(super) fn recheck_by(
        &self,
        route: Route,
        clock: Clock,
        length: Duration,
    ) -> Result<Option<Recheck>, CalibrationError> {
        let row = |op| self.rows(route).find(|row| row.op == op && row.bytes == BYTES);
        let (Some(read), Some(write)) = (row(Operation::Read), row(Operation::Write)) else {
            return Ok(None);
        };
        let _held = match route.processors {
            Processors::Asleep => None,
            Processors::Awake => Some(KeptAwake::hold().map_err(CalibrationError::Awake)?),
        };
        let setting = Setting {
            frontend: route.frontend,
            service_time: Duration::from_ms(1),
            pacing: Pacing::Balanced,
            margin: self.margin(),
            compensation: Compensation::default(),
        };
        let mut served = Served::start(setting, clock)?;
        let stream = |op| Stream { op, bytes: BYTES, requests: 10, pause: Duration::from_ms(1) };
        let mut samples = [Vec::new(), Vec::new()];
        let end = clock.now() + length;
        // What is cold at first is not what a run sees.
        served.run(stream(Operation::Read))?;
        loop {
            samples[0].extend(served.run(stream(Operation::Read))?);
            samples[1].extend(served.run(stream(Operation::Write))?);
            if clock.now() >= end {
                break;
            }
        }
        served.finish()?;
        let moved = vec![Moved::of(read, &samples[0]), Moved::of(write, &samples[1])];
        Ok(Some(Recheck { route, moved }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NBD, synthetic};
    use super::*;

    /// As the calibration's 4 KiB row, each time so much longer.
    fn samples(row: &Row, longer_us: u64) -> Vec<Sample> {
        let longer = Duration::from_us(longer_us);
        let sample = Sample {
            arrival: row.arrival + longer,
            lateness: row.lateness,
            completion: row.completion + longer,
            response: Duration::from_ms(1),
        };
        // One in three is far off.
        let off = Sample { arrival: Duration::from_ms(9), ..sample };
        vec![sample, off, sample]
    }

    #[test]
    fn recheck_finds_a_change_and_adjusts_for_it() {
        let calibration = synthetic();
        let row = |op| calibration.rows(NBD).find(|row| row.op == op && row.bytes == BYTES).unwrap();
        let recheck = |longer_us| {
            let moved = [Operation::Read, Operation::Write]
                .map(|op| Moved::of(row(op), &samples(row(op), longer_us)));
            Recheck { route: NBD, moved: moved.to_vec() }
        };
        let before = calibration.compensation(NBD, 512, Pacing::Balanced).unwrap();
        assert!(recheck(0).holds() && recheck(4).holds());
        assert_eq!(recheck(4).adjust(before), before);
        let found = recheck(40);
        assert!(!found.holds(), "{found}");
        let after = found.adjust(before);
        for op in Operation::ALL {
            assert_eq!(after.arrival.of(op).fixed, before.arrival.of(op).fixed + Duration::from_us(40));
            assert_eq!(after.early.of(op).fixed, before.early.of(op).fixed + Duration::from_us(40));
        }
    }
}
