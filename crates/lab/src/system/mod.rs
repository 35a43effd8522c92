//! System-level traces: a command with the host around it.
//!
//! ```text
//! COMMAND, DEVICE ─▶ record ─▶ db.sys/ ─▶ info, programs
//!                              system.json   what was recorded, where, and how complete it is
//!                              *.parquet     tables of typed rows; requests.parquet is a canonical trace
//! ```
//! # Scope and limits
//! A `.sys` is a folder. It takes its name when it is complete. Until then, the recording lies in `NAME.sys.part`, of which
//! [`convert_left`] makes a trace if the recorder was killed.

mod folder;
mod info;
mod jobs;
mod left;
mod metadata;
mod programs;
mod record;
mod text;

pub use folder::SystemTrace;
pub use info::{CpuTimes, ProcessTimes, SystemInfo, WaitTimes, info};
pub(crate) use jobs::{TracedJobs, traced_jobs};
pub use left::convert_left;
pub use metadata::{
    DeviceFacts, EventCounts, MountFacts, RecordingCostFacts, SystemMetadata, is_system_trace,
};
pub(crate) use programs::{Programs, programs};
pub(crate) use record::{Recording, Surroundings, Traced};
pub use record::{SystemCaptureOptions, SystemCaptureResult, capture_system};
pub use seeklab_traces::capture::system::is_system_part;
pub use text::{SystemTextOptions, convert_text};
