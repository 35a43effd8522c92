//! Dynamic compensation by the lateness of replies, measured at MP2 during a run.
//!
//! ```text
//! due ── lateness: wake, hand out, copy, reach the kernel ──▶ MP2 ── the way back ──▶ MP1
//!  ▲            observed here, of every request                     known from calibration
//!  └── early completion = way back + lateness
//! ```
//! Only the lateness can be measured here. The ways in and back need a time stamp of the host, and stay as
//! calibrated. (For a host that provides its stamps, see
//! [`AllowanceEstimator`](crate::pacer::AllowanceEstimator), which measures the whole error.) Lateness is
//! measured from the due time, which moves with the early completion, so it is not an error to integrate: the
//! early completion is set to the calibrated way back plus the present lateness.
//!
//! # Scope and limits
//! The lateness of an operation is the median of a window of 64 completions. Each window moves the early
//! completion half of the way to it. Lateness beyond 100 us is not compensated for: it is the kernel's
//! scheduling, and expecting it would send all other replies early. Once the run begins, lateness of all
//! sizes counts alike.
//!
//! # References
//! \[Griffin 2004, §5.1.3\], dynamic compensation.

use seeklab_core::{Duration, Operation};

use crate::pacer::{Compensation, PerOperation};

/// Completions whose median counts.
const WINDOW: usize = 64;

/// No more than that is expected.
const LATENESS_MAX: Duration = Duration::from_us(100);

/// Keeps the early completion to the lateness that a run sees.
#[derive(Debug, Clone)]
pub struct SendCost {
    windows: [Vec<Duration>; Operation::ALL.len()],
    /// Part of the early completion that compensates for lateness.
    expected: PerOperation<Duration>,
}

impl SendCost {
    /// Begins with a compensation that expects `lateness` of every reply.
    pub fn expecting(lateness: Duration) -> Self {
        Self {
            windows: std::array::from_fn(|_| Vec::with_capacity(WINDOW)),
            expected: PerOperation::all(lateness.min(LATENESS_MAX)),
        }
    }

    /// Returns the lateness expected of replies to `op`.
    pub const fn expected(&self, op: Operation) -> Duration {
        self.expected.of(op)
    }

    /// A reply to `op` left that late; returns whether `compensation` moved.
    pub fn observe(&mut self, op: Operation, lateness: Duration, compensation: &mut Compensation) -> bool {
        let window = &mut self.windows[op as usize];
        window.push(lateness);
        if window.len() < WINDOW {
            return false;
        }
        let seen = (*window.select_nth_unstable(WINDOW / 2).1).min(LATENESS_MAX);
        window.clear();
        let expected = self.expected.of_mut(op);
        let next = Duration::from_ns(expected.as_ns().midpoint(seen.as_ns()));
        let early = &mut compensation.early.of_mut(op).fixed;
        let before = *early;
        *early = (before + next).saturating_sub(*expected);
        *expected = next;
        *early != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cost: &mut SendCost, compensation: &mut Compensation, lateness_us: u64, requests: usize) {
        for index in 0..requests {
            // Every tenth is a wake-up that came late.
            let late = if index % 10 == 0 { Duration::from_ms(3) } else { Duration::from_us(lateness_us) };
            cost.observe(Operation::Read, late, compensation);
        }
    }

    #[test]
    fn early_completion_follows_the_lateness() {
        let us = Duration::from_us;
        // 20 us for the way back and 5 for lateness.
        let mut compensation = Compensation::skew(us(25));
        let mut cost = SendCost::expecting(us(5));
        for (lateness_us, early_us) in [(5, 25), (45, 65), (1, 21), (2_000, 120)] {
            run(&mut cost, &mut compensation, lateness_us, 12 * WINDOW);
            let early = compensation.early.of(Operation::Read).fixed;
            assert!(early.as_ns().abs_diff(early_us * 1_000) < 50, "{lateness_us} us late: {early}");
        }
        assert_eq!(compensation.early.of(Operation::Write).fixed, us(25), "no write was measured");
        assert_eq!(compensation.arrival, Compensation::skew(us(25)).arrival);
    }
}
