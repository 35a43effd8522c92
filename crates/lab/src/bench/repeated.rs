//! Means over the repetitions of a measurement, with their confidence.

use schemars::JsonSchema;
use seeklab_analysis::confidence;
use serde::Serialize;

use super::figures::{LoadFigures, six_decimals};
use super::phases::PhaseFigures;

/// Means over the repetitions of a phase, or of a stream in it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RepeatedFigures {
    /// Name of the phase.
    pub phase: String,
    /// Name of the stream; null of all streams of the phase.
    pub stream: Option<String>,
    /// Requests that were carried out per second.
    pub requests_per_second: Option<RepeatedFigure>,
    /// MiB read and written per second.
    pub mib_per_second: Option<RepeatedFigure>,
    /// Mean response time.
    pub response_mean_ms: Option<RepeatedFigure>,
    /// Median response time.
    pub response_p50_ms: Option<RepeatedFigure>,
    /// 99th percentile of the response time.
    pub response_p99_ms: Option<RepeatedFigure>,
}

/// A figure over repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RepeatedFigure {
    /// Repetitions with this figure.
    pub n: u64,
    /// Mean over the repetitions.
    pub mean: f64,
    /// Sample standard deviation, zero of one repetition.
    pub sd: f64,
    /// Half width of the 95 % confidence interval of the mean by Student's distribution; null of one repetition.
    pub half_width_95: Option<f64>,
}

impl RepeatedFigures {
    /// The means over whole repetitions; none of a single one.
    pub(super) fn of(phases: &[&PhaseFigures]) -> Vec<Self> {
        let mut rows = Vec::new();
        let first = phases.iter().filter(|phase| phase.repetition == 1);
        for phase in first.filter(|_| phases.iter().any(|phase| phase.repetition > 1)) {
            let same = || phases.iter().filter(|other| other.phase == phase.phase);
            rows.push(Self::of_loads(
                &phase.phase,
                None,
                &same().map(|other| &other.load).collect::<Vec<_>>(),
            ));
            for (index, stream) in phase.streams.iter().enumerate().filter(|_| phase.streams.len() > 1) {
                let loads: Vec<_> =
                    same().filter_map(|other| Some(&other.streams.get(index)?.load)).collect();
                rows.push(Self::of_loads(&phase.phase, Some(&stream.stream), &loads));
            }
        }
        rows
    }

    fn of_loads(phase: &str, stream: Option<&str>, loads: &[&LoadFigures]) -> Self {
        let figure = |pick: fn(&LoadFigures) -> Option<f64>| {
            let values: Vec<f64> = loads.iter().filter_map(|load| pick(load)).collect();
            let confidence::Interval { n, mean, sd, half_width_95 } = confidence::interval(&values)?;
            Some(RepeatedFigure { n, mean: six_decimals(mean), sd, half_width_95 })
        };
        Self {
            phase: phase.to_owned(),
            stream: stream.map(str::to_owned),
            requests_per_second: figure(|load| load.requests_per_second),
            mib_per_second: figure(|load| load.mib_per_second),
            response_mean_ms: figure(|load| load.response.response_mean_ms),
            response_p50_ms: figure(|load| load.response.response_p50_ms),
            response_p99_ms: figure(|load| load.response.response_p99_ms),
        }
    }
}
