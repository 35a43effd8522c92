//! Place of the journal of an ext4 file system, from its superblock and that of the journal.
//!
//! ```text
//! superblock, byte 1024 ─▶ copy of the journal's inode ─▶ extents ─▶ first block: superblock of the journal ─▶ next block
//! ```
//! # Scope and limits
//! A journal on another device, one without extents, and one with more extents than its inode holds have no place here.
//!
//! # References
//! Documentation of Linux, filesystems/ext4: super.rst (`s_jnl_blocks`), dynamic.rst (extent tree), journal.rst.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// Journal of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalPlace {
    /// Size of a block.
    pub block_bytes: u64,
    /// Parts that hold transactions, in the order of the journal.
    pub parts: Vec<JournalPart>,
    /// Block of the journal at which the next transaction begins, or a block shortly before: 0 is the first of the first part.
    pub next_block: u64,
}

/// Blocks of a journal that follow each other on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalPart {
    /// First block on the device.
    pub device_block: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// Blocks of a journal at most: 32 GiB of blocks of 4 KiB.
const BLOCKS_MAX: u64 = 1 << 23;

impl JournalPlace {
    /// Reads the place of the journal of a device. `None` if there is no journal, or none that is read.
    pub(super) fn of_device(path: &Path) -> Option<Self> {
        let device = open(path)?;
        let inode = Inode::parse(&read(&device, 0)?[1024..2048].try_into().ok()?)?;
        let first = inode.extents.first()?.device_block.checked_mul(inode.block_bytes)?;
        // Blocks may be smaller than what is read at a time.
        let journal = read(&device, first / READ_BYTES * READ_BYTES)?;
        let within = (first % READ_BYTES) as usize;
        inode.place(&journal[within..within + 1024].try_into().ok()?)
    }
}

/// Bytes that are read at a time, from a multiple of them on.
const READ_BYTES: u64 = 4096;

/// Opens a device for reads past the page cache: what is in memory at the beginning of a trace must stay as it was.
fn open(path: &Path) -> Option<File> {
    let direct = OFlags::DIRECT.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(direct).open(path);
    opened.or_else(|_| File::open(path)).ok()
}

fn read(device: &File, offset: u64) -> Option<Vec<u8>> {
    let bytes = READ_BYTES as usize;
    let mut buffer = vec![0; 2 * bytes];
    let aligned = buffer.as_ptr().align_offset(bytes);
    let part = buffer.get_mut(aligned..aligned + bytes)?;
    device.read_exact_at(part, offset).ok()?;
    Some(part.to_vec())
}

/// Inode of a journal.
#[derive(Debug, PartialEq, Eq)]
struct Inode {
    block_bytes: u64,
    extents: Vec<JournalPart>,
}

impl Inode {
    /// Reads the copy of the inode in a superblock.
    fn parse(superblock: &[u8; 1024]) -> Option<Self> {
        const HAS_JOURNAL: u32 = 4;
        let half = |offset: usize| u16::from_le_bytes([superblock[offset], superblock[offset + 1]]);
        let word = |offset: usize| u32::from(half(offset)) | u32::from(half(offset + 2)) << 16;
        let is_known =
            half(0x38) == 0xef53 && word(0x5c) & HAS_JOURNAL != 0 && word(0xe4) == 0 && superblock[0xfd] == 1;
        let block_bytes = 1024_u64.checked_shl(word(0x18)).filter(|bytes| *bytes <= 65_536)?;
        // The header of an extent tree without inner nodes, and at most four entries of 12 bytes.
        let tree = 0x10c;
        let entries = usize::from(half(tree + 2));
        if !is_known || half(tree) != 0xf30a || half(tree + 6) != 0 || !(1..=4).contains(&entries) {
            return None;
        }
        let mut extents = Vec::with_capacity(entries);
        let mut file_block = 0;
        for entry in (0..entries).map(|entry| tree + 12 + 12 * entry) {
            let blocks = half(entry + 4);
            // Longer extents are unwritten ones.
            if u64::from(word(entry)) != file_block || !(1..=0x8000).contains(&blocks) {
                return None;
            }
            file_block += u64::from(blocks);
            let device_block = u64::from(half(entry + 6)) << 32 | u64::from(word(entry + 8));
            extents.push(JournalPart { device_block, blocks: blocks.into() });
        }
        Some(Self { block_bytes, extents })
    }

    /// The place of the transactions according to the journal's superblock.
    fn place(self, journal: &[u8; 1024]) -> Option<JournalPlace> {
        const FAST_COMMIT: u32 = 0x20;
        let word = |offset: usize| {
            let bytes: [u8; 4] = journal[offset..offset + 4].try_into().expect("four bytes");
            u32::from_be_bytes(bytes)
        };
        if word(0) != 0xc03b_3998 || u64::from(word(0x0c)) != self.block_bytes {
            return None;
        }
        let (first, length, tail, head) = (word(0x14), word(0x10), word(0x1c), word(0x58));
        let fast = if word(0x28) & FAST_COMMIT != 0 { word(0x54) } else { 0 };
        let (first, end) = (u64::from(first), u64::from(length.saturating_sub(fast)));
        let mut parts = Vec::with_capacity(self.extents.len());
        let mut file_block = 0;
        for extent in &self.extents {
            let (from, to) = (first.max(file_block), end.min(file_block + extent.blocks));
            if from < to {
                parts.push(JournalPart {
                    device_block: extent.device_block + (from - file_block),
                    blocks: to - from,
                });
            }
            file_block += extent.blocks;
        }
        // An empty journal remembers where it ended, if the kernel goes on there.
        let next = if tail == 0 { head } else { tail };
        let blocks: u64 = parts.iter().map(|part| part.blocks).sum();
        let next_block = u64::from(next).checked_sub(first).filter(|next| *next < blocks).unwrap_or(0);
        (1..=BLOCKS_MAX).contains(&blocks).then_some(JournalPlace {
            block_bytes: self.block_bytes,
            parts,
            next_block,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A superblock whose journal has these extents.
    fn superblock(extents: &[(u32, u16, u64)]) -> [u8; 1024] {
        let mut bytes = [0; 1024];
        bytes[0x38..0x3a].copy_from_slice(&0xef53_u16.to_le_bytes());
        (bytes[0x5c], bytes[0xfd], bytes[0x18]) = (4, 1, 2);
        bytes[0x10c..0x10e].copy_from_slice(&0xf30a_u16.to_le_bytes());
        bytes[0x10e] = extents.len() as u8;
        for (entry, (file_block, blocks, device_block)) in extents.iter().enumerate() {
            let at = 0x118 + 12 * entry;
            bytes[at..at + 4].copy_from_slice(&file_block.to_le_bytes());
            bytes[at + 4..at + 6].copy_from_slice(&blocks.to_le_bytes());
            bytes[at + 6..at + 8].copy_from_slice(&((device_block >> 32) as u16).to_le_bytes());
            bytes[at + 8..at + 12].copy_from_slice(&(*device_block as u32).to_le_bytes());
        }
        bytes
    }

    fn journal(length: u32, tail: u32, head: u32) -> [u8; 1024] {
        let mut bytes = [0; 1024];
        let words = [(0, 0xc03b_3998), (0x0c, 4096), (0x10, length), (0x14, 1), (0x1c, tail), (0x58, head)];
        for (offset, word) in words {
            bytes[offset..offset + 4].copy_from_slice(&u32::to_be_bytes(word));
        }
        bytes
    }

    #[test]
    fn transactions_lie_behind_the_superblock_of_the_journal() {
        let inode = || Inode::parse(&superblock(&[(0, 100, 5000), (100, 50, 1 << 33)])).unwrap();
        let place = inode().place(&journal(140, 0, 120)).unwrap();
        let parts: Vec<_> = place.parts.iter().map(|part| (part.device_block, part.blocks)).collect();
        assert_eq!((parts, place.next_block), (vec![(5001, 99), (1 << 33, 40)], 119));
        assert_eq!(
            inode().place(&journal(140, 7, 120)).unwrap().next_block,
            6,
            "what is not written back begins there"
        );
        assert_eq!(inode().place(&journal(140, 0, 0)).unwrap().next_block, 0);
        assert_eq!(inode().place(&journal(140, 0, 400)).unwrap().next_block, 0, "beyond the journal");
    }

    #[test]
    fn journals_that_cannot_be_read_have_no_place() {
        let whole = superblock(&[(0, 100, 5000)]);
        assert!(Inode::parse(&whole).is_some());
        for (offset, byte) in [
            (0x38, 0),
            (0x5c, 0),
            (0xe4, 1),
            (0xfd, 0),
            (0x18, 40),
            (0x10c, 0),
            (0x10e, 0),
            (0x10e, 5),
            (0x112, 1),
        ] {
            let mut broken = whole;
            broken[offset] = byte;
            assert_eq!(Inode::parse(&broken), None, "{offset:#x}");
        }
        assert_eq!(Inode::parse(&superblock(&[(0, 100, 5000), (101, 50, 9000)])), None, "a gap");
        assert_eq!(Inode::parse(&superblock(&[(0, 0x8001, 5000)])), None, "unwritten");
        let inode = || Inode::parse(&whole).unwrap();
        assert_eq!(inode().place(&[0; 1024]), None);
        assert_eq!(inode().place(&journal(1, 0, 0)), None, "no room");
    }

    #[test]
    fn journal_of_a_new_file_system_is_where_debugfs_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let make = Command::new("mkfs.ext4")
            .args(["-q", "-b", "4096", "-J", "size=8"])
            .arg(&image)
            .arg("64M")
            .output();
        let shown = Command::new("debugfs").args(["-R", "blocks <8>"]).arg(&image).output();
        let (Ok(make), Ok(shown)) = (make, shown) else {
            eprintln!("skipped: mkfs.ext4 and debugfs are not installed");
            return;
        };
        assert!(make.status.success(), "{make:?}");
        let text = String::from_utf8(shown.stdout).unwrap();
        let blocks: Vec<u64> = text.split_whitespace().map(|block| block.parse().unwrap()).collect();
        let place = JournalPlace::of_device(&image).unwrap();
        let found: Vec<u64> =
            place.parts.iter().flat_map(|part| part.device_block..part.device_block + part.blocks).collect();
        // The first block is the superblock of the journal. debugfs lists the block of the tree, if there is one.
        assert_eq!((found, place.block_bytes, place.next_block), (blocks[1..].to_vec(), 4096, 0));
    }
}
