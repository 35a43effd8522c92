//! Contents of fitted tables: times of each operation, and their means by queue length, seek distance and
//! length.
//!
//! # Scope and limits
//! Means are over all requests that were recorded at a queue length, a seek distance or a length, for any
//! values of the other two. So the means describe the device under that workload, not the effect of one
//! quantity.

use std::collections::BTreeMap;

use seeklab_core::Operation;

use super::classes::Distance;
use super::parameters::TableParameters;
use super::times::span;
use crate::error::DescriptionError;
use crate::fitted::{FittedAxis, FittedCurves, FittedModel, FittedPoint, FittedSeries, FittedTable};

const KIB: f64 = 1024.0;

/// Times counted in buckets: for each bucket its least time, its width and its count.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClassTimes {
    buckets: BTreeMap<u64, (u64, u64)>,
    count: u64,
    sum_ns: f64,
}

impl ClassTimes {
    fn add(&mut self, least: u64, width: u64, count: u64) {
        self.buckets.entry(least).or_insert((width, 0)).1 += count;
        self.count += count;
        self.sum_ns += count as f64 * (least as f64 + (width - 1) as f64 / 2.0);
    }

    fn merge(&mut self, other: &Self) {
        other.buckets.iter().for_each(|(least, (width, count))| self.add(*least, *width, *count));
    }

    /// As [`Counts::write`](super::times::Counts::write) wrote it, and [`TableParameters::read`] has checked it.
    pub(crate) fn read(times: &str) -> Self {
        let (mut seen, mut bucket) = (Self::default(), 0);
        for item in times.split_ascii_whitespace() {
            let (further, count) = item.split_once('*').unwrap_or((item, "1"));
            bucket += further.parse::<u32>().unwrap_or_default();
            let (least, width) = span(bucket);
            seen.add(least, width, count.parse().unwrap_or_default());
        }
        seen
    }

    /// Returns the number of times.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// The mean, from the middles of buckets.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.sum_ns / self.count.max(1) as f64 / 1e6
    }

    /// The middle of the bucket in which the quantile lies.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut until = 0;
        let found = self.buckets.iter().find(|(_, (_, count))| {
            until += count;
            until >= rank
        });
        found.map_or(0.0, |(least, (width, _))| (*least as f64 + (width - 1) as f64 / 2.0) / 1e6)
    }
}

/// Means along one thing, by the name of the series and the value.
type Along = BTreeMap<(usize, String), BTreeMap<u64, ClassTimes>>;

/// Returns the contents of the tables of a device.
///
/// # Errors
/// Parameters that no device can have.
pub(crate) fn fitted_model(parameters: &TableParameters) -> Result<FittedModel, DescriptionError> {
    let block_bytes = parameters.block_size.as_bytes() as f64;
    let is_one_distance = parameters.classes.distances_per_octave == 0;
    let mut operations: BTreeMap<(usize, &'static str), ClassTimes> = BTreeMap::new();
    let (mut by_queue, mut by_distance, mut by_length) = (Along::new(), Along::new(), Along::new());
    for (cell, text) in parameters.read()?.iter().zip(&parameters.cells) {
        let seen = ClassTimes::read(text.split_once(':').map_or("", |(_, times)| times));
        let (blocks, queue_length, distance) = parameters.classes.least(cell.place.class);
        let (order, name) = (cell.place.op as usize, cell.place.op.name());
        let at = |along: &mut Along, suborder: usize, series: String, value: u64| {
            let place = (order * 2 + suborder, series);
            along.entry(place).or_default().entry(value).or_default().merge(&seen);
        };
        if parameters.classes.queues_per_octave > 0 {
            at(&mut by_queue, 0, name.to_owned(), u64::from(queue_length));
        }
        if cell.place.op.addresses_blocks() {
            at(&mut by_length, 0, name.to_owned(), u64::from(blocks));
            match distance {
                _ if cell.place.is_anywhere || is_one_distance => {}
                Distance::Blocks(ahead) if ahead > 0 => {
                    at(&mut by_distance, 0, format!("{name} ahead"), ahead.unsigned_abs());
                }
                Distance::Blocks(behind) if behind < 0 => {
                    at(&mut by_distance, 1, format!("{name} behind"), behind.unsigned_abs());
                }
                _ => {}
            }
        }
        operations.entry((order * 3, name)).or_default().merge(&seen);
        let place = match distance {
            _ if is_one_distance => None,
            Distance::Sequential => Some((1, place_name(cell.place.op, true))),
            Distance::Blocks(0) if !cell.place.is_anywhere => Some((2, place_name(cell.place.op, false))),
            Distance::Blocks(_) => None,
        };
        if let Some((suborder, name)) = place.filter(|_| cell.place.op.addresses_blocks()) {
            operations.entry((order * 3 + suborder, name)).or_default().merge(&seen);
        }
    }
    let response =
        || FittedAxis { key: "response_mean_ms", label: "mean response time", unit: "ms", is_log: false };
    let curves = [
        FittedCurves {
            key: "by_queue_length",
            title: "Mean response time by queue length at arrival",
            caption: "Over all lengths and seek distances that were recorded.".to_owned(),
            x: FittedAxis { key: "queue_length", label: "queue length", unit: "", is_log: false },
            y: response(),
            series: series(by_queue, 1.0),
        },
        FittedCurves {
            key: "by_seek_distance",
            title: "Mean response time by seek distance",
            caption: "From start to start, ahead and behind; sequential requests and those of the same start are in \
                      the table."
                .to_owned(),
            x: FittedAxis { key: "seek_distance_mib", label: "seek distance", unit: "MiB", is_log: true },
            y: response(),
            series: series(by_distance, block_bytes / KIB / KIB),
        },
        FittedCurves {
            key: "by_length",
            title: "Mean response time by length",
            caption: "Over all queue lengths and seek distances that were recorded.".to_owned(),
            x: FittedAxis { key: "length_kib", label: "length", unit: "KiB", is_log: true },
            y: response(),
            series: series(by_length, block_bytes / KIB),
        },
    ];
    Ok(FittedModel {
        tables: vec![table(&operations)],
        curves: curves.into_iter().filter(|curves| !curves.series.is_empty()).collect(),
    })
}

/// Returns the name of the requests of an operation at one of the two special places.
const fn place_name(op: Operation, sequential: bool) -> &'static str {
    match (op, sequential) {
        (Operation::Read, true) => "read, sequential",
        (Operation::Read, false) => "read, same start",
        (Operation::Write, true) => "write, sequential",
        (Operation::Write, false) => "write, same start",
        (Operation::Discard, true) => "discard, sequential",
        (Operation::Discard, false) => "discard, same start",
        (_, true) => "write_zeroes, sequential",
        (_, false) => "write_zeroes, same start",
    }
}

fn series(along: Along, per_value: f64) -> Vec<FittedSeries> {
    let of = |((_, name), points): ((usize, String), BTreeMap<u64, ClassTimes>)| FittedSeries {
        name,
        points: points
            .iter()
            .map(|(value, seen)| FittedPoint {
                x: *value as f64 * per_value,
                y: seen.mean_ms(),
                requests: seen.count,
            })
            .collect(),
    };
    along.into_iter().map(of).collect()
}

fn table(operations: &BTreeMap<(usize, &'static str), ClassTimes>) -> FittedTable {
    let whole = operations.iter().filter(|((order, _), _)| order % 3 == 0);
    let all = whole.map(|(_, seen)| seen.count).sum::<u64>().max(1) as f64;
    let row = |((_, name), seen): (&(usize, &str), &ClassTimes)| {
        let figures = vec![
            seen.count as f64,
            100.0 * seen.count as f64 / all,
            seen.mean_ms(),
            seen.quantile_ms(0.5),
            seen.quantile_ms(0.99),
            seen.quantile_ms(1.0),
        ];
        ((*name).to_owned(), figures)
    };
    FittedTable {
        key: "operations",
        rows_are: "operation",
        columns: vec!["requests", "share_pct", "mean_ms", "p50_ms", "p99_ms", "max_ms"],
        rows: operations.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_the_middle_of_the_bucket_that_holds_its_rank() {
        let mut times = ClassTimes::default();
        for (least, width, count) in [(1_000_000, 1, 50), (2_000_000, 2_001, 49), (9_000_000, 1, 1)] {
            times.add(least, width, count);
        }
        let quantiles = [0.0, 0.5, 0.51, 0.99, 1.0].map(|share| times.quantile_ms(share));
        assert_eq!(quantiles, [1.0, 1.0, 2.001, 2.001, 9.0]);
        assert_eq!(ClassTimes::default().quantile_ms(0.5), 0.0);
    }
}
