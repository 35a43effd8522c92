//! Errors of files that are written.

use std::io;
use std::path::{Path, PathBuf};

/// A file that cannot be written, or not there.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    path: PathBuf,
    problem: String,
    hint: Option<&'static str>,
    #[source]
    source: Option<io::Error>,
}

impl FileError {
    pub(crate) fn new(path: &Path, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: problem.into(), hint: None, source: None }
    }

    /// The error of an operation on the file that failed.
    pub(crate) fn io(path: &Path, problem: &str, source: io::Error) -> Self {
        Self { source: Some(source), ..Self::new(path, problem) }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Advice, if there is any.
    pub const fn hint(&self) -> Option<&'static str> {
        self.hint
    }

    /// The error of the operating system, if one caused this.
    pub fn io_error(&self) -> Option<&io::Error> {
        self.source.as_ref()
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        match error.source {
            Some(source) => source,
            None => Self::other(error.to_string()),
        }
    }
}
