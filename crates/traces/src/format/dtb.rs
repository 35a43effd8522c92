//! DTB, the disk trace buffer of Brigham Young University: records of 12 bytes.
//!
//! ```text
//! u8 operation  u8 controller  u8 target  u8 sectors  u32 sector  u32 microseconds since the record before
//! ```
//! A record is a read, a write or the end (`done`) of one; sectors have 512 bytes. The times count from
//! record to record, of whatever kind. The papers give neither the codes of the operations nor the byte
//! order: both are options. A `done` belongs to the request of its controller, target, sector and length that
//! was issued first, or, with `done-match=oldest`, to the oldest one of its controller and target. Controller
//! and target become devices in order of appearance, labelled `controller.target`.
//!
//! # Scope and limits
//! A time of more than 71.6 minutes between two records has wrapped around and cannot be recovered. Requests
//! have 1 to 255 sectors; whether a length of 0 means 256, as it does in the SCSI commands of that time, is
//! an option. There is no magic: a file is recognised, with the default codes and in little-endian order,
//! where every `done` answers a request.
//!
//! Writing uses the defaults; times round to microseconds. Device numbers are split into controller and
//! target by 256, unless the labels have the form above.
//!
//! # References
//! N. Thornock, X.-H. Tu, J. K. Flanagan: A Stochastic Disk I/O Simulation Technique, Winter Simulation
//! Conference 1997; M. He et al.: SPEK, a storage performance evaluation kernel module, 2005.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use seeklab_core::{Operation, ProcessName, TraceRecord};

use crate::error::{Place, TraceError};
use crate::event::block_event::{BlockEvent, Kind};
use crate::event::rows::EventRows;
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption};
use crate::output::device_names::DevicesOut;
use crate::output::losses::Holds;
use crate::output::{TextOutput, TextSink};
use crate::parse::extent::checked_block_size;
use crate::parse::records::{Records, chunk};
use crate::parse::units::to_micros;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// DTB.
pub(super) struct Dtb;

const NAME: &str = "dtb";
const RECORD: usize = 12;
const SECTOR: u64 = 512;
const SECTORS_MAX: u64 = 255;
/// Records that sniffing looks at, and needs at least.
const SNIFFED: (usize, usize) = (256, 2);

const BYTE_ORDER: FormatOption = FormatOption {
    name: "byte-order",
    allowed: Allowed::OneOf(&["little", "big"]),
    default: "little",
    meaning: "byte order of sector and time",
};
const READ_CODE: FormatOption = FormatOption {
    name: "read-code",
    allowed: Allowed::Number(0, 255),
    default: "0",
    meaning: "code of a read",
};
const WRITE_CODE: FormatOption = FormatOption {
    name: "write-code",
    allowed: Allowed::Number(0, 255),
    default: "1",
    meaning: "code of a write",
};
const DONE_CODE: FormatOption = FormatOption {
    name: "done-code",
    allowed: Allowed::Number(0, 255),
    default: "2",
    meaning: "code of the end of a request",
};
const DONE_MATCH: FormatOption = FormatOption {
    name: "done-match",
    allowed: Allowed::OneOf(&["place", "oldest"]),
    default: "place",
    meaning: "request that an end record completes: the one at its address, or the oldest of its device",
};
const ZERO_LENGTH: FormatOption = FormatOption {
    name: "zero-length",
    allowed: Allowed::OneOf(&["error", "256"]),
    default: "error",
    meaning: "meaning of 0 sectors: an error, or 256 sectors",
};

/// Interpretation of the records of a trace.
struct Reading {
    is_big: bool,
    codes: [u8; 3],
    matches_oldest: bool,
    zero_is_256: bool,
}

impl Reading {
    fn of(options: &ReadOptions) -> Result<Self, TraceError> {
        let mut codes = [0; 3];
        for (code, option) in codes.iter_mut().zip([READ_CODE, WRITE_CODE, DONE_CODE]) {
            *code =
                option.number(options)?.and_then(|code| u8::try_from(code).ok()).expect("a code is a byte");
        }
        let [read, write, done] = codes;
        if read == write || write == done || read == done {
            let what =
                format!("the codes {read} of reads, {write} of writes and {done} of ends are not different");
            return Err(TraceError::malformed(what)
                .with_hint("give all three: `--format-option read-code=…`, write-code, done-code"));
        }
        Ok(Self {
            is_big: BYTE_ORDER.text(options)? == "big",
            codes,
            matches_oldest: DONE_MATCH.text(options)? == "oldest",
            zero_is_256: ZERO_LENGTH.text(options)? == "256",
        })
    }

    fn record(&self, bytes: &[u8; RECORD]) -> Record {
        let word = |at| match self.is_big {
            true => u32::from_be_bytes(chunk(bytes, at)),
            false => u32::from_le_bytes(chunk(bytes, at)),
        };
        let [read, write, done] = self.codes;
        Record {
            what: match bytes[0] {
                code if code == read => Some(What::Request(Operation::Read)),
                code if code == write => Some(What::Request(Operation::Write)),
                code if code == done => Some(What::Done),
                _ => None,
            },
            code: bytes[0],
            device: (bytes[1], bytes[2]),
            sectors: if bytes[3] == 0 && self.zero_is_256 { 256 } else { u32::from(bytes[3]) },
            sector: word(4),
            after_us: word(8),
        }
    }
}

struct Record {
    what: Option<What>,
    code: u8,
    device: (u8, u8),
    sectors: u32,
    sector: u32,
    after_us: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Request(Operation),
    Done,
}

struct DtbReader {
    records: Records,
    reading: Reading,
    rows: EventRows,
    time_us: u64,
    metadata: Metadata,
    failure: Option<TraceError>,
    at_end: bool,
}

impl DtbReader {
    /// Takes the next record; whether there was one.
    fn push(&mut self) -> Result<bool, TraceError> {
        let place = self.records.place();
        let Some(bytes) = self.records.next::<RECORD>()? else { return Ok(false) };
        self.records.count_row();
        let record = self.reading.record(&bytes);
        let Some(what) = record.what else {
            let [read, write, done] = self.reading.codes;
            let what = format!(
                "the operation is {}, but reads are {read}, writes {write} and ends {done}",
                record.code
            );
            return Err(self.records.wrong(place, what).with_hint(
                "give the codes with `--format-option read-code=…`, `write-code=…` and `done-code=…`",
            ));
        };
        // 2^32 microseconds a record and at most 2^64 / 12 records: it takes 2^60 bytes to overflow.
        self.time_us = self.time_us.saturating_add(u64::from(record.after_us));
        let (controller, target) = record.device;
        let key = u64::from(controller) << 8 | u64::from(target);
        let label = || format!("{controller}.{target}");
        let time_ns = self.time_us.saturating_mul(1_000);
        let mut event = BlockEvent {
            kind: Kind::Issue,
            op: None,
            fua: false,
            sector: u64::from(record.sector),
            sectors: record.sectors,
            error: 0,
            process: 0,
            command: ProcessName::default(),
        };
        match what {
            What::Request(_) if record.sectors == 0 => {
                let what = "the request has no sectors".to_owned();
                return Err(self
                    .records
                    .wrong(place, what)
                    .with_hint("if a length of 0 means 256 sectors, add `--format-option zero-length=256`"));
            }
            What::Request(op) => event.op = Some(op),
            What::Done => {
                event.kind = Kind::Complete;
                let any = self.reading.matches_oldest;
                match self.rows.outstanding(key, (!any).then_some((event.sector, event.sectors))) {
                    Some((op, sector, sectors)) => {
                        (event.op, event.sector, event.sectors) = (Some(op), sector, sectors);
                    }
                    // Of nothing that is outstanding: counted as such.
                    None => (event.op, event.sectors) = (Some(Operation::Read), event.sectors.max(1)),
                }
            }
        }
        self.rows
            .push(key, label, time_ns, event, &mut self.metadata)
            .map(|()| true)
            .map_err(|problem| self.records.invalid(place, problem))
    }
}

impl Iterator for DtbReader {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mut record) = self.rows.pop() {
                record.issue = None;
                return Some(Ok(record));
            }
            if self.at_end {
                return self.failure.take().map(Err);
            }
            let pushed = self.push();
            self.at_end = !matches!(pushed, Ok(true));
            self.failure = pushed.err();
            if self.at_end {
                self.rows.end();
            }
        }
    }
}

impl TraceReader for DtbReader {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        self.rows.notes(&mut notes);
        notes
    }
}

impl TraceFormat for Dtb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "DTB of BYU: reads, writes and their ends, 12 bytes each"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["dtb"]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[BYTE_ORDER, READ_CODE, WRITE_CODE, DONE_CODE, DONE_MATCH, ZERO_LENGTH]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let reading = Reading { is_big: false, codes: [0, 1, 2], matches_oldest: false, zero_is_256: false };
        let mut outstanding: BTreeMap<((u8, u8), u32, u32), u32> = BTreeMap::new();
        let (mut done, mut little, mut big) = (0, 0_u64, 0_u64);
        let records = head.bytes.chunks_exact(RECORD).filter_map(|bytes| bytes.first_chunk());
        for bytes in records.take(SNIFFED.0) {
            let record = reading.record(bytes);
            let place = (record.device, record.sector, record.sectors);
            match record.what {
                Some(What::Request(_)) if record.sectors > 0 => *outstanding.entry(place).or_default() += 1,
                Some(What::Done) => match outstanding.get_mut(&place).filter(|count| **count > 0) {
                    Some(count) => {
                        *count -= 1;
                        done += 1;
                    }
                    None => return Sniff::No,
                },
                _ => return Sniff::No,
            }
            little += u64::from(record.after_us);
            big += u64::from(record.after_us.swap_bytes());
        }
        match () {
            // In the other order its times would be shorter by far.
            () if little > big.saturating_mul(256) => Sniff::No,
            () if done >= SNIFFED.1 => Sniff::Yes,
            () => Sniff::NeedMore,
        }
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let metadata = Metadata { block_size: options.block_size_or_default(), ..Metadata::default() };
        Ok(Box::new(DtbReader {
            reading: Reading::of(options)?,
            rows: EventRows::of_arrivals(options)?,
            records: Records::of(source)?,
            time_us: 0,
            metadata,
            failure: None,
            at_end: false,
        }))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn holds(&self) -> Holds {
        Holds::responses(1_000)
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        Ok(Box::new(Writer {
            output: TextOutput::create(path)?,
            block_size: checked_block_size(metadata.block_size)?,
            devices: DevicesOut::new(&metadata.labels, named, |device| device.to_be_bytes().to_vec()),
            rows: 0,
            last_us: 0,
            ends: BinaryHeap::new(),
        }))
    }
}

/// The end of a request that is yet to be written: when, after what was written, and what.
type End = Reverse<(u64, u64, [u8; 8])>;

struct Writer {
    output: TextOutput,
    block_size: u64,
    devices: DevicesOut,
    rows: u64,
    last_us: u64,
    ends: BinaryHeap<End>,
}

impl Writer {
    fn emit(&mut self, at_us: u64, record: [u8; 8]) -> Result<(), TraceError> {
        let after = u32::try_from(at_us - self.last_us).map_err(|_| {
            TraceError::not_representable(NAME, "more than 71.6 minutes between two records")
                .at(Place::Row(self.rows))
                .in_file(self.output.path())
        })?;
        self.last_us = at_us;
        self.output.write(&record)?;
        self.output.write(&after.to_le_bytes())
    }

    /// Writes the ends of requests until `until_us`.
    fn emit_ends(&mut self, until_us: u64) -> Result<(), TraceError> {
        while let Some(Reverse((at_us, _, record))) = self.ends.peek().copied()
            && at_us <= until_us
        {
            self.ends.pop();
            self.emit(at_us, record)?;
        }
        Ok(())
    }
}

/// Controller and target of a label such as `1.2`.
fn named(label: &str) -> Option<Vec<u8>> {
    let (controller, target) = label.split_once('.')?;
    Some(vec![controller.parse().ok()?, target.parse().ok()?])
}

impl TraceWriter for Writer {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        let (place, path) = (Place::Row(self.rows), self.output.path());
        let cannot = |what: String| TraceError::not_representable(NAME, what).at(place).in_file(path);
        let code = match record.op {
            Operation::Read => 0,
            Operation::Write => 1,
            other => return Err(cannot(format!("a {}", other.name()))),
        };
        let in_sectors = |blocks: u64| {
            let bytes = u128::from(blocks) * u128::from(self.block_size);
            u64::try_from(bytes / u128::from(SECTOR)).ok().filter(|_| bytes % u128::from(SECTOR) == 0)
        };
        let sector = in_sectors(record.lbn).and_then(|sector| u32::try_from(sector).ok());
        let sector = sector.ok_or_else(|| cannot(format!("block {} in sectors of 32 bits", record.lbn)))?;
        let sectors =
            in_sectors(u64::from(record.blocks)).filter(|sectors| (1..=SECTORS_MAX).contains(sectors));
        let sectors =
            sectors.ok_or_else(|| cannot(format!("{} blocks in 1 to 255 sectors", record.blocks)))? as u8;
        let at_us = to_micros(record.arrival.as_ns());
        if at_us < self.last_us {
            return Err(cannot("a request that arrives before the one before it".to_owned()));
        }
        let address = match self.devices.name(record.device) {
            Ok(address) => [address[0], address[1]],
            Err(same) => return Err(TraceError::not_representable(NAME, same).at(place).in_file(path)),
        };
        let [controller, target] = address;
        let sector = sector.to_le_bytes();
        let head = |code: u8| {
            let [a, b, c, d] = sector;
            [code, controller, target, sectors, a, b, c, d]
        };
        let (issue, done) = (head(code), head(2));
        self.emit_ends(at_us)?;
        self.emit(at_us, issue)?;
        if let Some(completion) = record.completion {
            self.ends.push(Reverse((to_micros(completion.as_ns()), self.rows, done)));
        }
        Ok(())
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        self.devices.label(device, name);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        self.emit_ends(u64::MAX)?;
        self.output.finish()
    }
}
