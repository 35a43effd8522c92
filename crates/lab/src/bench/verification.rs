//! Verification of a measurement: its options, and its results as figures, tables and sentences.

use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_bench::WriteData;
use seeklab_bench::target::Target;
use seeklab_bench::verify::{Finding, Findings, Kind, Verification, VerifyOptions};
use seeklab_core::ByteSize;
use seeklab_files::check_distinct;
use seeklab_report::PlainTable;
use serde::Serialize;

use super::BenchOptions;
use super::load::Load;
use super::targets::ReadyTarget;
use crate::failure::Failure;
use crate::output::counted;

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
    /// Memory of the ledger: 8 bytes per block, and 16 with `--state`.
    pub ledger_bytes: u64,
    /// True if the ledger is in a file.
    pub ledger_in_file: bool,
}

/// A block with other contents than it should have.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FindingFigures {
    /// Kind: `corrupt`, `torn`, `misdirected`, `stale` or `blank`.
    pub kind: &'static str,
    /// Logical block.
    pub lbn: u64,
    /// Number of the last acknowledged write to the block, within the run. A later one would be right, too.
    pub expected_write: u64,
    /// Number of the write that was found.
    pub found_write: Option<u64>,
    /// Logical block for which the data was written.
    pub found_lbn: Option<u64>,
    /// Thread that wrote it.
    pub found_thread: Option<u32>,
    /// True if the data is of this run, false if it is of another.
    pub found_of_run: Option<bool>,
    /// The byte of which the block consists, if it is one.
    pub found_byte: Option<u8>,
    /// Time of the completion of the read.
    pub at_s: f64,
}

/// A verification of these targets, which are the same device for each thread.
///
/// # Errors
/// If the options do not fit, or there is no room for the ledger.
pub(super) fn start(
    options: &BenchOptions,
    ready: &ReadyTarget,
    (load, data): (&Load, &WriteData),
    targets: Vec<Box<dyn Target>>,
) -> Result<(Option<Verification>, Vec<Box<dyn Target>>), Failure> {
    let Some(verify) = &options.verification else { return Ok((None, targets)) };
    if !ready.kind.holds_data {
        return Err(Failure::new(format!("--verify: `{}` carries no data", ready.address))
            .hint("verify a block device, a file, an NBD export or an iSCSI unit"));
    }
    if *data != WriteData::default() {
        return Err(Failure::new(format!("--verify: writes carry stamps, and their data are to be {data}"))
            .hint("remove --data, or measure without --verify"));
    }
    if !load.writes {
        return Err(Failure::new("--verify: the workload writes nothing that could be checked").hint(
            "let it write, for example read=50%, or check an earlier run with seeklab bench verify FILE",
        ));
    }
    if let Some(state) = &verify.state {
        let outputs = [&options.record, &options.report].into_iter().flatten().cloned();
        check_distinct(state, outputs.chain([PathBuf::from(&ready.address)]))?;
    }
    let run = VerifyOptions::new_run()
        .map_err(|error| Failure::from(error).context("--verify: no random number"))?;
    let verify =
        VerifyOptions { ram: verify.ram.unwrap_or(VerifyOptions::RAM), state: verify.state.clone(), run };
    let lanes = targets.len() as u32;
    let verification = Verification::new(&verify, &*targets[0], &ready.address, lanes)?;
    let attached = targets.into_iter().enumerate();
    let attached = attached.map(|(index, target)| verification.attach(target, index as u32, index as u32));
    let targets = attached.collect::<Result<_, _>>()?;
    Ok((Some(verification), targets))
}

/// Sentence on findings, if there are any.
pub(super) fn failure(target: &str, findings: &Findings) -> Option<Failure> {
    let count = findings.count();
    let kinds = Kind::ALL.iter().zip(findings.counts).filter(|(_, count)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(kind, count)| format!("{count} {}", kind.name())).collect();
    (count > 0).then(|| {
        let blocks = counted(count as usize, "block");
        Failure::check(format!("`{target}`: {blocks} read other than written: {}", kinds.join(", ")))
    })
}

/// Notes on a verification, and true of each if it limits the trust.
pub(super) fn notes(findings: &Findings) -> Vec<(bool, String)> {
    let mut notes = Vec::new();
    if findings.count() > 0 {
        notes.push((true, format!("{} blocks read other than written", findings.count())));
    }
    if findings.checked_blocks == 0 {
        notes.push((true, "no read met a block that the run had written: nothing was verified".to_owned()));
    }
    if findings.overtaken_blocks > 0 {
        notes.push((
            false,
            format!(
                "{} blocks hold a write whose connection was cut before a later one was acknowledged: the server carried it \
                 out late",
                findings.overtaken_blocks
            ),
        ));
    }
    if findings.held_writes > 0 {
        notes.push((
            false,
            format!(
                "{} writes waited for another write to one of their blocks, which their service times include",
                findings.held_writes
            ),
        ));
    }
    notes
}

impl From<&Findings> for VerificationFigures {
    fn from(findings: &Findings) -> Self {
        let of = |kind: Kind| findings.counts[kind as usize];
        Self {
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
            findings: findings.first.iter().map(FindingFigures::from).collect(),
            ledger_bytes: findings.memory_bytes,
            ledger_in_file: findings.memory_in_file,
        }
    }
}

impl From<&Finding> for FindingFigures {
    fn from(finding: &Finding) -> Self {
        Self {
            kind: finding.kind.name(),
            lbn: finding.lbn,
            expected_write: finding.expected_sequence,
            found_write: finding.found.map(|stamp| stamp.sequence),
            found_lbn: finding.found.map(|stamp| stamp.lbn),
            found_thread: finding.found.map(|stamp| stamp.stream),
            found_of_run: finding.found.map(|stamp| stamp.is_of_run),
            found_byte: finding.constant_byte,
            at_s: (finding.at.as_ns() as f64 / 1e3).round() / 1e6,
        }
    }
}

impl FindingFigures {
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
    let kinds = [
        ("blocks checked", figures.checked_blocks),
        ("read other than written", figures.finding_blocks),
        ("corrupt", figures.corrupt_blocks),
        ("torn", figures.torn_blocks),
        ("misdirected", figures.misdirected_blocks),
        ("stale", figures.stale_blocks),
        ("blank", figures.blank_blocks),
        ("not written by the run", figures.unwritten_blocks),
        ("undecided", figures.undecided_blocks),
        ("overtaken", figures.overtaken_blocks),
    ];
    let rows = kinds.into_iter().enumerate().filter(|(row, (_, count))| *row < 2 || *count > 0);
    let rows = rows.map(|(_, (name, count))| vec![name.to_owned(), count.to_string()]).collect();
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut tables = vec![PlainTable {
        columns: columns(&["verification", "blocks"]),
        rows,
        caption: "Contents of blocks that were read, against the last acknowledged write or a later one."
            .to_owned(),
    }];
    if !figures.findings.is_empty() {
        let row = |finding: &FindingFigures| {
            vec![
                finding.kind.to_owned(),
                finding.lbn.to_string(),
                format!("write {} or later", finding.expected_write),
                finding.found(),
                format!("{:.3}", finding.at_s),
            ]
        };
        tables.push(PlainTable {
            columns: columns(&["finding", "block", "expected", "found", "at s"]),
            rows: figures.findings.iter().map(row).collect(),
            caption: "The first findings. Writes are numbered in the order in which they were issued."
                .to_owned(),
        });
    }
    tables
}
