//! Times at which faults struck requests, or lasted for a whole device.

use seeklab_core::{Duration, FaultSet, Instant};

/// Spans kept of each fault. When there are more, near ones are joined.
const SPANS_MAX: usize = 64;

/// Distance below which spans are joined at first.
const GAP_MIN: Duration = Duration::from_us(1);

/// A span of time in which a fault struck requests, from the arrival of the first to the end of the last, or in which a
/// fault of a whole device lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultSpan {
    /// Number of the fault, as in [`FaultSet`].
    pub number: usize,
    /// Start of the span.
    pub start: Instant,
    /// End of the span.
    pub end: Instant,
}

/// At most 64 spans of each fault. Spans that are nearer to each other than a gap are one; the gap doubles when there
/// are too many, so memory is bounded and no strike is lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultSpans {
    /// Spans of each fault in order of their starts, and the gap between them.
    faults: Vec<(Vec<FaultSpan>, Duration)>,
}

impl FaultSpans {
    /// Takes in a request that these faults struck, or the time for which they lasted.
    pub(crate) fn record(&mut self, faults: FaultSet, arrival: Instant, end: Instant) {
        if faults.is_empty() {
            return;
        }
        for number in faults.numbers() {
            if self.faults.len() <= number {
                self.faults.resize(number + 1, (Vec::new(), GAP_MIN));
            }
            let (spans, gap) = &mut self.faults[number];
            let place = spans.partition_point(|span| span.start <= arrival);
            spans.insert(place, FaultSpan { number, start: arrival, end });
            join(spans, *gap);
            while spans.len() > SPANS_MAX {
                *gap = *gap * 2;
                join(spans, *gap);
            }
        }
    }

    /// Returns the spans of all faults, fault by fault.
    pub(crate) fn spans(&self) -> Vec<FaultSpan> {
        self.faults.iter().flat_map(|(spans, _)| spans).copied().collect()
    }
}

/// Joins the spans that are nearer to each other than `gap`.
fn join(spans: &mut Vec<FaultSpan>, gap: Duration) {
    spans.dedup_by(|next, before| {
        let is_near = next.start.saturating_since(before.end) <= gap;
        if is_near {
            before.end = before.end.max(next.end);
        }
        is_near
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    #[test]
    fn strikes_that_overlap_are_one_span_in_any_order() {
        let mut spans = FaultSpans::default();
        let both = FaultSet::NONE.with(0).with(2);
        for (start, end) in [(10, 14), (30, 31), (13, 15), (8, 11)] {
            spans.record(both, ms(start), ms(end));
        }
        spans.record(FaultSet::NONE, ms(0), ms(99));
        let expected = |number| {
            [(8, 15), (30, 31)].map(|(start, end)| FaultSpan { number, start: ms(start), end: ms(end) })
        };
        assert_eq!(spans.spans(), [expected(0), expected(2)].concat());
    }

    #[test]
    fn number_of_spans_is_bounded_and_covers_every_strike() {
        let mut spans = FaultSpans::default();
        for strike in 0..10_000 {
            spans.record(FaultSet::NONE.with(1), ms(10 * strike), ms(10 * strike + 1));
        }
        let kept = spans.spans();
        assert!((1..=SPANS_MAX).contains(&kept.len()), "{}", kept.len());
        assert_eq!((kept[0].start, kept[kept.len() - 1].end), (ms(0), ms(99_991)));
        // Far apart, they stay apart.
        let mut far = FaultSpans::default();
        (0..64).for_each(|strike| far.record(FaultSet::NONE.with(0), ms(1_000 * strike), ms(1_000 * strike)));
        assert_eq!(far.spans().len(), 64);
    }
}
