//! Rewrites a trace as if the data were placed elsewhere.
//!
//! The first pass counts the requests to each piece of each device, the second pass moves the requests.
//!
//! # Scope and limits
//! Measured times are not copied, because they belong to the old places.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_analysis::relocation::{Crossing, Heat, NoBijection, Relocation, Remapper};
use seeklab_analysis::seeks::Seeks;
use seeklab_core::number_words::counted;
use seeklab_core::{ByteSize, Seed, TraceRecord};
use seeklab_files::check_distinct;
use seeklab_traces::{Metadata, NameTable};
use serde::Serialize;

use super::open::{TraceOptions, check_read_twice, notes};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;

/// Options for remapping a trace.
#[derive(Debug, Clone)]
pub struct RemapOptions {
    /// Trace to read.
    pub input: PathBuf,
    /// Trace to write.
    pub output: PathBuf,
    /// Size of the pieces to move.
    pub piece_size: ByteSize,
    /// New places of the pieces.
    pub placement: Placement,
    /// Trace whose requests to each piece are counted [default: the input].
    pub heat_of: Option<PathBuf>,
    /// Seed of the random draws.
    pub seed: Seed,
    /// Capacity of the device [default: up to the last block requested in the trace].
    pub capacity: Option<ByteSize>,
    /// Treatment of requests across pieces that are no longer adjacent.
    pub crossing: Crossing,
    /// Relocate only the requests of this device [default: all devices, each separately].
    pub device: Option<u16>,
    /// Options for reading the traces.
    pub reading: TraceOptions,
}

/// New places of the pieces of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// This number of the most requested pieces at the outer edge, from block 0 on.
    Hottest(u64),
    /// The most requested piece in the middle, the others on alternate sides of it.
    OrganPipe,
    /// A random order.
    Shuffle,
    /// As listed in a file with a line `FROM,TO` for each piece.
    Mapping(PathBuf),
    /// Pairs of pieces exchanged.
    Swaps(Vec<(u64, u64)>),
}

/// Result of remapping a trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RemapResult {
    /// Path of the input.
    pub input: String,
    /// Path of the output.
    pub output: String,
    /// Format of the input.
    pub format: &'static str,
    /// Format of the input in words, if it was guessed.
    #[serde(skip)]
    pub guess: Option<String>,
    /// Size of a piece.
    pub block_size_bytes: u64,
    /// Size of a block of the trace.
    pub trace_block_size_bytes: u64,
    /// Seed of the random draws.
    pub seed: u64,
    /// Figures of each device.
    pub devices: Vec<RemappedDevice>,
    /// Assumptions, changes to rows, and values that the output format cannot hold.
    pub notes: Vec<String>,
}

/// Figures of a device whose data were moved.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RemappedDevice {
    /// Number of the device.
    pub device: u16,
    /// Pieces that were moved, if the number is known.
    pub pieces_moved: Option<u64>,
    /// Requests to the hottest pieces, if those were moved.
    pub hot_pct: Option<f64>,
    /// Requests of the input.
    pub requests: u64,
    /// Rows of the output.
    pub rows: u64,
    /// Requests with another address.
    pub requests_moved: u64,
    /// Requests across pieces that are no longer adjacent.
    pub requests_crossing: u64,
    /// Seeks of the input.
    pub before: SeekSummary,
    /// Seeks of the output.
    pub after: SeekSummary,
}

/// Distances between consecutive requests of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SeekSummary {
    /// Sum of the distances.
    pub seek_distance_total_bytes: Option<f64>,
    /// Mean distance.
    pub seek_distance_mean_bytes: Option<f64>,
    /// Distances of zero.
    pub seek_zero_pct: Option<f64>,
    /// Requests that begin where the request before them ended.
    pub sequential_pct: Option<f64>,
}

impl From<&Seeks> for SeekSummary {
    fn from(seeks: &Seeks) -> Self {
        Self {
            seek_distance_total_bytes: seeks.total_bytes().to_string().parse().ok(),
            seek_distance_mean_bytes: seeks.mean_bytes(),
            seek_zero_pct: seeks.zero_pct(),
            sequential_pct: seeks.sequential_pct(),
        }
    }
}

/// State of the second pass for one device.
struct Device {
    remapper: Remapper,
    hot_share: Option<f64>,
    before: Seeks,
    after: Seeks,
}

/// Rewrites a trace as if the data were placed elsewhere.
///
/// # Errors
/// If a trace cannot be read twice, the placement is no bijection or does not fit, or the output cannot be
/// written or is an input.
pub fn remap(session: &Session, options: &RemapOptions) -> Result<RemapResult, Failure> {
    let RemapOptions { input, output, .. } = options;
    let traces = || std::iter::once(input).chain(&options.heat_of);
    let mapping = match &options.placement {
        Placement::Mapping(path) => Some(path),
        _ => None,
    };
    check_distinct(output, traces().chain(mapping))?;
    traces().try_for_each(|trace| check_read_twice(trace))?;
    let heats = options.heats(session, input)?;
    let hot = options.heat_of.as_ref().map(|path| options.heats(session, path)).transpose()?;
    let mut trace = options.reading.open(session, input)?;
    let block_bytes = trace.metadata().block_size.as_bytes();
    let mut devices = BTreeMap::new();
    for (device, heat) in &heats {
        let hot = hot.as_ref().map_or(Some(heat), |hot| hot.get(device));
        devices.insert(*device, options.relocate(heat, hot, block_bytes)?);
    }
    let metadata = metadata(trace.metadata(), session);
    let mut writer = session.create_trace(output, None, &metadata)?;
    let mut progress = session.progress_of(&format!("remapping {}", input.display()), &trace);
    let mut names = NameTable::of(trace.metadata());
    while let Some(record) = trace.next() {
        let record = record?;
        progress.step()?;
        names.pass_labels(trace.metadata(), &mut *writer)?;
        let Some(device) = devices.get_mut(&record.device).filter(|_| options.includes(&record)) else {
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
    Ok(RemapResult {
        input: input.display().to_string(),
        output: output.display().to_string(),
        format: trace.format(),
        guess: trace.guess().map(str::to_owned),
        block_size_bytes: options.piece_size.as_bytes(),
        trace_block_size_bytes: block_bytes,
        seed: options.seed.0,
        devices: devices.iter().map(|(number, device)| device.summary(*number)).collect(),
        notes: notes(&trace, &lost),
    })
}

impl Device {
    fn summary(&self, device: u16) -> RemappedDevice {
        let counts = self.remapper.counts();
        RemappedDevice {
            device,
            pieces_moved: self.remapper.relocation().moves(),
            hot_pct: self.hot_share.map(|share| share * 100.0),
            requests: counts.requests,
            rows: counts.rows,
            requests_moved: counts.moved,
            requests_crossing: counts.crossing,
            before: SeekSummary::from(&self.before),
            after: SeekSummary::from(&self.after),
        }
    }
}

impl RemapOptions {
    fn includes(&self, record: &TraceRecord) -> bool {
        self.device.is_none_or(|device| device == record.device)
    }

    fn piece_blocks(&self, block_bytes: u64) -> Result<u64, Failure> {
        let bytes = self.piece_size.as_bytes();
        if bytes == 0 || !bytes.is_multiple_of(block_bytes) {
            return Err(Failure::new(format!(
                "--block-size {}: the trace has blocks of {}",
                self.piece_size,
                ByteSize::from_bytes(block_bytes)
            ))
            .hint("a multiple of the trace's blocks is allowed"));
        }
        Ok(bytes / block_bytes)
    }

    /// Counts the requests to each piece of each device and finds the last block requested: the first pass.
    fn heats(&self, session: &Session, path: &Path) -> Result<BTreeMap<u16, Heat>, Failure> {
        let mut trace = self.reading.open(session, path)?;
        let recorder = trace.metadata().recorder();
        let piece_blocks = self.piece_blocks(trace.metadata().block_size.as_bytes())?;
        let mut heats: BTreeMap<u16, Heat> = BTreeMap::new();
        let mut progress = session.progress_of(&format!("heat of {}", path.display()), &trace);
        for record in trace.by_ref() {
            let record = record?;
            progress.step()?;
            if !self.includes(&record) || recorder.is_recorders_own(&record) {
                continue;
            }
            let heat = heats.entry(record.device).or_insert_with(|| Heat::new(piece_blocks));
            heat.record(&record).map_err(|error| {
                Failure::new(format!("{}: {error}", path.display())).hint("choose a larger --block-size")
            })?;
        }
        Ok(heats)
    }

    fn relocate(&self, heat: &Heat, hot: Option<&Heat>, block_bytes: u64) -> Result<Device, Failure> {
        let piece_blocks = self.piece_blocks(block_bytes)?;
        let end = match self.capacity {
            Some(capacity) => capacity.as_bytes() / block_bytes,
            None => heat.end(),
        };
        if end < heat.end() {
            return Err(Failure::new(format!(
                "--capacity {}: the trace requests {} of {}",
                self.capacity.unwrap_or_default(),
                counted(heat.end(), "block"),
                ByteSize::from_bytes(block_bytes)
            )));
        }
        let pieces = end / piece_blocks;
        let hottest = |most| hot.map(|hot| hot.hottest(most, pieces)).unwrap_or_default();
        let mut hot_share = None;
        let relocation = match &self.placement {
            Placement::Hottest(most) => {
                let hottest = hottest(*most);
                hot_share = heat.share(&hottest);
                Relocation::to_the_edge(&hottest, pieces)
            }
            Placement::OrganPipe => Relocation::organ_pipe(&hottest(u64::MAX), pieces),
            Placement::Shuffle => Relocation::shuffled(pieces, self.seed),
            Placement::Mapping(path) => mapping(path, pieces)?,
            Placement::Swaps(swaps) => {
                Relocation::of_swaps(swaps.iter().copied(), pieces).map_err(|error| {
                    Failure::new(format!("--swap: {error}")).hint("--capacity extends the device")
                })?
            }
        };
        Ok(Device {
            remapper: Remapper::new(relocation, piece_blocks, pieces, end, self.crossing),
            hot_share,
            before: Seeks::new(block_bytes),
            after: Seeks::new(block_bytes),
        })
    }
}

fn metadata(before: &Metadata, session: &Session) -> Metadata {
    let mut metadata = before.clone();
    metadata.version = Some(VERSION.to_owned());
    metadata.other.insert("remap".to_owned(), session.command().unwrap_or_default());
    metadata
}

/// Reads pairs of pieces, one per line.
fn mapping(path: &Path, pieces: u64) -> Result<Relocation, Failure> {
    let failure = |problem: String| Failure::new(format!("{}: {problem}", path.display()));
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
            failure(format!("line {number}: `{line}` is not `FROM,TO`"))
                .hint("write the numbers of two pieces, for example 17,3")
        })?);
    }
    Relocation::of_pairs(pairs, pieces).map_err(|error| {
        let failure = failure(format!("no bijection: {error}"));
        match error {
            NoBijection::Covered { .. } => failure.hint("add a line that moves that piece too"),
            NoBijection::Beyond { .. } => failure.hint("--capacity sets the size of the device"),
            _ => failure,
        }
    })
}
