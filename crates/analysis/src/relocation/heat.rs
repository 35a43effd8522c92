//! Number of accesses to each piece of a device.

use std::collections::BTreeMap;
use std::fmt;

use seeklab_core::{Operation, TraceRecord};

/// Distinct pieces that are counted: about 3 GiB at most, usually far less.
const PIECES_MAX: usize = 1 << 26;

/// The pieces are too many to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyPieces;

impl fmt::Display for TooManyPieces {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "more than {PIECES_MAX} different pieces are requested")
    }
}

impl std::error::Error for TooManyPieces {}

/// Requests of each piece of one device: a read or write counts once for every piece that it touches.
#[derive(Debug, Clone)]
pub struct Heat {
    piece_blocks: u64,
    counts: BTreeMap<u64, u64>,
    end: u64,
    touches: u64,
}

impl Heat {
    /// Pieces of so many blocks.
    ///
    /// # Panics
    /// If that is none.
    pub fn new(piece_blocks: u64) -> Self {
        assert!(piece_blocks > 0, "a piece has blocks");
        Self { piece_blocks, counts: BTreeMap::new(), end: 0, touches: 0 }
    }

    /// Takes a request.
    ///
    /// # Errors
    /// If the pieces become too many; then a larger piece is the remedy.
    pub fn record(&mut self, record: &TraceRecord) -> Result<(), TooManyPieces> {
        if !record.op.addresses_blocks() {
            return Ok(());
        }
        let end = record.lbn.saturating_add(u64::from(record.blocks));
        self.end = self.end.max(end);
        if matches!(record.op, Operation::Read | Operation::Write) && record.blocks > 0 {
            let (first, last) = (record.lbn / self.piece_blocks, (end - 1) / self.piece_blocks);
            // One request may ask for more pieces than can be counted.
            if last - first >= PIECES_MAX as u64 {
                return Err(TooManyPieces);
            }
            for piece in first..=last {
                *self.counts.entry(piece).or_default() += 1;
                self.touches += 1;
                if self.counts.len() > PIECES_MAX {
                    return Err(TooManyPieces);
                }
            }
        }
        Ok(())
    }

    /// Returns the block after the last block that was accessed.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Whole pieces up to there.
    pub const fn pieces(&self) -> u64 {
        self.end / self.piece_blocks
    }

    /// The `most` hottest of the first `pieces` pieces, hottest first; of equals the lower address first.
    pub fn hottest(&self, most: u64, pieces: u64) -> Vec<u64> {
        let mut ranked: Vec<(u64, u64)> =
            self.counts.range(..pieces).map(|(piece, count)| (*piece, *count)).collect();
        ranked.sort_by_key(|(piece, count)| (std::cmp::Reverse(*count), *piece));
        ranked.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        ranked.into_iter().map(|(piece, _)| piece).collect()
    }

    /// The share of all touches that falls on these pieces.
    pub fn share(&self, pieces: &[u64]) -> Option<f64> {
        let hot: u64 = pieces.iter().filter_map(|piece| self.counts.get(piece)).sum();
        (self.touches > 0).then(|| hot as f64 / self.touches as f64)
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Instant;

    use super::*;

    #[test]
    fn request_heats_every_piece_that_it_touches() {
        let mut heat = Heat::new(8);
        let mut ask =
            |op, lbn, blocks| heat.record(&TraceRecord::new(Instant::ZERO, op, lbn, blocks)).unwrap();
        ask(Operation::Read, 4, 8);
        ask(Operation::Write, 8, 1);
        ask(Operation::Read, 40, 8);
        ask(Operation::Discard, 0, 100);
        ask(Operation::Flush, 0, 0);
        assert_eq!(heat.hottest(9, 9), [1, 0, 5]);
        assert_eq!(heat.hottest(1, 9), [1]);
        assert_eq!(heat.hottest(9, 5), [1, 0], "what lies beyond cannot move");
        assert_eq!((heat.end(), heat.pieces()), (100, 12));
        assert_eq!(heat.share(&[1]), Some(0.5));
    }

    #[test]
    fn request_of_too_many_pieces_is_refused_before_counting() {
        let mut heat = Heat::new(1);
        let record = TraceRecord::new(Instant::ZERO, Operation::Write, 0, u32::MAX);
        assert_eq!(heat.record(&record), Err(TooManyPieces));
        assert!(heat.counts.is_empty());
    }
}
