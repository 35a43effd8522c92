//! Requests of a measured trace by what came before them: which data the drive may have in its buffer.

use crate::drives::disk;
use crate::shared::measured::Measured;
use seeklab_core::{Operation, Request};

/// Commands over which data are followed.
const REMEMBERED: usize = 10;

/// Relation of a read to the commands before it. The first that holds counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    /// Within the read directly before it.
    ReRead,
    /// Overlaps the read directly before it.
    ReReadInPart,
    /// Within the write directly before it.
    JustWritten,
    /// Overlaps the write directly before it.
    JustWrittenInPart,
    /// Begins where the read before it ended, which came from the media.
    FirstContinuation,
    /// Begins where the read before it ended, which came from the buffer.
    LaterContinuation,
    /// Overlaps a write two to ten commands ago, with no read from the media since.
    WrittenBefore,
    /// As before, with a read from the media since.
    WrittenBeforeMediaRead,
    /// Overlaps a read two to ten commands ago.
    ReadBefore,
    /// Within the read-ahead of the last read from the media, without a write since.
    ReadAhead,
    /// The same with so many writes since, three for more.
    ReadAheadAcrossWrites(u8),
    /// On the track of the last read from the media, before its end.
    SameTrack,
    /// None of these.
    Other,
}

impl Relation {
    /// All, in the order of the tables.
    pub(crate) const ALL: [Self; 15] = [
        Self::JustWritten,
        Self::JustWrittenInPart,
        Self::WrittenBefore,
        Self::WrittenBeforeMediaRead,
        Self::FirstContinuation,
        Self::LaterContinuation,
        Self::ReRead,
        Self::ReReadInPart,
        Self::ReadBefore,
        Self::ReadAhead,
        Self::ReadAheadAcrossWrites(1),
        Self::ReadAheadAcrossWrites(2),
        Self::ReadAheadAcrossWrites(3),
        Self::SameTrack,
        Self::Other,
    ];

    /// Returns true for the relations that are looked at on every drive, though few requests or none have them.
    pub(crate) const fn is_listed_without_requests(self) -> bool {
        matches!(self, Self::JustWritten | Self::FirstContinuation | Self::ReRead)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ReRead => "within the last command, a read",
            Self::ReReadInPart => "overlaps the last command, a read",
            Self::JustWritten => "within the last command, a write",
            Self::JustWrittenInPart => "overlaps the last command, a write",
            Self::FirstContinuation => "first continuation of a media read",
            Self::LaterContinuation => "later continuation",
            Self::WrittenBefore => "overlaps a write 2 to 10 commands ago, no media read since",
            Self::WrittenBeforeMediaRead => "overlaps a write 2 to 10 commands ago, media read since",
            Self::ReadBefore => "overlaps a read 2 to 10 commands ago",
            Self::ReadAhead => "in the read-ahead, no write since the media read",
            Self::ReadAheadAcrossWrites(1) => "in the read-ahead, 1 write since",
            Self::ReadAheadAcrossWrites(2) => "in the read-ahead, 2 writes since",
            Self::ReadAheadAcrossWrites(_) => "in the read-ahead, 3 or more writes since",
            Self::SameTrack => "on the track of the last media read, before its end",
            Self::Other => "other reads",
        }
    }
}

/// The last read from the media, and what happened since.
#[derive(Debug, Clone, Copy)]
struct MediaRead {
    index: usize,
    /// Its first block and the end of its track's blocks.
    track: (u64, u64),
    end: u64,
    writes_since: u8,
}

fn overlaps(request: &Request, other: &Request) -> bool {
    request.lbn < other.end() && other.lbn < request.end()
}

fn holds(request: &Request, other: &Request) -> bool {
    request.lbn <= other.lbn && other.end() <= request.end()
}

/// Returns the relation of each read, `None` for writes. Measured times show which reads are from the media.
pub(crate) fn relations(measured: &Measured) -> Vec<Option<Relation>> {
    let disk = disk(&measured.description());
    let layout = disk.mechanism().layout();
    let mut last: Option<MediaRead> = None;
    let mut relations = Vec::with_capacity(measured.requests.len());
    for (index, request) in measured.requests.iter().enumerate() {
        if request.op == Operation::Write {
            if let Some(last) = &mut last {
                last.writes_since = last.writes_since.saturating_add(1);
            }
            relations.push(None);
            continue;
        }
        relations.push(Some(relation(measured, index, request, last)));
        if !measured.is_hit(index) {
            let track = layout.track_bounds(request.end() - 1);
            last = Some(MediaRead { index, track, end: request.end(), writes_since: 0 });
        }
    }
    relations
}

fn relation(measured: &Measured, index: usize, request: &Request, last: Option<MediaRead>) -> Relation {
    let requests = &measured.requests;
    let Some(before) = index.checked_sub(1).map(|before| &requests[before]) else { return Relation::Other };
    match (before.op, holds(before, request), overlaps(before, request)) {
        (Operation::Read, true, _) => return Relation::ReRead,
        (Operation::Read, _, true) => return Relation::ReReadInPart,
        (_, true, _) => return Relation::JustWritten,
        (_, _, true) => return Relation::JustWrittenInPart,
        _ => {}
    }
    if before.op == Operation::Read && before.end() == request.lbn {
        return if measured.is_hit(index - 1) {
            Relation::LaterContinuation
        } else {
            Relation::FirstContinuation
        };
    }
    let remembered = index.saturating_sub(REMEMBERED)..index - 1;
    if let Some(other) = remembered.rev().find(|other| overlaps(&requests[*other], request)) {
        return match (requests[other].op, last.is_some_and(|last| last.index > other)) {
            (Operation::Read, _) => Relation::ReadBefore,
            (_, false) => Relation::WrittenBefore,
            (_, true) => Relation::WrittenBeforeMediaRead,
        };
    }
    match last {
        Some(last) if (last.end..last.end + measured.drive.read_ahead).contains(&(request.end() - 1)) => {
            match last.writes_since {
                0 => Relation::ReadAhead,
                writes => Relation::ReadAheadAcrossWrites(writes.min(3)),
            }
        }
        Some(last) if last.track.0 <= request.lbn && request.end() <= last.track.1 => Relation::SameTrack,
        _ => Relation::Other,
    }
}
