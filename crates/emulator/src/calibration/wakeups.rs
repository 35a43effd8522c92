//! Lateness of wake-ups from sleep, and the resulting margin.
//!
//! # Scope and limits
//! Sleeps in `ppoll`, as the emulator's loop does, of lengths between 0.2 and 1.2 ms, timer slack 1 ns. The
//! margin is the lateness that 99 of 100 sleeps do not exceed, between 20 and 200 us: a rare late wake-up is
//! not worth spinning for before every deadline. The margin is valid for the load at the time: a busier
//! machine wakes later. [`MarginAdjuster`] follows this during a run.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seeklab_core::Duration;
use seeklab_core::statistics::Distribution;
use serde::{Deserialize, Serialize};

use super::CalibrationError;
use crate::clock::{Clock, MarginAdjuster, wake_this_thread_exactly};
use crate::frontend::Stop;

/// The least and the most that a margin is.
pub const MARGIN_BOUNDS: (Duration, Duration) = (Duration::from_us(20), Duration::from_us(200));

/// Share of the sleeps that end within the margin.
const QUANTILE: f64 = 0.99;

/// Lateness of wake-ups from sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wakeups {
    /// Number of measured sleeps.
    pub sleeps: u64,
    /// The median.
    pub p50: Duration,
    /// Nine of ten were within.
    pub p90: Duration,
    /// 99 of 100 were within.
    pub p99: Duration,
    /// The latest.
    pub max: Duration,
}

impl Wakeups {
    /// Measures that many sleeps.
    ///
    /// # Errors
    /// If no descriptor is left to wait for.
    pub fn measure(clock: Clock, sleeps: u32) -> Result<Self, CalibrationError> {
        Self::of(clock, sleeps).map_err(CalibrationError::Wakeups)
    }

    fn of(clock: Clock, sleeps: u32) -> io::Result<Self> {
        // A thread of its own, so that the caller's timer slack stays as it is.
        let late = std::thread::spawn(move || {
            let _ = wake_this_thread_exactly();
            let nothing = Stop::new()?;
            let mut late = Distribution::default();
            for index in 0..u64::from(sleeps) {
                let length = Duration::from_us(200 + index * 7_919 % 1_000);
                let deadline = clock.now() + length;
                let timeout = Timespec { tv_sec: 0, tv_nsec: length.as_ns() as _ };
                let mut watched = [PollFd::from_borrowed_fd(nothing.descriptor(), PollFlags::IN)];
                poll(&mut watched, Some(&timeout))?;
                late.record(clock.now().saturating_since(deadline));
            }
            Ok::<_, io::Error>(late)
        });
        let late = late.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let quantile = |quantile| late.quantile(quantile).unwrap_or_default();
        Ok(Self {
            sleeps: late.moments().count(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(QUANTILE),
            max: quantile(1.0),
        })
    }

    /// Returns the time before a deadline at which sleeping ends.
    pub fn margin(&self) -> Duration {
        self.p99.clamp(MARGIN_BOUNDS.0, MARGIN_BOUNDS.1)
    }

    /// Returns the adjuster that keeps the margin at the lateness measured in a run.
    pub fn adjuster() -> MarginAdjuster {
        MarginAdjuster::new(100, QUANTILE, MARGIN_BOUNDS.0, MARGIN_BOUNDS.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margin_is_the_p99_lateness_of_sleeps_within_bounds() {
        let us = Duration::from_us;
        let wakeups = |p99| Wakeups { sleeps: 100, p50: us(3), p90: us(5), p99: us(p99), max: us(9_999) };
        for (p99, margin) in [(5, 20), (77, 77), (5_000, 200)] {
            assert_eq!(wakeups(p99).margin(), us(margin));
        }
    }

    #[test]
    fn sleeps_end_late_and_never_early() {
        let wakeups = Wakeups::measure(Clock::start(), 50).unwrap();
        assert_eq!(wakeups.sleeps, 50);
        assert!(wakeups.p50 <= wakeups.p90 && wakeups.p90 <= wakeups.p99 && wakeups.p99 <= wakeups.max);
        assert!(wakeups.max > Duration::ZERO && wakeups.p50 < Duration::from_ms(100), "{wakeups:?}");
    }
}
