//! Rows of a system-level trace.
//!
//! Times are nanoseconds since the beginning of the trace. A *task* thread belongs to the traced command or its
//! descendants.

use seeklab_core::ProcessName;

use super::cause::WaitCause;
use super::event::{InterruptSource, WritebackReason};
use super::names::names;
use super::table::rows;

/// Version of the tables. A reader refuses others. Columns that may be absent were added without a new version.
pub const TABLES_VERSION: u32 = 1;

names! {
    /// Role of a thread in the trace.
    pub enum Role {
        /// The traced command and its descendants.
        Task = "task",
        /// Thread of the kernel.
        Kernel = "kernel",
        /// Emulation of a device: the loop driver, and the thread of seeklab that serves the device.
        Emulator = "emulator",
        /// The recorder.
        Recorder = "recorder",
        /// Any other process.
        Other = "other",
    }
}

names! {
    /// Event in the sequence of a task thread.
    pub enum StepEvent {
        /// Begins a system call.
        CallEnter = "call_enter",
        /// Returns from a system call.
        CallExit = "call_exit",
        /// Reads a file through the page cache.
        FileRead = "file_read",
        /// Accesses a page of a mapped file that its page table lacks.
        FileFault = "file_fault",
        /// Writes a file through the page cache.
        FileWrite = "file_write",
        /// Reads a file past the page cache (`O_DIRECT`).
        DirectRead = "direct_read",
        /// Writes a file past the page cache (`O_DIRECT`).
        DirectWrite = "direct_write",
        /// Removes the last use of a file without a name. Another file may get its inode.
        FileDelete = "file_delete",
        /// Begins to write what is dirty of a file, and waits until it is durable: by `fsync` and its relatives, or after a synchronous write.
        FileSync = "file_sync",
        /// Submits a read to the device, before it joins others.
        DeviceRead = "device_read",
        /// Submits a write to the device, before it joins others.
        DeviceWrite = "device_write",
        /// Changes metadata within a transaction of the journal. The length is that of the blocks that the transaction did not have before.
        JournalChange = "journal_change",
        /// Accesses a block of metadata.
        BufferRead = "buffer_read",
        /// Makes a block of metadata dirty.
        BufferWrite = "buffer_write",
        /// Makes a process or thread.
        Fork = "fork",
        /// Executes another program.
        Exec = "exec",
        /// Waits.
        Wait = "wait",
        /// Ends.
        Exit = "exit",
    }
}

names! {
    /// Waker of a thread.
    pub enum Waker {
        /// Another thread.
        Thread = "thread",
        /// A timer.
        Timer = "timer",
        /// The completion of a request.
        Completion = "completion",
        /// Another interrupt.
        Interrupt = "interrupt",
        /// Not recorded.
        Unknown = "unknown",
    }
}

rows! {
    /// Thread of the task, with the complete division of its time. `elapsed_ns` is the sum of all columns from
    /// `computing_ns` on.
    ProcessRow in "processes" {
        /// Number of the thread.
        thread: u32,
        /// Number of its process.
        process: u32,
        /// Number of the thread that made it.
        parent: u32,
        /// Name of its program.
        name: ProcessName,
        /// Time at which it was made.
        begin_ns: u64,
        /// Time from its beginning to its end, or to the end of the trace.
        elapsed_ns: u64,
        /// True if it ended within the trace.
        has_ended: bool,
        /// Time on a processor, without interrupts.
        computing_ns: u64,
        /// Time on a processor that recording took, by the calibrated cost of an event. Absent if nothing was calibrated,
        /// and the computing time includes it.
        recording_ns: Option<u64>,
        /// Time on a processor that interrupts took.
        interrupted_ns: u64,
        /// Time in which it could have run and had no processor.
        ready_ns: u64,
        /// Waits for data of files.
        data_read_ns: u64,
        /// Waits for metadata.
        metadata_read_ns: u64,
        /// Waits for the end of writes.
        write_ns: u64,
        /// Waits for synchronisations that the process requested.
        flush_ns: u64,
        /// Waits for the journal.
        journal_ns: u64,
        /// Waits after too many pages were made dirty.
        throttle_ns: u64,
        /// Waits for a place in the request queue.
        queue_ns: u64,
        /// Waits for memory.
        memory_ns: u64,
        /// Waits for locks, pipes, ends and other progress of other processes.
        process_ns: u64,
        /// Waits for a time.
        timer_ns: u64,
        /// Waits for other devices.
        other_device_ns: u64,
        /// Waits for the world outside the traced processes.
        outside_ns: u64,
        /// Waits without a known cause.
        unknown_ns: u64,
        /// Number of waits.
        waits: u64,
        /// Times that it left a processor.
        switches: u64,
    }
}

rows! {
    /// Event in the sequence of a task thread, and the time that the thread computed before it.
    StepRow in "steps" {
        /// Number of the thread.
        thread: u32,
        /// Time of the event.
        time_ns: u64,
        /// Time on a processor since the previous event of the thread, without interrupts.
        computing_ns: u64,
        /// The event.
        event: StepEvent,
        /// Number of the system call.
        call: Option<u16>,
        /// First argument of the system call.
        argument_0: Option<u64>,
        /// Second argument of the system call.
        argument_1: Option<u64>,
        /// Third argument of the system call.
        argument_2: Option<u64>,
        /// Fourth argument of the system call. Absent in traces of programs that did not record it.
        argument_3: Option<u64>,
        /// Result of the system call. Negative for an error.
        result: Option<i64>,
        /// Device of the file system: the major number above 20 bits of minor.
        device: Option<u32>,
        /// Inode of the file.
        inode: Option<u64>,
        /// First byte in the file, or on the device for metadata.
        offset_bytes: Option<u64>,
        /// Number of bytes.
        length_bytes: Option<u64>,
        /// The thread that was made, or that ended the wait.
        other_thread: Option<u32>,
        /// Length of the wait.
        wait_ns: Option<u64>,
        /// Cause of the wait: another process, a timer, another device, or the world outside. Other waits are effects
        /// and not part of the sequence.
        cause: Option<WaitCause>,
        /// True if the thread does not wait for a transfer past the page cache, as with libaio and io_uring.
        is_async: Option<bool>,
    }
}

rows! {
    /// File of the traced file system that a process had open at the beginning.
    OpenFileRow in "open_files" {
        /// Number of the process.
        process: u32,
        /// Its descriptor.
        descriptor: u32,
        /// Inode of the file.
        inode: u64,
        /// Flags of open(2).
        flags: u64,
        /// Place at which the next transfer begins.
        offset_bytes: u64,
    }
}

rows! {
    /// Part of a file, or of the device, that was in memory at the beginning.
    CachedRow in "cached" {
        /// Inode of the file. Absent for the device, whose parts are metadata.
        inode: Option<u64>,
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, in whole pages.
        length_bytes: u64,
        /// True if the part was dirty.
        is_dirty: bool,
    }
}

rows! {
    /// Wait of a task thread: from the moment that it leaves its processor to the moment that it is woken.
    WaitRow in "waits" {
        /// Number of the thread.
        thread: u32,
        /// Time at which the wait began.
        begin_ns: u64,
        /// Length of the wait.
        wait_ns: u64,
        /// Time from the end of the wait until the thread had a processor.
        ready_ns: u64,
        /// Cause of the wait.
        cause: WaitCause,
        /// System call in which the thread waited. Absent for faults.
        call: Option<u16>,
        /// Kind of the event that ended the wait.
        waker: Waker,
        /// The thread that ended the wait, if a thread did.
        waker_thread: Option<u32>,
        /// Device of the request whose completion ended the wait.
        device: Option<u32>,
        /// First sector of that request, of the whole device.
        sector: Option<u64>,
    }
}

rows! {
    /// Time on a processor of a thread that does not belong to the task.
    OccupiedRow in "occupied" {
        /// Number of the thread.
        thread: u32,
        /// Role of the thread in this time.
        role: Role,
        /// Processor.
        cpu: u16,
        /// Time at which the thread got the processor.
        begin_ns: u64,
        /// Time on the processor, without interrupts.
        computing_ns: u64,
    }
}

rows! {
    /// Interrupt, with the time that it took.
    InterruptRow in "interrupts" {
        /// Processor.
        cpu: u16,
        /// Time at which it began.
        begin_ns: u64,
        /// Source of the interrupt.
        source: InterruptSource,
        /// Number of the device's interrupt or of the softirq; 0 for other sources.
        number: u16,
        /// Time that it took, without interrupts within it.
        computing_ns: u64,
        /// The interrupted thread; 0 for an idle processor.
        interrupted: u32,
    }
}

rows! {
    /// Thread that existed at the beginning.
    InitialRow in "initial" {
        /// Number of the thread.
        thread: u32,
        /// Number of its process.
        process: u32,
        /// Number of the process that made it.
        parent: u32,
        /// Name of its program.
        name: ProcessName,
        /// Role of the thread.
        role: Role,
        /// Processor on which it ran, if it did.
        cpu: Option<u16>,
    }
}

rows! {
    /// Place of a part of a file or directory on its device, as the file system looked it up or allocated it.
    ExtentRow in "extents" {
        /// Time at which it became known.
        time_ns: u64,
        /// Thread of the task that looked it up. Absent if another one did, and in traces of programs that did not record it.
        thread: Option<u32>,
        /// Inode of the file.
        inode: u64,
        /// First block within the file.
        file_block: u64,
        /// First block within the file system.
        device_block: u64,
        /// Number of blocks.
        blocks: u32,
    }
}

rows! {
    /// Commit of the journal.
    CommitRow in "commits" {
        /// Number of the transaction.
        transaction: u32,
        /// Time at which the commit began.
        begin_ns: u64,
        /// Length of the commit.
        commit_ns: u64,
    }
}

rows! {
    /// Round of writeback of the device by a thread of the kernel.
    WritebackRow in "writeback" {
        /// Thread that wrote.
        thread: u32,
        /// Time at which the round began.
        begin_ns: u64,
        /// Length of the round.
        write_ns: u64,
        /// Reason of the round.
        reason: WritebackReason,
        /// Pages that were submitted.
        pages: u64,
    }
}

rows! {
    /// Division of the time of a processor. `elapsed_ns` is the sum of the columns from `task_ns` on.
    CpuRow in "cpus" {
        /// Processor.
        cpu: u16,
        /// Length of the trace.
        elapsed_ns: u64,
        /// Time of task threads.
        task_ns: u64,
        /// Time of kernel threads.
        kernel_ns: u64,
        /// Time of the emulation of devices.
        emulator_ns: u64,
        /// Time of the recorder, with what recording took of task threads.
        recorder_ns: u64,
        /// Time of other processes.
        other_ns: u64,
        /// Time of interrupts.
        interrupt_ns: u64,
        /// Time in which no thread ran.
        idle_ns: u64,
        /// Time in which it is not known who ran, since nothing was recorded.
        unknown_ns: u64,
        /// Interrupts, without softirqs.
        interrupts: u64,
        /// Softirqs.
        softirqs: u64,
        /// Context switches.
        switches: u64,
        /// Events of the processor.
        events: u64,
        /// Events that the kernel could not record.
        lost_events: u64,
    }
}

rows! {
    /// Place at which events of a processor were lost.
    LossRow in "losses" {
        /// Processor.
        cpu: u16,
        /// Time of the first event after the loss.
        time_ns: u64,
        /// Number of the lost events, at least 1.
        events: u64,
    }
}
