//! `seeklab trace report`: writes the usual plots of a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use seeklab_analysis::character::DIRECTIONS;
use seeklab_analysis::{Character, Metrics};
use seeklab_core::Duration;
use seeklab_files::check_distinct;
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, command_line, print, print_json};
use seeklab_lab::session::Session;
use seeklab_lab::trace_notes::check_device;
use seeklab_report::{TraceReport, render_trace_html};
use seeklab_traces::Metadata;
use serde_json::{Value, json};

use super::reading::Reading;

use crate::delivery::Delivery;

const EXAMPLES: &str = "\
Examples:
  seeklab trace report prod.parquet --report prod.html
  seeklab trace report proj_0.csv.gz --from msr --device 0 --json";

/// Plots the properties of a trace, in one pass and bounded memory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArguments {
    /// Trace to read
    file: PathBuf,
    /// Write the plots as one HTML page
    #[arg(long, value_name = "FILE.html", required_unless_present = "json")]
    report: Option<PathBuf>,
    /// Report only the requests of this device of the trace [default: all devices]
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl ReportArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        if let Some(path) = &self.report {
            check_distinct(path, [&self.file])?;
        }
        let mut trace = self.reading.open(session, &self.file)?;
        let block_size = trace.metadata().block_size;
        let recorder = trace.metadata().recorder();
        let (mut metrics, mut character) = (Metrics::new(block_size), Character::new(block_size));
        let mut progress = session.progress_of(&self.file.display().to_string(), &trace);
        let (mut own, mut devices) = (0_u64, BTreeSet::new());
        for record in trace.by_ref() {
            let record = record?;
            progress.step()?;
            if self.device.is_some() {
                devices.insert(record.device);
            }
            if recorder.is_recorders_own(&record) {
                own += 1;
            } else if self.device.is_none_or(|device| device == record.device) {
                metrics.record(&record);
                character.record(&record);
            }
        }
        drop(progress);
        check_device(self.device, &devices)?;
        let metadata = trace.metadata().clone();
        let mut notes: Vec<String> = trace.notes().iter().map(ToString::to_string).collect();
        notes.extend(missing(&metadata));
        if own > 0 {
            notes.push(format!("{own} requests of the recorder itself are left out"));
        }
        if metrics.span() == Duration::ZERO {
            notes.push(
                "no time passes in the trace: there are no rates, and nothing is drawn over time".to_owned(),
            );
        }
        let document = self.json.then(|| document(&self, &metrics, &character, &notes));
        let report = TraceReport {
            title: self.file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            subtitle: subtitle(&metrics, &trace_of(&metadata), self.device),
            generated_by: VERSION.to_owned(),
            command: Some(command_line()),
            notes,
            metrics,
            character,
            labels: metadata.labels.clone(),
            names: names(&metadata),
        };
        let printed = match document {
            Some(document) => print_json(&document),
            None => {
                let path = self.report.as_deref().unwrap_or(&self.file);
                print(&format!("{}: {}\n", path.display(), report.subtitle))
            }
        };
        Delivery::of(printed).file(self.report.as_deref(), || render_trace_html(&report)).finish()
    }
}

fn trace_of(metadata: &Metadata) -> String {
    metadata.labels.first().filter(|_| metadata.labels.len() == 1).cloned().unwrap_or_default()
}

fn subtitle(metrics: &Metrics, label: &str, device: Option<u16>) -> String {
    let summary = metrics.summary();
    let whose = match (label, device) {
        (_, Some(device)) => format!(" of device {device}"),
        ("", None) => String::new(),
        (label, None) => format!(" of {label}"),
    };
    format!(
        "{} requests{whose} in {:.3} s: {} reads, {} writes, {} others",
        summary.requests, summary.duration_s, summary.reads, summary.writes, summary.others
    )
}

/// Returns notes on the events and requests that the trace lacks.
fn missing(metadata: &Metadata) -> Vec<String> {
    let told = |key: &str, what: &str| {
        let count = metadata.other.get(key)?.parse::<u64>().ok().filter(|count| *count > 0)?;
        Some(format!("{count} {what}"))
    };
    [
        told("capture.lost_events", "events were lost while it was captured"),
        told("capture.lost_requests", "requests were lost while it was written"),
        told("capture.given_up", "requests were given up since something about them was not seen"),
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

fn document(
    arguments: &ReportArguments,
    metrics: &Metrics,
    character: &Character,
    notes: &[String],
) -> Value {
    let pairs = |points: Vec<(f64, f64)>, x: &str, y: &str| -> Vec<Value> {
        points.into_iter().map(|(a, b)| json!({ x: a, y: b })).collect()
    };
    let by_direction = |values: [u64; 3]| -> Value {
        DIRECTIONS
            .iter()
            .zip(values)
            .map(|(name, value)| ((*name).to_owned(), value.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let intervals: Vec<Value> = character
        .over_time
        .intervals()
        .into_iter()
        .map(|interval| {
            json!({
                "start_s": interval.start_s,
                "length_s": interval.length_s,
                "requests": by_direction(interval.requests),
                "bytes": by_direction(interval.bytes),
                "response_p50_ms": interval.response_ms.map(|times| times[0]),
                "response_p90_ms": interval.response_ms.map(|times| times[1]),
                "response_p99_ms": interval.response_ms.map(|times| times[2]),
                "response_p999_ms": interval.response_ms.map(|times| times[3]),
                "outstanding_mean": interval.outstanding.map(|outstanding| outstanding.0),
                "outstanding_max": interval.outstanding.map(|outstanding| outstanding.1),
                "working_set_bytes": interval.working_set_bytes,
                "footprint_bytes": interval.footprint_bytes,
            })
        })
        .collect();
    let sizes = character.sizes().into_iter();
    let sizes: Vec<Value> = sizes
        .map(|(bytes_min, counts)| json!({ "bytes_min": bytes_min, "requests": by_direction(counts) }))
        .collect();
    let hosts: Vec<Value> = character
        .hosts
        .busiest()
        .into_iter()
        .map(|((device, initiator), host)| {
            json!({
                "device": device,
                "initiator": initiator,
                "reads": host.reads,
                "writes": host.writes,
                "others": host.others,
                "read_bytes": host.read_bytes,
                "written_bytes": host.written_bytes,
                "response_mean_ms": host.response.mean().map(|ns| ns / 1e6),
            })
        })
        .collect();
    let overlap = character.reuse.overlap();
    json!({
        "file": arguments.file.display().to_string(),
        "report": arguments.report.as_ref().map(|path| path.display().to_string()),
        "notes": notes,
        "summary": metrics.summary(),
        "interarrival_variation": character.arrivals.variation(),
        "hurst": character.arrivals.hurst(),
        "idle_p50_ms": character.periods.idle.quantile(0.5).map(Duration::as_ms),
        "busy_p50_ms": character.periods.busy.quantile(0.5).map(Duration::as_ms),
        "seek_distance_mean_bytes": character.seeks.mean_bytes(),
        "seek_zero_pct": character.seeks.zero_pct(),
        "sequential_pct": character.seeks.sequential_pct(),
        "units_4kib": character.reuse.units(),
        "zipf_exponent": character.reuse.zipf(),
        "read_only_pct": overlap.map(|shares| shares[0] * 100.0),
        "written_only_pct": overlap.map(|shares| shares[1] * 100.0),
        "read_and_written_pct": overlap.map(|shares| shares[2] * 100.0),
        "intervals": intervals,
        "sizes": sizes,
        "seek_distances": character.seeks.histogram().into_iter().map(|(bytes, count)| json!({ "bytes_min": bytes, "requests": count })).collect::<Vec<_>>(),
        "runs": character.seeks.runs().into_iter().map(|(length, count)| json!({ "requests_min": length, "runs": count })).collect::<Vec<_>>(),
        "miss_ratios": pairs(character.reuse.miss_ratios(), "cache_bytes", "miss_ratio"),
        "reuse_distances": pairs(character.reuse.distances(), "bytes_max", "share"),
        "hosts": hosts,
    })
}
