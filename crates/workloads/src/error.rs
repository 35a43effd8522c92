//! Errors in the description of a workload.

use std::fmt;

use serde::de;

use crate::near;

/// Kind of mistake that an [`Error`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not TOML, or not a line of the grammar.
    Syntax,
    /// A key that nothing reads.
    UnknownKey,
    /// A name (kind, preset, process, distribution) that does not exist.
    UnknownName,
    /// A key that is needed is absent.
    Missing,
    /// A value that cannot be read, or that is out of range.
    Invalid,
    /// The description is sound, but does not fit the device.
    DoesNotFit,
    /// Something that only the caller can supply (extents, a survey of the trace) is absent.
    NotSupplied,
}

/// A mistake in the description of a workload: the place, the problem, and a valid alternative.
///
/// `Display` writes the place and the problem. [`hint`](Self::hint) is printed separately, as the
/// binary does for every error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    at: String,
    problem: String,
    hint: Option<String>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, at: &str, problem: impl Into<String>) -> Self {
        Self { kind, at: at.to_owned(), problem: problem.into(), hint: None }
    }

    pub(crate) fn invalid(at: &str, problem: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, at, problem)
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// An unknown name among `known`, with near matches or all that is allowed.
    pub(crate) fn unknown<'a>(
        kind: ErrorKind,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::new(kind, "", format!("unknown {what} `{name}`")).with_hint(near::hint(name, known))
    }

    /// Prefixes the path of the mistake with `key`.
    pub(crate) fn under(mut self, key: &str) -> Self {
        self.at = match self.at.as_str() {
            "" => key.to_owned(),
            at if at.starts_with('[') => format!("{key}{at}"),
            at => format!("{key}.{at}"),
        };
        self
    }

    /// Returns the kind of the mistake.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Dotted path of the key, such as `arrivals.rate`; empty for the description as a whole.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// Returns a text to write instead, if one is known.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    /// Takes the hint that quantities append in parentheses out of the text again.
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        match message.strip_suffix(')').and_then(|text| text.rsplit_once(" (hint: ")) {
            Some((problem, hint)) => Self::invalid("", problem).with_hint(hint),
            None => Self::invalid("", message),
        }
    }

    fn invalid_type(unexpected: de::Unexpected, expected: &dyn de::Expected) -> Self {
        let expected = in_words(expected);
        Self::invalid("", format!("{unexpected} is not {expected}")).with_hint(format!("write {expected}"))
    }

    fn invalid_value(unexpected: de::Unexpected, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown(ErrorKind::UnknownKey, "key", field, expected.iter().copied())
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown(ErrorKind::UnknownName, "name", variant, expected.iter().copied())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(ErrorKind::Missing, field, "is missing")
    }
}

/// Describes the value that serde expects, without the names of types.
fn in_words(expected: &dyn de::Expected) -> String {
    match expected.to_string().as_str() {
        "u16" => "a whole number up to 65535".to_owned(),
        "u32" => "a whole number up to 4294967295".to_owned(),
        "u64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a string" => "text".to_owned(),
        other => other.to_owned(),
    }
}
