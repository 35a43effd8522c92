//! Reads of metadata: those that a thread submits, apart from data of files.
//!
//! The kernel does not record every look-up of a block, but every read that it submits:
//!
//! ```text
//! look-up 42   reads 43, 44, 45, 42   wait      read-aheads of 43 to 45 and of 42, and 42 is needed
//! read 80   wait                                80 is needed
//! ```
//! Reads that follow each other on the device join to one request, as in the plug of the kernel. The block that is
//! needed is one that was looked up before, or else the last.

use seeklab_workloads::host::RecordedAction;

use super::block_set::BlockSet;
use super::limits::REQUEST_BLOCKS_MAX;
use super::steps::Steps;

/// Reads of a thread without another event between them.
#[derive(Debug, Default)]
pub(super) struct DeviceReads {
    runs: Vec<Run>,
    /// Block that the thread looked up last.
    looked_up: Option<u64>,
}

/// Blocks that follow each other.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    blocks: u64,
    /// Number of the step that began it.
    step: usize,
}

impl Run {
    fn holds(&self, block: u64) -> bool {
        (self.first..self.first + self.blocks).contains(&block)
    }
}

impl DeviceReads {
    /// Takes note of a look-up.
    pub(super) fn look_up(&mut self, block: u64) {
        self.looked_up = Some(block);
    }

    /// Takes a read.
    pub(super) fn push(&mut self, first: u64, blocks: u64, step: usize) {
        match self.runs.last_mut() {
            Some(run) if run.first + run.blocks == first && run.blocks + blocks <= REQUEST_BLOCKS_MAX => {
                run.blocks += blocks
            }
            _ => self.runs.push(Run { first, blocks, step }),
        }
    }

    /// Decides the actions of the reads. `waits` if the thread waited for I/O after the last; `known` has the blocks that
    /// were accessed before. Returns the block that the thread then waits for, unless it is part of the actions.
    pub(super) fn decide(&mut self, steps: &mut Steps, waits: bool, known: &mut BlockSet) -> Option<u64> {
        let last = *self.runs.last()?;
        for run in &self.runs {
            known.insert(run.first, run.first + run.blocks);
            let action = RecordedAction::MetadataAhead { address: run.first, pages: run.blocks as u32 };
            steps.set_action(run.step, action);
        }
        let needed = self.looked_up.filter(|block| self.runs.iter().any(|run| run.holds(*block)));
        let is_single = self.runs.len() == 1 && last.blocks == 1;
        self.runs.clear();
        if waits && is_single {
            let address = last.first;
            let action = RecordedAction::Metadata { address, dirties: false, is_present: false };
            steps.set_action(last.step, action);
            return None;
        }
        waits.then(|| needed.unwrap_or(last.first + last.blocks - 1))
    }
}
