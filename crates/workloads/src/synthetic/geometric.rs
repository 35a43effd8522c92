//! The geometric distribution on 1, 2, 3, and so on: the exponential's counterpart among whole
//! numbers.

use rand_distr::Exp1;
use seeklab_core::Stream;

/// A geometric distribution with a given mean.
///
/// `P(more than k) = (1 - 1/mean)^k = exp(-k / scale)`, so a unit exponential times `scale`, rounded
/// up, is a draw.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometric {
    scale: f64,
}

impl Geometric {
    /// The distribution with that mean, at least one.
    pub(super) fn new(mean: f64) -> Self {
        debug_assert!(mean >= 1.0, "a mean of {mean}");
        let scale = -1.0 / (-1.0 / mean).ln_1p();
        // Logarithms differ in their last bit from machine to machine, draws must not.
        const GRID: f64 = (1_u64 << 32) as f64;
        Self { scale: (scale * GRID).round() / GRID }
    }

    /// A whole number, at least one.
    pub(super) fn draw(self, stream: &mut Stream) -> u64 {
        let draw: f64 = stream.sample(&Exp1);
        ((draw * self.scale).ceil() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;

    #[test]
    fn draws_have_the_given_mean() {
        let mut stream = Seed(1).stream("test");
        for mean in [1.0, 1.5, 20.0, 3_000.0] {
            let geometric = Geometric::new(mean);
            let sum: u64 = (0..200_000).map(|_| geometric.draw(&mut stream)).sum();
            assert!((sum as f64 / 200_000.0 / mean - 1.0).abs() < 0.01, "{mean}");
        }
    }
}
