//! What can go wrong with a calibration.

use std::io;
use std::path::PathBuf;

use crate::client::ClientError;

use super::FrontendKind;

/// Why a calibration could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// The frontend cannot be served here.
    #[error("cannot serve over {frontend} for calibration")]
    Serve {
        /// Which one.
        frontend: FrontendKind,
        /// What the system says.
        source: io::Error,
    },
    /// The emulator of the calibration did not answer as it must.
    #[error("the calibration's client of {frontend} failed")]
    Client {
        /// Over which frontend.
        frontend: FrontendKind,
        /// What it says.
        source: ClientError,
    },
    /// Requests and what the emulator saw of them do not pair up.
    #[error("over {frontend} the client made {made} requests and the emulator saw {seen}")]
    Unpaired {
        /// Over which frontend.
        frontend: FrontendKind,
        /// Requests made.
        made: usize,
        /// Requests seen.
        seen: usize,
    },
    /// Processors are to be kept awake and cannot be.
    #[error("cannot keep the processors awake")]
    Awake(#[source] io::Error),
    /// The system has no descriptor, or refuses to wait.
    #[error("cannot measure how late sleeps end")]
    Wakeups(#[source] io::Error),
}

/// Why there is no calibration to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoCalibration {
    /// None was saved.
    #[error("`{}`: this machine has not been calibrated", .path.display())]
    Absent {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Neither `XDG_STATE_HOME` nor `HOME` says where it would be.
    #[error("neither XDG_STATE_HOME nor HOME is set, so there is nowhere to keep a calibration")]
    Nowhere,
    /// It is of something else.
    #[error("`{}`: was measured {what}", .path.display())]
    Stale {
        /// Where it is.
        path: PathBuf,
        /// On which other machine, kernel, or since when.
        what: String,
    },
    /// It cannot be read.
    #[error("`{}`: cannot be used: {reason}", .path.display())]
    Damaged {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl NoCalibration {
    /// What helps.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Nowhere => "set XDG_STATE_HOME",
            Self::Absent { .. } | Self::Stale { .. } | Self::Damaged { .. } => "run `seeklab calibrate`",
        }
    }
}
