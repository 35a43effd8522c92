//! The next steps of a process: computing, and requests that it waits for or leaves behind.

use std::collections::VecDeque;

use seeklab_core::{Duration, Operation};

/// A page, which is also the file system's block: what Linux uses on the machines it was compared on.
pub(super) const PAGE_BYTES: u64 = 4096;

/// The longest request, in pages: 512 KiB. Ours, below the `max_sectors_kb` of 1280 that Linux sets for
/// disks, so that no host splits it.
const REQUEST_PAGES_MAX: u32 = 128;

/// One request in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Io {
    pub(super) op: Operation,
    pub(super) fua: bool,
    pub(super) page: u64,
    pub(super) pages: u32,
}

impl Io {
    pub(super) const FLUSH: Self = Self { op: Operation::Flush, fua: false, page: 0, pages: 0 };

    pub(super) const fn end(&self) -> u64 {
        self.page + self.pages as u64
    }

    /// Returns true if the two must not be outstanding at once: they touch the same pages and one changes
    /// them.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let is_read = self.op == Operation::Read && other.op == Operation::Read;
        !is_read && self.page < other.end() && other.page < self.end()
    }
}

/// A part of what a process does, after the part before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// Occupies the process.
    Compute(Duration),
    /// Requests that are issued together and waited for.
    Wait(Vec<Io>),
    /// Requests that nobody waits for.
    Leave(Vec<Io>),
    /// Makes the process's log records, on these pages, durable, together with those of others that wait.
    Commit(Vec<u64>),
    /// The log records of the group are durable.
    Committed,
    /// One operation of the application, a transaction for example, is done.
    Operation,
}

/// Steps of a process until its program is queried again.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan(VecDeque<Stage>);

impl Plan {
    pub(super) fn push(&mut self, stage: Stage) {
        match stage {
            Stage::Wait(ios) | Stage::Leave(ios) if ios.is_empty() => {}
            Stage::Compute(time) if time.is_zero() => {}
            stage => self.0.push_back(stage),
        }
    }

    pub(super) fn wait(&mut self, op: Operation, pages: &[u64]) {
        self.push(Stage::Wait(merge(op, pages)));
    }

    pub(super) fn flush(&mut self) {
        self.push(Stage::Wait(vec![Io::FLUSH]));
    }

    pub(super) fn take(&mut self) -> VecDeque<Stage> {
        std::mem::take(&mut self.0)
    }
}

/// Requests for pages, adjacent ones merged as a host's queue merges them. Keeps the order.
pub(super) fn merge(op: Operation, pages: &[u64]) -> Vec<Io> {
    let mut ios: Vec<Io> = Vec::new();
    for &page in pages {
        match ios.last_mut() {
            Some(last) if last.end() == page && last.pages < REQUEST_PAGES_MAX => last.pages += 1,
            _ => ios.push(Io { op, fua: false, page, pages: 1 }),
        }
    }
    ios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_pages_are_merged_up_to_the_limit() {
        let pages: Vec<u64> = (10..10 + 130).chain([500, 501]).collect();
        let sizes: Vec<(u64, u32)> =
            merge(Operation::Write, &pages).iter().map(|io| (io.page, io.pages)).collect();
        assert_eq!(sizes, [(10, 128), (138, 2), (500, 2)]);
    }

    #[test]
    fn requests_conflict_only_if_they_overlap_and_one_writes() {
        let io = |op, page, pages| Io { op, fua: false, page, pages };
        let (read, write) = (Operation::Read, Operation::Write);
        assert!(io(read, 0, 4).conflicts(&io(write, 3, 1)));
        assert!(io(write, 3, 1).conflicts(&io(write, 0, 4)));
        assert!(!io(read, 0, 4).conflicts(&io(read, 0, 4)));
        assert!(!io(write, 4, 1).conflicts(&io(write, 0, 4)));
        assert!(!Io::FLUSH.conflicts(&io(write, 0, 4)));
    }
}
