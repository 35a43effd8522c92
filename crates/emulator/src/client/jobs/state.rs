//! State that the threads of a run share: the jobs, the requests to send, and the threads that sleep.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration as Pause;

use seeklab_core::{Duration, Instant, Request};
use seeklab_workloads::jobs::{JobSet, JobsFigures};

use super::occupancy::Occupancy;
use super::threads::Used;
use super::{JobsResult, Scheduling};
use crate::client::ClientError;
use crate::clock::Clock;

/// End of a run.
#[derive(Debug)]
pub(super) enum End {
    /// Every job has ended, at that time since the begin.
    Finished(Instant),
    /// The caller stopped the run.
    Stopped,
    /// A drive cannot go on.
    Failed(ClientError),
}

/// State behind the lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) jobs: JobSet,
    /// The request that each drive has to send.
    pub(super) outgoing: Vec<Option<Request>>,
    /// Slots whose threads sleep and were not woken, and drives.
    sleeping_slots: Vec<bool>,
    sleeping_drives: Vec<bool>,
    is_system_asleep: bool,
    /// Processor time that the description has for the system so far.
    described_system: Duration,
    occupancy: Occupancy,
    end: Option<End>,
}

/// Threads to wake when the lock is free, so that they do not wait for it at once.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wakes {
    slots: u64,
    drives: u64,
    system: bool,
    end: bool,
}

/// State that the threads of a run share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    slots: Vec<Condvar>,
    drives: Vec<Condvar>,
    system: Condvar,
    ended: Condvar,
    is_over: AtomicBool,
    /// Processor time of each drive thread, and of the thread that burns for the system, in nanoseconds.
    system_ns: Vec<AtomicU64>,
    has_system: bool,
    /// The clock and the begin of the run on it.
    begin: OnceLock<(Clock, Instant)>,
}

impl Shared {
    pub(super) fn new(jobs: JobSet, slots: usize, drives: usize, has_system: bool) -> Self {
        let state = State {
            jobs,
            outgoing: vec![None; drives],
            sleeping_slots: vec![false; slots],
            sleeping_drives: vec![false; drives],
            is_system_asleep: false,
            described_system: Duration::ZERO,
            occupancy: Occupancy::default(),
            end: None,
        };
        Self {
            state: Mutex::new(state),
            slots: (0..slots).map(|_| Condvar::new()).collect(),
            drives: (0..drives).map(|_| Condvar::new()).collect(),
            system: Condvar::new(),
            ended: Condvar::new(),
            is_over: AtomicBool::new(false),
            system_ns: (0..=drives).map(|_| AtomicU64::new(0)).collect(),
            has_system,
            begin: OnceLock::new(),
        }
    }

    /// Begins the run. The threads wait for this.
    pub(super) fn begin(&self, clock: Clock) {
        let mut state = self.lock();
        self.begin.set((clock, clock.now())).expect("a run begins once");
        let wakes = state.settle(Instant::ZERO, Duration::ZERO);
        drop(state);
        self.wake(wakes.and_all_slots(self.slots.len()));
    }

    /// True from the begin on.
    pub(super) fn has_begun(&self) -> bool {
        self.begin.get().is_some()
    }

    /// Time since the begin.
    pub(super) fn now(&self) -> Instant {
        let (clock, begin) = self.begin.get().expect("the run has begun");
        Instant::ZERO + clock.now().saturating_since(*begin)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when the run is over. Threads that burn look at it.
    pub(super) const fn is_over(&self) -> &AtomicBool {
        &self.is_over
    }

    /// Sets the processor time of a drive thread, or, after the last drive, of the thread that burns for the system.
    pub(super) fn publish(&self, thread: usize, time: Duration) {
        self.system_ns[thread].store(time.as_ns(), Ordering::Relaxed);
    }

    fn system_time(&self) -> Duration {
        Duration::from_ns(self.system_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).sum())
    }

    /// Hands out requests after a change of the jobs, frees the lock, and wakes the threads that have something to do.
    pub(super) fn settle(&self, mut state: MutexGuard<'_, State>) {
        let wakes = state.settle(self.now(), self.system_time());
        if wakes.end {
            self.is_over.store(true, Ordering::Relaxed);
        }
        let wakes = Wakes { system: wakes.system && self.has_system, ..wakes };
        drop(state);
        self.wake(wakes);
    }

    fn wake(&self, wakes: Wakes) {
        let chosen = |threads: &[Condvar], mask: u64| {
            threads.iter().enumerate().filter(|(number, _)| mask >> number & 1 == 1).for_each(
                |(_, thread)| {
                    thread.notify_one();
                },
            );
        };
        chosen(&self.slots, wakes.slots);
        if wakes.system {
            self.system.notify_one();
        }
        chosen(&self.drives, wakes.drives);
        if wakes.end {
            self.ended.notify_all();
        }
    }

    /// Sleeps until there may be something to do for a slot.
    pub(super) fn wait_in_slot<'a>(
        &'a self,
        slot: usize,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        state.sleeping_slots[slot] = true;
        state = self.slots[slot].wait(state).unwrap_or_else(PoisonError::into_inner);
        state.sleeping_slots[slot] = false;
        state
    }

    /// Sleeps until there may be something to do for a drive.
    pub(super) fn wait_in_drive<'a>(
        &'a self,
        drive: usize,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        state.sleeping_drives[drive] = true;
        state = self.drives[drive].wait(state).unwrap_or_else(PoisonError::into_inner);
        state.sleeping_drives[drive] = false;
        state
    }

    /// Sleeps until there may be something to burn for the system.
    pub(super) fn wait_in_system<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.is_system_asleep = true;
        state = self.system.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.is_system_asleep = false;
        state
    }

    /// Processor time that the description has for the system and that its threads have not used.
    pub(super) fn unused_system_time(&self, state: &State) -> Duration {
        state.described_system.saturating_sub(self.system_time())
    }

    /// Ends the run, unless it has ended.
    pub(super) fn end(&self, end: End) {
        let mut state = self.lock();
        state.end.get_or_insert(end);
        self.is_over.store(true, Ordering::Relaxed);
        drop(state);
        self.wake(Wakes { slots: u64::MAX, drives: u64::MAX, system: true, end: true });
    }

    /// Returns true if the run ends within a time.
    pub(super) fn wait_for_end(&self, time: Pause) -> bool {
        let state = self.lock();
        if state.end.is_some() {
            return true;
        }
        let (state, _) = self.ended.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
        state.end.is_some()
    }

    pub(super) fn jobs_ended(&self) -> u32 {
        self.lock().jobs.figures().jobs
    }

    /// The result of a run that is over, whose threads used that much.
    pub(super) fn result(
        &self,
        used: Used,
        scheduling: Scheduling,
        processor: Option<usize>,
        is_shared: bool,
    ) -> Result<JobsResult, ClientError> {
        let system = self.system_time();
        let mut state = self.lock();
        let end = match state.end.take().expect("the run is over") {
            End::Finished(end) => end,
            End::Stopped => return Err(ClientError::Stopped { outstanding: 0 }),
            End::Failed(error) => return Err(error),
        };
        let figures = state.jobs.figures().clone();
        Ok(JobsResult {
            figures: JobsFigures {
                elapsed: end.saturating_since(Instant::ZERO),
                system_processor: system,
                ..figures
            },
            scheduling,
            processor,
            is_shared,
            lost: state.occupancy.lost(used.jobs),
            user: used.user,
            kernel: used.kernel,
        })
    }
}

impl State {
    /// Hands requests to the drives, and notes who has something to do at `now`. `system` is the processor time of the
    /// system until now.
    fn settle(&mut self, now: Instant, system: Duration) -> Wakes {
        let mut wakes = Wakes::default();
        while let Some(request) = self.jobs.next_request() {
            let drive = usize::from(request.device);
            let before = self.outgoing[drive].replace(request);
            debug_assert!(before.is_none(), "a drive has one request at a time");
            if std::mem::take(&mut self.sleeping_drives[drive]) {
                wakes.drives |= 1 << drive;
            }
        }
        for (slot, is_asleep) in self.sleeping_slots.iter_mut().enumerate() {
            if *is_asleep && (self.jobs.is_ready(slot) || !self.jobs.has_job(slot)) {
                *is_asleep = false;
                wakes.slots |= 1 << slot;
            }
        }
        self.described_system += self.jobs.take_system_time();
        wakes.system = self.described_system > system && std::mem::take(&mut self.is_system_asleep);
        self.occupancy.note(now, self.jobs.ready().next().is_some(), system);
        if self.end.is_none() && self.jobs.is_finished() {
            self.end = Some(End::Finished(now));
            wakes = Wakes { slots: u64::MAX, drives: u64::MAX, system: true, end: true };
        }
        wakes
    }

    /// True when the run is over.
    pub(super) const fn is_over(&self) -> bool {
        self.end.is_some()
    }
}

impl Wakes {
    fn and_all_slots(self, slots: usize) -> Self {
        Self { slots: u64::MAX >> (64 - slots), ..self }
    }
}
