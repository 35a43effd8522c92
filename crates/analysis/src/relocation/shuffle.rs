//! A permutation of any size that needs no memory.
//!
//! A Feistel network of four rounds permutes the numbers of 2k bits; where it leads beyond the end, it is applied
//! again until it does not (cycle walking), on average less than four times. Both are bijections.
//!
//! # References
//! Luby and Rackoff, SIAM Journal on Computing 17(2), 1988; cycle walking: Black and Rogaway, CT-RSA 2002.

use seeklab_core::Seed;

const ROUNDS: u64 = 4;

/// A permutation of 0 to `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shuffle {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Shuffle {
    pub(super) const fn new(count: u64, seed: Seed) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        // At least two bits, so that there are halves; of both the same length.
        let half_bits = if bits < 2 { 1 } else { bits.div_ceil(2) };
        Self { count, half_bits, seed: seed.0 }
    }

    /// Returns the place of `piece`. A piece beyond the end stays.
    pub(super) fn place(&self, piece: u64) -> u64 {
        self.walk(piece, Self::forward)
    }

    /// Returns the piece at `place`.
    pub(super) fn piece(&self, place: u64) -> u64 {
        self.walk(place, Self::backward)
    }

    fn walk(&self, start: u64, step: impl Fn(&Self, u64) -> u64) -> u64 {
        if start >= self.count {
            return start;
        }
        let mut at = step(self, start);
        while at >= self.count {
            at = step(self, at);
        }
        at
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.half_bits)
    }

    fn forward(&self, number: u64) -> u64 {
        let (mut left, mut right) = (number >> self.half_bits, number & self.mask());
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.mixed(right, round));
        }
        left << self.half_bits | right
    }

    fn backward(&self, number: u64) -> u64 {
        let (mut left, mut right) = (number >> self.half_bits, number & self.mask());
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.mixed(left, round), left);
        }
        left << self.half_bits | right
    }

    /// The finalizer of SplitMix64 over half, round and seed.
    fn mixed(&self, half: u64, round: u64) -> u64 {
        let mut z =
            half.wrapping_add(self.seed).wrapping_add((round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & self.mask()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_differ_between_seeds() {
        let places = |seed| -> Vec<u64> {
            let shuffle = Shuffle::new(1000, Seed(seed));
            (0..1000).map(|piece| shuffle.place(piece)).collect()
        };
        let (one, two) = (places(1), places(2));
        assert_ne!(one, two);
        assert_eq!(one, places(1));
        // Of a random permutation, one piece stays on average; nine would be one in a million.
        assert!(one.iter().zip(0..).filter(|(place, piece)| *place == piece).count() < 9);
        let ascents = one.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((430..570).contains(&ascents), "{ascents} of 999 go up");
        assert_eq!(Shuffle::new(1000, Seed(1)).place(1000), 1000);
    }

    #[test]
    fn smallest_and_largest_sizes_work() {
        for count in [1, 2, 3, 4, 5, u64::MAX] {
            let shuffle = Shuffle::new(count, Seed(7));
            for piece in 0..count.min(5) {
                let place = shuffle.place(piece);
                assert!(place < count);
                assert_eq!(shuffle.piece(place), piece);
            }
        }
    }
}
