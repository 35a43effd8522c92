//! The format of the Open CAS Telemetry Framework (`iotrace`): protobuf messages, each behind its length.
//!
//! ```text
//! varint length, then Event { 1: header { 1: sequence, 2: time_ns }, one of
//!     2: io { 1: lba, 2: sectors, 3: class, 4: device, 5: operation, 6: flush, 7: fua, 9: id }
//!     3: device { 1: id, 2: name, 3: size in sectors, 4: model }
//!     5: completion { 1: lba, 2: sectors, 3: error, 4: device, 5: id of the io } }
//! ```
//! There is one file per processor (`octf.trace.0` and so on), each in order of time; they are merged by
//! time. Addresses and lengths count sectors of 512 bytes. A completion belongs to the outstanding request
//! whose id it refers to; ids are reused. Files of the first versions have no ids: there a completion belongs
//! to the request of its address and length that was issued first.
//!
//! # Scope and limits
//! Numbers of operations changed once: 1 read, 2 write, 3 discard today, and 0, 1 and 2 in the first
//! versions. The option `operations` selects the numbering. Events about files are passed over. A request
//! whose id is reused before its completion is given up and counted. Not written.
//!
//! # References
//! Open-CAS/open-cas-telemetry-framework, source/octf/proto/trace.proto; Protocol Buffers, encoding.

use std::collections::{BTreeMap, VecDeque};

use seeklab_core::{Instant, Operation, Status, TraceRecord};

use crate::error::{Place, Problem, TraceError};
use crate::event::issue_order::IssueOrder;
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption};
use crate::parse::extent::checked_block_size;
use crate::parse::protobuf::{Fields, Value, varint};
use crate::parse::records::{Merge, Next, Records, blocks_of_bytes};
use crate::parse::skips::Skips;
use crate::source::parts::{PARTS, left_beside};
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// The format of the Open CAS Telemetry Framework.
pub(super) struct Octf;

const NAME: &str = "octf";
/// Bytes that a message may have; those of events have some dozens.
const MESSAGE_MAX: u64 = 64 << 10;

const OPERATIONS: FormatOption = FormatOption {
    name: "operations",
    allowed: Allowed::OneOf(&["from-1", "from-0"]),
    default: "from-1",
    meaning: "codes of read, write and discard: 1, 2 and 3 (octf today) or 0, 1 and 2 (its first versions)",
};

/// Content of an event that matters for rows.
enum Event {
    Io { device: u64, lba: u64, sectors: u64, operation: u64, flush: bool, fua: bool, id: u64 },
    Device { id: u64, name: String },
    Completion { device: u64, lba: u64, sectors: u64, failed: bool, id: u64 },
}

/// Key that identifies the request of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Id(u64),
    Extent { device: u64, lba: u64, sectors: u64 },
}

impl Key {
    const fn of(id: u64, device: u64, lba: u64, sectors: u64) -> Self {
        if id == 0 { Self::Extent { device, lba, sectors } } else { Self::Id(id) }
    }
}

/// The number in field `wanted` of a message, zero where it is absent, as protobuf has it.
fn number(fields: Fields<'_>, wanted: u64) -> Result<u64, &'static str> {
    let mut found = 0;
    for field in fields {
        if let (number, Value::Number(value)) = field?
            && number == wanted
        {
            found = value;
        }
    }
    Ok(found)
}

fn event(message: &[u8]) -> Result<(u64, Option<Event>), &'static str> {
    let (mut time_ns, mut event) = (None, None);
    for field in Fields::of(message) {
        let (number_of_field, Value::Bytes(bytes)) = field? else { continue };
        let get = |wanted| number(Fields::of(bytes), wanted);
        match number_of_field {
            1 => time_ns = Some(get(2)?),
            2 => {
                event = Some(Event::Io {
                    lba: get(1)?,
                    sectors: get(2)?,
                    device: get(4)?,
                    operation: get(5)?,
                    flush: get(6)? != 0,
                    fua: get(7)? != 0,
                    id: get(9)?,
                });
            }
            3 => {
                let mut name = String::new();
                for field in Fields::of(bytes) {
                    if let (2, Value::Bytes(bytes)) = field? {
                        name = String::from_utf8_lossy(bytes)
                            .chars()
                            .filter(|letter| !letter.is_control())
                            .collect();
                    }
                }
                event = Some(Event::Device { id: get(1)?, name });
            }
            5 => {
                event = Some(Event::Completion {
                    lba: get(1)?,
                    sectors: get(2)?,
                    failed: get(3)? != 0,
                    device: get(4)?,
                    id: get(5)?,
                });
            }
            _ => {}
        }
    }
    Ok((time_ns.ok_or("the event has no header")?, event))
}

struct Parser {
    buffer: Vec<u8>,
}

impl Next<(Place, Event)> for Parser {
    fn next(
        &mut self,
        records: &mut Records,
        _: &mut Skips,
    ) -> Result<Option<(u64, (Place, Event))>, TraceError> {
        loop {
            let place = records.place();
            let Some(length) = records.varint()? else { return Ok(None) };
            if length == 0 || length > MESSAGE_MAX {
                let what =
                    format!("the message says that it has {length} bytes; 1 to {MESSAGE_MAX} are allowed");
                return Err(records.wrong(place, what));
            }
            self.buffer.resize(length as usize, 0);
            let count = records.fill(&mut self.buffer)?;
            if count < self.buffer.len() {
                return Err(records.cut_short(length, count as u64));
            }
            records.advance(length);
            let (time_ns, event) =
                event(&self.buffer).map_err(|what| records.wrong(place, what.to_owned()))?;
            if let Some(event) = event {
                return Ok(Some((time_ns, (place, event))));
            }
        }
    }
}

struct OctfReader {
    merge: Merge<(Place, Event)>,
    parser: Parser,
    block_size: u64,
    first_operation: u64,
    rows: IssueOrder<Key>,
    /// Numbers of what is outstanding, in order of issue.
    open: BTreeMap<Key, VecDeque<u64>>,
    /// Labels by id, and devices by id.
    names: BTreeMap<u64, String>,
    devices: BTreeMap<u64, u16>,
    given_up: u64,
    unpaired: u64,
    skips: Skips,
    metadata: Metadata,
    beside: Vec<String>,
    failure: Option<TraceError>,
    at_end: bool,
}

/// Devices that descriptions may name.
const DEVICES_MAX: usize = 1 << 16;

impl OctfReader {
    fn device(&mut self, id: u64) -> Result<u16, Box<Problem>> {
        if let Some(device) = self.devices.get(&id) {
            return Ok(*device);
        }
        let device = u16::try_from(self.devices.len())
            .map_err(|_| Problem::new("device", id.to_string(), "more than 65536 devices are too many"))?;
        self.metadata.labels.push(self.names.get(&id).cloned().unwrap_or_else(|| id.to_string()));
        self.devices.insert(id, device);
        Ok(device)
    }

    fn push(&mut self, time_ns: u64, place: Place, event: Event) -> Result<(), Box<Problem>> {
        match event {
            Event::Device { id, name } => {
                if self.names.len() < DEVICES_MAX {
                    self.names.insert(id, name);
                }
            }
            Event::Io { device, lba, sectors, operation, flush, fua, id } => {
                let op = match operation.checked_sub(self.first_operation) {
                    _ if sectors == 0 && flush => Operation::Flush,
                    Some(0) => Operation::Read,
                    Some(1) => Operation::Write,
                    Some(2) => Operation::Discard,
                    _ => {
                        let problem = "it is none of read, write and discard";
                        return Err(Problem::new("operation", operation.to_string(), problem).hint(
                            "files of octf's first versions need `--format-option operations=from-0`",
                        ));
                    }
                };
                if sectors == 0 && op != Operation::Flush {
                    self.skips.add(
                        "request[|s] without length",
                        "[it addresses|they address] no block",
                        place,
                    );
                    return Ok(());
                }
                let bytes = sectors.saturating_mul(512);
                let offset = if op == Operation::Flush { 0 } else { u128::from(lba) * 512 };
                let (lbn, blocks) = blocks_of_bytes(op, offset, bytes, self.block_size)?;
                let device_index = self.device(device)?;
                let arrival = Instant::from_ns(time_ns);
                let record = TraceRecord {
                    device: device_index,
                    issue: Some(arrival),
                    fua: fua && op == Operation::Write,
                    ..TraceRecord::new(arrival, op, lbn, blocks)
                };
                let key = Key::of(id, device, lba, sectors);
                let number = self.rows.push(key, record);
                let open = self.open.entry(key).or_default();
                if matches!(key, Key::Id(_)) {
                    self.given_up += open.len() as u64;
                    open.clear();
                }
                open.push_back(number);
            }
            Event::Completion { device, lba, sectors, failed, id } => {
                let key = Key::of(id, device, lba, sectors);
                match self.open.get_mut(&key).and_then(VecDeque::pop_front) {
                    Some(number) => {
                        let status = if failed { Status::Aborted } else { Status::Ok };
                        self.rows.complete(number, Instant::from_ns(time_ns), status);
                    }
                    None => self.unpaired += 1,
                }
                if self.open.get(&key).is_some_and(VecDeque::is_empty) {
                    self.open.remove(&key);
                }
            }
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<TraceRecord> {
        let Self { rows, open, .. } = self;
        rows.pop(|key, record, number, must| {
            if record.completion.is_some() {
                return true;
            }
            let Some(numbers) = open.get_mut(key) else { return true };
            let place = numbers.binary_search(&number).ok();
            if let Some(place) = place.filter(|_| must) {
                numbers.remove(place);
            }
            let leaves = must || place.is_none();
            if numbers.is_empty() {
                open.remove(key);
            }
            leaves
        })
    }
}

impl Iterator for OctfReader {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.pop() {
                return Some(Ok(record));
            }
            if self.at_end {
                return self.failure.take().map(Err);
            }
            let pushed = match self.merge.pop(&mut self.parser) {
                Ok(Some((time_ns, (place, event)))) => self
                    .push(time_ns, place, event)
                    .map(|()| true)
                    .map_err(|problem| TraceError::invalid(problem).at(place)),
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            self.at_end = !matches!(pushed, Ok(true));
            self.failure = pushed.err();
            if self.at_end {
                self.rows.end();
            }
        }
    }
}

impl TraceReader for OctfReader {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        self.rows.notes(self.given_up, self.unpaired, &mut notes);
        self.skips.notes(&mut notes);
        notes.extend(left_beside(&self.beside));
        notes
    }
}

impl TraceFormat for Octf {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Open CAS telemetry (iotrace): protobuf, a file per processor"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["octf"]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[OPERATIONS, PARTS]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        let mut rest = head.bytes;
        for index in 0..16 {
            let Some((length, behind)) = varint(rest) else {
                return if head.whole && (index == 0 || !rest.is_empty()) { Sniff::No } else { more(index) };
            };
            if length == 0 || length > MESSAGE_MAX {
                return Sniff::No;
            }
            let Some((message, behind)) = behind.split_at_checked(length as usize) else {
                return if head.whole { Sniff::No } else { more(index) };
            };
            if !looks_like_event(message) {
                return Sniff::No;
            }
            rest = behind;
        }
        Sniff::Yes
    }

    fn reads_parts(&self) -> bool {
        true
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let siblings = PARTS.text(options)? == "siblings";
        let first_operation = if OPERATIONS.text(options)? == "from-0" { 0 } else { 1 };
        let block_size = checked_block_size(options.block_size_or_default())?;
        let beside = source.beside().to_vec();
        let mut parser = Parser { buffer: Vec::new() };
        let merge = Merge::new(source.into_parts(siblings)?, &mut parser)?;
        let metadata = Metadata { block_size: options.block_size_or_default(), ..Metadata::default() };
        Ok(Box::new(OctfReader {
            merge,
            parser,
            block_size,
            first_operation,
            rows: IssueOrder::new(options),
            open: BTreeMap::new(),
            names: BTreeMap::new(),
            devices: BTreeMap::new(),
            given_up: 0,
            unpaired: 0,
            skips: Skips::default(),
            metadata,
            beside,
            failure: None,
            at_end: false,
        }))
    }
}

/// Returns the judgement after `index` valid events.
const fn more(index: usize) -> Sniff {
    if index > 0 { Sniff::Yes } else { Sniff::NeedMore }
}

/// Returns true if a message is a header with a sequence number and a time, and one event.
fn looks_like_event(message: &[u8]) -> bool {
    let mut fields = Fields::of(message);
    let header = match fields.next() {
        Some(Ok((1, Value::Bytes(header)))) => header,
        _ => return false,
    };
    let stamped = Fields::of(header).collect::<Result<Vec<_>, _>>().is_ok_and(|fields| {
        matches!(&fields[..], [(1, Value::Number(_)), (2, Value::Number(_)), ..] | [(2, Value::Number(_))])
    });
    let one = matches!(fields.next(), Some(Ok((2..=31, Value::Bytes(_)))));
    stamped && one && fields.next().is_none() && event(message).is_ok()
}
