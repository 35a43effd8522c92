//! Typed events of a host: the input of the post-processor.
//!
//! An event names its time, its processor, and the thread and context in which the kernel recorded it. Events are
//! decoded from the kernel's records (`capture/system`) or from text; both give the same types.

use seeklab_core::ProcessName;

use super::cause::StackCause;
use super::names::names;
use crate::event::block_event::BlockEvent;

/// An event of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemEvent {
    /// Time, in nanoseconds of the clock of the trace.
    pub time_ns: u64,
    /// Processor that recorded the event.
    pub cpu: u16,
    /// Thread that was current on the processor; 0 for the idle thread.
    pub thread: u32,
    /// Context in which the processor recorded the event.
    pub context: Context,
    /// Content of the event.
    pub kind: EventKind,
}

/// Context of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The current thread.
    Process,
    /// A softirq.
    Softirq,
    /// A hardware interrupt.
    Interrupt,
}

/// State in which a thread leaves its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Preempted, or gave the processor away: it can go on.
    Runnable,
    /// Waits and can be interrupted by a signal.
    Interruptible,
    /// Waits and cannot be interrupted by a signal, or only by a fatal one.
    Uninterruptible,
    /// Stopped or traced.
    Stopped,
    /// Idle or parked kernel thread.
    Idle,
    /// Ended.
    Ended,
}

names! {
    /// Source of an interrupt.
    pub enum InterruptSource {
        /// Handler of a device's interrupt.
        Device = "device",
        /// Deferred work of interrupts.
        Softirq = "softirq",
        /// Timer of the processor.
        LocalTimer = "local_timer",
        /// Another processor requests a scheduling decision.
        Reschedule = "reschedule",
        /// Another processor requests a function call.
        CallFunction = "call_function",
        /// Work that the processor requested of itself.
        IrqWork = "irq_work",
    }
}

names! {
    /// Reason for which the kernel writes dirty files back.
    pub enum WritebackReason {
        /// More is dirty than the background limit.
        Background = "background",
        /// Memory is short.
        Memory = "memory",
        /// A synchronisation.
        Sync = "sync",
        /// Files that have been dirty for long.
        Periodic = "periodic",
        /// Something else.
        Other = "other",
    }
}

/// Number of the softirqs that run timers.
pub(crate) const TIMER_SOFTIRQS: [u16; 2] = [1, 8];

/// Work of a kernel worker thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The loop driver's work: it emulates a device.
    LoopDevice,
    /// Other work.
    Other,
}

/// Range of a file that was accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    /// Device of the file system: the major number above 20 bits of minor.
    pub device: u32,
    /// Inode of the file.
    pub inode: u64,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u64,
}

/// Blocks of a file on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileExtent {
    /// Device of the file system.
    pub device: u32,
    /// Inode of the file.
    pub inode: u64,
    /// First block within the file.
    pub file_block: u64,
    /// First block within the file system.
    pub device_block: u64,
    /// Number of blocks.
    pub blocks: u32,
}

/// Something that happened to a request of the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockStep {
    /// The whole device: the major number above 20 bits of minor.
    pub device: u32,
    pub(crate) event: BlockEvent,
}

impl EventKind {
    /// Returns the name of the kind in documents.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Switch { .. } => "switch",
            Self::Waking { .. } => "waking",
            Self::Wakeup { .. } => "wakeup",
            Self::Fork { .. } => "fork",
            Self::Exec { .. } => "exec",
            Self::Stack(_) => "stack",
            Self::CallEnter { .. } => "call_enter",
            Self::CallExit { .. } => "call_exit",
            Self::InterruptEnter { .. } => "interrupt_enter",
            Self::InterruptExit { .. } => "interrupt_exit",
            Self::FileRead(_) => "file_read",
            Self::FileFault(_) => "file_fault",
            Self::FileWrite(_) => "file_write",
            Self::Direct { .. } => "direct",
            Self::FileDelete { .. } => "file_delete",
            Self::FileSync { .. } => "file_sync",
            Self::Submit { writes: false, .. } => "device_read",
            Self::Submit { writes: true, .. } => "device_write",
            Self::Buffer { is_dirtied: false, .. } => "buffer_read",
            Self::Buffer { is_dirtied: true, .. } => "buffer_write",
            Self::Throttle => "throttle",
            Self::Commit { .. } => "commit",
            Self::Change { .. } => "journal_change",
            Self::Writeback { .. } => "writeback",
            Self::Extent(_) => "extent",
            Self::WorkStart(_) | Self::WorkEnd => "work",
            Self::Block(_) => "block",
            Self::Lost { .. } => "lost",
        }
    }
}

/// Content of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The processor continues with another thread.
    Switch {
        /// Thread that leaves the processor.
        previous: u32,
        /// State of that thread.
        state: RunState,
        /// Thread that gets the processor.
        next: u32,
        /// Name of that thread.
        next_name: ProcessName,
    },
    /// A thread begins to be woken.
    Waking {
        /// The woken thread.
        thread: u32,
    },
    /// A thread is in a run queue again.
    Wakeup {
        /// The woken thread.
        thread: u32,
    },
    /// The current thread made a thread.
    Fork {
        /// The new thread.
        child: u32,
        /// True if the new thread belongs to the process of its maker.
        is_thread: bool,
    },
    /// The current thread executes another program.
    Exec {
        /// Name of the program.
        name: ProcessName,
    },
    /// Cause of the wait that the current thread has just begun, from its call stack.
    Stack(StackCause),
    /// The current thread calls the system.
    CallEnter {
        /// Number of the system call.
        call: u16,
        /// First four arguments.
        arguments: [u64; 4],
    },
    /// A system call returns.
    CallExit {
        /// Number of the system call.
        call: u16,
        /// Its result: negative for an error.
        result: i64,
    },
    /// An interrupt begins.
    InterruptEnter {
        /// Source of the interrupt.
        source: InterruptSource,
        /// Number of the device's interrupt or of the softirq; 0 for other sources.
        number: u16,
    },
    /// An interrupt ends.
    InterruptExit {
        /// Source of the interrupt.
        source: InterruptSource,
        /// Number, as for the beginning.
        number: u16,
    },
    /// The current thread reads a file through the page cache.
    FileRead(FileRange),
    /// The current thread accesses a page of a mapped file.
    FileFault(FileRange),
    /// The current thread writes a file through the page cache.
    FileWrite(FileRange),
    /// The current thread transfers a part of a file past the page cache.
    Direct {
        /// The part. A read transfers nothing behind the block that has the end of the file.
        range: FileRange,
        /// Size of the file.
        file_bytes: u64,
        /// True for a write. The kernel marks asynchronous ones alone; the system call tells the others.
        writes: bool,
        /// True if the thread does not wait for the transfer.
        is_async: bool,
    },
    /// The current thread removes the last use of a file without a name.
    FileDelete {
        /// Device of the file system.
        device: u32,
        /// Inode of the file, which another file may get.
        inode: u64,
    },
    /// The current thread begins to write what is dirty of a file, and waits until it is durable.
    FileSync {
        /// Device of the file system.
        device: u32,
        /// Inode of the file or directory.
        inode: u64,
    },
    /// The current thread submits a transfer to a device, before it joins others.
    Submit {
        /// The device: the whole one, or a partition of it.
        device: u32,
        /// First sector, of the whole device.
        sector: u64,
        /// Number of bytes.
        bytes: u64,
        /// True for a write.
        writes: bool,
    },
    /// The current thread accesses a block of metadata.
    Buffer {
        /// Device of the file system.
        device: u32,
        /// First sector of the block, of the file system's device.
        sector: u64,
        /// Size of the block.
        bytes: u32,
        /// True if the block becomes dirty.
        is_dirtied: bool,
    },
    /// The current thread has to wait, for it made too many pages dirty.
    Throttle,
    /// A transaction of a journal begins or ends to be committed.
    Commit {
        /// Device of the file system.
        device: u32,
        /// Number of the transaction.
        transaction: u32,
        /// True at the beginning.
        begins: bool,
    },
    /// The current thread changed metadata within a transaction of a journal.
    Change {
        /// Device of the file system.
        device: u32,
        /// Blocks of metadata that the transaction did not have before.
        blocks: u32,
    },
    /// The kernel begins or ends a round of writeback.
    Writeback {
        /// The whole device.
        device: u32,
        /// Reason of the round.
        reason: WritebackReason,
        /// Pages that are left to write, at most.
        pages: i64,
        /// True at the beginning.
        begins: bool,
    },
    /// The place of a part of a file became known.
    Extent(FileExtent),
    /// A worker thread begins work.
    WorkStart(Work),
    /// A worker thread ends work.
    WorkEnd,
    /// Something happened to a request.
    Block(BlockStep),
    /// Events of this processor were lost before this time.
    Lost {
        /// Number of the lost events, at least 1.
        events: u64,
    },
}
