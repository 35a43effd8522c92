//! The order in which a station looks at what waits.

use serde::{Deserialize, Serialize};

use super::state::Asked;

/// By what requests that wait are put in line; how strictly is learnt too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// First come, first served.
    Fcfs,
    /// The nearest to the end of the request served before comes first, as under SSTF.
    Nearest,
    /// The next in ascending order comes first, then from the lowest again, as under C-LOOK.
    Ascending,
}

impl Order {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::Fcfs, Self::Nearest, Self::Ascending];

    /// In words.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Fcfs => "in order of arrival",
            Self::Nearest => "nearest first",
            Self::Ascending => "in ascending order",
        }
    }

    /// What comes first has the least key; at equal keys the first that arrived.
    pub(super) fn key(self, asked: &Asked, last_end: u64) -> u64 {
        match self {
            _ if !asked.op.addresses_blocks() => 0,
            Self::Fcfs => 0,
            Self::Nearest => asked.lbn.abs_diff(last_end),
            Self::Ascending => asked.lbn.wrapping_sub(last_end),
        }
    }

    /// How many of those that wait, in order of arrival, come before the one at `place`.
    pub(super) fn rank<'a>(
        self,
        waiting: impl ExactSizeIterator<Item = &'a Asked>,
        place: usize,
        own: &Asked,
        last_end: u64,
    ) -> usize {
        if self == Self::Fcfs {
            return place;
        }
        let own = self.key(own, last_end);
        let keys = waiting.enumerate().map(|(at, asked)| (self.key(asked, last_end), at));
        keys.filter(|(key, at)| (*key, *at) < (own, place)).count()
    }

    /// The place of the one that so many of those that wait come before; there are more than `rank`.
    pub(super) fn place<'a>(
        self,
        waiting: impl ExactSizeIterator<Item = &'a Asked>,
        rank: usize,
        last_end: u64,
        scratch: &mut Vec<(u64, u32)>,
    ) -> usize {
        if self == Self::Fcfs {
            return rank;
        }
        let keys = waiting.enumerate().map(|(at, asked)| (self.key(asked, last_end), at as u32));
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
    fn has_the_one_at_a_place_its_rank() {
        let at = |lbn| Asked { op: Operation::Read, lbn, blocks: 8 };
        let waiting = [at(500), at(90), at(110), at(90), at(0)];
        let mut scratch = Vec::new();
        for (order, first) in [(Order::Fcfs, 0), (Order::Nearest, 1), (Order::Ascending, 2)] {
            assert_eq!(order.place(waiting.iter(), 0, 100, &mut scratch), first, "{order:?}");
            for rank in 0..waiting.len() {
                let place = order.place(waiting.iter(), rank, 100, &mut scratch);
                assert_eq!(order.rank(waiting.iter(), place, &waiting[place], 100), rank, "{order:?}");
            }
        }
    }
}
