//! Common parts of the formats with binary records: reading with the byte offset of errors, and ordering of
//! rows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use seeklab_core::{Operation, TraceRecord};

use crate::error::{Place, Problem, TraceError};
use crate::metadata::Metadata;
use crate::parse::extent::unaligned;
use crate::parse::skips::Skips;
use crate::parse::text::Order;
use crate::reorder::Reorder;
use crate::row::check_extent;
use crate::source::Source;
use crate::source::compression::stream_error;
use crate::source::parts::Part;
use crate::trace_format::{Note, ReadOptions, TraceReader};

const BUFFER_SIZE: usize = 64 << 10;

/// Bytes of one file, read record by record.
pub(crate) struct Records {
    name: PathBuf,
    input: BufReader<Box<dyn Read + Send>>,
    offset: u64,
    rows: u64,
}

impl Records {
    pub(crate) fn new(part: Part) -> Self {
        let input = BufReader::with_capacity(BUFFER_SIZE, part.input);
        Self { name: part.name, input, offset: 0, rows: 0 }
    }

    /// The one file of `source`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn of(source: Source) -> Result<Self, TraceError> {
        let part = source.into_parts(false)?.into_iter().next().expect("every source has a part");
        Ok(Self::new(part))
    }

    /// Returns the start of the next record, in uncompressed bytes from the start of the file.
    pub(crate) const fn place(&self) -> Place {
        Place::Byte(self.offset)
    }

    /// The next `N` bytes; `None` where the file ends before the first of them.
    ///
    /// # Errors
    /// If the file ends within them, or cannot be read.
    #[inline]
    pub(crate) fn next<const N: usize>(&mut self) -> Result<Option<[u8; N]>, TraceError> {
        let mut record = [0; N];
        // The whole record is in the buffer nearly always.
        if let Some(bytes) = self.input.buffer().first_chunk::<N>() {
            record = *bytes;
            self.input.consume(N);
            self.offset += N as u64;
            return Ok(Some(record));
        }
        match self.fill(&mut record)? {
            0 => Ok(None),
            count if count < N => Err(self.cut_short(N as u64, count as u64)),
            count => {
                self.offset += count as u64;
                Ok(Some(record))
            }
        }
    }

    /// Fills `target`, without advancing the place; how many bytes there were.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn fill(&mut self, target: &mut [u8]) -> Result<usize, TraceError> {
        let mut count = 0;
        while count < target.len() {
            match self.input.read(&mut target[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(stream_error(error, self.rows).in_file(&self.name)),
            }
        }
        Ok(count)
    }

    /// Counts bytes that [`fill`](Self::fill) gave.
    pub(crate) fn advance(&mut self, count: u64) {
        self.offset += count;
    }

    /// Passes over `count` bytes; how many there were.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn skip(&mut self, count: u64) -> Result<u64, TraceError> {
        let skipped = io::copy(&mut (&mut self.input).take(count), &mut io::sink())
            .map_err(|error| stream_error(error, self.rows).in_file(&self.name))?;
        self.offset += skipped;
        Ok(skipped)
    }

    /// The next bytes up to and including `end`, fewer only where the file ends; at most `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn until(&mut self, end: u8, limit: u64) -> Result<Vec<u8>, TraceError> {
        let mut bytes = Vec::new();
        (&mut self.input)
            .take(limit)
            .read_until(end, &mut bytes)
            .map_err(|error| stream_error(error, 0).in_file(&self.name))?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }

    /// The next number of protobuf; `None` where the file ends before it.
    ///
    /// # Errors
    /// If the file ends within it, it does not fit in 64 bits, or the file cannot be read.
    pub(crate) fn varint(&mut self) -> Result<Option<u64>, TraceError> {
        let (place, mut bytes) = (self.place(), Vec::with_capacity(10));
        loop {
            match self.next::<1>()? {
                Some([byte]) => bytes.push(byte),
                None if bytes.is_empty() => return Ok(None),
                None => return Err(self.wrong(place, "the file ends within a length".to_owned())),
            }
            if let Some((number, _)) = crate::parse::protobuf::varint(&bytes) {
                return Ok(Some(number));
            }
            if bytes.len() >= 10 {
                return Err(self.wrong(place, "the length of a message does not fit in 64 bits".to_owned()));
            }
        }
    }

    /// Counts a row, for messages.
    #[inline]
    pub(crate) fn count_row(&mut self) {
        self.rows += 1;
    }

    /// The file ends `count` bytes into a record of `size` bytes.
    #[cold]
    pub(crate) fn cut_short(&self, size: u64, count: u64) -> TraceError {
        self.wrong(
            self.place(),
            format!("the file ends within a record: {count} of its {size} bytes are there"),
        )
        .with_hint("the file is cut short, or is not of this format")
    }

    /// Returns the error that the data at `place` does not have the form that the format requires.
    #[cold]
    pub(crate) fn wrong(&self, place: Place, what: String) -> TraceError {
        TraceError::malformed(what).at(place).in_file(&self.name)
    }

    /// A value at `place` is not allowed.
    #[cold]
    pub(crate) fn invalid(&self, place: Place, problem: Box<Problem>) -> TraceError {
        TraceError::invalid(problem).at(place).in_file(&self.name)
    }
}

/// Turns the records of one format into rows.
pub(crate) trait RecordParser: Send {
    /// The next row; `None` at the end.
    fn next(
        &mut self,
        records: &mut Records,
        metadata: &mut Metadata,
    ) -> Result<Option<TraceRecord>, TraceError>;

    /// Appends what was done to the rows so far that their user should know.
    fn notes(&self, notes: &mut Vec<Note>) {
        let _ = notes;
    }
}

/// Reads a format of binary records in one file.
pub(crate) struct RecordReader<P> {
    records: Records,
    parser: P,
    window: Option<Reorder>,
    metadata: Metadata,
    /// Error that ended the reading. It is reported after the rows before it.
    failure: Option<TraceError>,
    at_end: bool,
}

impl<P: RecordParser> RecordReader<P> {
    /// Reads `records` with `parser`, of which `order` is true.
    pub(crate) fn new(
        records: Records,
        parser: P,
        metadata: Metadata,
        order: Order,
        options: &ReadOptions,
    ) -> Self {
        let window = match order {
            Order::AsWritten => None,
            Order::Rough => Some(Reorder::new(options.sort_window, false)),
            Order::RoughAbsolute => Some(Reorder::new(options.sort_window, true)),
        };
        Self { records, parser, window, metadata, failure: None, at_end: false }
    }

    #[inline]
    fn next_in_file(&mut self) -> Option<TraceRecord> {
        if self.at_end {
            return None;
        }
        match self.parser.next(&mut self.records, &mut self.metadata) {
            Ok(Some(record)) => {
                self.records.count_row();
                return Some(record);
            }
            Ok(None) => {}
            Err(failure) => self.failure = Some(failure),
        }
        self.at_end = true;
        None
    }
}

impl<P: RecordParser> Iterator for RecordReader<P> {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = loop {
            if let Some(window) = &mut self.window
                && (window.is_full() || self.at_end)
            {
                break window.pop();
            }
            match (self.next_in_file(), &mut self.window) {
                (Some(record), Some(window)) => window.push(record),
                (record, None) => break record,
                (None, Some(_)) => {}
            }
        };
        record.map(Ok).or_else(|| self.failure.take().map(Err))
    }
}

impl<P: RecordParser> TraceReader for RecordReader<P> {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if let Some(window) = self.window.as_ref().filter(|window| window.clamped() > 0) {
            notes.push(Note::ArrivalsClamped { rows: window.clamped(), window: window.window() });
        }
        self.parser.notes(&mut notes);
        notes
    }
}

/// Several files of records, merged by time: of each file one record is held, so memory grows with their
/// number only.
pub(crate) struct Merge<T> {
    files: Vec<Records>,
    /// The next record of each file that has one: its time, its file, and itself.
    heads: BinaryHeap<Reverse<Ahead<T>>>,
    /// Error that ended a file. It is reported after the record before it.
    failure: Option<TraceError>,
    pub(crate) skips: Skips,
}

struct Ahead<T> {
    time_ns: u64,
    file: usize,
    what: T,
}

impl<T> PartialEq for Ahead<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Ahead<T> {}

impl<T> PartialOrd for Ahead<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ahead<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time_ns, self.file).cmp(&(other.time_ns, other.file))
    }
}

/// Reads the next record of a file: its time and itself; `None` at the end.
pub(crate) trait Next<T> {
    /// The next record of `records`.
    fn next(&mut self, records: &mut Records, skips: &mut Skips) -> Result<Option<(u64, T)>, TraceError>;
}

impl<T> Merge<T> {
    /// Begins to merge `parts`.
    ///
    /// # Errors
    /// If the first record of one is wrong.
    pub(crate) fn new(parts: Vec<Part>, next: &mut impl Next<T>) -> Result<Self, TraceError> {
        let files = parts.into_iter().map(Records::new).collect();
        let heads = BinaryHeap::new();
        let mut merge = Self { files, heads, failure: None, skips: Skips::default() };
        for file in 0..merge.files.len() {
            merge.refill(file, next)?;
        }
        Ok(merge)
    }

    fn refill(&mut self, file: usize, next: &mut impl Next<T>) -> Result<(), TraceError> {
        if let Some((time_ns, what)) = next.next(&mut self.files[file], &mut self.skips)? {
            self.heads.push(Reverse(Ahead { time_ns, file, what }));
        }
        Ok(())
    }

    /// The earliest record that is left.
    ///
    /// # Errors
    /// If the record behind the one that was given last is wrong.
    pub(crate) fn pop(&mut self, next: &mut impl Next<T>) -> Result<Option<(u64, T)>, TraceError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let Some(Reverse(first)) = self.heads.pop() else { return Ok(None) };
        self.failure = self.refill(first.file, next).err();
        Ok(Some((first.time_ns, first.what)))
    }
}

/// An unsigned number of the bytes `at..at + N` of a record, which has them.
#[inline]
pub(crate) fn chunk<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    *record[at..].first_chunk().expect("a record has the bytes of its fields")
}

/// Blocks of `block_size` bytes that a request of bytes covers: the offset must be at a block, the length
/// rounds up.
///
/// # Errors
/// If it is not at a block, has no block although `op` needs one, or too many.
#[inline]
pub(crate) fn blocks_of_bytes(
    op: Operation,
    offset: u128,
    length: u64,
    block_size: u64,
) -> Result<(u64, u32), Box<Problem>> {
    let shown = || offset.to_string();
    if !offset.is_multiple_of(u128::from(block_size)) {
        return Err(unaligned("offset in bytes", shown().as_bytes(), offset, block_size));
    }
    let lbn = u64::try_from(offset / u128::from(block_size))
        .map_err(|_| Problem::new("offset in bytes", shown(), "its block lies beyond 64 bits"))?;
    let blocks = u32::try_from(length.div_ceil(block_size)).map_err(|_| {
        let problem = format!("more than 4294967295 blocks of {block_size} bytes");
        Problem::new("length in bytes", length.to_string(), problem)
    })?;
    check_extent(op, lbn, blocks)?;
    Ok((lbn, blocks))
}

/// Nanoseconds of microseconds since an unknown time.
///
/// # Errors
/// If the clock of 64 bits ends before.
#[inline]
pub(crate) fn micros(field: &'static str, us: u64) -> Result<u64, Box<Problem>> {
    us.checked_mul(1_000)
        .ok_or_else(|| Problem::new(field, us.to_string(), "the clock ends after 584 years of microseconds"))
}
