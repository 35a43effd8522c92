//! Describes the contents of a trace, in one pass.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use seeklab_analysis::seeks::Seeks;
use seeklab_analysis::{ArrivalGaps, ArrivalOutliers, ArrivalSpan, Metrics, MetricsSummary};
use seeklab_core::number_words::numbered;
use seeklab_core::{Duration, Instant, TraceRecord};
use seeklab_traces::OpenTrace;
use serde::Serialize;

use super::open::TraceOptions;
use crate::failure::Failure;
use crate::session::Session;
use crate::trace_notes::{outliers_sentence, slice_command};

/// Contents of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceInfo {
    /// Path of the trace.
    pub file: String,
    /// Format of the trace.
    pub format: &'static str,
    /// Format of the trace in words, if it was guessed.
    pub guess: Option<String>,
    /// Size of a block.
    pub block_size_bytes: u64,
    /// Number of requests to each device.
    pub devices: BTreeMap<u16, u64>,
    /// Names of the devices, by their numbers.
    pub labels: Vec<String>,
    /// Blocks from 0 to the highest that requests address.
    pub address_range_blocks: u64,
    /// Size of the smallest request.
    pub request_blocks_min: u32,
    /// Mean size of the requests.
    pub request_blocks_mean: f64,
    /// Size of the largest request.
    pub request_blocks_max: u32,
    /// Requests that begin where the request before them on the same device ended.
    pub sequential_pct: Option<f64>,
    /// True if the response time of a request is known.
    pub has_response_times: bool,
    /// Requests whose response time is known.
    pub requests_with_response: u64,
    /// True if the think time of a request is known.
    pub has_think_times: bool,
    /// True if the breakdown of a response time is known.
    pub has_breakdown: bool,
    /// Columns that the format does not contain.
    pub missing_columns: Vec<&'static str>,
    /// Options of the format, and the values used to read the trace.
    pub options: Vec<UsedOption>,
    /// Metadata of the trace.
    pub metadata: BTreeMap<String, String>,
    /// Rows whose arrival is so far from all others that a wrong clock is its probable cause. Empty if there are none.
    pub arrival_outliers: Vec<ArrivalOutlier>,
    /// Missing columns, changes to rows and advice, in sentences.
    pub notes: Vec<String>,
    /// Figures of the requests.
    #[serde(flatten)]
    pub summary: MetricsSummary,
}

/// An option of a format, with the value used to read a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UsedOption {
    /// Name of the option.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// True if the value is the default.
    pub is_default: bool,
    /// Meaning of the option.
    pub meaning: &'static str,
}

/// Rows that arrive close to each other, and far from all other rows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ArrivalOutlier {
    /// Number of the first of these rows in the trace.
    pub row: u64,
    /// Arrival of that row.
    pub arrival_ns: u64,
    /// Number of these rows.
    pub rows: u64,
    /// Time between these rows and the nearest rows towards the main part of the trace.
    pub gap_s: f64,
}

/// Figures of a trace that [`Metrics`] does not have.
#[derive(Debug, Default)]
struct Contents {
    devices: BTreeMap<u16, u64>,
    address_range_blocks: u64,
    requests: u64,
    blocks: u64,
    blocks_min: Option<u32>,
    blocks_max: u32,
    with_think: u64,
    with_response: u64,
    with_breakdown: u64,
    /// Latest arrival so far.
    latest: Instant,
    /// Number of rows that arrived before an earlier row.
    backward: u64,
    gaps: ArrivalGaps,
}

impl Contents {
    fn record(&mut self, record: &TraceRecord) {
        let end = record.lbn.saturating_add(u64::from(record.blocks));
        self.requests += 1;
        self.gaps.record(record.arrival, self.requests);
        *self.devices.entry(record.device).or_default() += 1;
        self.backward += u64::from(record.arrival < self.latest);
        self.latest = self.latest.max(record.arrival);
        self.address_range_blocks = self.address_range_blocks.max(end);
        self.blocks += u64::from(record.blocks);
        self.blocks_min = Some(self.blocks_min.map_or(record.blocks, |min| min.min(record.blocks)));
        self.blocks_max = self.blocks_max.max(record.blocks);
        self.with_think += u64::from(record.think.is_some());
        self.with_response += u64::from(record.completion.is_some());
        self.with_breakdown += u64::from(record.breakdown.is_some());
    }

    /// Returns notes on missing columns, changes to rows, rows that are not in order of arrival, and `outliers`.
    fn notes(&self, trace: &OpenTrace, path: &Path, outliers: Option<&ArrivalOutliers>) -> Vec<String> {
        let missing: Vec<String> = trace.missing_columns().iter().map(ToString::to_string).collect();
        let missing = (!missing.is_empty()).then(|| format!("the format lacks: {}", missing.join(", ")));
        let backward = (self.backward > 0).then(|| {
            let rows = numbered(
                self.backward,
                "row[|s] [arrives before a row that precedes it|arrive before a row that precedes them]",
            );
            format!("{rows}: sort the rows by `arrival_ns` for `seeklab fit` and replay")
        });
        let changes = trace.notes();
        let outliers = outliers.map(|found| {
            format!(
                "{}. The clock was probably wrong. Duration, rates and utilisation include the gap. `{}` copies the other rows",
                outliers_sentence(found),
                slice_command(&path.display().to_string(), found)
            )
        });
        let changes = changes.iter().map(ToString::to_string);
        missing.into_iter().chain(changes).chain(backward).chain(outliers).collect()
    }
}

/// Describes the trace at `path`.
///
/// # Errors
/// If it cannot be read.
pub fn info(session: &Session, path: &Path, reading: &TraceOptions) -> Result<TraceInfo, Failure> {
    let mut trace = reading.open(session, path)?;
    let mut progress = session.progress_of(&path.display().to_string(), &trace);
    let block_size = trace.metadata().block_size;
    let (mut metrics, mut contents) = (Metrics::new(block_size), Contents::default());
    let mut seeks = Seeks::new(block_size.as_bytes());
    let recorder = trace.metadata().recorder();
    for record in trace.by_ref() {
        let record = record?;
        metrics.record(&record);
        contents.record(&record);
        if !recorder.is_recorders_own(&record) {
            seeks.record(&record);
        }
        progress.step()?;
    }
    let metadata = trace.metadata();
    let requests = contents.requests.max(1) as f64;
    let outliers = contents.gaps.outliers();
    Ok(TraceInfo {
        file: path.display().to_string(),
        format: trace.format(),
        guess: trace.guess().map(str::to_owned),
        block_size_bytes: block_size.as_bytes(),
        labels: metadata.labels.clone(),
        metadata: metadata.to_pairs().unwrap_or_default().into_iter().collect(),
        notes: contents.notes(&trace, path, outliers.as_ref()),
        arrival_outliers: outliers.as_ref().map(arrival_outliers).unwrap_or_default(),
        devices: contents.devices,
        address_range_blocks: contents.address_range_blocks,
        request_blocks_min: contents.blocks_min.unwrap_or(0),
        request_blocks_mean: (contents.blocks as f64 / requests * 1e3).round() / 1e3,
        request_blocks_max: contents.blocks_max,
        sequential_pct: seeks.sequential_pct(),
        has_response_times: contents.with_response > 0,
        requests_with_response: contents.with_response,
        has_think_times: contents.with_think > 0,
        has_breakdown: contents.with_breakdown > 0,
        missing_columns: trace.missing_columns().iter().map(|missing| missing.name()).collect(),
        options: trace
            .applied()
            .iter()
            .map(|applied| UsedOption {
                name: applied.name,
                value: applied.value.clone(),
                is_default: !applied.is_explicit,
                meaning: applied.meaning,
            })
            .collect(),
        summary: metrics.summary(),
    })
}

fn arrival_outliers(found: &ArrivalOutliers) -> Vec<ArrivalOutlier> {
    let outlier = |(span, gap): &(ArrivalSpan, Duration)| ArrivalOutlier {
        row: span.row,
        arrival_ns: span.row_arrival.as_ns(),
        rows: span.rows,
        gap_s: gap.as_s(),
    };
    found.outliers.iter().map(outlier).collect()
}
