//! Finds the format of a trace: by its name where the user gives one, else by its first bytes on
//! reading and by the suffix of the file on writing.
//!
//! Every format judges the first lines strictly. One that recognises them is taken; none or several
//! is an error that lists the formats, never a silent choice.

use std::io::Cursor;
use std::path::Path;

use crate::error::{ErrorKind, TraceError};
use crate::metadata::Metadata;
use crate::options::apply;
use crate::output::losses::{Counting, Holds};
use crate::source::compression::Compression;
use crate::source::{Head, Source};
use crate::trace_format::{OpenTrace, ReadOptions, Sniff, TraceFormat, TraceWriter};
use seeklab_core::names::near;

/// Formats to choose from.
pub type Formats<'a> = &'a [&'static dyn TraceFormat];

/// Bytes that are looked at, at first and at most.
const HEAD_SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Opens the trace at `path` with the format of that name, else with the one that recognises it.
///
/// # Errors
/// If the file cannot be read, the name is not known, or not exactly one format recognises it.
pub fn open_with(
    formats: Formats<'_>,
    path: &Path,
    format: Option<&str>,
    options: &ReadOptions,
) -> Result<OpenTrace, TraceError> {
    // An unknown name is reported before a file that is not there.
    let named = format.map(|name| by_name(formats, name)).transpose()?;
    open_source(formats, Source::open(path)?, named.map(TraceFormat::name), options)
}

/// Opens the trace in `source`; else as [`open_with`].
///
/// # Errors
/// As [`open_with`].
pub fn open_source(
    formats: Formats<'_>,
    mut source: Source,
    format: Option<&str>,
    options: &ReadOptions,
) -> Result<OpenTrace, TraceError> {
    let (format, guess) = match format {
        Some(name) => (by_name(formats, name)?, None),
        None => {
            let guessed = guess(formats, &mut source);
            let format = guessed.map_err(|error| source.integrity().explain(error, 0))?;
            (format, Some(format!("`{}`, recognised by its first bytes", format.name())))
        }
    };
    let path = source.path().to_owned();
    let integrity = source.integrity();
    let open = || {
        let count = source.part_count();
        if count > 1 && !format.reads_parts() {
            let what =
                format!("it has {count} parts, and a trace of the format `{}` is one file", format.name());
            return Err(TraceError::malformed(what).with_hint("name one of the files"));
        }
        let applied = apply(format, options)?;
        let position = source.position();
        let opened = format.open(source, options);
        let reader = opened.map_err(|error| integrity.explain(error, 0))?;
        Ok(OpenTrace::new(reader, format, guess, applied, position, integrity.clone()))
    };
    open().map_err(|error: TraceError| match error.path() {
        Some(_) => error,
        None => error.in_file(&path),
    })
}

/// Begins to write the trace at `path` in the named format, or in the format of the file's suffix.
///
/// # Errors
/// If neither determines a format, the format cannot be written, or the file cannot be created.
pub fn create_with(
    formats: Formats<'_>,
    path: &Path,
    format: Option<&str>,
    metadata: &Metadata,
) -> Result<Box<dyn TraceWriter>, TraceError> {
    let format = match format {
        Some(name) => by_name(formats, name)?,
        None => by_suffix(formats, path)?,
    };
    let writer = format.create(path, metadata).map_err(|error| match error.path() {
        Some(_) => error,
        None => error.in_file(path),
    })?;
    match format.holds() {
        Holds::ALL => Ok(writer),
        holds => Ok(Box::new(Counting::new(writer, format.name(), path, holds))),
    }
}

/// The format of that name.
///
/// # Errors
/// If there is none; the hint names near matches.
pub fn by_name(formats: Formats<'_>, name: &str) -> Result<&'static dyn TraceFormat, TraceError> {
    formats.iter().find(|format| format.name() == name).copied().ok_or_else(|| {
        let near = near(name, formats.iter().map(|format| format.name()));
        let error = no_such_format(formats, name.to_owned());
        match near.first() {
            Some(near) => error.with_hint(format!("did you mean `{near}`?")),
            None => error,
        }
    })
}

/// The format that the suffix of `path` means; the longest suffix counts.
///
/// # Errors
/// If it means none.
pub fn by_suffix(formats: Formats<'_>, path: &Path) -> Result<&'static dyn TraceFormat, TraceError> {
    let (_, name) = Compression::of_path(path);
    let matched = |suffix: &str| name.strip_suffix(suffix).is_some_and(|stem| stem.ends_with('.'));
    formats
        .iter()
        .filter_map(|format| {
            let longest = format.suffixes().iter().filter(|suffix| matched(suffix)).map(|s| s.len()).max()?;
            Some((longest, *format))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, format)| format)
        .ok_or_else(|| {
            no_such_format(formats, name.clone())
                .with_hint("end the file name in `.csv` or `.parquet`, or name the format")
        })
}

fn no_such_format(formats: Formats<'_>, name: String) -> TraceError {
    let formats = formats.iter().map(|format| format.name()).collect();
    TraceError::new(ErrorKind::NoSuchFormat { name, formats })
}

/// The one format that recognises `source`.
///
/// # Errors
/// If there is not exactly one.
pub fn guess(formats: Formats<'_>, source: &mut Source) -> Result<&'static dyn TraceFormat, TraceError> {
    let mut recognised = Vec::new();
    for size in HEAD_SIZES {
        let head = source.head(size);
        let verdicts: Vec<_> = formats.iter().map(|format| (*format, format.sniff(head))).collect();
        let undecided = verdicts.iter().any(|(_, sniff)| *sniff == Sniff::NeedMore);
        let whole = head.whole;
        recognised = verdicts.into_iter().filter(|(_, sniff)| *sniff == Sniff::Yes).map(|(f, _)| f).collect();
        if whole || !undecided {
            break;
        }
    }
    let names = |formats: &[&'static dyn TraceFormat]| formats.iter().map(|f| f.name()).collect::<Vec<_>>();
    match recognised[..] {
        [format] => Ok(format),
        [] => {
            let mut error = TraceError::new(ErrorKind::FormatNotRecognised { formats: names(formats) });
            if let Some((name, problem)) = refused_by_name(formats, source) {
                error = error.with_hint(format!("as `{name}`, the format of that file name: {problem}"));
            } else if let Some(reason) = suspicion(source.head(0)) {
                error = error.with_hint(reason);
            }
            Err(error.in_file(source.path()))
        }
        _ => {
            let formats = names(&recognised);
            Err(TraceError::new(ErrorKind::FormatAmbiguous { formats }).in_file(source.path()))
        }
    }
}

/// Returns the format that the file's name implies, if that format accepts the first line, and the error that
/// the format finds in a later line.
fn refused_by_name(formats: Formats<'_>, source: &mut Source) -> Option<(&'static str, TraceError)> {
    let path = source.path().to_owned();
    let format = by_suffix(formats, &path).ok()?;
    let head = source.head(0);
    let line = head.bytes.iter().position(|byte| *byte == b'\n')? + 1;
    if format.sniff(Head { bytes: &head.bytes[..line], whole: true }) == Sniff::No {
        return None;
    }
    // A line that is cut is none of which something is wrong.
    let end =
        if head.whole { head.bytes.len() } else { head.bytes.iter().rposition(|byte| *byte == b'\n')? + 1 };
    let bytes = Cursor::new(head.bytes[..end].to_vec());
    let lines = Source::from_stream(&path.to_string_lossy(), Box::new(bytes)).ok()?;
    let problem = match format.open(lines, &ReadOptions::default()) {
        Ok(mut rows) => rows.find_map(Result::err)?,
        Err(problem) => problem,
    };
    Some((format.name(), problem))
}

/// Returns a guess of what an unrecognised trace contains.
fn suspicion(head: Head<'_>) -> Option<&'static str> {
    let line = head.text().split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.starts_with(b"seeklab system part") {
        return Some(
            "it is a system-level recording that was killed: `seeklab trace convert` makes a trace of it",
        );
    }
    if line.contains(&0) {
        return Some("it is not text; name the format");
    }
    let numbers = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let is_number = |field: &[u8]| field.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let (mut count, mut all) = (0, true);
    for field in numbers {
        count += 1;
        all &= is_number(field);
    }
    (count == 5 && all).then_some(
        "five numbers in a row may be DiskSim ASCII (ms, blocks), SSDsim (ns, sectors) or a cut of MSR (ms, bytes); name the format",
    )
}
