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

