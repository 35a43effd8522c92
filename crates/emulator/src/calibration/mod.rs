//! Measurement of the time that this machine adds to every request, and the compensation for it.
//!
//! ```text
//!  wake-ups ───────────────▶ margin                     ┐
//!  streams over each frontend ▶ arrival, completion ▶ fit ▶ Compensation ├─▶ saved, keyed to machine, kernel, boot
//!  the same with zero service ▶ floor                   ┘          │
//!                      recheck for a second at start ◀─────────────┤
//!                      what the run observes (dynamic) ◀───────────┘
//! ```
//! For each frontend, operation and size a stream of like requests is served by a device that takes a
//! millisecond, and by one that takes none. The medians of the first stream give the time of a request to the
//! emulator (arrival), the lateness of the emulator itself (lateness) and the time of the reply back
//! (completion); a line through the sizes makes [`Allowance`](crate::pacer::Allowance)s of them. The response
//! time of the second stream is the *floor*: the shortest service time that can be emulated.
//!
//! # Scope and limits
//! - The measured times depend on where the kernel places client and emulator: the way between two threads on
//!   one processor takes 2 to 5 us, to a processor that sleeps 10 to 40 us (measured on the 2-core virtual
//!   machine of `docs/emulation.md`), and a run may have either. [`Row::spread`] is the difference between
//!   repetitions. Exact pacing keeps idle processors awake if permitted
//!   ([`KeptAwake`](crate::clock::KeptAwake)); both [`Route`]s are measured.
//! - A stream is repeated three times, with the repetitions of all streams interleaved, and the best counts:
//!   longer times are due to other work of the machine. If that work continues, or the kernel places the
//!   threads otherwise, the [`Recheck`] at the start of a run detects it and moves the compensation.
//! - Discarding and writing zeroes are compensated for like flushes: they bring no data.
//!
//! # References
//! \[Griffin 2004, §5.3.2, §5.4\], best of three as there.

mod dynamic;
mod error;
mod file;
mod file_host;
mod fit;
mod floor;
mod machine;
mod measure;
mod recheck;
mod site;
mod stream;
#[cfg(test)]
mod tests;
mod wakeups;

use std::collections::BTreeMap;

use seeklab_core::{Duration, Operation};
use serde::{Deserialize, Serialize};

use crate::clock::{Pacing, Processors};
use crate::pacer::Compensation;

pub use dynamic::SendCost;
pub use error::{CalibrationError, NoCalibration};
pub use fit::Line;
pub use floor::{BelowFloor, shortest_response};
pub use machine::Machine;
pub use measure::Effort;
pub use recheck::{Moved, Recheck};
pub use site::FrontendKind;
pub use stream::{Sample, Served, Setting, Stream};
pub use wakeups::{MARGIN_BOUNDS, Wakeups};

/// The version of the file.
const VERSION: u32 = 3;

/// No time in a calibration is longer: beyond that something was wrong.
const TIME_MAX: Duration = Duration::from_s(10);

/// Measured times of one operation and size over one frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// State of idle processors during the measurement.
    pub processors: Processors,
    /// Operation of the requests.
    pub op: Operation,
    /// Length of each request in bytes; 0 for flushes.
    pub bytes: u32,
    /// Requests in each repetition of each stream.
    pub requests: u64,
    /// Median from MP1 to MP2 on the way in.
    pub arrival: Duration,
    /// Median of how late completions left at MP2.
    pub lateness: Duration,
    /// Median from MP2 to MP1 on the way out.
    pub completion: Duration,
    /// Highest less lowest median response time of the repetitions.
    pub spread: Duration,
    /// Median response time at MP1 of a device that takes no time.
    pub floor: Duration,
    /// Its 99th percentile.
    pub floor_p99: Duration,
}

/// Route of requests between host and emulator. Measured times hold for one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Over what.
    pub frontend: FrontendKind,
    /// State of idle processors.
    pub processors: Processors,
}

impl std::fmt::Display for Route {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.processors {
            Processors::Asleep => write!(formatter, "{}", self.frontend),
            Processors::Awake => write!(formatter, "{} with processors kept awake", self.frontend),
        }
    }
}

/// Measured times that this machine adds to every request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    version: u32,
    /// Machine that the calibration is valid for.
    pub machine: Machine,
    /// Time of the measurement, in seconds since 1970 UTC.
    pub measured_at_s: u64,
    /// Lateness of wake-ups from sleep.
    pub wakeups: Wakeups,
    /// Measured times of each frontend.
    pub frontends: BTreeMap<FrontendKind, Vec<Row>>,
}

impl Calibration {
    /// Returns the time before a deadline at which sleeping ends.
    pub fn margin(&self) -> Duration {
        self.wakeups.margin()
    }

    /// Returns the measured times of a route; none if it was not measured.
    pub fn rows(&self, route: Route) -> impl Iterator<Item = &Row> + Clone {
        let rows = self.frontends.get(&route.frontend).map_or(&[][..], Vec::as_slice);
        rows.iter().filter(move |row| row.processors == route.processors)
    }

    /// Returns true if that route was measured.
    pub fn knows(&self, route: Route) -> bool {
        self.rows(route).next().is_some()
    }

    /// Returns the compensation for that route on a device with blocks of that size; `None` if the route was not
    /// calibrated. Frugal pacing sleeps to the deadline, and completes earlier by the median lateness of
    /// wake-ups.
    pub fn compensation(&self, route: Route, block_bytes: u32, pacing: Pacing) -> Option<Compensation> {
        let rows = self.rows(route);
        let lateness_max = rows.clone().map(|row| row.lateness).max()?;
        let waking = if pacing == Pacing::Frugal { self.wakeups.p50 } else { Duration::ZERO };
        let mut compensation = Compensation::default();
        for op in Operation::ALL {
            let measured = match op {
                Operation::Read | Operation::Write => op,
                Operation::Flush | Operation::Discard | Operation::WriteZeroes => Operation::Flush,
            };
            let line = |time: &dyn Fn(&Row) -> Duration| {
                let rows = rows.clone().filter(|row| row.op == measured);
                Line::through(&rows.map(|row| (row.bytes, time(row))).collect::<Vec<_>>())
            };
            *compensation.arrival.of_mut(op) = line(&|row| row.arrival).allowance(block_bytes);
            *compensation.early.of_mut(op) =
                line(&|row| row.completion + row.lateness + waking).allowance(block_bytes);
        }
        let (least, most) = LOOKAHEAD_BOUNDS;
        Some(compensation.with_lookahead((lateness_max * 2).clamp(least, most)))
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("its version is {}, {VERSION} is known", self.version));
        }
        for (frontend, rows) in &self.frontends {
            for row in rows {
                let times = [row.arrival, row.lateness, row.completion, row.spread, row.floor, row.floor_p99];
                if times.iter().any(|time| *time > TIME_MAX) {
                    let (op, bytes) = (row.op.name(), row.bytes);
                    return Err(format!("a time of {frontend} {op} {bytes} is beyond {TIME_MAX}"));
                }
            }
        }
        Ok(())
    }
}

/// The least and the most that a synchronous model runs ahead beyond the early completion.
const LOOKAHEAD_BOUNDS: (Duration, Duration) = (Duration::from_us(5), Duration::from_us(100));
