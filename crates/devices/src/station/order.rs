//! The order in which a station looks at what waits.

use schemars::JsonSchema;
use seeklab_core::Operation;
use serde::{Deserialize, Serialize};

use super::state::StationRequest;

/// Order of waiting requests. The fit also estimates how strictly the device follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// First come, first served.
    Fcfs,
    /// The nearest to the end of the request served before comes first, as under SSTF.
    Nearest,
    /// The next in ascending order comes first, then from the lowest again, as under C-LOOK.
    Ascending,
    /// The one with the shortest service comes first, as under SPTF: a time is drawn for each at every choice, and the least is served.
    Sptf,
}

impl Order {
    /// Every order.
    pub const ALL: [Self; 4] = [Self::Fcfs, Self::Nearest, Self::Ascending, Self::Sptf];

    /// Description for messages.
    const fn describe(self) -> &'static str {
        match self {
            Self::Fcfs => "in order of arrival",
            Self::Nearest => "nearest first",
            Self::Ascending => "in ascending order",
            Self::Sptf => "shortest service first",
        }
    }
}

/// Operation whose requests stand before all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum First {
    /// No operation: all stand in one order.
    #[default]
    None,
    /// Reads, as under a scheduler that holds writes back.
    Reads,
    /// Writes, as in a drive that takes them at once while its buffer has room.
    Writes,
}

impl First {
    /// Every precedence, in the order of [`Line::ranks`].
    pub const ALL: [Self; 3] = [Self::None, Self::Reads, Self::Writes];

    /// Returns true if requests of an operation stand before those of others.
    pub const fn is_of(self, op: Operation) -> bool {
        matches!((self, op), (Self::Reads, Operation::Read) | (Self::Writes, Operation::Write))
    }

    /// Returns true if nothing has precedence.
    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Beginning of the description of an order.
    const fn describe(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Reads => "reads first, then ",
            Self::Writes => "writes first, then ",
        }
    }
}

/// Place of a request in an order: behind those of the first operation or not, and its distance.
pub(super) type Key = (bool, u64);

/// Order of the waiting requests, and the resolution of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The order.
    pub order: Order,
    /// Blocks of a band, at least one. Within a band requests stand in order of arrival: so elevators do that know
    /// cylinders.
    pub band_blocks: u64,
    /// Operation that stands before all others; its requests stand in the order among themselves.
    pub first: First,
}

/// Waiting requests whose times are compared at most, in order of arrival.
pub const COMPARED: usize = 128;

/// Blocks of a band that are tried.
const BANDS: [u64; 8] = [1, 16, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16];

impl Line {
    /// All that ranks of picks can tell apart, without precedence; each is also tried with that of reads and of writes.
    pub fn all() -> impl Iterator<Item = Self> {
        let line = |order, band_blocks| Self { order, band_blocks, first: First::None };
        let banded = move |order| BANDS.into_iter().map(move |band_blocks| line(order, band_blocks));
        [line(Order::Fcfs, 1)]
            .into_iter()
            .chain([Order::Nearest, Order::Ascending].into_iter().flat_map(banded))
    }

    /// Description for messages.
    pub(super) fn describe(self) -> String {
        let order = self.order.describe();
        let first = self.first.describe();
        match self.band_blocks {
            1 => format!("{first}{order}"),
            blocks => format!("{first}{order}, that of arrival within {blocks} blocks"),
        }
    }

    /// Returns true if requests stand in their order of arrival.
    const fn is_arrival(self) -> bool {
        matches!((self.order, self.first), (Order::Fcfs, First::None))
    }

    /// Returns the keys of requests. The request with the least key comes first; at equal keys the first
    /// that arrived.
    fn keys(self, last_end: u64) -> impl Fn(&StationRequest) -> Key {
        let distance = self.distances(last_end);
        move |asked| (self.first != First::None && !self.first.is_of(asked.op), distance(asked))
    }

    /// Returns the distances of requests in the order.
    fn distances(self, last_end: u64) -> impl Fn(&StationRequest) -> u64 {
        // Bands that are tried are powers of two, which need no division.
        let shift = self.band_blocks.trailing_zeros();
        let is_power = self.band_blocks >> shift == 1;
        let band = move |block: u64| if is_power { block >> shift } else { block / self.band_blocks };
        let head = band(last_end);
        move |asked| match self.order {
            _ if !asked.op.addresses_blocks() => 0,
            Order::Fcfs | Order::Sptf => 0,
            Order::Nearest => band(asked.lbn).abs_diff(head),
            Order::Ascending => band(asked.lbn).wrapping_sub(head),
        }
    }

    /// Returns the number of waiting requests of the operation that stands before all others; 0 without one.
    pub fn firsts<'a>(self, waiting: impl Iterator<Item = &'a StationRequest>) -> usize {
        if self.first.is_none() { 0 } else { waiting.filter(|asked| self.first.is_of(asked.op)).count() }
    }

    /// Returns the numbers of waiting requests, given in order of arrival, that come before the one at `place`: under this line with
    /// each precedence of [`First::ALL`].
    pub fn ranks<'a>(
        self,
        waiting: impl ExactSizeIterator<Item = &'a StationRequest>,
        place: usize,
        own: &StationRequest,
        last_end: u64,
    ) -> [usize; First::ALL.len()] {
        let own_op = own.op;
        let distance = self.distances(last_end);
        let own = (distance(own), place);
        // Requests of each precedence, and those of them that are nearer; all are nearer or not without one.
        let (mut all, mut nearer) = ([0; First::ALL.len()], [0; First::ALL.len()]);
        for (at, asked) in waiting.enumerate() {
            let class = match asked.op {
                Operation::Read => First::Reads,
                Operation::Write => First::Writes,
                _ => First::None,
            };
            all[class as usize] += 1;
            nearer[class as usize] += usize::from((distance(asked), at) < own);
        }
        let nearer_of_all: usize = nearer.iter().sum();
        First::ALL.map(|first| match first {
            First::None => nearer_of_all,
            _ if first.is_of(own_op) => nearer[first as usize],
            _ => all[first as usize] + nearer_of_all - nearer[first as usize],
        })
    }

    /// The place of the one that so many of those that wait come before; there are more than `rank`.
    pub(super) fn place<'a>(
        self,
        waiting: impl ExactSizeIterator<Item = &'a StationRequest>,
        rank: usize,
        last_end: u64,
        scratch: &mut Vec<(Key, u32)>,
    ) -> usize {
        if self.is_arrival() {
            return rank;
        }
        let key = self.keys(last_end);
        let keys = waiting.enumerate().map(|(at, asked)| (key(asked), at as u32));
        if rank == 0 {
            return keys.min().map_or(0, |(_, at)| at as usize);
        }
        scratch.clear();
        scratch.extend(keys);
        scratch.select_nth_unstable(rank).1.1 as usize
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;

    use super::*;

    #[test]
    fn request_at_the_place_of_a_rank_has_that_rank() {
        let at = |lbn| StationRequest { op: Operation::Read, lbn, blocks: 8, fua: false };
        let waiting = [at(500), at(90), at(110), at(90), at(0)];
        let mut scratch = Vec::new();
        for (order, band_blocks, first) in [
            (Order::Fcfs, 1, 0),
            (Order::Nearest, 1, 1),
            (Order::Ascending, 1, 2),
            // All but the first are in the band of the request before: the one that arrived first.
            (Order::Nearest, 256, 1),
            (Order::Ascending, 64, 1),
            (Order::Ascending, 1024, 0),
        ] {
            let line = Line { order, band_blocks, first: First::None };
            assert_eq!(line.place(waiting.iter(), 0, 100, &mut scratch), first, "{line:?}");
            for rank in 0..waiting.len() {
                let place = line.place(waiting.iter(), rank, 100, &mut scratch);
                assert_eq!(
                    line.ranks(waiting.iter(), place, &waiting[place], 100)[..2],
                    [rank; 2],
                    "{line:?}"
                );
            }
        }
    }

    #[test]
    fn every_order_is_tried_with_every_band_once() {
        let lines: Vec<Line> = Line::all().collect();
        assert!(lines[0].is_arrival() && lines.iter().all(|line| line.first.is_none()));
        for order in [Order::Nearest, Order::Ascending] {
            let bands = lines.iter().filter(|line| line.order == order).map(|line| line.band_blocks);
            assert_eq!(bands.collect::<Vec<_>>(), BANDS);
        }
        assert_eq!(lines.len(), 1 + 2 * BANDS.len());
    }

    #[test]
    fn bands_are_whole_parts_of_the_address() {
        let at = |lbn| StationRequest { op: Operation::Read, lbn, blocks: 8, fua: false };
        for band_blocks in [1, 3, 64, 1_000, 1 << 16] {
            let line = Line { order: Order::Nearest, band_blocks, first: First::None };
            for lbn in [0, 1, 999, 65_535, 65_536, 1_000_003] {
                let bands = (lbn / band_blocks).abs_diff(70_000 / band_blocks);
                assert_eq!(line.keys(70_000)(&at(lbn)), (false, bands), "{band_blocks} {lbn}");
            }
        }
    }

    #[test]
    fn first_operation_stands_before_others_and_in_order_among_itself() {
        let at = |op, lbn| StationRequest { op, lbn, blocks: 8, fua: false };
        let waiting = [
            at(Operation::Write, 100),
            at(Operation::Read, 900),
            at(Operation::Flush, 0),
            at(Operation::Read, 300),
        ];
        let mut scratch = Vec::new();
        for (order, first, expected) in [
            (Order::Fcfs, First::Reads, [1, 3, 0, 2]),
            (Order::Ascending, First::Reads, [3, 1, 0, 2]),
            (Order::Fcfs, First::Writes, [0, 1, 2, 3]),
            (Order::Ascending, First::Writes, [0, 2, 3, 1]),
        ] {
            let line = Line { order, band_blocks: 1, first };
            for (rank, place) in expected.into_iter().enumerate() {
                // The head stands at 100, so the write and the flush have the same key.
                assert_eq!(line.place(waiting.iter(), rank, 100, &mut scratch), place, "{line:?} {rank}");
                let ranks = line.ranks(waiting.iter(), place, &waiting[place], 100);
                assert_eq!(ranks[first as usize], rank, "{line:?}");
            }
        }
    }
}
