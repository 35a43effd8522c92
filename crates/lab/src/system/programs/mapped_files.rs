//! Files that processes have mapped, by the blocks of the device that hold their pages.

use std::collections::BTreeSet;

use super::extents::ExtentMap;

/// Bits of the number of a page within a file.
const PAGE_BITS: u32 = 32;

/// Pages of mapped files by their blocks on the device: a change of a mapped page names the block alone.
#[derive(Debug, Default)]
pub(super) struct MappedFiles {
    files: BTreeSet<u32>,
    /// For each block of the device, the number of the file above that of the page.
    pages: ExtentMap,
}

impl MappedFiles {
    /// Takes note that a process has mapped a file.
    pub(super) fn add(&mut self, file: u32, extents: &ExtentMap) {
        if self.files.insert(file) {
            for extent in extents.extents() {
                let page = u64::from(file) << PAGE_BITS | extent.first;
                self.pages.insert(extent.address, page, extent.pages, 0);
            }
        }
    }

    /// The file and the page that a block of the device holds, if it belongs to a mapped file.
    pub(super) fn page(&self, block: u64) -> Option<(u32, u32)> {
        let (page, _) = self.pages.place(block)?;
        Some(((page >> PAGE_BITS) as u32, page as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_device_name_pages_of_files_that_were_mapped() {
        let mut extents = ExtentMap::default();
        extents.insert(0, 100, 4, 1);
        extents.insert(9, 50, 2, 1);
        let mut mapped = MappedFiles::default();
        assert_eq!(mapped.page(101), None);
        mapped.add(7, &extents);
        assert_eq!([101, 51, 104].map(|block| mapped.page(block)), [Some((7, 1)), Some((7, 10)), None]);
    }
}
