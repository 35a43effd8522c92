//! Requests, bytes and response times over the time of the run.

use seeklab_core::{ByteSize, Duration, Instant};
use serde::Serialize;

use crate::rounding::six_decimals;

/// Bins kept at most; when they are full, neighbours are joined and 120 remain.
const BINS_MAX: usize = 240;
/// Width of a bin at first, as a power of two in nanoseconds: 1.024 µs.
const WIDTH_SHIFT_MIN: u32 = 10;

/// Requests that completed in one interval of the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeBin {
    /// Start of the interval, from the first arrival.
    pub start_s: f64,
    /// Length of the interval.
    pub width_s: f64,
    /// Requests that were carried out in it.
    pub requests: u64,
    /// Requests that failed in it.
    pub errors: u64,
    /// Bytes that they read or wrote.
    pub bytes: u64,
    /// Mean of their response times, where known.
    pub response_mean_ms: Option<f64>,
    /// The longest of their response times, where known.
    pub response_max_ms: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    requests: u64,
    errors: u64,
    bytes: u64,
    responses: u64,
    response_sum_ns: u128,
    response_max_ns: u64,
}

impl Bin {
    fn join(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            errors: self.errors + other.errors,
            bytes: self.bytes + other.bytes,
            responses: self.responses + other.responses,
            response_sum_ns: self.response_sum_ns + other.response_sum_ns,
            response_max_ns: self.response_max_ns.max(other.response_max_ns),
        }
    }
}

/// End of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    /// The device moved this much, in that time where it is known.
    CarriedOut { size: ByteSize, response: Option<Duration> },
    /// The request failed.
    Failed,
}

/// Up to 240 bins of equal width over the run, by time of completion. They double their width when
/// the run outgrows them, so memory is bounded and nothing is lost. What completes before the first
/// recorded request arrived (possible in traces that are in no order) counts in the first bin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    origin: Option<Instant>,
    width_shift: u32,
    bins: Vec<Bin>,
}

impl Timeline {
    /// Takes in a request that arrived at `arrival` and ended at `at`.
    pub(crate) fn record(&mut self, arrival: Instant, at: Instant, ended: Ended) {
        let origin = *self.origin.get_or_insert_with(|| {
            self.width_shift = WIDTH_SHIFT_MIN;
            arrival
        });
        let offset_ns = at.saturating_since(origin).as_ns();
        while (offset_ns >> self.width_shift) >= BINS_MAX as u64 {
            self.bins = self
                .bins
                .chunks(2)
                .map(|pair| pair.iter().copied().fold(Bin::default(), Bin::join))
                .collect();
            self.width_shift += 1;
        }
        let index = (offset_ns >> self.width_shift) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        let bin = &mut self.bins[index];
        let Ended::CarriedOut { size, response } = ended else {
            bin.errors += 1;
            return;
        };
        bin.requests += 1;
        bin.bytes += size.as_bytes();
        if let Some(response) = response {
            bin.responses += 1;
            bin.response_sum_ns += u128::from(response.as_ns());
            bin.response_max_ns = bin.response_max_ns.max(response.as_ns());
        }
    }

    /// The bins in order, with times from `first_arrival`.
    pub(crate) fn bins(&self, first_arrival: Instant) -> Vec<TimeBin> {
        let shift_s = self.origin.map_or(0.0, |origin| origin.saturating_since(first_arrival).as_s());
        let width_s = (1_u64 << self.width_shift) as f64 / 1e9;
        self.bins
            .iter()
            .enumerate()
            .map(|(index, bin)| TimeBin {
                start_s: shift_s + index as f64 * width_s,
                width_s,
                requests: bin.requests,
                errors: bin.errors,
                bytes: bin.bytes,
                response_mean_ms: (bin.responses > 0)
                    .then(|| six_decimals(bin.response_sum_ns as f64 / bin.responses as f64 / 1e6)),
                response_max_ms: (bin.responses > 0).then(|| six_decimals(bin.response_max_ns as f64 / 1e6)),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_bins_double() {
        let mut timeline = Timeline::default();
        let start = Instant::from_ns(7_000_000_000);
        for index in 0..100_000_u64 {
            let at = start + Duration::from_us(index * 137);
            let (size, response) = (ByteSize::from_bytes(512), Some(Duration::from_us(index)));
            timeline.record(at, at, Ended::CarriedOut { size, response });
            if index % 10 == 0 {
                timeline.record(at, at, Ended::Failed);
            }
        }
        let bins = timeline.bins(Instant::from_ns(6_000_000_000));
        assert!((120..=240).contains(&bins.len()), "{}", bins.len());
        assert_eq!(bins.iter().map(|bin| bin.requests).sum::<u64>(), 100_000);
        assert_eq!(bins.iter().map(|bin| bin.errors).sum::<u64>(), 10_000);
        assert_eq!(bins.iter().map(|bin| bin.bytes).sum::<u64>(), 51_200_000);
        assert_eq!(bins[0].start_s, 1.0);
        assert_eq!(bins.last().unwrap().response_max_ms, Some(99.999));
        let last = bins.last().unwrap();
        assert!(last.start_s + last.width_s > 1.0 + 13.699);
    }
}
