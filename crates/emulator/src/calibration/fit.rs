//! Straight lines through medians: a part for every request and a part for each byte.
//!
//! # Scope and limits
//! Theil and Sen's line: its slope is the median of the slopes between all pairs of points, so that up to
//! some three points of ten may lie anywhere. Neither part is negative: time is never gained on the way.
//!
//! # References
//! P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63, 1968.

use seeklab_core::Duration;
use serde::{Deserialize, Serialize};

use crate::pacer::Allowance;

/// Time that grows with size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// For every request.
    pub fixed: Duration,
    /// For each mebibyte besides.
    pub per_mebibyte: Duration,
}

const MEBIBYTE: u64 = 1 << 20;

impl Line {
    /// The line through `(bytes, time)`; one point gives its time for every size, none gives zero.
    pub fn through(points: &[(u32, Duration)]) -> Self {
        let mut slopes = Vec::new();
        for (index, (bytes, time)) in points.iter().enumerate() {
            for (other_bytes, other_time) in &points[..index] {
                if bytes != other_bytes {
                    let rise = time.as_ns() as f64 - other_time.as_ns() as f64;
                    slopes.push(rise / (f64::from(*bytes) - f64::from(*other_bytes)));
                }
            }
        }
        let slope = median(slopes).unwrap_or(0.0).max(0.0);
        let starts = points.iter().map(|(bytes, time)| time.as_ns() as f64 - slope * f64::from(*bytes));
        let fixed = median(starts.collect()).unwrap_or(0.0).max(0.0);
        Self {
            fixed: Duration::from_ns(fixed.round() as u64),
            per_mebibyte: Duration::from_ns((slope * MEBIBYTE as f64).round() as u64),
        }
    }

    /// For so many bytes, rounded down.
    pub fn at(&self, bytes: u32) -> Duration {
        let grown = u128::from(self.per_mebibyte.as_ns()) * u128::from(bytes) / u128::from(MEBIBYTE);
        self.fixed + Duration::from_ns(grown as u64)
    }

    /// As the pacer takes it, for blocks of that size; rounded to a nanosecond for each block.
    pub fn allowance(&self, block_bytes: u32) -> Allowance {
        let per_block = u128::from(self.per_mebibyte.as_ns()) * u128::from(block_bytes);
        let rounded = (per_block + u128::from(MEBIBYTE / 2)) / u128::from(MEBIBYTE);
        Allowance { fixed: self.fixed, per_block: Duration::from_ns(rounded as u64) }
    }
}

/// The median; the mean of the middle two of an even number.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some(values[middle - 1].midpoint(values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: [u32; 6] = [512, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10];

    fn points(line: &Line, off: impl Fn(usize) -> i64) -> Vec<(u32, Duration)> {
        let point = |(index, bytes): (usize, &u32)| {
            (*bytes, Duration::from_ns(line.at(*bytes).as_ns().saturating_add_signed(off(index))))
        };
        SIZES.iter().enumerate().map(point).collect()
    }

    #[test]
    fn fit_ignores_one_outlying_size() {
        let line = Line { fixed: Duration::from_us(12), per_mebibyte: Duration::from_us(170) };
        for index in 0..SIZES.len() {
            let fitted = Line::through(&points(&line, |at| if at == index { 900_000 } else { 0 }));
            for bytes in SIZES {
                let off = fitted.at(bytes).as_ns().abs_diff(line.at(bytes).as_ns());
                assert!(off < 1_000, "{off} ns off at {bytes} bytes with {index} spoiled: {fitted:?}");
            }
        }
    }

    #[test]
    fn fitted_line_never_falls_with_size() {
        let falling: Vec<_> = SIZES.iter().zip([9, 7, 8, 5, 4, 3].map(Duration::from_us)).collect();
        let falling: Vec<_> = falling.into_iter().map(|(bytes, time)| (*bytes, time)).collect();
        assert_eq!(Line::through(&falling), Line { fixed: Duration::from_us(6), ..Line::default() });
        assert_eq!(Line::through(&[]), Line::default());
        let one = Line::through(&[(0, Duration::from_us(3))]);
        assert_eq!((one.at(0), one.at(1 << 20)), (Duration::from_us(3), Duration::from_us(3)));
    }

    proptest! {
        #[test]
        fn fit_recovers_known_allowances(
            fixed_ns in 0..200_000_u64, per_mebibyte_ns in 0..2_000_000_u64, noise in prop::array::uniform6(-300..300_i64),
        ) {
            let line = Line { fixed: Duration::from_ns(fixed_ns), per_mebibyte: Duration::from_ns(per_mebibyte_ns) };
            let fitted = Line::through(&points(&line, |index| noise[index]));
            for (bytes, _) in points(&line, |_| 0) {
                let off = fitted.at(bytes).as_ns().abs_diff(line.at(bytes).as_ns());
                prop_assert!(off < 2_000, "{off} ns off at {bytes} bytes: {fitted:?}");
            }
            let blocks = 8;
            let by_block = fitted.allowance(512).of(blocks).as_ns();
            prop_assert!(by_block.abs_diff(fitted.at(512 * blocks).as_ns()) <= 5);
        }
    }
}
