//! Files of a trace: their numbers, sizes and places, and which file a process means by a descriptor.

use std::collections::BTreeMap;

use seeklab_workloads::host::RecordedFile;

use super::extents::ExtentMap;

/// Files by the number of their inode.
#[derive(Debug, Default)]
pub(super) struct Files {
    numbers: BTreeMap<u64, u32>,
    files: Vec<File>,
}

#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) extents: ExtentMap,
    /// The block behind the last that was accessed.
    pub(super) end: u64,
    pub(super) is_cached: bool,
    pub(super) is_accessed: bool,
}

impl Files {
    /// The number of a file.
    pub(super) fn number(&mut self, inode: u64) -> u32 {
        *self.numbers.entry(inode).or_insert_with(|| {
            self.files.push(File::default());
            self.files.len() as u32 - 1
        })
    }

    pub(super) fn file(&mut self, number: u32) -> &mut File {
        &mut self.files[number as usize]
    }

    pub(super) fn finish(self) -> Vec<RecordedFile> {
        let recorded = |file: File| RecordedFile {
            pages: file.end.max(file.extents.end()),
            extents: file.extents.extents(),
            is_cached: file.is_cached,
        };
        self.files.into_iter().map(recorded).collect()
    }
}

/// Descriptors of the processes.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    files: BTreeMap<(u32, u64), u32>,
    /// Descriptors whose writes are synchronous.
    synchronous: BTreeMap<(u32, u64), ()>,
    /// Process that made a process.
    pub(super) parents: BTreeMap<u32, u32>,
}

impl Descriptors {
    pub(super) fn set(&mut self, process: u32, descriptor: u64, file: u32) {
        self.files.insert((process, descriptor), file);
    }

    pub(super) fn open(&mut self, process: u32, descriptor: u64, is_synchronous: bool) {
        self.close(process, descriptor);
        if is_synchronous {
            self.synchronous.insert((process, descriptor), ());
        }
    }

    pub(super) fn close(&mut self, process: u32, descriptor: u64) {
        self.files.remove(&(process, descriptor));
        self.synchronous.remove(&(process, descriptor));
    }

    pub(super) fn is_synchronous(&self, process: u32, descriptor: u64) -> bool {
        self.synchronous.contains_key(&(process, descriptor))
    }

    /// The file of a descriptor, which a process may have from the one that made it.
    pub(super) fn file(&self, process: u32, descriptor: u64) -> Option<u32> {
        let mut process = process;
        for _ in 0..=self.parents.len() {
            if let Some(file) = self.files.get(&(process, descriptor)) {
                return Some(*file);
            }
            process = *self.parents.get(&process)?;
        }
        None
    }
}
