//! A scheduler chooses the next of the pending requests.

use std::any::Any;

use crate::device::{Location, Positioning};
use crate::request::{Criticality, Request, RequestId};
use crate::units::Instant;

/// A request that waits to be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// The request.
    pub request: Request,
    /// Time of submission to the queue.
    pub submitted: Instant,
    /// Requests ahead of it in the queue's device when it was submitted.
    pub queue_length: u32,
    /// Place of the first block, if the device knows it.
    pub location: Location,
}

/// Chooses the next pending request. Used alike in the host's queue and inside a disk.
///
/// Ties are broken in favour of the request that was pushed first.
pub trait Scheduler: Send {
    /// Adds a pending request.
    fn push(&mut self, pending: Pending);

    /// Removes and returns the request to serve at `now`, `None` if none is pending.
    ///
    /// # Panics
    /// If [`needs_positioning`](Self::needs_positioning) holds and `positioning` is `None`; whoever
    /// builds the queue checks that.
    fn choose(&mut self, now: Instant, positioning: Option<&dyn Positioning>) -> Option<Pending>;

    /// Makes the pending request of that number more pressing, see [`Request::reclassify`]. Returns the class before if it
    /// changed, `None` also if no such request is pending. The request keeps its rank among those of equal cost: it does
    /// not come behind requests that were pushed later.
    fn reclassify(&mut self, id: RequestId, criticality: Criticality) -> Option<Criticality>;

    /// Returns true if the scheduler can only choose for a device that knows where its heads are.
    fn needs_positioning(&self) -> bool;

    /// Number of pending requests.
    fn len(&self) -> usize;

    /// Returns true if no request is pending.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy that continues identically.
    fn fork(&self) -> Box<dyn Scheduler>;

    /// As [`fork`](Self::fork), reusing the memory of an earlier fork of the same scheduler.
    fn fork_into(&self, target: &mut Box<dyn Scheduler>) {
        *target = self.fork();
    }

    /// The scheduler itself, for [`fork_into`](Self::fork_into) to recognise its like.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl Clone for Box<dyn Scheduler> {
    fn clone(&self) -> Self {
        self.fork()
    }
}
