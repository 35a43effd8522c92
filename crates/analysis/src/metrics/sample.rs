//! A bounded sample of requests, to be drawn as points.

use seeklab_core::{Duration, Instant, Operation};

/// A request of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplePoint {
    /// Arrival of the request.
    pub arrival: Instant,
    /// First logical block.
    pub lbn: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Operation of the request.
    pub op: Operation,
    /// Response time, if known.
    pub response: Option<Duration>,
}

/// Points kept at most.
pub(crate) const SAMPLE_MAX: usize = 4_000;

/// Returns true if number `index` of a stream is in a sample of one in `2^halvings`.
///
/// The choice uses a hash of the number (SplitMix64). Choosing every n-th request instead could select only
/// the reads of an alternating stream. The choice uses integers rather than the logarithms of a reservoir, so
/// that every machine keeps the same requests.
pub(crate) fn is_sampled(index: u64, halvings: u32) -> bool {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).trailing_zeros() >= halvings
}

/// All of the first 4,000 requests, then one in 2, 4, 8 …: about 2,000 to 4,000 of any number,
/// each request equally likely.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    seen: u64,
    halvings: u32,
    points: Vec<(u64, SamplePoint)>,
}

impl Sample {
    /// Offers the next request; `point` is only called if it is kept.
    pub(crate) fn offer(&mut self, point: impl FnOnce() -> SamplePoint) {
        let index = self.seen;
        self.seen += 1;
        if !is_sampled(index, self.halvings) {
            return;
        }
        while self.points.len() >= SAMPLE_MAX {
            self.halvings += 1;
            let halvings = self.halvings;
            self.points.retain(|(index, _)| is_sampled(*index, halvings));
        }
        if is_sampled(index, self.halvings) {
            self.points.push((index, point()));
        }
    }

    /// The sample in order of arrival.
    pub(crate) fn points(&self) -> Vec<SamplePoint> {
        let mut points: Vec<SamplePoint> = self.points.iter().map(|(_, point)| *point).collect();
        points.sort_by_key(|point| point.arrival);
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_bounded_and_even() {
        let mut sample = Sample::default();
        for index in 0..1_000_000_u64 {
            sample.offer(|| SamplePoint {
                arrival: Instant::from_ns(index),
                lbn: index,
                blocks: 1,
                op: if index % 2 == 0 { Operation::Read } else { Operation::Write },
                response: None,
            });
        }
        let points = sample.points();
        assert!((1_900..=4_000).contains(&points.len()), "{}", points.len());
        let reads = points.iter().filter(|point| point.op == Operation::Read).count() as f64;
        assert!((reads / points.len() as f64 - 0.5).abs() < 0.04, "{reads} of {}", points.len());
        let early = points.iter().filter(|point| point.lbn < 500_000).count() as f64;
        assert!((early / points.len() as f64 - 0.5).abs() < 0.04, "{early} of {}", points.len());
    }
}
