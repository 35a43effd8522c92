//! The answer of a device to a request: status, times and the parts of the response time.

use crate::effect::{DataEffect, Effect};
use crate::request::Request;
use crate::units::{Duration, Instant};

/// Status of a completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Status {
    /// The device carried out the request.
    #[default]
    Ok,
    /// The device carried out the request after it had corrected an error, for example by reading again.
    Recovered,
    /// A block cannot be read or written on the media.
    MediumError,
    /// The device ended the request without carrying it out.
    Aborted,
    /// No answer came in time.
    Timeout,
    /// The device refuses writes.
    WriteProtected,
    /// The device has no space for the data.
    NoSpace,
    /// The device is not there.
    Gone,
}

impl Status {
    /// Every status, in the order of its code in traces.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::Recovered,
        Self::MediumError,
        Self::Aborted,
        Self::Timeout,
        Self::WriteProtected,
        Self::NoSpace,
        Self::Gone,
    ];

    /// The name in traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Recovered => "recovered",
            Self::MediumError => "medium_error",
            Self::Aborted => "aborted",
            Self::Timeout => "timeout",
            Self::WriteProtected => "write_protected",
            Self::NoSpace => "no_space",
            Self::Gone => "gone",
        }
    }

    /// The status of that name. `error`, the only error of older traces, is [`Aborted`](Self::Aborted): the request
    /// was not carried out, and the cause is not known.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == Self::UNKNOWN_ERROR { Self::Aborted.name() } else { name };
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Name of every error in traces of schema version 1.
    pub const UNKNOWN_ERROR: &str = "error";

    /// The status by which Linux reports that error number of a block device; 0 is no error. A number with several
    /// causes, such as `EIO`, is [`Aborted`](Self::Aborted).
    ///
    /// # References
    /// Linux, `block/blk-core.c`: table `blk_errors`.
    pub const fn from_errno(errno: u32) -> Self {
        match errno {
            0 => Self::Ok,
            1 | 30 => Self::WriteProtected,
            6 | 19 | 67 | 108 => Self::Gone,
            28 => Self::NoSpace,
            61 => Self::MediumError,
            62 | 110 => Self::Timeout,
            _ => Self::Aborted,
        }
    }

    /// Returns true if the request was carried out.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Ok | Self::Recovered)
    }
}

/// Outcome of a request: its status, and the blocks that are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Status of the request.
    pub status: Status,
    /// Blocks from the first one on that were transferred without an error. All blocks of the request if the request
    /// was carried out.
    pub good_blocks: u32,
    /// Effect of a fault on its data, of which the status says nothing.
    pub effect: DataEffect,
}

impl Outcome {
    /// The request was carried out.
    pub const fn ok(request: &Request) -> Self {
        Self { status: Status::Ok, good_blocks: request.blocks, effect: DataEffect::NONE }
    }

    /// The request failed with none of its blocks transferred.
    pub const fn failed(status: Status) -> Self {
        Self { status, good_blocks: 0, effect: DataEffect::NONE }
    }
}

/// Effect of the device's buffer on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum BufferOutcome {
    /// The device has no buffer, or the operation does not use it.
    #[default]
    None,
    /// The media had to be accessed before the request could complete.
    Miss,
    /// The buffer answered: a read of data that it held or was about to hold, or a buffered write.
    Hit,
}

/// Parts of the response time of a request. The parts never overlap. Their sum is exactly the
/// response time.
///
/// ```text
/// queue │ overhead │ seek │ settle │ head switch │ rotation │ transfer │ bus │ internal
/// ```
/// *Head switch* is the part of the switch that exceeds the seek beside it. *Bus* is the part of the
/// bus transfer that the media time does not hide. A negative write settle shortens the seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Waiting for service, in the host or in the device.
    pub queue: Duration,
    /// Command processing by the device's electronics.
    pub overhead: Duration,
    /// Moving the arm or sled.
    pub seek: Duration,
    /// Settling beyond the seek, such as the extra settle of a write.
    pub settle: Duration,
    /// Switching to another head, as far as the seek does not hide it.
    pub head_switch: Duration,
    /// Rotational latency, initial and additional.
    pub rotation: Duration,
    /// Moving data between the media and the device.
    pub transfer: Duration,
    /// Moving data between the device and the host, as far as the media time does not hide it.
    pub bus: Duration,
    /// Work inside the device that the host did not ask for, such as cleaning or destaging.
    pub internal: Duration,
}

impl Breakdown {
    /// The sum of all parts: the response time.
    pub fn total(&self) -> Duration {
        self.queue + self.service()
    }

    /// The sum of all parts but the queue time: the service time.
    pub fn service(&self) -> Duration {
        self.overhead
            + self.seek
            + self.settle
            + self.head_switch
            + self.rotation
            + self.transfer
            + self.bus
            + self.internal
    }

    /// The parts with their names in the trace schema, in order.
    pub const fn parts(&self) -> [(&'static str, Duration); 9] {
        [
            ("queue", self.queue),
            ("overhead", self.overhead),
            ("seek", self.seek),
            ("settle", self.settle),
            ("head_switch", self.head_switch),
            ("rotation", self.rotation),
            ("transfer", self.transfer),
            ("bus", self.bus),
            ("internal", self.internal),
        ]
    }
}

/// The answer to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request that is complete.
    pub request: Request,
    /// Time of submission to the outermost layer.
    pub submitted: Instant,
    /// Time at which the innermost device received the request.
    pub issued: Instant,
    /// Time at which the innermost device began to serve the request.
    pub started: Instant,
    /// Time of completion.
    pub completed: Instant,
    /// Parts of the time from `submitted` to `completed`.
    pub breakdown: Breakdown,
    /// Status of the request and its good blocks.
    pub outcome: Outcome,
    /// Effect of the device's buffer on the request.
    pub buffer: BufferOutcome,
    /// Cylinders between the arm's position before and the first track accessed.
    pub seek_cylinders: u32,
    /// Requests ahead of it in the outermost layer when it was submitted.
    pub queue_length: u32,
}

impl Completion {
    /// The blocks that a write gave new contents as far as the device says, from the first one on, and their number: in
    /// another place if the write was misdirected, and fewer than it has if it failed or was torn.
    ///
    /// # Panics
    /// If the effect on its data is none that its device can have.
    pub fn written_blocks(&self) -> (u64, u32) {
        let (lbn, good) = (self.request.lbn, self.outcome.good_blocks);
        match self.outcome.effect.effect() {
            Effect::Torn(blocks) => (lbn, good.min(blocks)),
            Effect::Misdirected(blocks) => {
                let place = lbn.checked_add_signed(i64::from(blocks));
                (place.expect("the wrong place lies in the device"), good)
            }
            _ => (lbn, good),
        }
    }

    /// Time from submission to completion.
    pub fn response_time(&self) -> Duration {
        self.completed - self.submitted
    }
}
