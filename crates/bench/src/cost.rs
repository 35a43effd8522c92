//! The cost of measuring: what this process took from the machine.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use seeklab_core::Duration;

/// Processor time and context switches of this process with all its threads, or of some of them, and their system calls for
/// requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Processor time in user space.
    pub user: Duration,
    /// Processor time in the kernel.
    pub kernel: Duration,
    /// Context switches because a thread waited.
    pub waits: u64,
    /// Context switches because the kernel took the processor away.
    pub preemptions: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// Page faults without input or output.
    pub minor_faults: u64,
    /// Time during which threads could have run and had no processor. Known of the threads of a measurement; zero where the
    /// kernel does not count it.
    pub processor_wait: Duration,
    /// Time for which threads worked or waited for a processor, not for an arrival or the target. Known of the threads of a
    /// measurement.
    pub busy: Duration,
    /// Time for which threads ran their loop. Known of the threads of a measurement.
    pub loop_time: Duration,
    /// System calls to submit requests, take completions and wait.
    pub system_calls: u64,
}

impl Cost {
    /// The cost of the process so far, without system calls.
    pub(crate) fn of_process() -> Self {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    /// The cost of this thread so far, without system calls.
    pub(crate) fn of_thread() -> Self {
        let wait = std::fs::read_to_string("/proc/thread-self/schedstat");
        let processor_wait = wait.ok().and_then(|text| run_queue_wait(&text)).unwrap_or_default();
        Self { processor_wait, ..Self::of(UsageWho::RUSAGE_THREAD) }
    }

    fn of(whom: UsageWho) -> Self {
        let Ok(usage) = getrusage(whom) else { return Self::default() };
        let us =
            |time: nix::sys::time::TimeVal| Duration::from_us(time.num_microseconds().max(0).unsigned_abs());
        Self {
            user: us(usage.user_time()),
            kernel: us(usage.system_time()),
            waits: usage.voluntary_context_switches().unsigned_abs(),
            preemptions: usage.involuntary_context_switches().unsigned_abs(),
            major_faults: usage.major_page_faults().unsigned_abs(),
            minor_faults: usage.minor_page_faults().unsigned_abs(),
            ..Self::default()
        }
    }

    /// The cost from `before` to here.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            kernel: self.kernel.saturating_sub(before.kernel),
            waits: self.waits.saturating_sub(before.waits),
            preemptions: self.preemptions.saturating_sub(before.preemptions),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            processor_wait: self.processor_wait.saturating_sub(before.processor_wait),
            busy: self.busy.saturating_sub(before.busy),
            loop_time: self.loop_time.saturating_sub(before.loop_time),
            system_calls: self.system_calls.saturating_sub(before.system_calls),
        }
    }

    /// Processor time.
    pub fn processor(&self) -> Duration {
        self.user + self.kernel
    }

    /// Share of the time for which the threads had no time left, in percent. `None` if they did not run.
    pub fn busy_pct(&self) -> Option<f64> {
        (!self.loop_time.is_zero()).then(|| 100.0 * self.busy.as_s() / self.loop_time.as_s())
    }

    /// The cost of a thread that ran for `loop_time`, with an `idle` time in which it found nothing to do. Such a thread may
    /// spin, so that processor time alone does not show how busy it was.
    pub(crate) fn within(self, loop_time: Duration, idle: Duration) -> Self {
        let busy = (self.processor() + self.processor_wait).min(loop_time.saturating_sub(idle));
        Self { busy, loop_time, ..self }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.kernel += other.kernel;
        self.waits += other.waits;
        self.preemptions += other.preemptions;
        self.major_faults += other.major_faults;
        self.minor_faults += other.minor_faults;
        self.processor_wait += other.processor_wait;
        self.busy += other.busy;
        self.loop_time += other.loop_time;
        self.system_calls += other.system_calls;
    }
}

/// The second figure of `schedstat`, the time on a run queue in nanoseconds.
fn run_queue_wait(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_for_a_processor_is_the_second_figure() {
        assert_eq!(run_queue_wait("1200 46188 7\n"), Some(Duration::from_ns(46_188)));
        assert_eq!(run_queue_wait(""), None);
    }

    #[test]
    fn thread_that_spins_or_sleeps_is_not_busy() {
        let ms = Duration::from_ms;
        let busy_pct = |cpu, waited, idle| {
            let cost = Cost { user: ms(cpu), processor_wait: ms(waited), ..Cost::default() };
            cost.within(ms(100), ms(idle)).busy_pct().unwrap()
        };
        assert_eq!(busy_pct(99, 0, 0), 99.0);
        assert_eq!(busy_pct(99, 0, 60), 40.0, "it spun");
        assert_eq!(busy_pct(20, 0, 0), 20.0, "it slept until something ended");
        assert_eq!(busy_pct(20, 79, 0), 99.0, "others had its processor");
        assert_eq!(Cost::default().busy_pct(), None);
    }
}
