//! Applications on a file system, as workloads: PostMark, a build, a database.
//!
//! ```text
//! program ──operations──▶ file system + page cache ──plan──▶ process ──requests──▶ device
//!    ▲                                                          │ ▲
//!    └──────────── queried again when the plan is done ─────────┘ └── completions ──┘
//! ```
//! Each process alternates between computing and waiting. Its next action depends on completions, so a faster
//! device brings later requests forward, as with a real application. An [`Application`] is a [`Workload`]:
//! the simulator drives it in model time, and a runner against the wall clock drives the emulator with the
//! same requests in the same dependencies.
//!
//! An application consists of phases. Each has a name, a start and an end. If a phase ends with an unmount,
//! everything is written back and the caches are empty afterwards, as in [Griffin 2004, chapter 6].
//!
//! # Scope and limits
//! - No data: a runner that drives a real device generates the data and checks it.
//! - Requests that touch the same pages are never outstanding together if one of them changes the pages;
//!   the later one waits, as pages under write-back are locked by a kernel. If a process waits for a background request in
//!   this way, the request becomes time-critical.
//! - Processes do not compete for processors: each has one of its own.
//! - The file system's own limits are on its page.
//!
//! # References
//! J. Katcher, PostMark: A New File System Benchmark, NetApp TR3022, 1997. J. L. Griffin, Timing-accurate
//! storage emulation, CMU, 2004, chapter 6. `docs/models/applications.md` compares with real programs.

mod build;
mod cache;
mod database;
mod filesystem;
mod plan;
mod postmark;
mod process;

use std::collections::{BTreeMap, VecDeque};

use seeklab_core::{
    Arrival, Completion, Criticality, DescriptionError, Duration, Instant, Mistake, Operation,
    Reclassification, Request, RequestId, Seed, Workload,
};

pub use self::build::BuildSpec;
pub use self::database::DatabaseSpec;
pub use self::filesystem::Mount;
pub use self::postmark::PostmarkSpec;

use self::filesystem::{CAPACITY_PAGES_MAX, CAPACITY_PAGES_MIN, FileSystem, Full, WAKE_UP};
use self::plan::{Io, PAGE_BYTES};
use self::process::{Process, Step};
use crate::spec::WorkloadSpec;
use crate::synthetic::AddressSpace;

/// An application, as it is described.
#[derive(Debug, Clone, PartialEq)]
pub enum Builtin {
    /// PostMark's transactions on small files.
    Postmark(PostmarkSpec),
    /// Unpacking, configuring and building a source package.
    Build(BuildSpec),
    /// Transactions of several clients of a database.
    Database(DatabaseSpec),
}

impl Builtin {
    /// Reads the one-line form, such as `postmark,files=500,transactions=2000`; its grammar is that of
    /// [`text`](crate::text).
    ///
    /// # Errors
    /// [`DescriptionError`] names the key, the mistake and what would be right.
    pub fn parse(line: &str) -> Result<Self, DescriptionError> {
        WorkloadSpec::parse(line)?.builtin().ok_or_else(|| {
            DescriptionError::new(Mistake::UnknownName, "", format!("`{line}` is not an application"))
                .hint("write `postmark`, `build` or `database`")
        })
    }

    /// Returns true if it commits transactions, each of which promises that what it wrote is durable.
    pub const fn commits(&self) -> bool {
        matches!(self, Self::Database(_))
    }

    /// Its name on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Postmark(_) => "postmark",
            Self::Build(_) => "build",
            Self::Database(_) => "database",
        }
    }

    fn host(&self) -> (Mount, u64, bool) {
        match self {
            Self::Postmark(spec) => (spec.mount, spec.cache.as_bytes(), spec.discard),
            Self::Build(spec) => (spec.mount, spec.cache.as_bytes(), false),
            // The page cache only serves the file system's own blocks: pages of the database bypass it.
            Self::Database(_) => (Mount::Journal, 16 << 20, false),
        }
    }

    fn scenario(&self, seed: Seed) -> Result<Box<dyn Scenario>, DescriptionError> {
        Ok(match self {
            Self::Postmark(spec) => Box::new(postmark::Postmark::new(spec, seed)?),
            Self::Build(spec) => Box::new(build::Build::new(spec, seed)?),
            Self::Database(spec) => Box::new(database::Database::new(spec, seed)?),
        })
    }
}

/// A count times a scale, at least one.
fn scaled(count: u64, scale: f64) -> u64 {
    ((count as f64 * scale).round() as u64).max(1)
}

fn check_scale(scale: f64) -> Result<(), DescriptionError> {
    if scale.is_finite() && scale > 0.0 && scale <= 1e6 {
        return Ok(());
    }
    Err(DescriptionError::invalid("scale", format!("`{scale}` is out of range"))
        .hint("a scale lies above 0, for example 0.5 for half as much"))
}

/// The operations of a process. Queried for the next operation whenever the last is done.
trait Program: std::fmt::Debug {
    /// Adds the next operation to the system's plan; `false` if there was none left.
    fn step(&mut self, system: &mut FileSystem) -> Result<bool, Full>;
}

/// The phases of an application.
trait Scenario: std::fmt::Debug {
    /// The next phase, or `None` after the last.
    fn phase(&mut self, index: usize) -> Option<Setting>;
}

/// A phase before it runs.
struct Setting {
    name: &'static str,
    programs: Vec<Box<dyn Program>>,
    /// True if the file system is unmounted at the end of the phase.
    unmounts: bool,
}

/// A part of an application's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// Start of the phase.
    pub start: Instant,
    /// Time at which the last process of the phase was done.
    pub end: Option<Instant>,
    /// Time at which everything was written back, if the phase ends with an unmount.
    pub unmounted: Option<Instant>,
    /// Operations done: transactions, files, or what else the phase is about.
    pub operations: u64,
    /// Requests made, those of write-back included.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Phase {
    /// From its start to the end of its last process, without the unmount.
    pub fn elapsed(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_since(self.start))
    }
}

/// An application that runs.
#[derive(Debug)]
pub struct Application {
    system: FileSystem,
    scenario: Box<dyn Scenario>,
    processes: Vec<Process>,
    /// Writes back, commits and unmounts.
    daemon: Process,
    next_wake_up: Instant,
    stage: Progress,
    unmounts: bool,
    phases: Vec<Phase>,
    /// Requests that may be issued, in order.
    ready: VecDeque<(Io, Owner)>,
    /// Requests in `ready` that a process waits for.
    ready_awaited: usize,
    outstanding: BTreeMap<u64, Outstanding>,
    group: GroupCommit,
    requests: u64,
    /// Transactions whose log record is durable.
    commits: u64,
    blocks_per_page: u64,
    is_full: bool,
}

/// Requests that a host hands to a device at a time: Linux's default for `nr_requests`.
const OUTSTANDING_MAX: usize = 128;

/// Processes that wait for their log records.
#[derive(Debug, Default)]
struct GroupCommit {
    leader: Option<usize>,
    /// Clients whose records the leader is writing.
    members: Vec<usize>,
    waiting: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Between,
    Running,
    Unmounting,
    Finished,
}

/// A request that the device holds.
#[derive(Debug)]
struct Outstanding {
    io: Io,
    owner: Owner,
    /// A process waits for it, though nobody did when it was issued.
    is_needed: bool,
}

/// Owner of a request, who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Process(usize),
    Daemon,
    Nobody,
}

impl Application {
    /// The application on an empty file system over the whole of `target`, but at most 1 TiB.
    ///
    /// # Errors
    /// A value out of range, or a device that is too small or whose blocks are too large.
    pub fn new(builtin: &Builtin, target: AddressSpace, seed: Seed) -> Result<Self, DescriptionError> {
        let block_bytes = target.block_size.as_bytes();
        let unfit = |problem: String, hint: &str| {
            Err(DescriptionError::new(Mistake::DoesNotFit, "", problem).hint(hint.to_owned()))
        };
        if !PAGE_BYTES.is_multiple_of(block_bytes) {
            let problem = format!("blocks of {} do not divide pages of 4 KiB", target.block_size);
            return unfit(problem, "choose a device with blocks of 512 B to 4 KiB");
        }
        let blocks_per_page = PAGE_BYTES / block_bytes;
        let pages = (target.capacity_blocks / blocks_per_page).min(CAPACITY_PAGES_MAX);
        if pages < CAPACITY_PAGES_MIN {
            let problem = format!("a device of {} blocks holds no file system", target.capacity_blocks);
            return unfit(problem, "choose a device of at least 8 MiB");
        }
        let (mount, cache_bytes, discards) = builtin.host();
        if cache_bytes < 64 * PAGE_BYTES {
            return Err(DescriptionError::invalid("cache", "is too small").hint("write at least `256KiB`"));
        }
        let scenario = builtin.scenario(seed)?;
        let cache_pages = (cache_bytes / PAGE_BYTES) as usize;
        let stream = seed.stream("application.directories");
        let Ok(system) = FileSystem::new(mount, pages, cache_pages, discards, stream) else {
            return unfit("the journal does not fit".to_owned(), "choose a larger device");
        };
        Ok(Self {
            system,
            scenario,
            processes: Vec::new(),
            daemon: Process::new(),
            next_wake_up: Instant::ZERO + WAKE_UP,
            stage: Progress::Between,
            unmounts: false,
            phases: Vec::new(),
            ready: VecDeque::new(),
            ready_awaited: 0,
            outstanding: BTreeMap::new(),
            group: GroupCommit::default(),
            requests: 0,
            commits: 0,
            blocks_per_page,
            is_full: false,
        })
    }

    /// The phases so far; the last may still run.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Returns true if the application ended early because the device was too small for its files.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Number of transactions that were committed: their log records were flushed.
    pub const fn commits(&self) -> u64 {
        self.commits
    }

    /// Lookups in the page cache that found their page, and those that did not.
    pub const fn cache_lookups(&self) -> (u64, u64) {
        self.system.lookups()
    }

    /// Notifies the application that one of its requests is complete. Work that becomes possible is done
    /// when the application is next queried.
    ///
    /// # Panics
    /// If the request is not outstanding.
    pub fn complete(&mut self, id: RequestId) {
        let outstanding = self.outstanding.remove(&id.0).expect("an outstanding request completes");
        match outstanding.owner {
            Owner::Process(index) => self.processes[index].arrived(),
            Owner::Daemon => self.daemon.arrived(),
            Owner::Nobody => {}
        }
    }

    /// The next request that may be issued: one that conflicts with none outstanding or before it.
    fn dispatch(&mut self) -> Option<Request> {
        if self.outstanding.len() >= OUTSTANDING_MAX {
            return None;
        }
        let is_free = |index: usize| {
            let io = &self.ready[index].0;
            !self.outstanding.values().any(|other| io.conflicts(&other.io))
                && !self.ready.iter().take(index).any(|(other, _)| io.conflicts(other))
        };
        let index = (0..self.ready.len()).find(|index| is_free(*index))?;
        let (io, owner) = self.ready.remove(index).expect("it was just found");
        self.ready_awaited -= usize::from(matches!(owner, Owner::Process(_)));
        let id = self.requests;
        self.requests += 1;
        self.outstanding.insert(id, Outstanding { io, owner, is_needed: false });
        let phase = self.phases.last_mut().expect("requests are made in phases");
        phase.requests += 1;
        let bytes = u64::from(io.pages) * PAGE_BYTES;
        match io.op {
            Operation::Read => phase.read_bytes += bytes,
            Operation::Write => phase.written_bytes += bytes,
            _ => {}
        }
        let blocks = u64::from(io.pages) * self.blocks_per_page;
        let request = Request::new(id, io.op, io.page * self.blocks_per_page, blocks as u32);
        let (initiator, criticality) = match owner {
            Owner::Process(index) => (index as u32 + 1, Criticality::TimeCritical),
            Owner::Daemon | Owner::Nobody => (0, Criticality::TimeNoncritical),
        };
        Some(Request { fua: io.fua, initiator, criticality, ..request })
    }

    /// A background request for which a process has begun to wait: a request of the process touches the same pages.
    fn reclassify(&mut self) -> Option<Reclassification> {
        if self.ready_awaited == 0 {
            return None;
        }
        let of_processes = self.ready.iter().filter(|(_, owner)| matches!(owner, Owner::Process(_)));
        for (io, _) in of_processes {
            let is_news = |other: &Outstanding| {
                !other.is_needed && !matches!(other.owner, Owner::Process(_)) && io.conflicts(&other.io)
            };
            if let Some((id, other)) = self.outstanding.iter_mut().find(|(_, other)| is_news(other)) {
                other.is_needed = true;
                let criticality = Criticality::TimeCritical;
                return Some(Reclassification { id: RequestId(*id), device: 0, criticality });
            }
        }
        None
    }

    /// Lets everything that can go on go on; whether anything did.
    fn advance(&mut self, now: Instant) -> bool {
        self.system.now = now;
        match self.stage {
            Progress::Finished => false,
            Progress::Between => {
                self.begin(now);
                true
            }
            Progress::Unmounting => {
                let moved = self.advance_daemon(now);
                if self.daemon.is_idle() && self.outstanding.is_empty() && self.ready.is_empty() {
                    self.system.drop_caches();
                    self.phases.last_mut().expect("a phase ran").unmounted = Some(now);
                    self.stage = Progress::Between;
                    return true;
                }
                moved
            }
            Progress::Running => {
                let mut moved = false;
                for index in 0..self.processes.len() {
                    moved |= self.advance_process(index, now);
                }
                moved |= self.advance_daemon(now);
                if self.processes.iter().all(Process::is_done) {
                    self.end(now);
                    return true;
                }
                moved
            }
        }
    }

    fn begin(&mut self, now: Instant) {
        let Some(Setting { name, programs, unmounts }) = self.scenario.phase(self.phases.len()) else {
            self.stage = Progress::Finished;
            return;
        };
        self.unmounts = unmounts;
        self.processes = programs.into_iter().map(Process::running).collect();
        self.phases.push(Phase {
            name,
            start: now,
            end: None,
            unmounted: None,
            operations: 0,
            requests: 0,
            read_bytes: 0,
            written_bytes: 0,
        });
        self.stage = Progress::Running;
    }

    fn end(&mut self, now: Instant) {
        self.phases.last_mut().expect("a phase ran").end = Some(now);
        self.stage = Progress::Between;
        if self.is_full {
            self.stage = Progress::Finished;
        } else if self.unmounts {
            self.stage = Progress::Unmounting;
            self.system.sync();
            let plan = self.system.plan.take();
            self.daemon.then(plan);
        }
    }

    fn advance_daemon(&mut self, now: Instant) -> bool {
        let is_time = now >= self.next_wake_up;
        let is_due = is_time || self.system.is_above(10);
        if self.stage == Progress::Running && self.daemon.is_idle() && is_due {
            self.system.wake_up(is_time);
            let plan = self.system.plan.take();
            self.daemon.then(plan);
        }
        if is_time {
            let missed = now.saturating_since(self.next_wake_up).as_ns() / WAKE_UP.as_ns();
            self.next_wake_up += WAKE_UP * (missed + 1);
        }
        let mut moved = false;
        while let Some(step) = self.daemon.next(now) {
            moved = true;
            self.carry_out(step, Owner::Daemon);
        }
        moved
    }

    fn advance_process(&mut self, index: usize, now: Instant) -> bool {
        let mut moved = false;
        loop {
            while let Some(step) = self.processes[index].next(now) {
                moved = true;
                self.carry_out(step, Owner::Process(index));
            }
            if !self.processes[index].is_idle() {
                return moved;
            }
            let Some(mut program) = self.processes[index].take_program() else { return moved };
            match program.step(&mut self.system) {
                Ok(true) => self.processes[index].give_back(program),
                Ok(false) => {}
                Err(Full) => self.is_full = true,
            }
            let plan = self.system.plan.take();
            self.processes[index].then(plan);
            moved = true;
        }
    }

    fn carry_out(&mut self, step: Step, owner: Owner) {
        match step {
            Step::Issue { ios, is_waited_for } => {
                let owner = if is_waited_for { owner } else { Owner::Nobody };
                let is_awaited = matches!(owner, Owner::Process(_));
                self.ready_awaited += if is_awaited { ios.len() } else { 0 };
                self.ready.extend(ios.into_iter().map(|io| (io, owner)));
            }
            Step::Operation => self.phases.last_mut().expect("a phase runs").operations += 1,
            Step::Commit(pages) => {
                let Owner::Process(index) = owner else { unreachable!("the daemon has no log") };
                self.system.log(pages);
                self.group.waiting.push(index);
                self.lead();
            }
            Step::Committed => {
                self.group.leader = None;
                self.commits += 1 + self.group.members.len() as u64;
                for member in std::mem::take(&mut self.group.members) {
                    self.processes[member].released();
                }
                self.lead();
            }
        }
    }

    /// Makes the first that waits write the log for all that wait, unless one is writing.
    fn lead(&mut self) {
        if self.group.leader.is_some() || self.group.waiting.is_empty() {
            return;
        }
        self.group.members = std::mem::take(&mut self.group.waiting);
        let leader = self.group.members.remove(0);
        self.group.leader = Some(leader);
        self.system.write_log();
        let plan = self.system.plan.take();
        self.processes[leader].lead(plan);
    }

    /// Returns the time of the next event that needs no completion.
    fn next_time(&self) -> Option<Instant> {
        let wake_up = (self.stage == Progress::Running).then_some(self.next_wake_up);
        let busy = self.processes.iter().filter_map(Process::busy_until);
        busy.chain(wake_up).min()
    }
}

impl Workload for Application {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        loop {
            if let Some(request) = self.dispatch() {
                return Arrival::Request(request);
            }
            if let Some(change) = self.reclassify() {
                return Arrival::Reclassification(change);
            }
            if !self.advance(now) {
                break;
            }
        }
        match self.next_time() {
            Some(time) => Arrival::At(time),
            None if self.outstanding.is_empty() => Arrival::Finished,
            None => Arrival::WaitForCompletion,
        }
    }

    fn completed(&mut self, completion: &Completion) {
        self.complete(completion.request.id);
    }
}
