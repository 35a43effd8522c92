//! The requests of a trace after a relocation.

use seeklab_core::{BufferOutcome, MeasurementPoints, Status, TraceRecord};

use super::Relocation;

/// Treatment of a request whose pieces no longer lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Crossing {
    /// The request becomes several requests that arrive at the same time, in the order of its blocks.
    #[default]
    Split,
    /// The whole request goes to the place of its first piece, moved back from the end of the device if it does
    /// not fit.
    Whole,
}

/// Counts of a relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Requests that came.
    pub requests: u64,
    /// Requests that left.
    pub rows: u64,
    /// Requests that ask elsewhere now, wholly or in part.
    pub moved: u64,
    /// Requests whose pieces no longer lie side by side.
    pub crossing: u64,
}

/// Applies a relocation to requests.
#[derive(Debug, Clone)]
pub struct Remapper {
    relocation: Relocation,
    piece_blocks: u64,
    pieces: u64,
    crossing: Crossing,
    /// The block behind the last.
    end: u64,
    counts: Moved,
}

impl Remapper {
    /// Creates a remapper for `pieces` pieces of `piece_blocks` blocks, placed by `relocation`. `end` is the
    /// block after the last block of the device.
    ///
    /// # Panics
    /// If a piece has no blocks.
    pub fn new(relocation: Relocation, piece_blocks: u64, pieces: u64, end: u64, crossing: Crossing) -> Self {
        assert!(piece_blocks > 0, "a piece has blocks");
        Self { relocation, piece_blocks, pieces, crossing, end, counts: Moved::default() }
    }

    /// The relocation.
    pub const fn relocation(&self) -> &Relocation {
        &self.relocation
    }

    /// Returns the counts so far.
    pub const fn counts(&self) -> Moved {
        self.counts
    }

    /// Hands on what `record` becomes. Times other than the arrival, and everything else that was measured
    /// where the blocks lay before, are left out; of a split request the last part keeps the think time.
    pub fn apply(&mut self, record: &TraceRecord, mut emit: impl FnMut(&TraceRecord)) {
        self.counts.requests += 1;
        let bare = TraceRecord {
            issue: None,
            start: None,
            completion: None,
            queue_length: None,
            breakdown: None,
            seek_cylinders: None,
            buffer: BufferOutcome::None,
            status: Status::Ok,
            good_blocks: None,
            points: MeasurementPoints::NONE,
            ..*record
        };
        if !record.op.addresses_blocks() || record.blocks == 0 {
            self.counts.rows += 1;
            return emit(&bare);
        }
        let end = record.lbn.saturating_add(u64::from(record.blocks));
        let mut lbn = record.lbn;
        let (mut parts, mut elsewhere) = (0_u64, false);
        while lbn < end {
            let (to, next) = self.run(lbn, end);
            elsewhere |= to != lbn;
            let whole = self.crossing == Crossing::Whole && parts == 0 && next < end;
            let (to, next) = if whole {
                // Counted as crossing below.
                parts += 1;
                (to.min(self.end.max(end).saturating_sub(end - record.lbn)), end)
            } else {
                (to, next)
            };
            let blocks = u32::try_from(next - lbn).expect("it is a part of a request");
            let think = bare.think.filter(|_| next == end);
            emit(&TraceRecord { lbn: to, blocks, think, ..bare });
            self.counts.rows += 1;
            parts += 1;
            lbn = next;
        }
        self.counts.crossing += u64::from(parts > 1);
        self.counts.moved += u64::from(elsewhere);
    }

    /// Returns the new place of block `lbn`, and the first block before `end` that no longer follows it
    /// contiguously.
    fn run(&self, lbn: u64, end: u64) -> (u64, u64) {
        let piece = lbn / self.piece_blocks;
        let beyond = self.pieces.saturating_mul(self.piece_blocks);
        if lbn >= beyond {
            return (lbn, end);
        }
        let last = (end - 1) / self.piece_blocks + 1;
        let next = self.relocation.next_break(piece, last.min(self.pieces));
        let to = self.relocation.place(piece) * self.piece_blocks + lbn % self.piece_blocks;
        // Behind the last whole piece nothing moves: it goes on if the last whole piece stays.
        let goes_on = next == self.pieces && self.relocation.place(next - 1) == next - 1;
        if goes_on && end > beyond { (to, end) } else { (to, (next * self.piece_blocks).min(end)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seeklab_core::{Duration, Instant, Operation, Seed};

    use super::*;

    fn read(lbn: u64, blocks: u32) -> TraceRecord {
        TraceRecord {
            completion: Some(Instant::from_ns(9)),
            buffer: BufferOutcome::Hit,
            status: Status::MediumError,
            think: Some(Duration::from_ns(3)),
            ..TraceRecord::new(Instant::from_ns(5), Operation::Read, lbn, blocks)
        }
    }

    fn parts(remapper: &mut Remapper, record: &TraceRecord) -> Vec<(u64, u32)> {
        let mut parts = Vec::new();
        remapper.apply(record, |part| {
            assert_eq!((part.arrival, part.completion), (record.arrival, None));
            assert_eq!((part.buffer, part.status), (BufferOutcome::None, Status::Ok));
            parts.push((part.lbn, part.blocks));
        });
        parts
    }

    #[test]
    fn request_is_split_where_its_pieces_part() {
        let relocation = Relocation::of_swaps([(1, 5)], 8).unwrap();
        let mut remapper = Remapper::new(relocation, 8, 8, 70, Crossing::Split);
        assert_eq!(parts(&mut remapper, &read(4, 16)), [(4, 4), (40, 8), (16, 4)]);
        assert_eq!(parts(&mut remapper, &read(10, 2)), [(42, 2)]);
        assert_eq!(parts(&mut remapper, &read(16, 24)), [(16, 24)]);
        assert_eq!(parts(&mut remapper, &read(60, 10)), [(60, 10)], "behind the last whole piece");
        let flush = TraceRecord::new(Instant::ZERO, Operation::Flush, 0, 0);
        assert_eq!(parts(&mut remapper, &flush), [(0, 0)]);
        assert_eq!(remapper.counts(), Moved { requests: 5, rows: 7, moved: 2, crossing: 1 });
        let mut thinks = Vec::new();
        remapper.apply(&read(4, 16), |part| thinks.push(part.think.is_some()));
        assert_eq!(thinks, [false, false, true]);
    }

    #[test]
    fn whole_request_goes_to_the_place_of_its_first_piece() {
        let relocation = Relocation::of_swaps([(0, 7)], 8).unwrap();
        let mut remapper = Remapper::new(relocation, 8, 8, 64, Crossing::Whole);
        assert_eq!(parts(&mut remapper, &read(2, 4)), [(58, 4)]);
        assert_eq!(parts(&mut remapper, &read(4, 16)), [(48, 16)], "it ends with the device");
        assert_eq!(remapper.counts(), Moved { requests: 2, rows: 2, moved: 2, crossing: 1 });
    }

    proptest! {
        #[test]
        fn every_block_moves_with_its_piece(
            swaps in prop::collection::vec((0_u64..20, 0_u64..20), 0..10),
            shuffled in any::<bool>(),
            lbn in 0_u64..170,
            blocks in 1_u32..90,
        ) {
            let relocation = match shuffled {
                true => Relocation::shuffled(20, Seed(3)),
                false => Relocation::of_swaps(swaps, 20).unwrap(),
            };
            let mut remapper = Remapper::new(relocation.clone(), 8, 20, 300, Crossing::Split);
            let expected: Vec<u64> = (lbn..lbn + u64::from(blocks))
                .map(|block| relocation.place(block / 8) * 8 + block % 8)
                .collect();
            let parts = parts(&mut remapper, &read(lbn, blocks));
            let seen: Vec<u64> =
                parts.iter().flat_map(|(lbn, blocks)| *lbn..lbn + u64::from(*blocks)).collect();
            prop_assert_eq!(&seen, &expected);
            // No more parts than there are breaks.
            let breaks = expected.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
            prop_assert_eq!(parts.len(), breaks + 1);
        }
    }
}
