//! Contents of a report, independent of its appearance.

use seeklab_analysis::comparison::ErrorHistogram;
use seeklab_analysis::{
    Between, BetweenSummary, CdfPoint, Comparison, ComparisonSummary, Evidence, FaultSpan, HistogramBin,
    HostProcess, HostSummary, HostTimeline, Interval, LatenessSummary, Metrics, MetricsSummary, MissCounts,
    Point, SamplePoint, Stamps, TimeBin, Trust,
};
use seeklab_core::{Duration, Instant, Seed};
use serde::{Deserialize, Serialize};

use crate::number::count;

/// A report: what was run, what came out, and how to run it again. Empty parts are left out.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// One line that names the run.
    pub title: String,
    /// One line about it.
    pub subtitle: String,
    /// The command that repeats the run.
    pub command: Option<String>,
    /// The root seed of the run.
    pub seed: Option<Seed>,
    /// The program and version that made the report, such as `seeklab 0.1.0`.
    pub generated_by: String,
    /// Parameters of the run: workload, arrivals, limits.
    pub parameters: Vec<Parameter>,
    /// A section for each device that was run or measured.
    pub devices: Vec<DeviceSection>,
    /// Comparisons of two traces of the same requests.
    pub comparisons: Vec<ComparisonSection>,
    /// Exactness of emulations: the same requests at two measurement points.
    pub points: Vec<PointsSection>,
    /// An application on several devices.
    pub application: Option<ApplicationSection>,
    /// Simulated hosts, one for each device.
    pub hosts: Vec<HostRow>,
    /// Cells of an experiment.
    pub experiment: Option<ExperimentSection>,
    /// Notes that a reader needs to judge the figures. Warnings are shown first.
    pub notes: Vec<Note>,
}

impl Report {
    /// The notes, warnings first, else in their order.
    pub(crate) fn ordered_notes(&self) -> impl Iterator<Item = &Note> {
        let is_warning = |note: &&Note| matches!(note, Note::Warning(_));
        let warnings = self.notes.iter().filter(is_warning);
        warnings.chain(self.notes.iter().filter(move |note| !is_warning(note)))
    }
}

/// Something that a reader has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// The figures may not mean what they seem to.
    Warning(String),
    /// Good to know.
    Remark(String),
}

impl Note {
    /// `warning` or `note`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Warning(_) => "warning",
            Self::Remark(_) => "note",
        }
    }

    /// Returns the text of the note.
    pub fn text(&self) -> &str {
        match self {
            Self::Warning(text) | Self::Remark(text) => text,
        }
    }
}

/// A name, its value with unit, and where the value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name, such as `disk.rpm`.
    pub name: String,
    /// Value with its unit.
    pub value: String,
    /// Data sheet, paper or measurement, if the value has a source.
    pub source: Option<String>,
}

/// Results of the requests on one device.
#[derive(Debug, Clone)]
pub struct DeviceSection {
    /// Short name, as on the command line.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// The figures.
    pub summary: MetricsSummary,
    /// Cumulative distribution of the response times.
    pub cdf: Vec<CdfPoint>,
    /// Histogram of the response times.
    pub histogram: Vec<HistogramBin>,
    /// Requests and response times over the run.
    pub timeline: Vec<TimeBin>,
    /// Arrival of the first request. The plots count from this time.
    pub first_arrival: Instant,
    /// Requests to draw as points.
    pub sample: Vec<SamplePoint>,
    /// Resolved parameters of the device.
    pub parameters: Vec<Parameter>,
    /// Times of faults, drawn on every axis of time.
    pub faults: Vec<FaultBand>,
}

/// A span of time in which a fault struck requests, or lasted for the whole device.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultBand {
    /// Name of the fault.
    pub name: String,
    /// Start of the span, from the first arrival.
    pub start_s: f64,
    /// End of the span, from the first arrival.
    pub end_s: f64,
}

/// Spans of a fault that are nearer to each other than this share of the run are drawn as one.
const JOINED_SHARE: f64 = 0.01;

impl DeviceSection {
    /// The section of a device with these metrics.
    pub fn new(name: impl Into<String>, description: impl Into<String>, metrics: &Metrics) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            summary: metrics.summary(),
            cdf: metrics.response_cdf(),
            histogram: metrics.response_histogram(),
            timeline: metrics.timeline(),
            first_arrival: metrics.first_arrival().unwrap_or_default(),
            sample: metrics.sample(),
            parameters: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// The same with the times of faults of these metrics. Their names are in order of their numbers.
    #[must_use]
    pub fn with_faults<N: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = N>,
        metrics: &Metrics,
    ) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let seconds = |time: Instant| time.saturating_since(self.first_arrival).as_s();
        let near_s = self.summary.duration_s * JOINED_SHARE;
        let mut bands: Vec<FaultBand> = Vec::new();
        for FaultSpan { number, start, end } in metrics.fault_spans() {
            let Some(name) = names.get(number) else { continue };
            let (start_s, end_s) = (seconds(start), seconds(end));
            match bands.last_mut() {
                Some(band) if band.name == *name && start_s - band.end_s <= near_s => {
                    band.end_s = band.end_s.max(end_s);
                }
                _ => bands.push(FaultBand { name: name.clone(), start_s, end_s }),
            }
        }
        self.faults = bands;
        self
    }

    /// The same with resolved parameters.
    #[must_use]
    pub fn with_parameters(mut self, parameters: Vec<Parameter>) -> Self {
        self.parameters = parameters;
        self
    }
}

/// Compares two traces of the same requests.
#[derive(Debug, Clone)]
pub struct ComparisonSection {
    /// Name of the reference.
    pub reference: String,
    /// Name of the other trace.
    pub other: String,
    /// The figures.
    pub summary: ComparisonSummary,
    /// Cumulative distribution of the reference.
    pub reference_cdf: Vec<CdfPoint>,
    /// Cumulative distribution of the other trace.
    pub other_cdf: Vec<CdfPoint>,
    /// Requests to draw as points: `(index in order of arrival, reference, other)`.
    pub sample: Vec<(u64, Duration, Duration)>,
    /// Errors of individual requests in milliseconds, none cut off, over [`errors_over`](Self::errors_over).
    pub errors: Vec<(f64, f64)>,
    /// Axis over which the errors are plotted.
    pub errors_over: ErrorsOver,
    /// Errors of individual requests in buckets of 0.02 ms.
    pub error_histogram: ErrorHistogram,
    /// The same relative to each request's reference time, in buckets of 1 %.
    pub error_pct_histogram: ErrorHistogram,
}

impl ComparisonSection {
    /// The section of a comparison of traces with these names.
    pub fn new(reference: impl Into<String>, other: impl Into<String>, comparison: &Comparison) -> Self {
        Self {
            reference: reference.into(),
            other: other.into(),
            summary: comparison.summary(),
            reference_cdf: comparison.reference_cdf(),
            other_cdf: comparison.other_cdf(),
            sample: comparison.sample(),
            errors: comparison.errors_over_requests(),
            errors_over: ErrorsOver::Requests,
            error_histogram: comparison.error_histogram(),
            error_pct_histogram: comparison.error_pct_histogram(),
        }
    }

    /// A sentence on the requests that failed and are left out, if there are any.
    pub(crate) fn failed_requests(&self) -> Option<String> {
        let ComparisonSummary { reference_errors, other_errors, different_outcomes, .. } = self.summary;
        (reference_errors + other_errors > 0).then(|| {
            format!(
                "left out: failed requests, {} in the reference and {} in the other trace; {} failed in one trace alone",
                count(reference_errors),
                count(other_errors),
                count(different_outcomes),
            )
        })
    }
}

/// Axis over which errors of individual requests are plotted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorsOver {
    /// Their number in order of arrival, from zero.
    Requests,
    /// Their arrival in seconds since the first.
    Time,
}

/// An emulated run, compared at two measurement points.
#[derive(Debug, Clone)]
pub struct PointsSection {
    /// The response times at both points.
    pub comparison: ComparisonSection,
    /// The figures between the points.
    pub summary: BetweenSummary,
    /// Requests of the trace.
    pub requests: u64,
    /// Requests without stamps of the host, `None` if MP1 was not measured.
    pub unmatched: Option<u64>,
    /// Flushes of the loop driver's own, which have no stamps of the host.
    pub driver_flushes: u64,
    /// Lateness at MP2, if it was measured.
    pub lateness: Option<LatenessSummary>,
    /// Missed deadlines by cause.
    pub misses: MissCounts,
    /// Trustworthiness of the run.
    pub trust: Trust,
}

impl PointsSection {
    /// Creates the section of the run `name` with these stamps, compared between two of its points. Its trust
    /// rests on `evidence`, see [`Stamps::evidence`].
    pub fn new(name: &str, stamps: &Stamps, between: &Between, evidence: &Evidence) -> Self {
        let at = |point: Point| match name {
            "" => point.name().to_owned(),
            name => format!("{name} at {}", point.name()),
        };
        let comparison = ComparisonSection {
            errors: between.errors_over_time(),
            errors_over: ErrorsOver::Time,
            ..ComparisonSection::new(at(between.reference()), at(between.outer()), between.comparison())
        };
        Self {
            comparison,
            summary: between.summary(),
            requests: stamps.requests(),
            unmatched: stamps.unmatched(),
            driver_flushes: stamps.driver_flushes(),
            lateness: stamps.lateness(evidence.limit),
            misses: stamps.misses(),
            trust: evidence.trust(),
        }
    }
}

/// Run time of an application on each device, with its exactness.
#[derive(Debug, Clone, Default)]
pub struct ApplicationSection {
    /// The phases of the application, in order.
    pub phases: Vec<String>,
    /// A row for each device; the others are compared with the first.
    pub rows: Vec<ApplicationRow>,
}

/// An application on one device, means over repetitions.
#[derive(Debug, Clone)]
pub struct ApplicationRow {
    /// The device.
    pub device: String,
    /// From exec to exit, all phases together, in seconds.
    pub elapsed_s: Interval,
    /// The shortest and the longest repetition, in seconds.
    pub range_s: [f64; 2],
    /// Time of each phase, part of the elapsed time, in seconds.
    pub phases_s: Vec<f64>,
    /// Time for syncing and unmounting, in seconds.
    pub flush_s: f64,
    /// Requests that the device served.
    pub requests: f64,
    /// Mean response time in the model.
    pub mp3_mean_ms: Option<f64>,
    /// Mean response time in the host.
    pub mp1_mean_ms: Option<f64>,
    /// Mean error of individual requests between host and model.
    pub ei_avg_ms: Option<f64>,
    /// The 99th percentile of the lateness of replies.
    pub lateness_p99_us: f64,
    /// Share of the replies that left too late.
    pub missed_pct: f64,
    /// Trustworthiness of the row, in a sentence.
    pub trust: String,
}

/// A simulated host in front of a device.
#[derive(Debug, Clone)]
pub struct HostRow {
    /// The device.
    pub device: String,
    /// Figures of the host.
    pub summary: HostSummary,
    /// Figures of its requests.
    pub requests: MetricsSummary,
    /// Course of the run.
    pub timeline: HostTimeline,
    /// Times of each process; empty if they are not reported.
    pub processes: Vec<HostProcess>,
}

/// The cells of an experiment, each a mean over repetitions.
#[derive(Debug, Clone, Default)]
pub struct ExperimentSection {
    /// Properties that distinguish the cells, such as `device` and `arrival rate`: columns of the table.
    pub dimensions: Vec<String>,
    /// Observed figures, by name with unit such as `response_mean_ms`: the other columns. Each of the first four
    /// also has a chart.
    pub figures: Vec<String>,
    /// The axis of the charts, such as `arrival rate [1/s]`; without it there are no charts.
    pub parameter: Option<String>,
    /// The cells in the order of the table.
    pub cells: Vec<ExperimentCell>,
}

/// One cell of an experiment.
#[derive(Debug, Clone)]
pub struct ExperimentCell {
    /// The cell's value in each dimension, as text with unit.
    pub values: Vec<String>,
    /// Line of the charts that the cell belongs to.
    pub series: String,
    /// Position on the axis of the charts.
    pub x: f64,
    /// Observed values, one for each figure.
    pub figures: Vec<Option<Interval>>,
}
