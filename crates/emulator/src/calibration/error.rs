//! Errors of calibration.

use std::io;
use std::path::PathBuf;

use crate::client::ClientError;

use super::FrontendKind;

/// Reason why a calibration could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// The frontend cannot be served here.
    #[error("cannot serve over {frontend} for calibration")]
    Serve {
        /// Frontend.
        frontend: FrontendKind,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The emulator of the calibration did not answer as it must.
    #[error("the calibration's client of {frontend} failed")]
    Client {
        /// Over which frontend.
        frontend: FrontendKind,
        /// Error of the client.
        source: ClientError,
    },
    /// The requests of the client and the requests that the emulator received do not match.
    #[error("over {frontend} the client made {made} requests and the emulator received {seen}")]
    Unpaired {
        /// Over which frontend.
        frontend: FrontendKind,
        /// Requests made.
        made: usize,
        /// Requests received by the emulator.
        seen: usize,
    },
    /// Processors are to be kept awake and cannot be.
    #[error("cannot keep the processors awake")]
    Awake(#[source] io::Error),
    /// The system has no descriptor, or refuses to wait.
    #[error("cannot measure the lateness of sleeps")]
    Wakeups(#[source] io::Error),
}

/// Reason why there is no calibration to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoCalibration {
    /// No calibration was saved.
    #[error("`{}`: this machine has not been calibrated", .path.display())]
    Absent {
        /// File that was expected.
        path: PathBuf,
    },
    /// Neither `XDG_STATE_HOME` nor `HOME` is set, so the place of the calibration is unknown.
    #[error("neither XDG_STATE_HOME nor HOME is set, so there is nowhere to keep a calibration")]
    Nowhere,
    /// The calibration is of another machine, kernel or boot.
    #[error("`{}`: was measured {what}", .path.display())]
    Stale {
        /// File of the calibration.
        path: PathBuf,
        /// On which other machine, kernel, or since when.
        what: String,
    },
    /// The calibration cannot be read.
    #[error("`{}`: cannot be used: {reason}", .path.display())]
    Damaged {
        /// File of the calibration.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
}

impl NoCalibration {
    /// Returns the remedy.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Nowhere => "set XDG_STATE_HOME",
            Self::Absent { .. } | Self::Stale { .. } | Self::Damaged { .. } => "run `seeklab calibrate`",
        }
    }
}
