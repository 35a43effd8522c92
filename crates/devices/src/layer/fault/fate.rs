//! Requests as they were submitted to the layer, and what becomes of them.

use seeklab_core::{Completion, DataEffect, Duration, FaultSet, Instant, Request, Status};

/// A request as it was submitted here, and what becomes of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) request: Request,
    pub(super) submitted: Instant,
    pub(super) queue_length: u32,
    pub(super) fate: Fate,
}

impl Taken {
    /// A plain request, of which the device's own completion says everything.
    pub(super) const fn plain(completion: &Completion) -> Self {
        let Completion { request, submitted, queue_length, .. } = *completion;
        Self { request, submitted, queue_length, fate: Fate::NONE }
    }
}

/// Fate of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Fate {
    /// The reply is later by this.
    pub(super) delay: Duration,
    /// The device is busy for longer by this.
    pub(super) busy: Duration,
    /// Outcome in place of the device's: the status and, of an error, the first bad block.
    pub(super) status: Option<(Status, u32)>,
    /// The device does not learn that a write is to be on the media when it completes.
    pub(super) ignores_fua: bool,
    /// Caps of the bandwidth that hold the request, one bit each.
    pub(super) caps: u32,
    /// Effect on the data, if the request is carried out.
    pub(super) effect: DataEffect,
    /// Faults of this layer that struck the request.
    pub(super) faults: FaultSet,
}

impl Fate {
    /// The request is served as if there were no faults.
    pub(super) const NONE: Self = Self {
        delay: Duration::ZERO,
        busy: Duration::ZERO,
        status: None,
        ignores_fua: false,
        caps: 0,
        effect: DataEffect::NONE,
        faults: FaultSet::NONE,
    };

    /// The request is carried out after a correction that takes `longer`.
    pub(super) fn correct(&mut self, longer: Duration) {
        self.busy += longer;
        self.status.get_or_insert((Status::Recovered, 0));
    }

    /// The request fails at a block of it after attempts that take `longer`.
    pub(super) fn spoil(&mut self, longer: Duration, bad_block: u32) {
        self.busy += longer;
        self.status = Some(match self.status {
            Some((Status::MediumError, before)) => (Status::MediumError, before.min(bad_block)),
            _ => (Status::MediumError, bad_block),
        });
    }
}

/// A request without an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hanging {
    pub(super) taken: Taken,
    pub(super) gives_up: Instant,
    /// Time at which the fault ends and the device gets the request.
    pub(super) ends: Instant,
    /// The device has no room for it: it goes when a request there ends.
    pub(super) for_room: bool,
}

/// Reception of a request at its arrival.
pub(super) enum Arrival {
    Device(Fate),
    Hangs { timeout: Duration, ends: Instant, fate: Fate },
    Fails(Status, Duration, FaultSet),
}
