//! `seeklab trace`: describes, converts, cuts and rewrites traces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use seeklab_analysis::seeks::Seeks;
use seeklab_analysis::{Metrics, MetricsSummary};
use seeklab_columnar::FORMATS;
use seeklab_core::{Duration, Instant, TraceRecord};
use seeklab_files::check_distinct;
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{print, print_json};
use seeklab_lab::session::Session;
use seeklab_traces::NameTable;
use serde::Serialize;

use super::reading::{Reading, guess, told};

const EXAMPLES: &str = "\
Examples:
  seeklab trace info server.csv.zst
  seeklab trace convert proj_0.csv.gz proj_0.parquet --from msr
  seeklab trace info week.srt --format-option sector-size=512B
  seeklab trace head run.parquet --rows 5";

/// Describes, converts, cuts and rewrites traces.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Describe the contents of traces, in one pass
    Info {
        /// Traces
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        reading: Reading,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Write a trace in another format
    Convert {
        /// Trace to read
        input: PathBuf,
        /// Trace to write. The suffix selects format and compression
        output: PathBuf,
        #[command(flatten)]
        reading: Reading,
        /// Format to write [default: by the suffix of OUTPUT]
        #[arg(long, value_name = "FORMAT")]
        to: Option<String>,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print the first rows of traces
    Head {
        /// Traces
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        reading: Reading,
        /// Number of rows
        #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
        rows: u64,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Write the usual plots of a trace as one HTML page
    Report(super::trace_report::ReportArguments),
    /// Rewrite a trace as if the data were placed elsewhere
    Remap(super::trace_remap::RemapArguments),
    /// Copy a part of a trace
    Slice(super::trace_remap::SliceArguments),
    /// List the formats that can be read and written
    Formats {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        match self.command {
            TraceCommand::Info { files, reading, json } => info(session, &files, &reading, json),
            TraceCommand::Convert { input, output, reading, to, json } => {
                convert(session, &input, &output, &reading, to.as_deref(), json)
            }
            TraceCommand::Head { files, reading, rows, json: false } => head(session, &files, &reading, rows),
            TraceCommand::Head { files, reading, rows, json: true } => {
                head_json(session, &files, &reading, rows)
            }
            TraceCommand::Report(arguments) => arguments.run(session),
            TraceCommand::Remap(arguments) => arguments.run(session),
            TraceCommand::Slice(arguments) => arguments.run(session),
            TraceCommand::Formats { json } => formats(json),
        }
    }
}

/// Contents of a trace.
#[derive(Debug, Serialize)]
struct Info {
    file: String,
    format: &'static str,
    guess: Option<String>,
    block_size_bytes: u64,
    devices: BTreeMap<u16, u64>,
    labels: Vec<String>,
    extent_blocks: u64,
    request_blocks_min: u32,
    request_blocks_mean: f64,
    request_blocks_max: u32,
    sequential_pct: Option<f64>,
    has_response_times: bool,
    /// Requests whose response time is known.
    requests_with_response: u64,
    has_think_times: bool,
    has_breakdown: bool,
    /// Columns that the format cannot record.
    lacks: Vec<&'static str>,
    #[serde(skip)]
    lacks_in_words: Vec<String>,
    /// Options of the format, and the values used to read the trace.
    options: Vec<AppliedOption>,
    metadata: BTreeMap<String, String>,
    notes: Vec<String>,
    #[serde(flatten)]
    summary: MetricsSummary,
}

#[derive(Debug, Serialize)]
struct AppliedOption {
    name: &'static str,
    value: String,
    is_default: bool,
    meaning: &'static str,
}

/// Accumulates the figures that [`Metrics`] does not have.
#[derive(Debug, Default)]
struct Addresses {
    devices: BTreeMap<u16, u64>,
    extent_blocks: u64,
    requests: u64,
    blocks: u64,
    blocks_min: Option<u32>,
    blocks_max: u32,
    with_think: u64,
    with_response: u64,
    with_breakdown: u64,
    /// Latest arrival so far, and number of rows that arrived before an earlier row.
    latest: Instant,
    backward: u64,
}

impl Addresses {
    fn record(&mut self, record: &TraceRecord) {
        let end = record.lbn.saturating_add(u64::from(record.blocks));
        self.requests += 1;
        *self.devices.entry(record.device).or_default() += 1;
        self.backward += u64::from(record.arrival < self.latest);
        self.latest = self.latest.max(record.arrival);
        self.extent_blocks = self.extent_blocks.max(end);
        self.blocks += u64::from(record.blocks);
        self.blocks_min = Some(self.blocks_min.map_or(record.blocks, |min| min.min(record.blocks)));
        self.blocks_max = self.blocks_max.max(record.blocks);
        self.with_think += u64::from(record.think.is_some());
        self.with_response += u64::from(record.completion.is_some());
        self.with_breakdown += u64::from(record.breakdown.is_some());
    }
}

impl Addresses {
    /// Returns a note on rows that are not in order of arrival.
    fn note(&self) -> Option<String> {
        (self.backward > 0).then(|| {
            format!(
                "{} rows arrive before a row that comes before them: sort them by `arrival_ns` for `seeklab fit` and replay",
                self.backward
            )
        })
    }
}

fn examine(session: &Session, path: &Path, reading: &Reading) -> Result<Info, Failure> {
    let mut trace = reading.open(session, path)?;
    let mut progress = session.progress_of(&path.display().to_string(), &trace);
    let mut metrics = Metrics::new(trace.metadata().block_size);
    let (mut addresses, mut seeks) =
        (Addresses::default(), Seeks::new(trace.metadata().block_size.as_bytes()));
    let recorder = trace.metadata().recorder();
    for record in trace.by_ref() {
        let record = record?;
        metrics.record(&record);
        addresses.record(&record);
        if !recorder.is_recorders_own(&record) {
            seeks.record(&record);
        }
        progress.step()?;
    }
    let metadata = trace.metadata();
    let notes = trace.notes().iter().map(ToString::to_string).chain(addresses.note()).collect();
    let requests = addresses.requests.max(1) as f64;
    Ok(Info {
        file: path.display().to_string(),
        format: trace.format(),
        guess: trace.guess().map(str::to_owned),
        block_size_bytes: metadata.block_size.as_bytes(),
        labels: metadata.labels.clone(),
        metadata: metadata.to_pairs().unwrap_or_default().into_iter().collect(),
        devices: addresses.devices,
        extent_blocks: addresses.extent_blocks,
        request_blocks_min: addresses.blocks_min.unwrap_or(0),
        request_blocks_mean: (addresses.blocks as f64 / requests * 1e3).round() / 1e3,
        request_blocks_max: addresses.blocks_max,
        sequential_pct: seeks.sequential_pct(),
        has_response_times: addresses.with_response > 0,
        requests_with_response: addresses.with_response,
        has_think_times: addresses.with_think > 0,
        has_breakdown: addresses.with_breakdown > 0,
        lacks: trace.missing_columns().iter().map(|lack| lack.name()).collect(),
        lacks_in_words: trace.missing_columns().iter().map(ToString::to_string).collect(),
        options: trace
            .applied()
            .iter()
            .map(|applied| AppliedOption {
                name: applied.name,
                value: applied.value.clone(),
                is_default: !applied.is_explicit,
                meaning: applied.meaning,
            })
            .collect(),
        notes,
        summary: metrics.summary(),
    })
}

fn info(session: &Session, files: &[PathBuf], reading: &Reading, json: bool) -> Result<(), Failure> {
    let infos: Vec<Info> =
        files.iter().map(|path| examine(session, path, reading)).collect::<Result<_, _>>()?;
    if json {
        return print_json(&serde_json::json!({ "traces": infos }));
    }
    let text: Vec<String> = infos.iter().map(page).collect();
    print(&text.join("\n"))
}

/// Maximum number of initiators on a page.
const INITIATORS_SHOWN: usize = 16;

fn page(info: &Info) -> String {
    let summary = &info.summary;
    let mut lines = vec![info.file.clone()];
    let mut line = |name: &str, value: String| lines.push(format!("  {name:<16} {value}"));
    line("format", info.guess.clone().unwrap_or_else(|| info.format.to_owned()));
    line(
        "requests",
        format!(
            "{} ({} reads, {} writes, {} others, {} errors)",
            summary.requests, summary.reads, summary.writes, summary.others, summary.errors
        ),
    );
    line("duration", format!("{:.3} s", summary.duration_s));
    if let Some(rate) = summary.requests_per_second {
        line("rate", format!("{rate:.3} requests/s, {:.3} MiB/s", summary.mib_per_second.unwrap_or(0.0)));
    }
    let devices: Vec<String> = info
        .devices
        .iter()
        .take(12)
        .map(|(device, requests)| match info.labels.get(usize::from(*device)) {
            Some(label) if !label.is_empty() => format!("{device} ({label}): {requests}"),
            _ => format!("{device}: {requests}"),
        })
        .collect();
    let more =
        if info.devices.len() > 12 { format!(", … {} in all", info.devices.len()) } else { String::new() };
    line("devices", devices.join(", ") + &more);
    line("extent", format!("{} blocks of {} B", info.extent_blocks, info.block_size_bytes));
    line(
        "request size",
        format!(
            "{} to {} blocks, mean {}; {} sequential",
            info.request_blocks_min,
            info.request_blocks_max,
            info.request_blocks_mean,
            info.sequential_pct.map_or_else(|| "–".to_owned(), |pct| format!("{pct:.1} %"))
        ),
    );
    line(
        "response time",
        match &summary.response {
            Some(response) => format!(
                "mean {:.3} ms, p50 {:.3}, p99 {:.3}, max {:.3}{}",
                response.mean_ms,
                response.p50_ms,
                response.p99_ms,
                response.max_ms,
                match info.requests_with_response {
                    count if count < summary.requests => format!(", of {count} requests"),
                    _ => String::new(),
                }
            ),
            None => "none: this trace cannot be compared, only replayed".to_owned(),
        },
    );
    line("think times", if info.has_think_times { "yes, for --think" } else { "none" }.to_owned());
    if !info.lacks_in_words.is_empty() {
        line("format lacks", info.lacks_in_words.join(", "));
    }
    for option in &info.options {
        let source = if option.is_default { "assumed" } else { "as said" };
        line(source, format!("{}={} ({})", option.name, option.value, option.meaning));
    }
    // Names of processes are in a report, by what each asked.
    let shown =
        |key: &str| !matches!(key, "block_size" | "schema" | "device") && !key.starts_with("process.");
    if let Some(description) = info.metadata.get("device") {
        line("description", format!("{} lines of TOML, see --json", description.lines().count()));
    }
    let mut initiators = 0_usize;
    for (key, value) in info.metadata.iter().filter(|(key, _)| shown(key)) {
        initiators += usize::from(key.starts_with("initiator."));
        if initiators <= INITIATORS_SHOWN || !key.starts_with("initiator.") {
            line(key, value.lines().next().unwrap_or_default().to_owned());
        }
    }
    if let Some(more) = initiators.checked_sub(INITIATORS_SHOWN).filter(|more| *more > 0) {
        line("initiators", format!("{more} more, with --json"));
    }
    for note in &info.notes {
        line("note", note.clone());
    }
    lines.join("\n") + "\n"
}

fn convert(
    session: &Session,
    input: &Path,
    output: &Path,
    reading: &Reading,
    to: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    check_distinct(output, [input])?;
    let mut trace = reading.open(session, input)?;
    let mut progress = session.progress_of(&input.display().to_string(), &trace);
    let mut writer = seeklab_columnar::create(output, to, trace.metadata())?;
    let mut names = NameTable::of(trace.metadata());
    let mut rows = 0_u64;
    while let Some(record) = trace.next() {
        let record = record?;
        names.pass_labels(trace.metadata(), &mut *writer)?;
        writer.write(&record)?;
        rows += 1;
        progress.step()?;
    }
    names.pass_all(trace.metadata(), &mut *writer)?;
    let lost = writer.notes();
    writer.finish()?;
    drop(progress);
    session.remark(format!(
        "{rows} requests from {}{} to {}",
        input.display(),
        guess(&trace),
        output.display()
    ));
    let notes = told(session, &trace, &lost);
    if json {
        return print_json(&serde_json::json!({
            "input": input.display().to_string(),
            "output": output.display().to_string(),
            "format": trace.format(),
            "requests": rows,
            "notes": notes,
        }));
    }
    Ok(())
}

fn head(session: &Session, files: &[PathBuf], reading: &Reading, rows: u64) -> Result<(), Failure> {
    for path in files {
        let mut trace = reading.open(session, path)?;
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "arrival_ms",
            "device",
            "op",
            "lbn",
            "blocks",
            "response_ms",
            "queue_ms",
            "think_ms",
        ]);
        for column in [0, 1, 3, 4, 5, 6, 7] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let ms =
            |time: Option<Duration>| time.map_or_else(String::new, |time| format!("{:.6}", time.as_ms()));
        for record in trace.by_ref().take(usize::try_from(rows).unwrap_or(usize::MAX)) {
            let record = record?;
            table.add_row([
                format!("{:.6}", record.arrival.as_ms()),
                record.device.to_string(),
                format!("{}{}", record.op.name(), if record.fua { " fua" } else { "" }),
                record.lbn.to_string(),
                record.blocks.to_string(),
                ms(record.response_time()),
                ms(record.queue_time()),
                ms(record.think),
            ]);
        }
        let title = if files.len() > 1 { format!("==> {} <==\n", path.display()) } else { String::new() };
        print(&format!("{title}{table}\n"))?;
    }
    Ok(())
}

fn head_json(session: &Session, files: &[PathBuf], reading: &Reading, rows: u64) -> Result<(), Failure> {
    let mut traces = Vec::new();
    for path in files {
        let mut trace = reading.open(session, path)?;
        let mut requests = Vec::new();
        for record in trace.by_ref().take(usize::try_from(rows).unwrap_or(usize::MAX)) {
            let record = record?;
            requests.push(serde_json::json!({
                "arrival_ns": record.arrival.as_ns(),
                "device": record.device,
                "op": record.op.name(),
                "fua": record.fua,
                "lbn": record.lbn,
                "blocks": record.blocks,
                "completion_ns": record.completion.map(Instant::as_ns),
                "response_ns": record.response_time().map(Duration::as_ns),
                "queue_ns": record.queue_time().map(Duration::as_ns),
                "think_ns": record.think.map(Duration::as_ns),
            }));
        }
        traces.push(serde_json::json!({ "file": path.display().to_string(), "requests": requests }));
    }
    print_json(&serde_json::json!({ "traces": traces }))
}

fn formats(json: bool) -> Result<(), Failure> {
    if json {
        let formats: Vec<serde_json::Value> = FORMATS
            .iter()
            .map(|format| {
                let options = format.options().iter().map(|option| {
                    serde_json::json!({
                        "name": option.name,
                        "allowed": option.allowed.to_string(),
                        "default": option.default,
                        "meaning": option.meaning,
                    })
                });
                serde_json::json!({
                    "format": format.name(),
                    "writable": format.is_writable(),
                    "description": format.description(),
                    "suffixes": format.suffixes(),
                    "lacks": format.missing_columns().iter().map(|lack| lack.name()).collect::<Vec<_>>(),
                    "options": options.collect::<Vec<_>>(),
                })
            })
            .collect();
        return print_json(&serde_json::json!({ "formats": formats }));
    }
    let mut lines = Vec::new();
    for format in FORMATS {
        let access = if format.is_writable() { "read, write" } else { "read" };
        lines.push(format!("{:<18} {access:<12} {}", format.name(), format.description()));
        for option in format.options() {
            let default = option.default;
            lines.push(format!(
                "    {}={} (default {default}): {}",
                option.name, option.allowed, option.meaning
            ));
        }
    }
    print(&(lines.join("\n") + "\n"))
}
