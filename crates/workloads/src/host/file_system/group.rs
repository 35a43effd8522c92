//! Block groups: which blocks and inodes are free, and where the metadata of a group lies.
//!
//! ```text
//! group 0            group 1                     128 MiB each
//! |S|bb|ib|itable|…data…|bb|ib|itable|…data…|    S superblock and descriptors, bb block bitmap,
//!                                                ib inode bitmap, itable inode table
//! ```
//!
//! # References
//! R. Card, T. Ts'o and S. Tweedie, Design and Implementation of the Second Extended Filesystem, 1994. mke2fs.conf(5):
//! blocks of 4 KiB, one inode per 16 KiB, inodes of 256 bytes.

use crate::host::PAGE_BYTES;
use crate::host::page_set::PageSet;

/// Blocks of a group: one for each bit of a bitmap block.
pub(super) const GROUP_PAGES: u64 = PAGE_BYTES * 8;
/// One inode per 16 KiB of the group.
const GROUP_INODES: u64 = GROUP_PAGES * PAGE_BYTES / 16_384;
const INODES_PER_PAGE: u64 = PAGE_BYTES / 256;
const INODE_TABLE_PAGES: u64 = GROUP_INODES / INODES_PER_PAGE;
/// A superblock and descriptors before the first group's bitmaps.
const SUPER_PAGES: u64 = 2;
const GROUP_META_PAGES: u64 = SUPER_PAGES + 2 + INODE_TABLE_PAGES;

/// The smallest device on which a file system fits, in blocks.
pub(super) const CAPACITY_PAGES_MIN: u64 = 2 * GROUP_META_PAGES;

/// Bitmaps of the groups are kept in memory: 4 KiB for 128 MiB. Beyond this, the device's end is unused.
pub(super) const CAPACITY_PAGES_MAX: u64 = (1 << 40) / PAGE_BYTES;

/// The groups of a device.
#[derive(Debug, Clone)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug, Clone)]
struct Group {
    /// A bit per block of the group, set where it is taken.
    taken: Vec<u64>,
    free_pages: u64,
    free_inodes: PageSet,
    next_inode: u64,
}

impl Groups {
    /// The groups of an empty file system.
    pub(super) fn new(capacity_pages: u64) -> Self {
        let mut groups = Vec::new();
        let mut left = capacity_pages;
        while left > GROUP_META_PAGES {
            groups.push(Group::new(left.min(GROUP_PAGES)));
            left -= left.min(GROUP_PAGES);
        }
        Self(groups)
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Takes a free inode of that group, else of the next group with any.
    pub(super) fn allocate_inode(&mut self, group: u64) -> Option<u64> {
        let count = self.len();
        (0..count).map(|step| (group + step) % count).find_map(|group| {
            let place = &mut self.0[group as usize];
            let index = match place.free_inodes.next(0, GROUP_INODES) {
                Some(index) => {
                    place.free_inodes.remove(index);
                    index
                }
                None if place.next_inode < GROUP_INODES => {
                    place.next_inode += 1;
                    place.next_inode - 1
                }
                None => return None,
            };
            Some(group * GROUP_INODES + index)
        })
    }

    pub(super) fn release_inode(&mut self, inode: u64) {
        self.0[(inode / GROUP_INODES) as usize].free_inodes.insert(inode % GROUP_INODES);
    }

    /// Takes the first free block from `goal` on, in its group, else in the next group with any.
    pub(super) fn allocate_page(&mut self, goal: u64) -> Option<u64> {
        let count = self.len();
        let (first, from) = ((goal / GROUP_PAGES) % count, goal % GROUP_PAGES);
        (0..=count).find_map(|step| {
            let group = (first + step) % count;
            let page = self.0[group as usize].take(if step == 0 { from } else { 0 })?;
            Some(group * GROUP_PAGES + page)
        })
    }

    pub(super) fn release_page(&mut self, page: u64) {
        self.0[(page / GROUP_PAGES) as usize].release(page % GROUP_PAGES);
    }
}

impl Group {
    fn new(pages: u64) -> Self {
        let mut group = Self {
            taken: vec![0; (GROUP_PAGES / 64) as usize],
            free_pages: pages - GROUP_META_PAGES,
            free_inodes: PageSet::default(),
            // The first eleven inodes of a file system are reserved; here, of every group.
            next_inode: 11,
        };
        for page in (0..GROUP_META_PAGES).chain(pages..GROUP_PAGES) {
            group.taken[(page / 64) as usize] |= 1 << (page % 64);
        }
        group
    }

    /// Takes the first free block from `from` on.
    fn take(&mut self, from: u64) -> Option<u64> {
        if self.free_pages == 0 {
            return None;
        }
        let first = from / 64;
        for word in first..GROUP_PAGES / 64 {
            let mask = if word == first { u64::MAX << (from % 64) } else { u64::MAX };
            let free = !self.taken[word as usize] & mask;
            if free != 0 {
                let bit = u64::from(free.trailing_zeros());
                self.taken[word as usize] |= 1 << bit;
                self.free_pages -= 1;
                return Some(word * 64 + bit);
            }
        }
        None
    }

    fn release(&mut self, page: u64) {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        assert!(self.taken[word] & bit != 0, "page {page} of a group was free already");
        self.taken[word] &= !bit;
        self.free_pages += 1;
    }
}

/// The group that a file of that inode lies in, as the address of its first block.
pub(super) const fn group_start(inode: u64) -> u64 {
    inode / GROUP_INODES * GROUP_PAGES
}

/// The block bitmap that has the bit of a block.
pub(super) const fn block_bitmap(page: u64) -> u64 {
    page / GROUP_PAGES * GROUP_PAGES + SUPER_PAGES
}

pub(super) const fn inode_bitmap(inode: u64) -> u64 {
    group_start(inode) + SUPER_PAGES + 1
}

/// The block of the inode table that has an inode.
pub(super) const fn inode_page(inode: u64) -> u64 {
    group_start(inode) + SUPER_PAGES + 2 + inode % GROUP_INODES / INODES_PER_PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_the_goal_and_metadata_is_never_taken() {
        let mut groups = Groups::new(2 * GROUP_PAGES);
        assert_eq!((groups.len(), groups.allocate_page(0)), (2, Some(GROUP_META_PAGES)));
        assert_eq!(groups.allocate_page(5000), Some(5000));
        assert_eq!(groups.allocate_page(5000), Some(5001));
        groups.release_page(5000);
        assert_eq!(groups.allocate_page(5000), Some(5000));
        let rest = std::iter::from_fn(|| groups.allocate_page(GROUP_PAGES - 1)).count() as u64;
        assert_eq!(rest, 2 * (GROUP_PAGES - GROUP_META_PAGES) - 3, "a full group gives way to the next");
    }

    #[test]
    fn lowest_free_inode_of_the_group_is_taken() {
        let mut groups = Groups::new(2 * GROUP_PAGES);
        let inodes: Vec<_> = (0..3).map(|_| groups.allocate_inode(1).expect("there are inodes")).collect();
        assert_eq!(inodes, [11, 12, 13].map(|index| GROUP_INODES + index));
        inodes[..2].iter().rev().for_each(|inode| groups.release_inode(*inode));
        assert_eq!(groups.allocate_inode(1), Some(inodes[0]));
        assert_eq!((inode_page(inodes[0]), inode_bitmap(inodes[0])), (GROUP_PAGES + 4, GROUP_PAGES + 3));
        assert_eq!(block_bitmap(GROUP_PAGES + 9), GROUP_PAGES + 2);
    }
}
