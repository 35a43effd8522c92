//! Files of an application: they come into being, grow and go while the host runs.

use std::ops::Range;
use std::sync::Arc;

use super::process::file_number;
use super::read_ahead::ReadAhead;
use super::{Linux, LinuxFile, METADATA};
use crate::host::recorded::{RecordedExtent, RecordedFile};

impl Linux {
    /// Adds an empty file that can have so many blocks. Returns its number, as that of a recorded file.
    pub(in crate::host) fn add_file(&mut self, pages_max: u64) -> u32 {
        let first_page = self.end_page;
        self.end_page += pages_max;
        self.files.push(LinuxFile {
            first_page,
            recorded: Arc::new(RecordedFile::default()),
            read_ahead: ReadAhead::default(),
            is_sequential: false,
            dirty_since: None,
            each_pages: u64::MAX,
        });
        self.files.len() as u32 - 1 - file_number(0)
    }

    /// A file grows by a block at that address.
    pub(in crate::host) fn append_page(&mut self, file: u32, address: u64) {
        let recorded = Arc::make_mut(&mut self.file_mut(file).recorded);
        match recorded.extents.last_mut() {
            Some(last) if last.address + last.pages == address => last.pages += 1,
            _ => recorded.extents.push(RecordedExtent { first: recorded.pages, address, pages: 1 }),
        }
        recorded.pages += 1;
    }

    /// A file that was deleted, and has no blocks in memory, has no places either.
    pub(in crate::host) fn clear_file(&mut self, file: u32) {
        let number = file_number(file);
        let state = &mut self.files[number as usize];
        let recorded = Arc::make_mut(&mut state.recorded);
        recorded.extents.clear();
        recorded.pages = 0;
        // The file that gets the number next is not dirty yet.
        if state.dirty_since.take().is_some() {
            self.flusher.remove(number);
        }
    }

    /// Number of blocks of a file.
    pub(in crate::host) fn file_pages(&self, file: u32) -> u64 {
        self.file(file).recorded.pages
    }

    /// Places of a file on the device.
    pub(in crate::host) fn extents(&self, file: u32) -> &[RecordedExtent] {
        &self.file(file).recorded.extents
    }

    /// Address on the device of a block, and the number of blocks that follow it there.
    ///
    /// # Panics
    /// If the file has no such block.
    pub(in crate::host) fn file_place(&self, file: u32, index: u64) -> (u64, u64) {
        self.file(file).recorded.place(index).expect("the file has the block")
    }

    /// A process opens a file: read-ahead begins anew.
    pub(in crate::host) fn open_file(&mut self, file: u32) {
        self.file_mut(file).read_ahead = ReadAhead::default();
    }

    /// Blocks of a file among those of all files.
    pub(in crate::host) fn pages_of(&self, file: u32) -> Range<u64> {
        let file = self.file(file);
        file.first_page..file.first_page + file.recorded.pages
    }

    /// Blocks of all files but metadata.
    pub(in crate::host) fn data_pages(&self) -> Range<u64> {
        self.files[METADATA as usize].recorded.pages..self.end_page
    }

    /// Returns true if a block in that part of all blocks is dirty.
    pub(in crate::host) fn is_dirty(&self, pages: Range<u64>) -> bool {
        self.dirty_pages.next(pages.start, pages.end).is_some()
    }

    fn file(&self, file: u32) -> &LinuxFile {
        &self.files[file_number(file) as usize]
    }

    fn file_mut(&mut self, file: u32) -> &mut LinuxFile {
        &mut self.files[file_number(file) as usize]
    }
}
