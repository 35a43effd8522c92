//! Cost that the recording of an event has for the thread that it interrupts.

use serde::{Deserialize, Serialize};

use super::event::{Context, EventKind, SystemEvent};

/// Cost of recording an event, in processor time of the thread that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordingCost {
    /// Beginning or end of a system call.
    pub call_ns: u64,
    /// Any other event.
    pub access_ns: u64,
}

impl RecordingCost {
    /// Returns the cost of the event for its thread. Events within interrupts cost the interrupts.
    pub(super) fn of(self, event: &SystemEvent) -> u64 {
        if event.context != Context::Process {
            return 0;
        }
        match event.kind {
            EventKind::CallEnter { .. } | EventKind::CallExit { .. } => self.call_ns,
            EventKind::Lost { .. } | EventKind::InterruptEnter { .. } | EventKind::InterruptExit { .. } => 0,
            _ => self.access_ns,
        }
    }
}
