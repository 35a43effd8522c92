//! The canonical trace as CSV: a header, one row per request, empty fields for what is not known.
//!
//! ```text
//! # block_size: 512B
//! # seed: 42
//! arrival_ns,op,lbn,blocks,completion_ns
//! 0,read,3962268,12,6657000
//! ```
//! [`Column`] lists the columns; `arrival_ns`, `op`, `lbn` and `blocks` have to be there, the others
//! may be absent, in any order. What is derived (`response_ns`, `queue_ns`, `service_ns`) is written,
//! and on reading it is checked, or used where the times themselves are absent: see
//! [`Row`](crate::row::Row). Rows keep their order, for a simulation writes them as they complete.
//! Lines `# key: value` before the header are the [`Metadata`]; behind rows they add to it what was not known
//! before, such as how many requests were lost or what a device is called.
//!
//! # Scope and limits
//! Fields hold numbers and names only, so nothing is quoted and a quote is an error. A number may end
//! in `.0`, as pandas writes columns with empty fields. Unknown columns are an error. The columns of the
//! measurement points are written if the first row has any of them, and then for all rows.

use std::path::Path;

use seeklab_core::TraceRecord;
use seeklab_core::number_words::counted;

use crate::error::{Place, Problem, TraceError};
use crate::fault_names::FaultNames;
use crate::metadata::{Metadata, check_key, escape, is_key, unescape};
use crate::output::{TextOutput, TextSink};
use crate::parse::number::{NotNumber, leading_number, push_unsigned, unsigned};
use crate::parse::text::{LineParser, Order, Parsed, TextReader};
use crate::row::Row;
use crate::schema::{Column, Content};
use crate::source::{Head, Source};
use crate::trace_format::{ReadOptions, Sniff, TraceFormat, TraceReader, TraceWriter};

/// Canonical CSV.
pub(super) struct Canonical;

const NAME: &str = "csv";

#[derive(Default)]
struct Parser {
    /// Columns that the fields of a row hold.
    columns: Vec<Column>,
    row: Row,
}

impl Parser {
    /// Takes the header.
    fn header(&mut self, line: &[u8]) -> Result<(), Box<Problem>> {
        let mut seen = [false; Column::COUNT];
        for name in line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let text = std::str::from_utf8(name).unwrap_or_default();
            let Some(column) = Column::from_name(text) else {
                return Err(Problem::new("column", name, Column::advice(text))
                    .hint("drop or rename the column, or name another format"));
            };
            if std::mem::replace(&mut seen[column as usize], true) {
                return Err(Problem::new("column", name, "it occurs twice"));
            }
            self.columns.push(column);
        }
        match Column::REQUIRED.into_iter().find(|column| !seen[*column as usize]) {
            Some(missing) => {
                let problem = format!("the column `{}` is missing; every trace needs it", missing.name());
                Err(Problem::new("header", line, problem))
            }
            None => Ok(()),
        }
    }
}

/// Takes `# key: value`; other comments mean nothing.
fn comment(text: &[u8], metadata: &mut Metadata) -> Result<(), Box<Problem>> {
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(Problem::new("comment", text, "it is not UTF-8"));
    };
    match text.split_once(':') {
        Some((key, value)) if is_key(key.trim()) => {
            // Blanks belong to a text, but not to a number.
            let value = match key.trim() {
                "schema" | "block_size" | "seed" => value.trim(),
                _ => value.strip_prefix(' ').unwrap_or(value),
            };
            metadata.set(key.trim(), &unescape(value))
        }
        _ => Ok(()),
    }
}

/// The value of a field that is not empty, names and flags as their code.
#[inline]
fn value(column: Column, field: &[u8], faults: &FaultNames) -> Result<u64, Box<Problem>> {
    match column.content() {
        Content::Number(max) => match unsigned(field) {
            Ok(number) => Ok(number),
            Err(error) => number_of_pandas(field, error).ok_or_else(|| {
                Problem::new(column.name(), field, format!("a whole number from 0 to {max} is allowed"))
            }),
        },
        Content::Name(names) => std::str::from_utf8(field)
            .ok()
            .and_then(|name| column.code(name))
            .ok_or_else(|| Problem::new(column.name(), field, format!("{} is allowed", names.join(", ")))),
        Content::Flag => match field {
            b"false" | b"False" => Ok(0),
            b"true" | b"True" => Ok(1),
            _ => Err(Problem::new(column.name(), field, "true or false is allowed")),
        },
        Content::Faults => {
            let text = std::str::from_utf8(field)
                .map_err(|_| Problem::new(column.name(), field, "it is not UTF-8"))?;
            faults.faults(text).map(|set| u64::from(set.bits()))
        }
    }
}

/// A whole number that ends in `.0`.
#[cold]
fn number_of_pandas(field: &[u8], error: NotNumber) -> Option<u64> {
    let whole = field.strip_suffix(b".0").filter(|_| error == NotNumber::Malformed)?;
    unsigned(whole).ok()
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        if let Some(text) = line.strip_prefix(b"#") {
            return late_comment(text, metadata).map(|()| Parsed::Nothing);
        }
        self.row.clear();
        let mut rest = Some(line);
        for column in &self.columns {
            let text = rest.ok_or_else(|| wrong_count(line, self.columns.len()))?;
            // Most fields are plain numbers: their end is found while they are read.
            let (digits, number) = leading_number(text);
            let ends = digits == text.len() || text[digits] == b',';
            let length = match column.content() {
                Content::Number(_) if ends && digits > 0 => {
                    self.row.set(*column, number);
                    digits
                }
                _ => {
                    let length = text.iter().position(|byte| *byte == b',').unwrap_or(text.len());
                    let field = text[..length].trim_ascii();
                    if !field.is_empty() {
                        self.row.set(*column, value(*column, field, &metadata.faults)?);
                    }
                    length
                }
            };
            rest = text.get(length + 1..);
        }
        if rest.is_some() {
            return Err(wrong_count(line, self.columns.len()));
        }
        self.row.to_record().map(Parsed::Row)
    }
}

/// Takes a comment behind rows, which cannot change what they mean.
#[cold]
fn late_comment(text: &[u8], metadata: &mut Metadata) -> Result<(), Box<Problem>> {
    let before = metadata.block_size;
    comment(text, metadata)?;
    if metadata.block_size != before {
        return Err(Problem::new("block_size", text, "it must stand before the rows"));
    }
    Ok(())
}

#[cold]
fn wrong_count(line: &[u8], expect: usize) -> Box<Problem> {
    let count = line.split(|byte| *byte == b',').count();
    Problem::new("row", line, format!("it has {} where the header has {expect}", counted(count, "field")))
}

impl TraceFormat for Canonical {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "seeklab's canonical trace as CSV with a header"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["csv"]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        for line in head.text().split_inclusive(|byte| *byte == b'\n') {
            let complete = head.whole || line.ends_with(b"\n");
            let line = line.trim_ascii();
            if line.starts_with(b"#") || line.is_empty() {
                continue;
            }
            if !complete && line.len() < crate::parse::lines::LINE_MAX {
                return Sniff::NeedMore;
            }
            let has = |column: &Column| {
                line.split(|byte| *byte == b',').any(|field| field.trim_ascii() == column.name().as_bytes())
            };
            return if Column::REQUIRED.iter().all(has) { Sniff::Yes } else { Sniff::No };
        }
        Sniff::NeedMore
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let mut reader = TextReader::new(source, Parser::default(), Order::AsWritten, options);
        let mut stated = false;
        reader.preamble(|line, parser, metadata| {
            if let Some(text) = line.strip_prefix(b"#") {
                let requested = metadata.block_size;
                comment(text, metadata)?;
                stated |= text.trim_ascii_start().starts_with(b"block_size");
                if stated && options.block_size.is_some() && metadata.block_size != requested {
                    let problem = format!("it disagrees with the requested {requested}");
                    return Err(Problem::new("block_size", metadata.block_size.to_string(), problem));
                }
                return Ok(true);
            }
            if line.trim_ascii().is_empty() {
                return Ok(true);
            }
            parser.header(line)?;
            Ok(false)
        })?;
        Ok(Box::new(reader))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        Ok(Box::new(Writer::begin(TextOutput::create_for(path, metadata)?, metadata)?))
    }
}

/// Writes the lines of a canonical CSV.
pub(crate) struct Writer<Output> {
    pub(crate) output: Output,
    faults: FaultNames,
    line: Vec<u8>,
    row: Row,
    /// Columns of the header. Empty before the first row.
    columns: &'static [Column],
    rows: u64,
}

impl<Output: TextSink> Writer<Output> {
    /// Writes the metadata.
    pub(crate) fn begin(mut output: Output, metadata: &Metadata) -> Result<Self, TraceError> {
        let pairs = metadata.to_pairs();
        let pairs = pairs.map_err(|problem| TraceError::invalid(problem).in_file(output.path()))?;
        let mut text = String::new();
        for (key, value) in pairs {
            text += &format!("# {key}: {}\n", escape(&value));
        }
        output.write(text.as_bytes())?;
        let faults = metadata.faults.clone();
        Ok(Self { output, faults, line: Vec::new(), row: Row::default(), columns: &[], rows: 0 })
    }

    /// Writes the header of rows with or without measurement points.
    pub(crate) fn begin_rows(&mut self, with_points: bool) -> Result<(), TraceError> {
        self.write_header(Column::written(with_points))
    }

    /// The error of the last row.
    #[cold]
    fn invalid(&self, problem: Box<Problem>) -> TraceError {
        TraceError::invalid(problem).at(Place::Row(self.rows)).in_file(self.output.path())
    }

    /// Writes the header.
    fn write_header(&mut self, columns: &'static [Column]) -> Result<(), TraceError> {
        self.columns = columns;
        let names: Vec<_> = columns.iter().map(|column| column.name()).collect();
        self.output.write((names.join(",") + "\n").as_bytes())
    }
}

impl<Output: TextSink> TraceWriter for Writer<Output> {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows += 1;
        let columns = self.row.set_record(record).and_then(|()| self.row.columns_after(self.columns));
        let columns = columns.map_err(|problem| self.invalid(problem))?;
        if self.columns.is_empty() {
            self.write_header(columns)?;
        }
        self.line.clear();
        for column in self.columns.iter().copied() {
            if let Some(value) = self.row.get(column) {
                match column.content() {
                    Content::Number(_) => push_unsigned(&mut self.line, value),
                    Content::Name(names) => self.line.extend_from_slice(names[value as usize].as_bytes()),
                    Content::Faults => {
                        let text = self.faults.text(record.faults);
                        let text = text.map_err(|problem| self.invalid(problem))?;
                        self.line.extend_from_slice(text.as_bytes());
                    }
                    Content::Flag => {
                        self.line.extend_from_slice(if value == 1 { b"true" } else { b"false" });
                    }
                }
            }
            self.line.push(b',');
        }
        self.line.pop();
        self.line.push(b'\n');
        self.output.write(&self.line)
    }

    fn annotate(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        check_key(key).map_err(|problem| TraceError::invalid(problem).in_file(self.output.path()))?;
        if self.columns.is_empty() {
            self.begin_rows(false)?;
        }
        self.output.write(format!("# {key}: {}\n", escape(value)).as_bytes())
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        self.output.write(format!("# label.{device}: {}\n", escape(name)).as_bytes())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        if self.columns.is_empty() {
            self.begin_rows(false)?;
        }
        self.output.finish()
    }
}
