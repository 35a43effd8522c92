//! The next events of several devices, ordered: finding the earliest costs nothing, changing one a logarithm.

use seeklab_core::Instant;

/// Place of a device that has no event.
const NOWHERE: u32 = u32::MAX;

/// A binary heap of next events that knows where each device stands in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Events {
    /// Time, number of the device, and its index; the least first.
    heap: Vec<(Instant, u16, u32)>,
    /// Place in the heap by index of the device.
    places: Vec<u32>,
}

impl Events {
    /// The earliest event with the index of its device; of events at one time that of the lowest number.
    pub(super) fn first(&self) -> Option<(Instant, usize)> {
        self.heap.first().map(|(at, _, index)| (*at, *index as usize))
    }

    /// The next event of a device has become `event`.
    pub(super) fn update(&mut self, index: usize, number: u16, event: Option<Instant>) {
        if self.places.len() <= index {
            self.places.resize(index + 1, NOWHERE);
        }
        let place = self.places[index];
        match (event, place) {
            (None, NOWHERE) => {}
            (None, place) => self.remove(place as usize),
            (Some(at), NOWHERE) => {
                let place = self.heap.len();
                self.heap.push((at, number, index as u32));
                self.places[index] = place as u32;
                self.rise(place);
            }
            (Some(at), place) => {
                self.heap[place as usize].0 = at;
                self.settle(place as usize);
            }
        }
    }

    /// Becomes as `other`; allocates only where that holds more than this ever did.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.heap.clone_from(&other.heap);
        self.places.clone_from(&other.places);
    }

    fn remove(&mut self, place: usize) {
        let (.., index) = self.heap.swap_remove(place);
        self.places[index as usize] = NOWHERE;
        if let Some((.., moved)) = self.heap.get(place) {
            self.places[*moved as usize] = place as u32;
            self.settle(place);
        }
    }

    /// Moves the entry at `place` to where it belongs.
    fn settle(&mut self, place: usize) {
        let place = self.rise(place);
        self.sink(place);
    }

    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above] <= self.heap[place] {
                break;
            }
            self.swap(above, place);
            place = above;
        }
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let mut least = 2 * place + 1;
            if least >= self.heap.len() {
                return;
            }
            if least + 1 < self.heap.len() && self.heap[least + 1] < self.heap[least] {
                least += 1;
            }
            if self.heap[place] <= self.heap[least] {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            let (.., index) = self.heap[place];
            self.places[index as usize] = place as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn first_is_the_least_of_all(
            steps in prop::collection::vec((0_usize..20, prop::option::of(0_u64..50)), 1..300)
        ) {
            let mut events = Events::default();
            let mut copy = Events::default();
            let mut all = [None; 20];
            for (index, event) in steps {
                let event = event.map(Instant::from_ns);
                // Numbers run against the indices.
                events.update(index, 19 - index as u16, event);
                all[index] = event;
                let least = (0..20).rev().filter_map(|index| Some((all[index]?, index))).min_by_key(|(at, _)| *at);
                prop_assert_eq!(events.first(), least);
                copy.copy_from(&events);
                std::mem::swap(&mut copy, &mut events);
            }
        }
    }
}
