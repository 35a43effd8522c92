//! Requests of the recorder itself. They are marked in its trace and omitted from every fit.
//!
//! A trace that records its own recorder's writes would describe the recording. Therefore the metadata names
//! the initiator that is the recorder (key `recorder`), and all code that fits a model to a trace first
//! checks every row with [`Recorder::is_recorders_own`].
//!
//! ```
//! use seeklab_core::{Instant, Operation, TraceRecord};
//! use seeklab_traces::Metadata;
//!
//! let mut metadata = Metadata::default();
//! metadata.set("recorder", "4711").unwrap();
//! let recorder = metadata.recorder();
//! let mut row = TraceRecord::new(Instant::ZERO, Operation::Write, 0, 8);
//! assert!(!recorder.is_recorders_own(&row));
//! row.initiator = 4711;
//! assert!(recorder.is_recorders_own(&row));
//! ```
//!
//! # Scope and limits
//! The recorder itself writes its data back. The writes that a file system adds for the recorder's file
//! (journal, allocation) come from kernel threads and cannot be distinguished: keep the trace on a different
//! device from the recorded device.

use seeklab_core::TraceRecord;

use crate::metadata::Metadata;

/// The key of the metadata.
pub const KEY: &str = "recorder";

/// Metadata key for the kind of requests that a recorder of seeklab observed: `requests` or `bios` of a block
/// layer, or `interposed` calls.
pub const OBSERVED: &str = "capture.observed";

/// Initiator that recorded a trace, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorder(Option<u32>);

impl Recorder {
    /// Returns true if the trace names its recorder.
    pub const fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Returns true if the recorder itself made this request. Fits and workload figures omit such requests.
    pub fn is_recorders_own(self, record: &TraceRecord) -> bool {
        self.0 == Some(record.initiator)
    }
}

impl Metadata {
    /// Returns true if seeklab recorded the trace from a real device.
    pub fn is_captured(&self) -> bool {
        self.other.contains_key(OBSERVED)
    }

    /// Returns the recorder of the trace.
    pub fn recorder(&self) -> Recorder {
        Recorder(self.other.get(KEY).and_then(|text| text.parse().ok()))
    }
}
