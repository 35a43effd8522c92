//! Figures of the phases of a measurement, and of their streams.

use schemars::JsonSchema;
use seeklab_bench::target::TargetKind;
use seeklab_bench::{Measurement, Plan, SteadyChange, SteadyFigure, SteadyTrack, SteadyWindow};
use serde::Serialize;

use super::figures::{CostFigures, CountFigures, IntervalFigures, LoadFigures, six_decimals};
use super::options::BenchOptions;
use super::phase::PhaseRun;
use super::rates::offered_per_s;
use crate::fitted_range::FittedRangeFigures;

/// Figures of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PhaseFigures {
    /// Name of the phase.
    pub phase: String,
    /// Number of the repetition, the first is 1.
    pub repetition: u64,
    /// Begin of the phase from the begin of the run.
    pub from_s: f64,
    /// Rate at which the requests of all streams were to arrive; null if one of them has no rate, such as a closed load.
    pub offered_per_second: Option<f64>,
    /// Figures of all requests of the phase that count.
    #[serde(flatten)]
    pub load: LoadFigures,
    /// Cost of measuring; null in virtual time.
    pub cost: Option<CostFigures>,
    /// Steady state of the phase; null if it had fewer than five intervals.
    pub steady: Option<SteadyFigures>,
    /// True if nothing is known that distorts the figures of the phase.
    pub trusted: bool,
    /// Requests outside of the loads that the clones among the targets were fitted to, by what they lie outside of; null
    /// without clones.
    pub fitted_range: Option<FittedRangeFigures>,
    /// Figures of each stream.
    pub streams: Vec<StreamFigures>,
}

/// Figures of a stream in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StreamFigures {
    /// Name of the stream.
    pub stream: String,
    /// Target as named by the user.
    pub target: String,
    /// Kind of the target.
    pub target_kind: &'static str,
    /// Size of the target.
    pub capacity_bytes: u64,
    /// Size of its blocks.
    pub block_size_bytes: u64,
    /// Name of the workload.
    pub workload: String,
    /// Threads.
    pub threads: u32,
    /// Requests that may be under way at a time.
    pub outstanding_max: u32,
    /// Figures of all requests of the stream that count.
    #[serde(flatten)]
    pub load: LoadFigures,
    /// Counts of all requests of the stream that count.
    #[serde(flatten)]
    pub counts: CountFigures,
    /// Figures over time from the begin of the phase, if the phase has several streams.
    pub intervals: Vec<IntervalFigures>,
}

/// Steady state of a phase, by SNIA's test over five intervals: a range of at most 20 % and a trend of at most 10 % of
/// the mean.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SteadyFigures {
    /// Key of the figure of each interval that was tested.
    pub figure: &'static str,
    /// Length of an interval.
    pub round_s: f64,
    /// Intervals that were tested.
    pub rounds: u64,
    /// Interval with which the steady state was reached, the first is 1; null if it was not.
    pub reached_round: Option<u64>,
    /// Interval with which it was left for the first time; null if it was not.
    pub left_round: Option<u64>,
    /// True if the last five intervals were steady.
    pub steady_at_end: bool,
    /// Mean of the figure over the five intervals with which the steady state was reached; null if it was not.
    pub mean: Option<f64>,
    /// Range over these intervals, or over the last five if it was not reached, in percent of their mean.
    pub range_pct: Option<f64>,
    /// Trend over the same intervals: change of the fitted line in percent of their mean.
    pub slope_pct: Option<f64>,
    /// Each interval with which the steady state began or ended.
    pub changes: Vec<SteadyChangeFigures>,
}

/// An interval with which the steady state began or ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SteadyChangeFigures {
    /// Number of the interval, the first is 1.
    pub round: u64,
    /// End of the interval from the begin of the phase.
    pub at_s: f64,
    /// True if the steady state was reached, false if it was left.
    pub reached: bool,
    /// Mean of the figure over the last five intervals.
    pub mean: Option<f64>,
    /// Their range, in percent of the mean.
    pub range_pct: Option<f64>,
    /// Their trend, in percent of the mean.
    pub slope_pct: Option<f64>,
}

impl PhaseFigures {
    pub(super) fn of(options: &BenchOptions, run: &PhaseRun) -> Self {
        let phase = run.options(options);
        let totals = &run.measurement.totals;
        Self {
            phase: phase.name.clone(),
            repetition: run.repetition + 1,
            from_s: six_decimals(run.from.as_s()),
            offered_per_second: phase
                .streams
                .iter()
                .map(offered_per_s)
                .sum::<Option<f64>>()
                .map(six_decimals),
            load: LoadFigures::of(totals),
            cost: CostFigures::of(totals),
            steady: SteadyFigures::of(run),
            trusted: run.notes.is_trusted,
            fitted_range: run.coverage.as_ref().map(FittedRangeFigures::of),
            streams: (0..run.streams.len()).map(|stream| StreamFigures::of(options, run, stream)).collect(),
        }
    }
}

impl StreamFigures {
    fn of(options: &BenchOptions, run: &PhaseRun, index: usize) -> Self {
        let stream = &run.options(options).streams[index];
        let (of_stream, totals) = (&run.streams[index], &run.measurement.streams[index]);
        let address = &options.targets[stream.target].address;
        let space = &of_stream.facts.space;
        let parts = run.measurement.intervals.iter().filter(|_| run.streams.len() > 1);
        Self {
            stream: stream.name.clone(),
            target: address.clone(),
            target_kind: TargetKind::of(address).0.name,
            capacity_bytes: space.capacity_blocks.saturating_mul(space.block_size.as_bytes()),
            block_size_bytes: space.block_size.as_bytes(),
            workload: stream.workload.name().to_owned(),
            threads: stream.threads,
            outstanding_max: of_stream.room(),
            load: LoadFigures::of(totals),
            counts: CountFigures::of(totals),
            intervals: parts.map(|interval| IntervalFigures::of_part(&interval.streams[index])).collect(),
        }
    }
}

/// The rounds of a phase: those of its rule, or its whole intervals.
pub(super) fn track(plan: &Plan, measurement: &Measurement) -> Option<(SteadyFigure, SteadyTrack)> {
    if let (Some(rule), Some(track)) = (plan.steady, &measurement.steady) {
        return Some((rule.figure, track.clone()));
    }
    let length = plan.interval?;
    let (figure, mut track) = (SteadyFigure::default(), SteadyTrack::default());
    for interval in &measurement.intervals {
        let part = &interval.part;
        // The last one may be cut, or go to the last completion.
        if part.until.saturating_since(part.from) == length {
            track.push(figure.of(part));
        }
    }
    Some((figure, track))
}

impl SteadyFigures {
    fn of(run: &PhaseRun) -> Option<Self> {
        let (figure, track) = track(&run.plan, &run.measurement)?;
        let round_s = run.plan.interval?.as_s();
        let changes = track.changes();
        let reached = changes.first();
        let window = match reached {
            Some(reached) => reached.window,
            None => Some(track.window()?),
        };
        let [mean, range_pct, slope_pct] = columns(window);
        Some(Self {
            figure: figure.name(),
            round_s: six_decimals(round_s),
            rounds: track.figures().len() as u64,
            reached_round: reached.map(|change| change.round),
            left_round: changes.get(1).map(|change| change.round),
            steady_at_end: track.is_steady(),
            mean: mean.filter(|_| reached.is_some()),
            range_pct,
            slope_pct,
            changes: changes.iter().map(|change| SteadyChangeFigures::of(change, round_s)).collect(),
        })
    }
}

impl SteadyChangeFigures {
    fn of(change: &SteadyChange, round_s: f64) -> Self {
        let [mean, range_pct, slope_pct] = columns(change.window);
        Self {
            round: change.round,
            at_s: six_decimals(change.round as f64 * round_s),
            reached: change.is_reached,
            mean,
            range_pct,
            slope_pct,
        }
    }
}

/// Mean, range and trend of a window.
fn columns(window: Option<SteadyWindow>) -> [Option<f64>; 3] {
    let of = |pick: fn(&SteadyWindow) -> f64| window.as_ref().map(|window| six_decimals(pick(window)));
    [of(|window| window.mean), of(|window| window.range_pct), of(|window| window.slope_pct)]
}
