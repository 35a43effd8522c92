//! Analysis of traces: metrics of one trace, comparison of two traces, matching of requests observed at two
//! points, confidence interval of a mean.
//!
//! ```text
//!   TraceRecord ─▶ Metrics ─▶ MetricsSummary, curves, timeline, sample     (one pass, bounded memory)
//!   two traces  ─▶ compare() ─▶ EI_avg, EI_rms, EA_rms, histograms         (16 B per request and trace)
//!   one trace   ─▶ Stamps ─▶ between(mp1, mp3), lateness, misses, trust     (64 B per request)
//!   requests of the host, records ─▶ Matcher ─▶ records with the host's times
//!   repetitions ─▶ interval() ─▶ mean ± 95 % interval
//! ```
//! Simulated, emulated, measured and imported requests come as the same
//! [`TraceRecord`](seeklab_core::TraceRecord), so one code computes every figure.
//!
//! # Scope and limits
//! No I/O, no clock, no randomness: the same records give the same figures on every machine.

pub mod arrival_gaps;
pub mod character;
pub mod comparison;
pub mod confidence;
pub mod curve;
pub mod density;
mod host;
pub mod matching;
pub mod metrics;
pub mod part_times;
pub mod points;
pub mod prediction;
pub mod profile;
pub mod relocation;
pub mod repetitions;
mod rounding;
pub mod seeks;
pub mod shares;
pub mod verdict;

pub use arrival_gaps::{ArrivalGaps, ArrivalOutliers, ArrivalSpan};
pub use character::Character;
pub use comparison::{Comparison, ComparisonError, ComparisonSummary, Side, compare, compare_where};
pub use confidence::{BatchMeans, Interval, interval};
pub use curve::{CdfPoint, HistogramBin};
pub use density::{DensityAxis, DensityStep};
pub use host::{ClassSummary, HostProcess, HostSummary, HostTimeline};
pub use matching::{DRIVER_FLUSHES_MAX, HostKnown, MatchCounts, Matcher};
pub use metrics::{
    BreakdownSummary, CriticalitySummaries, CriticalitySummary, FaultSpan, Metrics, MetricsSummary,
    SamplePoint, StatusCounts, TimeBin, TimeSummary,
};
pub use part_times::PartTimes;
pub use points::{
    Between, BetweenSummary, Evidence, LatenessSummary, MissCounts, Point, PointsError, Stamps, Trust,
    TrustLevel,
};
pub use prediction::{Change, Prediction, change, prediction};
pub use profile::ResponseProfile;
pub use repetitions::{RepetitionChange, ThresholdVerdict};
pub use shares::OperationShares;
pub use verdict::{ClassError, ClassErrors, Met, Verdict};
