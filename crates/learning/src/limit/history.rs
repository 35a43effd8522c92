//! Rough history of the completions of a trace, so that the work between the stretches of a sample is known.

use seeklab_core::{Instant, Operation};
use seeklab_devices::limit::Limited;

use super::traffic::Costs;

/// Bins at most; when there are as many, each two become one.
const BINS: usize = 8_192;

/// Requests and blocks that completed in a time, of reads and of everything else that addresses blocks.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    requests: [u64; 2],
    blocks: [u64; 2],
}

/// Completions of a trace in bins of equal width; memory has a bound.
#[derive(Debug, Clone)]
pub(crate) struct History {
    bins: Vec<Bin>,
    /// The width is two to this power, in nanoseconds.
    shift: u32,
    /// The first arrival.
    origin: Option<Instant>,
}

impl Default for History {
    fn default() -> Self {
        Self { bins: Vec::new(), shift: 20, origin: None }
    }
}

impl History {
    /// Takes one request in, in order of arrival.
    pub(crate) fn record(&mut self, arrival: Instant, completion: Instant, op: Operation, blocks: u32) {
        let origin = *self.origin.get_or_insert(arrival);
        if !op.addresses_blocks() {
            return;
        }
        let passed = completion.saturating_since(origin).as_ns();
        while passed >> self.shift >= BINS as u64 {
            self.halve();
        }
        let place = (passed >> self.shift) as usize;
        if place >= self.bins.len() {
            self.bins.resize(place + 1, Bin::default());
        }
        let (bin, kind) = (&mut self.bins[place], usize::from(op != Operation::Read));
        bin.requests[kind] += 1;
        bin.blocks[kind] += match op {
            Operation::Read | Operation::Write => u64::from(blocks),
            _ => 0,
        };
    }

    fn halve(&mut self) {
        self.shift += 1;
        for place in 0..self.bins.len().div_ceil(2) {
            let mut both = self.bins[2 * place];
            if let Some(other) = self.bins.get(2 * place + 1) {
                for kind in 0..2 {
                    both.requests[kind] += other.requests[kind];
                    both.blocks[kind] += other.blocks[kind];
                }
            }
            self.bins[place] = both;
        }
        self.bins.truncate(self.bins.len().div_ceil(2));
    }

    /// Returns the work completed between two times, as steps of nanoseconds with the costs in each.
    /// Within a bin, the work is spread evenly.
    pub(crate) fn between(
        &self,
        from: Instant,
        until: Instant,
        of: Limited,
    ) -> impl Iterator<Item = (f64, Costs)> + '_ {
        let since = |time: Instant| self.origin.map_or(0, |origin| time.saturating_since(origin).as_ns());
        let (from, until) = (since(from), since(until).max(since(from)));
        let width = 1_u64 << self.shift;
        (from >> self.shift..=until >> self.shift).map(move |place| {
            let (start, end) = ((place * width).max(from), ((place + 1) * width).min(until));
            let bin = self.bins.get(place as usize).copied().unwrap_or_default();
            let passed = end.saturating_sub(start) as f64;
            let share = passed / width as f64;
            let costs = [bin.requests, bin.blocks].map(|[reads, others]| {
                let cost = match of {
                    Limited::All => reads + others,
                    Limited::Reads => reads,
                    Limited::Writes => others,
                };
                cost as f64 * share
            });
            (passed, costs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_between_two_times_are_known_however_long_the_trace() {
        let mut history = History::default();
        // One a millisecond for an hour and a half, every fourth a write; it begins late.
        let at = |ms: u64| Instant::from_ns(7_000_000_000 + ms * 1_000_000);
        for ms in 0..5_400_000 {
            let op = if ms % 4 == 0 { Operation::Write } else { Operation::Read };
            history.record(at(ms), at(ms), op, 16);
        }
        assert!(history.bins.len() <= BINS, "{}", history.bins.len());
        for (of, requests) in
            [(Limited::All, 2_000_000.0), (Limited::Reads, 1_500_000.0), (Limited::Writes, 500_000.0)]
        {
            let steps: Vec<(f64, Costs)> = history.between(at(1_000_500), at(3_000_500), of).collect();
            let sum = |part: fn(&(f64, Costs)) -> f64| steps.iter().map(part).sum::<f64>();
            assert!((sum(|step| step.0) / 2e12 - 1.0).abs() < 1e-9);
            for (found, expected) in
                [(sum(|step| step.1[0]), requests), (sum(|step| step.1[1]), 16.0 * requests)]
            {
                assert!((found / expected - 1.0).abs() < 1e-3, "{of:?}: {found}, {expected} expected");
            }
        }
    }
}
