//! Busy time of a device: the length of a union of intervals, in one pass.

use std::collections::VecDeque;

use seeklab_core::{Duration, Instant};

/// Idle gaps that are remembered, so that a long request that completes late still fills them.
const GAPS_MAX: usize = 1_024;

/// The union of service intervals.
///
/// In completion order over a single server every interval begins where or after the last ended, and
/// nothing needs remembering. Overlapping intervals (channels, members of an array) and other orders
/// are exact as well, as long as no interval reaches back over more than 1,024 idle gaps; older gaps
/// stay idle.
#[derive(Debug, Clone, Default)]
pub(crate) struct BusyTime {
    busy_ns: u64,
    bounds_ns: Option<(u64, u64)>,
    gaps_ns: VecDeque<(u64, u64)>,
}

impl BusyTime {
    /// Takes the interval `start..end` in.
    pub(crate) fn record(&mut self, start: Instant, end: Instant) {
        let (start, end) = (start.as_ns(), end.as_ns().max(start.as_ns()));
        let Some((first, last)) = self.bounds_ns else {
            self.bounds_ns = Some((start, end));
            self.busy_ns = end - start;
            return;
        };
        if start >= last {
            if start > last {
                self.remember_gap(last, start);
            }
            self.busy_ns += end - start;
            self.bounds_ns = Some((first, end));
            return;
        }
        self.fill(start, end);
        if end > last {
            self.busy_ns += end - last;
        }
        if start < first {
            self.busy_ns += end.min(first) - start;
            if end < first && self.gaps_ns.len() < GAPS_MAX {
                self.gaps_ns.push_front((end, first));
            }
        }
        self.bounds_ns = Some((start.min(first), end.max(last)));
    }

    fn remember_gap(&mut self, start: u64, end: u64) {
        if self.gaps_ns.len() == GAPS_MAX {
            self.gaps_ns.pop_front();
        }
        self.gaps_ns.push_back((start, end));
    }

    /// Makes the part of every gap within `start..end` busy.
    fn fill(&mut self, start: u64, end: u64) {
        let mut index = self.gaps_ns.len();
        while index > 0 {
            index -= 1;
            let (gap_start, gap_end) = self.gaps_ns[index];
            if gap_end <= start {
                break;
            }
            if gap_start >= end {
                continue;
            }
            let (from, to) = (gap_start.max(start), gap_end.min(end));
            self.busy_ns += to - from;
            self.gaps_ns.remove(index);
            if to < gap_end {
                self.gaps_ns.insert(index, (to, gap_end));
            }
            if gap_start < from {
                self.gaps_ns.insert(index, (gap_start, from));
            }
        }
    }

    /// The length of the union, or `None` of no interval.
    pub(crate) fn total(&self) -> Option<Duration> {
        self.bounds_ns.map(|_| Duration::from_ns(self.busy_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn union(intervals: &[(u64, u64)]) -> u64 {
        let mut busy = BusyTime::default();
        for (start, length) in intervals {
            busy.record(Instant::from_ns(*start), Instant::from_ns(start + length));
        }
        busy.total().map_or(0, Duration::as_ns)
    }

    #[test]
    fn late_long_interval_fills_the_gaps_it_covers() {
        assert_eq!(union(&[(5, 1), (8, 1), (0, 10)]), 10);
        assert_eq!(union(&[(10, 2), (0, 10)]), 12);
        assert_eq!(union(&[(0, 2), (10, 2), (4, 2)]), 6);
        assert_eq!(union(&[]), 0);
    }

    proptest! {
        #[test]
        fn union_is_exact_in_any_order(intervals in prop::collection::vec((0_u64..300, 0_u64..40), 0..60)) {
            let mut covered = [false; 400];
            for (start, length) in &intervals {
                covered[*start as usize..(start + length) as usize].fill(true);
            }
            prop_assert_eq!(union(&intervals), covered.iter().filter(|busy| **busy).count() as u64);
        }
    }
}
