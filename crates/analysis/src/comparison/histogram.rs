//! Histograms of per-request errors.
//!
//! Buckets are 0.02 ms and 1 % wide, as in Griffin's figures \[Griffin 2004, section 5.2.3\]; a bucket
//! is half-open and one of them begins at zero error.

use serde::Serialize;

/// Buckets at most; what lies outside is counted at the ends.
const BUCKETS_MAX: i64 = 2_000;

/// Counts of errors in equal buckets, in the unit with which the histogram was requested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorHistogram {
    /// Width of a bucket.
    pub width: f64,
    /// Index of the first bucket: it covers `first_index * width ..`.
    pub first_index: i64,
    /// Requests in each bucket.
    pub counts: Vec<u64>,
    /// Requests below the first bucket.
    pub below: u64,
    /// Requests above the last bucket.
    pub above: u64,
}

impl ErrorHistogram {
    /// Counts `errors` in buckets of `width`, 1,000 on either side of zero at most.
    pub(super) fn of(errors: impl Iterator<Item = f64> + Clone, width: f64) -> Self {
        let bound = BUCKETS_MAX / 2;
        // The division is rounded to nine digits first, for 0.06 / 0.02 is a little below 3.
        let index = move |error: f64| ((error / width * 1e9).round() / 1e9).floor() as i64;
        let indices = errors.map(index);
        let inside = indices.clone().filter(|index| (-bound..bound).contains(index));
        let range = inside.clone().min().zip(inside.max());
        let (first, last) = range.unwrap_or((0, -1));
        let mut histogram = Self {
            width,
            first_index: first,
            counts: vec![0; (last - first + 1) as usize],
            below: 0,
            above: 0,
        };
        for index in indices {
            if index < -bound {
                histogram.below += 1;
            } else if index >= bound {
                histogram.above += 1;
            } else {
                histogram.counts[(index - first) as usize] += 1;
            }
        }
        histogram
    }

    /// `(low, count)` of every bucket, ascending; the bucket ends where the next begins.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .map(|(index, count)| ((self.first_index + index as i64) as f64 * self.width, *count))
    }
}
