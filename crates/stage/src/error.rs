//! Errors of a stage: at the start, inside, and requirements that are missing before the start.

use std::fmt;
use std::io;

use seeklab_core::ByteSize;
use seeklab_core::names::quoted;
use serde::{Deserialize, Serialize};

/// Reason why a stage failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process inside could not be started.
    #[error("cannot {what}")]
    Start {
        /// The step.
        what: &'static str,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The process inside ended on its own; nothing of it is left, but results are lost.
    #[error("the process that holds the mount ended unexpectedly ({how})")]
    Died {
        /// Its exit status.
        how: String,
    },
    /// A step inside failed.
    #[error("{what}")]
    Inside {
        /// Failed step, its object, and the message of the operating system or a program.
        what: String,
        /// Remedy, if one is known.
        hint: Option<String>,
    },
    /// The memory cgroup of the commands could not be made or read.
    #[error("--memory {limit}: the memory cgroup of the commands cannot be used")]
    Memory {
        /// Limit of the memory.
        limit: ByteSize,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Stopped: [`Stop::stop`](crate::Stop::stop) was called before or during the step, and the step has no
    /// result.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Returns the remedy, if one is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Inside { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }
}

/// A failed step, as it crosses the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

impl Trouble {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None }
    }

    pub(crate) fn io(what: impl fmt::Display, error: impl Into<io::Error>) -> Self {
        Self::new(format!("cannot {what}: {}", error.into()))
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<Trouble> for Error {
    fn from(Trouble { what, hint }: Trouble) -> Self {
        Self::Inside { what, hint }
    }
}

/// Something that a run needs and that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Missing {
    /// Missing requirement, and the state found instead.
    pub what: String,
    /// Way to provide it.
    pub remedy: String,
}

impl Missing {
    pub(crate) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// `, did you mean ...?` of near names, or nothing.
pub(crate) fn did_you_mean(near: &[&str]) -> Option<String> {
    (!near.is_empty()).then(|| format!("did you mean {}?", quoted(near.iter().copied())))
}
