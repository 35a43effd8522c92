//! Exactness of an emulation: the same requests at several measurement points.
//!
//! ```text
//!            arrival error                          completion error
//!  mp1 ●────────▶                                              ────────▶● mp1
//!            mp2 ●────▶                                  ────▶● mp2
//!                  mp3 ●═══════ the model ═══════● mp3   ⇠ lateness ⇢ due
//! ```
//! Of two points, the *reference* is the one nearer to the model, whichever is named first \[Griffin 2004,
//! §5.2.3\]: `mp1`, `mp2`, `due`, `mp3` from the host inwards. An error is the response time at the outer
//! point less that at the reference; it is the sum of
//!
//! - the *arrival error*, arrival at the reference less arrival at the outer point, and
//! - the *completion error*, completion at the outer point less completion at the reference,
//!
//! which can be separated because all stamps are on one clock. Compensation makes either negative.
//!
//! | point | arrival | completion |
//! | --- | --- | --- |
//! | `mp1` | `mp1_arrival` | `mp1_completion` |
//! | `mp2` | `mp2_arrival` | `mp2_completion` |
//! | `due` | `mp2_arrival` | `mp2_due`, the model's completion less the early-completion allowance |
//! | `mp3` | `arrival` | `completion` |
//!
//! # Groups
//! Where the host split or merged requests, all requests that stand for one request of the host carry the
//! same pair of stamps at MP1. They count as one request. At MP1 it has this pair of stamps; at the other
//! points it lasts from the earliest arrival to the latest completion of its members.
//!
//! # Scope and limits
//! Stamps are held in memory, 64 bytes per request. Lateness and misses are the emulator's and count every
//! request, matched or not.
//!
//! # References
//! J. L. Griffin, Timing-accurate storage emulation, CMU, 2004: sections 5.2 and 5.3.2.

mod between;
mod lateness;
mod trust;

use seeklab_core::{Instant, MissCause, Operation, TraceRecord};

use crate::matching::DRIVER_FLUSHES_MAX;

pub use between::{Between, BetweenSummary, ErrorSpread, PathErrors, PointsError};
pub use lateness::{DEADLINE_LIMIT, LatenessSummary, MissCounts};
pub use trust::{Evidence, Trust, TrustLevel, range_trust};

/// Measurement points of a request, from the host inwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// In the host.
    Mp1,
    /// The point where the emulator meets the host.
    Mp2,
    /// The time at which the reply was due at MP2.
    Due,
    /// In the model.
    Mp3,
}

impl Point {
    /// Every point, from the host inwards.
    pub const ALL: [Self; 4] = [Self::Mp1, Self::Mp2, Self::Due, Self::Mp3];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mp1 => "mp1",
            Self::Mp2 => "mp2",
            Self::Due => "due",
            Self::Mp3 => "mp3",
        }
    }

    /// The point of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }

    /// Returns a description of the point in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Mp1 => "in the host",
            Self::Mp2 => "where the emulator meets the host",
            Self::Due => "when the reply was due",
            Self::Mp3 => "in the model",
        }
    }

    /// The columns of the trace with its arrival and its completion.
    pub const fn columns(self) -> [&'static str; 2] {
        match self {
            Self::Mp1 => ["mp1_arrival_ns", "mp1_completion_ns"],
            Self::Mp2 => ["mp2_arrival_ns", "mp2_completion_ns"],
            Self::Due => ["mp2_arrival_ns", "mp2_due_ns"],
            Self::Mp3 => ["arrival_ns", "completion_ns"],
        }
    }
}

/// The stamps of a run, request by request.
#[derive(Debug, Clone, Default)]
pub struct Stamps {
    rows: Vec<Row>,
}

/// The stamps of a request in nanoseconds, [`NONE`] where there is none.
#[derive(Debug, Clone, Copy)]
struct Row {
    mp1: [u64; 2],
    /// Arrival, due, completion.
    mp2: [u64; 3],
    mp3: [u64; 2],
    op: Operation,
    cause: Option<MissCause>,
}

const _: () = assert!(size_of::<Row>() == 64);

/// No stamp: a run does not last for 584 years.
const NONE: u64 = u64::MAX;

impl Row {
    /// Arrival and completion at `point`, where both are known.
    fn at(&self, point: Point) -> Option<(u64, u64)> {
        let (arrival, completion) = match point {
            Point::Mp1 => (self.mp1[0], self.mp1[1]),
            Point::Mp2 => (self.mp2[0], self.mp2[2]),
            Point::Due => (self.mp2[0], self.mp2[1]),
            Point::Mp3 => (self.mp3[0], self.mp3[1]),
        };
        (arrival != NONE && completion != NONE).then_some((arrival, completion))
    }
}

impl Stamps {
    /// Takes the next request.
    pub fn push(&mut self, record: &TraceRecord) {
        let ns = |instant: Option<Instant>| instant.map_or(NONE, Instant::as_ns);
        let points = &record.points;
        self.rows.push(Row {
            mp1: [points.mp1_arrival, points.mp1_completion].map(ns),
            mp2: [points.mp2_arrival, points.mp2_due, points.mp2_completion].map(ns),
            mp3: [Some(record.arrival), record.completion].map(ns),
            op: record.op,
            cause: points.miss_cause,
        });
    }

    /// Requests.
    pub fn requests(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns the number of requests with both arrival and completion measured at `point`.
    pub fn seen_at(&self, point: Point) -> u64 {
        self.rows.iter().filter(|row| row.at(point).is_some()).count() as u64
    }

    /// Requests that no stamps of the host could be matched with, `None` if MP1 was not measured at all.
    /// [`driver_flushes`](Self::driver_flushes) do not count.
    pub fn unmatched(&self) -> Option<u64> {
        let seen = self.seen_at(Point::Mp1);
        (seen > 0).then(|| self.requests() - seen - self.driver_flushes())
    }

    /// Flushes without stamps of the host that the loop driver made by itself, 0 if MP1 was not measured at all.
    pub fn driver_flushes(&self) -> u64 {
        if self.seen_at(Point::Mp1) == 0 {
            return 0;
        }
        let unseen = |row: &&Row| row.op == Operation::Flush && row.at(Point::Mp1).is_none();
        (self.rows.iter().filter(unseen).count() as u64).min(DRIVER_FLUSHES_MAX)
    }
}

impl<'a> FromIterator<&'a TraceRecord> for Stamps {
    fn from_iter<T: IntoIterator<Item = &'a TraceRecord>>(records: T) -> Self {
        let mut stamps = Self::default();
        records.into_iter().for_each(|record| stamps.push(record));
        stamps
    }
}

/// The value at `quantile` of ascending values (nearest rank); `None` of nothing.
fn nearest_rank<T: Copy>(ascending: &[T], quantile: f64) -> Option<T> {
    let rank = (quantile * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests;
