//! A storage device as a pure state machine.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::completion::Completion;
use crate::coverage::Coverage;
use crate::event::Event;
use crate::hazards::{Absence, FaultWindow, Hazards};
use crate::reclassification::Reclassification;
use crate::request::{Criticality, Operation, Request};
use crate::units::{Angle, ByteSize, Duration, Instant};

/// A storage device: a pure state machine with time as an argument.
///
/// It never reads a clock, never sleeps, never does I/O and never sees data. The same object is
/// driven by [`simulate()`](crate::simulate()), by the pacer of the emulator and by a benchmark.
///
/// # Contract
/// - Every accepted request completes exactly once, never before its submission.
/// - [`next_event`](Self::next_event) never lies before the last time given to the device.
/// - `now` never goes back from call to call; the caller polls up to `now` before it submits or reclassifies.
/// - Polling in one big step or in many small ones yields the same completions.
/// - Equal states, inputs and seeds give equal completions; a fork continues identically.
/// - The breakdown of a completion sums to its response time.
/// - Whether and when a device's events are taken changes no completion.
///
/// A *layer* is a device that owns a device; it needs no trait of its own. The device [beneath](Self::beneath) answers
/// what the layer leaves to it.
pub trait Device: Send {
    /// Hands `request` to the device at `now`.
    ///
    /// # Errors
    /// [`Rejected`], with the reason, if the device does not take the request. The device is then
    /// unchanged.
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected>;

    /// Makes an outstanding request more pressing at `now`: its completion carries the new class, and what has not been
    /// chosen for service is chosen by it from now on. Returns the class before if it changed.
    ///
    /// Nothing changes, and the answer is `None`, if the device does not hold such a request (its number is unknown, or
    /// it is complete) or if the class stated is not more pressing than its own. A layer passes the change on to the
    /// device beneath and applies it to what waits in the layer itself. It changes the completion time of no request that
    /// has begun.
    fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality>;

    /// Advances the device to `now` and appends what completed, in order of completion time.
    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>);

    /// Returns the time at which the device must next be polled, `None` while nothing is outstanding.
    fn next_event(&self) -> Option<Instant>;

    /// Returns the properties of the device.
    fn capabilities(&self) -> &Capabilities;

    /// The device that a layer owns, if the layer leaves to it the methods that it does not have itself.
    fn beneath(&self) -> Option<&dyn Device> {
        None
    }

    /// The same device, to be changed.
    fn beneath_mut(&mut self) -> Option<&mut (dyn Device + 'static)> {
        None
    }

    /// The device's knowledge of where its heads are, if it has any. Their place is that of the last command or call of
    /// [`advance_heads`](Self::advance_heads): a choice by position at a later time begins with that call.
    fn positioning(&self) -> Option<&dyn Positioning> {
        self.beneath()?.positioning()
    }

    /// Moves the heads as the background work (read-ahead, destages) moves them until the device can begin a request that
    /// is submitted at `now`. To be called when a request is submitted or chosen for submission: the device does the same
    /// work at the same time without the call, so the call changes no completion.
    fn advance_heads(&mut self, now: Instant) {
        if let Some(device) = self.beneath_mut() {
            device.advance_heads(now);
        }
    }

    /// [Advances the heads](Self::advance_heads) for a request without blocks, whose location is the place of the heads.
    fn advance_heads_for_place(&mut self, now: Instant, request: &Request) {
        if !request.op.addresses_blocks() {
            self.advance_heads(now);
        }
    }

    /// Estimates the cost of serving `request` from `now` on, without serving it; `None` if unknown.
    fn estimate(&self, now: Instant, request: &Request) -> Option<Estimate> {
        let positioning = self.positioning()?;
        Some(Estimate {
            positioning: positioning.positioning_time(now, request.op, &positioning.locate(request)),
            buffer_hit: positioning.buffer_holds(request),
        })
    }

    /// Returns the number of requests inside and outside the region that the model was fitted to. `None`
    /// if the model has no such region.
    fn coverage(&self) -> Option<Coverage> {
        self.beneath()?.coverage()
    }

    /// Returns the names of the faults that may strike a request, in the order of their numbers in
    /// [`Completion::faults`]. A layer has those of its device first.
    fn faults(&self) -> Vec<Arc<str>> {
        self.beneath().map_or_else(Vec::new, |device| device.faults())
    }

    /// Faults that the device can have.
    fn hazards(&self) -> Hazards {
        self.beneath().map_or_else(Hazards::default, |device| device.hazards())
    }

    /// The first absence of the device that ends behind `after`, a time that does not go back.
    fn next_absence(&self, after: Instant) -> Option<Absence> {
        self.beneath()?.next_absence(after)
    }

    /// The times before `end` for which faults of the whole device last, such as a stall, fault by fault. No request need
    /// arrive then.
    fn fault_windows(&self, end: Instant) -> Vec<FaultWindow> {
        self.beneath().map_or_else(Vec::new, |device| device.fault_windows(end))
    }

    /// From now on the device keeps its [events](Event). Requests must have numbers of their own then: none is used
    /// again. A fork of a watched device is watched.
    ///
    /// # Panics
    /// If a request has been submitted before.
    fn watch(&mut self) {
        if let Some(device) = self.beneath_mut() {
            device.watch();
        }
    }

    /// Appends the events up to `now` that were not handed out before, in order of time. Work of the device's own that
    /// has happened since its last request is included. The answers of the device do not depend on it.
    ///
    /// A device that is not watched has no events. Of a watched device, every write, discard and write-zeroes that
    /// completes without an error and is not overwritten before becomes [durable](crate::EventKind::Durable): without
    /// a volatile cache by its completion, otherwise by that of the flush that follows it, or of its own with force
    /// unit access.
    fn events(&mut self, now: Instant, events: &mut Vec<Event>) {
        if let Some(device) = self.beneath_mut() {
            device.events(now, events);
        }
    }

    /// The time of the last event of the work that waits in a watched device, such as destaging its buffer, if the device
    /// gets no more requests. `None` if nothing waits.
    fn work_ends(&self) -> Option<Instant> {
        self.beneath()?.work_ends()
    }

    /// A copy that continues identically (checkpoint, speculation).
    fn fork(&self) -> Box<dyn Device>;

    /// As [`fork`](Self::fork), reusing the memory of an earlier fork of the same device.
    fn fork_into(&self, target: &mut Box<dyn Device>) {
        *target = self.fork();
    }

    /// The device itself, for [`fork_into`](Self::fork_into) to recognise its like.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Questions that a scheduler may put to a device that knows where its heads are.
///
/// The trait is separate from [`Device`] because the queue inside a disk must consult the disk's
/// mechanism while the disk holds both, so the mechanism must be borrowable alone. Locating a request
/// is separate from estimating it: a request is located once, but estimated at every choice.
pub trait Positioning {
    /// Returns the place of the first block of `request`.
    fn locate(&self, request: &Request) -> Location;

    /// Seek or head switch, settle and rotational latency of a request at `location` that the device
    /// would begin at `now`, or when it next becomes free. No side effect.
    fn positioning_time(&self, now: Instant, op: Operation, location: &Location) -> Duration;

    /// Returns true if the device's buffer would answer `request`, or begin to, without a media access.
    fn buffer_holds(&self, request: &Request) -> bool;

    /// Returns the place of what the media writes next, if `request` is a write that the device's buffer takes, but has no room for
    /// at `now`.
    fn buffer_lacks_room(&self, now: Instant, request: &Request) -> Option<Location>;

    /// Lower bound of the positioning time over `cylinders` cylinders or more.
    fn positioning_min(&self, cylinders: u32) -> Duration;

    /// Cylinders of the device.
    fn cylinders(&self) -> u32;

    /// The cylinder under the arm when the device next becomes free.
    fn cylinder(&self) -> u32;

    /// Time of one turn of the media, `None` of media that do not turn.
    fn turn(&self) -> Option<Duration>;
}

/// A place on the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Location {
    /// Cylinder, counted from the outer edge.
    pub cylinder: u32,
    /// Head, which is the surface.
    pub head: u32,
    /// Angle at which the first sector begins.
    pub angle: Angle,
}

/// Estimated cost of serving a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Seek or head switch, settle and rotational latency if the media is accessed.
    pub positioning: Duration,
    /// True if the device's buffer would answer the request, so that the media is not accessed.
    pub buffer_hit: bool,
}

/// Properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Blocks that can be addressed.
    pub capacity_blocks: u64,
    /// Bytes in a block.
    pub block_size: ByteSize,
    /// Requests that the device holds at a time; more are rejected.
    pub queue_depth: u32,
    /// True if completed writes can be lost before a flush.
    pub volatile_write_cache: bool,
    /// True if the device has moving media, so that hosts schedule for it.
    pub rotational: bool,
}

impl Capabilities {
    /// Bytes that can be addressed.
    pub fn capacity(&self) -> ByteSize {
        ByteSize::from_bytes(self.capacity_blocks.saturating_mul(self.block_size.as_bytes()))
    }

    /// Checks that `request` has blocks and lies within the device.
    ///
    /// # Errors
    /// [`Rejected::Empty`] or [`Rejected::OutOfRange`].
    pub fn check(&self, request: &Request) -> Result<(), Rejected> {
        if !request.op.addresses_blocks() {
            return Ok(());
        }
        if request.blocks == 0 {
            return Err(Rejected::Empty { op: request.op });
        }
        if request.end() > self.capacity_blocks {
            return Err(Rejected::OutOfRange {
                lbn: request.lbn,
                blocks: request.blocks,
                capacity_blocks: self.capacity_blocks,
            });
        }
        Ok(())
    }
}

/// Reason why a device did not take a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The request addresses blocks that the device does not have.
    #[error(
        "blocks {lbn}..{} lie beyond the end of the device, which has {capacity_blocks} blocks",
        lbn.saturating_add(u64::from(*blocks))
    )]
    OutOfRange {
        /// First block of the request.
        lbn: u64,
        /// Number of blocks of the request.
        blocks: u32,
        /// Blocks that the device has.
        capacity_blocks: u64,
    },
    /// The request addresses no blocks.
    #[error("a {} of 0 blocks, at least 1 is allowed", op.name())]
    Empty {
        /// Operation of the request.
        op: Operation,
    },
    /// The device holds as many requests as it can.
    #[error("the device already holds {queue_depth} requests, its queue depth")]
    QueueFull {
        /// Requests that the device holds at a time.
        queue_depth: u32,
    },
    /// The request names a device that is not there.
    #[error("device {device}, which is none of the {devices} devices")]
    NoSuchDevice {
        /// Device that the request names.
        device: u16,
        /// Number of devices.
        devices: usize,
    },
}

impl fmt::Debug for dyn Device {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Device({:?})", self.capabilities())
    }
}

impl Device for Box<dyn Device> {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        (**self).submit(now, request)
    }
    fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
        (**self).reclassify(now, change)
    }
    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        (**self).poll(now, completions);
    }
    fn next_event(&self) -> Option<Instant> {
        (**self).next_event()
    }
    fn capabilities(&self) -> &Capabilities {
        (**self).capabilities()
    }
    fn beneath(&self) -> Option<&dyn Device> {
        (**self).beneath()
    }
    fn beneath_mut(&mut self) -> Option<&mut (dyn Device + 'static)> {
        (**self).beneath_mut()
    }
    fn positioning(&self) -> Option<&dyn Positioning> {
        (**self).positioning()
    }
    fn advance_heads(&mut self, now: Instant) {
        (**self).advance_heads(now);
    }
    fn estimate(&self, now: Instant, request: &Request) -> Option<Estimate> {
        (**self).estimate(now, request)
    }
    fn coverage(&self) -> Option<Coverage> {
        (**self).coverage()
    }
    fn faults(&self) -> Vec<Arc<str>> {
        (**self).faults()
    }
    fn hazards(&self) -> Hazards {
        (**self).hazards()
    }
    fn next_absence(&self, after: Instant) -> Option<Absence> {
        (**self).next_absence(after)
    }
    fn fault_windows(&self, end: Instant) -> Vec<FaultWindow> {
        (**self).fault_windows(end)
    }
    fn watch(&mut self) {
        (**self).watch();
    }
    fn events(&mut self, now: Instant, events: &mut Vec<Event>) {
        (**self).events(now, events);
    }
    fn work_ends(&self) -> Option<Instant> {
        (**self).work_ends()
    }
    fn fork(&self) -> Box<dyn Device> {
        (**self).fork()
    }
    fn fork_into(&self, target: &mut Box<dyn Device>) {
        (**self).fork_into(target);
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        (**self).as_any_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_may_reach_the_last_block_and_no_further() {
        let capabilities = Capabilities {
            capacity_blocks: 100,
            block_size: ByteSize::from_bytes(512),
            queue_depth: 1,
            volatile_write_cache: false,
            rotational: false,
        };
        let check = |op, lbn, blocks| capabilities.check(&Request::new(0, op, lbn, blocks));
        for op in [Operation::Read, Operation::Write] {
            assert_eq!(check(op, 99, 1), Ok(()), "the last block");
            assert_eq!(check(op, 0, 100), Ok(()), "all blocks");
            for (lbn, blocks) in [(99, 2), (100, 1), (0, 101), (u64::MAX, 1), (u64::MAX, u32::MAX)] {
                let beyond = Rejected::OutOfRange { lbn, blocks, capacity_blocks: 100 };
                assert_eq!(check(op, lbn, blocks), Err(beyond));
            }
            assert_eq!(check(op, 5, 0), Err(Rejected::Empty { op }));
        }
        assert_eq!(check(Operation::Flush, 0, 0), Ok(()));
    }
}
