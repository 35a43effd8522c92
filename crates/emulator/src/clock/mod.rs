//! The only place of the emulator that reads a clock for pacing, and that waits.
//!
//! Model time is the time since the start of the run on CLOCK_MONOTONIC, so that stamps of other processes
//! and of the kernel compare with ours. [`waiting`] says how to wait for a deadline, [`KeptAwake`] keeps idle
//! processors from sleeping meanwhile.
//!
//! # Scope and limits
//! A stamp took 19 ns where it was measured (`cargo bench -p seeklab-emulator --bench clock`). Reading the processor's
//! counter directly, as \[Griffin 2004, appendix C\] does, saved 8 ns of them, and stamps of two threads went backwards.
//!
//! # References
//! \[Griffin 2004, appendix C\].

pub mod priority;
mod processors;
pub mod waiting;

use rustix::time::{ClockId, Timespec, clock_gettime};
use seeklab_core::{Duration, Instant};

pub use processors::{KeptAwake, Processors};
pub use waiting::{DEFAULT_MARGIN, MarginAdjuster, Pacing, Wait, Waited, Waiter, wake_this_thread_exactly};

/// Returns CLOCK_MONOTONIC in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Never negative, and past 2^64 ns only after 584 years of uptime.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the processor time of this thread.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_s(time.tv_sec as u64) + Duration::from_ns(time.tv_nsec as u64)
}

/// Model time from the wall clock; copies agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    origin_ns: u64,
}

impl Clock {
    /// A clock whose model time zero is now.
    pub fn start() -> Self {
        Self::from_origin_ns(monotonic_ns())
    }

    /// A clock whose model time zero is that point of CLOCK_MONOTONIC, for another process of the run.
    pub const fn from_origin_ns(origin_ns: u64) -> Self {
        Self { origin_ns }
    }

    /// Model time zero on CLOCK_MONOTONIC.
    pub const fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Model time now.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.at(monotonic_ns())
    }

    /// The model time of a stamp of CLOCK_MONOTONIC; zero for stamps before the start.
    pub const fn at(&self, monotonic_ns: u64) -> Instant {
        Instant::from_ns(monotonic_ns.saturating_sub(self.origin_ns))
    }

    /// `instant` on CLOCK_MONOTONIC, as absolute timeouts of the kernel take it.
    pub fn timespec(&self, instant: Instant) -> Timespec {
        let ns = self.origin_ns.saturating_add(instant.as_ns());
        Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    #[test]
    fn stamps_and_model_time_convert() {
        let clock = Clock::from_origin_ns(3_000_000_007);
        assert_eq!(clock.at(3_000_000_010), Instant::from_ns(3));
        assert_eq!(clock.at(1), Instant::ZERO);
        let time = clock.timespec(Instant::from_ns(1_999_999_999));
        assert_eq!((time.tv_sec, time.tv_nsec), (5, 6));
    }

    #[test]
    fn stamps_lie_between_stamps_of_the_system() {
        let clock = Clock::start();
        let (early, stamp, late) = (monotonic_ns(), clock.origin_ns() + clock.now().as_ns(), monotonic_ns());
        assert!((early..=late).contains(&stamp), "{early} {stamp} {late}");
    }

    #[test]
    fn stamps_of_two_threads_never_go_backwards() {
        let clock = Clock::start();
        let (latest_ns, over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let watch = || {
                while !over.load(Ordering::Relaxed) {
                    let before_ns = latest_ns.load(Ordering::Acquire);
                    let now_ns = clock.now().as_ns();
                    assert!(now_ns >= before_ns, "{now_ns} ns after {before_ns} ns");
                    latest_ns.fetch_max(now_ns, Ordering::AcqRel);
                }
            };
            let watching = [scope.spawn(watch), scope.spawn(watch)];
            // Stamps, not time: so many that a clock that can go backwards does.
            for _ in 0..3_000_000 {
                let _ = clock.now();
            }
            over.store(true, Ordering::Relaxed);
            for thread in watching {
                thread.join().expect("time does not go backwards");
            }
        });
    }
}
