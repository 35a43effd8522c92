//! Times in which the loop's thread did one thing for long, and which thing it was.
//!
//! ```text
//!   planned wake        woken                                                    waits again
//! ──────┴──── kernel ─────┴── transport ──┴── store ──┴── model ──┴── transport ──┴───────
//!  a turn of the loop: each activity ends where the next begins; long ones are kept as stalls
//! ```
//! A request that was due within a stall missed its deadline because of it, whatever its own steps say: the thread
//! does one thing at a time. At the end of a turn the thread's processor time says how long the thread was off the
//! processor. A stall for most of which it was is the kernel's, unless the thread waited for the store.
//!
//! # Scope and limits
//! Pure: times are arguments. The processor time is read once a turn at most, so of several stalls of one turn the
//! first in the order of [`MISPLACED`] is taken for the one off the processor.

use std::collections::VecDeque;

use seeklab_core::{Duration, Instant, MissCause};

/// The shortest activity that is kept.
const LONG: Duration = Duration::from_us(10);

/// Stalls that are kept: a reply is booked in the turn in which it leaves, so few are needed.
const STALLS_MAX: usize = 256;

/// Wall time from which the processor time is read again, so that spinning does not read it each time.
const READ_INTERVAL: Duration = Duration::from_us(50);

/// Causes that become the kernel's, in the order in which the time off the processor is assigned to them.
const MISPLACED: [MissCause; 3] = [MissCause::Transport, MissCause::ModelTooSlow, MissCause::DataNotThere];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stall {
    from: Instant,
    to: Instant,
    cause: MissCause,
}

/// The activities of the loop's thread.
#[derive(Debug)]
pub(super) struct Stalls {
    /// The store may make the thread wait.
    store_waits: bool,
    /// The end of the last activity.
    mark: Instant,
    /// Since when the loop waits, and until when at the latest it means to.
    waiting: Option<(Instant, Instant)>,
    /// Time since the last reading that the thread may have slept on purpose.
    slept: Duration,
    /// Wall and processor time of the last reading.
    read: (Instant, Duration),
    turn: Vec<Stall>,
    past: VecDeque<Stall>,
}

impl Stalls {
    /// Nothing has happened at `now`, when the thread's processor time is `cpu`.
    pub(super) fn new(store_waits: bool, now: Instant, cpu: Duration) -> Self {
        Self {
            store_waits,
            mark: now,
            waiting: None,
            slept: Duration::ZERO,
            read: (now, cpu),
            turn: Vec::new(),
            past: VecDeque::with_capacity(STALLS_MAX),
        }
    }

    /// The loop has nothing to do from `now` on, until `until`; every activity before has been noted.
    pub(super) fn wait(&mut self, now: Instant, until: Instant) {
        // No time is both spent and waited.
        self.mark = self.mark.max(now);
        self.waiting = Some((self.mark, until));
    }

    /// The loop is awake at `now`; returns whether it had waited.
    pub(super) fn wake(&mut self, now: Instant) -> bool {
        let Some((since, until)) = self.waiting.take() else { return false };
        let planned = until.max(since);
        self.slept += planned.min(now).saturating_since(since);
        self.mark = planned.min(now);
        // Until it is known how long the thread was off the processor, it was busy with arrivals.
        self.spent(MissCause::Transport, now);
        true
    }

    /// Since the end of the activity before, the thread did that.
    pub(super) fn spent(&mut self, cause: MissCause, now: Instant) {
        if now.saturating_since(self.mark) > LONG {
            self.turn.push(Stall { from: self.mark, to: now, cause });
        }
        self.mark = self.mark.max(now);
    }

    /// The turn ends at `now`; `cpu` reads the thread's processor time.
    pub(super) fn end_turn(&mut self, now: Instant, cpu: impl FnOnce() -> Duration) {
        if self.turn.is_empty() && now.saturating_since(self.read.0) < READ_INTERVAL {
            return;
        }
        let cpu = cpu();
        let passed = now.saturating_since(self.read.0);
        let mut off = passed.saturating_sub(cpu.saturating_sub(self.read.1)).saturating_sub(self.slept);
        (self.read, self.slept) = ((now, cpu), Duration::ZERO);
        if self.store_waits {
            let store = self.turn.iter().filter(|stall| stall.cause == MissCause::DataNotThere);
            let waited = store.fold(Duration::ZERO, |waited, stall| waited + (stall.to - stall.from));
            off = off.saturating_sub(waited);
        }
        for cause in MISPLACED {
            if cause == MissCause::DataNotThere && self.store_waits {
                continue;
            }
            for stall in self.turn.iter_mut().filter(|stall| stall.cause == cause) {
                let length = stall.to - stall.from;
                if off > length / 2 {
                    stall.cause = MissCause::KernelScheduling;
                    off = off.saturating_sub(length);
                }
            }
        }
        for stall in self.turn.drain(..) {
            if self.past.len() == STALLS_MAX {
                self.past.pop_front();
            }
            self.past.push_back(stall);
        }
    }

    /// The cause of the stall within which `due` lies.
    pub(super) fn cause(&self, due: Instant) -> Option<MissCause> {
        let after = self.past.partition_point(|stall| stall.to < due);
        self.past.get(after).filter(|stall| stall.from <= due).map(|stall| stall.cause)
    }
}

#[cfg(test)]
mod tests {
    use MissCause::{DataNotThere, KernelScheduling, ModelTooSlow, Transport};

    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    const fn cpu(ms: u64) -> Duration {
        Duration::from_ms(ms)
    }

    /// A thread that waits from 10 ms on until 20 ms at most.
    fn waiting(store_waits: bool) -> Stalls {
        let mut stalls = Stalls::new(store_waits, ms(0), cpu(0));
        stalls.end_turn(ms(10), || cpu(10));
        stalls.wait(ms(10), ms(20));
        stalls
    }

    #[test]
    fn stopped_process_is_the_kernels() {
        let mut stalls = waiting(false);
        stalls.wake(ms(70));
        stalls.end_turn(ms(70), || cpu(10));
        assert_eq!(stalls.cause(ms(19)), None, "that long it meant to wait");
        assert_eq!(stalls.cause(ms(20)), Some(KernelScheduling));
        assert_eq!(stalls.cause(ms(70)), Some(KernelScheduling));
        assert_eq!(stalls.cause(ms(71)), None);
    }

    #[test]
    fn stop_within_a_step_is_the_kernels() {
        for cause in [Transport, ModelTooSlow, DataNotThere] {
            let mut stalls = waiting(false);
            stalls.wake(ms(20));
            stalls.spent(cause, ms(70));
            stalls.end_turn(ms(70), || cpu(11));
            assert_eq!(stalls.cause(ms(50)), Some(KernelScheduling), "{cause:?}");
        }
    }

    #[test]
    fn stop_in_work_after_the_turn_is_the_kernels() {
        let mut stalls = Stalls::new(false, ms(0), cpu(0));
        stalls.end_turn(ms(10), || cpu(10));
        stalls.spent(ModelTooSlow, ms(60));
        stalls.wait(ms(60), ms(20));
        stalls.wake(ms(60));
        stalls.end_turn(ms(60), || cpu(11));
        assert_eq!(stalls.cause(ms(15)), Some(KernelScheduling));
        assert_eq!(stalls.cause(ms(50)), Some(KernelScheduling));
    }

    #[test]
    fn busy_step_keeps_its_cause() {
        for cause in [Transport, ModelTooSlow, DataNotThere] {
            let mut stalls = waiting(false);
            stalls.wake(ms(20));
            stalls.spent(cause, ms(70));
            stalls.end_turn(ms(70), || cpu(50));
            assert_eq!(stalls.cause(ms(20)), Some(cause));
            assert_eq!(stalls.cause(ms(70)), Some(cause));
        }
    }

    #[test]
    fn store_that_sleeps_is_the_stores() {
        let mut stalls = waiting(true);
        stalls.wake(ms(20));
        stalls.spent(DataNotThere, ms(70));
        stalls.spent(ModelTooSlow, ms(90));
        stalls.end_turn(ms(90), || cpu(30));
        assert_eq!(stalls.cause(ms(40)), Some(DataNotThere));
        assert_eq!(stalls.cause(ms(80)), Some(ModelTooSlow), "the store took all the time off the processor");
    }

    #[test]
    fn sleep_on_purpose_is_not_off_the_processor() {
        let mut stalls = waiting(false);
        stalls.wake(ms(15));
        stalls.spent(ModelTooSlow, ms(65));
        stalls.end_turn(ms(65), || cpu(60));
        assert_eq!(stalls.cause(ms(40)), Some(ModelTooSlow));
        assert_eq!(stalls.cause(ms(12)), None);
    }

    #[test]
    fn reading_many_short_arrivals_is_transport() {
        let mut stalls = waiting(false);
        stalls.wake(ms(60));
        stalls.end_turn(ms(60), || cpu(50));
        assert_eq!(stalls.cause(ms(30)), Some(Transport));
    }

    #[test]
    fn short_steps_leave_nothing_and_read_nothing() {
        let mut stalls = waiting(false);
        let at = |us: u64| ms(10) + Duration::from_us(us);
        stalls.wake(at(1));
        stalls.spent(ModelTooSlow, at(11));
        stalls.end_turn(at(20), || panic!("nothing was long"));
        assert_eq!(stalls.cause(at(5)), None);
        stalls.end_turn(at(60), || cpu(10));
        assert_eq!(stalls.read.0, at(60));
    }

    #[test]
    fn oldest_stalls_are_forgotten() {
        let mut stalls = Stalls::new(false, ms(0), cpu(0));
        for turn in 0..STALLS_MAX as u64 + 10 {
            stalls.wait(ms(turn * 10), ms(turn * 10 + 5));
            stalls.wake(ms(turn * 10 + 5));
            stalls.spent(ModelTooSlow, ms(turn * 10 + 10));
            stalls.end_turn(ms(turn * 10 + 10), || cpu(turn * 10 + 10));
        }
        assert_eq!(stalls.past.len(), STALLS_MAX);
        assert_eq!(stalls.cause(ms(57)), None);
        assert_eq!(stalls.cause(ms(STALLS_MAX as u64 * 10 + 57)), Some(ModelTooSlow));
    }
}
