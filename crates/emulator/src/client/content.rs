//! Data that a workload without data writes, so that its reads can be checked.
//!
//! ```text
//! block: | address | version | words that follow from seed, address, version and place … |
//! ```
//! Every write gives its blocks a new version. A read must return exactly the last version of every block
//! that was written before. Old, zero, torn and misplaced blocks are distinguished.
//!
//! # Scope and limits
//! Blocks that were never written, or discarded since, may hold anything and are not checked. Requests
//! that conflict must not be outstanding together, or it is open which version is the last.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A block that did not hold what was written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Address of the block.
    pub offset_bytes: u64,
    /// Its last version, counted from one.
    pub expected_version: u64,
    /// The address that its first word names.
    pub found_address: u64,
    /// The version that its second word names.
    pub found_version: u64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset_bytes, expected_version, found_address, found_version } = self;
        write!(formatter, "the block at {offset_bytes} should hold version {expected_version} and ")?;
        if (*found_address, *found_version) == (0, 0) {
            write!(formatter, "is zero at its beginning")
        } else if found_address != offset_bytes {
            write!(formatter, "holds something else, which begins {found_address:#x}, {found_version:#x}")
        } else if found_version != expected_version {
            write!(formatter, "holds version {found_version}")
        } else {
            write!(formatter, "is damaged behind its first two words")
        }
    }
}

/// The versions of all blocks that were written.
#[derive(Debug)]
pub(super) struct Content {
    seed: u64,
    block_bytes: u64,
    versions: BTreeMap<u64, u64>,
    /// Blocks written so far: versions of all blocks differ.
    written: u64,
}

impl Content {
    pub(super) fn new(seed: u64, block_bytes: u64) -> Self {
        assert!(block_bytes >= 16 && block_bytes.is_multiple_of(8), "a block holds its address and version");
        Self { seed, block_bytes, versions: BTreeMap::new(), written: 0 }
    }

    /// New bytes for a range of whole blocks; returns their version.
    pub(super) fn write(&mut self, offset: u64, buffer: &mut [u8]) -> u64 {
        self.written += 1;
        let step = self.block_bytes as usize;
        let addresses = (offset..).step_by(step).take(buffer.len() / step);
        let version = self.written;
        self.versions.extend(addresses.map(|address| (address, version)));
        self.write_again(offset, buffer)
    }

    /// The bytes of the last write of a range of whole blocks, which get a new version where the last was forgotten;
    /// returns the version of the first.
    pub(super) fn write_again(&mut self, offset: u64, buffer: &mut [u8]) -> u64 {
        let step = self.block_bytes as usize;
        for (address, block) in (offset..).step_by(step).zip(buffer.chunks_exact_mut(step)) {
            let version = *self.versions.entry(address).or_insert_with(|| {
                self.written += 1;
                self.written
            });
            for (index, bytes) in block.chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&word(self.seed, address, version, index).to_le_bytes());
            }
        }
        self.versions.get(&offset).copied().unwrap_or_default()
    }

    /// The blocks hold nothing any more.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        let addresses: Vec<u64> = self.versions.range(range).map(|(address, _)| *address).collect();
        addresses.iter().for_each(|address| {
            self.versions.remove(address);
        });
    }

    /// The ranges that hold what was written, at most `length_max` bytes each.
    pub(super) fn ranges(&self, length_max: u64) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for &address in self.versions.keys() {
            match ranges.last_mut() {
                Some(last) if last.end == address && address - last.start < length_max => {
                    last.end += self.block_bytes;
                }
                _ => ranges.push(address..address + self.block_bytes),
            }
        }
        ranges
    }

    /// Compares what was read; returns how many bytes could be compared.
    pub(super) fn check(&self, offset: u64, bytes: &[u8], mismatches: &mut dyn FnMut(Mismatch)) -> u64 {
        let mut compared = 0;
        for (&address, &version) in self.versions.range(offset..offset + bytes.len() as u64) {
            let at = (address - offset) as usize;
            let block = &bytes[at..at + self.block_bytes as usize];
            compared += self.block_bytes;
            if !is_version(self.seed, address, version, block) {
                mismatches(Mismatch::of(address, version, block));
            }
        }
        compared
    }
}

impl Mismatch {
    /// A block at `address` that should hold `version`.
    pub(super) fn of(address: u64, version: u64, block: &[u8]) -> Self {
        Self {
            offset_bytes: address,
            expected_version: version,
            found_address: read_word(&block[..8]),
            found_version: read_word(&block[8..16]),
        }
    }
}

/// Returns true if the block holds `version`, or a later one, of what is written to `address`.
pub(super) fn is_version_from(seed: u64, address: u64, version: u64, block: &[u8]) -> bool {
    let found = read_word(&block[8..16]);
    found >= version && is_version(seed, address, found, block)
}

fn is_version(seed: u64, address: u64, version: u64, block: &[u8]) -> bool {
    let mut words = block.chunks_exact(8).map(read_word).enumerate();
    words.all(|(index, found)| found == word(seed, address, version, index))
}

fn read_word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes are eight"))
}

/// SplitMix64's finaliser over seed, address, version and place.
fn word(seed: u64, address: u64, version: u64, index: usize) -> u64 {
    match index {
        0 => address,
        1 => version,
        _ => {
            let mut z = seed ^ address.rotate_left(32) ^ version.rotate_left(16);
            z = z.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z ^ (z >> 27)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &Content, offset: u64, bytes: &[u8]) -> (u64, Vec<String>) {
        let mut found = Vec::new();
        let compared = content.check(offset, bytes, &mut |mismatch| found.push(mismatch.to_string()));
        (compared, found)
    }

    #[test]
    fn every_kind_of_wrong_block_is_distinguished() {
        let mut content = Content::new(7, 512);
        let mut first = vec![0; 2048];
        content.write(1024, &mut first);
        assert_eq!(check(&content, 1024, &first), (2048, vec![]));
        // Blocks that were never written are not looked at.
        assert_eq!(check(&content, 0, &[&[9; 1024][..], &first].concat()), (2048, vec![]));
        let mut again = vec![0; 2048];
        content.write_again(1024, &mut again);
        assert_eq!(again, first);
        let mut second = vec![0; 512];
        content.write(1536, &mut second);
        let good = [&first[..512], &second, &first[1024..]].concat();
        assert_eq!(check(&content, 1024, &good), (2048, vec![]));
        let (compared, old) = check(&content, 1024, &first);
        assert_eq!((compared, old.len()), (2048, 1));
        assert!(old[0].contains("block at 1536 should hold version 2 and holds version 1"), "{old:?}");
        assert!(check(&content, 1536, &[0; 512]).1[0].contains("zero"));
        assert!(check(&content, 1536, &first[1024..1536]).1[0].contains("something else"));
        second[511] ^= 1;
        assert!(check(&content, 1536, &second).1[0].contains("damaged"));
        assert_eq!(content.ranges(1024), [1024..2048, 2048..3072]);
        content.forget(1536..2048);
        assert_eq!(content.ranges(4096), [1024..1536, 2048..3072]);
        assert_eq!(check(&content, 1536, &second), (0, vec![]));
    }
}
