//! Errors of descriptions.

use std::fmt;

use crate::error::ParameterError;

/// A mistake in a description: place, value found, and allowed values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptionError {
    message: String,
    hint: Option<String>,
}

impl DescriptionError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Names the file or table `label` in front of the message.
    pub(crate) fn within(self, label: &str) -> Self {
        Self { message: format!("{label}: {}", self.message), ..self }
    }

    /// A hint at what is allowed, if there is one.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DescriptionError {}

impl From<ParameterError> for DescriptionError {
    fn from(error: ParameterError) -> Self {
        Self::new(format!("{}: {}", error.parameter, error.problem))
            .hint(format!("allowed: {}", error.allowed))
    }
}
