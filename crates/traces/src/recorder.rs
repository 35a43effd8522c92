//! What a recorder did itself: marked in its trace, and left out of every fit.
//!
//! A trace that records its own recorder's writes would describe the recording. So whoever records says in the
//! metadata which initiator of the rows is the recorder (key `recorder`), and everything that learns from a
//! trace asks [`Recorder::is_recorders_own`] of every row first.
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
//! Data is written back by the recorder itself. What a file system adds for the recorder's file (journal,
//! allocation) comes from threads of the kernel and cannot be told apart: keep a trace on another device than
//! the one that is recorded.

use seeklab_core::TraceRecord;

use crate::metadata::Metadata;

/// The key of the metadata.
pub const KEY: &str = "recorder";

/// The key that says what a recorder of seeklab saw: `requests` or `bios` of a block layer, or what was `interposed`.
pub const OBSERVED: &str = "capture.observed";

/// Who recorded a trace, among its initiators, if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorder(Option<u32>);

impl Recorder {
    /// Whether the trace says who recorded it.
    pub const fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Whether the recorder itself made this request: no fit and no figure of the workload counts it.
    pub fn is_recorders_own(self, record: &TraceRecord) -> bool {
        self.0 == Some(record.initiator)
    }
}

impl Metadata {
    /// Whether seeklab recorded it from a real device.
    pub fn is_captured(&self) -> bool {
        self.other.contains_key(OBSERVED)
    }

    /// Who recorded the trace.
    pub fn recorder(&self) -> Recorder {
        Recorder(self.other.get(KEY).and_then(|text| text.parse().ok()))
    }
}
