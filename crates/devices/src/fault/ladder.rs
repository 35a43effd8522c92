//! A ladder of retries: the turns of the platters that a read of a weak block takes.

use std::fmt;

use seeklab_core::{Duration, Ratio, Stream};

use crate::error::{DescriptionError, check};

/// Steps that a ladder can have.
const STEPS_MAX: usize = 16;

/// Sums of probabilities differ from 100 % by no more than this if that is meant.
const ROUNDING: f64 = 1e-9;

/// Probabilities that a read succeeds after 1, 2, 3, … turns. In the remaining cases it fails after all of them.
#[derive(Clone, Copy, PartialEq)]
pub struct Ladder {
    /// Probability that the read succeeds after at most 1, 2, 3, … turns.
    within: [f64; STEPS_MAX],
    steps: usize,
    /// Time of one turn.
    turn: Duration,
}

impl Ladder {
    /// Reads probabilities with spaces between, such as `60% 30% 8%`.
    ///
    /// # Errors
    /// A probability that cannot be read, too many of them, or a sum over 100 %.
    pub(super) fn parse(text: &str, turn: Duration) -> Result<Self, DescriptionError> {
        const ALLOWED: &str = "1 to 16 probabilities with spaces between, of at most 100% together";
        let mut ladder = Self { within: [0.0; STEPS_MAX], steps: 0, turn };
        let mut sum = 0.0;
        for word in text.split_whitespace() {
            let probability: Ratio = super::parameters::parsed("ladder", word)?;
            sum += probability.as_f64();
            check(ladder.steps < STEPS_MAX && sum <= 1.0 + ROUNDING, "ladder", text, ALLOWED)?;
            ladder.within[ladder.steps] = if sum >= 1.0 - ROUNDING { 1.0 } else { sum };
            ladder.steps += 1;
        }
        check(ladder.steps > 0, "ladder", format!("`{text}` has no step"), ALLOWED)?;
        Ok(ladder)
    }

    /// The time that a read takes, and true if it succeeds.
    pub(super) fn climb(&self, stream: &mut Stream) -> (Duration, bool) {
        let draw = stream.unit();
        let reached = self.within[..self.steps].iter().position(|within| draw < *within);
        let turns = reached.map_or(self.steps, |step| step + 1);
        (self.turn * turns as u64, reached.is_some())
    }
}

impl fmt::Debug for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_list().entries(&self.within[..self.steps]).entry(&self.turn).finish()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;

    const TURN: Duration = Duration::from_ms(6);

    #[test]
    fn turns_are_as_frequent_as_the_ladder_says() {
        const N: u64 = 100_000;
        let ladder = Ladder::parse("50% 25% 0% 5%", TURN).unwrap();
        let streams = Seed(1).numbered("ladder");
        let mut counts = [0_u64; 6];
        for number in 0..N {
            let (time, is_read) = ladder.climb(&mut streams.stream(number));
            assert_eq!(time.as_ns() % TURN.as_ns(), 0);
            let turns = (time.as_ns() / TURN.as_ns()) as usize;
            counts[if is_read { turns } else { 5 }] += 1;
            assert!(is_read || turns == 4, "a read fails after all turns");
        }
        for (count, share) in counts.into_iter().zip([0.0, 0.5, 0.25, 0.0, 0.05, 0.2]) {
            let deviation = (N as f64 * share * (1.0 - share)).sqrt();
            assert!((count as f64 - N as f64 * share).abs() <= 4.0 * deviation, "{counts:?}");
        }
    }

    #[test]
    fn ladder_to_the_top_always_reads() {
        let ladder = Ladder::parse("60% 30% 10%", TURN).unwrap();
        assert_eq!(ladder.within[2], 1.0);
        for wrong in ["60% 50%", "", "120%", "half", &"1% ".repeat(17)] {
            let error = Ladder::parse(wrong, TURN).unwrap_err();
            assert_eq!(error.path(), "ladder", "{wrong}: {error}");
        }
    }
}
