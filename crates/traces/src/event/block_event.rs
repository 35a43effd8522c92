//! One event of the block layer.

use seeklab_core::{Operation, ProcessName};

/// Tracepoint that produced an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `block_getrq`: the block layer made a request for a bio.
    Queue,
    /// `block_rq_issue`: a request went to the driver.
    Issue,
    /// `block_rq_requeue`: the driver gave it back, to be issued again.
    Requeue,
    /// `block_rq_complete`: some or all of a request is complete.
    Complete,
    /// `block_bio_queue`: a bio was given to a device that makes no requests of bios.
    BioQueue,
    /// `block_bio_complete`: such a bio, or a part that was split off it, is complete.
    BioComplete,
}

impl Kind {
    /// Tracepoints of a device with a request queue, in the order in which they are switched on. Every request
    /// whose issue is recorded then has its completion recorded, and every request whose creation is recorded has
    /// its issue recorded.
    pub(crate) const OF_REQUESTS: [Self; 4] = [Self::Complete, Self::Requeue, Self::Issue, Self::Queue];

    /// As [`OF_REQUESTS`](Self::OF_REQUESTS), for devices that bios are given to.
    pub(crate) const OF_BIOS: [Self; 2] = [Self::BioComplete, Self::BioQueue];

    /// Name of the tracepoint in the subsystem `block`.
    pub(crate) const fn tracepoint(self) -> &'static str {
        match self {
            Self::Queue => "block_getrq",
            Self::Issue => "block_rq_issue",
            Self::Requeue => "block_rq_requeue",
            Self::Complete => "block_rq_complete",
            Self::BioQueue => "block_bio_queue",
            Self::BioComplete => "block_bio_complete",
        }
    }

    /// Returns true if the event ends a request or bio.
    pub(crate) const fn is_completion(self) -> bool {
        matches!(self, Self::Complete | Self::BioComplete)
    }

    /// Returns true if a flush appears as an empty write with the flag "flush before".
    const fn has_flags_of_a_bio(self) -> bool {
        matches!(self, Self::Queue | Self::BioQueue | Self::BioComplete)
    }
}

/// Event of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockEvent {
    pub(crate) kind: Kind,
    /// `None` for what is neither a read nor a write, flush, discard or write-zeroes: passed-through
    /// commands, zone management.
    pub(crate) op: Option<Operation>,
    pub(crate) fua: bool,
    /// In units of 512 bytes, zero for a flush.
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    /// Errno as given, negative or zero; only completions have one.
    pub(crate) error: i32,
    pub(crate) process: u32,
    pub(crate) command: ProcessName,
}

/// Something in a ring buffer with its CLOCK_MONOTONIC time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamped {
    pub(crate) time_ns: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Event(BlockEvent),
    /// This many events of the kind were lost before this time.
    Lost(Kind, u64),
}

/// Operation and FUA flag from the letters of the kernel's `blk_fill_rwbs`, ended by a zero:
/// `F`? (flush before), the operation (`R`, `W`, `D`, `F`, `N`, `Z…`), then `F` (FUA), `A`, `S`, `M`, `U`.
///
/// Write-zeroes and commands passed through are both `N`; only the former have a length. A flush is queued
/// as an empty write to flush before (`FWS`), but issued and completed as a request of its own (`FF`).
pub(crate) fn operation(kind: Kind, rwbs: &[u8], sectors: u32) -> (Option<Operation>, bool) {
    let length = rwbs.iter().position(|byte| *byte == 0).unwrap_or(rwbs.len());
    let letters = &rwbs[..length];
    let preflush = letters.len() > 1 && letters[0] == b'F' && b"RWDFNZ".contains(&letters[1]);
    let letters = &letters[usize::from(preflush)..];
    let Some((first, flags)) = letters.split_first() else { return (None, false) };
    let op = match first {
        b'R' => Some(Operation::Read),
        b'W' if preflush && sectors == 0 && kind.has_flags_of_a_bio() => Some(Operation::Flush),
        b'W' => Some(Operation::Write),
        b'D' => Some(Operation::Discard),
        b'F' => Some(Operation::Flush),
        b'N' if sectors > 0 => Some(Operation::WriteZeroes),
        _ => None,
    };
    (op, op == Some(Operation::Write) && flags.contains(&b'F'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_the_kernel_are_parsed() {
        let check = |letters: &[u8], sectors, op, fua| {
            assert_eq!(operation(Kind::Queue, letters, sectors), (op, fua), "{}", letters.escape_ascii());
        };
        check(b"R\0\0\0", 8, Some(Operation::Read), false);
        check(b"RA", 8, Some(Operation::Read), false);
        check(b"WS\0leftover", 8, Some(Operation::Write), false);
        check(b"WFS\0", 8, Some(Operation::Write), true);
        check(b"FWFS\0", 8, Some(Operation::Write), true);
        check(b"FWSM\0", 8, Some(Operation::Write), false);
        check(b"FWS\0", 0, Some(Operation::Flush), false);
        check(b"FF\0", 0, Some(Operation::Flush), false);
        check(b"F\0", 0, Some(Operation::Flush), false);
        check(b"DS\0", 128, Some(Operation::Discard), false);
        check(b"DE\0", 128, Some(Operation::Discard), false);
        check(b"NS\0", 128, Some(Operation::WriteZeroes), false);
        check(b"N\0", 0, None, false);
        check(b"ZR\0", 8, None, false);
        check(b"", 8, None, false);
        check(b"?x", 8, None, false);
        assert_eq!(operation(Kind::BioComplete, b"FW", 0), (Some(Operation::Flush), false));
        // The second end of a request whose flush steps are over.
        assert_eq!(operation(Kind::Complete, b"FWS", 0), (Some(Operation::Write), false));
    }
}
