//! Failure of a verb, with advice and an exit code.

use std::error::Error;
use std::fmt;
use std::io;

/// A failure: what happened, what it rests on, and what to do.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    line: Option<usize>,
    exit_code: u8,
    broken_pipe: bool,
}

impl Failure {
    /// Usage or failure: exit code 2.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, line: None, exit_code: 2, broken_pipe: false }
    }

    /// Creates a failed check of a run: exit code 1.
    pub fn check(message: impl Into<String>) -> Self {
        Self { exit_code: 1, ..Self::new(message) }
    }

    /// The caller stopped the work before its end: exit code 1.
    pub fn interrupted() -> Self {
        Self::check(INTERRUPTED)
    }

    /// The failure of a measurement without figures. One that says only that the caller ended it says so, too.
    pub(crate) fn before_figures(self) -> Self {
        match self.message.ends_with(INTERRUPTED) {
            true => Self { message: format!("{} before anything was measured", self.message), ..self },
            false => self,
        }
    }

    /// Several failures in one, a line each. The exit code is the greatest.
    pub fn all(failures: Vec<Self>) -> Option<Self> {
        failures.into_iter().reduce(|first, next| Self {
            message: format!("{}\n{}", first.message, next.message),
            hint: first.hint.or(next.hint),
            line: first.line.or(next.line),
            exit_code: first.exit_code.max(next.exit_code),
            broken_pipe: false,
        })
    }

    /// The failure with the chain of what it rests on.
    pub fn chain(error: &(dyn Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut broken_pipe = false;
        let mut source = Some(error);
        while let Some(error) = source {
            broken_pipe |= error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = error.source();
        }
        Self { broken_pipe, ..Self::new(message) }
    }

    /// The failure of a run that has results nevertheless: exit code 1.
    #[must_use]
    pub fn into_check(self) -> Self {
        Self { exit_code: 1, ..self }
    }

    /// The failure with advice.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Prepends context to the message.
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Self {
        Self { message: format!("{context}: {}", self.message), ..self }
    }

    /// The failure with the keys of a plan in place of the options of the command line that mean the same.
    #[must_use]
    pub(crate) fn with_keys(self) -> Self {
        let hint = self.hint.as_deref().map(in_keys);
        Self { message: in_keys(&self.message), hint, ..self }
    }

    /// The failure with the line of the text that it is about, from 1. The message names the line, too.
    #[must_use]
    pub fn at_line(self, line: Option<usize>) -> Self {
        Self { line: line.or(self.line), ..self }
    }

    /// Line of the text that was read, from 1, if the failure is about one.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns true if the reader of the program's output has gone away.
    pub const fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }

    /// 1 for a failed check, else 2.
    pub const fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// Advice, if there is any.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Options of the command line whose key in a plan has another name.
const OTHER_KEYS: [(&str, &str); 2] = [("repeat", "repetitions"), ("format-option", "format_options")];

/// End of the message about work that the caller ended.
const INTERRUPTED: &str = "interrupted";

/// Options of the command line that a plan has a key for.
pub(crate) const OPTIONS_WITH_KEYS: [&str; 35] = [
    "bare",
    "batch",
    "block-size",
    "buffered",
    "counters",
    "create",
    "data",
    "depth",
    "duration",
    "fault",
    "faults",
    "find-rate",
    "format",
    "format-option",
    "interval",
    "late",
    "outstanding-max",
    "pacing",
    "poll",
    "priority",
    "ram",
    "ramp",
    "rates",
    "read-back",
    "repeat",
    "requests",
    "retries",
    "retry-after",
    "scheduler",
    "set",
    "shape",
    "threads",
    "timeout",
    "verify",
    "workload",
];

/// Key of an option in a plan, if it has one.
pub(crate) fn key_of(option: &str) -> Option<String> {
    let other = OTHER_KEYS.iter().find_map(|(known, key)| (*known == option).then_some(*key));
    let has_key = OPTIONS_WITH_KEYS.contains(&option);
    other.map(str::to_owned).or_else(|| has_key.then(|| option.replace('-', "_")))
}

/// The text with `key` in place of each `--key` that a plan has.
fn in_keys(text: &str) -> String {
    let mut parts = text.split("--");
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end =
            part.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-').unwrap_or(part.len());
        let (option, rest) = part.split_at(end);
        let is_option =
            !written.ends_with(|letter: char| letter.is_alphanumeric() || "-_/.".contains(letter));
        match key_of(option).filter(|_| is_option) {
            Some(key) => written += &format!("`{key}`{rest}"),
            None => written += &format!("--{part}"),
        }
    }
    written
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::chain(&error)
    }
}

impl From<seeklab_files::FileError> for Failure {
    fn from(error: seeklab_files::FileError) -> Self {
        error.hint().into_iter().fold(Self::chain(&error), Self::hint)
    }
}

impl From<seeklab_traces::TraceError> for Failure {
    fn from(error: seeklab_traces::TraceError) -> Self {
        let hint = error.hint().map(str::to_owned);
        Self { hint, ..Self::chain(&error) }
    }
}

impl From<seeklab_core::DescriptionError> for Failure {
    fn from(error: seeklab_core::DescriptionError) -> Self {
        Self { hint: error.advice().map(str::to_owned), line: error.line(), ..Self::chain(&error) }
    }
}

impl From<seeklab_learning::Error> for Failure {
    fn from(error: seeklab_learning::Error) -> Self {
        if error.kind() == seeklab_learning::ErrorKind::Interrupted {
            return Self::interrupted();
        }
        Self { hint: error.hint().map(str::to_owned), ..Self::chain(&error) }
    }
}

impl From<seeklab_bench::target::TargetError> for Failure {
    fn from(error: seeklab_bench::target::TargetError) -> Self {
        use seeklab_bench::target::TargetError;
        use seeklab_emulator::client::ClientError;
        if matches!(error, TargetError::Client(ClientError::Stopped { .. })) {
            return Self::interrupted();
        }
        Self { hint: error.hint().map(str::to_owned), ..Self::chain(&error) }
    }
}

impl From<seeklab_bench::BenchError> for Failure {
    fn from(error: seeklab_bench::BenchError) -> Self {
        match error {
            seeklab_bench::BenchError::Target(error) => error.into(),
            error => Self::chain(&error),
        }
    }
}

impl From<seeklab_bench::verify::StateError> for Failure {
    fn from(error: seeklab_bench::verify::StateError) -> Self {
        Self { hint: error.hint(), ..Self::chain(&error) }
    }
}

impl From<seeklab_bench::verify::LedgerError> for Failure {
    fn from(error: seeklab_bench::verify::LedgerError) -> Self {
        match error {
            seeklab_bench::verify::LedgerError::State(error) => error.into(),
            error => Self::chain(&error),
        }
    }
}

impl From<seeklab_analysis::ComparisonError> for Failure {
    fn from(error: seeklab_analysis::ComparisonError) -> Self {
        Self::chain(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_read_their_keys_in_messages() {
        let failure = Failure::new("--outstanding-max: `a--b/--set` is a closed load -- see --destroy")
            .hint("leave out --format-option, or add --create SIZE (--repeat)")
            .with_keys();
        assert_eq!(failure.to_string(), "`outstanding_max`: `a--b/--set` is a closed load -- see --destroy");
        assert_eq!(
            failure.advice(),
            Some("leave out `format_options`, or add `create` SIZE (`repetitions`)")
        );
    }
}
