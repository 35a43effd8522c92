//! Figures of response times for the JSON document.

use schemars::JsonSchema;
use seeklab_analysis::{DensityAxis, DensityStep, ResponseProfile};
use seeklab_core::statistics::Distribution;
use serde::Serialize;

/// Steps of a density at most.
pub(super) const DENSITY_STEPS_MAX: usize = 120;

/// Figures of the response times of a part of a trace, measured or predicted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// Their density over one axis for all that are compared.
    pub density: Vec<DensityStep>,
    /// True if the steps are equal on a logarithmic axis.
    pub density_is_log: bool,
    /// Their quantiles.
    pub quantiles: Vec<Quantile>,
    /// Dependence on earlier response times, in order of arrival.
    pub autocorrelation: Vec<Lag>,
    /// Their means by the queue length at arrival.
    pub by_queue_length: Vec<QueueLength>,
    /// Runs of slow requests.
    pub slow: Slow,
}

/// A time that a share of the requests does not exceed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Quantile {
    /// The share.
    pub requests_pct: f64,
    /// The time.
    pub response_ms: f64,
}

/// Autocorrelation at a lag, from -1 to 1.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Lag {
    /// Lag in requests.
    pub lag_requests: u32,
    /// Of the response times.
    pub response: f64,
    /// Of their logarithms.
    pub log_response: f64,
}

/// Requests that met a queue of a length.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QueueLength {
    /// Minimum queue length of the class, which extends to the next minimum.
    pub queue_length_min: u32,
    /// Number of requests.
    pub requests: u64,
    /// Their mean response time.
    pub response_mean_ms: f64,
}

/// Slow requests, and how many follow each other.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Slow {
    /// Time that slow requests exceed: the 95th percentile measured in the fitted part.
    pub beyond_ms: f64,
    /// Share of slow requests.
    pub requests_pct: f64,
    /// Runs of them.
    pub runs: u64,
    /// Requests of a run on average.
    pub run_mean_requests: Option<f64>,
    /// Expected mean length of a run if requests were independent.
    pub independent_mean_requests: Option<f64>,
    /// Requests of the longest run.
    pub run_max_requests: u32,
    /// Runs by their length.
    pub runs_by_length: Vec<RunLength>,
}

/// Runs of a length.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunLength {
    /// Of at least so many requests.
    pub requests_min: u32,
    /// Number of runs.
    pub runs: u64,
}

/// Shares of the reported quantiles.
const SHARES: [f64; 14] =
    [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 1.0];

impl Figures {
    /// Computes the figures of a profile with the response times `times`.
    pub(super) fn of(profile: &ResponseProfile, times: &Distribution, axis: &DensityAxis) -> Self {
        let autocorrelation = profile.autocorrelation().into_iter();
        let by_queue_length = profile.by_queue_length().into_iter();
        let quantiles = SHARES.into_iter().filter_map(|share| {
            let response_ms = times.quantile(share)?.as_ms();
            Some(Quantile { requests_pct: (share * 1e7).round() / 1e5, response_ms })
        });
        Self {
            density: axis.density(times),
            density_is_log: axis.is_log(),
            quantiles: quantiles.collect(),
            autocorrelation: autocorrelation
                .map(|at| Lag { lag_requests: at.lag, response: at.times, log_response: at.logarithms })
                .collect(),
            by_queue_length: by_queue_length
                .map(|at| QueueLength {
                    queue_length_min: at.least,
                    requests: at.requests,
                    response_mean_ms: at.mean_ms,
                })
                .collect(),
            slow: Slow::of(profile),
        }
    }
}

impl Slow {
    fn of(profile: &ResponseProfile) -> Self {
        let slow = profile.slow();
        let share = slow.share().unwrap_or_default();
        let runs_by_length = slow.at_least().into_iter();
        Self {
            beyond_ms: slow.threshold().as_ms(),
            requests_pct: 100.0 * share,
            runs: slow.runs(),
            run_mean_requests: slow.mean(),
            independent_mean_requests: (share > 0.0 && share < 1.0).then(|| 1.0 / (1.0 - share)),
            run_max_requests: slow.longest(),
            runs_by_length: runs_by_length
                .map(|(requests_min, runs)| RunLength { requests_min, runs })
                .collect(),
        }
    }
}
