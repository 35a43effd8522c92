//! What can go wrong between a client and its server.

use std::fmt;
use std::io;

use seeklab_core::Operation;

/// Why a server refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The protocol's error number, one of Linux's.
    pub code: u32,
    /// What the server said, if anything; at most 4 KiB.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            1 => "not permitted",
            5 => "input/output error",
            12 => "out of memory",
            22 => "invalid",
            28 => "no space left",
            75 => "overflow",
            95 => "not supported",
            108 => "the server is shutting down",
            _ => "error",
        };
        write!(formatter, "{name} ({})", self.code)?;
        if !self.message.is_empty() {
            write!(formatter, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// What ends a client's work. After [`Failed`](Self::Failed), [`Unsupported`](Self::Unsupported) and
/// [`Invalid`](Self::Invalid) the connection can be used on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody answers there.
    #[error("cannot connect to `{server}`")]
    Connect {
        /// The server's URI.
        server: String,
        /// What the system says.
        source: io::Error,
    },
    /// The connection failed.
    #[error("cannot {action} `{server}`")]
    Io {
        /// What was tried, with its preposition.
        action: &'static str,
        /// The server's URI.
        server: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server ended the connection, or died.
    #[error("`{server}` closed the connection while {outstanding} requests were outstanding")]
    Closed {
        /// The server's URI.
        server: String,
        /// Requests that will get no reply.
        outstanding: usize,
    },
    /// The server does not answer.
    #[error("`{server}` has not answered for {seconds} s while {outstanding} requests were outstanding")]
    Silent {
        /// The server's URI.
        server: String,
        /// For how long.
        seconds: u64,
        /// Requests without reply.
        outstanding: usize,
    },
    /// The server does not give the export.
    #[error("`{server}` refuses the connection: {reason}")]
    Refused {
        /// The server's URI.
        server: String,
        /// What it says.
        reason: String,
    },
    /// The server said something that the protocol does not allow.
    #[error("`{server}` breaks the protocol: {what}")]
    Protocol {
        /// The server's URI.
        server: String,
        /// What it said and what is allowed.
        what: String,
    },
    /// The export cannot do this.
    #[error("the export of `{server}` has no {}", .op.name())]
    Unsupported {
        /// The server's URI.
        server: String,
        /// What it cannot do.
        op: Operation,
    },
    /// The caller asked for something that no export of that size and block size can do.
    #[error("{} of {length_bytes} bytes at {offset_bytes}: {reason}", .op.name())]
    Invalid {
        /// What was asked.
        op: Operation,
        /// Where.
        offset_bytes: u64,
        /// How much.
        length_bytes: u64,
        /// What is allowed.
        reason: String,
    },
    /// The workload does not fit the export, or is described wrongly.
    #[error("the workload does not run on `{server}`")]
    Workload {
        /// The server's URI.
        server: String,
        /// What is wrong, with a hint.
        source: seeklab_workloads::Error,
    },
    /// The caller asked to stop.
    #[error("stopped while {outstanding} requests were outstanding")]
    Stopped {
        /// Requests whose replies were not waited for.
        outstanding: usize,
    },
    /// The server failed a request.
    #[error("{} of {length_bytes} bytes at {offset_bytes} failed: {failure}", .op.name())]
    Failed {
        /// What was asked.
        op: Operation,
        /// Where.
        offset_bytes: u64,
        /// How much.
        length_bytes: u64,
        /// What the server says.
        failure: Failure,
    },
}
