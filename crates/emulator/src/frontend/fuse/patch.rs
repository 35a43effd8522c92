//! Writes that are not whole blocks: the blocks are read, changed and written, one such write at a time.
//!
//! ```text
//! queue ─▶ read the blocks ─▶ change them ─▶ write the blocks ─▶ answer, next
//! ```
//! The write is handed out before anything else that arrives after the blocks were read, so that no other
//! write is undone by it.

use std::collections::VecDeque;

/// A write that is not whole blocks.
#[derive(Debug)]
pub(super) struct Patch {
    pub(super) unique: u64,
    /// The first of the blocks it touches, in bytes.
    pub(super) offset: u64,
    /// Offset of the write in these blocks.
    pub(super) skip: usize,
    pub(super) data: Vec<u8>,
    /// Length of the blocks in bytes. `blocks` is filled once they have been read.
    pub(super) blocks_bytes: u32,
    pub(super) blocks: Vec<u8>,
    pub(super) fua: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Reading,
    Changed,
    Writing,
}

/// Next step of a patch.
#[derive(Debug)]
pub(super) enum Step<'a> {
    Read(&'a Patch),
    Write(&'a Patch),
}

/// Writes that are not whole blocks, in order of arrival.
#[derive(Debug)]
pub(super) struct Patches {
    queue: VecDeque<Patch>,
    /// Of the first one.
    stage: Stage,
}

impl Default for Patches {
    fn default() -> Self {
        Self { queue: VecDeque::new(), stage: Stage::Waiting }
    }
}

impl Patches {
    pub(super) fn push(&mut self, patch: Patch) {
        self.queue.push_back(patch);
    }

    /// Returns the next step, if any, and marks it as handed out.
    pub(super) fn next(&mut self) -> Option<Step<'_>> {
        let first = self.queue.front()?;
        match self.stage {
            Stage::Waiting => {
                self.stage = Stage::Reading;
                Some(Step::Read(first))
            }
            Stage::Changed => {
                self.stage = Stage::Writing;
                Some(Step::Write(first))
            }
            Stage::Reading | Stage::Writing => None,
        }
    }

    /// The first one.
    pub(super) fn first(&self) -> &Patch {
        self.queue.front().expect("it was handed out")
    }

    pub(super) fn has_next(&self) -> bool {
        !self.queue.is_empty() && matches!(self.stage, Stage::Waiting | Stage::Changed)
    }

    /// Lets the blocks of the first one be read, and changes them.
    pub(super) fn change<E>(&mut self, read: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let first = self.queue.front_mut().expect("it is being read");
        first.blocks.resize(first.blocks_bytes as usize, 0);
        read(&mut first.blocks)?;
        first.blocks[first.skip..][..first.data.len()].copy_from_slice(&first.data);
        self.stage = Stage::Changed;
        Ok(())
    }

    /// Takes the first one out: it is done or has failed.
    pub(super) fn pop(&mut self) -> Patch {
        self.stage = Stage::Waiting;
        self.queue.pop_front().expect("it was handed out")
    }

    /// Returns the number of patches without a step that is handed out.
    pub(super) fn waiting_count(&self) -> usize {
        self.queue.len() - usize::from(matches!(self.stage, Stage::Reading | Stage::Writing))
    }
}
