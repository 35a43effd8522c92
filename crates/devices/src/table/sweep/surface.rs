//! Times over request lengths and queue lengths, from those that were measured.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::super::classes::{Class, Classes, Distance};
use super::{Point, Quantiles};

/// Factor beyond the longest length and the deepest depth up to which there are cells.
const BEYOND: u32 = 8;

/// Measurements of one operation, sequential or not.
#[derive(Debug, Default)]
pub(super) struct Surface {
    /// By class of length.
    rows: BTreeMap<u32, Row>,
}

/// One length.
#[derive(Debug, Default)]
struct Row {
    blocks: f64,
    requests: f64,
    /// By class of queue length.
    known: BTreeMap<u32, Known>,
}

#[derive(Debug)]
struct Known {
    precedence: u8,
    /// Requests outstanding, the new one included.
    depth: f64,
    requests: f64,
    times: Quantiles,
}

impl Known {
    fn of(depth: f64, requests: f64, point: &Point) -> Self {
        Self { precedence: point.precedence, depth, requests, times: point.times.clone() }
    }

    fn mix(&mut self, depth: f64, requests: f64, point: &Point) {
        self.times = self.times.mixed(self.requests, &point.times, requests);
        self.depth = mean(self.depth, self.requests, depth, requests);
        self.requests += requests;
    }
}

/// The times of a class.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) times: Quantiles,
    /// True if the class lies beyond the measured range.
    pub(super) is_beyond: bool,
}

/// The mean of two, by weight.
fn mean(a: f64, weight: f64, b: f64, other_weight: f64) -> f64 {
    (a * weight + b * other_weight) / (weight + other_weight)
}

impl Surface {
    pub(super) fn add(&mut self, classes: &Classes, point: &Point) {
        let class = classes.of(point.blocks, point.queue_length, Distance::Sequential);
        let requests = point.requests.max(1) as f64;
        let row = self.rows.entry(class.length).or_default();
        row.blocks = mean(row.blocks, row.requests, f64::from(point.blocks), requests);
        row.requests += requests;
        let depth = f64::from(point.queue_length) + 1.0;
        row.known
            .entry(class.queue)
            .and_modify(|known| match point.precedence.cmp(&known.precedence) {
                Ordering::Less => *known = Known::of(depth, requests, point),
                Ordering::Greater => {}
                Ordering::Equal => known.mix(depth, requests, point),
            })
            .or_insert_with(|| Known::of(depth, requests, point));
    }

    /// Classes of length and queue length and their times.
    pub(super) fn cells<'a>(&'a self, classes: &'a Classes) -> impl Iterator<Item = (u32, u32, Found)> + 'a {
        let of = |blocks: f64, queue: f64| classes.of(blocks as u32, queue as u32, Distance::Sequential);
        let longest = self.rows.values().map(|row| row.blocks).fold(1.0, f64::max);
        let deepest = self.rows.values().flat_map(|row| row.known.values()).map(|known| known.depth);
        let deepest = deepest.fold(1.0, f64::max);
        let last = of(longest * f64::from(BEYOND), deepest * f64::from(BEYOND) - 1.0);
        let first = self.rows.keys().next().copied().unwrap_or_default();
        (first..=last.length)
            .flat_map(move |length| (0..=last.queue).map(move |queue| (length, queue)))
            .filter(|(_, queue)| is_of_whole_numbers(classes, *queue))
            .map(move |(length, queue)| (length, queue, self.at(classes, length, queue)))
    }

    /// The same of requests that have no length, as deep as was measured: beyond, the nearest class answers.
    pub(super) fn cells_without_length<'a>(
        &'a self,
        classes: &'a Classes,
    ) -> impl Iterator<Item = (u32, u32, Found)> + 'a {
        let [_, queues, _] = classes.counts();
        let all = self
            .rows
            .iter()
            .flat_map(move |(length, row)| (0..queues).map(move |queue| (*length, row, queue)));
        all.filter(|(.., queue)| is_of_whole_numbers(classes, *queue)).filter_map(|(length, row, queue)| {
            let depth = row.known.get(&queue).map_or_else(|| depth_of(classes, queue), |known| known.depth);
            Some((length, queue, Found { times: row.between(depth)?, is_beyond: false }))
        })
    }

    fn at(&self, classes: &Classes, length: u32, queue: u32) -> Found {
        // A depth that was measured, of any length, stands for its class; else the middle does.
        let measured = self.rows.get(&length).into_iter().chain(self.rows.values());
        let depth = measured.filter_map(|row| row.known.get(&queue)).map(|known| known.depth).next();
        let depth = depth.unwrap_or_else(|| depth_of(classes, queue));
        if let Some(row) = self.rows.get(&length) {
            return self.row_at(row, length, depth);
        }
        let blocks = length_of(classes, length);
        let (below, above) = (self.rows.range(..length).next_back(), self.rows.range(length..).next());
        match (below, above) {
            (Some((at, shorter)), Some((beyond, longer))) => {
                let (from, to) = (self.row_at(shorter, *at, depth), self.row_at(longer, *beyond, depth));
                let share = ((blocks - shorter.blocks) / (longer.blocks - shorter.blocks)).clamp(0.0, 1.0);
                Found {
                    times: from.times.towards(&to.times, share),
                    is_beyond: from.is_beyond || to.is_beyond,
                }
            }
            (Some((at, longest)), None) => {
                let times = self.row_at(longest, *at, depth).times;
                let grown = times.mean_ns() * (blocks / longest.blocks).max(1.0);
                Found { times: times.with_mean(grown), is_beyond: true }
            }
            (None, Some((at, shortest))) => Found { is_beyond: true, ..self.row_at(shortest, *at, depth) },
            (None, None) => unreachable!("a surface has a row"),
        }
    }

    /// The times at a depth of a length that was measured.
    fn row_at(&self, row: &Row, length: u32, depth: f64) -> Found {
        if let Some(times) = row.between(depth) {
            return Found { times, is_beyond: false };
        }
        let anchor = row.nearest(depth);
        // What others gained or lost from that depth to this one: the nearest shorter and the nearest longer.
        let growth = |(at, other): (&u32, &Row)| {
            let (from, to) = (other.between(anchor.depth)?, other.between(depth)?);
            (*at != length).then(|| (other.blocks.ln(), (to.mean_ns() / from.mean_ns()).ln()))
        };
        let shorter = self.rows.range(..length).rev().find_map(growth);
        let longer = self.rows.range(length..).find_map(growth);
        let with_depth = (depth / anchor.depth).ln();
        let ln_factor = match (shorter, longer) {
            (Some((at, low)), Some((beyond, high))) => {
                low + (high - low) * ((row.blocks.ln() - at) / (beyond - at)).clamp(0.0, 1.0)
            }
            (Some((_, of)), None) | (None, Some((_, of))) => of,
            // Deeper, throughput stays; shallower, times do.
            (None, None) => with_depth.max(0.0),
        };
        let factor = ln_factor.clamp(with_depth.min(0.0), with_depth.max(0.0)).exp();
        Found { times: anchor.times.with_mean(anchor.times.mean_ns() * factor), is_beyond: true }
    }
}

impl Row {
    /// The times at a depth that is neither below the shallowest nor above the deepest.
    fn between(&self, depth: f64) -> Option<Quantiles> {
        let after = self.known.values().find(|known| known.depth >= depth)?;
        if after.depth == depth {
            return Some(after.times.clone());
        }
        let before = self.known.values().rev().find(|known| known.depth < depth)?;
        let share = (depth - before.depth) / (after.depth - before.depth);
        Some(before.times.towards(&after.times, share))
    }

    /// Returns the measurement nearest to a depth outside of the measured range.
    fn nearest(&self, depth: f64) -> &Known {
        let (first, last) = (self.known.values().next(), self.known.values().next_back());
        let first = first.expect("a row has a depth");
        if depth < first.depth { first } else { last.expect("a row has a depth") }
    }
}

/// The shortest length of a class, in blocks: lengths are powers of two most often.
fn length_of(classes: &Classes, length: u32) -> f64 {
    f64::from(classes.least(Class { length, queue: 0, distance: 0 }).0)
}

/// The depth in the middle of a class of queue lengths.
fn depth_of(classes: &Classes, queue: u32) -> f64 {
    let least = |queue| f64::from(classes.least(Class { length: 0, queue, distance: 0 }).1);
    let last = (least(queue + 1) - 1.0).max(least(queue));
    (least(queue) + last) / 2.0 + 1.0
}

/// Returns true if a class contains a queue length: of the four classes between 1 and 2, only one
/// does.
fn is_of_whole_numbers(classes: &Classes, queue: u32) -> bool {
    let (_, least, _) = classes.least(Class { length: 0, queue, distance: 0 });
    classes.of(1, least, Distance::Sequential).queue == queue
}
