//! `seeklab trace remap`: rewrites a trace as if the data were placed elsewhere. `seeklab trace slice`:
//! copies a part of a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use seeklab_analysis::relocation::{Crossing, Heat, NoBijection, Relocation, Remapper};
use seeklab_analysis::seeks::Seeks;
use seeklab_core::{ByteSize, Duration, Instant, Operation, Seed, TraceRecord};
use seeklab_files::{check_distinct, check_rereadable};
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, command_line, print_json};
use seeklab_lab::session::Session;
use seeklab_lab::trace_notes::check_device;
use seeklab_traces::{Metadata, NameTable, Setting};
use serde_json::{Value, json};

use super::reading::{Reading, guess, told};

const EXAMPLES: &str = "\
Examples:
  seeklab trace remap week.parquet -o hot.parquet --hottest 1000 --block-size 4KiB
  seeklab trace remap today.parquet -o hot.parquet --hottest 1000 --block-size 4KiB --heat-of yesterday.parquet
  seeklab trace remap t.csv -o swapped.csv --swap 5000:2 --block-size 512B
  seeklab trace remap t.parquet -o pipe.parquet --organ-pipe --block-size 64KiB
  seeklab trace remap t.parquet -o random.parquet --shuffle --seed 7 --block-size 1MiB
  seeklab trace remap t.parquet -o moved.parquet --mapping pairs.csv --block-size 64KiB

A mapping file has a line `FROM,TO` for each piece that moves. The data of a device is a bijection of pieces of
--block-size: what made place goes where place was made. Measured times are left out: they were those of the old
places.";

/// Rewrites a trace as if the data were placed elsewhere.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("how").required(true).args(["hottest", "swap", "organ_pipe", "shuffle", "mapping"]))]
pub(crate) struct RemapArguments {
    /// Trace to read
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
    #[arg(long, value_name = "TRACE")]
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

/// State of the second pass for one device.
struct Device {
    remapper: Remapper,
    hot_share: Option<f64>,
    before: Seeks,
    after: Seeks,
}

impl RemapArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let traces = || std::iter::once(&self.input).chain(&self.heat_of);
        check_distinct(&self.output, traces().chain(&self.mapping))?;
        traces().try_for_each(|trace| check_rereadable(trace))?;
        let heats = self.heats(session, &self.input)?;
        let hot = match &self.heat_of {
            Some(path) => Some(self.heats(session, path)?),
            None => None,
        };
        let mut trace = self.reading().open(session, &self.input)?;
        let block_bytes = trace.metadata().block_size.as_bytes();
        let mut devices = BTreeMap::new();
        for (device, heat) in &heats {
            let hot = hot.as_ref().map_or(Some(heat), |hot| hot.get(device));
            devices.insert(*device, self.device_of(heat, hot, block_bytes)?);
        }
        let metadata = self.metadata(trace.metadata());
        let mut writer = seeklab_columnar::create(&self.output, None, &metadata)?;
        let mut progress = session.progress_of(&format!("remapping {}", self.input.display()), &trace);
        let mut names = NameTable::of(trace.metadata());
        while let Some(record) = trace.next() {
            let record = record?;
            progress.step()?;
            names.pass_labels(trace.metadata(), &mut *writer)?;
            let Some(device) = devices.get_mut(&record.device).filter(|_| self.concerns(&record)) else {
                writer.write(&record)?;
                continue;
            };
            device.before.record(&record);
            let mut written = Ok(());
            let Device { remapper, after, .. } = device;
            remapper.apply(&record, |part| {
                after.record(part);
                if written.is_ok() {
                    written = writer.write(part);
                }
            });
            written?;
        }
        names.pass_all(trace.metadata(), &mut *writer)?;
        let lost = writer.notes();
        writer.finish()?;
        drop(progress);
        let mut document = self.document(&devices, block_bytes);
        session.remark(format!("read from {}{}", self.input.display(), guess(&trace)));
        let notes = told(session, &trace, &lost);
        if self.json {
            document["format"] = trace.format().into();
            document["notes"] = notes.into();
            return print_json(&document);
        }
        eprint!("{}", summary(&devices, &self.output));
        Ok(())
    }

    /// Returns the options for reading the trace. Here, `--trace-block-size` is the block size of the trace.
    fn reading(&self) -> Reading {
        Reading {
            from: self.from.clone(),
            block_size: self.trace_block_size,
            format_option: self.format_option.clone(),
        }
    }

    fn concerns(&self, record: &TraceRecord) -> bool {
        self.device.is_none_or(|device| device == record.device)
    }

    fn piece_blocks(&self, block_bytes: u64) -> Result<u64, Failure> {
        let bytes = self.block_size.as_bytes();
        if bytes == 0 || !bytes.is_multiple_of(block_bytes) {
            return Err(Failure::new(format!(
                "--block-size {}: the trace has blocks of {}",
                self.block_size,
                ByteSize::from_bytes(block_bytes)
            ))
            .hint("a multiple of the trace's blocks is allowed"));
        }
        Ok(bytes / block_bytes)
    }

    /// Counts the requests to each piece of each device and finds the last block requested: the first pass.
    fn heats(&self, session: &Session, path: &Path) -> Result<BTreeMap<u16, Heat>, Failure> {
        let mut trace = self.reading().open(session, path)?;
        let recorder = trace.metadata().recorder();
        let piece_blocks = self.piece_blocks(trace.metadata().block_size.as_bytes())?;
        let mut heats: BTreeMap<u16, Heat> = BTreeMap::new();
        let mut progress = session.progress_of(&format!("heat of {}", path.display()), &trace);
        for record in trace.by_ref() {
            let record = record?;
            progress.step()?;
            if !self.concerns(&record) || recorder.is_recorders_own(&record) {
                continue;
            }
            let heat = heats.entry(record.device).or_insert_with(|| Heat::new(piece_blocks));
            heat.record(&record).map_err(|error| {
                Failure::new(format!("{}: {error}", path.display())).hint("choose a larger --block-size")
            })?;
        }
        Ok(heats)
    }

    fn device_of(&self, heat: &Heat, hot: Option<&Heat>, block_bytes: u64) -> Result<Device, Failure> {
        let piece_blocks = self.piece_blocks(block_bytes)?;
        let end = match self.capacity {
            Some(capacity) => capacity.as_bytes() / block_bytes,
            None => heat.end(),
        };
        if end < heat.end() {
            return Err(Failure::new(format!(
                "--capacity {}: the trace asks for {} blocks of {}",
                self.capacity.unwrap_or_default(),
                heat.end(),
                ByteSize::from_bytes(block_bytes)
            )));
        }
        let pieces = end / piece_blocks;
        let hottest = |most| hot.map(|hot| hot.hottest(most, pieces)).unwrap_or_default();
        let mut hot_share = None;
        let relocation = if let Some(most) = self.hottest {
            let hottest = hottest(most);
            hot_share = heat.share(&hottest);
            Relocation::to_the_edge(&hottest, pieces)
        } else if self.organ_pipe {
            Relocation::organ_pipe(&hottest(u64::MAX), pieces)
        } else if self.shuffle {
            Relocation::shuffled(pieces, self.seed)
        } else if let Some(path) = &self.mapping {
            mapping(path, pieces)?
        } else {
            Relocation::of_swaps(self.swap.iter().copied(), pieces)
                .map_err(|error| Failure::new(format!("--swap: {error}")).hint("--capacity says more"))?
        };
        let crossing = if self.whole { Crossing::Whole } else { Crossing::Split };
        Ok(Device {
            remapper: Remapper::new(relocation, piece_blocks, pieces, end, crossing),
            hot_share,
            before: Seeks::new(block_bytes),
            after: Seeks::new(block_bytes),
        })
    }

    fn metadata(&self, before: &Metadata) -> Metadata {
        let mut metadata = before.clone();
        metadata.version = Some(VERSION.to_owned());
        metadata.other.insert("remap".to_owned(), command_line());
        metadata
    }

    fn document(&self, devices: &BTreeMap<u16, Device>, block_bytes: u64) -> Value {
        let seeks = |seeks: &Seeks| {
            json!({
                "seek_distance_total_bytes": seeks.total_bytes().to_string().parse::<f64>().ok(),
                "seek_distance_mean_bytes": seeks.mean_bytes(),
                "seek_zero_pct": seeks.zero_pct(),
                "sequential_pct": seeks.sequential_pct(),
            })
        };
        let devices: Vec<Value> = devices
            .iter()
            .map(|(number, device)| {
                let counts = device.remapper.counts();
                json!({
                    "device": number,
                    "pieces_moved": device.remapper.relocation().moves(),
                    "hot_pct": device.hot_share.map(|share| share * 100.0),
                    "requests": counts.requests,
                    "rows": counts.rows,
                    "requests_moved": counts.moved,
                    "requests_crossing": counts.crossing,
                    "before": seeks(&device.before),
                    "after": seeks(&device.after),
                })
            })
            .collect();
        json!({
            "input": self.input.display().to_string(),
            "output": self.output.display().to_string(),
            "block_size_bytes": self.block_size.as_bytes(),
            "trace_block_size_bytes": block_bytes,
            "seed": self.seed.0,
            "devices": devices,
        })
    }
}

/// Reads pairs of pieces, one per line.
fn mapping(path: &Path, pieces: u64) -> Result<Relocation, Failure> {
    let told = |what: String| Failure::new(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::from(error).context(format!("{}: cannot be read", path.display())))?;
    let mut pairs = Vec::new();
    for (line, number) in text.lines().zip(1_u64..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair =
            line.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        pairs.push(pair.ok_or_else(|| {
            told(format!("line {number}: `{line}` is not `FROM,TO`"))
                .hint("two numbers of pieces, such as 17,3")
        })?);
    }
    Relocation::of_pairs(pairs, pieces).map_err(|error| {
        let failure = told(format!("no bijection: {error}"));
        match error {
            NoBijection::Covered { .. } => failure.hint("say where that piece goes too"),
            NoBijection::Beyond { .. } => failure.hint("--capacity says how large the device is"),
            _ => failure,
        }
    })
}

fn summary(devices: &BTreeMap<u16, Device>, output: &Path) -> String {
    let mut text = String::new();
    for (number, device) in devices {
        let counts = device.remapper.counts();
        let percent = |pct: Option<f64>| pct.map_or_else(|| "–".to_owned(), |pct| format!("{pct:.1} %"));
        let _ = writeln!(
            text,
            "device {number}: {} requests, {} ask elsewhere, {} span pieces that part; {} rows{}{}",
            counts.requests,
            counts.moved,
            counts.crossing,
            counts.rows,
            device
                .remapper
                .relocation()
                .moves()
                .map_or_else(String::new, |moves| format!("; {moves} pieces moved")),
            device.hot_share.map_or_else(String::new, |share| format!(
                "; the hottest have {:.1} % of the touches",
                share * 100.0
            )),
        );
        for (name, seeks) in [("before", &device.before), ("after", &device.after)] {
            let _ = writeln!(
                text,
                "  {name:<7} mean seek distance {:.1} MiB, {} at distance zero, {} sequential",
                seeks.mean_bytes().unwrap_or(0.0) / f64::from(1 << 20),
                percent(seeks.zero_pct()),
                percent(seeks.sequential_pct()),
            );
        }
    }
    text + &format!("written to {}\n", output.display())
}

/// Copies a part of a trace: a window of time, one device, one kind of operation.
#[derive(Debug, Args)]
pub(crate) struct SliceArguments {
    /// Trace to read
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
        check_distinct(&self.output, [&self.input])?;
        let mut trace = self.reading.open(session, &self.input)?;
        let mut metadata = trace.metadata().clone();
        metadata.other.insert("slice".to_owned(), command_line());
        let mut writer = seeklab_columnar::create(&self.output, None, &metadata)?;
        let mut progress = session.progress_of(&self.input.display().to_string(), &trace);
        let start = Instant::ZERO + self.start;
        let end = self
            .length
            .map_or(Instant::MAX, |length| Instant::from_ns(start.as_ns().saturating_add(length.as_ns())));
        let (mut requests, mut rows, mut devices) = (0_u64, 0_u64, BTreeSet::new());
        let mut names = NameTable::of(trace.metadata());
        while let Some(record) = trace.next() {
            let mut record = record?;
            requests += 1;
            progress.step()?;
            if self.device.is_some() {
                devices.insert(record.device);
            }
            let wanted = (start..end).contains(&record.arrival)
                && self.device.is_none_or(|device| device == record.device)
                && self.op.is_none_or(|op| op == record.op);
            if !wanted {
                continue;
            }
            if !self.keep_time {
                shift(&mut record, self.start);
            }
            names.pass_labels(trace.metadata(), &mut *writer)?;
            writer.write(&record)?;
            rows += 1;
        }
        check_device(self.device, &devices)?;
        names.pass_all(trace.metadata(), &mut *writer)?;
        let lost = writer.notes();
        writer.finish()?;
        drop(progress);
        let (input, output) = (self.input.display(), self.output.display());
        session.remark(format!("{rows} of {requests} requests from {input}{} to {output}", guess(&trace)));
        let notes = told(session, &trace, &lost);
        if self.json {
            return print_json(&json!({
                "input": input.to_string(),
                "output": output.to_string(),
                "format": trace.format(),
                "notes": notes,
                "requests": requests,
                "rows": rows,
            }));
        }
        Ok(())
    }
}

/// Subtracts `by` from every time of a request.
fn shift(record: &mut TraceRecord, by: Duration) {
    let points = &mut record.points;
    let mut arrival = Some(record.arrival);
    let times = [
        &mut arrival,
        &mut record.issue,
        &mut record.start,
        &mut record.completion,
        &mut points.mp1_arrival,
        &mut points.mp1_completion,
        &mut points.mp2_arrival,
        &mut points.mp2_due,
        &mut points.mp2_completion,
    ];
    let earlier = |time: Instant| Instant::from_ns(time.as_ns().saturating_sub(by.as_ns()));
    times.into_iter().for_each(|time| *time = time.map(earlier));
    record.arrival = arrival.expect("it was given");
}
