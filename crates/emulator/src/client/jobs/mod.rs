//! Streams of jobs for real: processor time is burnt, and requests go to a device.
//!
//! ```text
//!              one processor                                  the other processors
//! job threads ─▶ JobSet ─▶ drive threads ──requests──▶ device, e.g. an emulator
//!  burn their      ▲  │      sleep for replies,               │
//!  sectors in      │  └──────┐ then preempt the jobs          │
//!  slices          └─ wake ◀─┴────────── completions ◀────────┘
//! ```
//! Each job slot has a thread that burns the processor time of its sectors by its own processor clock. What the thread
//! does besides, such as taking locks, counts as processor time of its job, so a job takes the time that its seed draws.
//! Jobs take turns on one processor in slices of [`SLICE`]. Each drive has a thread that sends the requests of its calls.
//! These threads preempt the jobs: their processor time is that of the system. If the description has more time for the
//! system (`call_time`, `sector_time`), a thread between both burns the rest.
//!
//! # Scope and limits
//! - The state of all jobs is the [`JobSet`] that a simulated processor drives, too.
//! - Without permission for real-time priorities, all threads have an ordinary priority. Other work of the machine then
//!   takes the processor from the jobs, and replies wait for jobs to end their turn. [`JobsResult::scheduling`] has the
//!   reason, [`JobsResult::lost`] the time.
//! - The kernel may take real-time threads off the processor for 5 % of each second if they need all of it
//!   (`kernel.sched_rt_runtime_us`). That counts as lost, too.
//! - Written data is a pattern. Read data is not compared.

mod drive;
mod occupancy;
mod state;
mod threads;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration as Pause;

use seeklab_core::{DescriptionError, Duration, HostRequest, Seed};
use seeklab_workloads::jobs::{JobSet, JobsFigures};
use seeklab_workloads::{AddressSpace, JobsSpec};

use super::ClientError;
use crate::clock::Clock;
use crate::clock::priority::{Thread, usable_processors};

pub use drive::DriveClient;

use state::{End, Shared};
use threads::{Role, Used};

/// Longest time for which a job has the processor while others can compute.
pub const SLICE: Duration = Duration::from_us(500);

/// Job slots that are run for real at most.
pub const SLOTS_MAX: u32 = 64;

/// Interval at which the end, a stop and the progress are looked at.
const LOOK: Pause = Pause::from_millis(100);

/// Options of a run.
#[derive(Clone, Copy)]
pub struct JobsOptions<'a> {
    /// Clock of the stamps.
    pub clock: Clock,
    /// Thread that serves the device, if it is one of this process. It gets the highest priority, and the processors that
    /// the jobs do not use.
    pub emulator: Option<Thread>,
    /// Ends the run when true.
    pub stop: Option<&'a AtomicBool>,
    /// Receives every request of every drive at MP1 when it is complete, with its address on the drive.
    pub observe: &'a (dyn Fn(&HostRequest) + Sync),
}

/// Scheduling of the threads of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheduling {
    /// Jobs, drives and emulator have real-time priorities.
    RealTime,
    /// All have an ordinary priority, for the reason given.
    Ordinary(String),
}

/// Result of a run.
#[derive(Debug)]
pub struct JobsResult {
    /// Figures of the stream. Processor times are those of the threads.
    pub figures: JobsFigures,
    /// Scheduling of the threads.
    pub scheduling: Scheduling,
    /// Processor of jobs and drives, if they were pinned to one.
    pub processor: Option<usize>,
    /// True if the emulator had to use the processor of the jobs.
    pub is_shared: bool,
    /// Time for which a job could compute and neither a job nor a drive had the processor.
    pub lost: Duration,
    /// Processor time of all threads in user mode.
    pub user: Duration,
    /// Processor time of all threads in the kernel.
    pub kernel: Duration,
}

/// Checks that a stream can be run for real on drives of that size.
///
/// # Errors
/// A quantity that is out of range or does not fit.
pub fn check(spec: &JobsSpec, space: AddressSpace) -> Result<(), DescriptionError> {
    if spec.multiprogramming > SLOTS_MAX {
        let problem =
            format!("{} job slots are too many for threads on one processor", spec.multiprogramming);
        return Err(
            DescriptionError::invalid("multiprogramming", problem).hint(format!("at most {SLOTS_MAX}"))
        );
    }
    JobSet::new(spec, space, Seed(0)).map(drop)
}

/// Runs the stream that `spec` describes. `drives` are its drives in order, each with the blocks of `space`, which the
/// stream overwrites. `progress` receives the number of jobs that have ended about ten times per second.
///
/// # Errors
/// A drive that ends its connection, and [`ClientError::Stopped`]. Failed requests are part of the figures.
///
/// # Panics
/// If the stream does not pass [`check`], or there is another number of drives.
pub fn run_jobs(
    spec: &JobsSpec,
    drives: Vec<DriveClient>,
    space: AddressSpace,
    seed: Seed,
    options: &JobsOptions<'_>,
    progress: &mut dyn FnMut(u32),
) -> Result<JobsResult, ClientError> {
    assert_eq!(drives.len(), usize::from(spec.drives), "each drive has a client");
    let jobs = JobSet::new(spec, space, seed).expect("the stream was checked");
    let processors = usable_processors();
    let (processor, others) = match processors.split_last() {
        Some((last, others)) if !others.is_empty() => (Some(*last), others),
        _ => (processors.first().copied(), &processors[..]),
    };
    let is_shared = processors.len() < 2;
    let pinned = processor.filter(|processor| can_pin(*processor));
    let scheduling = match prepare_emulator(options.emulator, others) {
        Ok(()) => Scheduling::RealTime,
        Err(reason) => Scheduling::Ordinary(reason),
    };
    let role = |priority| Role {
        priority: (scheduling == Scheduling::RealTime).then_some(priority),
        processor: pinned,
    };
    let slots = spec.multiprogramming as usize;
    let has_system = !spec.call_time.is_zero() || !spec.sector_time.is_zero();
    let handles: Vec<_> = drives.iter().map(DriveClient::handle).collect();
    let shared = Shared::new(jobs, slots, drives.len(), has_system);
    let ready = Barrier::new(slots + drives.len() + usize::from(has_system) + 1);
    let (shared, ready) = (&shared, &ready);
    let used = std::thread::scope(|scope| {
        let block_bytes = space.block_size.as_bytes();
        let count = drives.len();
        let drives: Vec<ScopedJoinHandle<'_, Used>> = drives
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                let role = role(threads::DRIVE_PRIORITY);
                scope.spawn(move || {
                    threads::serve_drive(shared, ready, role, number, client, block_bytes, options.observe)
                })
            })
            .collect();
        let jobs: Vec<ScopedJoinHandle<'_, Used>> = (0..slots)
            .map(|slot| {
                let role = role(threads::JOB_PRIORITY);
                scope.spawn(move || threads::run_job_slot(shared, ready, role, slot))
            })
            .collect();
        let system = has_system.then(|| {
            let role = role(threads::SYSTEM_PRIORITY);
            scope.spawn(move || threads::burn_system_time(shared, ready, role, count))
        });
        ready.wait();
        shared.begin(options.clock);
        while !shared.wait_for_end(LOOK) {
            progress(shared.jobs_ended());
            if options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                shared.end(End::Stopped);
                handles.iter().flatten().for_each(|handle| handle.shut_down());
            }
        }
        let mut used = Used::default();
        for thread in jobs.into_iter().chain(system).chain(drives) {
            used.add(thread.join().expect("a thread of the run does not panic"));
        }
        used
    });
    progress(shared.jobs_ended());
    shared.result(used, scheduling, pinned, is_shared)
}

/// Returns true if threads of this process may be pinned to that processor.
fn can_pin(processor: usize) -> bool {
    std::thread::spawn(move || Thread::Current.pin(&[processor]).is_ok()).join().unwrap_or(false)
}

/// Gives the emulator its priority and its processors. Returns the reason if real-time priorities are not permitted.
fn prepare_emulator(emulator: Option<Thread>, processors: &[usize]) -> Result<(), String> {
    let reason = |error: std::io::Error| format!("real-time priorities are not permitted: {error}");
    match emulator {
        Some(thread) => {
            // It runs anywhere else if that is refused.
            let _ = thread.pin(processors);
            thread.set_real_time(threads::EMULATOR_PRIORITY).map_err(reason)
        }
        None => {
            let tried = || Thread::Current.set_real_time(threads::DRIVE_PRIORITY);
            std::thread::spawn(tried).join().expect("it does not panic").map_err(reason)
        }
    }
}
