//! Doubly linked lists of numbered items, such as frames and processes: no allocation to move an item.

/// Number of no item.
pub(crate) const NONE: u32 = u32::MAX;

/// First and last item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) len: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };
}

/// Neighbours of each item. An item is on one list at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    /// Item before and item after.
    pub(crate) of: Vec<(u32, u32)>,
}

impl Links {
    /// Adds an item that is on no list.
    pub(crate) fn add(&mut self) {
        self.of.push((NONE, NONE));
    }

    /// The item after `item`.
    pub(crate) fn next(&self, item: u32) -> u32 {
        self.of[item as usize].1
    }

    pub(crate) fn push_back(&mut self, list: &mut List, item: u32) {
        self.of[item as usize] = (list.last, NONE);
        match list.last {
            NONE => list.first = item,
            last => self.of[last as usize].1 = item,
        }
        list.last = item;
        list.len += 1;
    }

    pub(crate) fn push_front(&mut self, list: &mut List, item: u32) {
        self.of[item as usize] = (NONE, list.first);
        match list.first {
            NONE => list.last = item,
            first => self.of[first as usize].0 = item,
        }
        list.first = item;
        list.len += 1;
    }

    /// Takes an item out of the list that it is on.
    pub(crate) fn remove(&mut self, list: &mut List, item: u32) {
        let (before, after) = self.of[item as usize];
        match before {
            NONE => list.first = after,
            before => self.of[before as usize].1 = after,
        }
        match after {
            NONE => list.last = before,
            after => self.of[after as usize].0 = before,
        }
        self.of[item as usize] = (NONE, NONE);
        list.len -= 1;
    }

    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let first = list.first;
        (first != NONE).then(|| {
            self.remove(list, first);
            first
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order() {
        let mut links = Links::default();
        (0..5).for_each(|_| links.add());
        let mut list = List::EMPTY;
        for item in [3, 1, 4] {
            links.push_back(&mut list, item);
        }
        links.push_front(&mut list, 0);
        links.remove(&mut list, 1);
        links.push_back(&mut list, 1);
        assert_eq!((list.len, links.next(3)), (4, 4));
        let mut order = Vec::new();
        while let Some(item) = links.pop_front(&mut list) {
            order.push(item);
        }
        assert_eq!((order, list), (vec![0, 3, 4, 1], List::EMPTY));
    }
}
