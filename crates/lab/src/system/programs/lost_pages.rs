//! Pages that the machine took from memory though it had room: by a limit of a cgroup, by a kernel thread that pages out what
//! is idle (DAMON), or because somebody dropped the caches.
//!
//! ```text
//! read of a file     look-up of pages 0 to 3        they are in memory from now on
//! ⋮
//! read of the device, look-up of pages 0 to 3       they had left it
//! write to page 3, read of the device               the same, if the write changes a part of the page
//! ```
//! The model does not decide about these pages: they leave its memory, too, before the same access. If memory was scarce, the model itself
//! decides what leaves it.

use seeklab_workloads::host::RecordedAction;

use super::extents::ExtentMap;
use super::steps::Steps;

/// Reads of data that a thread submitted within a call, and its last write.
#[derive(Debug, Default)]
pub(super) struct DataReads {
    /// First block, number of blocks, and step.
    submitted: Vec<(u64, u64, usize)>,
    write: Option<Write>,
}

/// A write to a file, right before the current step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub(super) step: usize,
    pub(super) file: u32,
    /// First and last page, with true if it was in memory before.
    pub(super) edges: [(u64, bool); 2],
}

/// Pages that had left memory before a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) file: u32,
    first: u64,
    pages: u64,
    /// The read of the device.
    step: usize,
    /// The write that needed the page, one step before.
    write: Option<usize>,
}

impl DataReads {
    /// A call begins or ends.
    pub(super) fn clear(&mut self) {
        self.submitted.clear();
    }

    /// Another step comes. The write before it is the last step no more.
    pub(super) fn pass(&mut self) {
        self.write = None;
    }

    /// A process writes to a file.
    pub(super) fn write(&mut self, write: Write) {
        self.write = Some(write);
    }

    /// Takes a read of data from the device.
    pub(super) fn push(&mut self, first: u64, blocks: u64, step: usize) {
        self.submitted.push((first, blocks, step));
    }

    /// The write that the last read of the device may serve.
    pub(super) fn served_write(&self) -> Option<Write> {
        self.write
    }

    /// For the first and the last page of that write, true if the last read of the device has it: the file had held it.
    pub(super) fn needed_by_write(&self, write: &Write, extents: &ExtentMap) -> [bool; 2] {
        let Some(&(address, blocks, _)) = self.submitted.last() else { return [false; 2] };
        write
            .edges
            .map(|(page, _)| extents.place(page).is_some_and(|(at, _)| at.wrapping_sub(address) < blocks))
    }

    /// The page that the write needed, if it was in memory before.
    pub(super) fn lost_by_write(&self, write: &Write, is_needed: [bool; 2]) -> Option<Lost> {
        let &(_, _, step) = self.submitted.last()?;
        let mut edges = write.edges.into_iter().zip(is_needed);
        let ((first, _), _) = edges.find(|((_, was_there), is_needed)| *was_there && *is_needed)?;
        Some(Lost { file: write.file, first, pages: 1, step, write: Some(write.step) })
    }

    /// The pages of a look-up from `first` to `end` that the reads of the device before it brought back. `run` is the number of
    /// pages from one on that were in memory before.
    pub(super) fn lost_by_read(
        &mut self,
        (file, first, end): (u32, u64, u64),
        extents: &ExtentMap,
        run: impl Fn(u64) -> u64,
    ) -> Vec<Lost> {
        let mut lost = Vec::new();
        let mut page = first;
        while page < end && !self.submitted.is_empty() {
            let place = extents.place(page).filter(|_| run(page) > 0);
            let read = place.and_then(|(at, left)| {
                let position = self
                    .submitted
                    .iter()
                    .position(|(address, blocks, _)| at.wrapping_sub(*address) < *blocks)?;
                Some((position, at, left))
            });
            let Some((position, at, left)) = read else {
                page += 1;
                continue;
            };
            // A step has one action, so the read serves no other look-up.
            let (address, blocks, step) = self.submitted.remove(position);
            let pages = left.min(address + blocks - at).min(run(page));
            lost.push(Lost { file, first: page, pages, step, write: None });
            page += pages;
        }
        lost
    }
}

impl Lost {
    /// Number of pages.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    /// Takes the pages from the memory of the host before the access.
    pub(super) fn apply(&self, steps: &mut Steps) {
        let (Ok(first), Ok(pages)) = (u32::try_from(self.first), u32::try_from(self.pages)) else { return };
        let action = RecordedAction::Lose { file: self.file, first, pages };
        match self.write {
            None => steps.set_action(self.step, action),
            // The write comes a step later.
            Some(write) => {
                steps.set_action(self.step, steps.action(write));
                steps.set_action(write, action);
            }
        }
    }
}
