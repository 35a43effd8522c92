//! Join of host and emulator records of each request, during the run.

use std::sync::mpsc::Receiver;

use seeklab_analysis::{MatchCounts, Stamps};
use seeklab_core::{Operation, TraceRecord};
use seeklab_traces::{TraceError, TraceWriter};

use crate::emulate::{Follower, HostMessage, Joining, Sink};

/// Joins the records of host and emulator and processes the joined requests.
pub(super) struct Join {
    joining: Joining,
    kept: Kept,
}

/// Results of the joined requests.
struct Kept {
    stamps: Stamps,
    /// Reads and writes.
    transfers: u64,
    follower: Follower,
    writer: Option<Box<dyn TraceWriter>>,
    failed: Option<TraceError>,
}

/// Result of joining.
pub(super) struct Joined {
    pub(super) stamps: Stamps,
    pub(super) transfers: u64,
    pub(super) matched: MatchCounts,
    /// Result of writing the trace.
    pub(super) written: Result<(), TraceError>,
}

impl Join {
    /// Joins records in blocks of that many bytes with the messages from `host`. Passes the joined requests to
    /// `follower` and writes them to `writer`.
    pub(super) fn new(
        block_bytes: u32,
        host: Receiver<HostMessage>,
        follower: Follower,
        writer: Option<Box<dyn TraceWriter>>,
    ) -> Self {
        Self {
            joining: Joining::new(block_bytes, host),
            kept: Kept { stamps: Stamps::default(), transfers: 0, follower, writer, failed: None },
        }
    }
}

impl Kept {
    fn take(&mut self, record: &TraceRecord) {
        self.stamps.push(record);
        self.follower.see(record);
        self.transfers += u64::from(matches!(record.op, Operation::Read | Operation::Write));
        if let (Some(writer), None) = (&mut self.writer, &self.failed) {
            self.failed = writer.write(record).err();
        }
    }
}

impl Sink for Join {
    type Output = Joined;

    fn take(&mut self, record: &TraceRecord) {
        let kept = &mut self.kept;
        self.joining.take(record, |record| kept.take(record));
    }

    fn finish(self) -> Joined {
        let Self { joining, mut kept } = self;
        let matched = joining.finish(|record| kept.take(record));
        let written = match (kept.failed, kept.writer) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.finish(),
            (None, None) => Ok(()),
        };
        Joined { stamps: kept.stamps, transfers: kept.transfers, matched, written }
    }
}
