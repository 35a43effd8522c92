//! The format of the FIU traces: `time pid process sector sectors R|W major minor hash`, split by
//! blanks.
//!
//! ```text
//! 89966104303000 4253 nfsd 508050856 8 W 6 0 2ccd89a3e9a2ee3d29ba36bf13b1d7a3
//! ```
//! Times count nanoseconds from the start of the machine; arrivals count from the earliest row of the
//! first window. Addresses and lengths count sectors of 512 bytes. The process id becomes the initiator;
//! major and minor number become devices 0, 1, 2 in order of appearance, labelled `major:minor`.
//! The name of a process may have blanks, so the fields are found from both ends.
//!
//! # Scope and limits
//! The hash of the content is checked to be one, or missing, and not kept. There are no response times.
//!
//! # References
//! R. Koller, R. Rangaswami: I/O Deduplication, FAST 2010; A. Verma et al.: SRCMap, FAST 2010; SNIA IOTTA
//! trace set 390.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::MissingColumn;
use crate::parse::extent::{Blocks, checked_block_size};
use crate::parse::names::Names;
use crate::parse::number::integer;
use crate::parse::text::{
    LineParser, Order, Parsed, TextReader, blanks_from_right, sniff_lines, split_blank,
};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// FIU.
pub(super) struct Fiu;

const FIELDS: [&str; 8] = ["time_ns", "pid", "process", "sector", "sectors", "op", "major", "minor"];
/// Hexadecimal digits of an MD5 sum.
const HASH_DIGITS: usize = 32;

struct Parser {
    blocks: Blocks,
    devices: Names,
    /// `major:minor` of a row.
    label: Vec<u8>,
}

impl Parser {
    fn new(block_size: u64) -> Self {
        Self { blocks: Blocks::of(block_size), devices: Names::default(), label: Vec::new() }
    }
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let missing = || Problem::new("line", line, format!("a row has {} and a hash", FIELDS.join(", ")));
        let (time, rest) = split_blank(line).ok_or_else(missing)?;
        let (pid, rest) = split_blank(rest).ok_or_else(missing)?;
        let hash = |text: &[u8]| text.len() == HASH_DIGITS && text.iter().all(u8::is_ascii_hexdigit);
        let rest = match blanks_from_right::<1>(rest) {
            Some((rest, [last])) if hash(last) => rest,
            _ => rest,
        };
        let (process, [sector, sectors, op, major, minor]) = blanks_from_right(rest).ok_or_else(missing)?;
        if process.is_empty() {
            return Err(missing());
        }
        let arrival = integer(FIELDS[0], time, u64::MAX)?;
        let initiator = integer(FIELDS[1], pid, u64::from(u32::MAX))? as u32;
        let (lbn, blocks) = self.blocks.sector_extent([FIELDS[3], FIELDS[4]], sector, sectors)?;
        let op = match op {
            b"R" => Operation::Read,
            b"W" => Operation::Write,
            _ => return Err(Problem::new(FIELDS[5], op, "`R` or `W` is allowed")),
        };
        integer(FIELDS[6], major, u64::from(u32::MAX))?;
        integer(FIELDS[7], minor, u64::from(u32::MAX))?;
        check_extent(op, lbn, blocks)?;
        self.label.clear();
        self.label.extend_from_slice(major);
        self.label.push(b':');
        self.label.extend_from_slice(minor);
        let device = self.devices.device("device", &self.label, metadata)?;
        let record = TraceRecord::new(Instant::from_ns(arrival), op, lbn, blocks);
        Ok(Parsed::Row(TraceRecord { device, initiator, ..record }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.blocks.notes(notes);
    }
}

impl TraceFormat for Fiu {
    fn name(&self) -> &'static str {
        "fiu"
    }

    fn description(&self) -> &'static str {
        "FIU: ns, process, sector, sectors, R or W, device, hash of the content"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::ResponseTimes]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let (mut parser, mut metadata) = (Parser::new(512), Metadata::default());
        sniff_lines(head, |line| parser.parse(line, &mut metadata).is_ok())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let parser = Parser::new(checked_block_size(options.block_size_or_default())?);
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }
}
