//! The caller's view of a measurement while it goes on, as typed figures.

use seeklab_bench::counters::Counters;
use seeklab_core::Duration;

use super::figures::IntervalFigures;

/// Receives the figures of a measurement while it goes on. Every method has a default that does nothing.
///
/// The methods run on the thread that collects the figures of all workers. No worker waits for them, but the next interval
/// does, so they should return at once.
pub trait BenchListener {
    /// A phase begins.
    fn phase(&mut self, _phase: &PhaseStart<'_>) {}

    /// An interval is over: the figures of `BenchFigures::intervals`, one by one, and the bytes that were read and written.
    fn interval(&mut self, _figures: &IntervalFigures, _bytes: u64) {}

    /// A sample of the counters is over: all series so far, and this sample. [`counter_plots`](super::counter_plots) has its
    /// points.
    fn counters(&mut self, _sample: &Counters) {}
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
