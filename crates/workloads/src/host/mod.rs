//! A host: CPUs, processes, a page cache and a syncer in front of a device.
//!
//! ```text
//! programs ──▶ processes ──▶ system calls ──▶ page cache ──requests──▶ device
//!                 ▲  run queue                  ▲  │                      │
//!                CPUs ◀──── interrupts ◀────────│──│──────completions─────┘
//!                 ▲                             │  ▼
//!               clock                          syncer
//! ```
//! A process is a sequence of events separated by computing times, as in the system-level model of Ganger and Patt. A
//! CPU executes computing times. An event changes the state of the system: a process reads a block, waits, or ends.
//! Requests, context switches and interrupts are effects. The model generates them, so their number and their times
//! follow from the device. A [`Host`] is a [`Workload`]: which requests arrive, and when, depends on completions.
//!
//! # Scope and limits
//! - A run ends when all processes have ended and everything dirty is on the device.
//! - Events at one time happen in this order: interrupts of completions, timers, windows of writeback throttling, the
//!   syncer, the journal, the clock, ends of computing times in the order in which they began.
//! - Interrupts go to the first CPU. They nest: the last one runs first, of those at one time the first completion's.
//! - A run ends after a year. A process that forks where 100,000 processes exist has failed.
//! - Of a program that takes no time, every 1,048,576 statements take a nanosecond, so that every run goes on.
//! - Processes are not stopped in the system: a process that computes may be preempted at any time.
//! - Absent: virtual memory and swapping, several devices. `docs/models/host.md` has
//!   the whole list.
//!
//! # References
//! G. R. Ganger and Y. N. Patt, Using System-Level Models to Evaluate I/O Subsystem Designs, IEEE Transactions on
//! Computers 47(6), 1998.

mod action;
mod application;
mod channel;
mod cpu;
mod criticality;
mod figures;
mod file;
mod file_system;
mod interrupt;
mod linux;
mod list;
mod page_cache;
mod page_index;
mod page_set;
mod process;
mod profile;
mod program;
mod recorded;
mod recorded_steps;
mod run_queue;
mod spec;
mod start;
mod syncer;
mod system_call;
mod timeline;
mod two_lists;
mod usage;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use seeklab_core::{Arrival, Completion, Criticality, Duration, Instant, RequestId, Stream, Workload};

pub use self::application::{Application, FileSystemSettings, Phase, ProcessId, System};
pub use self::criticality::ClassFigures;
pub use self::figures::{CpuTimes, HostFigures};
pub use self::file_system::{DirectoryId, FileId, Full, Mount};
pub use self::profile::Profile;
pub use self::recorded::{
    CachedPages, RecordedAction, RecordedAllocation, RecordedExtent, RecordedFile, RecordedPlace,
    RecordedPool, RecordedStep, RecordedThread, Recording, SyncEnd,
};
pub use self::recorded_steps::{PART_STEPS, RecordedSteps, StepStore};
pub use self::spec::{FileSpec, HostSettings, HostSpec, ProcessSpec, SystemSpec};
pub use self::timeline::HostInterval;
pub use self::usage::{ProcessTimes, WaitTimes};

pub(crate) use self::list::{Links, List, NONE};
pub(crate) use self::page_index::PageIndex;

use self::application::Running;
use self::channel::{Lock, Pipe};
use self::cpu::{Cpu, Use, Work};
use self::criticality::Requests;
use self::figures::Accounts;
use self::file::File;
use self::linux::Linux;
use self::page_cache::PageCache;
use self::process::{Definition, Process, WaitLists};
use self::profile::Settings;
use self::syncer::Syncer;
use self::timeline::{Levels, Timeline};

/// Size of a block of a file, of a frame and of a request through the page cache.
const PAGE_BYTES: u64 = 4096;

/// Time of a run at most. No time of a host is longer, so none overflows.
const HORIZON: Duration = Duration::from_s(366 * 24 * 3600);

/// Processes that a host has at a time at most.
const PROCESSES_MAX: u64 = 100_000;

/// Number of the syncer among the processes.
const SYNCER: u32 = 0;

/// Number of the process of the journal among the processes, if the file system has one.
const JOURNAL: u32 = 1;

/// A host that runs the processes of a description.
#[derive(Debug, Clone)]
pub struct Host {
    settings: Settings,
    now: Instant,
    block_bytes: u64,
    definitions: Vec<Definition>,
    files: Vec<File>,
    cpus: Vec<Cpu>,
    /// Number of times that a CPU began to execute something.
    begun: u64,
    processes: Vec<Process>,
    /// Processes that have ended, whose memory is free.
    ended: Vec<u32>,
    /// Lists that processes are on.
    links: Links,
    lists: WaitLists,
    locks: Vec<Lock>,
    pipes: Vec<Pipe>,
    cache: PageCache,
    syncer: Syncer,
    /// Start of the next clock interrupt; `None` without a clock.
    clock: Option<Instant>,
    /// Ends of sleeps and starts of processes: time, order, process.
    timers: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    timers_set: u64,
    /// Requests, and changes of the classes of pending ones, that the device receives now.
    arrivals: VecDeque<Arrival>,
    requests: Requests,
    /// Completions whose interrupts have yet to arrive: request, success.
    completions: Vec<(u64, bool)>,
    stream: Stream,
    /// Processes that have not ended, without the syncer.
    alive: u64,
    /// Processes of the task that have not ended.
    task_alive: u64,
    /// Processes that wait for I/O.
    waiting_for_io: u64,
    accounts: Accounts,
    /// Times of the syncer, then those of the processes of each definition.
    usage: Vec<ProcessTimes>,
    /// Statements that processes have begun since the time last moved.
    instant_statements: u32,
    timeline: Timeline,
    /// Accounts when the first process of the task started, and when the last ended.
    task_start: Option<Accounts>,
    task_end: Option<Accounts>,
    time_critical: ClassFigures,
    time_limited: ClassFigures,
    time_noncritical: ClassFigures,
    turned_critical: u64,
    failed_requests: u64,
    failed_processes: u64,
    /// State of the page cache under the profile `linux`.
    linux: Option<Box<Linux>>,
    /// The application that the processes run, if they are not described and not recorded.
    application: Option<Box<Running>>,
    has_journal: bool,
}

impl Host {
    /// Figures of the run so far. Those of a task that has not ended cover the time until now.
    pub fn figures(&self) -> HostFigures {
        let start = self.task_start.as_ref().unwrap_or(&self.accounts);
        let end = self.task_end.as_ref().unwrap_or(&self.accounts);
        let sum = |of: fn(&CpuTimes) -> Duration| -> Duration {
            let times = end.cpus.iter().zip(&start.cpus).map(|(end, start)| of(end) - of(start));
            times.fold(Duration::ZERO, Duration::saturating_add)
        };
        HostFigures {
            is_finished: self.task_end.is_some(),
            cpus: self.settings.cpus,
            elapsed: end.until - start.until,
            task_cpu: sum(|cpu| cpu.task),
            other_cpu: sum(|cpu| cpu.other),
            false_idle: sum(|cpu| cpu.false_idle),
            idle: sum(|cpu| cpu.idle),
            interrupts: end.interrupts - start.interrupts,
            context_switches: end.context_switches - start.context_switches,
            io_waits: end.io_waits - start.io_waits,
            io_wait: end.io_wait - start.io_wait,
            time_critical: self.time_critical,
            time_limited: self.time_limited,
            time_noncritical: self.time_noncritical,
            unneeded_read_ahead_blocks: self.cache.unneeded(),
            turned_critical: self.turned_critical,
            failed_requests: self.failed_requests,
            failed_processes: self.failed_processes,
        }
    }

    /// Times of each CPU during the lifetime of the task.
    pub fn cpu_times(&self) -> Vec<CpuTimes> {
        let start = self.task_start.as_ref().unwrap_or(&self.accounts);
        let end = self.task_end.as_ref().unwrap_or(&self.accounts);
        let times = end.cpus.iter().zip(&start.cpus).map(|(end, start)| CpuTimes {
            task: end.task - start.task,
            other: end.other - start.other,
            false_idle: end.false_idle - start.false_idle,
            idle: end.idle - start.idle,
        });
        times.collect()
    }

    /// The profile whose settings apply.
    pub const fn profile(&self) -> Profile {
        if self.linux.is_some() { Profile::Linux } else { Profile::Svr4 }
    }

    /// The course of the run so far, in intervals of equal length.
    pub fn timeline(&self) -> Vec<HostInterval> {
        self.timeline.intervals(self.accounts.until)
    }

    /// Start and end of the task, each `None` if it has not happened.
    pub fn task_span(&self) -> (Option<Instant>, Option<Instant>) {
        let until = |accounts: &Option<Accounts>| accounts.as_ref().map(|accounts| accounts.until);
        (until(&self.task_start), until(&self.task_end))
    }

    /// The phases of an application so far; the last may still run.
    pub fn phases(&self) -> &[Phase] {
        self.application.as_ref().map_or(&[], |running| &running.phases)
    }

    /// Returns true if an application ended early because the device was too small for its files.
    pub fn is_full(&self) -> bool {
        self.application.as_ref().is_some_and(|running| running.is_full)
    }

    /// Number of transactions that an application has committed: their log records are durable.
    pub fn commits(&self) -> u64 {
        self.application.as_ref().map_or(0, |running| running.commits)
    }

    /// Names of the kinds of processes of an application.
    pub fn kinds(&self) -> &'static [&'static str] {
        self.application.as_ref().map_or(&[], |running| running.application.kinds())
    }

    /// Notifies the host that one of its requests is complete. Work that becomes possible is done when the host is next queried.
    /// The processes of an application go on after a request that failed.
    ///
    /// # Panics
    /// If the request is not outstanding.
    pub fn complete(&mut self, id: RequestId, is_ok: bool, response: Duration) {
        let number = id.0;
        let request = self.requests.get_mut(number).expect("an outstanding request completes");
        request.is_complete = true;
        let request_initiator = request.initiator;
        let figures = match request.class {
            Criticality::TimeCritical => &mut self.time_critical,
            Criticality::TimeLimited => &mut self.time_limited,
            Criticality::TimeNoncritical => &mut self.time_noncritical,
        };
        figures.complete(response);
        self.failed_requests += u64::from(!is_ok);
        // A journal goes on: what its requests fail to write is lost, as after an error of the kernel's.
        let is_journal = self.has_journal && request_initiator == JOURNAL;
        self.completions.push((number, is_ok || is_journal || self.application.is_some()));
    }

    /// Handles every event until `now`.
    fn advance(&mut self, now: Instant) {
        self.account(now);
        self.now = now;
        loop {
            // The handler that is pushed last runs first: that of the first completion.
            if let Some((request, is_ok)) = self.completions.pop() {
                self.interrupt(Work::Complete { request, is_ok });
            } else if self.timers.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
                let Some(Reverse((.., pid))) = self.timers.pop() else { unreachable!("it was just there") };
                self.start_or_wake(pid);
                self.place();
            } else if self.throttle_window().is_some_and(|end| end <= now) {
                self.end_throttle_window();
                self.place();
            } else if self.syncer.due <= now {
                self.begin_sweep();
                self.place();
            } else if self.commit_due().is_some_and(|due| due <= now) {
                self.request_commit();
                self.place();
            } else if let Some(due) = self.clock.filter(|due| *due <= now) {
                self.clock = Some(due + self.settings.clock_interval);
                self.interrupt(Work::Clock);
            } else if let Some(cpu) = self.due_cpu() {
                self.end_of_work(cpu);
            } else {
                return;
            }
        }
    }

    /// The CPU whose computing time is over, the one that began first if there are several.
    fn due_cpu(&self) -> Option<usize> {
        let is_due = |cpu: &Cpu| cpu.due.is_some_and(|due| due <= self.now);
        let due = self.cpus.iter().enumerate().filter(|(_, cpu)| is_due(cpu));
        due.min_by_key(|(_, cpu)| (cpu.due, cpu.order)).map(|(index, _)| index)
    }

    /// Adds the time until `now` to the accounts.
    fn account(&mut self, now: Instant) {
        let time = now - self.accounts.until;
        if time.is_zero() {
            return;
        }
        self.instant_statements = 0;
        let idle = self.cpus.iter().filter(|cpu| cpu.current() == Use::Idle).count() as u64;
        let is_false = self.waiting_for_io >= idle;
        let mut levels = Levels {
            io_waiting: self.waiting_for_io,
            outstanding: self.requests.len() as u64,
            ..Levels::default()
        };
        for (cpu, times) in self.cpus.iter().zip(&mut self.accounts.cpus) {
            let (sum, level) = match cpu.current() {
                Use::Process(pid) if self.processes[pid as usize].is_task => {
                    (&mut times.task, &mut levels.task)
                }
                Use::Process(_) | Use::System => (&mut times.other, &mut levels.other),
                Use::Idle if is_false => (&mut times.false_idle, &mut levels.false_idle),
                Use::Idle => (&mut times.idle, &mut levels.idle),
            };
            *sum += time;
            *level += 1;
        }
        self.timeline.add(self.accounts.until, now, levels);
        self.accounts.until = now;
    }

    /// Returns true if nothing is left to do.
    fn is_finished(&self) -> bool {
        self.alive == 0
            && self.requests.is_empty()
            && self.cache.dirty_count() == 0
            && self.completions.is_empty()
    }

    /// Time of the next event.
    fn next_event(&self) -> Instant {
        let cpus = self.cpus.iter().filter_map(|cpu| cpu.due);
        let timer = self.timers.peek().map(|Reverse((due, ..))| *due);
        let window = self.throttle_window();
        cpus.chain(timer)
            .chain(self.clock)
            .chain(window)
            .chain(self.commit_due())
            .chain([self.syncer.due])
            .min()
            .expect("the syncer has a time, if a late one")
    }

    /// Wakes a process after that time.
    fn set_timer(&mut self, time: Duration, pid: u32) {
        let due = self.now + time.min(HORIZON);
        self.timers.push(Reverse((due, self.timers_set, pid)));
        self.timers_set += 1;
    }
}

impl Workload for Host {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if let Some(arrival) = self.arrivals.pop_front() {
            return arrival;
        }
        self.advance(now);
        match self.arrivals.pop_front() {
            Some(arrival) => arrival,
            None if self.is_finished() || self.is_deadlocked() => Arrival::Finished,
            None => match self.next_event() {
                late if late > Instant::ZERO + HORIZON => {
                    if self.requests.is_empty() {
                        Arrival::Finished
                    } else {
                        Arrival::WaitForCompletion
                    }
                }
                next => Arrival::At(next),
            },
        }
    }

    fn completed(&mut self, completion: &Completion) {
        let is_ok = completion.outcome.status.is_success();
        self.complete(completion.request.id, is_ok, completion.response_time());
    }
}
