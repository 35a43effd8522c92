//! Figures of an estimate, as one JSON document.

use schemars::JsonSchema;
use seeklab_devices::service_law::{LawOrigin, ServiceLaw, WriteBuffer};
use seeklab_estimate::assumptions::Assumption;
use seeklab_estimate::{Estimate, Method, Quantiles};
use serde::Serialize;

use super::network::NetworkFigures;

/// Figures of an estimate.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EstimateFigures {
    /// Seed of the draws of the samples.
    pub seed: u64,
    /// Name of the workload.
    pub workload: String,
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the figures again.
    pub command: Option<String>,
    /// Figures of each device.
    pub devices: Vec<DeviceEstimate>,
}

/// Figures of one device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceEstimate {
    /// Name of the device.
    pub device: String,
    /// True if only the mechanics were estimated.
    pub bare: bool,
    /// Service times of the device for the requests of the workload.
    pub law: LawFigures,
    /// Arrivals per second; null of a closed load.
    pub arrivals_per_s: Option<f64>,
    /// True if the device cannot sustain the load, so that it has no steady state.
    pub saturated: bool,
    /// Estimate by the method that fits the load; null if the device cannot sustain it.
    #[serde(flatten)]
    pub estimate: MethodFigures,
    /// Figures of several devices of a closed load. Absent of one device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkFigures>,
    /// Estimates by simpler methods, for comparison.
    pub beside: Vec<MethodFigures>,
    /// Tested assumptions of the method.
    pub assumptions: Vec<AssumptionFigures>,
    /// Largest errors of such estimates against simulations, by the table of the validation; null if an assumption is broken.
    pub error_pct: ErrorFigures,
    /// Load at which the figure of --until reaches its bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<UntilFigures>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Figures of one method.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct MethodFigures {
    /// Method of the figures: `mg1`, `mg1_priorities`, `mxg1`, `departure_chain`, `buffered_writes`, `limited_queue`, `birth_death`, `closed`, `closed_replay`, `mean_value_analysis`,
    /// `finite_population`, `constant_think_times`, `lindley`, `lindley_reordered` or `allen_cunneen`; null if the device cannot sustain the load.
    pub method: Option<&'static str>,
    /// Mean service time by the law: the time by which a request prolongs a busy period; of several servers, the time of a request
    /// alone. `simulate` measures from the start of service to completion, which is longer where requests are in service together.
    pub service_mean_ms: Option<f64>,
    /// Standard deviation of that time.
    pub service_sd_ms: Option<f64>,
    /// Share of the time in which at least one request is in service, as in `simulate`.
    pub utilisation_pct: Option<f64>,
    /// Mean response time.
    pub response_mean_ms: Option<f64>,
    /// Median response time; null if the method gives no distribution.
    pub response_p50_ms: Option<f64>,
    /// 90th percentile of the response time.
    pub response_p90_ms: Option<f64>,
    /// 95th percentile of the response time.
    pub response_p95_ms: Option<f64>,
    /// 99th percentile of the response time.
    pub response_p99_ms: Option<f64>,
    /// 99.9th percentile of the response time.
    pub response_p999_ms: Option<f64>,
    /// Mean response time of the reads; null unless the method separates reads from writes.
    pub read_response_mean_ms: Option<f64>,
    /// 99th percentile of the response time of the reads.
    pub read_response_p99_ms: Option<f64>,
    /// Mean response time of the writes; null unless the method separates reads from writes.
    pub write_response_mean_ms: Option<f64>,
    /// 99th percentile of the response time of the writes.
    pub write_response_p99_ms: Option<f64>,
    /// Mean response time of the time-critical requests; null unless the method has classes.
    pub time_critical_response_mean_ms: Option<f64>,
    /// Mean response time of the time-noncritical requests; null unless the method has classes.
    pub time_noncritical_response_mean_ms: Option<f64>,
    /// Mean number of outstanding requests.
    pub outstanding_mean: Option<f64>,
    /// Completions per second.
    pub throughput_per_s: Option<f64>,
    /// Highest sustained rate of completions; null if nothing limits it.
    pub saturation_per_s: Option<f64>,
}

/// Service times of a device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LawFigures {
    /// Origin of the law: a formula (`exact`), an integral over the mechanics (`integrated`), or short closed runs
    /// (`sampled`).
    pub origin: &'static str,
    /// Requests in service together at most.
    pub servers: f64,
    /// True if requests complete in order of arrival.
    pub in_order: bool,
    /// Service times by number outstanding. Beyond the last they stay the same.
    pub points: Vec<LawPointFigures>,
    /// Mean service time of a request that arrives at an idle device; null if it does not differ.
    pub after_idle_mean_ms: Option<f64>,
    /// Limits of the sustained rate.
    pub limits: Vec<RateLimitFigures>,
    /// Buffer that takes the writes before they are on the media; null if there is none, or the estimate does not need its
    /// law. The points are then those of a full buffer.
    pub write_buffer: Option<WriteBufferFigures>,
}

/// Law of a write buffer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WriteBufferFigures {
    /// Extents at most that are not on the media.
    pub extents: u32,
    /// Mean service time of reads that find the media free.
    pub read_mean_ms: f64,
    /// Mean service time of writes that find room.
    pub write_mean_ms: f64,
    /// Mean time to write one extent to the media after another.
    pub destage_mean_ms: f64,
    /// Standard deviation of that time.
    pub destage_sd_ms: f64,
    /// True if a read waits until all extents are on the media; false if only for the one being written.
    pub reads_wait_for_all: bool,
}

/// Service times with a number outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct LawPointFigures {
    /// Outstanding requests.
    pub outstanding: u32,
    /// Mean time by which a request prolongs a busy period.
    pub service_mean_ms: f64,
    /// Its standard deviation.
    pub service_sd_ms: f64,
}

/// A limit of the sustained rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RateLimitFigures {
    /// Requests of the workload per second.
    pub requests_per_s: f64,
    /// Requests that pass at once after a pause.
    pub burst_requests: f64,
    /// Time until this load has used up the burst; null if the limit sustains the load.
    pub burst_lasts_s: Option<f64>,
}

/// A tested assumption.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AssumptionFigures {
    /// Name of the assumption: `poisson_arrivals`, `poisson_batches`, `stationary_arrivals`, `independent_services`,
    /// `services_independent_of_idle`, `addresses_of_the_law`, `sizes_of_the_law`, `operations_of_the_law`,
    /// `exponential_think_times`, `exponential_services`, `independent_routing`, `writes_of_the_law`, `no_faults` or `limits_in_steady_state`; of a trace alone `requests_complete` or
    /// `services_independent_of_load`.
    pub name: &'static str,
    /// True if the method relies on the assumption.
    pub needed: bool,
    /// True if the assumption holds.
    pub holds: bool,
    /// Figure of the test.
    pub figure: f64,
    /// Meaning of the figure, for people.
    pub meaning: &'static str,
    /// Least figure with which the assumption holds.
    pub figure_min: f64,
    /// Greatest figure with which the assumption holds.
    pub figure_max: f64,
}

/// Errors of such estimates in the validation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct ErrorFigures {
    /// Largest error of the mean response time; null if no such estimate was compared.
    pub response_mean_pct: Option<f64>,
    /// Largest error of the 99th percentile of the response time; null if none was compared.
    pub response_p99_pct: Option<f64>,
}

/// Load at which a figure reaches its bound.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UntilFigures {
    /// The bound.
    pub bound: String,
    /// Factor by which the load may grow; null if no load meets the bound, or none reaches it.
    pub growth: Option<f64>,
    /// Reason for which there is no growth. Absent if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_unknown_because: Option<String>,
    /// Lower end of the 90 % interval of the factor, 0 if other samples of the load may exceed the bound at any load; null
    /// if the interval is unknown.
    pub growth_min: Option<f64>,
    /// Upper end of the 90 % interval of the factor; null if it is unknown, or if the interval has no upper end.
    pub growth_max: Option<f64>,
    /// Share of such intervals that had the true factor in the validation, of the least covered load; null of loads that
    /// are no sample, and of figures that were not compared.
    pub interval_coverage_pct: Option<f64>,
    /// Arrivals per second after the growth; null of a closed load.
    pub arrivals_per_s: Option<f64>,
    /// Members of the population after the growth; null of an open load.
    pub members: Option<u32>,
}

impl From<&Estimate> for MethodFigures {
    fn from(estimate: &Estimate) -> Self {
        let Estimate { method, service, steady, quantiles_s, reads, writes, classes, saturation_per_s } =
            estimate;
        let quantile = |index: usize| quantiles_s.map(|quantiles: Quantiles| ms(quantiles[index]));
        Self {
            method: Some(Method::name(*method)),
            service_mean_ms: Some(ms(service.mean_s)),
            service_sd_ms: Some(ms(service.deviation_s())),
            utilisation_pct: Some(rounded(steady.utilisation * 100.0)),
            response_mean_ms: Some(ms(steady.response_mean_s)),
            response_p50_ms: quantile(0),
            response_p90_ms: quantile(1),
            response_p95_ms: quantile(2),
            response_p99_ms: quantile(3),
            response_p999_ms: quantile(4),
            read_response_mean_ms: reads.map(|times| ms(times.mean_s)),
            read_response_p99_ms: reads.map(|times| ms(times.quantiles_s[3])),
            write_response_mean_ms: writes.map(|times| ms(times.mean_s)),
            write_response_p99_ms: writes.map(|times| ms(times.quantiles_s[3])),
            time_critical_response_mean_ms: classes.map(|means| ms(means.time_critical_s)),
            time_noncritical_response_mean_ms: classes.map(|means| ms(means.time_noncritical_s)),
            outstanding_mean: Some(rounded(steady.outstanding_mean)),
            throughput_per_s: Some(rounded(steady.throughput_per_s)),
            saturation_per_s: saturation_per_s.map(rounded),
        }
    }
}

impl LawFigures {
    /// Figures of a law under a load of that rate.
    pub(super) fn of(law: &ServiceLaw, arrivals_per_s: Option<f64>) -> Self {
        let limits = law.limits.iter().map(|limit| RateLimitFigures {
            requests_per_s: rounded(limit.requests_per_s),
            burst_requests: rounded(limit.burst_requests),
            burst_lasts_s: arrivals_per_s.and_then(|rate| limit.burst_lasts(rate)).map(|time| time.as_s()),
        });
        let points = law.points.iter().map(|point| LawPointFigures {
            outstanding: point.outstanding,
            service_mean_ms: ms(point.service.mean_s()),
            service_sd_ms: ms(point.service.deviation_s()),
        });
        Self {
            origin: origin(law.origin),
            servers: rounded(law.servers),
            in_order: law.in_order,
            points: points.collect(),
            after_idle_mean_ms: law.after_idle.as_ref().map(|times| ms(times.mean_s())),
            limits: limits.collect(),
            write_buffer: law.buffered_writes.as_ref().map(|writes| {
                let WriteBuffer { extents, read, write, destage, reads_wait_for_all, .. } = &writes.buffer;
                WriteBufferFigures {
                    extents: *extents,
                    read_mean_ms: ms(read.mean_s()),
                    write_mean_ms: ms(write.mean_s()),
                    destage_mean_ms: ms(destage.mean_s()),
                    destage_sd_ms: ms(destage.deviation_s()),
                    reads_wait_for_all: *reads_wait_for_all,
                }
            }),
        }
    }
}

/// Name of the origin of a law.
pub(super) const fn origin(origin: LawOrigin) -> &'static str {
    match origin {
        LawOrigin::Exact => "exact",
        LawOrigin::Integrated => "integrated",
        LawOrigin::Sampled => "sampled",
    }
}

impl AssumptionFigures {
    /// Returns true if the method relies on the assumption, and it does not hold.
    pub(super) const fn is_broken(&self) -> bool {
        self.needed && !self.holds
    }

    /// The broken assumption in a sentence.
    pub(super) fn sentence(&self) -> String {
        let Self { name, meaning, figure, figure_min, figure_max, .. } = self;
        format!(
            "the assumption `{name}` does not hold: {meaning} is {figure:.3}, allowed {figure_min:.3} to {figure_max:.3}"
        )
    }

    /// Figures of a test, of an assumption that the method needs or not.
    pub(super) fn of(assumption: &Assumption, needed: bool) -> Self {
        Self {
            name: assumption.kind.name(),
            needed,
            holds: assumption.holds(),
            figure: rounded(assumption.figure),
            meaning: assumption.kind.figure_in_words(),
            figure_min: rounded(assumption.min),
            figure_max: rounded(assumption.max),
        }
    }
}

/// Seconds in milliseconds, to the nanosecond.
pub(super) fn ms(seconds: f64) -> f64 {
    rounded(seconds * 1e3)
}

/// To six decimals.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
