//! Blocks that a device may lose with its power: complete writes that no flush covers.
//!
//! # Scope and limits
//! One flush at a time counts. Writes that only a second flush covers, sent while the first was outstanding, stay in the
//! set until the next one. So the set is never too small.

use seeklab_core::BlockSet;

/// Written blocks that no flush covers.
#[derive(Debug, Default)]
pub(super) struct Volatile {
    /// Complete since the flush was sent.
    fresh: BlockSet,
    /// Complete before the flush that is outstanding, with its tag.
    flushing: Option<(u64, BlockSet)>,
}

impl Volatile {
    /// The blocks from `start` to before `end` were written.
    pub(super) fn written(&mut self, start: u64, end: u64) {
        self.fresh.insert(start, end);
    }

    /// A flush was sent.
    pub(super) fn flush_sent(&mut self, tag: u64) {
        if self.flushing.is_none() {
            self.flushing = Some((tag, std::mem::take(&mut self.fresh)));
        }
    }

    /// A flush ended.
    pub(super) fn flush_ended(&mut self, tag: u64, succeeded: bool) {
        let Some((_, blocks)) = self.flushing.take_if(|(outstanding, _)| *outstanding == tag) else { return };
        if !succeeded {
            blocks.within(0, u64::MAX).for_each(|(start, end)| self.fresh.insert(start, end));
        }
    }

    /// Takes all of them out: ranges from a first block to before an end. A flush that is outstanding covers nothing any
    /// more.
    pub(super) fn take(&mut self) -> Vec<(u64, u64)> {
        let flushing = self.flushing.take().map(|(_, blocks)| blocks).unwrap_or_default();
        let fresh = std::mem::take(&mut self.fresh);
        flushing.within(0, u64::MAX).chain(fresh.within(0, u64::MAX)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_covers_what_was_complete_when_it_was_sent() {
        let mut volatile = Volatile::default();
        volatile.written(0, 8);
        volatile.flush_sent(1);
        volatile.written(8, 16);
        volatile.flush_sent(2);
        volatile.flush_ended(2, true);
        volatile.flush_ended(1, true);
        assert_eq!(volatile.take(), [(8, 16)]);
        assert_eq!(volatile.take(), []);
    }

    #[test]
    fn flush_that_fails_covers_nothing() {
        let mut volatile = Volatile::default();
        volatile.written(0, 8);
        volatile.flush_sent(1);
        volatile.flush_ended(1, false);
        volatile.written(8, 16);
        assert_eq!(volatile.take(), [(0, 16)]);
        volatile.written(4, 5);
        volatile.flush_sent(2);
        assert_eq!(volatile.take(), [(4, 5)]);
        volatile.written(6, 7);
        volatile.flush_ended(2, true);
        assert_eq!(volatile.take(), [(6, 7)], "it was sent before the connection ended");
    }
}
