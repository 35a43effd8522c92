//! The binary format SRT of HP Labs: an ASCII header, a form feed, then big-endian records.
//!
//! ```text
//! u32 size  u32 id (version << 16 | type)  u32 seconds  u32 microseconds  u32 start_us  u32 stop_us
//! u32 bytes  u32 sector  u32 device  u32 driver  u32 cylinder  u32 flags  u32 info  u32 queue (version 4)
//! ```
//! Start and stop count from the arrival. Sectors are the drive's own, of the size in the header
//! (`sectorsize`, 256 bytes in the traces of 1992), which is the block size of the trace. DiskSim's reader
//! assumes 512 bytes. Bits 8 to 15 of the device are the disk; bit 0 of the flags means read. The queue
//! counts the request itself, so the queue length at arrival is one less.
//!
//! # Scope and limits
//! Records of type 1 (a request) and 4 (a request that the recorder marked as suspect) are rows; type 4 is
//! counted. Other types are passed over and counted. Of the flags only read is carried. Rows only roughly in
//! order are sorted within the window of the options. Not written.
//!
//! # References
//! C. Ruemmler, J. Wilkes: UNIX Disk Access Patterns, USENIX Winter 1993; DiskSim 4.0, which reads the
//! format.

use std::collections::BTreeSet;

use seeklab_core::number_words::numbered;
use seeklab_core::{ByteSize, Instant, Operation, TraceRecord};

use crate::error::{Place, Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption};
use crate::parse::extent::checked_block_size;
use crate::parse::records::{RecordParser, RecordReader, Records, blocks_of_bytes, chunk};
use crate::parse::skips::Skips;
use crate::parse::text::Order;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// HPL SRT.
pub(super) struct HplSrt;

const NAME: &str = "hpl-srt";
const MAGIC: &[u8] = b"$$TR_IOREC";
const FORM_FEED: u8 = 0x0c;
/// Bytes that a header may have.
const HEADER_MAX: u64 = 1 << 20;
/// Bytes of a record without and with the queue length, and at most.
const RECORD_SIZES: (u32, u32, u32) = (52, 56, 1 << 16);
/// Types of records.
const REQUEST: u32 = 1;
const SUSPECT: u32 = 4;

const SECTOR_SIZE: FormatOption = FormatOption {
    name: "sector-size",
    allowed: Allowed::Size,
    default: "header",
    meaning: "unit of sector numbers; `header` is the drive's own sector size, DiskSim's reader takes 512B",
};

struct Parser {
    sector_size: u64,
    block_size: u64,
    suspects: u64,
    skips: Skips,
}

impl RecordParser for Parser {
    fn next(
        &mut self,
        records: &mut Records,
        metadata: &mut Metadata,
    ) -> Result<Option<TraceRecord>, TraceError> {
        let (least, with_queue, most) = RECORD_SIZES;
        loop {
            let place = records.place();
            let Some(start) = records.next::<8>()? else { return Ok(None) };
            let (size, id) = (u32::from_be_bytes(chunk(&start, 0)), u32::from_be_bytes(chunk(&start, 4)));
            if !(8..=most).contains(&size) {
                let what = format!("the record says that it has {size} bytes; 8 to {most} are allowed");
                return Err(records.wrong(place, what));
            }
            let kind = id & 0xffff;
            let mut rest = u64::from(size) - 8;
            let row = match kind {
                REQUEST | SUSPECT if size < least => {
                    let what = format!("a request of {size} bytes is too short; {least} are needed");
                    return Err(records.wrong(place, what));
                }
                REQUEST | SUSPECT => {
                    let cut = |records: &Records| records.cut_short(u64::from(size), 8);
                    let record = records.next::<44>()?.ok_or_else(|| cut(records))?;
                    rest -= 44;
                    let queue = match id >> 16 >= 4 && size >= with_queue {
                        true => {
                            rest -= 4;
                            Some(u32::from_be_bytes(records.next::<4>()?.ok_or_else(|| cut(records))?))
                        }
                        false => None,
                    };
                    self.suspects += u64::from(kind == SUSPECT);
                    let row = self.row(&record, queue, metadata);
                    Some(row.map_err(|problem| records.invalid(place, problem))?)
                }
                _ => {
                    self.skips.add(
                        "record[|s] of other types",
                        "[it is no request|they are no requests]",
                        place,
                    );
                    None
                }
            };
            if records.skip(rest)? < rest {
                return Err(records
                    .wrong(place, format!("the file ends within this record of {size} bytes"))
                    .with_hint("the file is cut short"));
            }
            if row.is_some() {
                return Ok(row);
            }
        }
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        if self.suspects > 0 {
            let remark = numbered(self.suspects, "request[|s] [is|are] marked as suspect by the recorder");
            notes.push(Note::Remark(remark.into()));
        }
        self.skips.notes(notes);
    }
}

impl Parser {
    /// The row of a record behind its size and id.
    fn row(
        &self,
        record: &[u8; 44],
        queue: Option<u32>,
        metadata: &mut Metadata,
    ) -> Result<TraceRecord, Box<Problem>> {
        let field = |index: usize| u32::from_be_bytes(chunk(record, 4 * index));
        let [seconds, us, start_us, stop_us, bytes, sector] =
            [0, 1, 2, 3, 4, 5].map(|index| u64::from(field(index)));
        let (device, flags) = (field(6), field(9));
        if us >= 1_000_000 {
            return Err(Problem::new("microseconds", us.to_string(), "less than 1000000 are allowed"));
        }
        if start_us > stop_us {
            let problem = format!("it stops before it starts, which is at {start_us}");
            return Err(Problem::new("stop", stop_us.to_string(), problem));
        }
        let op = if flags & 1 == 1 { Operation::Read } else { Operation::Write };
        let offset = u128::from(sector) * u128::from(self.sector_size);
        let (lbn, blocks) = blocks_of_bytes(op, offset, bytes, self.block_size)?;
        let disk = (device >> 8 & 0xff) as u16;
        for disk in metadata.labels.len()..=usize::from(disk) {
            metadata.labels.push(format!("disk {disk}"));
        }
        let arrival_us = seconds * 1_000_000 + us;
        let after = |us: u64| Some(Instant::from_ns((arrival_us + us) * 1_000));
        Ok(TraceRecord {
            device: disk,
            start: after(start_us),
            completion: after(stop_us),
            queue_length: queue.map(|queue| queue.saturating_sub(1)),
            ..TraceRecord::new(Instant::from_ns(arrival_us * 1_000), op, lbn, blocks)
        })
    }
}

/// Returns the sector sizes given in a header.
fn sector_sizes(header: &[u8]) -> BTreeSet<u64> {
    let header = String::from_utf8_lossy(header);
    let value = |rest: &str| {
        let rest = rest.trim_start().strip_prefix('=')?.trim_start();
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok().filter(|size| *size > 0)
    };
    header.split("sectorsize").skip(1).filter_map(value).collect()
}

impl TraceFormat for HplSrt {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "HP Labs SRT binary: arrival, start, stop, native sectors"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["srt"]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[SECTOR_SIZE]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        match head.bytes.get(..MAGIC.len()) {
            Some(magic) if magic == MAGIC => Sniff::Yes,
            Some(_) => Sniff::No,
            None => Sniff::NeedMore,
        }
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let stated = SECTOR_SIZE.size(options)?.map(ByteSize::as_bytes);
        let mut records = Records::of(source)?;
        let header = records.until(FORM_FEED, HEADER_MAX)?;
        if !header.starts_with(MAGIC) {
            let what = "the file does not begin with `$$TR_IOREC`, as a header does";
            return Err(records.wrong(Place::Byte(0), what.to_owned()));
        }
        if !header.ends_with(&[FORM_FEED]) {
            let what = "the header does not end: there is no form feed".to_owned();
            return Err(records.wrong(records.place(), what).with_hint("the file is cut short"));
        }
        let sizes = sector_sizes(&header);
        let sector_size = match (stated, sizes.iter().copied().collect::<Vec<_>>().as_slice()) {
            (Some(stated), _) => stated,
            (None, [one]) => *one,
            (None, other) => {
                let seen = if other.is_empty() { "no size of sectors" } else { "several sizes of sectors" };
                return Err(records
                    .wrong(Place::Byte(0), format!("the header says {seen}"))
                    .with_hint("state it with `--format-option sector-size=512B`"));
            }
        };
        let block_size = options.block_size.unwrap_or(ByteSize::from_bytes(sector_size));
        let parser = Parser {
            sector_size,
            block_size: checked_block_size(block_size)?,
            suspects: 0,
            skips: Skips::default(),
        };
        let metadata = Metadata { block_size, ..Metadata::default() };
        Ok(Box::new(RecordReader::new(records, parser, metadata, Order::Rough, options)))
    }
}
