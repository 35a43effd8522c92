//! Verification of a measurement: its options, and its results as figures, tables and sentences. The verification itself is
//! in `verified_run`.

use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_bench::verify::{Finding, Findings, Kind, Pass};
use seeklab_core::ByteSize;
use seeklab_report::PlainTable;
use serde::Serialize;

use crate::failure::Failure;
use seeklab_core::number_words::{counted, numbered};

/// Options of the verification of a measurement.
#[derive(Debug, Clone, Default)]
pub struct VerificationOptions {
    /// Memory for the ledger [default: 1 GiB]. A longer one is kept in a file.
    pub ram: Option<ByteSize>,
    /// File that keeps the ledger for [`check_state`](super::check_state), also if the process is killed.
    pub state: Option<PathBuf>,
}

/// Blocks with other contents than they should have, and those that were checked.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VerificationFigures {
    /// Targets that were verified.
    pub targets: Vec<String>,
    /// Reads that were checked.
    pub checked_reads: u64,
    /// Blocks of these that the run had written, and that were checked.
    pub checked_blocks: u64,
    /// Blocks of these that the run had not written.
    pub unwritten_blocks: u64,
    /// Blocks that were found torn or corrupt while a write to them was under way, which may tear them, or blank while they may
    /// have been cleared.
    pub undecided_blocks: u64,
    /// Blocks with a write whose connection was cut before a later write was acknowledged. A server may carry it out late.
    pub overtaken_blocks: u64,
    /// Writes that waited for another write to one of their blocks.
    pub held_back_writes: u64,
    /// Blocks with other contents than they should have.
    pub finding_blocks: u64,
    /// Blocks of these with a stamp that its checksum does not confirm, or with data of nobody where a stamp was read before.
    pub corrupt_blocks: u64,
    /// Blocks of these with parts of a write beside older data, or that miss a write that another block has.
    pub torn_blocks: u64,
    /// Blocks of these with data of another address.
    pub misdirected_blocks: u64,
    /// Blocks of these with an earlier write.
    pub stale_blocks: u64,
    /// Blocks of these without any write: the same byte throughout, or the data from before the run.
    pub blank_blocks: u64,
    /// The first findings, at most 16.
    pub findings: Vec<FindingFigures>,
    /// Findings of each stream.
    pub streams: Vec<StreamFindingFigures>,
    /// Memory of the ledgers: 8 bytes per block, and 16 with `--state`.
    pub ledger_bytes: u64,
    /// True if a ledger is in a file.
    pub ledger_in_file: bool,
    /// Blocks that were read back behind their phases; null if none were to be.
    pub read_back: Option<ReadBackFigures>,
}

/// Blocks that were read back behind the phases whose streams wrote them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ReadBackFigures {
    /// Blocks, those that could not be read included.
    pub blocks: u64,
    /// Blocks that could not be read.
    pub unreadable_blocks: u64,
    /// The first of them.
    pub first_unreadable_lbn: Option<u64>,
    /// False if the last pass was stopped or its target failed.
    pub complete: bool,
}

impl ReadBackFigures {
    /// Adds a pass.
    pub(super) fn add(&mut self, pass: &Pass) {
        self.blocks += pass.required_blocks;
        self.unreadable_blocks += pass.unreadable_blocks;
        self.first_unreadable_lbn = self.first_unreadable_lbn.or(pass.first_unreadable);
    }
}

/// Findings of a stream: blocks whose last write was one of its own, and blocks that no stream had written with its data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StreamFindingFigures {
    /// Name of the stream, behind the name of its phase if there are several: `PHASE/STREAM`.
    pub stream: String,
    /// Blocks with other contents than they should have.
    pub finding_blocks: u64,
    /// Corrupt blocks of these.
    pub corrupt_blocks: u64,
    /// Torn blocks of these.
    pub torn_blocks: u64,
    /// Misdirected blocks of these.
    pub misdirected_blocks: u64,
    /// Stale blocks of these.
    pub stale_blocks: u64,
    /// Blank blocks of these.
    pub blank_blocks: u64,
}

/// A block with other contents than it should have.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FindingFigures {
    /// Kind: `corrupt`, `torn`, `misdirected`, `stale` or `blank`.
    pub kind: &'static str,
    /// Target.
    pub target: String,
    /// Logical block.
    pub lbn: u64,
    /// Number of the last acknowledged write to the block, within the run. A later one would be right, too.
    pub expected_write: u64,
    /// Stream of that write; null if the run has not written the block.
    pub expected_stream: Option<String>,
    /// Number of the write that was found.
    pub found_write: Option<u64>,
    /// Logical block for which the data was written.
    pub found_lbn: Option<u64>,
    /// Stream that wrote it, if it is of this run.
    pub found_stream: Option<String>,
    /// True if the data is of this run, false if it is of another.
    pub found_of_run: Option<bool>,
    /// The byte of which the block consists, if it is one.
    pub found_byte: Option<u8>,
    /// Time of the completion of the read from the begin of the run.
    pub at_s: f64,
}

/// Names of what a verification has only numbers of.
#[derive(Debug, Clone)]
pub(super) struct VerifiedNames {
    /// Addresses of the targets.
    pub(super) targets: Vec<String>,
    /// Names of the streams.
    pub(super) streams: Vec<String>,
}

impl VerifiedNames {
    fn stream(&self, number: u32) -> Option<String> {
        self.streams.get(number as usize).cloned()
    }
}

/// Sentence on findings, if there are any.
pub(super) fn failure(figures: &VerificationFigures) -> Option<Failure> {
    let kinds = figures.kinds().into_iter().filter(|(_, count)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(kind, count)| format!("{count} {kind}")).collect();
    let names: Vec<String> = figures.targets.iter().map(|target| format!("`{target}`")).collect();
    let streams = figures.streams.iter().filter(|stream| stream.finding_blocks > 0);
    let streams: Vec<String> = streams.map(|stream| format!("`{}`", stream.stream)).collect();
    let of_streams = match streams.len() {
        _ if figures.streams.len() < 2 => String::new(),
        0 => String::new(),
        1 => format!(" (stream {})", streams[0]),
        _ => format!(" (streams {})", streams.join(", ")),
    };
    let (names, kinds) = (names.join(", "), kinds.join(", "));
    if figures.finding_blocks > 0 {
        let blocks = counted(figures.finding_blocks, "block");
        let problem = format!("{names}: {blocks} read other than written: {kinds}{of_streams}");
        return Some(Failure::check(problem));
    }
    let unreadable = figures.read_back.as_ref().map_or(0, |read_back| read_back.unreadable_blocks);
    (unreadable > 0).then(|| {
        let blocks = counted(unreadable, "block");
        Failure::check(format!("{names}: {blocks} cannot be read back"))
    })
}

/// Notes on a verification, and true of each if it limits the trust.
pub(super) fn notes(findings: &VerificationFigures) -> Vec<(bool, String)> {
    let mut notes = Vec::new();
    if findings.finding_blocks > 0 {
        notes.push((true, numbered(findings.finding_blocks, "block[|s] read other than written")));
    }
    if findings.checked_blocks == 0 {
        notes.push((true, "no read met a block that the run had written: nothing was verified".to_owned()));
    }
    if let Some(read_back) = findings.read_back.as_ref().filter(|read_back| !read_back.complete) {
        let blocks = numbered(read_back.blocks, "block[|s] [was|were] read back");
        notes.push((true, format!("{blocks}, and the others were not")));
    }
    if findings.overtaken_blocks > 0 {
        notes.push((
            false,
            format!(
                "{} a write whose connection was cut before a later one was acknowledged: the server carried it out late",
                numbered(findings.overtaken_blocks, "block[|s] [holds|hold]")
            ),
        ));
    }
    if findings.held_back_writes > 0 {
        notes.push((
            false,
            numbered(
                findings.held_back_writes,
                "write[|s] waited for another write to one of [its|their] blocks, which [its service time includes|their service times include]",
            ),
        ));
    }
    notes
}

impl VerificationFigures {
    pub(super) fn of(findings: &Findings, names: &VerifiedNames) -> Self {
        let of = |kind: Kind| findings.counts[kind as usize];
        let streams = names.streams.iter().zip(&findings.streams);
        Self {
            targets: names.targets.clone(),
            checked_reads: findings.reads,
            checked_blocks: findings.checked_blocks,
            unwritten_blocks: findings.unwritten_blocks,
            undecided_blocks: findings.undecided_blocks,
            overtaken_blocks: findings.overtaken_blocks,
            held_back_writes: findings.held_writes,
            finding_blocks: findings.count(),
            corrupt_blocks: of(Kind::Corrupt),
            torn_blocks: of(Kind::Torn),
            misdirected_blocks: of(Kind::Misdirected),
            stale_blocks: of(Kind::Stale),
            blank_blocks: of(Kind::Blank),
            findings: findings.first.iter().map(|finding| FindingFigures::of(finding, names)).collect(),
            streams: streams.map(|(name, counts)| StreamFindingFigures::of(name, counts)).collect(),
            ledger_bytes: findings.memory_bytes,
            ledger_in_file: findings.memory_in_file,
            read_back: None,
        }
    }

    /// Findings by kind.
    fn kinds(&self) -> [(&'static str, u64); Kind::ALL.len()] {
        let counts = [
            self.corrupt_blocks,
            self.torn_blocks,
            self.misdirected_blocks,
            self.stale_blocks,
            self.blank_blocks,
        ];
        std::array::from_fn(|kind| (Kind::ALL[kind].name(), counts[kind]))
    }
}

impl StreamFindingFigures {
    fn of(name: &str, counts: &[u64; Kind::ALL.len()]) -> Self {
        let of = |kind: Kind| counts[kind as usize];
        Self {
            stream: name.to_owned(),
            finding_blocks: counts.iter().sum(),
            corrupt_blocks: of(Kind::Corrupt),
            torn_blocks: of(Kind::Torn),
            misdirected_blocks: of(Kind::Misdirected),
            stale_blocks: of(Kind::Stale),
            blank_blocks: of(Kind::Blank),
        }
    }
}

impl FindingFigures {
    fn of(finding: &Finding, names: &VerifiedNames) -> Self {
        let of_run = finding.found.filter(|stamp| stamp.is_of_run);
        Self {
            kind: finding.kind.name(),
            target: names.targets.get(finding.target).cloned().unwrap_or_default(),
            lbn: finding.lbn,
            expected_write: finding.expected_sequence,
            expected_stream: finding.expected_stream.and_then(|stream| names.stream(stream)),
            found_write: finding.found.map(|stamp| stamp.sequence),
            found_lbn: finding.found.map(|stamp| stamp.lbn),
            found_stream: of_run.and_then(|stamp| names.stream(stamp.stream)),
            found_of_run: finding.found.map(|stamp| stamp.is_of_run),
            found_byte: finding.constant_byte,
            at_s: (finding.at.as_ns() as f64 / 1e3).round() / 1e6,
        }
    }

    /// The contents that were found, in words.
    fn found(&self) -> String {
        match (self.found_write, self.found_lbn, self.found_of_run, self.found_byte) {
            (Some(write), _, Some(false), _) => format!("write {write} of another run"),
            (Some(write), Some(lbn), ..) if lbn != self.lbn => format!("write {write} for block {lbn}"),
            (Some(write), ..) => format!("write {write}"),
            (.., Some(0)) => "zeroes".to_owned(),
            (.., Some(byte)) => format!("the byte {byte:#04x} throughout"),
            _ if self.kind == Kind::Torn.name() => "parts of several writes".to_owned(),
            _ if self.kind == Kind::Corrupt.name() => "data that the checksum does not confirm".to_owned(),
            _ => "data without a stamp".to_owned(),
        }
    }
}

/// Tables of a verification.
pub(super) fn tables(figures: &VerificationFigures) -> Vec<PlainTable> {
    let mut kinds =
        vec![("blocks checked", figures.checked_blocks), ("read other than written", figures.finding_blocks)];
    kinds.extend(figures.kinds());
    kinds.extend([
        ("not written by the run", figures.unwritten_blocks),
        ("undecided", figures.undecided_blocks),
        ("overtaken", figures.overtaken_blocks),
    ]);
    let read_back = figures.read_back.clone().unwrap_or_default();
    kinds.extend([("read back", read_back.blocks), ("cannot be read back", read_back.unreadable_blocks)]);
    let rows = kinds.into_iter().enumerate().filter(|(row, (_, count))| *row < 2 || *count > 0);
    let rows = rows.map(|(_, (name, count))| vec![name.to_owned(), count.to_string()]).collect();
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut tables = vec![PlainTable {
        columns: columns(&["verification", "blocks"]),
        rows,
        caption: "Contents of blocks that were read, against the last acknowledged write or a later one."
            .to_owned(),
    }];
    let (has_streams, has_targets) = (figures.streams.len() > 1, figures.targets.len() > 1);
    if has_streams && figures.finding_blocks > 0 {
        tables.push(stream_table(&figures.streams));
    }
    if !figures.findings.is_empty() {
        // Columns that say the same in every row are left out.
        let row = |finding: &FindingFigures| {
            let mut cells = vec![finding.kind.to_owned()];
            cells.extend(has_targets.then(|| finding.target.clone()));
            cells.push(finding.lbn.to_string());
            cells.push(format!("write {} or later", finding.expected_write));
            cells.extend(has_streams.then(|| finding.expected_stream.clone().unwrap_or_default()));
            cells.push(finding.found());
            cells.extend(has_streams.then(|| finding.found_stream.clone().unwrap_or_default()));
            cells.push(format!("{:.3}", finding.at_s));
            cells
        };
        let mut names = vec!["finding"];
        names.extend(has_targets.then_some("target"));
        names.extend(["block", "expected"]);
        names.extend(has_streams.then_some("of stream"));
        names.push("found");
        names.extend(has_streams.then_some("of stream"));
        names.push("at s");
        tables.push(PlainTable {
            columns: columns(&names),
            rows: figures.findings.iter().map(row).collect(),
            caption: "The first findings. Writes are numbered in the order in which they were issued."
                .to_owned(),
        });
    }
    tables
}

/// The findings of each stream that has some, by kind.
fn stream_table(streams: &[StreamFindingFigures]) -> PlainTable {
    let row = |stream: &StreamFindingFigures| {
        let counts = [
            stream.finding_blocks,
            stream.corrupt_blocks,
            stream.torn_blocks,
            stream.misdirected_blocks,
            stream.stale_blocks,
            stream.blank_blocks,
        ];
        [stream.stream.clone()].into_iter().chain(counts.map(|count| count.to_string())).collect()
    };
    let names = ["stream", "findings"].into_iter().chain(Kind::ALL.map(Kind::name));
    PlainTable {
        columns: names.map(str::to_owned).collect(),
        rows: streams.iter().filter(|stream| stream.finding_blocks > 0).map(row).collect(),
        caption: "Findings by the stream whose write the block should hold.".to_owned(),
    }
}
