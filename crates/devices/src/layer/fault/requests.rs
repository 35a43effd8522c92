//! Requests that a layer of faults has handed to the device beneath.

use std::collections::VecDeque;

use seeklab_core::{Instant, Operation, Request, RequestId};

use super::ROOM;
use super::fate::{Fate, Taken};

/// Reason why a request that completes is one of those in the device.
const COMPLETES_ONCE: &str = "a device completes what it was given, once";

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

/// Requests in the device, by number.
///
/// A request that ends leaves a gap until those before it have ended, so that nothing moves, and as long as numbers
/// ascend by one the place of a request is its distance to the first. Most requests are plain: the rest of the others
/// stands apart, so that a plain one costs no more than it must.
#[derive(Debug)]
pub(super) struct Requests {
    entries: VecDeque<Entry>,
    /// Entries that are no gaps.
    count: usize,
    /// Entries that have been answered.
    answered: usize,
    /// The rest of the requests that are not plain, in no order.
    struck: Vec<Struck>,
}

/// A request, or the gap that it left.
#[derive(Debug, Clone, Copy)]
struct Entry {
    request: Request,
    submitted: Instant,
    queue_length: u32,
    is_gap: bool,
    answered: bool,
    is_plain: bool,
}

/// The rest of a request that is not plain.
#[derive(Debug, Clone, Copy)]
struct Struck {
    id: RequestId,
    fate: Fate,
    received: Instant,
}

impl Entry {
    /// A plain request, of which the number and the times are to be filled in.
    const PLAIN: Self = Self {
        request: Request::new(0, Operation::Read, 0, 0),
        submitted: Instant::ZERO,
        queue_length: 0,
        is_gap: false,
        answered: false,
        is_plain: true,
    };

    /// The request with the rest of it. A plain one was received when it was submitted, and has no fate.
    fn with(&self, struck: Option<&Struck>) -> Inside {
        let &Self { request, submitted, queue_length, answered, is_plain, .. } = self;
        let (fate, received) =
            struck.map_or((Fate::NONE, submitted), |struck| (struck.fate, struck.received));
        Inside { taken: Taken { request, submitted, queue_length, fate }, received, answered, is_plain }
    }
}

impl Requests {
    pub(super) fn new() -> Self {
        let entries = VecDeque::with_capacity(ROOM);
        Self { entries, count: 0, answered: 0, struck: Vec::with_capacity(ROOM) }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Requests that have been answered already.
    #[inline]
    pub(super) fn answered(&self) -> usize {
        self.answered
    }

    /// Returns true if every request is plain and without an answer.
    pub(super) fn are_plain(&self) -> bool {
        self.answered == 0 && self.struck.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.count = 0;
        self.answered = 0;
        self.struck.clear();
    }

    /// Adds a request. Numbers ascend as a rule, so that this costs nothing.
    pub(super) fn insert(&mut self, inside: Inside) {
        let Inside { taken, received, answered, is_plain } = inside;
        let Taken { request, submitted, queue_length, fate } = taken;
        if !is_plain {
            self.struck.push(Struck { id: request.id, fate, received });
        }
        self.count += 1;
        self.answered += usize::from(answered);
        let entry = Entry { request, submitted, queue_length, is_gap: false, answered, is_plain };
        if self.entries.back().is_none_or(|last| last.request.id < request.id) {
            return self.entries.push_back(entry);
        }
        let place = self.entries.partition_point(|other| other.request.id < request.id);
        self.entries.insert(place, entry);
    }

    /// Adds a request that the device receives at `now`, of which nothing is special.
    #[inline]
    pub(super) fn insert_plain(&mut self, now: Instant, request: &Request) {
        let queue_length = self.count as u32;
        if self.entries.back().is_some_and(|last| last.request.id >= request.id) {
            let taken = Taken { request: *request, submitted: now, queue_length, fate: Fate::NONE };
            return self.insert(Inside { taken, received: now, answered: false, is_plain: true });
        }
        self.count += 1;
        // Filled in at its place: a copy of parts that have just been written stalls the processor.
        self.entries.push_back(Entry::PLAIN);
        let entry = self.entries.back_mut().expect("it was added");
        entry.request = *request;
        entry.submitted = now;
        entry.queue_length = queue_length;
    }

    /// Takes the request of that number out.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn remove(&mut self, id: RequestId) -> Inside {
        let place = self.place(id).expect(COMPLETES_ONCE);
        let entry = self.entries[place];
        let struck = (!entry.is_plain).then(|| {
            let place = self.struck.iter().position(|struck| struck.id == id);
            self.struck.swap_remove(place.expect("there is the rest of each that is not plain"))
        });
        self.answered -= usize::from(entry.answered);
        self.remove_plain(id);
        entry.with(struck.as_ref())
    }

    /// Takes out the plain request of that number, which has no answer.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(super) fn remove_plain(&mut self, id: RequestId) {
        self.count -= 1;
        if self.entries.front().is_some_and(|first| first.request.id == id && !first.is_gap) {
            self.entries.pop_front();
            while self.entries.front().is_some_and(|first| first.is_gap) {
                self.entries.pop_front();
            }
            return;
        }
        let place = self.place(id).expect(COMPLETES_ONCE);
        self.entries[place].is_gap = true;
        if self.entries.len() > 2 * self.count + ROOM {
            self.entries.retain(|entry| !entry.is_gap);
        }
    }

    /// Returns true if it has a request of that number.
    pub(super) fn holds(&self, id: RequestId) -> bool {
        self.place(id).is_some()
    }

    /// The request of that number, and true if it has been answered.
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<(&mut Request, bool)> {
        let place = self.place(id)?;
        let entry = &mut self.entries[place];
        Some((&mut entry.request, entry.answered))
    }

    /// The place of the request of that number.
    fn place(&self, id: RequestId) -> Option<usize> {
        let is_it = |place: &usize| {
            self.entries.get(*place).is_some_and(|entry| entry.request.id == id && !entry.is_gap)
        };
        let first = self.entries.front()?.request.id;
        let near = id.0.checked_sub(first.0).and_then(|distance| usize::try_from(distance).ok());
        // A number may have been used before: its gap stands behind.
        near.filter(is_it)
            .or_else(|| Some(self.entries.partition_point(|entry| entry.request.id < id)).filter(is_it))
    }

    /// The time at which the device received the first of those that it holds, by its clock.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let plain = self.entries.iter().filter(|entry| entry.is_plain && !entry.is_gap);
        let plain = plain.map(|entry| entry.submitted);
        plain.chain(self.struck.iter().map(|struck| struck.received)).min()
    }

    /// Answers every request that has no answer, in order of number.
    pub(super) fn answer(&mut self, mut answer: impl FnMut(Taken)) {
        let Self { entries, answered, struck, .. } = self;
        for entry in entries.iter_mut().filter(|entry| !entry.is_gap && !entry.answered) {
            entry.answered = true;
            *answered += 1;
            let id = entry.request.id;
            answer(entry.with(struck.iter().find(|struck| struck.id == id)).taken);
        }
    }

    /// Becomes as `other`, with as much room, so that a fork grows only when its source has.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.entries.clear();
        self.entries.reserve(other.entries.capacity());
        self.entries.extend(other.entries.iter().filter(|entry| !entry.is_gap));
        self.count = other.count;
        self.answered = other.answered;
        self.struck.clear();
        self.struck.reserve(other.struck.capacity());
        self.struck.extend_from_slice(&other.struck);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use seeklab_core::Duration;

    use super::*;

    /// A request with the fate and the times of its number of a step; each third is plain.
    fn inside(id: u64, step: u64) -> Inside {
        let submitted = Instant::from_ns(step);
        let is_plain = step.is_multiple_of(3);
        let (later, delay) = if is_plain { (0, 0) } else { (step % 5, step) };
        let fate = Fate { delay: Duration::from_ns(delay), ..Fate::NONE };
        let taken =
            Taken { request: Request::new(id, Operation::Read, step, 1), submitted, queue_length: 7, fate };
        Inside { taken, received: submitted + Duration::from_ns(later), answered: false, is_plain }
    }

    /// The parts of a request that tests compare.
    fn parts(inside: &Inside) -> (u64, u64, u64, u64, bool) {
        let Inside { taken, received, answered, .. } = inside;
        let submitted = taken.submitted.as_ns();
        (taken.request.lbn, submitted, received.as_ns(), taken.fate.delay.as_ns(), *answered)
    }

    /// The requests as a removal returns them, in order of number.
    fn held(requests: &Requests) -> Vec<(u64, (u64, u64, u64, u64, bool))> {
        let mut all = Requests::new();
        all.copy_from(requests);
        let ids: Vec<RequestId> = all.entries.iter().map(|entry| entry.request.id).collect();
        ids.into_iter().map(|id| (id.0, parts(&all.remove(id)))).collect()
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
                if step % 100 == 99 {
                    // Everything is answered.
                    let mut answered = Vec::new();
                    requests.answer(|taken| answered.push((taken.request.id.0, taken.fate.delay.as_ns())));
                    let due = map.iter().filter(|(_, inside): &(_, &Inside)| !inside.answered);
                    let due: Vec<_> = due.map(|(id, inside)| (*id, inside.taken.fate.delay.as_ns())).collect();
                    prop_assert_eq!(answered, due);
                    map.values_mut().for_each(|inside| inside.answered = true);
                } else if is_known && let Some(id) = map.keys().copied().nth(id as usize % map.len().max(1)) {
                    let expected = map.remove(&id).unwrap();
                    if expected.is_plain && !expected.answered {
                        requests.remove_plain(RequestId(id));
                    } else {
                        prop_assert_eq!(parts(&requests.remove(RequestId(id))), parts(&expected));
                    }
                } else {
                    let id = if ascends { ascending } else { id };
                    ascending += u64::from(ascends);
                    if map.contains_key(&id) {
                        continue;
                    }
                    let inside = inside(id, step);
                    map.insert(id, inside);
                    if inside.is_plain && step.is_multiple_of(2) {
                        requests.insert_plain(inside.received, &inside.taken.request);
                    } else {
                        requests.insert(inside);
                    }
                }
                prop_assert_eq!(held(&requests), map.iter().map(|(id, one)| (*id, parts(one))).collect::<Vec<_>>());
                prop_assert_eq!(requests.len(), map.len());
                prop_assert_eq!(requests.answered(), map.values().filter(|inside| inside.answered).count());
                prop_assert_eq!(requests.are_plain(), map.values().all(|one| one.is_plain && !one.answered));
                prop_assert_eq!(requests.oldest(), map.values().map(|inside| inside.received).min());
                prop_assert!(requests.entries.len() <= 2 * map.len() + ROOM + 1);
                copy.copy_from(&requests);
                std::mem::swap(&mut copy, &mut requests);
            }
        }
    }
}
