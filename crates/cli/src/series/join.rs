//! One request, seen from the host and from the emulator: joined as the run goes.

use std::sync::mpsc::Receiver;

use seeklab_analysis::{MatchCounts, Matcher, Stamps};
use seeklab_core::{HostRequest, Instant, Operation, TraceRecord};
use seeklab_traces::{TraceError, TraceWriter};

use crate::emulate::{Follower, Sink};

/// What the host tells.
#[derive(Debug, Clone, Copy)]
pub(super) enum Told {
    /// A request of the host is complete.
    Request(HostRequest),
    /// Every request issued before this was told.
    Until(Instant),
}

/// Joins what the host and the emulator saw, and takes it in.
pub(super) struct Join {
    matcher: Matcher,
    host: Receiver<Told>,
    host_until: Instant,
    emulator_until: Instant,
    kept: Kept,
}

/// What is made of joined requests.
struct Kept {
    stamps: Stamps,
    /// Reads and writes.
    transfers: u64,
    follower: Follower,
    writer: Option<Box<dyn TraceWriter>>,
    failed: Option<TraceError>,
}

/// What came of it.
pub(super) struct Joined {
    pub(super) stamps: Stamps,
    pub(super) transfers: u64,
    pub(super) matched: MatchCounts,
    /// Whether the trace was written.
    pub(super) written: Result<(), TraceError>,
}

impl Join {
    /// Joins records in blocks of that many bytes with what `host` tells; shows them to `follower` and writes
    /// them to `writer`.
    pub(super) fn new(
        block_bytes: u32,
        host: Receiver<Told>,
        follower: Follower,
        writer: Option<Box<dyn TraceWriter>>,
    ) -> Self {
        Self {
            matcher: Matcher::new(block_bytes),
            host,
            host_until: Instant::ZERO,
            emulator_until: Instant::ZERO,
            kept: Kept { stamps: Stamps::default(), transfers: 0, follower, writer, failed: None },
        }
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::Request(request) => self.matcher.host(&request),
            Told::Until(until) => self.host_until = until,
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
    type Outcome = Joined;

    fn take(&mut self, record: &TraceRecord) {
        self.emulator_until = record.points.mp2_arrival.unwrap_or(record.arrival);
        self.matcher.record(*record);
        while let Ok(told) = self.host.try_recv() {
            self.told(told);
        }
        let kept = &mut self.kept;
        self.matcher.advance(self.host_until, self.emulator_until, |record| kept.take(record));
    }

    fn finish(mut self) -> Joined {
        // The host has ended: it tells what is left.
        while let Ok(told) = self.host.try_recv() {
            self.told(told);
        }
        let Self { matcher, mut kept, .. } = self;
        let matched = matcher.finish(|record| kept.take(record));
        let written = match (kept.failed, kept.writer) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.finish(),
            (None, None) => Ok(()),
        };
        Joined { stamps: kept.stamps, transfers: kept.transfers, matched, written }
    }
}
