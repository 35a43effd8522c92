//! Plots the properties of a trace, in one pass and bounded memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_analysis::{Character, Metrics, MetricsSummary};
use seeklab_core::Duration;
use seeklab_core::number_words::{counted, numbered};
use seeklab_files::check_distinct;
use seeklab_report::TraceReport;
use seeklab_traces::Metadata;
use serde::Serialize;

use super::open::TraceOptions;
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;
use crate::trace_notes::check_device;

/// Options for the report on a trace.
#[derive(Debug, Clone, Default)]
pub struct ReportOptions {
    /// Trace to read.
    pub file: PathBuf,
    /// Path that the caller writes the page to.
    pub report: Option<PathBuf>,
    /// Report only the requests of this device [default: all devices].
    pub device: Option<u16>,
    /// Options for reading the trace.
    pub reading: TraceOptions,
}

/// Report on a trace.
#[derive(Debug, Clone)]
pub struct ReportResult {
    /// Figures, as one JSON document.
    pub figures: TraceFigures,
    /// The same, ready to be drawn.
    pub page: TraceReport,
}

/// Figures of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceFigures {
    /// Path of the trace.
    pub file: String,
    /// Path of the page.
    pub report: Option<String>,
    /// Changes to rows and missing requests, in sentences.
    pub notes: Vec<String>,
    /// Figures of the requests.
    pub summary: MetricsSummary,
    /// Standard deviation of the interarrival times, in means.
    pub interarrival_variation: Option<f64>,
    /// Hurst parameter of the arrivals.
    pub hurst: Option<f64>,
    /// Median of the idle periods.
    pub idle_p50_ms: Option<f64>,
    /// Median of the busy periods.
    pub busy_p50_ms: Option<f64>,
    /// Mean distance between consecutive requests of a device.
    pub seek_distance_mean_bytes: Option<f64>,
    /// Distances of zero.
    pub seek_zero_pct: Option<f64>,
    /// Requests that begin where the request before them on the same device ended.
    pub sequential_pct: Option<f64>,
    /// Units of 4 KiB that were read or written.
    pub units_4kib: f64,
    /// Exponent of a Zipf distribution fitted to the popularity of the units.
    pub zipf_exponent: Option<f64>,
    /// Units that were only read.
    pub read_only_pct: Option<f64>,
    /// Units that were only written.
    pub written_only_pct: Option<f64>,
    /// Units that were read and written.
    pub read_and_written_pct: Option<f64>,
    /// Figures over time.
    pub intervals: Vec<IntervalFigures>,
    /// Number of requests by size.
    pub sizes: Vec<SizeFigures>,
    /// Number of requests by distance from the request before them.
    pub seek_distances: Vec<SeekFigures>,
    /// Number of sequential runs by length.
    pub runs: Vec<RunFigures>,
    /// Miss ratio of an LRU cache by size.
    pub miss_ratios: Vec<MissRatio>,
    /// Share of accesses by reuse distance.
    pub reuse_distances: Vec<ReuseDistance>,
    /// Figures of each initiator, the busiest first.
    pub hosts: Vec<HostFigures>,
}

/// A count by direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ByDirection {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Other operations.
    pub other: u64,
}

impl From<[u64; 3]> for ByDirection {
    fn from([read, write, other]: [u64; 3]) -> Self {
        Self { read, write, other }
    }
}

/// Figures of an interval of time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct IntervalFigures {
    /// Start, from the first arrival.
    pub start_s: f64,
    /// Length.
    pub length_s: f64,
    /// Requests that arrived.
    pub requests: ByDirection,
    /// Bytes of these requests.
    pub bytes: ByDirection,
    /// Median of their response times.
    pub response_p50_ms: Option<f64>,
    /// 90th percentile of their response times.
    pub response_p90_ms: Option<f64>,
    /// 99th percentile of their response times.
    pub response_p99_ms: Option<f64>,
    /// 99.9th percentile of their response times.
    pub response_p999_ms: Option<f64>,
    /// Mean number of requests outstanding at arrivals.
    pub outstanding_mean: Option<f64>,
    /// Maximum number of requests outstanding at arrivals.
    pub outstanding_max: Option<u32>,
    /// Approximate bytes that were read or written in the interval.
    pub working_set_bytes: f64,
    /// Approximate bytes that were read or written since the first arrival.
    pub footprint_bytes: f64,
}

/// Number of requests of a range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeFigures {
    /// Smallest size of the range.
    pub bytes_min: u64,
    /// Number of requests.
    pub requests: ByDirection,
}

/// Number of requests of a range of distances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SeekFigures {
    /// Shortest distance of the range; negative backward.
    pub bytes_min: f64,
    /// Number of requests.
    pub requests: u64,
}

/// Number of sequential runs of a range of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunFigures {
    /// Smallest number of requests of the range.
    pub requests_min: u64,
    /// Number of runs.
    pub runs: u64,
}

/// Miss ratio of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct MissRatio {
    /// Size of the cache.
    pub cache_bytes: f64,
    /// Share of accesses that miss.
    pub miss_ratio: f64,
}

/// Share of accesses of a range of reuse distances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ReuseDistance {
    /// Longest distance of the range.
    pub bytes_max: f64,
    /// Share of accesses.
    pub share: f64,
}

/// Figures of an initiator on a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct HostFigures {
    /// Number of the device.
    pub device: u16,
    /// Number of the initiator.
    pub initiator: u32,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Other requests.
    pub others: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Mean response time.
    pub response_mean_ms: Option<f64>,
}

/// Computes the figures of a trace.
///
/// # Errors
/// If the trace cannot be read or lacks the device, or the page would overwrite it.
pub fn report(session: &Session, options: &ReportOptions) -> Result<ReportResult, Failure> {
    let ReportOptions { file, report, device, reading } = options;
    if let Some(path) = report {
        check_distinct(path, [file])?;
    }
    let mut trace = reading.open(session, file)?;
    let block_size = trace.metadata().block_size;
    let recorder = trace.metadata().recorder();
    let (mut metrics, mut character) = (Metrics::new(block_size), Character::new(block_size));
    let mut progress = session.progress_of(&file.display().to_string(), &trace);
    let (mut own, mut devices) = (0_u64, BTreeSet::new());
    for record in trace.by_ref() {
        let record = record?;
        progress.step()?;
        if device.is_some() {
            devices.insert(record.device);
        }
        if recorder.is_recorders_own(&record) {
            own += 1;
        } else if device.is_none_or(|device| device == record.device) {
            metrics.record(&record);
            character.record(&record);
        }
    }
    check_device(*device, &devices)?;
    let metadata = trace.metadata();
    let mut notes: Vec<String> = trace.notes().iter().map(ToString::to_string).collect();
    notes.extend(missing(metadata));
    if own > 0 {
        notes.push(numbered(own, "request[|s] of the recorder itself [is|are] left out"));
    }
    if metrics.span() == Duration::ZERO {
        notes.push(
            "no time passes in the trace: there are no rates, and nothing is drawn over time".to_owned(),
        );
    }
    let figures = figures(options, &metrics, &character, &notes);
    let page = TraceReport {
        title: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        subtitle: subtitle(&figures.summary, &single_label(metadata), *device),
        generated_by: VERSION.to_owned(),
        command: session.command(),
        notes,
        metrics,
        character,
        labels: metadata.labels.clone(),
        names: names(metadata),
    };
    Ok(ReportResult { figures, page })
}

/// Returns the name of the only device, or an empty string.
fn single_label(metadata: &Metadata) -> String {
    metadata.labels.first().filter(|_| metadata.labels.len() == 1).cloned().unwrap_or_default()
}

fn subtitle(summary: &MetricsSummary, label: &str, device: Option<u16>) -> String {
    let whose = match (label, device) {
        (_, Some(device)) => format!(" of device {device}"),
        ("", None) => String::new(),
        (label, None) => format!(" of {label}"),
    };
    format!(
        "{}{whose} in {:.3} s: {}, {}, {}",
        counted(summary.requests, "request"),
        summary.duration_s,
        counted(summary.reads, "read"),
        counted(summary.writes, "write"),
        counted(summary.others, "other")
    )
}

/// Returns notes on events and requests that are missing from the trace.
fn missing(metadata: &Metadata) -> Vec<String> {
    let note = |key: &str, meaning: &str| {
        let count = metadata.other.get(key)?.parse::<u64>().ok().filter(|count| *count > 0)?;
        Some(numbered(count, meaning))
    };
    [
        note("capture.lost_events", "event[|s] [was|were] lost during the capture"),
        note("capture.lost_requests", "request[|s] [was|were] lost while the trace was written"),
        note("capture.given_up", "request[|s] [is|are] missing, because an event of each was not captured"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the names of processes or other initiators by their numbers.
fn names(metadata: &Metadata) -> BTreeMap<u32, String> {
    let named = metadata.other.iter().filter_map(|(key, name)| {
        let number = key.strip_prefix("process.").or_else(|| key.strip_prefix("initiator."))?;
        Some((number.parse().ok()?, name.clone()))
    });
    named.collect()
}

fn figures(
    options: &ReportOptions,
    metrics: &Metrics,
    character: &Character,
    notes: &[String],
) -> TraceFigures {
    let Character { arrivals, periods, seeks, reuse, .. } = character;
    let overlap = reuse.overlap().map(|shares| shares.map(|share| share * 100.0));
    TraceFigures {
        file: options.file.display().to_string(),
        report: options.report.as_ref().map(|path| path.display().to_string()),
        notes: notes.to_vec(),
        summary: metrics.summary(),
        interarrival_variation: arrivals.variation(),
        hurst: arrivals.hurst(),
        idle_p50_ms: periods.idle.quantile(0.5).map(Duration::as_ms),
        busy_p50_ms: periods.busy.quantile(0.5).map(Duration::as_ms),
        seek_distance_mean_bytes: seeks.mean_bytes(),
        seek_zero_pct: seeks.zero_pct(),
        sequential_pct: seeks.sequential_pct(),
        units_4kib: reuse.units(),
        zipf_exponent: reuse.zipf(),
        read_only_pct: overlap.map(|shares| shares[0]),
        written_only_pct: overlap.map(|shares| shares[1]),
        read_and_written_pct: overlap.map(|shares| shares[2]),
        intervals: intervals(character),
        sizes: character
            .sizes()
            .into_iter()
            .map(|(bytes_min, counts)| SizeFigures { bytes_min, requests: counts.into() })
            .collect(),
        seek_distances: seeks
            .histogram()
            .into_iter()
            .map(|(bytes_min, requests)| SeekFigures { bytes_min, requests })
            .collect(),
        runs: seeks
            .runs()
            .into_iter()
            .map(|(requests_min, runs)| RunFigures { requests_min, runs })
            .collect(),
        miss_ratios: reuse
            .miss_ratios()
            .into_iter()
            .map(|(cache_bytes, miss_ratio)| MissRatio { cache_bytes, miss_ratio })
            .collect(),
        reuse_distances: reuse
            .distances()
            .into_iter()
            .map(|(bytes_max, share)| ReuseDistance { bytes_max, share })
            .collect(),
        hosts: hosts(character),
    }
}

fn intervals(character: &Character) -> Vec<IntervalFigures> {
    let figures = character.over_time.intervals().into_iter().map(|interval| IntervalFigures {
        start_s: interval.start_s,
        length_s: interval.length_s,
        requests: interval.requests.into(),
        bytes: interval.bytes.into(),
        response_p50_ms: interval.response_ms.map(|times| times[0]),
        response_p90_ms: interval.response_ms.map(|times| times[1]),
        response_p99_ms: interval.response_ms.map(|times| times[2]),
        response_p999_ms: interval.response_ms.map(|times| times[3]),
        outstanding_mean: interval.outstanding.map(|outstanding| outstanding.0),
        outstanding_max: interval.outstanding.map(|outstanding| outstanding.1),
        working_set_bytes: interval.working_set_bytes,
        footprint_bytes: interval.footprint_bytes,
    });
    figures.collect()
}

fn hosts(character: &Character) -> Vec<HostFigures> {
    let busiest = character.hosts.busiest().into_iter();
    let figures = busiest.map(|((device, initiator), host)| HostFigures {
        device,
        initiator,
        reads: host.reads,
        writes: host.writes,
        others: host.others,
        read_bytes: host.read_bytes,
        written_bytes: host.written_bytes,
        response_mean_ms: host.response.mean().map(|ns| ns / 1e6),
    });
    figures.collect()
}
