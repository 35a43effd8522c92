//! Buffers of the transfers of a target: one for reads and one for writes in each slot.
//!
//! ```text
//! | slot 0 | slot 1 | …  reads | slot 0 | slot 1 | …  writes |   prepared, in one region
//!                                                                longer requests: a buffer of their own
//! ```
//! # Scope and limits
//! Memory for requests that are longer than those that were prepared grows once per slot. The data of writes are drawn
//! once, and every 4 KiB begins with the address and number of its write, so that no target stores it once for all.

use seeklab_core::{Instant, Request};

use super::Transfer;
use crate::verify::Checker;

/// Buffers begin at multiples of this, which suffices for direct access to every device.
pub(super) const ALIGNMENT_BYTES: usize = 4096;

/// The buffers of all slots.
#[derive(Debug)]
pub(super) struct Buffers {
    region: Vec<u8>,
    /// First aligned byte of the region.
    start: usize,
    /// Bytes of a slot in the region.
    stride: usize,
    reads: usize,
    writes: usize,
    /// Buffers of longer requests: those of reads, then those of writes.
    longer: Vec<Vec<u8>>,
    seed: u64,
    /// Stamps the data of writes and checks those of reads.
    pub(super) checker: Option<Box<Checker>>,
}

/// A buffer that is ready for a transfer.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    /// Its bytes.
    pub(super) bytes: &'a mut [u8],
    /// True if it lies in the region.
    pub(super) is_in_region: bool,
}

impl Buffers {
    /// Buffers of `slots` slots for requests of up to `length` bytes, in the directions that are named.
    pub(super) fn new(slots: usize, length: usize, reads: bool, writes: bool, seed: u64) -> Self {
        let stride = length.next_multiple_of(ALIGNMENT_BYTES);
        let (reads, writes) = (if reads { slots } else { 0 }, if writes { slots } else { 0 });
        let mut region = vec![0; (reads + writes) * stride + ALIGNMENT_BYTES];
        let start = region.as_ptr().align_offset(ALIGNMENT_BYTES);
        fill(&mut region[start + reads * stride..], seed);
        // Touched now, so that no transfer waits for memory.
        region[..start + reads * stride].iter_mut().step_by(ALIGNMENT_BYTES).for_each(|byte| *byte = 1);
        let longer = vec![Vec::new(); 2 * slots];
        Self { region, start, stride, reads, writes, longer, seed, checker: None }
    }

    /// The region of all prepared buffers, for the kernel to know beforehand.
    pub(super) fn region(&mut self) -> &mut [u8] {
        let length = (self.reads + self.writes) * self.stride;
        &mut self.region[self.start..self.start + length]
    }

    /// A buffer for a read of `length` bytes in that slot.
    pub(super) fn for_read(&mut self, tag: u32, length: usize) -> Prepared<'_> {
        let tag = tag as usize;
        let prepared = (tag < self.reads).then_some(tag);
        self.place(prepared, tag, length)
    }

    /// The buffer of slot `slot` with the `length` bytes that a transfer writes.
    pub(super) fn for_write(&mut self, slot: u32, length: usize, transfer: &Transfer) -> Prepared<'_> {
        let slot = slot as usize;
        let prepared = (slot < self.writes).then_some(self.reads + slot);
        let longer = self.longer.len() / 2 + slot;
        let Some(checker) = self.checker.take() else {
            let prepared = self.place(prepared, longer, length);
            sign(prepared.bytes, &transfer.request);
            return prepared;
        };
        checker.stamp(transfer.tag, self.place(prepared, longer, length).bytes);
        self.checker = Some(checker);
        self.place(prepared, longer, length)
    }

    /// The read of `length` bytes in that slot has succeeded at `at`: its data are checked.
    pub(super) fn was_read(&mut self, tag: u32, length: usize, at: Instant) {
        if let Some(mut checker) = self.checker.take() {
            checker.check(tag, self.for_read(tag, length).bytes, at);
            self.checker = Some(checker);
        }
    }

    /// The buffer of that number in the region if the request fits into it, else that number of the longer ones.
    fn place(&mut self, prepared: Option<usize>, longer: usize, length: usize) -> Prepared<'_> {
        if let Some(number) = prepared.filter(|_| length <= self.stride) {
            let at = self.start + number * self.stride;
            return Prepared { bytes: &mut self.region[at..at + length], is_in_region: true };
        }
        let buffer = &mut self.longer[longer];
        if buffer.len() < length + ALIGNMENT_BYTES {
            *buffer = vec![0; length + ALIGNMENT_BYTES];
            fill(buffer, self.seed ^ longer as u64);
        }
        let at = buffer.as_ptr().align_offset(ALIGNMENT_BYTES);
        Prepared { bytes: &mut buffer[at..at + length], is_in_region: false }
    }
}

/// Begins every 4 KiB with the address and the number of its write.
fn sign(bytes: &mut [u8], request: &Request) {
    for block in bytes.chunks_mut(ALIGNMENT_BYTES) {
        if let Some(head) = block.get_mut(..16) {
            head[..8].copy_from_slice(&request.lbn.to_le_bytes());
            head[8..].copy_from_slice(&request.id.0.to_le_bytes());
        }
    }
}

/// Fills memory with the output of SplitMix64.
fn fill(memory: &mut [u8], seed: u64) {
    let mut state = seed;
    for chunk in memory.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bytes = (z ^ (z >> 31)).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;

    use super::*;

    #[test]
    fn buffers_are_aligned_and_apart_and_writes_differ() {
        let mut buffers = Buffers::new(3, 5_000, true, true, 7);
        let mut places = Vec::new();
        let write = |number| {
            let request = Request::new(number, Operation::Write, 8 * number, 8);
            Transfer { tag: 0, request }
        };
        for tag in 0..3 {
            for length in [4_096, 8_192, 8_193] {
                let prepared = buffers.for_read(tag, length);
                assert_eq!(prepared.is_in_region, length <= 8_192);
                places.push(prepared.bytes.as_ptr_range());
                let prepared = buffers.for_write(tag, length, &write(u64::from(tag) + 1));
                places.push(prepared.bytes.as_ptr_range());
            }
        }
        assert!(places.iter().all(|place| (place.start as usize).is_multiple_of(ALIGNMENT_BYTES)));
        // Those of a slot and direction in the region are one; all others are apart.
        places.sort_by_key(|place| (place.start, place.end));
        let apart = places.windows(2).filter(|pair| pair[0].end <= pair[1].start).count();
        assert_eq!(apart, 2 * 3 * 2 - 1);
        let first = buffers.for_write(0, 8_192, &write(1)).bytes.to_vec();
        let second = buffers.for_write(0, 8_192, &write(2)).bytes.to_vec();
        assert_ne!(first[..4_096], first[4_096..], "no block twice");
        assert_ne!(first[4_096..], second[4_096..], "no write twice");
        assert_eq!(buffers.region().len(), 6 * 8_192);
    }
}
