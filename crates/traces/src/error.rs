//! Errors of a trace, with their place.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use seeklab_core::number_words::counted;
use seeklab_files::FileError;

/// A trace that could not be read or written.
///
/// `Display` shows the file, the place, the value found and the allowed values. Advice is separate in
/// [`hint`](Self::hint), and the underlying error in [`source`](Error::source).
#[derive(Debug)]
pub struct TraceError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    path: Option<PathBuf>,
    place: Option<Place>,
    hint: Option<Cow<'static, str>>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Place of an error in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A line of a text, counted from 1.
    Line(u64),
    /// A row, counted from 1.
    Row(u64),
    /// A byte of the plain (decompressed) data, counted from 0.
    Byte(u64),
}

/// Kind of error in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused the action. The source holds its error.
    Io {
        /// Action that failed, such as `cannot open the file`.
        action: &'static str,
    },
    /// There is not one byte in the file.
    Empty,
    /// A field or a row does not have the form that its format requires.
    Invalid(Box<Problem>),
    /// A line is longer than any row can be.
    LineTooLong {
        /// Bytes that a line may have.
        limit_bytes: usize,
    },
    /// A compressed file stops before its end.
    CompressedDataEndsEarly {
        /// Rows that could be read.
        rows: u64,
    },
    /// A compressed file is damaged.
    CompressedDataDamaged {
        /// Rows that could be read.
        rows: u64,
    },
    /// No format recognises the file.
    FormatNotRecognised {
        /// Names of the formats that were tried.
        formats: Vec<&'static str>,
    },
    /// Several formats recognise the file.
    FormatAmbiguous {
        /// Names of the formats that recognise it.
        formats: Vec<&'static str>,
    },
    /// There is no format of that name or suffix.
    NoSuchFormat {
        /// Name as written, or the file name with an unknown suffix.
        name: String,
        /// Names of the formats there are.
        formats: Vec<&'static str>,
    },
    /// The format cannot be written.
    NotWritable {
        /// Name of the format.
        format: &'static str,
    },
    /// The format cannot represent a value of the record.
    NotRepresentable {
        /// Name of the format.
        format: &'static str,
        /// Value that the format cannot represent.
        what: Cow<'static, str>,
    },
    /// A structured file is damaged or not what its format demands.
    Malformed {
        /// Description of the damage.
        what: Cow<'static, str>,
    },
}

/// A value that is not allowed: field, value found, allowed values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the field or column.
    pub field: Cow<'static, str>,
    /// The value found, shortened.
    pub value: String,
    /// Description of what is wrong with the value, or of the allowed values.
    pub problem: Cow<'static, str>,
    /// Advice on how to solve the problem.
    pub hint: Option<Cow<'static, str>>,
}

/// Characters of a value that a message shows.
const SHOWN_MAX: usize = 40;

impl Problem {
    /// `field` has `value`, but `problem`.
    #[cold]
    pub fn new(
        field: impl Into<Cow<'static, str>>,
        value: impl AsRef<[u8]>,
        problem: impl Into<Cow<'static, str>>,
    ) -> Box<Self> {
        let (field, problem) = (field.into(), problem.into());
        Box::new(Self { field, value: shorten(value.as_ref()), problem, hint: None })
    }

    /// The same with advice.
    #[must_use]
    pub fn hint(mut self: Box<Self>, hint: impl Into<Cow<'static, str>>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} is `{}`: {}", self.field, self.value, self.problem)
    }
}

/// `value` as text that fits a message: control characters escaped, long values cut.
pub(crate) fn shorten(value: &[u8]) -> String {
    let cut = value.len() > SHOWN_MAX;
    let shown = if cut { &value[..SHOWN_MAX] } else { value };
    let text: String = String::from_utf8_lossy(shown).chars().flat_map(char::escape_debug).collect();
    if cut { text + "…" } else { text }
}

impl From<FileError> for TraceError {
    fn from(error: FileError) -> Self {
        let path = error.path().to_owned();
        Self::io("cannot write the file", error.into()).in_file(&path)
    }
}

impl TraceError {
    /// An error without a place.
    #[cold]
    pub fn new(kind: ErrorKind) -> Self {
        let hint = match &kind {
            ErrorKind::Invalid(problem) => problem.hint.clone(),
            ErrorKind::FormatNotRecognised { .. } | ErrorKind::FormatAmbiguous { .. } => {
                Some("name the format".into())
            }
            ErrorKind::CompressedDataEndsEarly { .. } => {
                Some("copy or download the file again; it was cut short".into())
            }
            _ => None,
        };
        Self(Box::new(Inner { kind, path: None, place: None, hint, source: None }))
    }

    /// The operating system refused `action`, such as `cannot open the file`.
    #[cold]
    pub fn io(action: &'static str, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Io { action }).with_source(source)
    }

    /// The error of a value that is not allowed.
    #[cold]
    pub fn invalid(problem: Box<Problem>) -> Self {
        Self::new(ErrorKind::Invalid(problem))
    }

    /// A structured file is not what its format demands.
    #[cold]
    pub fn malformed(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Malformed { what: what.into() })
    }

    /// Returns the error that `format` cannot represent `what`, a value of the record.
    #[cold]
    pub fn not_representable(format: &'static str, what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::NotRepresentable { format, what: what.into() })
    }

    /// The same, in the file at `path`.
    #[must_use]
    pub fn in_file(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_owned());
        self
    }

    /// The same, at `place`.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// The same, with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same, caused by `source`.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind of error, to match on.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The file, where there is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the place in the file, if known.
    pub fn place(&self) -> Option<Place> {
        self.0.place
    }

    /// Returns advice on how to solve the problem.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (&self.0.path, self.0.place) {
            (Some(path), Some(place)) => write!(f, "{}, {place}: {}", path.display(), self.0.kind),
            (Some(path), None) => write!(f, "{}: {}", path.display(), self.0.kind),
            (None, Some(place)) => write!(f, "{place}: {}", self.0.kind),
            (None, None) => self.0.kind.fmt(f),
        }
    }
}

impl Error for TraceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Io { action } => f.write_str(action),
            Self::Empty => f.write_str("the file is empty, a trace has at least one row or a header"),
            Self::Invalid(problem) => problem.fmt(f),
            Self::LineTooLong { limit_bytes } => {
                write!(f, "the line is longer than {limit_bytes} bytes; this is not a trace in text")
            }
            Self::CompressedDataEndsEarly { rows } => {
                write!(f, "the compressed data ends early, after {} could be read", counted(*rows, "row"))
            }
            Self::CompressedDataDamaged { rows } => {
                write!(f, "the compressed data is damaged, after {} could be read", counted(*rows, "row"))
            }
            Self::FormatNotRecognised { formats } => {
                write!(f, "no trace format recognises the file; tried {}", listed(formats))
            }
            Self::FormatAmbiguous { formats } => {
                write!(f, "several trace formats recognise the file: {}", listed(formats))
            }
            Self::NoSuchFormat { name, formats } => {
                write!(f, "`{name}` names no trace format; there are {}", listed(formats))
            }
            Self::NotWritable { format } => write!(f, "the format `{format}` cannot be written"),
            Self::NotRepresentable { format, what } => {
                write!(f, "the format `{format}` cannot hold {what}")
            }
            Self::Malformed { what } => f.write_str(what),
        }
    }
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_file_line_value_and_allowed_values() {
        let error = TraceError::invalid(Problem::new("blocks", b"-3", "a number from 1 to 9 is allowed"))
            .in_file(Path::new("a.spc"))
            .at(Place::Line(7));
        assert_eq!(error.to_string(), "a.spc, line 7: blocks is `-3`: a number from 1 to 9 is allowed");
    }

    #[test]
    fn long_and_binary_values_are_shown_safely() {
        let long = shorten(&[b'x'; 500]);
        assert_eq!(long.chars().count(), SHOWN_MAX + 1);
        assert_eq!(shorten(b"a\0\x1b["), "a\\0\\u{1b}[");
        assert_eq!(shorten(&[0xff, b'"']), "\u{fffd}\\\"");
    }

    #[test]
    fn display_omits_the_source_error() {
        let error = TraceError::io("cannot open the file", std::io::Error::other("no such luck"));
        assert_eq!(error.to_string(), "cannot open the file");
        assert_eq!(error.source().map(ToString::to_string), Some("no such luck".to_owned()));
    }
}
