//! Reads the first requests of a trace.

use std::path::Path;

use schemars::JsonSchema;
use seeklab_core::{Duration, Instant, TraceRecord};
use serde::Serialize;

use super::open::TraceOptions;
use crate::failure::Failure;
use crate::session::Session;

/// The first requests of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TraceHead {
    /// Path of the trace.
    pub file: String,
    /// The first requests, in the order of the trace.
    pub requests: Vec<HeadRequest>,
}

/// A request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeadRequest {
    /// Arrival time.
    pub arrival_ns: u64,
    /// Number of the device.
    pub device: u16,
    /// Operation.
    pub op: &'static str,
    /// True if a write must reach the medium before it completes.
    pub fua: bool,
    /// First block.
    pub lbn: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Completion time.
    pub completion_ns: Option<u64>,
    /// Response time.
    pub response_ns: Option<u64>,
    /// Time in queues.
    pub queue_ns: Option<u64>,
    /// Think time from the completion to the next arrival.
    pub think_ns: Option<u64>,
}

impl From<&TraceRecord> for HeadRequest {
    fn from(record: &TraceRecord) -> Self {
        Self {
            arrival_ns: record.arrival.as_ns(),
            device: record.device,
            op: record.op.name(),
            fua: record.fua,
            lbn: record.lbn,
            blocks: record.blocks,
            completion_ns: record.completion.map(Instant::as_ns),
            response_ns: record.response_time().map(Duration::as_ns),
            queue_ns: record.queue_time().map(Duration::as_ns),
            think_ns: record.think.map(Duration::as_ns),
        }
    }
}

/// Reads the first `rows` requests of the trace at `path`.
///
/// # Errors
/// If they cannot be read.
pub fn head(session: &Session, path: &Path, reading: &TraceOptions, rows: u64) -> Result<TraceHead, Failure> {
    let mut trace = reading.open(session, path)?;
    let rows = trace.by_ref().take(usize::try_from(rows).unwrap_or(usize::MAX));
    let requests = rows.map(|record| Ok(HeadRequest::from(&record?))).collect::<Result<_, Failure>>()?;
    Ok(TraceHead { file: path.display().to_string(), requests })
}
