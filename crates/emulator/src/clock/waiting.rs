//! Waiting for deadlines and arrivals: sleep to a margin before the deadline and spin the rest.
//!
//! ```text
//! now ──────────── sleep ────────────▶ │◀─ margin: spin ─▶│ deadline
//!                        wakes late ──▶
//! ```
//! A [`Waiter`] plans, keeps the books, and moves the margin by what it sees: [`serve`](crate::frontend::serve)
//! waits by its plan in `ppoll`, loops without descriptors call [`step`](Waiter::step).
//!
//! # Scope and limits
//! Measured on a 2-core virtual machine (`feasibility.md`, section 1): a sleep ends 25 to 75 us late, with
//! a margin of 50 us spun the median is 0.14 us late, by spinning alone 0.25 us at the 99th percentile.

use rustix::time::ClockId;
use schemars::JsonSchema;
use seeklab_core::{Duration, Instant};
use serde::{Deserialize, Serialize};

use super::Clock;

/// Trade-off between processor time and accuracy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// Spins for four times the margin: late only when the kernel takes the processor away. Idle processors are
    /// kept awake where they may be ([`KeptAwake`](super::KeptAwake)).
    Exact,
    /// Spins for the margin.
    #[default]
    Balanced,
    /// Never spins: as late as the kernel wakes.
    Frugal,
}

/// Way to wait for the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Look again at once: the deadline has come, or is so near that sleeping would miss it.
    Spin,
    /// Sleep, or wait for arrivals, until then at most.
    Until(Instant),
    /// Sleep until something arrives.
    Forever,
}

impl Wait {
    /// The same way, with a sleep from `now` of at most `longest`.
    #[must_use]
    pub fn within(self, now: Instant, longest: Option<Duration>) -> Self {
        match (self, longest.map(|longest| now + longest)) {
            (Self::Until(until), Some(end)) => Self::Until(until.min(end)),
            (Self::Forever, Some(end)) => Self::Until(end),
            (wait, _) => wait,
        }
    }
}

/// Statistics of a thread's waiting so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Waited {
    /// Asleep.
    pub slept: Duration,
    /// Looking again and again with nothing to do: what exactness has cost of the processor.
    pub spun: Duration,
    /// Sleeps.
    pub sleeps: u64,
    /// Sleeps that ended after the deadline itself, so that the margin was too short (or, frugal, none).
    pub overslept: u64,
}

/// Waits for deadlines.
#[derive(Debug, Clone)]
pub struct Waiter {
    clock: Clock,
    pacing: Pacing,
    margin: Duration,
    waited: Waited,
    spinning_since: Option<Instant>,
    adapting: Option<MarginAdjuster>,
}

/// The margin until calibration knows better: nine of ten wake-ups were up to 80 us late where it was
/// measured.
pub const DEFAULT_MARGIN: Duration = Duration::from_us(100);

impl Waiter {
    /// A waiter on that clock that spins, unless frugal, from `margin` before a deadline.
    pub const fn new(clock: Clock, pacing: Pacing, margin: Duration) -> Self {
        let waited = Waited { slept: Duration::ZERO, spun: Duration::ZERO, sleeps: 0, overslept: 0 };
        Self { clock, pacing, margin, waited, spinning_since: None, adapting: None }
    }

    /// Moves the margin, within the bounds of the adjuster, by how late this waiter's sleeps end.
    #[must_use]
    pub fn adapting(self, adjuster: MarginAdjuster) -> Self {
        Self { adapting: Some(adjuster), ..self }
    }

    /// The clock it waits by.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the time before a deadline at which sleeping ends.
    pub fn margin(&self) -> Duration {
        match self.pacing {
            Pacing::Exact => self.margin * 4,
            Pacing::Balanced => self.margin,
            Pacing::Frugal => Duration::ZERO,
        }
    }

    /// Returns the way to wait from `now` until `deadline`, if there is one.
    ///
    /// For the length of the margin after the last command (at `last`), the plan is to spin: a client often sends
    /// its next command soon, and waking takes tens of microseconds.
    pub fn plan(&self, now: Instant, deadline: Option<Instant>, last: Option<Instant>) -> Wait {
        let margin = self.margin();
        if last.is_some_and(|last| now.saturating_since(last) < margin) {
            return Wait::Spin;
        }
        let Some(deadline) = deadline else { return Wait::Forever };
        let left = deadline.saturating_since(now);
        if left.is_zero() || left <= margin {
            Wait::Spin
        } else {
            Wait::Until(Instant::from_ns(deadline.as_ns() - margin.as_ns()))
        }
    }

    /// Begins to wait at `now`, by the plan that it returns; what is done in vain until the next call is
    /// spinning.
    pub fn begin(&mut self, now: Instant, deadline: Option<Instant>, last: Option<Instant>) -> Wait {
        let wait = self.plan(now, deadline, last);
        if let Some(since) = self.spinning_since.take() {
            self.waited.spun += now.saturating_since(since);
        }
        self.spinning_since = (wait == Wait::Spin).then_some(now);
        wait
    }

    /// Since [`begin`](Self::begin) there was something to do: that was not in vain.
    pub const fn worked(&mut self) {
        self.spinning_since = None;
    }

    /// The sleep by plan `wait`, begun at `from`, has ended at `after`.
    pub fn woke(&mut self, wait: Wait, from: Instant, after: Instant, deadline: Option<Instant>) {
        self.waited.slept += after.saturating_since(from);
        self.waited.sleeps += 1;
        self.waited.overslept += u64::from(deadline.is_some_and(|deadline| after > deadline));
        if let (Wait::Until(until), Some(adjuster)) = (wait, &mut self.adapting)
            && after >= until
        {
            self.margin = adjuster.observe(after - until, self.margin);
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
    /// A loop that calls the pacer between the steps of spinning hands out sooner: after a sleep the code and
    /// data of its first call are not in the caches, at a measured median cost of 0.7 us.
    pub fn step(&mut self, now: Instant, deadline: Instant) -> Instant {
        match self.begin(now, Some(deadline), None) {
            Wait::Until(until) => {
                sleep_until(self.clock, until);
                let after = self.clock.now();
                self.woke(Wait::Until(until), now, after, Some(deadline));
                after
            }
            Wait::Spin | Wait::Forever => {
                std::hint::spin_loop();
                let after = self.clock.now();
                self.waited.spun += after.saturating_since(now);
                self.worked();
                after
            }
        }
    }

    /// Returns the statistics of waiting so far.
    pub const fn waited(&self) -> Waited {
        self.waited
    }
}

/// Moves a margin by how late sleeps end: the next margin is halfway to the quantile of each window, so that
/// a burst of late wake-ups counts for half.
#[derive(Debug, Clone)]
pub struct MarginAdjuster {
    late: Vec<Duration>,
    window: usize,
    quantile: f64,
    bounds: (Duration, Duration),
}

impl MarginAdjuster {
    /// Takes that quantile of every `window` sleeps, and keeps the margin between `least` and `most`.
    ///
    /// # Panics
    /// If the window is empty or the bounds are the wrong way round.
    pub fn new(window: usize, quantile: f64, least: Duration, most: Duration) -> Self {
        assert!(window > 0 && least <= most, "a window of {window}, {least} to {most}");
        Self { late: Vec::with_capacity(window), window, quantile, bounds: (least, most) }
    }

    /// A sleep ended that late; returns what the margin is to be.
    pub fn observe(&mut self, late: Duration, margin: Duration) -> Duration {
        self.late.push(late);
        if self.late.len() < self.window {
            return margin;
        }
        let rank = (self.quantile * self.window as f64).ceil() as usize;
        let seen = *self.late.select_nth_unstable(rank.clamp(1, self.window) - 1).1;
        self.late.clear();
        Duration::from_ns(margin.as_ns().midpoint(seen.as_ns())).clamp(self.bounds.0, self.bounds.1)
    }
}

/// Sleeps until `instant` or a signal.
pub(crate) fn sleep_until(clock: Clock, instant: Instant) {
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

    const fn at(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    fn waiter(pacing: Pacing) -> Waiter {
        Waiter::new(Clock::from_origin_ns(5), pacing, Duration::from_us(50))
    }

    #[test]
    fn waiter_spins_for_the_margin_and_sleeps_before() {
        let check = |pacing, left_us: u64, wait| {
            let plan = waiter(pacing).plan(at(1_000), Some(at(1_000 + left_us)), None);
            assert_eq!(plan, wait, "{pacing:?} {left_us}");
        };
        for pacing in [Pacing::Exact, Pacing::Balanced, Pacing::Frugal] {
            check(pacing, 0, Wait::Spin);
            assert_eq!(waiter(pacing).plan(at(1_000), Some(at(900)), None), Wait::Spin, "it has passed");
            assert_eq!(waiter(pacing).plan(at(1_000), None, None), Wait::Forever);
        }
        check(Pacing::Exact, 200, Wait::Spin);
        check(Pacing::Exact, 1_000, Wait::Until(at(1_800)));
        check(Pacing::Balanced, 50, Wait::Spin);
        check(Pacing::Balanced, 1_000, Wait::Until(at(1_950)));
        check(Pacing::Frugal, 1, Wait::Until(at(1_001)));
        check(Pacing::Frugal, 1_000, Wait::Until(at(2_000)));
    }

    #[test]
    fn waiter_spins_for_the_margin_after_a_command() {
        let balanced = waiter(Pacing::Balanced);
        assert_eq!(balanced.plan(at(1_049), None, Some(at(1_000))), Wait::Spin, "more may come");
        assert_eq!(balanced.plan(at(1_050), None, Some(at(1_000))), Wait::Forever);
        assert_eq!(balanced.plan(at(1_050), Some(at(1_200)), Some(at(1_000))), Wait::Until(at(1_150)));
        let frugal = waiter(Pacing::Frugal);
        assert_eq!(frugal.plan(at(1_000), None, Some(at(1_000))), Wait::Forever);
    }

    #[test]
    fn sleep_is_limited() {
        let longest = Some(Duration::from_us(200));
        assert_eq!(Wait::Forever.within(at(1_000), longest), Wait::Until(at(1_200)));
        assert_eq!(Wait::Until(at(1_100)).within(at(1_000), longest), Wait::Until(at(1_100)));
        assert_eq!(Wait::Until(at(9_000)).within(at(1_000), longest), Wait::Until(at(1_200)));
        assert_eq!(Wait::Spin.within(at(1_000), longest), Wait::Spin);
        assert_eq!(Wait::Forever.within(at(1_000), None), Wait::Forever);
    }

    #[test]
    fn spinning_is_counted_apart_from_work_and_sleep() {
        let mut waiter = waiter(Pacing::Balanced);
        let deadline = Some(at(1_000));
        let until = waiter.begin(at(0), deadline, None);
        assert_eq!(until, Wait::Until(at(950)));
        waiter.woke(until, at(0), at(970), deadline);
        assert_eq!(waiter.begin(at(970), deadline, None), Wait::Spin);
        assert_eq!(waiter.begin(at(990), deadline, None), Wait::Spin);
        assert_eq!(waiter.begin(at(1_001), deadline, None), Wait::Spin);
        waiter.worked();
        let until = waiter.begin(at(1_010), Some(at(2_000)), None);
        waiter.woke(until, at(1_010), at(2_001), Some(at(2_000)));
        let us = Duration::from_us;
        let expected = Waited { slept: us(970 + 991), spun: us(31), sleeps: 2, overslept: 1 };
        assert_eq!(waiter.waited(), expected);
    }

    #[test]
    fn margin_follows_the_lateness_of_sleeps() {
        let us = Duration::from_us;
        let mut adjuster = MarginAdjuster::new(10, 0.9, us(20), us(400));
        let mut margin = us(100);
        let mut sleep = |late_us: &[u64], margin: &mut Duration| {
            for late in late_us {
                *margin = adjuster.observe(us(*late), *margin);
            }
        };
        for _ in 0..8 {
            sleep(&[30, 31, 32, 33, 34, 35, 36, 37, 50, 9_000], &mut margin);
        }
        assert!(margin.as_ns().abs_diff(50_000) < 500, "nine of ten within {margin}");
        sleep(&[900; 10], &mut margin);
        assert_eq!(margin, us(400), "never more");
        for _ in 0..10 {
            sleep(&[0; 10], &mut margin);
        }
        assert_eq!(margin, us(20), "never less");
    }

    #[test]
    fn waiting_ends_after_the_deadline() {
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
