//! Requests that a layer of faults has handed to the device beneath.

use std::collections::VecDeque;

use seeklab_core::{Instant, Operation, Request, RequestId};

use super::{Fate, ROOM, Taken};

/// A request in the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside {
    pub(super) taken: Taken,
    /// Time at which the device received the request, by its clock.
    pub(super) received: Instant,
    /// The request has been answered already: the device was gone for a time.
    pub(super) answered: bool,
    /// The device got the request at its arrival and holds no other that the layer does not, and nothing has struck it.
    pub(super) is_plain: bool,
}

impl Inside {
    /// A plain request, of which the number and the times are to be filled in.
    const PLAIN: Self = Self {
        taken: Taken {
            request: Request::new(0, Operation::Read, 0, 0),
            submitted: Instant::ZERO,
            queue_length: 0,
            fate: Fate::NONE,
        },
        received: Instant::ZERO,
        answered: false,
        is_plain: true,
    };
}

/// Requests in the device, by number.
///
/// A request that ends leaves a gap until those before it have ended, so that nothing moves, and as long as numbers
/// ascend by one the place of a request is its distance to the first.
#[derive(Debug)]
pub(super) struct Requests {
    entries: VecDeque<Entry>,
    /// Entries that are no gaps.
    count: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    inside: Inside,
    is_gap: bool,
}

impl Entry {
    const fn id(&self) -> RequestId {
        self.inside.taken.request.id
    }
}

impl Requests {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::with_capacity(ROOM), count: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.count = 0;
    }

    /// Adds a request. Numbers ascend as a rule, so that this costs nothing.
    #[inline]
    pub(super) fn insert(&mut self, inside: Inside) {
        let entry = Entry { inside, is_gap: false };
        self.count += 1;
        if self.entries.back().is_none_or(|last| last.id() < entry.id()) {
            return self.entries.push_back(entry);
        }
        let place = self.entries.partition_point(|other| other.id() < entry.id());
        self.entries.insert(place, entry);
    }

    /// Adds a request that the device receives at `now`, of which nothing is special.
    #[inline]
    pub(super) fn insert_plain(&mut self, now: Instant, request: &Request) {
        let queue_length = self.count as u32;
        if self.entries.back().is_some_and(|last| last.id() >= request.id) {
            let taken = Taken { request: *request, submitted: now, queue_length, fate: Fate::NONE };
            return self.insert(Inside { taken, received: now, ..Inside::PLAIN });
        }
        self.count += 1;
        // Filled in at its place: a copy of parts that have just been written stalls the processor.
        self.entries.push_back(Entry { inside: Inside::PLAIN, is_gap: false });
        let inside = &mut self.entries.back_mut().expect("it was added").inside;
        inside.taken.request = *request;
        inside.taken.submitted = now;
        inside.taken.queue_length = queue_length;
        inside.received = now;
    }

    /// Takes the request of that number out.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn remove(&mut self, id: RequestId) -> Inside {
        self.count -= 1;
        if let Some(first) = self.entries.front().filter(|first| first.id() == id && !first.is_gap) {
            let inside = first.inside;
            self.entries.pop_front();
            while self.entries.front().is_some_and(|first| first.is_gap) {
                self.entries.pop_front();
            }
            return inside;
        }
        let place = self.place(id).expect("a device completes what it was given, once");
        self.entries[place].is_gap = true;
        let inside = self.entries[place].inside;
        if self.entries.len() > 2 * self.count + ROOM {
            self.entries.retain(|entry| !entry.is_gap);
        }
        inside
    }

    /// Returns true if it has a request of that number.
    pub(super) fn holds(&self, id: RequestId) -> bool {
        self.place(id).is_some()
    }

    /// The request of that number.
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Inside> {
        self.place(id).map(|place| &mut self.entries[place].inside)
    }

    /// The place of the request of that number.
    fn place(&self, id: RequestId) -> Option<usize> {
        let is_it =
            |place: &usize| self.entries.get(*place).is_some_and(|entry| entry.id() == id && !entry.is_gap);
        let first = self.entries.front()?.id();
        let near = id.0.checked_sub(first.0).and_then(|distance| usize::try_from(distance).ok());
        // A number may have been used before: its gap stands behind.
        near.filter(is_it)
            .or_else(|| Some(self.entries.partition_point(|entry| entry.id() < id)).filter(is_it))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Inside> {
        self.entries.iter().filter(|entry| !entry.is_gap).map(|entry| &entry.inside)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Inside> {
        self.entries.iter_mut().filter(|entry| !entry.is_gap).map(|entry| &mut entry.inside)
    }

    /// Becomes as `other`, with as much room, so that a fork grows only when its source has.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.entries.clear();
        self.entries.reserve(other.entries.capacity());
        self.entries.extend(other.entries.iter().filter(|entry| !entry.is_gap));
        self.count = other.count;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn inside(id: u64, received: u64) -> Inside {
        let request = Request::new(id, Operation::Read, 0, 1);
        let taken = Taken { request, submitted: Instant::ZERO, queue_length: 0, fate: Fate::default() };
        Inside { taken, received: Instant::from_ns(received), answered: false, is_plain: true }
    }

    proptest! {
        #[test]
        fn requests_are_those_of_a_map_in_order_of_number(
            steps in prop::collection::vec((0_u64..90, any::<bool>(), any::<bool>()), 1..400)
        ) {
            let (mut requests, mut copy, mut map) = (Requests::new(), Requests::new(), BTreeMap::new());
            let mut ascending = 100;
            for (step, (id, is_known, ascends)) in steps.into_iter().enumerate() {
                let step = step as u64;
                if is_known && let Some(id) = map.keys().copied().nth(id as usize % map.len().max(1)) {
                    let expected = map.remove(&id).unwrap();
                    prop_assert_eq!(requests.remove(RequestId(id)).received.as_ns(), expected);
                } else {
                    let id = if ascends { ascending } else { id };
                    ascending += u64::from(ascends);
                    if map.contains_key(&id) {
                        continue;
                    }
                    map.insert(id, step);
                    if step.is_multiple_of(3) {
                        requests.insert_plain(Instant::from_ns(step), &inside(id, step).taken.request);
                    } else {
                        requests.insert(inside(id, step));
                    }
                }
                let held: Vec<(u64, u64)> =
                    requests.iter().map(|inside| (inside.taken.request.id.0, inside.received.as_ns())).collect();
                prop_assert_eq!(held, map.iter().map(|(id, step)| (*id, *step)).collect::<Vec<_>>());
                prop_assert_eq!(requests.len(), map.len());
                prop_assert!(requests.entries.len() <= 2 * map.len() + ROOM + 1);
                copy.copy_from(&requests);
                std::mem::swap(&mut copy, &mut requests);
            }
        }
    }
}
