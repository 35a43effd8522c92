//! Blocks that were written and are not durable.

use super::ROOM;

/// Disjoint pieces of blocks, each with a tag that says which write it belongs to.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    /// In order of blocks.
    pieces: Vec<Piece<T>>,
    blocks: u64,
}

#[derive(Debug, Clone, Copy)]
struct Piece<T> {
    start: u64,
    end: u64,
    tag: T,
}

impl<T: Copy> Waiting<T> {
    pub(crate) fn new() -> Self {
        Self { pieces: Vec::with_capacity(ROOM), blocks: 0 }
    }

    /// Number of blocks that wait.
    pub(crate) const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The pieces that wait: first block, block after the last, tag.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, T)> {
        self.pieces.iter().map(|piece| (piece.start, piece.end, piece.tag))
    }

    /// Keeps the pieces for which `keep` returns true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u64, u64, T) -> bool) {
        let blocks = &mut self.blocks;
        self.pieces.retain(|piece| {
            let keeps = keep(piece.start, piece.end, piece.tag);
            if !keeps {
                *blocks -= piece.end - piece.start;
            }
            keeps
        });
    }

    /// Blocks `start..end` wait, in place of what waited there.
    pub(crate) fn insert(&mut self, start: u64, end: u64, tag: T) {
        let place = self.remove(start, end, |_, _, _| {});
        self.pieces.insert(place, Piece { start, end, tag });
        self.blocks += end - start;
    }

    /// Takes `start..end` out and shows each part; returns the place at which a piece of these blocks belongs.
    pub(crate) fn remove(&mut self, start: u64, end: u64, mut see: impl FnMut(u64, u64, T)) -> usize {
        let mut place = self.pieces.partition_point(|piece| piece.end <= start);
        while let Some(piece) = self.pieces.get(place).copied().filter(|piece| piece.start < end) {
            let (from, to) = (piece.start.max(start), piece.end.min(end));
            see(from, to, piece.tag);
            self.blocks -= to - from;
            match (piece.start < start, piece.end > end) {
                (false, false) => drop(self.pieces.remove(place)),
                (true, false) => {
                    self.pieces[place].end = start;
                    place += 1;
                }
                (false, true) => {
                    self.pieces[place].start = end;
                    break;
                }
                (true, true) => {
                    self.pieces[place].end = start;
                    place += 1;
                    self.pieces.insert(place, Piece { start: end, ..piece });
                    break;
                }
            }
        }
        place
    }
}

impl<T: Copy> Clone for Waiting<T> {
    fn clone(&self) -> Self {
        let mut clone = Self::new();
        clone.clone_from(self);
        clone
    }

    fn clone_from(&mut self, source: &Self) {
        self.pieces.clear();
        self.pieces.reserve(source.pieces.capacity());
        self.pieces.extend_from_slice(&source.pieces);
        self.blocks = source.blocks;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_those_of_a_map_of_blocks(
            steps in prop::collection::vec((any::<bool>(), 0_u64..60, 1_u64..20), 1..60)
        ) {
            let mut waiting = Waiting::new();
            let mut map = [None; 80];
            for (tag, (insert, start, blocks)) in steps.into_iter().enumerate() {
                let range = start as usize..(start + blocks) as usize;
                if insert {
                    waiting.insert(start, start + blocks, tag);
                    map[range].fill(Some(tag));
                } else {
                    let mut shown = Vec::new();
                    waiting.remove(start, start + blocks, |from, to, tag| {
                        shown.extend((from..to).map(|block| (block as usize, tag)));
                    });
                    let expected: Vec<_> =
                        range.clone().filter_map(|block| Some((block, map[block]?))).collect();
                    prop_assert_eq!(shown, expected);
                    map[range].fill(None);
                }
                let mut held = [None; 80];
                let mut last = 0;
                for (start, end, tag) in waiting.iter() {
                    prop_assert!(last <= start && start < end);
                    last = end;
                    held[start as usize..end as usize].fill(Some(tag));
                }
                prop_assert_eq!(held, map);
                prop_assert_eq!(waiting.blocks(), map.iter().flatten().count() as u64);
            }
        }
    }
}
