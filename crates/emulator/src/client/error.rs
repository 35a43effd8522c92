//! Errors between a client and its server.

use std::fmt;
use std::io;
use std::path::PathBuf;

use seeklab_core::Operation;
use seeklab_core::number_words::numbered;

/// Reason why a server refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The protocol's error number, one of Linux's.
    pub code: u32,
    /// Message of the server, if any; at most 4 KiB.
    pub message: String,
    /// First bad byte, if the server stated it.
    pub offset_bytes: Option<u64>,
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

/// Error that ends a client's work. After [`Failed`](Self::Failed), [`Unsupported`](Self::Unsupported) and
/// [`Invalid`](Self::Invalid) the connection can still be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody answers there.
    #[error("cannot connect to `{server}`")]
    Connect {
        /// The server's URI.
        server: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The connection failed.
    #[error("cannot {action} `{server}`")]
    Io {
        /// Action that failed, with its preposition.
        action: &'static str,
        /// The server's URI.
        server: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The server ended the connection, or died.
    #[error("`{server}` closed the connection while {}", numbered(*outstanding, "request[|s] [was|were] outstanding"))]
    Closed {
        /// The server's URI.
        server: String,
        /// Requests that will get no reply.
        outstanding: usize,
    },
    /// The server ended the connection and takes no other.
    #[error("`{server}` closed the connection and has taken no other for {seconds} s")]
    Away {
        /// The server's URI.
        server: String,
        /// Time without a connection.
        seconds: f64,
    },
    /// The server does not answer.
    #[error("`{server}` has not answered for {seconds} s while {}", numbered(*outstanding, "request[|s] [was|were] outstanding"))]
    Silent {
        /// The server's URI.
        server: String,
        /// Time without an answer.
        seconds: u64,
        /// Requests without reply.
        outstanding: usize,
    },
    /// The server does not give the export.
    #[error("`{server}` refuses the connection: {reason}")]
    Refused {
        /// The server's URI.
        server: String,
        /// Reason given by the server.
        reason: String,
    },
    /// TLS with the server failed: its certificate is not accepted, or it accepts none of ours.
    #[error("`{server}`: TLS failed: {reason}")]
    Tls {
        /// The server's URI.
        server: String,
        /// Reason, with a hint.
        reason: String,
    },
    /// A file of certificates or keys cannot be used.
    #[error("`{}` {reason}", .path.display())]
    Credentials {
        /// The file or its folder.
        path: PathBuf,
        /// Reason, with a hint.
        reason: String,
    },
    /// The server sent a message that the protocol does not allow.
    #[error("`{server}` breaks the protocol: {what}")]
    Protocol {
        /// The server's URI.
        server: String,
        /// Message that was received, and the messages that are allowed.
        what: String,
    },
    /// The export cannot do this.
    #[error("the export of `{server}` has no {}", .op.name())]
    Unsupported {
        /// The server's URI.
        server: String,
        /// Unsupported operation.
        op: Operation,
    },
    /// The caller requested an operation that no export of that size and block size supports.
    #[error("{} of {length_bytes} bytes at {offset_bytes}: {reason}", .op.name())]
    Invalid {
        /// Requested operation.
        op: Operation,
        /// First byte of the request.
        offset_bytes: u64,
        /// Length of the request.
        length_bytes: u64,
        /// Range that is allowed.
        reason: String,
    },
    /// The workload does not fit the export, or is described wrongly.
    #[error("the workload does not run on `{server}`")]
    Workload {
        /// The server's URI.
        server: String,
        /// Error of the workload, with a hint.
        source: seeklab_core::DescriptionError,
    },
    /// The caller requested a stop.
    #[error("stopped while {}", numbered(*outstanding, "request[|s] [was|were] outstanding"))]
    Stopped {
        /// Requests whose replies were not waited for.
        outstanding: usize,
    },
    /// The server failed a request.
    #[error("{} of {length_bytes} bytes at {offset_bytes} failed: {failure}", .op.name())]
    Failed {
        /// Requested operation.
        op: Operation,
        /// First byte of the request.
        offset_bytes: u64,
        /// Length of the request.
        length_bytes: u64,
        /// Failure reported by the server.
        failure: Failure,
    },
}

impl ClientError {
    /// Returns true if another attempt to connect would end in the same way: the server refuses, is none, or is not the one
    /// that is trusted.
    pub const fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::Protocol { .. } | Self::Tls { .. } | Self::Credentials { .. }
        )
    }
}
