//! Processes: their state, and their place in a program.

use seeklab_core::{Duration, Instant};

use super::action::{Acting, Plan};
use super::channel::Piped;
use super::linux::Writer;
use super::list::{List, NONE};
use super::program::{Instruction, Mode};
use super::recorded::RecordedAction;

/// Definition of a process, from which copies start.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) program: Vec<Instruction>,
    pub(super) is_task: bool,
}

/// Reason why a process does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// A read by the device.
    Read,
    /// A write by the device.
    Write,
    /// A frame that is free or clean.
    Memory,
    /// Fewer dirty blocks.
    DirtyLimit,
    /// Another process: its progress, a lock or a pipe.
    Process,
    Children,
    /// A time. Of the system's own processes: work.
    Time,
}

impl Wait {
    /// Returns true if the wait ends with a request of the device.
    pub(super) const fn is_io(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Memory | Self::DirtyLimit)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// On that CPU.
    Running(u32),
    Waiting(Wait),
    Ended,
}

/// Priority of a process that is ready. A smaller one runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The syncer. Of Linux: threads of the kernel that have not used up a time slice since they last waited.
    System,
    /// Processes that have not used up a time slice since they last waited.
    Awakened,
    /// Processes that have used up a time slice.
    Expired,
}

impl Level {
    pub(super) const ALL: [Self; 3] = [Self::System, Self::Awakened, Self::Expired];
}

/// A process.
#[derive(Debug, Clone)]
pub(super) struct Process {
    /// Number of its definition, [`NONE`] for the syncer.
    pub(super) definition: u32,
    pub(super) state: State,
    pub(super) level: Level,
    /// True of threads of the system. They have the level `System` when they wake up.
    pub(super) is_system: bool,
    pub(super) activity: Activity,
    /// Number of the next instruction.
    pub(super) next: u32,
    /// Repetitions left in each open loop, the innermost last.
    pub(super) loops: Vec<u64>,
    /// Byte at which the next transfer of each file begins.
    pub(super) places: Vec<u64>,
    /// Computing time until the next event of the process.
    pub(super) remaining: Duration,
    /// Time left in the time slice.
    pub(super) slice: Duration,
    pub(super) is_task: bool,
    pub(super) parent: u32,
    pub(super) children: u32,
    /// Frame whose read it waited for and that it holds until it has run, or [`NONE`].
    pub(super) held: u32,
    /// True if one of its requests failed.
    pub(super) is_failed: bool,
    /// Requests past the page cache that the device has, and true if the last one was a read.
    pub(super) outstanding: u32,
    pub(super) reads: bool,
    /// Of Linux: what it has dirtied.
    pub(super) writer: Writer,
    /// Of an application: the actions that it has yet to do, the number that it was forked with, and true if it ends after them.
    pub(super) plan: Plan,
    pub(super) instance: u32,
    pub(super) is_ending: bool,
    /// True if it waits for another process, or if another process has let it go on before.
    pub(super) is_parked: bool,
    pub(super) is_unparked: bool,
    /// Start of the process. `None` if it has not started.
    pub(super) started: Option<Instant>,
    /// Start of the current state.
    pub(super) since: Instant,
    /// CPU time in the current state.
    pub(super) computed: Duration,
}

impl Process {
    pub(super) const fn new(definition: u32, level: Level) -> Self {
        Self {
            definition,
            state: State::Waiting(Wait::Time),
            level,
            is_system: matches!(level, Level::System),
            activity: Activity::Fetch,
            next: 0,
            loops: Vec::new(),
            places: Vec::new(),
            remaining: Duration::ZERO,
            slice: Duration::ZERO,
            is_task: false,
            parent: NONE,
            children: 0,
            held: NONE,
            is_failed: false,
            outstanding: 0,
            reads: false,
            writer: Writer::new(),
            plan: Plan::new(),
            instance: 0,
            is_ending: false,
            is_parked: false,
            is_unparked: false,
            started: None,
            since: Instant::ZERO,
            computed: Duration::ZERO,
        }
    }

    /// Begins anew, in the memory of a process that has ended.
    pub(super) fn begin(&mut self, definition: u32, files: usize, is_task: bool, parent: u32) {
        let (mut loops, mut places) = (std::mem::take(&mut self.loops), std::mem::take(&mut self.places));
        let mut plan = std::mem::take(&mut self.plan);
        plan.clear();
        loops.clear();
        places.clear();
        places.resize(files, 0);
        *self = Self { loops, places, plan, is_task, parent, ..Self::new(definition, Level::Awakened) };
    }
}

/// Current activity of a process, between two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// Goes on with the next instruction.
    Fetch,
    /// A transfer through the page cache.
    Cached(Cached),
    /// A transfer past the page cache.
    Direct(Direct),
    /// Writing what is dirty.
    Sync(Sync),
    /// Starting a child of that definition.
    Fork(u32),
    /// Waiting for children.
    Wait,
    /// Taking the lock of that number.
    Lock(u32),
    /// Giving the lock of that number back.
    Unlock(u32),
    /// A transfer through a pipe.
    Pipe(Piped),
    /// The syncer at its work.
    Sweep(Sweep),
    /// The flusher at its work.
    Flush,
    /// An action on Linux.
    Recorded(Recorded),
    /// An action of an application.
    Acting(Acting),
}

impl Activity {
    /// An action on Linux, from its beginning.
    pub(super) const fn linux(action: RecordedAction) -> Self {
        Self::Recorded(Recorded { action, position: 0, then_sync: None })
    }
}

/// A transfer through the page cache, block by block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cached {
    pub(super) file: u32,
    pub(super) writes: bool,
    pub(super) mode: Mode,
    /// First byte, and the byte after the last.
    pub(super) start: u64,
    pub(super) end: u64,
    /// True if it begins where the last transfer ended.
    pub(super) is_sequential: bool,
    /// The current block of the file.
    pub(super) block: u64,
    pub(super) frame: u32,
    /// The next block to read in advance, and its frame.
    pub(super) ahead: u64,
    pub(super) ahead_frame: u32,
    pub(super) phase: Phase,
}

/// Step of a transfer of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Lookup,
    /// The CPU time to submit a read is over.
    SubmitRead,
    ReadAhead,
    SubmitReadAhead,
    AwaitRead,
    /// The block is in memory and changed.
    Changed,
    SubmitWrite,
    AwaitWrite,
    Throttle,
}

/// A transfer past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Direct {
    pub(super) file: u32,
    pub(super) writes: bool,
    pub(super) is_async: bool,
    /// The next byte, and the byte after the last.
    pub(super) start: u64,
    pub(super) end: u64,
    /// True if the CPU time to submit the next request is over.
    pub(super) is_submitting: bool,
}

/// Writing what is dirty of a file, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sync {
    pub(super) file: Option<u32>,
    /// The frame whose write is being submitted.
    pub(super) frame: u32,
}

/// Work of the syncer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sweep {
    /// The frame whose write is being submitted.
    pub(super) frame: u32,
}

/// An action on Linux, such as a step of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) action: RecordedAction,
    /// Progress within the action.
    pub(super) position: u64,
    /// The file to synchronise after the action.
    pub(super) then_sync: Option<u32>,
}

/// Result of a step of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It computes.
    Compute(Duration),
    /// It waits.
    Wait(Wait),
    /// It goes on at once.
    Continue,
    End,
}

/// Lists of processes that wait for the same thing.
#[derive(Debug, Clone)]
pub(super) struct WaitLists {
    /// Ready processes by level.
    pub(super) ready: [List; 3],
    /// Processes that wait for a free frame.
    pub(super) memory: List,
    /// Processes that wait for fewer dirty blocks.
    pub(super) throttled: List,
}

impl WaitLists {
    pub(super) const fn new() -> Self {
        Self { ready: [List::EMPTY; 3], memory: List::EMPTY, throttled: List::EMPTY }
    }
}
