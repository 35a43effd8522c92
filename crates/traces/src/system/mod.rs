//! System-level traces: what a command and its host did, in one pass over the events of a kernel.
//!
//! ```text
//!  events in order of time ─▶ Processor ─┬─▶ processes, steps, waits     the task: sequences, and where its time went
//!                                        ├─▶ interrupts, occupied, cpus   the rest of the host
//!                                        ├─▶ initial, extents, commits, losses
//!                                        └─▶ requests of the device       rows of the canonical trace
//! ```
//! The post-processor is pure: it takes typed events from anywhere. `capture::system` records them.
//!
//! # Scope and limits
//! - Division of time: computing, interrupted, ready and each kind of wait of a thread sum to its elapsed time, to the
//!   nanosecond, also where events were lost. Lost events make the division wrong, not incomplete; they are counted.
//! - A wait ends when its thread begins to be woken (`sched_waking`). What follows until it runs is ready time.
//! - Memory depends on the number of threads that live at a time, not on the length of the trace.
//!
//! # References
//! [GangerPatt98, §5.3.1]

mod calls;
mod cause;
mod cost;
mod cpu;
mod event;
pub(crate) mod fields;
mod names;
mod processor;
pub mod table;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod text;
mod thread;

pub use cause::{StackCause, WaitCause};
pub use cost::RecordingCost;
pub use event::{
    BlockStep, Context, EventKind, FileExtent, FileRange, InterruptSource, RunState, SystemEvent, Work,
    WritebackReason,
};
pub use processor::{InitialThread, Output, Processed, Processor, Repairs, TracedDevice};
pub use tables::{Role, StepEvent, Waker};

pub(crate) use cause::is_known;
