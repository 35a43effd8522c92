//! The same requests at two measurement points.

use std::fmt;

use schemars::JsonSchema;
use seeklab_core::{Duration, Instant, Operation};
use serde::Serialize;

use super::{Point, Row, Stamps, nearest_rank};
use crate::comparison::{Comparison, ComparisonSummary, extremes};
use crate::rounding::six_decimals;

/// The response times of the same requests at two measurement points.
#[derive(Debug, Clone)]
pub struct Between {
    outer: Point,
    reference: Point,
    pairs: Vec<Pair>,
    comparison: Comparison,
    groups: u64,
    grouped: u64,
    left_out: u64,
}

/// A request at both points, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Pair {
    outer: (u64, u64),
    /// `None` if it is not known of every member.
    reference: Option<(u64, u64)>,
    members: u32,
    op: Operation,
}

/// The figures of a comparison between two measurement points.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BetweenSummary {
    /// The outer point.
    pub point: &'static str,
    /// The point nearer to the model, whose times are taken to be right.
    pub reference: &'static str,
    /// The errors of the response times; `requests` counts a group as one.
    #[serde(flatten)]
    pub comparison: ComparisonSummary,
    /// Requests of the host that stand for more than one of the trace.
    pub groups: u64,
    /// Requests of the trace that belong to such groups.
    pub grouped_requests: u64,
    /// Requests of the trace that were not measured at both points, or belong to a group with such a request.
    pub left_out: u64,
    /// Arrival and completion errors apart: of all, then of each operation that occurs.
    pub errors: Vec<PathErrors>,
}

/// Errors on the way in and on the way out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PathErrors {
    /// The operation, `all` for all of them.
    pub op: &'static str,
    /// Requests; a group is one.
    pub requests: u64,
    /// Arrival at the reference less arrival at the outer point.
    pub arrival: ErrorSpread,
    /// Completion at the outer point less completion at the reference.
    pub completion: ErrorSpread,
}

/// Median and 99th percentile of errors. Negative where the compensation exceeds the delay that it
/// compensates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ErrorSpread {
    /// Median.
    pub p50_us: f64,
    /// Ninety-ninth percentile.
    pub p99_us: f64,
}

/// Reason why a trace cannot be compared between two measurement points.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PointsError {
    /// Both points are the same.
    SamePoint(Point),
    /// No request of the trace was measured at this point.
    NotMeasured(Point),
    /// Each point has requests, but none has both.
    NoCommonRequests(Point, Point),
}

impl fmt::Display for PointsError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::SamePoint(point) => {
                write!(f, "`{0}` and `{0}` are the same measurement point", point.name())
            }
            Self::NotMeasured(point) => {
                let [arrival, completion] = point.columns();
                write!(
                    f,
                    "no request was measured at `{}` ({}): `{arrival}` and `{completion}` are absent or null",
                    point.name(),
                    point.meaning()
                )
            }
            Self::NoCommonRequests(outer, reference) => {
                write!(f, "no request was measured at both `{}` and `{}`", outer.name(), reference.name())
            }
        }
    }
}

impl std::error::Error for PointsError {}

impl Stamps {
    /// Compares two points, in either order. The point nearer to the model is the reference.
    ///
    /// # Errors
    /// [`PointsError`], if the points are the same or no request was measured at both.
    pub fn between(&self, one: Point, other: Point) -> Result<Between, PointsError> {
        let (outer, reference) = (one.min(other), one.max(other));
        if outer == reference {
            return Err(PointsError::SamePoint(outer));
        }
        if let Some(missing) = [outer, reference].into_iter().find(|point| self.seen_at(*point) == 0) {
            return Err(PointsError::NotMeasured(missing));
        }
        let mut pairs: Vec<Pair> =
            self.rows.iter().filter_map(|row| Pair::of(row, outer, reference)).collect();
        pairs.sort_by_key(|pair| pair.outer);
        if outer == Point::Mp1 {
            pairs.dedup_by(|next, group| group.takes(next));
        }
        pairs.retain(|pair| pair.reference.is_some());
        let times = pairs.iter().map(|pair| (lasts(pair.known_reference()), lasts(pair.outer)));
        let comparison =
            Comparison::from_pairs(times).map_err(|_| PointsError::NoCommonRequests(outer, reference))?;
        let members = |pair: &Pair| u64::from(pair.members);
        let grouped = pairs.iter().filter(|pair| pair.members > 1);
        Ok(Between {
            outer,
            reference,
            comparison,
            groups: grouped.clone().count() as u64,
            grouped: grouped.map(members).sum(),
            left_out: self.requests() - pairs.iter().map(members).sum::<u64>(),
            pairs,
        })
    }
}

impl Pair {
    fn of(row: &Row, outer: Point, reference: Point) -> Option<Self> {
        Some(Self { outer: row.at(outer)?, reference: row.at(reference), members: 1, op: row.op })
    }

    /// Takes `next` in if both stand for the same request of the host.
    fn takes(&mut self, next: &Self) -> bool {
        let same = self.outer == next.outer;
        if same {
            self.members += next.members;
            self.reference = self.reference.zip(next.reference).map(
                |((arrival, completion), (next_arrival, next_completion))| {
                    (arrival.min(next_arrival), completion.max(next_completion))
                },
            );
        }
        same
    }

    fn known_reference(&self) -> (u64, u64) {
        self.reference.expect("pairs without a reference are left out")
    }

    /// The errors of arrival and completion in nanoseconds.
    fn errors_ns(&self) -> (i64, i64) {
        let (arrival, completion) = self.known_reference();
        (arrival as i64 - self.outer.0 as i64, self.outer.1 as i64 - completion as i64)
    }
}

/// The time between two stamps; zero where an allowance puts the due time before the arrival.
fn lasts((arrival, completion): (u64, u64)) -> Duration {
    Instant::from_ns(completion).saturating_since(Instant::from_ns(arrival))
}

impl Between {
    /// The outer point.
    pub const fn outer(&self) -> Point {
        self.outer
    }

    /// The point whose times are taken to be right.
    pub const fn reference(&self) -> Point {
        self.reference
    }

    /// The response times, in order of arrival at the outer point.
    pub const fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// The figures.
    pub fn summary(&self) -> BetweenSummary {
        let all = self.errors_of("all", |_| true);
        let each = Operation::ALL.into_iter().map(|op| self.errors_of(op.name(), |pair| pair.op == op));
        BetweenSummary {
            point: self.outer.name(),
            reference: self.reference.name(),
            comparison: self.comparison.summary(),
            groups: self.groups,
            grouped_requests: self.grouped,
            left_out: self.left_out,
            errors: std::iter::once(all).chain(each).flatten().collect(),
        }
    }

    fn errors_of(&self, op: &'static str, keep: impl Fn(&Pair) -> bool) -> Option<PathErrors> {
        let errors = self.pairs.iter().filter(|pair| keep(pair)).map(Pair::errors_ns);
        let (arrival, completion): (Vec<i64>, Vec<i64>) = errors.unzip();
        let requests = arrival.len() as u64;
        Some(PathErrors { op, requests, arrival: spread(arrival)?, completion: spread(completion)? })
    }

    /// The errors of the response times over the time of arrival at the outer point, none cut off:
    /// `(seconds since the first, milliseconds)`, at most 4,000. Of more requests, the smallest and the
    /// largest error of each few in succession.
    pub fn errors_over_time(&self) -> Vec<(f64, f64)> {
        let first = self.pairs.first().map_or(0, |pair| pair.outer.0);
        let times = self.pairs.iter().map(|pair| (pair.outer.0 - first) as f64 / 1e9);
        extremes(times.zip(self.comparison.errors_ms()), self.pairs.len())
    }
}

fn spread(mut errors_ns: Vec<i64>) -> Option<ErrorSpread> {
    errors_ns.sort_unstable();
    let us = |quantile| nearest_rank(&errors_ns, quantile).map(|ns| six_decimals(ns as f64 / 1e3));
    Some(ErrorSpread { p50_us: us(0.5)?, p99_us: us(0.99)? })
}
