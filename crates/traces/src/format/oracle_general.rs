//! The binary format oracleGeneral of libCacheSim: `u32 time_s, u64 id, u32 size, i64 next`, little-endian
//! and packed into 24 bytes.
//!
//! By default, the identifier is the sector of 512 bytes where the object starts, as in traces made of block
//! traces. The size counts bytes; `next` is the number of the next request of the object, -1 for none, and is
//! not carried. Times count seconds from any start; the first row is at time zero. The option `operation`
//! sets the operation of all requests, since the format does not record it.
//!
//! # Scope and limits
//! An object has one size: if libCacheSim converts a block trace, all requests of an address get the length
//! of the first (in the CloudPhysics sample 13,671 of 113,872 differ from the original). There is no magic: a
//! file is recognised where its times do not go back, its sizes are those of requests and each `next` lies
//! ahead. Rows of one second keep the order of the file. Not written.
//!
//! # References
//! libCacheSim, the reader `oracleGeneralBin`.

use seeklab_core::{Instant, Operation, TraceRecord};

use crate::error::{Place, Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption, MissingColumn};
use crate::parse::extent::checked_block_size;
use crate::parse::records::{RecordParser, RecordReader, Records, blocks_of_bytes, chunk};
use crate::parse::rounding::Rounding;
use crate::parse::text::Order;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// oracleGeneral.
pub(super) struct OracleGeneral;

const NAME: &str = "oracle-general";
const RECORD: usize = 24;
/// Records that sniffing looks at.
const SNIFFED: usize = 128;
/// Records that no trace has.
const NEXT_END: u64 = 1 << 48;
/// Bytes that sniffing takes for the size of a request.
const SIZE_MAX: u32 = 1 << 26;
/// Records that sniffing takes for the length of a trace: 400 GB of them.
const ROWS_MAX: i64 = 1 << 34;

const OPERATION: FormatOption = FormatOption {
    name: "operation",
    allowed: Allowed::OneOf(&["read", "write"]),
    default: "read",
    meaning: "operation of every request",
};

const ID: FormatOption = FormatOption {
    name: "id",
    allowed: Allowed::OneOf(&["sectors", "bytes"]),
    default: "sectors",
    meaning: "unit of the identifiers: sectors of 512 bytes, or bytes",
};

struct Record {
    time_s: u32,
    id: u64,
    size: u32,
    next: i64,
}

impl Record {
    fn of(record: &[u8; RECORD]) -> Self {
        Self {
            time_s: u32::from_le_bytes(chunk(record, 0)),
            id: u64::from_le_bytes(chunk(record, 4)),
            size: u32::from_le_bytes(chunk(record, 12)),
            next: i64::from_le_bytes(chunk(record, 16)),
        }
    }

    /// Returns true if the next request of this object, if there is one, comes after record `row`. No other data
    /// has this property.
    fn next_is_ahead_of(&self, row: u64) -> bool {
        self.next == -1 || u64::try_from(self.next).is_ok_and(|next| next > row && next < NEXT_END)
    }
}

struct Parser {
    op: Operation,
    unit: u64,
    block_size: u64,
    rounding: Rounding,
    /// Number of the next record.
    row: u64,
}

impl RecordParser for Parser {
    #[inline]
    fn next(&mut self, records: &mut Records, _: &mut Metadata) -> Result<Option<TraceRecord>, TraceError> {
        let place: Place = records.place();
        let Some(record) = records.next::<RECORD>()?.map(|bytes| Record::of(&bytes)) else { return Ok(None) };
        if !record.next_is_ahead_of(self.row) {
            let allowed = format!("-1 or the number of a later record than {} is allowed", self.row);
            return Err(records.invalid(place, Problem::new("next", record.next.to_string(), allowed)));
        }
        self.row += 1;
        let offset = u128::from(record.id) * u128::from(self.unit);
        let (lbn, blocks) = blocks_of_bytes(self.op, offset, u64::from(record.size), self.block_size)
            .map_err(|problem| records.invalid(place, problem))?;
        self.rounding.count(u64::from(record.size), blocks, self.block_size);
        let arrival = Instant::from_ns(u64::from(record.time_s) * 1_000_000_000);
        Ok(Some(TraceRecord::new(arrival, self.op, lbn, blocks)))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        let remark =
            "lengths are those of objects: libCacheSim writes the length of an object's first request";
        notes.push(Note::Remark(remark.into()));
        self.rounding.notes(self.block_size, notes);
    }
}

impl TraceFormat for OracleGeneral {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "oracleGeneral of libCacheSim: seconds, id, bytes"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["oracleGeneral", "oracleGeneral.bin"]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[OPERATION, ID]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[
            MissingColumn::Operations,
            MissingColumn::ResponseTimes,
            MissingColumn::FineTimes,
            MissingColumn::Devices,
        ]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let records =
            || head.bytes.chunks_exact(RECORD).filter_map(|record| record.first_chunk()).map(Record::of);
        let records = || records().take(SNIFFED);
        let good = |(index, record): (usize, Record)| {
            (1..=SIZE_MAX).contains(&record.size)
                && record.next < ROWS_MAX
                && record.next_is_ahead_of(index as u64)
        };
        let counted = records().count();
        if counted < 2 {
            return if head.whole { Sniff::No } else { Sniff::NeedMore };
        }
        let rises = records().is_sorted_by_key(|record| record.time_s);
        if rises && records().enumerate().all(good) { Sniff::Yes } else { Sniff::No }
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let op = if OPERATION.text(options)? == "write" { Operation::Write } else { Operation::Read };
        let unit = if ID.text(options)? == "bytes" { 1 } else { 512 };
        let parser = Parser {
            op,
            unit,
            block_size: checked_block_size(options.block_size_or_default())?,
            rounding: Rounding::NONE,
            row: 0,
        };
        let metadata = Metadata { block_size: options.block_size_or_default(), ..Metadata::default() };
        let records = Records::of(source)?;
        Ok(Box::new(RecordReader::new(records, parser, metadata, Order::RoughAbsolute, options)))
    }
}
