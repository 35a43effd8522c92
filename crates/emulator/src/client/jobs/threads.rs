//! The threads of a run: a job slot, a drive, and the rest of the system.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use seeklab_core::{Duration, HostRequest};
use seeklab_workloads::jobs::Progress;

use super::SLICE;
use super::drive::DriveClient;
use super::state::{End, Shared};
use crate::clock::priority::Thread;
use crate::clock::thread_cpu_time;

/// Real-time priorities: what preempts what.
pub(super) const JOB_PRIORITY: u8 = 10;
pub(super) const SYSTEM_PRIORITY: u8 = 15;
pub(super) const DRIVE_PRIORITY: u8 = 20;
pub(super) const EMULATOR_PRIORITY: u8 = 30;

/// Scheduling of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Role {
    /// Real-time priority; `None` for an ordinary one.
    pub(super) priority: Option<u8>,
    /// The only processor that it uses.
    pub(super) processor: Option<usize>,
}

impl Role {
    fn take(self) {
        // Both were permitted before the threads began.
        if let Some(processor) = self.processor {
            let _ = Thread::Current.pin(&[processor]);
        }
        if let Some(priority) = self.priority {
            let _ = Thread::Current.set_real_time(priority);
        }
    }
}

/// Processor time that threads used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// Of job threads since the begin.
    pub(super) jobs: Duration,
    /// In user mode.
    pub(super) user: Duration,
    /// In the kernel.
    pub(super) kernel: Duration,
}

impl Used {
    pub(super) fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.user += other.user;
        self.kernel += other.kernel;
    }

    fn of_this_thread(jobs: Duration) -> Self {
        let time = |time: TimeVal| {
            Duration::from_s(time.tv_sec().unsigned_abs()) + Duration::from_us(time.tv_usec().unsigned_abs())
        };
        getrusage(UsageWho::RUSAGE_THREAD).map_or(Self { jobs, ..Self::default() }, |usage| Self {
            jobs,
            user: time(usage.user_time()),
            kernel: time(usage.system_time()),
        })
    }
}

/// Runs the jobs of a slot: burns the processor time of each sector, and carries out the sectors.
pub(super) fn run_job_slot(shared: &Shared, ready: &Barrier, role: Role, slot: usize) -> Used {
    role.take();
    ready.wait();
    let mut state = shared.lock();
    while !shared.has_begun() {
        state = shared.wait_in_slot(slot, state);
    }
    let begin = thread_cpu_time();
    // Time of this thread that its jobs have had.
    let mut given = begin;
    let mut slice = Slice::beginning(begin);
    while !state.is_over() && state.jobs.has_job(slot) {
        if !state.jobs.is_ready(slot) {
            state = shared.wait_in_slot(slot, state);
            slice = Slice::beginning(thread_cpu_time());
            continue;
        }
        let used = thread_cpu_time();
        state.jobs.compute(slot, Progress::of(used.saturating_sub(given)));
        given = used;
        state.jobs.run(slot, shared.now());
        let left = state.jobs.is_ready(slot).then(|| state.jobs.until_due(slot)).flatten();
        shared.settle(state);
        if let Some(left) = left {
            slice.burn(given + left.time() + Duration::from_ns(1), shared.is_over());
        }
        state = shared.lock();
    }
    drop(state);
    Used::of_this_thread(thread_cpu_time().saturating_sub(begin))
}

/// A turn on the processor.
#[derive(Debug, Clone, Copy)]
struct Slice {
    /// Processor time of the thread at which the turn ends.
    end: Duration,
}

impl Slice {
    fn beginning(now: Duration) -> Self {
        Self { end: now + SLICE }
    }

    /// Burns until the thread has had that processor time. At the end of each turn, lets others of the same priority run.
    fn burn(&mut self, until: Duration, is_over: &AtomicBool) {
        loop {
            let now = thread_cpu_time();
            if now >= until {
                return;
            }
            if now >= self.end {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::yield_now();
                *self = Self::beginning(thread_cpu_time());
            }
            std::hint::spin_loop();
        }
    }
}

/// Sends the requests of a drive, one at a time. `observe` receives each when it is complete.
pub(super) fn serve_drive(
    shared: &Shared,
    ready: &Barrier,
    role: Role,
    drive: usize,
    mut client: DriveClient,
    block_bytes: u64,
    observe: &(dyn Fn(&HostRequest) + Sync),
) -> Used {
    role.take();
    ready.wait();
    let begin = thread_cpu_time();
    let publish = || shared.publish(drive, thread_cpu_time().saturating_sub(begin));
    let mut state = shared.lock();
    while !state.is_over() {
        let Some(request) = state.outgoing[drive].take() else {
            publish();
            state = shared.wait_in_drive(drive, state);
            continue;
        };
        drop(state);
        let done = client.carry_out(&request, block_bytes, publish);
        state = shared.lock();
        match done {
            Ok(done) => {
                publish();
                state.jobs.count_failure(done.error.is_some());
                state.jobs.complete(drive, shared.now());
                shared.settle(state);
                observe(&done);
            }
            Err(error) => {
                drop(state);
                shared.end(End::Failed(error));
            }
        }
        state = shared.lock();
    }
    drop(state);
    publish();
    Used::of_this_thread(Duration::ZERO)
}

/// Burns the processor time that the description has for the system beyond that of the drive threads.
pub(super) fn burn_system_time(shared: &Shared, ready: &Barrier, role: Role, number: usize) -> Used {
    role.take();
    ready.wait();
    let begin = thread_cpu_time();
    let mut state = shared.lock();
    while !state.is_over() {
        let left = shared.unused_system_time(&state);
        if left.is_zero() {
            state = shared.wait_in_system(state);
            continue;
        }
        drop(state);
        let until = thread_cpu_time() + left;
        while thread_cpu_time() < until && !shared.is_over().load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        shared.publish(number, thread_cpu_time().saturating_sub(begin));
        state = shared.lock();
    }
    drop(state);
    Used::of_this_thread(Duration::ZERO)
}
