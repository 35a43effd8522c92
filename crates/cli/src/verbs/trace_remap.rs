//! `seeklab trace remap`: rewrites a trace as if the data were placed elsewhere. `seeklab trace slice`:
//! copies a part of a trace.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use seeklab_lab::crates::analysis::relocation::Crossing;
use seeklab_lab::crates::core::number_words::counted;
use seeklab_lab::crates::core::{ByteSize, Duration, Operation, Seed};
use seeklab_lab::crates::report::folded;
use seeklab_lab::crates::traces::Setting;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::trace::TraceOptions;
use seeklab_lab::trace::remap::{Placement, RemapOptions, RemapResult, remap};
use seeklab_lab::trace::slice::{SliceOptions, slice};

use crate::output::print_json;
use crate::standard_input::make_rereadable;
use crate::terminal::tell;

use super::reading::{Reading, in_brackets, input_path, print_notes};

const EXAMPLES: &str = "\
Examples:
  seeklab trace remap week.parquet -o hot.parquet --hottest 1000 --block-size 4KiB
  seeklab trace remap today.parquet -o hot.parquet --hottest 1000 --block-size 4KiB --heat-of yesterday.parquet
  seeklab trace remap t.csv -o swapped.csv --swap 5000:2 --block-size 512B
  seeklab trace remap t.parquet -o pipe.parquet --organ-pipe --block-size 64KiB
  seeklab trace remap t.parquet -o random.parquet --shuffle --seed 7 --block-size 1MiB
  seeklab trace remap t.parquet -o moved.parquet --mapping pairs.csv --block-size 64KiB

A mapping file has a line `FROM,TO` for each piece of --block-size that moves. The mapping is a bijection: each
displaced piece takes a place that became free. Measured times are not copied, because they belong to the old
places.";

/// Rewrites a trace as if the data were placed elsewhere.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("how").required(true).args(["hottest", "swap", "organ_pipe", "shuffle", "mapping"]))]
pub(crate) struct RemapArguments {
    /// Trace to read. `-` is standard input
    #[arg(value_parser = input_path())]
    input: PathBuf,
    /// Trace to write. The suffix selects format and compression
    #[arg(long, short = 'o', value_name = "TRACE")]
    output: PathBuf,
    /// Size of the pieces to move
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    block_size: ByteSize,
    /// Move the N most requested pieces to the outer edge, from block 0 on, the most requested first
    #[arg(long, value_name = "N")]
    hottest: Option<u64>,
    /// Swap two pieces. May be given several times
    #[arg(long, value_name = "A:B", value_parser = parse_swap)]
    swap: Vec<(u64, u64)>,
    /// Place the most requested piece in the middle, and the others on alternate sides of it in order of requests
    #[arg(long)]
    organ_pipe: bool,
    /// Place all pieces in a random order drawn from --seed
    #[arg(long)]
    shuffle: bool,
    /// Move pieces as listed in a file with a line FROM,TO for each piece
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Count the requests to each piece in this trace [default: INPUT]
    #[arg(long, value_name = "TRACE", value_parser = input_path())]
    heat_of: Option<PathBuf>,
    /// Seed of the random draws of --shuffle
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Capacity of the device [default: up to the last block requested in the trace]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<ByteSize>,
    /// Move each request whole, to the place of its first piece, even if its pieces are no longer adjacent
    #[arg(long)]
    whole: bool,
    /// Relocate only the requests of this device of the trace [default: all devices, each separately]
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// Format of the trace [default: guessed]
    #[arg(long, value_name = "FORMAT")]
    from: Option<String>,
    /// Block size of a trace that does not record its own [default: 512B]
    #[arg(long, value_name = "SIZE")]
    trace_block_size: Option<ByteSize>,
    /// Set an option of the format, for example byte-order=big. `seeklab trace formats` lists the options
    #[arg(long, value_name = "NAME=VALUE")]
    format_option: Vec<Setting>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn parse_swap(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    numbers.ok_or_else(|| "two numbers of pieces, such as 5000:2, are allowed".to_owned())
}

impl RemapArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let json = self.json;
        make_rereadable(session, [&self.input].into_iter().chain(&self.heat_of).map(PathBuf::as_path))?;
        let result = remap(session, &self.options())?;
        session.remark(format!("read from {}{}", result.input, in_brackets(result.guess.as_deref())));
        print_notes(session, &result.notes);
        if json {
            return print_json(&result);
        }
        tell(&summary(&result));
        Ok(())
    }

    /// Returns the options. Here, `--trace-block-size` is the block size of the trace.
    fn options(self) -> RemapOptions {
        let placement = match (self.hottest, self.organ_pipe, self.shuffle, self.mapping) {
            (Some(most), ..) => Placement::Hottest(most),
            (_, true, ..) => Placement::OrganPipe,
            (_, _, true, _) => Placement::Shuffle,
            (.., Some(path)) => Placement::Mapping(path),
            _ => Placement::Swaps(self.swap),
        };
        RemapOptions {
            input: self.input,
            output: self.output,
            piece_size: self.block_size,
            placement,
            heat_of: self.heat_of,
            seed: self.seed,
            capacity: self.capacity,
            crossing: if self.whole { Crossing::Whole } else { Crossing::Split },
            device: self.device,
            reading: TraceOptions {
                format: self.from,
                block_size: self.trace_block_size,
                settings: self.format_option,
            },
        }
    }
}

fn summary(result: &RemapResult) -> String {
    let mut text = String::new();
    for device in &result.devices {
        let percent = |pct: Option<f64>| pct.map_or_else(|| "–".to_owned(), |pct| format!("{pct:.1} %"));
        let line = format!(
            "device {}: {}, {} moved, {} across pieces that are no longer adjacent; {}{}{}",
            device.device,
            counted(device.requests, "request"),
            device.requests_moved,
            device.requests_crossing,
            counted(device.rows, "row"),
            device
                .pieces_moved
                .map_or_else(String::new, |moves| format!("; {} moved", counted(moves, "piece"))),
            device.hot_pct.map_or_else(String::new, |pct| format!(
                "; the hottest pieces have {pct:.1} % of the requests"
            )),
        );
        let _ = writeln!(text, "{}", folded(&line, 2));
        for (name, seeks) in [("before", &device.before), ("after", &device.after)] {
            let line = format!(
                "  {name:<7} mean seek distance {:.1} MiB, {} at distance zero, {} sequential",
                seeks.seek_distance_mean_bytes.unwrap_or(0.0) / f64::from(1 << 20),
                percent(seeks.seek_zero_pct),
                percent(seeks.sequential_pct),
            );
            let _ = writeln!(text, "{}", folded(&line, 10));
        }
    }
    text + &format!("written to {}\n", result.output)
}

/// Copies a part of a trace: a window of time, one device, one kind of operation.
#[derive(Debug, Args)]
pub(crate) struct SliceArguments {
    /// Trace to read. `-` is standard input
    #[arg(value_parser = input_path())]
    input: PathBuf,
    /// Trace to write. The suffix selects format and compression
    #[arg(long, short = 'o', value_name = "TRACE")]
    output: PathBuf,
    /// Copy arrivals from this time of the trace on
    #[arg(long, value_name = "TIME", default_value = "0")]
    start: Duration,
    /// Copy arrivals for this time after --start [default: to the end of the trace]
    #[arg(long, value_name = "TIME")]
    length: Option<Duration>,
    /// Copy only the requests of this device of the trace [default: all devices]
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// Copy only requests of this operation [default: all operations]
    #[arg(long, value_name = "OP", value_parser = parse_operation)]
    op: Option<Operation>,
    /// Keep the times of the trace. By default, times count from --start
    #[arg(long)]
    keep_time: bool,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn parse_operation(text: &str) -> Result<Operation, String> {
    Operation::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Operation::ALL.iter().map(|op| op.name()).collect();
        format!("{} are allowed", names.join(", "))
    })
}

impl SliceArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let options = SliceOptions {
            input: self.input,
            output: self.output,
            start: self.start,
            length: self.length,
            device: self.device,
            operation: self.op,
            keep_time: self.keep_time,
            reading: self.reading.options(),
        };
        let result = slice(session, &options)?;
        session.remark(format!(
            "{} of {} from {}{} to {}",
            result.rows,
            counted(result.requests, "request"),
            result.input,
            in_brackets(result.guess.as_deref()),
            result.output
        ));
        print_notes(session, &result.notes);
        if self.json { print_json(&result) } else { Ok(()) }
    }
}
