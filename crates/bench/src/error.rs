//! Errors that end a measurement.

use std::io;

use seeklab_emulator::client::ClientError;

/// Failure of a target as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The operating system refused an action.
    #[error("`{target}`: cannot {action}")]
    Io {
        /// Address of the target.
        target: String,
        /// Action that was refused.
        action: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The target cannot be measured.
    #[error("`{target}`: {problem}")]
    Unusable {
        /// Address of the target.
        target: String,
        /// Reason.
        problem: String,
        /// Advice.
        hint: String,
    },
    /// An error of the client of a server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The target was away for long, and nothing else ends the measurement.
    #[error("no connection for {} s", seconds)]
    Away {
        /// Time for which it was away.
        seconds: u64,
    },
    /// A model did not take a request.
    #[error("`{target}`: request {request}: {rejected}")]
    Rejected {
        /// Address of the target.
        target: String,
        /// Number of the request.
        request: u64,
        /// Reason.
        rejected: seeklab_core::Rejected,
    },
}

impl TargetError {
    pub(crate) fn io(target: &str, action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { target: target.to_owned(), action, source: source.into() }
    }

    pub(crate) fn unusable(target: &str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unusable { target: target.to_owned(), problem: problem.into(), hint: hint.into() }
    }

    /// Advice, if there is any.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Unusable { hint, .. } if !hint.is_empty() => Some(hint),
            Self::Client(ClientError::Silent { outstanding: 0, .. }) => Some(
                "something listens there: check that it is a server of NBD, and that it serves a client beside its others",
            ),
            _ => None,
        }
    }
}

/// Failure of a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The target failed as a whole.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The operating system gives no thread.
    #[error("a thread cannot be started")]
    Thread {
        /// Error of the operating system.
        source: io::Error,
    },
    /// A number that is watched is no process.
    #[error("there is no process {number} to watch")]
    NoProcess {
        /// The number.
        number: u32,
    },
}
