//! Pending requests in order of cylinder, for looking outwards from the arm.

use seeklab_core::{Location, Operation, Pending, RequestId};

/// Part of a pending request that the search reads, kept apart from the rest so that many fit in the
/// cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Place of the first block.
    pub(super) location: Location,
    /// Rank of its arrival.
    pub(super) rank: u64,
    /// Operation of the request.
    pub(super) op: Operation,
}

/// Pending requests by cylinder, in a sorted array: up to some thousands, moving its tail costs less
/// than following a tree.
#[derive(Debug, Default)]
pub(super) struct Outward {
    /// Cylinder in the upper half, slot in the lower.
    keys: Vec<u64>,
    candidates: Vec<Candidate>,
    pending: Vec<Pending>,
    free_slots: Vec<u32>,
    pushed: u64,
}

const SLOT_BITS: u32 = 32;

impl Outward {
    pub(super) fn push(&mut self, pending: Pending) {
        let candidate = Candidate { location: pending.location, rank: self.pushed, op: pending.request.op };
        self.pushed += 1;
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.candidates[slot as usize] = candidate;
                self.pending[slot as usize] = pending;
                slot
            }
            None => {
                self.candidates.push(candidate);
                self.pending.push(pending);
                u32::try_from(self.pending.len() - 1).expect("fewer than 2^32 requests are pending")
            }
        };
        let key = u64::from(pending.location.cylinder) << SLOT_BITS | u64::from(slot);
        let place = self.keys.partition_point(|other| *other < key);
        self.keys.insert(place, key);
    }

    /// Removes the request at `place` of the order.
    pub(super) fn remove(&mut self, place: usize) -> Pending {
        let slot = self.keys.remove(place) as u32;
        self.free_slots.push(slot);
        self.pending[slot as usize]
    }

    /// The pending request of that number.
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Pending> {
        let mut slots = self.keys.iter().map(|key| *key as u32 as usize);
        let slot = slots.find(|slot| self.pending[*slot].request.id == id)?;
        Some(&mut self.pending[slot])
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Place of the first request at or above `cylinder`.
    pub(super) fn place_of(&self, cylinder: u32) -> usize {
        let key = u64::from(cylinder) << SLOT_BITS;
        self.keys.partition_point(|other| *other < key)
    }

    /// Cylinder of the request at `place`, `None` past the end.
    pub(super) fn cylinder(&self, place: usize) -> Option<u32> {
        self.keys.get(place).map(|key| (key >> SLOT_BITS) as u32)
    }

    /// The request at `place`.
    pub(super) fn candidate(&self, place: usize) -> &Candidate {
        &self.candidates[self.keys[place] as u32 as usize]
    }
}

impl Clone for Outward {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        self.keys.clone_from(&source.keys);
        self.candidates.clone_from(&source.candidates);
        self.pending.clone_from(&source.pending);
        self.free_slots.clone_from(&source.free_slots);
        self.pushed = source.pushed;
    }
}
