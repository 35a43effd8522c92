//! Named random streams from one root seed.
//!
//! A stream is derived from the root seed and a name such as `disk0.overhead`, so adding a
//! component does not shift the draws of the others. The generator (PCG XSL-RR 128/64) and the
//! derivation are fixed: the same seed gives the same draws on every machine.
//!
//! # References
//! PCG: M. O'Neill, HMC-CS-2014-0905. Derivation: FNV-1a over the name, mixed by SplitMix64
//! (Steele, Lea & Flood, OOPSLA 2014).

use std::fmt;
use std::str::FromStr;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Duration;

/// The root seed of a run; every random draw of the run follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of that name.
    pub fn stream(self, name: &str) -> Stream {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut state = self.0 ^ split_mix(&mut hash.clone());
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        Stream(Pcg64::from_seed(bytes))
    }

    /// Streams by number, under that name.
    pub fn numbered(self, name: &str) -> NumberedStreams {
        NumberedStreams(self.stream(name).bits())
    }

    /// The root seed of repetition `index` of a series; repetition 0 keeps this seed.
    pub fn repetition(self, index: u64) -> Self {
        if index == 0 { self } else { Self(split_mix(&mut (self.0 ^ index.rotate_left(32)))) }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Seed {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "a seed is a whole number from 0 to 18446744073709551615")
    }
}

/// A stream of random draws, forkable by `clone`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream(Pcg64);

impl Stream {
    /// A uniform integer in `0..end`.
    ///
    /// # Panics
    /// If `end` is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }

    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.0.random()
    }

    /// A uniform number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// True with probability `probability`.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An exponential duration with the given mean, rounded to the nearest nanosecond.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let factor: f64 = Exp1.sample(&mut self.0);
        Duration::from_ns_f64(factor * mean.as_ns() as f64)
    }

    /// A draw from any distribution of `rand_distr`.
    pub fn sample<T, D: Distribution<T>>(&mut self, distribution: &D) -> T {
        distribution.sample(&mut self.0)
    }
}

/// Streams by number, for draws that depend on a number alone and not on how many were drawn before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberedStreams(u64);

/// A probability for [draws by number](NumberedStreams::chance), as a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// A probability of one.
    pub const CERTAIN: Self = Self(u64::MAX);

    /// Bits of a draw in `[0, 1)`.
    const BITS: u32 = 53;

    /// The chance of a probability; one and above is certain.
    pub fn new(probability: f64) -> Self {
        if probability >= 1.0 {
            return Self::CERTAIN;
        }
        // A product with a power of two is exact.
        Self((probability * (1_u64 << Self::BITS) as f64).ceil() as u64)
    }
}

impl NumberedStreams {
    /// Returns the first draw of [`Stream::chance`] of the stream of that number.
    #[inline]
    pub fn chance(self, number: u64, chance: Chance) -> bool {
        chance == Chance::CERTAIN || self.stream(number).bits() >> (u64::BITS - Chance::BITS) < chance.0
    }

    /// The stream of that number.
    #[inline]
    pub fn stream(self, number: u64) -> Stream {
        let mut hash = self.0 ^ split_mix(&mut number.clone());
        let mut word = || u128::from(split_mix(&mut hash));
        let state = word() | word() << u64::BITS;
        let increment = word() | word() << u64::BITS;
        // The generator of those 32 bytes as a seed, of which the increment is made odd, without the way over the bytes.
        Stream(Pcg64::new(state, increment >> 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_the_same_on_every_machine() {
        let mut stream = Seed(42).stream("disk0.overhead");
        let draws: Vec<u64> = (0..4).map(|_| stream.below(1 << 40)).collect();
        assert_eq!(draws, GOLDEN, "the draws of seed 42 changed: every recorded run would change");
    }
    const GOLDEN: [u64; 4] = [875_702_673_114, 375_672_669_524, 312_814_991_271, 514_754_238_404];

    #[test]
    fn names_and_seeds_separate_streams() {
        let draw = |seed: u64, name: &str| Seed(seed).stream(name).below(u64::MAX);
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        assert_eq!(Seed(7).repetition(0), Seed(7));
        assert_ne!(Seed(7).repetition(1), Seed(7).repetition(2));
    }

    #[test]
    fn numbered_streams_depend_on_seed_name_and_number_alone() {
        let draw = |seed: u64, name: &str, number| Seed(seed).numbered(name).stream(number).bits();
        assert_eq!(draw(1, "a", 7), draw(1, "a", 7));
        let all = [draw(1, "a", 7), draw(1, "a", 8), draw(1, "b", 7), draw(2, "a", 7)];
        assert!((0..4).all(|one| (0..one).all(|other| all[one] != all[other])));
        let streams = Seed(3).numbered("chance");
        let hits = (0..100_000).filter(|number| streams.stream(*number).chance(0.01)).count();
        assert!((900..1_100).contains(&hits), "{hits}");
    }

    #[test]
    fn numbered_streams_are_the_same_on_every_machine() {
        let streams = Seed(42).numbered("disk0.fault.delay");
        for number in [0, 1, 77, u64::MAX] {
            // The seed of the generator in bytes.
            let mut hash = streams.0 ^ split_mix(&mut number.clone());
            let bytes: Vec<u8> = (0..4).flat_map(|_| split_mix(&mut hash).to_le_bytes()).collect();
            let mut seeded = Stream(Pcg64::from_seed(bytes.try_into().unwrap()));
            let mut numbered = streams.stream(number);
            assert!((0..5).all(|_| seeded.bits() == numbered.bits()), "{number}");
        }
    }

    #[test]
    fn chances_by_number_are_the_first_of_their_stream() {
        let streams = Seed(5).numbered("chance");
        for number in 0..20_000 {
            let unit = streams.stream(number).unit();
            // Also right at the draw, where a rounded limit would differ.
            for probability in
                [0.0, 1e-12, 0.01, 0.5, 1.0 - 1e-16, 1.0, 2.0, unit, unit.next_up(), unit.next_down()]
            {
                let expected = streams.stream(number).chance(probability);
                let found = streams.chance(number, Chance::new(probability));
                assert_eq!(found, expected, "{number}: {probability} against {unit}");
            }
        }
    }

    #[test]
    fn exponential_draws_have_the_given_mean() {
        let mut stream = Seed(1).stream("test");
        let n = 200_000;
        let sum: f64 = (0..n).map(|_| stream.exponential(Duration::from_ms(10)).as_ms()).sum();
        let mean = sum / f64::from(n);
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
    }
}
