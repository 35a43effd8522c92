//! A request that a workload submits to a device.

use serde::{Deserialize, Serialize};

/// Identifies one request within a run; workloads number theirs from zero in arrival order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// Operation of a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Bring blocks from the device.
    Read,
    /// Take blocks to the device.
    Write,
    /// Make every completed write durable.
    Flush,
    /// Tell the device that blocks are no longer needed.
    Discard,
    /// Fill blocks with zeroes without sending them.
    WriteZeroes,
}

impl Operation {
    /// Every operation, in the order of the trace schema.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Flush, Self::Discard, Self::WriteZeroes];

    /// The name in traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write_zeroes",
        }
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns true if the operation addresses blocks (all but flush do).
    #[inline]
    pub const fn addresses_blocks(self) -> bool {
        !matches!(self, Self::Flush)
    }
}

/// Class of a request: dependence of a process on it \[Ganger & Patt 1998, section 2\]. The most pressing comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criticality {
    /// The process that made it waits for its completion.
    #[default]
    TimeCritical,
    /// The request becomes time-critical if it is not complete within a limit, as a read-ahead does.
    TimeLimited,
    /// No process waits for it, as for a background flush.
    TimeNoncritical,
}

impl Criticality {
    /// Every criticality, most pressing first.
    pub const ALL: [Self; 3] = [Self::TimeCritical, Self::TimeLimited, Self::TimeNoncritical];

    /// The name in traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimeCritical => "time_critical",
            Self::TimeLimited => "time_limited",
            Self::TimeNoncritical => "time_noncritical",
        }
    }

    /// The criticality of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|criticality| criticality.name() == name)
    }
}

/// One request, as a workload submits it. It carries no data: bytes live on another plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Number of the request within its run.
    pub id: RequestId,
    /// Number of the device that the request addresses, in a trace with several devices.
    pub device: u16,
    /// Initiator of the request: a process, queue or stream.
    pub initiator: u32,
    /// Operation of the request.
    pub op: Operation,
    /// True if a write must be on the media when it completes (force unit access).
    pub fua: bool,
    /// First logical block.
    pub lbn: u64,
    /// Number of blocks, at least one unless the operation is a flush.
    pub blocks: u32,
    /// Dependence of a process on the request.
    pub criticality: Criticality,
    /// Larger is more urgent.
    pub priority: u8,
}

impl Request {
    /// A time-critical request of default priority from initiator 0 to device 0.
    pub const fn new(id: u64, op: Operation, lbn: u64, blocks: u32) -> Self {
        Self {
            id: RequestId(id),
            device: 0,
            initiator: 0,
            op,
            fua: false,
            lbn,
            blocks,
            criticality: Criticality::TimeCritical,
            priority: 0,
        }
    }

    /// Makes the request more pressing, if `criticality` is a more pressing class than its own. Returns the class before if
    /// it changed.
    pub fn reclassify(&mut self, criticality: Criticality) -> Option<Criticality> {
        let is_more_pressing = criticality < self.criticality;
        is_more_pressing.then(|| std::mem::replace(&mut self.criticality, criticality))
    }

    /// The block after the last.
    pub const fn end(&self) -> u64 {
        self.lbn.saturating_add(self.blocks as u64)
    }
}
