//! The caller's view of a measurement while it goes on, as typed figures.

use seeklab_bench::Draining;
use seeklab_bench::counters::Counters;
use seeklab_core::{Duration, Instant};
use serde::Serialize;

use super::figures::{IntervalFigures, six_decimals};

/// Receives the figures of a measurement while it goes on. Every method has a default that does nothing.
///
/// The methods run on the thread that collects the figures of all workers. No worker waits for them, but the next interval
/// does, so they should return at once.
pub trait BenchListener {
    /// A phase begins.
    fn phase(&mut self, _phase: &PhaseStart<'_>) {}

    /// An interval is over: the figures of `BenchFigures::intervals`, one by one, and the bytes that were read and written.
    fn interval(&mut self, _figures: &IntervalFigures, _bytes: u64) {}

    /// No more requests arrive in this phase, and the last ones are waited for. Called at the end of each interval, in real time
    /// only.
    fn draining(&mut self, _figures: &DrainingFigures) {}

    /// A sample of the counters is over: all series so far, and this sample. [`counter_plots`](super::counter_plots) has its
    /// points.
    fn counters(&mut self, _sample: &Counters) {}
}

/// Last requests of a phase, which are waited for when no more arrive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DrainingFigures {
    /// Time of these figures from the begin of the run.
    pub at_s: f64,
    /// Attempts that the target has.
    pub outstanding: u64,
    /// Attempts of at least a second of age.
    pub hung_requests: u64,
    /// Age of the oldest attempt.
    pub oldest_ms: Option<f64>,
}

impl DrainingFigures {
    /// The figures of a phase that began so long after the run.
    pub(super) fn of(draining: &Draining, from: Duration) -> Self {
        let Draining { at, outstanding, hung, oldest } = *draining;
        let at_s = six_decimals((from + at.saturating_since(Instant::ZERO)).as_s());
        let oldest_ms = oldest.map(|age| six_decimals(age.as_ms()));
        Self { at_s, outstanding, hung_requests: hung, oldest_ms }
    }
}

/// Begin of a phase.
#[derive(Debug, Clone, Copy)]
pub struct PhaseStart<'a> {
    /// Name of the phase.
    pub name: &'a str,
    /// Number of the repetition, from 1.
    pub repetition: u64,
    /// Begin of the phase from the begin of the run.
    pub from: Duration,
}

/// The listener that hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnheardBench;

impl BenchListener for UnheardBench {}
