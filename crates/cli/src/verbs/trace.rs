//! `seeklab trace`: describes, converts, cuts and rewrites traces.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use seeklab_lab::crates::core::number_words::counted;
use seeklab_lab::crates::report::{TextTable, folded};
use seeklab_lab::crates::traces::reference;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::system::{
    self, SystemInfo, SystemTextOptions, convert_left, convert_text, is_system_part, is_system_trace,
};
use seeklab_lab::trace::columns::columns;
use seeklab_lab::trace::convert::{ConvertOptions, ConvertResult, convert};
use seeklab_lab::trace::head::{TraceHead, head};
use seeklab_lab::trace::info::{TraceInfo, info};
use seeklab_lab::trace::{Traces, check_streams, formats};

use crate::output::{print, print_json};

use super::reading::{Reading, in_brackets, input_path, print_notes};
use super::system_page::system_page;

const EXAMPLES: &str = "\
Examples:
  seeklab trace info server.csv.zst
  seeklab trace convert proj_0.csv.gz proj_0.parquet --from msr
  seeklab trace convert events.txt copy.sys --system /dev/loop0
  seeklab trace info week.srt --format-option sector-size=512B
  seeklab trace head run.parquet --rows 5";

/// Describes, converts, cuts and rewrites traces.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: TraceCommand,
}

/// Options for the text of a whole host's events.
#[derive(Debug, Args)]
struct SystemFlags {
    /// Write a system-level trace of DEVICE, a folder, from text of `perf script` or `trace-cmd report`. DEVICE is a mounted
    /// block device of this machine, or MAJOR:MINOR of another one
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["from", "block_size", "format_option"])]
    system: Option<String>,
    /// First thread of the traced command, by number or by program [default: the command that perf or trace-cmd started]
    #[arg(long, value_name = "NUMBER|PROGRAM", requires = "system")]
    task: Option<String>,
    /// Fact of the recorded host: size, memory, whole, start, kernel, machine, file_system, options, or a setting such as
    /// queue.read_ahead_kb
    #[arg(long, value_name = "NAME=VALUE", requires = "system")]
    fact: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Describe the contents of traces, in one pass
    Info {
        /// Traces. `-` is standard input. System-level traces are folders
        #[arg(required = true, value_parser = input_path())]
        files: Vec<PathBuf>,
        #[command(flatten)]
        reading: Reading,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Write a trace in another format
    Convert {
        /// Trace to read. `-` is standard input
        #[arg(value_parser = input_path())]
        input: PathBuf,
        /// Trace to write. The suffix selects format and compression
        output: PathBuf,
        #[command(flatten)]
        reading: Reading,
        /// Format to write [default: by the suffix of OUTPUT]
        #[arg(long, value_name = "FORMAT", conflicts_with = "system")]
        to: Option<String>,
        #[command(flatten)]
        system: SystemFlags,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Print the first rows of traces
    Head {
        /// Traces. `-` is standard input
        #[arg(required = true, value_parser = input_path())]
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
    /// List the columns of the canonical trace
    Columns {
        /// Print the columns and the metadata as a page in Markdown
        #[arg(long, conflicts_with = "json")]
        reference: bool,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
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
            TraceCommand::Info { files, reading, json } => print_infos(session, &files, &reading, json),
            TraceCommand::Convert {
                input,
                output,
                system: SystemFlags { system: Some(device), task, fact },
                json,
                ..
            } => {
                let options = SystemTextOptions { input, output, device, task, facts: fact };
                print_converted(session, &convert_text(session, &options)?, json)
            }
            TraceCommand::Convert { input, output, json, .. } if is_system_part(&input) => {
                print_converted(session, &convert_left(session, &input, &output)?, json)
            }
            TraceCommand::Convert { input, output, reading, to, json, .. } => {
                let options = ConvertOptions { input, output, reading: reading.options(), format: to };
                print_conversion(session, &options, json)
            }
            TraceCommand::Head { files, reading, rows, json } => {
                print_heads(session, &files, &reading, rows, json)
            }
            TraceCommand::Report(arguments) => arguments.run(session),
            TraceCommand::Remap(arguments) => arguments.run(session),
            TraceCommand::Slice(arguments) => arguments.run(session),
            TraceCommand::Columns { reference, json } => print_columns(reference, json),
            TraceCommand::Formats { json } => print_formats(json),
        }
    }
}

fn print_columns(is_reference: bool, json: bool) -> Result<(), Failure> {
    if is_reference {
        return print(&reference::page());
    }
    let columns = columns();
    if json {
        return print_json(&columns);
    }
    let width = columns.columns.iter().map(|column| column.column.len()).max().unwrap_or(0);
    let lines = columns
        .columns
        .iter()
        .map(|column| folded(&format!("{:width$}  {}", column.column, column.description), width + 2) + "\n");
    print(&lines.collect::<String>())
}

fn print_infos(session: &Session, files: &[PathBuf], reading: &Reading, json: bool) -> Result<(), Failure> {
    if files.iter().any(|path| is_system_trace(path)) {
        return print_system_infos(files, json);
    }
    check_streams(files.iter().map(PathBuf::as_path))?;
    let reading = reading.options();
    let traces: Vec<TraceInfo> =
        files.iter().map(|path| info(session, path, &reading)).collect::<Result<_, _>>()?;
    if json {
        return print_json(&Traces { traces });
    }
    print(&traces.iter().map(page).collect::<Vec<_>>().join("\n"))
}

fn print_system_infos(files: &[PathBuf], json: bool) -> Result<(), Failure> {
    if let Some(other) = files.iter().find(|path| !is_system_trace(path)) {
        let message = format!("{}: is no system-level trace, and others are", other.display());
        return Err(Failure::new(message).hint("describe them one after the other"));
    }
    let traces: Vec<SystemInfo> = files.iter().map(|path| system::info(path)).collect::<Result<_, _>>()?;
    if json {
        return print_json(&Traces { traces });
    }
    print(&traces.iter().map(system_page).collect::<Vec<_>>().join("\n"))
}

/// Maximum number of initiators on a page.
const INITIATORS_SHOWN: usize = 16;

fn page(info: &TraceInfo) -> String {
    let summary = &info.summary;
    let mut lines = vec![info.file.clone()];
    let mut line = |name: &str, value: String| lines.push(folded(&format!("  {name:<16} {value}"), 19));
    line("format", info.guess.clone().unwrap_or_else(|| info.format.to_owned()));
    line(
        "requests",
        format!(
            "{} ({}, {}, {}, {})",
            summary.requests,
            counted(summary.reads, "read"),
            counted(summary.writes, "write"),
            counted(summary.others, "other"),
            counted(summary.errors, "error")
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
    line(
        "address range",
        format!("{} of {} B", counted(info.address_range_blocks, "block"), info.block_size_bytes),
    );
    line(
        "request size",
        format!(
            "{} to {}, mean {}; {} sequential",
            info.request_blocks_min,
            counted(info.request_blocks_max, "block"),
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
                    count if count < summary.requests => format!(", of {}", counted(count, "request")),
                    _ => String::new(),
                }
            ),
            None => "none: this trace can be replayed, but not compared".to_owned(),
        },
    );
    line("think times", if info.has_think_times { "yes, for --think" } else { "none" }.to_owned());
    for option in &info.options {
        let source = if option.is_default { "assumed" } else { "option" };
        line(source, format!("{}={} ({})", option.name, option.value, option.meaning));
    }
    // A report lists the processes with their requests.
    let shown =
        |key: &str| !matches!(key, "block_size" | "schema" | "device") && !key.starts_with("process.");
    if let Some(description) = info.metadata.get("device") {
        line("description", format!("{} of TOML, see --json", counted(description.lines().count(), "line")));
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

fn print_conversion(session: &Session, options: &ConvertOptions, json: bool) -> Result<(), Failure> {
    print_converted(session, &convert(session, options)?, json)
}

fn print_converted(session: &Session, result: &ConvertResult, json: bool) -> Result<(), Failure> {
    session.remark(format!(
        "{} from {}{} to {}",
        counted(result.requests, "request"),
        result.input,
        in_brackets(result.guess.as_deref()),
        result.output
    ));
    print_notes(session, &result.notes);
    if json { print_json(result) } else { Ok(()) }
}

fn print_heads(
    session: &Session,
    files: &[PathBuf],
    reading: &Reading,
    rows: u64,
    json: bool,
) -> Result<(), Failure> {
    check_streams(files.iter().map(PathBuf::as_path))?;
    let reading = reading.options();
    let heads = files.iter().map(|path| head(session, path, &reading, rows));
    if json {
        return print_json(&Traces { traces: heads.collect::<Result<Vec<_>, _>>()? });
    }
    for head in heads {
        let head = head?;
        let title = if files.len() > 1 { format!("==> {} <==\n", head.file) } else { String::new() };
        print(&format!("{title}{}\n", table(&head)))?;
    }
    Ok(())
}

fn table(head: &TraceHead) -> String {
    let mut table = TextTable::new([
        "arrival_ms",
        "device",
        "op",
        "lbn",
        "blocks",
        "response_ms",
        "queue_ms",
        "think_ms",
    ])
    .with_texts(0);
    let ms = |ns: u64| format!("{:.6}", ns as f64 / 1e6);
    for request in &head.requests {
        table.push([
            ms(request.arrival_ns),
            request.device.to_string(),
            format!("{}{}", request.op, if request.fua { " fua" } else { "" }),
            request.lbn.to_string(),
            request.blocks.to_string(),
            request.response_ns.map_or_else(String::new, ms),
            request.queue_ns.map_or_else(String::new, ms),
            request.think_ns.map_or_else(String::new, ms),
        ]);
    }
    table.render()
}

fn print_formats(json: bool) -> Result<(), Failure> {
    let formats = formats::formats();
    if json {
        return print_json(&formats);
    }
    let mut lines = Vec::new();
    for format in &formats.formats {
        let access = if format.writable { "read, write" } else { "read" };
        lines.push(format!("{:<18} {access:<12} {}", format.format, format.description));
        for option in &format.options {
            let default = option.default;
            lines.push(format!(
                "    {}={} (default {default}): {}",
                option.name, option.allowed, option.meaning
            ));
        }
    }
    print(&(lines.join("\n") + "\n"))
}
