//! Autocorrelation of a series of values.
//!
//! ```text
//! r(k) = Σ (x(t) − m)(x(t−k) − m) / Σ (x(t) − m)²      m: the mean of all
//! ```
//! For n independent values, r(k) lies within ±2/√n of zero for 95 % of the lags.
//!
//! # Scope and limits
//! One pass that keeps sums and the last 100 values. The lags are 1 to 16, then some to 100. Heavy tails
//! distort the result, since one enormous value dominates the denominator; take logarithms in that case.
//!
//! # References
//! G. E. P. Box, G. M. Jenkins, Time Series Analysis, section 2.1.5.

/// The distances, in values.
const LAGS: [usize; 30] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 23, 26, 30, 34, 39, 45, 51, 58, 66, 75,
    87, 100,
];

/// The farthest.
const LAG_MAX: usize = LAGS[LAGS.len() - 1];

/// Values that are multiplied at a time, so that the compiler can take several in one step.
const BLOCK: usize = 512;

/// Sums in each of which every eighth product goes.
const LANES: usize = 8;

/// Accumulates the autocorrelation of a stream of numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Autocorrelation {
    /// All values count from the first, so that a large mean takes no digits away.
    origin: f64,
    count: u64,
    sum: f64,
    squares: f64,
    products: [f64; LAGS.len()],
    /// The first values.
    first: Vec<f64>,
    /// The last values, one for each lag up to the farthest (zero where there was none yet), followed by the
    /// values not yet multiplied. Empty before the first value.
    block: Vec<f64>,
}

impl Autocorrelation {
    /// Takes one value in.
    pub(super) fn record(&mut self, value: f64) {
        if self.count == 0 {
            self.origin = value;
            self.first.reserve_exact(LAG_MAX);
            self.block.reserve_exact(LAG_MAX + BLOCK);
            self.block.resize(LAG_MAX, 0.0);
        }
        let value = value - self.origin;
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
        if self.first.len() < LAG_MAX {
            self.first.push(value);
        }
        self.block.push(value);
        if self.block.len() == LAG_MAX + BLOCK {
            self.multiply();
            self.block.copy_within(BLOCK.., 0);
            self.block.truncate(LAG_MAX);
        }
    }

    /// Takes less memory.
    pub(super) fn compact(&mut self) {
        self.block.shrink_to_fit();
    }

    /// Adds the products of the values that were not multiplied yet.
    fn multiply(&mut self) {
        for (lag, product) in LAGS.iter().zip(&mut self.products) {
            let (late, early) = (&self.block[LAG_MAX..], &self.block[LAG_MAX - lag..]);
            let mut lanes = [0.0; LANES];
            let (late, late_rest) = late.as_chunks::<LANES>();
            let (early, early_rest) = early[..late.len() * LANES + late_rest.len()].as_chunks::<LANES>();
            for (late, early) in late.iter().zip(early) {
                for lane in 0..LANES {
                    lanes[lane] += late[lane] * early[lane];
                }
            }
            let rest: f64 = late_rest.iter().zip(early_rest).map(|(late, early)| late * early).sum();
            *product += lanes.iter().sum::<f64>() + rest;
        }
    }

    /// `(lag, coefficient)`, none where the values do not differ; lags only to a quarter of their number.
    pub(super) fn coefficients(&self) -> Vec<(u32, f64)> {
        if self.count == 0 {
            return Vec::new();
        }
        let mut all = self.clone();
        all.multiply();
        let (count, last) = (all.count as f64, &all.block);
        let mean = all.sum / count;
        let variance = all.squares - count * mean * mean;
        // Rounding leaves something of equal values.
        if variance <= 1e-12 * all.squares {
            return Vec::new();
        }
        let usable = LAGS.iter().zip(&all.products).filter(|(lag, _)| **lag as u64 * 4 <= all.count);
        usable
            .map(|(lag, product)| {
                let head: f64 = all.first[..*lag].iter().sum();
                let tail: f64 = last[last.len() - lag..].iter().sum();
                let both = 2.0 * all.sum - head - tail;
                (*lag as u32, (product - mean * both + (count - *lag as f64) * mean * mean) / variance)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seeklab_core::Seed;

    use super::*;

    fn by_the_formula(values: &[f64], lag: usize) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let product = |lag: usize| -> f64 {
            values[lag..].iter().zip(values).map(|(late, early)| (late - mean) * (early - mean)).sum()
        };
        product(lag) / product(0)
    }

    fn streamed(values: &[f64]) -> Vec<(u32, f64)> {
        let mut streamed = Autocorrelation::default();
        values.iter().for_each(|value| streamed.record(*value));
        streamed.coefficients()
    }

    proptest! {
        #[test]
        fn streamed_coefficients_equal_the_formula(values in prop::collection::vec(1e6_f64..1.001e6, 5..1500)) {
            for (lag, coefficient) in streamed(&values) {
                let expected = by_the_formula(&values, lag as usize);
                prop_assert!((coefficient - expected).abs() < 1e-6, "{lag}: {coefficient}, {expected}");
            }
        }
    }

    #[test]
    fn chain_has_the_correlation_it_was_made_with() {
        let mut stream = Seed(9).stream("chain");
        let (mut value, mut values) = (0.0, Vec::new());
        for _ in 0..200_000 {
            value = 0.9 * value + stream.below(1_000) as f64;
            values.push(value);
        }
        for (lag, coefficient) in streamed(&values) {
            let expected = 0.9_f64.powi(lag as i32);
            assert!((coefficient - expected).abs() < 0.02, "{lag}: {coefficient}, {expected}");
        }
    }

    #[test]
    fn equal_or_too_few_values_give_no_result() {
        assert!(streamed(&[7.3; 1000]).is_empty());
        assert!(streamed(&[]).is_empty());
        assert!(streamed(&[1.0, 2.0, 3.0]).is_empty());
        assert_eq!(streamed(&[1.0, 2.0, 3.0, 7.0]).len(), 1);
    }
}
