//! The error of every description.

use std::fmt;

use super::position::line_of;
use crate::names::near_matches;

/// Kind of mistake that a [`DescriptionError`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mistake {
    /// The text is not TOML, or not a line of the grammar.
    Syntax,
    /// A key that nothing reads.
    UnknownKey,
    /// A name (kind, preset, process, distribution) that does not exist.
    UnknownName,
    /// A required key is absent.
    Missing,
    /// A value that cannot be read, or that is out of range.
    Invalid,
    /// The description is sound, but does not fit the device.
    DoesNotFit,
    /// Data that only the caller can supply (extents, a survey of the trace) is absent.
    NotSupplied,
}

/// A mistake in the description of a device, a workload or an experiment: the place, the value found, and what is
/// allowed.
///
/// `Display` writes `FILE, line N: KEY: PROBLEM`. The hint is printed separately, as the binary does for every error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptionError(Box<Parts>);

/// The parts of a mistake, behind a pointer: every `Result` of a constructor would carry their size.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    mistake: Mistake,
    label: String,
    line: Option<usize>,
    path: String,
    problem: String,
    hint: Option<String>,
}

impl DescriptionError {
    /// A mistake at the key of that path, which is empty for the description as a whole.
    pub fn new(mistake: Mistake, path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            mistake,
            label: String::new(),
            line: None,
            path: path.into(),
            problem: problem.into(),
            hint: None,
        }))
    }

    /// A value that cannot be read, or a combination of values that cannot be.
    pub fn invalid(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::new(Mistake::Invalid, path, problem)
    }

    /// A value that is not allowed, and those that are.
    pub fn refused(path: impl Into<String>, problem: impl Into<String>, allowed: impl fmt::Display) -> Self {
        Self::invalid(path, problem).hint(format!("allowed: {allowed}"))
    }

    /// A name that is not among `known`, with near matches and all that are allowed. `what` is `key`, `kind` and so on.
    pub fn unknown<'a>(
        mistake: Mistake,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::unknown_where(mistake, what, name, "", known)
    }

    /// As [`unknown`](Self::unknown), with words on the table behind the name.
    pub(super) fn unknown_where<'a>(
        mistake: Mistake,
        what: &str,
        name: &str,
        place: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let near = near_matches(name, known.iter().copied());
        Self::new(mistake, "", format!("unknown {what} `{name}`{place}{near}"))
            .hint(format!("allowed: {}", known.join(", ")))
    }

    /// The same mistake with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same mistake, its path beginning with `key`.
    #[must_use]
    pub fn under(mut self, key: &str) -> Self {
        self.0.path = join(key, &self.0.path);
        self
    }

    /// The same mistake, found through the key at `path`; the problem then names the key that is at fault.
    #[must_use]
    pub fn through(mut self, path: &str) -> Self {
        let own = std::mem::replace(&mut self.0.path, path.to_owned());
        if !own.is_empty() {
            self.0.problem = format!("{own}: {}", self.0.problem);
        }
        self
    }

    /// The same mistake in the file, or at the option, `label`.
    #[must_use]
    pub fn within(mut self, label: &str) -> Self {
        let own = std::mem::replace(&mut self.0.label, label.to_owned());
        if !own.is_empty() {
            self.0.label = format!("{label}: {own}");
        }
        self
    }

    /// The same mistake with the line of its key in `text`, the file's TOML.
    #[must_use]
    pub fn located(mut self, text: &str) -> Self {
        self.0.line = self.0.line.or_else(|| line_of(text, &self.0.path));
        self
    }

    /// The same mistake on that line.
    pub(super) fn on_line(mut self, line: usize) -> Self {
        self.0.line = Some(line);
        self
    }

    /// The kind of the mistake.
    pub const fn mistake(&self) -> Mistake {
        self.0.mistake
    }

    /// Dotted path of the key, such as `geometry.zones[2].spares`; empty for the description as a whole.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Number of the line, from 1, if it is known.
    pub const fn line(&self) -> Option<usize> {
        self.0.line
    }

    /// The problem, which names the value found.
    pub fn problem(&self) -> &str {
        &self.0.problem
    }

    /// A hint at what is allowed, if there is one.
    pub fn advice(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

/// The path of `key` in the table at `path`.
pub(super) fn join(path: &str, key: &str) -> String {
    match (path, key) {
        ("", key) => key.to_owned(),
        (path, "") => path.to_owned(),
        (path, key) if key.starts_with('[') => format!("{path}{key}"),
        (path, key) => format!("{path}.{key}"),
    }
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let label = Some(self.0.label.as_str()).filter(|label| !label.is_empty());
        match (label, self.0.line) {
            (Some(label), Some(line)) => write!(f, "{label}, line {line}: ")?,
            (Some(label), None) => write!(f, "{label}: ")?,
            (None, Some(line)) => write!(f, "line {line}: ")?,
            (None, None) => {}
        }
        if !self.0.path.is_empty() {
            write!(f, "{}: ", self.0.path)?;
        }
        f.write_str(&self.0.problem)
    }
}

impl std::error::Error for DescriptionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistake_names_file_line_key_and_problem() {
        let text = "a = 1\n[b]\nc = 2\n[[d]]\ne = 1\n[[d]]\ne = 2\n";
        let error = DescriptionError::refused("e", "2", "1").under("[1]").under("d");
        assert_eq!(error.to_string(), "d[1].e: 2");
        assert_eq!(error.advice(), Some("allowed: 1"));
        assert_eq!(error.clone().located(text).to_string(), "line 7: d[1].e: 2");
        let error = error.located(text).within("x.toml").within("y.toml: base");
        assert_eq!(error.to_string(), "y.toml: base: x.toml, line 7: d[1].e: 2");
    }

    #[test]
    fn unknown_name_has_near_matches_and_all_that_are_allowed() {
        let unknown = |name| DescriptionError::unknown(Mistake::UnknownKey, "key", name, ["size", "read"]);
        assert_eq!(unknown("sise").to_string(), "unknown key `sise`; did you mean `size`?");
        assert_eq!(unknown("sise").advice(), Some("allowed: size, read"));
        assert_eq!(unknown("colour").to_string(), "unknown key `colour`");
    }
}
