//! Reasons for which a fit fails.

use seeklab_devices::DescriptionError;

/// The kind of a failure, to match on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The records or results contain nothing that a model can be fitted to.
    NothingToFit,
    /// An option, or a part of the input, has a value that is not allowed.
    Invalid,
    /// The fitted device cannot be described, built or driven.
    Device,
    /// The caller stopped the fit.
    Interrupted,
}

/// A failure to fit, to evaluate or to read the input of a fit.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// A failure of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// The same failure with advice.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same failure, its message prefixed with `context`.
    #[must_use]
    pub fn context(self, context: impl std::fmt::Display) -> Self {
        Self { message: format!("{context}: {}", self.message), ..self }
    }

    /// The kind.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Advice, if there is some.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<DescriptionError> for Error {
    fn from(error: DescriptionError) -> Self {
        let hint = error.advice().map(str::to_owned);
        Self { kind: ErrorKind::Device, message: error.to_string(), hint }
    }
}
