//! A thread of a trace, while its steps are read.

use std::sync::Arc;

use super::device_reads::DeviceReads;
use super::lost_pages::DataReads;
use super::metadata_reads::Lookups;
use super::polls::Polls;
use super::steps::{PartFile, Steps};

/// A thread, while its steps are read.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) process: u32,
    pub(super) start_ns: u64,
    pub(super) steps: Steps,
    /// True if it waits for other threads of the command.
    pub(super) has_dependencies: bool,
    /// Beginnings of the waits for I/O, in order.
    pub(super) waits_ns: Vec<u64>,
    /// Waits that began before the last step.
    pub(super) waits_passed: usize,
    /// Beginnings of the waits for the journal, in order.
    pub(super) journal_waits_ns: Vec<u64>,
    pub(super) call: Option<(u16, [u64; 4])>,
    /// Time at which the call began.
    pub(super) call_ns: u64,
    /// Step that began the call.
    pub(super) call_step: usize,
    pub(super) lookups: Lookups,
    pub(super) device_reads: DeviceReads,
    pub(super) data_reads: DataReads,
    /// True after a write to a file, until another event than a dirty buffer.
    pub(super) is_writing: bool,
    /// True if the current call writes a file.
    pub(super) has_written: bool,
    /// Page of a file whose fault is the last step but for buffers.
    pub(super) fault: Option<(u32, u32)>,
    /// File that the current call synchronises.
    pub(super) synced: Option<u32>,
    pub(super) polls: Polls,
    pub(super) read: Option<OpenRead>,
    pub(super) unknown: Option<Unknown>,
}

/// A read whose next look-up continues it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenRead {
    pub(super) file: u32,
    pub(super) step: usize,
    pub(super) first: u64,
    pub(super) end: u64,
}

/// A step whose meaning the next step of the thread decides.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unknown {
    /// The first access to a file, by a page fault.
    FirstFault { file: u32 },
    /// A write that changes a part of its first or last block.
    Write { step: usize, first: Option<u64>, last: Option<u64> },
}

impl Thread {
    pub(super) fn new(process: u32, start_ns: u64, file: &Arc<PartFile>) -> Self {
        Self {
            process,
            start_ns,
            steps: Steps::new(file),
            has_dependencies: false,
            waits_ns: Vec::new(),
            waits_passed: 0,
            journal_waits_ns: Vec::new(),
            call: None,
            call_ns: 0,
            call_step: 0,
            lookups: Lookups::default(),
            device_reads: DeviceReads::default(),
            data_reads: DataReads::default(),
            is_writing: false,
            has_written: false,
            fault: None,
            synced: None,
            polls: Polls::default(),
            read: None,
            unknown: None,
        }
    }

    /// Returns true if a wait for I/O began since the last step.
    pub(super) fn has_waited(&mut self, time_ns: u64) -> bool {
        let before = self.waits_passed;
        while self.waits_ns.get(self.waits_passed).is_some_and(|begin_ns| *begin_ns <= time_ns) {
            self.waits_passed += 1;
        }
        self.waits_passed > before
    }

    /// Returns true if the thread has waited for the journal since its call began.
    pub(super) fn has_waited_for_journal(&self, time_ns: u64) -> bool {
        let first = self.journal_waits_ns.partition_point(|begin_ns| *begin_ns < self.call_ns);
        self.journal_waits_ns.get(first).is_some_and(|begin_ns| *begin_ns <= time_ns)
    }
}
