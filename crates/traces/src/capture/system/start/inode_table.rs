//! Inodes of an ext2, ext3 or ext4 file system whose blocks are in memory.
//!
//! ```text
//! super block ─▶ group descriptors ─▶ tables of inodes ─▶ numbers and generations of files
//! ```
//! A file whose pages are in memory has its inode there, too, and the block of the inode table usually as well. Only blocks in memory
//! are read, so a cold file system stays cold.
//!
//! # Scope and limits
//! File systems with `meta_bg` have their descriptors elsewhere and are not read.
//!
//! # References
//! Linux: Documentation/filesystems/ext4 (super block, group descriptors, inode table).

/// Place and size of the super block.
pub(super) const SUPER_BLOCK: (u64, usize) = (1024, 1024);
const MAGIC: u16 = 0xef53;
/// Incompatible features: descriptors elsewhere, and descriptors of 64 bytes.
const META_GROUPS: u32 = 0x10;
const WIDE_DESCRIPTORS: u32 = 0x80;
/// Mode of a regular file, and the bits of the type.
const REGULAR: u16 = 0x8000;
const TYPE: u16 = 0xf000;
/// Bytes of an inode that say what it is.
const INODE_BYTES_MIN: u64 = 128;

fn half(bytes: &[u8], place: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(place..)?.first_chunk()?))
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(place..)?.first_chunk()?))
}

/// Layout of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    block_bytes: u64,
    groups: u64,
    inodes_per_group: u64,
    inode_bytes: u64,
    descriptors_at: u64,
    descriptor_bytes: u64,
}

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inode {
    pub(super) number: u32,
    pub(super) generation: u32,
}

impl Layout {
    /// Bytes of a block.
    pub(super) const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The layout in a super block. `None` if it is none, or of a file system that is laid out otherwise.
    pub(super) fn parse(block: &[u8]) -> Option<Self> {
        let features = word(block, 96)?;
        if half(block, 56)? != MAGIC || features & META_GROUPS != 0 {
            return None;
        }
        let block_bytes =
            1024_u64.checked_shl(word(block, 24)?).filter(|bytes| (1024..=65_536).contains(bytes))?;
        let (first_block, per_group) = (u64::from(word(block, 20)?), u64::from(word(block, 32)?));
        let is_wide = features & WIDE_DESCRIPTORS != 0;
        let high = if is_wide { u64::from(word(block, 336)?) } else { 0 };
        let blocks = u64::from(word(block, 4)?) | high << 32;
        let descriptor_bytes = if is_wide { u64::from(half(block, 254)?) } else { 32 };
        // Revision 0 has inodes of 128 bytes.
        let inode_bytes = if word(block, 76)? == 0 { 128 } else { u64::from(half(block, 88)?) };
        let is_whole = per_group > 0 && descriptor_bytes >= 32 && inode_bytes >= INODE_BYTES_MIN;
        (is_whole && inode_bytes <= block_bytes && blocks > first_block).then(|| Self {
            block_bytes,
            groups: (blocks - first_block).div_ceil(per_group),
            inodes_per_group: u64::from(word(block, 40).unwrap_or(0)),
            inode_bytes,
            descriptors_at: (first_block + 1) * block_bytes,
            descriptor_bytes,
        })
    }

    /// Number of groups.
    pub(super) const fn groups(&self) -> u64 {
        self.groups
    }

    /// Place and size of the descriptor of a group.
    pub(super) const fn descriptor(&self, group: u64) -> (u64, usize) {
        (self.descriptors_at + group * self.descriptor_bytes, self.descriptor_bytes as usize)
    }

    /// Place and size of the inode table of a group, from its descriptor.
    pub(super) fn table(&self, descriptor: &[u8]) -> Option<(u64, u64)> {
        let high = if self.descriptor_bytes >= 64 { word(descriptor, 40)? } else { 0 };
        let block = u64::from(word(descriptor, 8)?) | u64::from(high) << 32;
        Some((block.checked_mul(self.block_bytes)?, self.inodes_per_group * self.inode_bytes))
    }

    /// Regular files in a part of the inode table of a group, which begins with an inode `offset` bytes into the table.
    pub(super) fn files(&self, group: u64, offset: u64, part: &[u8]) -> Vec<Inode> {
        let first = group * self.inodes_per_group + offset / self.inode_bytes;
        let inodes = part.chunks_exact(self.inode_bytes as usize).zip(first..);
        let file = |(bytes, index): (&[u8], u64)| {
            let is_used = half(bytes, 26)? > 0;
            let is_file = half(bytes, 0)? & TYPE == REGULAR;
            let number = u32::try_from(index + 1).ok()?;
            (is_used && is_file).then_some(Inode { number, generation: word(bytes, 100)? })
        };
        inodes.filter_map(file).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn hostile_super_blocks_are_refused() {
        assert_eq!(Layout::parse(&[]), None);
        let mut block = vec![0xff; 1024];
        block[56..58].copy_from_slice(&MAGIC.to_le_bytes());
        assert_eq!(Layout::parse(&block), None);
        block[96..100].fill(0);
        assert_eq!(Layout::parse(&block), None, "its blocks are too large");
        block[24..28].fill(0);
        block[32..36].fill(0);
        assert_eq!(Layout::parse(&block), None, "its groups are empty");
    }

    /// Number of files in the images.
    const FILES: usize = 40;

    /// An image that mke2fs fills from a folder. `None` if there is no mke2fs.
    fn image(arguments: &[&str]) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let (files, image) = (folder.path().join("files"), folder.path().join("image"));
        std::fs::create_dir_all(files.join("sub")).unwrap();
        (0..FILES).for_each(|file| std::fs::write(files.join(format!("sub/{file}")), "some text").unwrap());
        let mut made = Command::new("mke2fs");
        made.args(arguments).args(["-q", "-d"]).arg(&files).arg(&image).arg("48M");
        if !made.status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: there is no mke2fs");
            return None;
        }
        Some(std::fs::read(&image).unwrap())
    }

    #[test]
    fn files_of_an_image_are_found() {
        for arguments in
            [&["-t", "ext4"][..], &["-t", "ext2", "-b", "1024"], &["-t", "ext4", "-O", "^64bit", "-I", "128"]]
        {
            let Some(image) = image(arguments) else { return };
            let part = |(place, length): (u64, usize)| &image[place as usize..][..length];
            let layout = Layout::parse(part(SUPER_BLOCK)).expect("it is laid out so");
            let mut found = Vec::new();
            for group in 0..layout.groups() {
                let (table, length) = layout.table(part(layout.descriptor(group))).unwrap();
                found.extend(layout.files(group, 0, part((table, length as usize))));
            }
            // Inodes below 11 are those of the file system.
            let own = found.iter().filter(|inode| inode.number >= 11).count();
            assert_eq!(own, FILES, "{arguments:?}");
        }
    }
}
