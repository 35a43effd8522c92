//! The only place of the emulator that reads a clock for pacing, and that waits.
//!
//! Model time is the time since the start of the run on CLOCK_MONOTONIC, so that stamps of other processes
//! and of the kernel compare with ours. It is read from the processor's counter where that is invariant,
//! by integer arithmetic, held to the system's clock by [`Clock::check`]; see `timebase` and `discipline`.
//! [`waiting`] says how to wait for a deadline, [`KeptAwake`] keeps idle processors from sleeping meanwhile.
//!
//! # Scope and limits
//! A stamp took 11 ns from the counter and 19 ns from the system where it was measured
//! (`cargo bench -p seeklab-emulator --bench clock`), and was off CLOCK_MONOTONIC by less than 0.1 us.
//!
//! # References
//! \[Griffin 2004, appendix C\].

mod counter;
mod discipline;
mod processors;
mod timebase;
pub mod waiting;

use rustix::time::{ClockId, Timespec, clock_gettime};
use seeklab_core::{Duration, Instant};

use timebase::{MACHINE, SYSTEM, Timebase};

pub use discipline::Drift;
pub use processors::{KeptAwake, Processors};
pub use timebase::{ClockReport, ClockSource, WhySystem};
pub use waiting::{DEFAULT_MARGIN, MarginAdjuster, Pacing, Wait, Waited, Waiter, wake_this_thread_exactly};

/// Nanoseconds of CLOCK_MONOTONIC, as the system says them.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Never negative, and past 2^64 ns only after 584 years of uptime.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Model time from the wall clock.
///
/// Copies agree: they read one counter, which is the machine's, and any of them may [`check`](Self::check).
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin_ns: u64,
    timebase: &'static Timebase,
}

impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        self.origin_ns == other.origin_ns && std::ptr::eq(self.timebase, other.timebase)
    }
}

impl Eq for Clock {}

impl Clock {
    /// A clock whose model time zero is now, by the processor's counter where that is possible. Whoever
    /// runs it calls [`check`](Self::check) when there is time.
    pub fn start() -> Self {
        MACHINE.begin();
        Self { origin_ns: MACHINE.now_ns(), timebase: &MACHINE }
    }

    /// A clock whose model time zero is now, by the system's clock alone.
    pub fn start_by_system() -> Self {
        Self { origin_ns: SYSTEM.now_ns(), timebase: &SYSTEM }
    }

    /// A clock whose model time zero is that point of CLOCK_MONOTONIC, for another process of the run.
    pub const fn from_origin_ns(origin_ns: u64) -> Self {
        Self { origin_ns, timebase: &MACHINE }
    }

    /// Model time zero on CLOCK_MONOTONIC.
    pub const fn origin_ns(&self) -> u64 {
        self.origin_ns
    }

    /// Model time now.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.at(self.timebase.now_ns())
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

    /// Holds the counter to the system's clock, about once a second: to be called when there is time, and
    /// as often as one likes. Takes about 15 ns where nothing is due, else some 0.5 us. Returns whether it
    /// was.
    pub fn check(&self) -> bool {
        self.timebase.check()
    }

    /// As [`check`](Self::check) by somebody who knows the time.
    pub fn check_at(&self, now: Instant) -> bool {
        self.timebase.check_at(self.origin_ns.saturating_add(now.as_ns()))
    }

    /// Checks until stamps come from the counter, or it is known that they will not, for a quarter of a
    /// second at most.
    pub fn settle(&self) {
        let end = self.now() + Duration::from_ms(250);
        let settled = || {
            let report = self.report();
            report.source == ClockSource::Counter || report.why_system != Some(WhySystem::NotCheckedYet)
        };
        while !settled() && self.now() < end {
            waiting::sleep_until(*self, self.now() + Duration::from_ms(5));
            self.check();
        }
    }

    /// How the clock has done so far.
    pub fn report(&self) -> ClockReport {
        self.timebase.report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn do_stamps_and_model_time_convert() {
        let clock = Clock::from_origin_ns(3_000_000_007);
        assert_eq!(clock.at(3_000_000_010), Instant::from_ns(3));
        assert_eq!(clock.at(1), Instant::ZERO);
        let time = clock.timespec(Instant::from_ns(1_999_999_999));
        assert_eq!((time.tv_sec, time.tv_nsec), (5, 6));
    }

    #[test]
    fn do_stamps_compare_with_those_of_the_system() {
        for clock in [Clock::start(), Clock::start_by_system()] {
            clock.settle();
            let off = (0..1_000).map(|_| {
                let early = monotonic_ns();
                let stamp = clock.origin_ns() + clock.now().as_ns();
                early.saturating_sub(stamp).max(stamp.saturating_sub(monotonic_ns()))
            });
            let report = clock.report();
            // A quarter of a microsecond of drift would show; one interrupted reading does not matter.
            assert!(off.min() < Some(250), "{report:?}");
            assert_ne!(report.why_system, Some(WhySystem::NotCheckedYet), "{report:?}");
        }
    }
}
