//! Places of a file on the device, collected from rows that may overlap.

use std::collections::BTreeMap;

use seeklab_workloads::host::RecordedExtent;

/// Blocks that follow each other in the file and on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    address: u64,
    blocks: u64,
    /// Time at which the trace first knew a place of these blocks.
    known_ns: u64,
    /// True if a process wrote them before: they were new, and the file system chose the place then.
    is_new: bool,
}

/// New blocks that follow each other in the file and on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewBlocks {
    pub(super) first: u64,
    pub(super) address: u64,
    pub(super) blocks: u64,
    /// Time at which the trace first knew their place.
    pub(super) known_ns: u64,
}

/// Places of the blocks of a file. A later row replaces what it overlaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExtentMap {
    pieces: BTreeMap<u64, Piece>,
}

impl ExtentMap {
    /// Takes note of a place.
    pub(super) fn insert(&mut self, first: u64, address: u64, blocks: u64, time_ns: u64) {
        let end = first.saturating_add(blocks);
        let before = self.pieces.range(..first).next_back().map(|(start, _)| *start);
        let start = before.unwrap_or(first);
        let overlapping: Vec<u64> = self.pieces.range(start..end).map(|(start, _)| *start).collect();
        let mut known_ns = time_ns;
        for start in overlapping {
            let piece = self.pieces[&start];
            let piece_end = start + piece.blocks;
            if piece_end <= first {
                continue;
            }
            self.pieces.remove(&start);
            known_ns = known_ns.min(piece.known_ns);
            if start < first {
                self.pieces.insert(start, Piece { blocks: first - start, ..piece });
            }
            if piece_end > end {
                let address = piece.address + (end - start);
                self.pieces.insert(end, Piece { address, blocks: piece_end - end, ..piece });
            }
        }
        if blocks > 0 {
            self.pieces.insert(first, Piece { address, blocks, known_ns, is_new: false });
        }
    }

    /// Takes note of a write to the blocks from `first` to `end`. All places are known by now.
    pub(super) fn write(&mut self, first: u64, end: u64, time_ns: u64) {
        let before = self.pieces.range(..=first).next_back().map(|(start, _)| *start);
        for (start, piece) in self.pieces.range_mut(before.unwrap_or(first)..end) {
            piece.is_new |= start + piece.blocks > first && time_ns <= piece.known_ns;
        }
    }

    /// Blocks that were new, in order.
    pub(super) fn new_blocks(&self) -> impl Iterator<Item = NewBlocks> {
        let new = self.pieces.iter().filter(|(_, piece)| piece.is_new);
        new.map(|(first, piece)| NewBlocks {
            first: *first,
            address: piece.address,
            blocks: piece.blocks,
            known_ns: piece.known_ns,
        })
    }

    /// The block behind the last.
    pub(super) fn end(&self) -> u64 {
        self.pieces.last_key_value().map_or(0, |(start, piece)| start + piece.blocks)
    }

    /// Address on the device of a block, and the number of blocks that follow it there.
    pub(super) fn place(&self, block: u64) -> Option<(u64, u64)> {
        let (start, piece) = self.pieces.range(..=block).next_back()?;
        let within = block - start;
        (within < piece.blocks).then(|| (piece.address + within, piece.blocks - within))
    }

    /// Time at which the trace first knew the place of a block.
    pub(super) fn known_ns(&self, block: u64) -> Option<u64> {
        let (start, piece) = self.pieces.range(..=block).next_back()?;
        (block < start + piece.blocks).then_some(piece.known_ns)
    }

    pub(super) fn extents(&self) -> Vec<RecordedExtent> {
        let mut extents: Vec<RecordedExtent> = Vec::with_capacity(self.pieces.len());
        for (first, piece) in &self.pieces {
            match extents.last_mut() {
                Some(last)
                    if last.first + last.pages == *first && last.address + last.pages == piece.address =>
                {
                    last.pages += piece.blocks;
                }
                _ => extents.push(RecordedExtent {
                    first: *first,
                    address: piece.address,
                    pages: piece.blocks,
                }),
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_places_replace_what_they_overlap() {
        let mut map = ExtentMap::default();
        map.insert(0, 100, 10, 5);
        map.insert(3, 500, 2, 9);
        map.insert(20, 700, 4, 7);
        map.insert(22, 900, 8, 8);
        let rows: Vec<_> = map.extents().iter().map(|one| (one.first, one.address, one.pages)).collect();
        assert_eq!(rows, [(0, 100, 3), (3, 500, 2), (5, 105, 5), (20, 700, 2), (22, 900, 8)]);
        assert_eq!(map.end(), 30);
        assert_eq!([4, 9, 10, 23].map(|block| map.known_ns(block)), [Some(5), Some(5), None, Some(7)]);
    }

    #[test]
    fn rows_of_one_extent_join() {
        let mut map = ExtentMap::default();
        map.insert(4, 104, 4, 1);
        map.insert(0, 100, 4, 2);
        map.insert(2, 102, 4, 3);
        assert_eq!(map.extents(), [RecordedExtent { first: 0, address: 100, pages: 8 }]);
    }

    #[test]
    fn blocks_are_new_if_they_were_written_before_they_had_a_place() {
        let mut map = ExtentMap::default();
        map.insert(0, 100, 4, 50);
        map.insert(8, 200, 4, 50);
        map.insert(16, 300, 4, 50);
        map.write(2, 9, 40);
        map.write(17, 18, 60);
        let new: Vec<_> = map.new_blocks().map(|new| (new.first, new.address, new.blocks)).collect();
        assert_eq!(new, [(0, 100, 4), (8, 200, 4)]);
    }
}
