//! Events inside a device, beside the completions of its requests.
//!
//! Events are kept only by a device that is [watched](crate::Device::watch), and handed out by
//! [`Device::events`](crate::Device::events) in order of time.

use std::sync::Arc;

use crate::request::RequestId;
use crate::units::{Duration, Instant};

/// Something that happened inside a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Time of the event; of what takes time, its end.
    pub time: Instant,
    /// Number of the device, as in [`Request::device`](crate::Request::device).
    pub device: u16,
    /// Request that the event belongs to.
    pub request: Option<RequestId>,
    /// First block concerned.
    pub lbn: u64,
    /// Number of blocks concerned; zero where the event concerns the whole device.
    pub blocks: u32,
    /// Kind of the event.
    pub kind: EventKind,
}

/// Kind of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// Blocks of a write, discard or write-zeroes are on the media: a loss of power does not undo them. They got there
    /// one after the other in equal times from `begun` to the time of the event, or all at once if the two are equal.
    Durable {
        /// Time at which the first of the blocks began to be written.
        begun: Instant,
    },
    /// Blocks of a write that were on the media hold again what they held before: their unit was being written when the
    /// power was lost.
    Torn,
    /// The unit cannot be read until it is written: it was being written when the power was lost.
    Unreadable,
    /// The fault of that name struck the request.
    Fault(Arc<str>),
    /// The device went: everything outstanding failed.
    Gone,
    /// The device lost its power: everything outstanding failed, and what was not durable is lost.
    PowerLoss,
    /// The device is there again.
    Back,
}

impl EventKind {
    /// The name in files of events.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Durable { .. } => "durable",
            Self::Torn => "torn",
            Self::Unreadable => "unreadable",
            Self::Fault(_) => "fault",
            Self::Gone => "gone",
            Self::PowerLoss => "power_loss",
            Self::Back => "back",
        }
    }
}

/// Part of a write that is on the media at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnMedia {
    /// Blocks from the first on that are on the media.
    pub blocks: u32,
    /// True if the block behind them is being written.
    pub torn: bool,
}

impl Event {
    /// The event that `blocks` blocks of a request are on the media, written from `begun` until `time`.
    pub const fn durable(request: RequestId, lbn: u64, blocks: u32, begun: Instant, time: Instant) -> Self {
        Self { time, device: 0, request: Some(request), lbn, blocks, kind: EventKind::Durable { begun } }
    }

    /// The event of blocks `start..end` of its blocks, at their times; `None` if there are none.
    ///
    /// # Panics
    /// If the event is not [`Durable`](EventKind::Durable), or has other blocks.
    pub fn part(&self, start: u64, end: u64) -> Option<Self> {
        if start >= end {
            return None;
        }
        let EventKind::Durable { begun } = self.kind else { panic!("{self:?} has no parts") };
        let whole = u128::from((self.time - begun).as_ns());
        let at = |block: u64| {
            let passed = u128::from(block - self.lbn) * whole / u128::from(self.blocks);
            begun + Duration::from_ns(passed as u64)
        };
        let blocks = (end - start) as u32;
        Some(Self {
            time: at(end),
            lbn: start,
            blocks,
            kind: EventKind::Durable { begun: at(start) },
            ..self.clone()
        })
    }

    /// Returns the part of the event's blocks that is on the media at `now`; nothing if the event is of another kind.
    ///
    /// ```
    /// use seeklab_core::{Event, Instant, OnMedia, RequestId};
    /// let us = |us: u64| Instant::from_ns(us * 1_000);
    /// let event = Event::durable(RequestId(7), 100, 10, us(50), us(150));
    /// assert_eq!(event.on_media(us(50)), OnMedia { blocks: 0, torn: false });
    /// assert_eq!(event.on_media(us(85)), OnMedia { blocks: 3, torn: true });
    /// assert_eq!(event.on_media(us(150)), OnMedia { blocks: 10, torn: false });
    /// let discard = Event::durable(RequestId(8), 100, 10, us(50), us(50));
    /// assert_eq!(discard.on_media(us(49)), OnMedia { blocks: 0, torn: false });
    /// ```
    pub fn on_media(&self, now: Instant) -> OnMedia {
        let EventKind::Durable { begun } = self.kind else { return OnMedia { blocks: 0, torn: false } };
        if now >= self.time {
            return OnMedia { blocks: self.blocks, torn: false };
        }
        if now <= begun {
            // A discard takes no time on the media.
            return OnMedia { blocks: 0, torn: false };
        }
        let (passed, whole) = ((now - begun).as_ns(), (self.time - begun).as_ns());
        let blocks = u128::from(passed) * u128::from(self.blocks);
        let torn = !blocks.is_multiple_of(u128::from(whole));
        OnMedia { blocks: (blocks / u128::from(whole)) as u32, torn }
    }
}
