//! Accesses of a thread to metadata: which of them read the device.
//!
//! The kernel records a look-up of each block (`block_touch_buffer`), also of those that it reads in advance. It looks
//! the needed block up, then the blocks of the read-ahead in their order, and waits:
//!
//! ```text
//! 1042   1032 1033 1034 … 1063   wait            read-ahead of 32 blocks, and 1042 is needed
//! 77   wait                                      77 is read
//! 78                                             78 was in memory, or the file system initialises it
//! ```
//! The block that is needed is locked while the others are submitted, and joins the last of them. So a read-ahead of blocks
//! on both sides of it is two requests: 1032 to 1041, then 1042 to 1063.

use seeklab_workloads::host::RecordedAction;

use super::block_set::BlockSet;
use super::steps::Steps;

/// Blocks that follow each other in a read-ahead at least.
const AHEAD_MIN: usize = 4;

/// Look-ups of a thread without another event or a wait between them.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// Block, and the number of the step.
    blocks: Vec<(u64, usize)>,
}

impl Lookups {
    pub(super) fn push(&mut self, block: u64, step: usize) {
        self.blocks.push((block, step));
    }

    /// Decides the actions of the look-ups. `waits` if the thread waited for I/O after the last; `known` has the blocks
    /// that were accessed before.
    pub(super) fn decide(&mut self, steps: &mut Steps, waits: bool, known: &mut BlockSet) {
        let blocks = std::mem::take(&mut self.blocks);
        let mut start = 0;
        while start < blocks.len() {
            let mut end = start + 1;
            while end < blocks.len() && blocks[end].0 == blocks[end - 1].0 + 1 {
                end += 1;
            }
            let is_awaited = waits && end == blocks.len();
            let run = &blocks[start..end];
            if run.len() >= AHEAD_MIN {
                self.decide_ahead(steps, run, &blocks[..start], is_awaited, known);
            } else {
                for (block, step) in run {
                    let is_present = known.add(*block) && !is_awaited;
                    let address = *block;
                    let action = RecordedAction::Metadata { address, dirties: false, is_present };
                    steps.set_action(*step, action);
                }
            }
            start = end;
        }
    }

    fn decide_ahead(
        &self,
        steps: &mut Steps,
        run: &[(u64, usize)],
        before: &[(u64, usize)],
        is_awaited: bool,
        known: &mut BlockSet,
    ) {
        let (first, last) = (run[0].0, run[run.len() - 1].0);
        known.insert(first, last + 1);
        let needed = before.iter().rev().find(|(block, _)| (first..=last).contains(block));
        if let Some((_, step)) = needed {
            steps.set_action(*step, RecordedAction::None);
        }
        // The plug holds the requests back until the last block has been looked up.
        let [.., (_, first_step), (_, second_step), (_, last_step)] = *run else {
            unreachable!("a read-ahead has {AHEAD_MIN} blocks")
        };
        let ahead =
            |address: u64, end: u64| RecordedAction::MetadataAhead { address, pages: (end - address) as u32 };
        let split = needed.map(|(block, _)| *block).filter(|block| (first + 1..last).contains(block));
        steps.set_action(first_step, ahead(first, split.unwrap_or(last + 1)));
        if let Some(split) = split {
            steps.set_action(second_step, ahead(split, last + 1));
        }
        if is_awaited || needed.is_some() {
            let address = needed.map_or(first, |(block, _)| *block);
            let action = RecordedAction::Metadata { address, dirties: false, is_present: false };
            steps.set_action(last_step, action);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seeklab_core::Duration;
    use seeklab_workloads::host::RecordedStep;

    use super::*;
    use crate::system::programs::steps::PartFile;

    fn decide(blocks: &[u64], waits: bool, known: &mut BlockSet) -> Vec<RecordedAction> {
        let step = RecordedStep { computing: Duration::ZERO, action: RecordedAction::None };
        let mut steps = Steps::new(&Arc::new(PartFile::default()));
        blocks.iter().for_each(|_| steps.push(step, 0));
        let mut lookups = Lookups::default();
        blocks.iter().enumerate().for_each(|(step, block)| lookups.push(*block, step));
        lookups.decide(&mut steps, waits, known);
        assert!(lookups.blocks.is_empty());
        steps.finish().iter().map(|step| step.action).collect()
    }

    const fn metadata(address: u64, is_present: bool) -> RecordedAction {
        RecordedAction::Metadata { address, dirties: false, is_present }
    }

    #[test]
    fn read_ahead_is_recognised_with_the_block_that_is_needed() {
        let mut known = BlockSet::default();
        let actions = decide(&[42, 7, 40, 41, 42, 43], true, &mut known);
        assert_eq!(
            actions,
            [
                RecordedAction::None,
                metadata(7, true),
                RecordedAction::None,
                RecordedAction::MetadataAhead { address: 40, pages: 2 },
                RecordedAction::MetadataAhead { address: 42, pages: 2 },
                metadata(42, false),
            ]
        );
        // A block at an end of the others joins them, and the read-ahead is one request.
        for needed in [20, 24] {
            let actions = decide(&[needed, 20, 21, 22, 23, 24], true, &mut BlockSet::default());
            let ahead = RecordedAction::MetadataAhead { address: 20, pages: 5 };
            assert_eq!(actions[3..], [ahead, RecordedAction::None, metadata(needed, false)], "{needed}");
        }
        // A later access finds what was read, or reads it again if memory was short.
        assert_eq!(decide(&[41], false, &mut known), [metadata(41, false)]);
    }

    #[test]
    fn first_access_without_a_wait_reads_nothing() {
        let mut known = BlockSet::default();
        assert_eq!(decide(&[5, 9], false, &mut known), [metadata(5, true), metadata(9, true)]);
        assert_eq!(decide(&[6, 10], true, &mut known), [metadata(6, true), metadata(10, false)]);
        assert_eq!(decide(&[6], false, &mut known), [metadata(6, false)]);
    }
}
