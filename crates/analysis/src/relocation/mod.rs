//! Relocation of data on a device: rewrites a trace as if its blocks were placed elsewhere.
//!
//! ```text
//!  pieces   0 1 2 3 4 5 6 7 …      a piece is a number of blocks, the last partial one stays where it is
//!           │ ╲╱      ╲
//!  places   0 2 1 3 4 7 6 5 …      a bijection: no place is taken twice, none is left over
//! ```
//! The method follows Thornock, Tu and Flanagan: no data is copied, only the addresses of a trace change. A
//! relocation is one of
//! - pieces named by pairs (a swap, a mapping file), checked to be a bijection;
//! - the hottest pieces to the outer edge, from block 0 on, in order of heat; the pieces that lay there go to
//!   the places that become free, the one nearest the edge to the place of the hottest;
//! - organ pipe: the hottest piece in the middle, the others beside it by turns, by heat; the pieces that lay
//!   there go to the places that become free in the same way;
//! - a shuffle of all pieces, keyed by a seed, in no memory.
//!
//! # References
//! \[Thornock97, §4\]; organ pipe: Wong, "Minimizing expected head movement in one-dimensional and
//! two-dimensional mass storage systems", ACM Computing Surveys 12(2), 1980.

mod heat;
mod moved;
mod shuffle;

use std::collections::BTreeMap;
use std::fmt;

use seeklab_core::Seed;

pub use heat::{Heat, TooManyPieces};
pub use moved::{Crossing, Moved, Remapper};
use shuffle::Shuffle;

/// Reason why pairs are no bijection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoBijection {
    /// A piece is moved twice.
    MovedTwice {
        /// The piece.
        piece: u64,
    },
    /// Two pieces go to one place.
    TakenTwice {
        /// The place.
        place: u64,
    },
    /// A place is taken whose own piece stays there.
    Covered {
        /// The place.
        place: u64,
    },
    /// A piece or a place lies beyond the end.
    Beyond {
        /// Number of the piece or place beyond the end.
        piece: u64,
        /// Number of pieces.
        pieces: u64,
    },
}

impl fmt::Display for NoBijection {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::MovedTwice { piece } => write!(f, "piece {piece} is moved twice"),
            Self::TakenTwice { place } => write!(f, "two pieces are moved to place {place}"),
            Self::Covered { place } => {
                write!(
                    f,
                    "a piece is moved to place {place}, and the piece that lies there is not moved away"
                )
            }
            Self::Beyond { piece, pieces } => {
                write!(f, "{piece} is beyond the end: there are {pieces} whole pieces, numbered from 0")
            }
        }
    }
}

impl std::error::Error for NoBijection {}

/// A bijection of the pieces of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Pieces that move, with their places.
    Pairs(BTreeMap<u64, u64>),
    Shuffle(Shuffle),
}

impl Relocation {
    /// Every piece `from` of the pairs at the place `to`, all others where they are, among `pieces`.
    ///
    /// # Errors
    /// If that is no bijection.
    pub fn of_pairs(pairs: impl IntoIterator<Item = (u64, u64)>, pieces: u64) -> Result<Self, NoBijection> {
        let (mut moves, mut taken) = (BTreeMap::new(), BTreeMap::new());
        for (piece, place) in pairs {
            if let Some(beyond) = [piece, place].into_iter().find(|number| *number >= pieces) {
                return Err(NoBijection::Beyond { piece: beyond, pieces });
            }
            if moves.insert(piece, place).is_some() {
                return Err(NoBijection::MovedTwice { piece });
            }
            if taken.insert(place, piece).is_some() {
                return Err(NoBijection::TakenTwice { place });
            }
        }
        if let Some(place) = taken.keys().find(|place| !moves.contains_key(place)) {
            return Err(NoBijection::Covered { place: *place });
        }
        moves.retain(|piece, place| piece != place);
        Ok(Self(Kind::Pairs(moves)))
    }

    /// Two pieces, each in the place of the other, for every pair, one after the other.
    ///
    /// # Errors
    /// If one lies beyond the end.
    pub fn of_swaps(swaps: impl IntoIterator<Item = (u64, u64)>, pieces: u64) -> Result<Self, NoBijection> {
        // What lies at each place that was touched.
        let mut lies: BTreeMap<u64, u64> = BTreeMap::new();
        for (a, b) in swaps {
            let at_a = *lies.get(&a).unwrap_or(&a);
            let at_b = lies.insert(b, at_a).unwrap_or(b);
            // A piece swapped with itself stays.
            lies.insert(a, if a == b { at_a } else { at_b });
        }
        Self::of_pairs(lies.into_iter().map(|(place, piece)| (piece, place)), pieces)
    }

    /// The hottest pieces at the outer edge, the very hottest at block 0.
    ///
    /// # Panics
    /// If a piece is there twice or beyond the end, or there are more than `pieces`.
    pub fn to_the_edge(hottest: &[u64], pieces: u64) -> Self {
        Self::ranked(hottest, |rank| rank, pieces)
    }

    /// The hottest piece in the middle of all, the others beside it by turns.
    ///
    /// # Panics
    /// As [`to_the_edge`](Self::to_the_edge).
    pub fn organ_pipe(hottest: &[u64], pieces: u64) -> Self {
        // From the middle: 0, +1, -1, +2, …; where one side is used up, the other goes on.
        let middle = pieces.saturating_sub(1) / 2;
        let by_turns = |rank: u64| {
            let step = rank.div_ceil(2);
            if rank.is_multiple_of(2) { middle.checked_sub(step) } else { Some(middle + step) }
        };
        let place = |rank: u64| by_turns(rank).filter(|place| *place < pieces).unwrap_or(pieces - 1);
        Self::ranked(hottest, place, pieces)
    }

    fn ranked(hottest: &[u64], place: impl Fn(u64) -> u64, pieces: u64) -> Self {
        let mut moves: BTreeMap<u64, u64> =
            (0_u64..).zip(hottest).map(|(rank, piece)| (*piece, place(rank))).collect();
        // Places that are taken, by rank, whose own pieces have to go; and those that become free.
        let places: BTreeMap<u64, u64> = moves.iter().map(|(piece, place)| (*place, *piece)).collect();
        let displaced = (0..hottest.len() as u64).map(&place).filter(|place| !moves.contains_key(place));
        let free = hottest.iter().copied().filter(|piece| !places.contains_key(piece));
        let others: Vec<(u64, u64)> = displaced.zip(free).collect();
        moves.extend(others);
        Self::of_pairs(moves, pieces).expect("ranks give a bijection")
    }

    /// All pieces in an order drawn from `seed`.
    pub fn shuffled(pieces: u64, seed: Seed) -> Self {
        Self(Kind::Shuffle(Shuffle::new(pieces, seed)))
    }

    /// Returns the place of a piece.
    ///
    /// # Panics
    /// If a shuffle were no bijection: its inverse is verified for every piece looked up.
    pub fn place(&self, piece: u64) -> u64 {
        match &self.0 {
            Kind::Pairs(moves) => moves.get(&piece).copied().unwrap_or(piece),
            Kind::Shuffle(shuffle) => {
                let place = shuffle.place(piece);
                assert_eq!(shuffle.piece(place), piece, "a shuffle is a bijection");
                place
            }
        }
    }

    /// The first piece behind `piece` that does not lie behind it as before.
    fn next_break(&self, piece: u64, end: u64) -> u64 {
        match &self.0 {
            Kind::Pairs(moves) => {
                let mut last = piece;
                loop {
                    let next = last + 1;
                    if next >= end || self.place(next) != self.place(last) + 1 {
                        return next;
                    }
                    // Nothing moves before the next piece that does.
                    let still = !moves.contains_key(&last) && !moves.contains_key(&next);
                    let skip = || moves.range(next..).next().map_or(end, |(moving, _)| *moving).min(end) - 1;
                    last = if still { skip().max(next) } else { next };
                }
            }
            Kind::Shuffle(_) => {
                let mut next = piece + 1;
                while next < end && self.place(next) == self.place(next - 1) + 1 {
                    next += 1;
                }
                next
            }
        }
    }

    /// Pieces that lie elsewhere, if they are named.
    pub fn moves(&self) -> Option<u64> {
        match &self.0 {
            Kind::Pairs(moves) => Some(moves.len() as u64),
            Kind::Shuffle(_) => None,
        }
    }

    /// The pieces that lie elsewhere with their places, in order; empty for a shuffle.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        let moves = match &self.0 {
            Kind::Pairs(moves) => Some(moves),
            Kind::Shuffle(_) => None,
        };
        moves.into_iter().flatten().map(|(piece, place)| (*piece, *place))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn places(relocation: &Relocation, pieces: u64) -> Vec<u64> {
        (0..pieces).map(|piece| relocation.place(piece)).collect()
    }

    fn is_bijection(relocation: &Relocation, pieces: u64) -> bool {
        let places = places(relocation, pieces);
        places.iter().all(|place| *place < pieces)
            && places.iter().copied().collect::<BTreeSet<_>>().len() as u64 == pieces
    }

    #[test]
    fn hottest_pieces_lie_at_the_edge_in_order_and_others_stay() {
        let relocation = Relocation::to_the_edge(&[5, 1, 7], 8);
        // 0 and 2 made place: they lie where 5 and 7 did; 1 was in its place.
        assert_eq!(places(&relocation, 8), [5, 1, 7, 3, 4, 0, 6, 2]);
        assert_eq!(relocation.moves(), Some(4));
    }

    #[test]
    fn organ_pipe_has_its_hottest_piece_in_the_middle() {
        let relocation = Relocation::organ_pipe(&[0, 1, 2, 3, 4], 5);
        assert_eq!(places(&relocation, 5), [2, 3, 1, 4, 0]);
        let relocation = Relocation::organ_pipe(&[9, 8, 7], 10);
        assert_eq!([9, 8, 7].map(|piece| relocation.place(piece)), [4, 5, 3]);
        let all = [3, 1, 0, 2];
        assert!(is_bijection(&Relocation::organ_pipe(&all, 4), 4));
    }

    #[test]
    fn swaps_are_applied_in_order() {
        let relocation = Relocation::of_swaps([(5, 2)], 8).unwrap();
        assert_eq!(places(&relocation, 8), [0, 1, 5, 3, 4, 2, 6, 7]);
        // 0 goes to 1, then what lies at 1 to 2.
        let relocation = Relocation::of_swaps([(0, 1), (1, 2)], 3).unwrap();
        assert_eq!(places(&relocation, 3), [2, 0, 1]);
        assert_eq!(Relocation::of_swaps([(1, 1)], 3).unwrap().moves(), Some(0));
        assert_eq!(Relocation::of_swaps([(0, 3)], 3), Err(NoBijection::Beyond { piece: 3, pieces: 3 }));
    }

    #[test]
    fn pairs_that_are_no_bijection_are_refused() {
        let pairs = |pairs: &[(u64, u64)]| Relocation::of_pairs(pairs.iter().copied(), 10).unwrap_err();
        assert_eq!(pairs(&[(1, 2), (1, 3)]), NoBijection::MovedTwice { piece: 1 });
        assert_eq!(pairs(&[(1, 3), (2, 3)]), NoBijection::TakenTwice { place: 3 });
        assert_eq!(pairs(&[(1, 2)]), NoBijection::Covered { place: 2 });
        assert_eq!(pairs(&[(1, 10)]), NoBijection::Beyond { piece: 10, pieces: 10 });
    }

    #[test]
    fn breaks_are_found_without_visiting_unmoved_pieces() {
        let relocation = Relocation::of_swaps([(1 << 40, 5)], u64::MAX).unwrap();
        assert_eq!(relocation.next_break(0, 1 << 50), 5);
        assert_eq!(relocation.next_break(5, 1 << 50), 6);
        assert_eq!(relocation.next_break(6, 1 << 50), 1 << 40);
        assert_eq!(relocation.next_break((1 << 40) + 1, 1 << 50), 1 << 50);
    }

    proptest! {
        #[test]
        fn every_relocation_is_a_bijection(
            hottest in prop::collection::btree_set(0_u64..200, 0..200),
            order in any::<u64>(),
            swaps in prop::collection::vec((0_u64..200, 0_u64..200), 0..40),
            pieces in 1_u64..200,
        ) {
            let mut hottest: Vec<u64> = hottest.into_iter().collect();
            hottest.sort_by_key(|piece| piece.wrapping_mul(order | 1));
            prop_assert!(is_bijection(&Relocation::to_the_edge(&hottest, 200), 200));
            prop_assert!(is_bijection(&Relocation::organ_pipe(&hottest, 200), 200));
            prop_assert!(is_bijection(&Relocation::of_swaps(swaps, 200).unwrap(), 200));
            prop_assert!(is_bijection(&Relocation::shuffled(pieces, Seed(order)), pieces));
        }

        #[test]
        fn breaks_are_where_neighbours_part(
            swaps in prop::collection::vec((0_u64..60, 0_u64..60), 0..12),
            start in 0_u64..60,
            length in 1_u64..60,
        ) {
            let relocation = Relocation::of_swaps(swaps, 60).unwrap();
            let end = start + length;
            let walked = (start + 1..end).find(|next| relocation.place(*next) != relocation.place(next - 1) + 1);
            prop_assert_eq!(relocation.next_break(start, end), walked.unwrap_or(end));
        }
    }
}
