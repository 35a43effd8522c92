//! Requests that a layer of faults has handed to the device beneath.

use std::collections::VecDeque;

use seeklab_core::{Instant, Request, RequestId};

use super::ROOM;
use super::fate::Taken;

/// Reason why a request that completes is one of those in the device.
const COMPLETES_ONCE: &str = "a device completes what it was given, once";

/// A request in the device of which the layer remembers something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inside {
    pub(super) taken: Taken,
    /// Time at which the device received the request, by its clock.
    pub(super) received: Instant,
    /// The request has been answered already: the device was gone for a time.
    pub(super) answered: bool,
}

/// Requests in the device.
///
/// A plain request is one that nothing has struck, which the device received at its arrival while its time had always
/// been the time outside. The device's own completion says everything about it, so plain requests are counted and nothing
/// else. The others are kept by number. One that ends leaves a gap until those before it have ended, so that nothing
/// moves.
#[derive(Debug)]
pub(super) struct Requests {
    plain: usize,
    entries: VecDeque<Entry>,
    /// Entries that are no gaps.
    kept: usize,
    /// Entries that have been answered.
    answered: usize,
}

/// A request, or the gap that it left.
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
        Self { plain: 0, entries: VecDeque::with_capacity(ROOM), kept: 0, answered: 0 }
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.plain + self.kept
    }

    /// Requests that have been answered already.
    pub(super) const fn answered(&self) -> usize {
        self.answered
    }

    /// Returns true if every request is plain.
    pub(super) const fn are_plain(&self) -> bool {
        self.kept == 0
    }

    /// Returns true if a request is plain.
    pub(super) const fn has_plain(&self) -> bool {
        self.plain > 0
    }

    pub(super) fn clear(&mut self) {
        self.plain = 0;
        self.entries.clear();
        self.kept = 0;
        self.answered = 0;
    }

    /// Adds a plain request.
    #[inline]
    pub(super) const fn add_plain(&mut self) {
        self.plain += 1;
    }

    /// Takes out so many plain requests.
    #[inline]
    pub(super) const fn remove_plain(&mut self, count: usize) {
        self.plain -= count;
    }

    /// Adds a request that is not plain. Numbers ascend as a rule, so that this costs nothing.
    pub(super) fn insert(&mut self, inside: Inside) {
        self.kept += 1;
        self.answered += usize::from(inside.answered);
        let entry = Entry { inside, is_gap: false };
        let place = match self.entries.back() {
            Some(last) if last.id() >= entry.id() => {
                self.entries.partition_point(|other| other.id() < entry.id())
            }
            _ => self.entries.len(),
        };
        self.entries.insert(place, entry);
    }

    /// Takes the request of that number out. `None` if it is plain.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Inside> {
        let Some(place) = self.place(id) else {
            self.plain = self.plain.checked_sub(1).expect(COMPLETES_ONCE);
            return None;
        };
        let inside = self.entries[place].inside;
        self.kept -= 1;
        self.answered -= usize::from(inside.answered);
        self.entries[place].is_gap = true;
        while self.entries.front().is_some_and(|first| first.is_gap) {
            self.entries.pop_front();
        }
        if self.entries.len() > 2 * self.kept + ROOM {
            self.entries.retain(|entry| !entry.is_gap);
        }
        Some(inside)
    }

    /// Keeps the plain requests by number from now on. They are those of `outstanding`, all requests in the device, that are
    /// not kept already, and were received when they were submitted.
    pub(super) fn keep_plain(&mut self, outstanding: impl IntoIterator<Item = Taken>) {
        let before = self.len();
        self.plain = 0;
        for taken in outstanding {
            if !self.keeps(taken.request.id) {
                self.insert(Inside { taken, received: taken.submitted, answered: false });
            }
        }
        assert!(self.len() == before, "a device completes what it was given, and nothing else");
    }

    /// Returns true if it keeps a request of that number, so that it is not plain.
    pub(super) fn keeps(&self, id: RequestId) -> bool {
        self.place(id).is_some()
    }

    /// The request of that number, and true if it has been answered. `None` if it is plain.
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<(&mut Request, bool)> {
        let place = self.place(id)?;
        let inside = &mut self.entries[place].inside;
        Some((&mut inside.taken.request, inside.answered))
    }

    /// The place of the request of that number.
    fn place(&self, id: RequestId) -> Option<usize> {
        // A number may have been used before: its gap stands behind.
        let place = self.entries.partition_point(|entry| entry.id() < id);
        self.entries.get(place).filter(|entry| entry.id() == id && !entry.is_gap).map(|_| place)
    }

    /// The time at which the device received the first of those that are kept, by its clock.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let kept = self.entries.iter().filter(|entry| !entry.is_gap);
        kept.map(|entry| entry.inside.received).min()
    }

    /// Answers every request that is kept and has no answer, in order of number.
    pub(super) fn answer(&mut self, mut answer: impl FnMut(Taken)) {
        let Self { entries, answered, .. } = self;
        for entry in entries.iter_mut().filter(|entry| !entry.is_gap && !entry.inside.answered) {
            entry.inside.answered = true;
            *answered += 1;
            answer(entry.inside.taken);
        }
    }

    /// Becomes as `other`, with as much room, so that a fork grows only when its source has.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.plain = other.plain;
        self.entries.clear();
        self.entries.reserve(other.entries.capacity());
        self.entries.extend(other.entries.iter().filter(|entry| !entry.is_gap));
        self.kept = other.kept;
        self.answered = other.answered;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use seeklab_core::{Duration, Operation};

    use super::super::fate::Fate;
    use super::*;

    /// A request with the fate and the times of its number of a step.
    fn inside(id: u64, step: u64) -> Inside {
        let submitted = Instant::from_ns(step);
        let fate = Fate { delay: Duration::from_ns(step), ..Fate::NONE };
        let taken =
            Taken { request: Request::new(id, Operation::Read, step, 1), submitted, queue_length: 7, fate };
        Inside { taken, received: submitted + Duration::from_ns(step % 5), answered: false }
    }

    /// The parts of a request that tests compare.
    fn parts(inside: &Inside) -> (u64, u64, u64, u64, bool) {
        let Inside { taken, received, answered } = inside;
        let submitted = taken.submitted.as_ns();
        (taken.request.lbn, submitted, received.as_ns(), taken.fate.delay.as_ns(), *answered)
    }

    /// The requests as a removal returns them, in order of number.
    fn kept(requests: &Requests) -> Vec<(u64, (u64, u64, u64, u64, bool))> {
        let mut all = Requests::new();
        all.copy_from(requests);
        let ids: Vec<RequestId> = all.entries.iter().map(Entry::id).collect();
        ids.into_iter().map(|id| (id.0, parts(&all.remove(id).unwrap()))).collect()
    }

    proptest! {
        #[test]
        fn requests_are_those_of_a_map_in_order_of_number(
            steps in prop::collection::vec((0_u64..90, any::<bool>(), any::<bool>()), 1..400)
        ) {
            let (mut requests, mut copy) = (Requests::new(), Requests::new());
            // Those that are kept, and the times of plain ones.
            let (mut map, mut plain) = (BTreeMap::new(), BTreeMap::new());
            let mut ascending = 100;
            for (step, (id, is_known, ascends)) in steps.into_iter().enumerate() {
                let step = step as u64;
                let known: Vec<u64> = map.keys().chain(plain.keys()).copied().collect();
                if step % 100 == 99 {
                    // The plain ones are kept, and everything is answered.
                    let taken = |(id, submitted): (u64, Instant)| {
                        let request = Request::new(id, Operation::Read, 3, 1);
                        Taken { request, submitted, queue_length: 1, fate: Fate::NONE }
                    };
                    let before: Vec<Taken> = std::mem::take(&mut plain).into_iter().map(taken).collect();
                    let kept = map.values().map(|inside: &Inside| inside.taken);
                    requests.keep_plain(before.iter().copied().chain(kept));
                    map.extend(before.into_iter().map(|taken| {
                        (taken.request.id.0, Inside { taken, received: taken.submitted, answered: false })
                    }));
                    let mut answered = Vec::new();
                    requests.answer(|taken| answered.push((taken.request.id.0, taken.fate.delay.as_ns())));
                    let due = map.iter().filter(|(_, inside): &(_, &Inside)| !inside.answered);
                    let due: Vec<_> = due.map(|(id, inside)| (*id, inside.taken.fate.delay.as_ns())).collect();
                    prop_assert_eq!(answered, due);
                    map.values_mut().for_each(|inside| inside.answered = true);
                } else if is_known && let Some(&id) = known.get(id as usize % known.len().max(1)) {
                    let found = requests.remove(RequestId(id)).map(|inside| parts(&inside));
                    prop_assert_eq!(found, map.remove(&id).map(|inside| parts(&inside)));
                    prop_assert_eq!(found.is_none(), plain.remove(&id).is_some());
                } else {
                    let id = if ascends { ascending } else { id };
                    ascending += u64::from(ascends);
                    if known.contains(&id) {
                        continue;
                    }
                    if step.is_multiple_of(3) {
                        plain.insert(id, Instant::from_ns(step));
                        requests.add_plain();
                    } else {
                        map.insert(id, inside(id, step));
                        requests.insert(inside(id, step));
                    }
                }
                prop_assert_eq!(kept(&requests), map.iter().map(|(id, one)| (*id, parts(one))).collect::<Vec<_>>());
                prop_assert_eq!(requests.len(), map.len() + plain.len());
                prop_assert_eq!(requests.answered(), map.values().filter(|inside| inside.answered).count());
                prop_assert_eq!((requests.are_plain(), requests.has_plain()), (map.is_empty(), !plain.is_empty()));
                prop_assert_eq!(requests.oldest(), map.values().map(|inside| inside.received).min());
                prop_assert!(requests.entries.len() <= 2 * map.len() + ROOM + 1);
                copy.copy_from(&requests);
                std::mem::swap(&mut copy, &mut requests);
            }
        }
    }
}
