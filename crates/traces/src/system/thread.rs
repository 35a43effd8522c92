//! A thread: its state, and the division of its time.

use seeklab_core::{Operation, ProcessName};

use super::cause::{StackCause, WaitCause};
use super::event::RunState;
use super::tables::{ProcessRow, Role, Waker};

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// On a processor, which accounts for the time.
    Running(u16),
    /// Without a processor, able to run.
    Ready,
    /// Waiting, for what [`Thread::wait`] says.
    Waiting,
}

/// A completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) device: u32,
    pub(super) op: Option<Operation>,
    pub(super) sector: u64,
}

/// End of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) time_ns: u64,
    pub(super) waker: Waker,
    pub(super) thread: Option<u32>,
    /// True if the waking thread belongs to the task.
    pub(super) is_within: bool,
    pub(super) completion: Option<Completion>,
    /// Times at which a request of the traced device, and of another device, completed last.
    pub(super) completed_here_ns: Option<u64>,
    pub(super) completed_elsewhere_ns: Option<u64>,
}

impl Wake {
    /// A wake-up that was not recorded.
    pub(super) const fn unknown(time_ns: u64) -> Self {
        Self {
            time_ns,
            waker: Waker::Unknown,
            thread: None,
            is_within: false,
            completion: None,
            completed_here_ns: None,
            completed_elsewhere_ns: None,
        }
    }
}

/// A wait, until its thread runs again.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenWait {
    pub(super) begin_ns: u64,
    pub(super) state: RunState,
    pub(super) stack: Option<StackCause>,
    pub(super) wake: Option<Wake>,
    pub(super) call: Option<u16>,
    /// True if the last transfer of the thread past the page cache was a write.
    pub(super) direct_writes: Option<bool>,
}

/// A thread of the host.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) role: Role,
    /// True while a worker thread does the work of the loop driver.
    pub(super) emulates: bool,
    pub(super) state: State,
    /// Time until which the thread is accounted for, unless it runs.
    pub(super) since_ns: u64,
    pub(super) wait: Option<OpenWait>,
    /// A waking that came while the thread ran. It ends the next wait if the wake-up follows.
    pub(super) early_wake: Option<Wake>,
    /// System call that the thread is in.
    pub(super) call: Option<u16>,
    /// Device of the file system that it used last.
    pub(super) device: Option<u32>,
    /// True if its last transfer past the page cache was a write.
    pub(super) direct_writes: Option<bool>,
    /// Cause of the wait that begins with the next switch.
    pub(super) stack: Option<StackCause>,
    /// True if the kernel made it wait since it made too many pages dirty.
    pub(super) is_throttled: bool,
    /// Computing time since the last step.
    pub(super) step_ns: u64,
    /// Recording of events that has not been taken out of its computing time yet.
    pub(super) recording_debt_ns: u64,
    pub(super) row: ProcessRow,
}

impl Thread {
    /// A thread that begins now, ready to run.
    pub(super) fn new(
        thread: u32,
        process: u32,
        parent: u32,
        role: Role,
        now_ns: u64,
        begin_ns: u64,
    ) -> Self {
        Self {
            role,
            emulates: false,
            state: State::Ready,
            since_ns: now_ns,
            wait: None,
            early_wake: None,
            call: None,
            device: None,
            direct_writes: None,
            stack: None,
            is_throttled: false,
            step_ns: 0,
            recording_debt_ns: 0,
            row: ProcessRow {
                thread,
                process,
                parent,
                name: ProcessName::default(),
                begin_ns: now_ns - begin_ns,
                elapsed_ns: 0,
                has_ended: false,
                computing_ns: 0,
                recording_ns: None,
                interrupted_ns: 0,
                ready_ns: 0,
                data_read_ns: 0,
                metadata_read_ns: 0,
                write_ns: 0,
                flush_ns: 0,
                journal_ns: 0,
                throttle_ns: 0,
                queue_ns: 0,
                memory_ns: 0,
                process_ns: 0,
                timer_ns: 0,
                other_device_ns: 0,
                outside_ns: 0,
                unknown_ns: 0,
                waits: 0,
                switches: 0,
            },
        }
    }

    /// Role of the time that the thread spends now.
    pub(super) fn current_role(&self) -> Role {
        if self.emulates { Role::Emulator } else { self.role }
    }

    pub(super) fn is_task(&self) -> bool {
        self.role == Role::Task
    }

    /// Leaves its processor to wait.
    pub(super) fn begin_wait(&mut self, now_ns: u64, state: RunState) {
        let throttle = std::mem::take(&mut self.is_throttled).then_some(StackCause::Throttle);
        let stack = self.stack.take().or(throttle);
        self.state = State::Waiting;
        self.since_ns = now_ns;
        let (call, direct_writes) = (self.call, self.direct_writes);
        self.wait = Some(OpenWait { begin_ns: now_ns, state, stack, wake: None, call, direct_writes });
    }

    /// Accounts for the ready time up to now.
    pub(super) fn settle_ready(&mut self, now_ns: u64) {
        self.row.ready_ns += now_ns - self.since_ns;
        self.since_ns = now_ns;
    }
}

impl ProcessRow {
    /// Returns the waiting time of that cause.
    pub fn wait_ns(&self, cause: WaitCause) -> u64 {
        let mut copy = *self;
        *copy.wait_ns_mut(cause)
    }

    /// Sets the waiting time of that cause.
    pub fn set_wait_ns(&mut self, cause: WaitCause, wait_ns: u64) {
        *self.wait_ns_mut(cause) = wait_ns;
    }

    pub(super) fn wait_ns_mut(&mut self, cause: WaitCause) -> &mut u64 {
        match cause {
            WaitCause::DataRead => &mut self.data_read_ns,
            WaitCause::MetadataRead => &mut self.metadata_read_ns,
            WaitCause::Write => &mut self.write_ns,
            WaitCause::Flush => &mut self.flush_ns,
            WaitCause::Journal => &mut self.journal_ns,
            WaitCause::Throttle => &mut self.throttle_ns,
            WaitCause::Queue => &mut self.queue_ns,
            WaitCause::Memory => &mut self.memory_ns,
            WaitCause::Process => &mut self.process_ns,
            WaitCause::Timer => &mut self.timer_ns,
            WaitCause::OtherDevice => &mut self.other_device_ns,
            WaitCause::Outside => &mut self.outside_ns,
            WaitCause::Unknown => &mut self.unknown_ns,
        }
    }

    /// Returns the sum of computing, recording, interrupted, ready and waiting time. It equals the elapsed time.
    pub fn accounted_ns(&self) -> u64 {
        let waits: u64 = WaitCause::ALL.iter().map(|cause| self.wait_ns(*cause)).sum();
        let recording_ns = self.recording_ns.unwrap_or(0);
        self.computing_ns + recording_ns + self.interrupted_ns + self.ready_ns + waits
    }
}

/// Devices that tell waits for the traced device from others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Devices {
    pub(super) requests: u32,
    pub(super) file_system: u32,
}

impl OpenWait {
    /// Returns the cause of the wait.
    pub(super) fn cause(&self, last_device: Option<u32>, devices: Devices) -> WaitCause {
        let completion = self.wake.and_then(|wake| wake.completion);
        // A synchronisation, for example, ends with a thread of the kernel that wakes. Then the device decides whose requests
        // completed meanwhile.
        let is_within = |time_ns: Option<u64>| time_ns.is_some_and(|time_ns| time_ns >= self.begin_ns);
        let completed = self.wake.map_or((false, false), |wake| {
            (is_within(wake.completed_here_ns), is_within(wake.completed_elsewhere_ns))
        });
        let is_elsewhere = match (completion, completed) {
            (Some(completion), _) => completion.device != devices.requests,
            (None, (true, _)) => false,
            (None, (false, true)) => true,
            (None, (false, false)) => last_device.is_some_and(|device| device != devices.file_system),
        };
        let here = |cause| if is_elsewhere { WaitCause::OtherDevice } else { cause };
        match self.stack {
            Some(StackCause::DataRead) => here(WaitCause::DataRead),
            Some(StackCause::MetadataRead) => here(WaitCause::MetadataRead),
            Some(StackCause::Write) => here(WaitCause::Write),
            Some(StackCause::Flush) => here(WaitCause::Flush),
            Some(StackCause::Journal) => here(WaitCause::Journal),
            Some(StackCause::Queue) => here(WaitCause::Queue),
            Some(StackCause::Throttle) => WaitCause::Throttle,
            Some(StackCause::Memory) => WaitCause::Memory,
            Some(StackCause::Process) => match self.wake {
                // The other end of a pipe, for example, may be outside.
                Some(wake) if self.state == RunState::Interruptible => match wake.waker {
                    Waker::Thread if !wake.is_within => WaitCause::Outside,
                    _ => WaitCause::Process,
                },
                _ => WaitCause::Process,
            },
            Some(StackCause::Timer) => WaitCause::Timer,
            Some(StackCause::Direct) => match (self.wake.map(|wake| wake.waker), self.direct_writes) {
                // Work of the kernel completes what changes the file, and wakes the thread.
                (Some(Waker::Thread | Waker::Interrupt), Some(writes)) => {
                    here(if writes { WaitCause::Write } else { WaitCause::DataRead })
                }
                _ => self.cause_by_wake(is_elsewhere),
            },
            Some(StackCause::Unknown) | None => self.cause_by_wake(is_elsewhere),
        }
    }

    /// Cause of a wait whose call stack says nothing.
    fn cause_by_wake(&self, is_elsewhere: bool) -> WaitCause {
        if self.state == RunState::Stopped {
            return WaitCause::Outside;
        }
        let Some(wake) = self.wake else { return WaitCause::Unknown };
        match (wake.waker, wake.completion) {
            (Waker::Completion, Some(_)) if is_elsewhere => WaitCause::OtherDevice,
            (Waker::Completion, Some(completion)) => match completion.op {
                Some(Operation::Read) => WaitCause::DataRead,
                Some(Operation::Flush) => WaitCause::Flush,
                Some(_) => WaitCause::Write,
                None => WaitCause::Unknown,
            },
            (Waker::Timer, _) => WaitCause::Timer,
            (Waker::Thread, _) if wake.is_within => WaitCause::Process,
            // What cannot be interrupted waits within the kernel, for a lock or the like.
            (Waker::Thread, _) if self.state == RunState::Uninterruptible => WaitCause::Process,
            (Waker::Thread | Waker::Interrupt, _) => WaitCause::Outside,
            (Waker::Completion | Waker::Unknown, _) => WaitCause::Unknown,
        }
    }
}
