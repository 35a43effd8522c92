//! Requests that a layer of faults has handed to the device beneath.

use std::collections::VecDeque;

use seeklab_core::{Instant, RequestId};

use super::{ROOM, Taken};

/// A request in the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside {
    pub(super) taken: Taken,
    /// Time at which the device received the request, by its clock.
    pub(super) received: Instant,
    /// The request has been answered already: the device was gone for a time.
    pub(super) answered: bool,
    /// The device got the request at its arrival, and nothing has struck it.
    pub(super) is_plain: bool,
}

/// Requests in the device, by number.
#[derive(Debug, Clone)]
pub(super) struct Requests(pub(super) VecDeque<Inside>);

impl Requests {
    pub(super) fn new() -> Self {
        Self(VecDeque::with_capacity(ROOM))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn place(&self, id: RequestId) -> usize {
        self.0.partition_point(|inside| inside.taken.request.id < id)
    }

    /// Numbers ascend as a rule, so that this costs nothing.
    pub(super) fn insert(&mut self, inside: Inside) {
        let id = inside.taken.request.id;
        if self.0.back().is_none_or(|last| last.taken.request.id < id) {
            return self.0.push_back(inside);
        }
        let place = self.place(id);
        self.0.insert(place, inside);
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Inside {
        let is_first = self.0.front().is_some_and(|first| first.taken.request.id == id);
        let place = if is_first { 0 } else { self.place(id) };
        let found = self.0.remove(place).filter(|inside| inside.taken.request.id == id);
        found.expect("a device completes what it was given, once")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Inside> {
        self.0.iter()
    }
}
