//! The only place of the emulator that reads a clock for pacing and waits.
//!
//! Model time is the time since the start of the run, on CLOCK_MONOTONIC, so that stamps of other
//! processes and of the kernel compare with ours. Waiting is sleep to a margin before the deadline and
//! spin the rest:
//!
//! ```text
//! now ──────────── sleep ────────────▶ │◀─ margin: spin ─▶│ deadline
//!                        wakes late ──▶
//! ```
//! # Scope and limits
//! Measured on a 2-core virtual machine (`feasibility.md`, section 1): a sleep ends 25 to 75 us late, with
//! a margin of 50 us spun the median is 0.14 us late, by spinning alone 0.25 us at the 99th percentile.
//! Reading the clock takes 45 ns. Everything reads time through [`Clock::now`]; a faster source, such as
//! the TSC where it is invariant, goes there and is turned into the same nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};
use seeklab_core::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Nanoseconds of CLOCK_MONOTONIC.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Never negative, and past 2^64 ns only after 584 years of uptime.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Model time from the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    origin_ns: u64,
}

impl Clock {
    /// A clock whose model time zero is now.
    pub fn start() -> Self {
        Self { origin_ns: monotonic_ns() }
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

/// How much processor time exactness may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// Spins for four times the margin: late only when the kernel takes the processor away.
    Exact,
    /// Spins for the margin.
    #[default]
    Balanced,
    /// Never spins: as late as the kernel wakes.
    Frugal,
}

/// What to do until a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The deadline has come.
    Over,
    /// Sleep, or wait for arrivals, no longer than until this; then ask again.
    SleepUntil(Instant),
    /// The deadline is so near that sleeping would miss it: look at the clock, and for arrivals, again.
    Spin,
}

/// How a thread has waited so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waited {
    /// Asleep.
    pub slept: Duration,
    /// Spinning: what exactness has cost of the processor.
    pub spun: Duration,
    /// Sleeps.
    pub sleeps: u64,
    /// Sleeps that ended after the deadline itself, so that the margin was too short.
    pub overslept: u64,
}

/// Waits for deadlines.
#[derive(Debug, Clone)]
pub struct Waiter {
    clock: Clock,
    pacing: Pacing,
    margin: Duration,
    waited: Waited,
}

/// The margin until calibration knows better: nine of ten wake-ups were up to 80 us late where it was
/// measured.
pub const DEFAULT_MARGIN: Duration = Duration::from_us(100);

impl Waiter {
    /// A waiter on that clock that spins, unless frugal, from `margin` before a deadline.
    pub const fn new(clock: Clock, pacing: Pacing, margin: Duration) -> Self {
        let waited = Waited { slept: Duration::ZERO, spun: Duration::ZERO, sleeps: 0, overslept: 0 };
        Self { clock, pacing, margin, waited }
    }

    /// How long before a deadline sleeping ends.
    pub fn margin(&self) -> Duration {
        match self.pacing {
            Pacing::Exact => self.margin * 4,
            Pacing::Balanced => self.margin,
            Pacing::Frugal => Duration::ZERO,
        }
    }

    /// What to do at `now` until `deadline`; for loops that wait for arrivals as well.
    pub fn plan(&self, now: Instant, deadline: Instant) -> Wait {
        let left = deadline.saturating_since(now);
        if left.is_zero() {
            Wait::Over
        } else if left > self.margin() {
            Wait::SleepUntil(Instant::from_ns(deadline.as_ns() - self.margin().as_ns()))
        } else {
            Wait::Spin
        }
    }

    /// Waits until `deadline` and returns the time after it.
    pub fn wait_until(&mut self, deadline: Instant) -> Instant {
        let mut now = self.clock.now();
        while now < deadline {
            now = self.step(now, deadline);
        }
        now
    }

    /// Waits one step from `now` towards `deadline` and returns the time after it.
    ///
    /// A loop that calls the pacer between the steps of spinning hands out sooner: after a sleep the code
    /// and data of its first call are not in the caches, which was seen to cost 0.7 us at the median.
    pub fn step(&mut self, now: Instant, deadline: Instant) -> Instant {
        match self.plan(now, deadline) {
            Wait::Over => now,
            Wait::SleepUntil(until) => {
                sleep_until(self.clock, until);
                let after = self.clock.now();
                self.waited.slept += after.saturating_since(now);
                self.waited.sleeps += 1;
                self.waited.overslept += u64::from(after > deadline);
                after
            }
            Wait::Spin => {
                std::hint::spin_loop();
                let after = self.clock.now();
                self.waited.spun += after.saturating_since(now);
                after
            }
        }
    }

    /// How it has waited so far.
    pub const fn waited(&self) -> Waited {
        self.waited
    }
}

/// Sleeps until `instant` or a signal.
fn sleep_until(clock: Clock, instant: Instant) {
    // A signal ends the sleep early; whoever called looks at the clock anyway.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &clock.timespec(instant));
    #[cfg(not(target_os = "linux"))]
    {
        let left = instant.saturating_since(clock.now());
        let _ = rustix::thread::nanosleep(&Clock::from_origin_ns(0).timespec(Instant::from_ns(left.as_ns())));
    }
}

/// Lets the kernel end this thread's sleeps when they should end, rather than up to 50 us later to
/// gather wake-ups (timer slack). Real-time threads have no slack; elsewhere than on Linux nothing happens.
/// Returns whether it worked.
pub fn wake_this_thread_exactly() -> bool {
    #[cfg(target_os = "linux")]
    {
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(pacing: Pacing) -> Waiter {
        Waiter::new(Clock::from_origin_ns(5), pacing, Duration::from_us(50))
    }

    fn check(pacing: Pacing, left_us: u64, wait: Wait) {
        let (now, deadline) = (Instant::from_ns(1_000_000), Instant::from_ns(1_000_000 + left_us * 1_000));
        assert_eq!(waiter(pacing).plan(now, deadline), wait, "{pacing:?} {left_us}");
    }

    #[test]
    fn is_the_margin_spun_and_the_rest_slept() {
        let until = |us: u64| Wait::SleepUntil(Instant::from_ns(1_000_000 + us * 1_000));
        for pacing in [Pacing::Exact, Pacing::Balanced, Pacing::Frugal] {
            check(pacing, 0, Wait::Over);
        }
        check(Pacing::Exact, 200, Wait::Spin);
        check(Pacing::Exact, 1_000, until(800));
        check(Pacing::Balanced, 50, Wait::Spin);
        check(Pacing::Balanced, 1_000, until(950));
        check(Pacing::Frugal, 1, until(1));
        check(Pacing::Frugal, 1_000, until(1_000));
    }

    #[test]
    fn do_stamps_and_model_time_convert() {
        let clock = Clock::from_origin_ns(3_000_000_007);
        assert_eq!(clock.at(3_000_000_010), Instant::from_ns(3));
        assert_eq!(clock.at(1), Instant::ZERO);
        let time = clock.timespec(Instant::from_ns(1_999_999_999));
        assert_eq!((time.tv_sec, time.tv_nsec), (5, 6));
    }

    #[test]
    fn does_waiting_end_after_the_deadline() {
        assert!(wake_this_thread_exactly());
        let clock = Clock::start();
        for pacing in [Pacing::Exact, Pacing::Balanced, Pacing::Frugal] {
            let mut waiter = Waiter::new(clock, pacing, DEFAULT_MARGIN);
            for us in [0, 20, 700] {
                let deadline = clock.now() + Duration::from_us(us);
                assert!(waiter.wait_until(deadline) >= deadline);
            }
            let spins = pacing != Pacing::Frugal;
            assert!(spins || waiter.waited().spun.is_zero(), "{pacing:?} {:?}", waiter.waited());
            assert!(waiter.waited().sleeps >= 1);
        }
    }
}
