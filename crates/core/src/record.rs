//! One row of the canonical trace.

use crate::completion::{Breakdown, BufferOutcome, Completion, Status};
use crate::request::{Criticality, Operation, Request};
use crate::units::{Duration, Instant};

/// One request of a canonical trace, whether simulated, measured or imported; what its source does
/// not know is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRecord {
    /// When the request arrived in the system.
    pub arrival: Instant,
    /// When the innermost device received it.
    pub issue: Option<Instant>,
    /// When that device began to serve it.
    pub start: Option<Instant>,
    /// When it was complete.
    pub completion: Option<Instant>,
    /// From this request's completion to the issue of the next.
    pub think: Option<Duration>,
    /// Requests ahead of it when it arrived.
    pub queue_length: Option<u32>,
    /// Which device it addresses.
    pub device: u16,
    /// Who made it.
    pub initiator: u32,
    /// What it does.
    pub op: Operation,
    /// Whether it forces the media.
    pub fua: bool,
    /// First logical block.
    pub lbn: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// How a process depends on it.
    pub criticality: Criticality,
    /// Larger is more urgent.
    pub priority: u8,
    /// How it ended.
    pub status: Status,
    /// Where its response time went.
    pub breakdown: Option<Breakdown>,
    /// Cylinders that the arm moved to its first track.
    pub seek_cylinders: Option<u32>,
    /// What the device's buffer did for it.
    pub buffer: BufferOutcome,
}

impl TraceRecord {
    /// A request of which only the arrival and the address are known.
    pub const fn new(arrival: Instant, op: Operation, lbn: u64, blocks: u32) -> Self {
        Self {
            arrival,
            issue: None,
            start: None,
            completion: None,
            think: None,
            queue_length: None,
            device: 0,
            initiator: 0,
            op,
            fua: false,
            lbn,
            blocks,
            criticality: Criticality::TimeCritical,
            priority: 0,
            status: Status::Ok,
            breakdown: None,
            seek_cylinders: None,
            buffer: BufferOutcome::None,
        }
    }

    /// Time from arrival to completion, where the completion is known.
    pub fn response_time(&self) -> Option<Duration> {
        self.completion.map(|completion| completion.saturating_since(self.arrival))
    }

    /// Time from arrival to the start of service, where that is known.
    pub fn queue_time(&self) -> Option<Duration> {
        self.start.map(|start| start.saturating_since(self.arrival))
    }

    /// Time from the start of service to completion, where both are known.
    pub fn service_time(&self) -> Option<Duration> {
        self.start.zip(self.completion).map(|(start, completion)| completion.saturating_since(start))
    }

    /// The request that this row records, with the given number.
    pub const fn request(&self, id: u64) -> Request {
        Request {
            id: crate::request::RequestId(id),
            device: self.device,
            initiator: self.initiator,
            op: self.op,
            fua: self.fua,
            lbn: self.lbn,
            blocks: self.blocks,
            criticality: self.criticality,
            priority: self.priority,
        }
    }
}

impl From<&Completion> for TraceRecord {
    fn from(completion: &Completion) -> Self {
        let request = &completion.request;
        Self {
            arrival: completion.submitted,
            issue: Some(completion.issued),
            start: Some(completion.started),
            completion: Some(completion.completed),
            think: None,
            queue_length: Some(completion.queue_length),
            device: request.device,
            initiator: request.initiator,
            op: request.op,
            fua: request.fua,
            lbn: request.lbn,
            blocks: request.blocks,
            criticality: request.criticality,
            priority: request.priority,
            status: completion.status,
            breakdown: Some(completion.breakdown),
            seek_cylinders: Some(completion.seek_cylinders),
            buffer: completion.buffer,
        }
    }
}
