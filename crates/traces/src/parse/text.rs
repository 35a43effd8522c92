//! Common parts of all text formats: one row per line, errors with their line, optional sorting.

use std::path::PathBuf;

use seeklab_core::TraceRecord;

use crate::error::{ErrorKind, Place, Problem, TraceError};
use crate::metadata::Metadata;
use crate::parse::header::Header;
use crate::parse::lines::Lines;
use crate::parse::skips::Skips;
use crate::reorder::Reorder;
use crate::source::compression::Compression;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceReader};

/// Lines that sniffing looks at.
const SNIFFED_LINES: usize = 16;

/// Fields that the longest row of a text format may have.
const FIELDS_MAX: usize = 64;

/// Content of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "almost every line is a row, and none is kept")]
pub(crate) enum Parsed {
    /// A row.
    Row(TraceRecord),
    /// Something that is no row: the header, or a line that the rows after it need.
    Nothing,
    /// A row that is passed over.
    Skipped {
        /// Name of such rows, in the plural.
        what: &'static str,
        /// Reason why they are no requests.
        why: &'static str,
    },
}

/// Turns the lines of one format into rows.
pub(crate) trait LineParser: Send {
    /// Header that may stand above the rows, of a format whose columns have one order.
    const HEADER: Header = Header::NONE;

    /// Parses `line`, which has no blanks at its ends and is not empty.
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>>;

    /// Appends what the user should know of the rows so far.
    fn notes(&self, _: &mut Vec<Note>) {}
}

/// Reads a text format.
pub(crate) struct TextReader<P> {
    path: PathBuf,
    compressed: bool,
    lines: Lines,
    parser: P,
    window: Option<Reorder>,
    metadata: Metadata,
    skips: Skips,
    rows: u64,
    /// Error that ended the reading. It is reported after the rows before it.
    failure: Option<TraceError>,
    at_end: bool,
}

/// Order of the arrivals in a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As the rows come.
    AsWritten,
    /// Roughly by arrival; sort them.
    Rough,
    /// Roughly by arrival, counted from some other time; sort them and count from the first.
    RoughAbsolute,
}

impl<P: LineParser> TextReader<P> {
    /// Reads the lines of `source` with `parser`, of which `order` is true.
    pub(crate) fn new(source: Source, parser: P, order: Order, options: &ReadOptions) -> Self {
        let window = match order {
            Order::AsWritten => None,
            Order::Rough => Some(Reorder::new(options.sort_window, false)),
            Order::RoughAbsolute => Some(Reorder::new(options.sort_window, true)),
        };
        Self {
            path: source.path().to_owned(),
            compressed: source.compression() != Compression::None,
            metadata: Metadata { block_size: options.block_size_or_default(), ..Metadata::default() },
            lines: Lines::new(source.into_stream()),
            parser,
            window,
            skips: Skips::default(),
            rows: 0,
            failure: None,
            at_end: false,
        }
    }

    /// Takes lines before the first row while `take` wants them.
    ///
    /// # Errors
    /// A failure of `take` or of the stream.
    pub(crate) fn preamble(
        &mut self,
        mut take: impl FnMut(&[u8], &mut P, &mut Metadata) -> Result<bool, Box<Problem>>,
    ) -> Result<(), TraceError> {
        loop {
            let failure = match self.lines.next() {
                Ok(Some(line)) => match take(line, &mut self.parser, &mut self.metadata) {
                    Ok(true) => continue,
                    Ok(false) => return Ok(()),
                    Err(problem) => TraceError::invalid(problem).at(Place::Line(self.lines.number())),
                },
                Ok(None) => {
                    TraceError::malformed("the header is missing").at(Place::Line(self.lines.number()))
                }
                Err(error) => error.into_trace_error(0).at(Place::Line(self.lines.number())),
            };
            return Err(failure.in_file(&self.path));
        }
    }

    #[inline]
    fn next_in_file(&mut self) -> Option<TraceRecord> {
        if self.at_end {
            return None;
        }
        let failure = loop {
            match self.lines.next() {
                Ok(Some(line)) => {
                    let line = line.trim_ascii();
                    if line.is_empty() {
                        continue;
                    }
                    match self.parser.parse(line, &mut self.metadata) {
                        Ok(Parsed::Row(record)) => {
                            self.rows += 1;
                            return Some(record);
                        }
                        Ok(Parsed::Nothing) => continue,
                        Ok(Parsed::Skipped { what, why }) => {
                            self.skips.add(what, why, Place::Line(self.lines.number()));
                        }
                        Err(_) if P::HEADER.matches(line) => {
                            if self.rows > 0 {
                                let place = Place::Line(self.lines.number());
                                self.skips.add(
                                    "further header[|s]",
                                    "the trace was joined from several traces",
                                    place,
                                );
                            }
                        }
                        Err(problem) => {
                            break Some(TraceError::invalid(problem).at(Place::Line(self.lines.number())));
                        }
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(self.stream_failure(error)),
            }
        };
        self.failure = failure.map(|failure| failure.in_file(&self.path));
        self.at_end = true;
        None
    }

    #[cold]
    fn stream_failure(&self, error: crate::parse::lines::LineError) -> TraceError {
        let failure = error.into_trace_error(self.rows);
        match failure.kind() {
            ErrorKind::LineTooLong { .. } => failure.at(Place::Line(self.lines.number())),
            _ if self.compressed => failure,
            _ => failure.at(Place::Line(self.lines.number() + 1)),
        }
    }
}

impl<P: LineParser> Iterator for TextReader<P> {
    type Item = Result<TraceRecord, TraceError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let record = if self.window.is_some() {
            loop {
                if let Some(window) = &mut self.window
                    && (window.is_full() || self.at_end)
                {
                    break window.pop();
                }
                if let (Some(record), Some(window)) = (self.next_in_file(), &mut self.window) {
                    window.push(record);
                }
            }
        } else {
            self.next_in_file()
        };
        record.map(Ok).or_else(|| self.failure.take().map(Err))
    }
}

impl<P: LineParser> TraceReader for TextReader<P> {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if let Some(window) = self.window.as_ref().filter(|window| window.clamped() > 0) {
            notes.push(Note::ArrivalsClamped { rows: window.clamped(), window: window.window() });
        }
        self.skips.notes(&mut notes);
        self.parser.notes(&mut notes);
        notes.extend(unended(&self.lines));
        notes
    }
}

/// Returns a remark if the last line has no end.
pub(crate) fn unended(lines: &Lines) -> Option<Note> {
    let note = || {
        let number = lines.number();
        Note::Remark(
            format!("line {number}, the last, has no end: the trace may have been cut within it").into(),
        )
    };
    lines.ended_early().then(note)
}

/// Judges whether the first lines of `head` are rows. `is_row` tests each line strictly.
pub(crate) fn sniff_lines(head: Head<'_>, mut is_row: impl FnMut(&[u8]) -> bool) -> Sniff {
    let mut found = 0;
    let mut lines = head.text().split_inclusive(|byte| *byte == b'\n');
    for line in lines.by_ref().take(SNIFFED_LINES) {
        if !line.ends_with(b"\n") && !head.whole {
            break;
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if !is_row(line) {
            return Sniff::No;
        }
        found += 1;
    }
    if found > 0 { Sniff::Yes } else { Sniff::NeedMore }
}

/// Judges whether the first lines of `head` are rows of `parser`, or its header, and `is_plausible` holds for all rows.
pub(crate) fn sniff_rows<P: LineParser>(
    head: Head<'_>,
    parser: &mut P,
    is_plausible: impl Fn(&TraceRecord) -> bool,
) -> Sniff {
    let mut metadata = Metadata::default();
    sniff_lines(head, |line| match parser.parse(line, &mut metadata) {
        Ok(Parsed::Row(record)) => is_plausible(&record),
        Ok(_) => true,
        Err(_) => P::HEADER.matches(line),
    })
}

/// The fields of a line, split at commas, blanks around them taken off.
pub(crate) fn comma_fields<'a, const N: usize>(
    line: &'a [u8],
    names: &[&'static str; N],
) -> Result<([&'a [u8]; N], usize), Box<Problem>> {
    take_fields(line, line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii), names)
}

/// The fields of a line, split at blanks.
pub(crate) fn blank_fields<'a, const N: usize>(
    line: &'a [u8],
    names: &[&'static str; N],
) -> Result<([&'a [u8]; N], usize), Box<Problem>> {
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    take_fields(line, line.split(blank).filter(|field| !field.is_empty()), names)
}

/// The first `N` fields and how many there are in all.
#[inline]
fn take_fields<'a, const N: usize>(
    line: &[u8],
    mut fields: impl Iterator<Item = &'a [u8]>,
    names: &[&'static str; N],
) -> Result<([&'a [u8]; N], usize), Box<Problem>> {
    let mut taken = [&b""[..]; N];
    for (index, slot) in taken.iter_mut().enumerate() {
        *slot = fields.next().ok_or_else(|| {
            let problem = format!("`{}` is missing; a row has {}", names[index], names.join(", "));
            Problem::new("line", line, problem)
        })?;
    }
    Ok((taken, N + fields.take(FIELDS_MAX).count()))
}

/// An error unless the line has exactly as many fields as there are names.
#[inline]
pub(crate) fn no_more_fields(line: &[u8], count: usize, names: &[&'static str]) -> Result<(), Box<Problem>> {
    if count > names.len() {
        let problem = format!("{count} fields are too many; a row has {}", names.join(", "));
        return Err(Problem::new("line", line, problem));
    }
    Ok(())
}

/// Judges whether the first line of `head` that is not empty is the header that `is_header` recognises.
pub(crate) fn sniff_header(head: Head<'_>, is_header: impl Fn(&[u8]) -> bool) -> Sniff {
    for line in head.text().split_inclusive(|byte| *byte == b'\n') {
        if !line.ends_with(b"\n") && !head.whole {
            break;
        }
        let line = line.trim_ascii();
        if !line.is_empty() {
            return if is_header(line) { Sniff::Yes } else { Sniff::No };
        }
    }
    Sniff::NeedMore
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The first field of a line that is split by blanks, and the rest behind the blanks; `None` if there
/// is no rest.
#[inline]
pub(crate) fn split_blank(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(|byte| is_blank(*byte))?;
    let rest = line[end..].trim_ascii_start();
    (!rest.is_empty()).then_some((&line[..end], rest))
}

/// The last `N` fields of a line that is split by blanks, and what stands before them without the
/// blanks between; `None` if there are fewer.
#[inline]
pub(crate) fn blanks_from_right<const N: usize>(line: &[u8]) -> Option<(&[u8], [&[u8]; N])> {
    let mut rest = line.trim_ascii_end();
    let mut fields = [&b""[..]; N];
    for field in fields.iter_mut().rev() {
        let start = rest.iter().rposition(|byte| is_blank(*byte)).map_or(0, |blank| blank + 1);
        *field = &rest[start..];
        if field.is_empty() {
            return None;
        }
        rest = rest[..start].trim_ascii_end();
    }
    Some((rest, fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_from_both_ends() {
        assert_eq!(split_blank(b"a  b c"), Some((&b"a"[..], &b"b c"[..])));
        assert_eq!(split_blank(b"a "), None);
        assert_eq!(
            blanks_from_right(b"my  own file read 1\t2"),
            Some((&b"my  own file"[..], [&b"read"[..], b"1", b"2"]))
        );
        assert_eq!(blanks_from_right::<2>(b"a b"), Some((&b""[..], [&b"a"[..], b"b"])));
        assert_eq!(blanks_from_right::<2>(b"a"), None);
        assert_eq!(blanks_from_right::<1>(b" "), None);
    }
}
