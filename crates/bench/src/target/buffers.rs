//! Buffers of the transfers of a target: one for reads and one for writes in each slot.
//!
//! ```text
//! | slot 0 | slot 1 | …  reads | slot 0 | slot 1 | …  writes |   prepared, in one region
//!                                                                longer requests: a buffer of their own
//! ```
//! # Scope and limits
//! Memory for requests that are longer than those that were prepared grows once per slot. The data of writes are made as
//! [`WriteData`](crate::WriteData) says: most of them once, when the memory is prepared.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use seeklab_core::Instant;

use super::{TargetOptions, Transfer};
use crate::verify::Checker;
use crate::write_data::Filler;
#[cfg(feature = "iscsi")]
use crate::write_data::WriteData;

/// Buffers begin at multiples of this, which suffices for direct access to every device.
pub(super) const ALIGNMENT_BYTES: usize = 4096;

/// Memory of all prepared buffers.
#[derive(Debug)]
pub(super) enum Region {
    /// Of this process alone.
    Own(Vec<u8>),
    /// Shared with a server.
    Shared(MmapMut),
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(memory) => memory,
            Self::Shared(memory) => memory,
        }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Own(memory) => memory,
            Self::Shared(memory) => memory,
        }
    }
}

/// The buffers of all slots, and what makes and checks their data.
#[derive(Debug)]
pub(super) struct Buffers {
    memory: Memory,
    /// Makes the data of writes.
    filler: Filler,
    /// Stamps the data of writes in its place, and checks those of reads.
    pub(super) checker: Option<Box<Checker>>,
}

#[derive(Debug)]
struct Memory {
    region: Region,
    /// First aligned byte of the region.
    start: usize,
    /// Bytes of a slot in the region.
    stride: usize,
    reads: usize,
    writes: usize,
    /// Buffers of longer requests: those of reads, then those of writes.
    longer: Vec<Vec<u8>>,
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
    /// Buffers of `slots` slots in the directions that the options name.
    pub(super) fn new(slots: usize, options: &TargetOptions) -> Self {
        Self::over(Region::Own(vec![0; Self::region_bytes(slots, options)]), slots, options)
    }

    /// Bytes of memory for such buffers, wherever it begins.
    pub(super) const fn region_bytes(slots: usize, options: &TargetOptions) -> usize {
        slots
            * (options.reads as usize + options.writes as usize)
            * options.prepared_bytes.next_multiple_of(ALIGNMENT_BYTES)
            + ALIGNMENT_BYTES
    }

    /// As [`new`](Self::new), in memory of [`region_bytes`](Self::region_bytes) bytes.
    pub(super) fn over(mut region: Region, slots: usize, options: &TargetOptions) -> Self {
        let filler = Filler::new(&options.data, options.seed);
        let stride = options.prepared_bytes.next_multiple_of(ALIGNMENT_BYTES);
        let (reads, writes) = (if options.reads { slots } else { 0 }, if options.writes { slots } else { 0 });
        let start = region.as_ptr().align_offset(ALIGNMENT_BYTES);
        let (of_reads, of_writes) = region[start..].split_at_mut(reads * stride);
        // Touched now, so that no transfer waits for memory.
        of_reads.iter_mut().step_by(ALIGNMENT_BYTES).for_each(|byte| *byte = 1);
        let of_writes = of_writes.chunks_mut(stride.max(1)).take(writes);
        of_writes.enumerate().for_each(|(slot, memory)| filler.fill(memory, slot as u64));
        let longer = vec![Vec::new(); 2 * slots];
        let memory = Memory { region, start, stride, reads, writes, longer };
        Self { memory, filler, checker: None }
    }

    /// No prepared buffers, for one request without data.
    #[cfg(feature = "iscsi")]
    pub(super) fn none() -> Self {
        let memory = Memory {
            region: Region::Own(Vec::new()),
            start: 0,
            stride: 0,
            reads: 0,
            writes: 0,
            longer: vec![Vec::new(); 2],
        };
        Self { memory, filler: Filler::new(&WriteData::default(), 0), checker: None }
    }

    /// The region of all prepared buffers, for the kernel to know beforehand.
    pub(super) fn region(&mut self) -> &mut [u8] {
        let Memory { region, start, stride, reads, writes, .. } = &mut self.memory;
        &mut region[*start..*start + (*reads + *writes) * *stride]
    }

    /// A buffer for a read of `length` bytes in that slot.
    pub(super) fn for_read(&mut self, tag: u32, length: usize) -> Prepared<'_> {
        self.memory.of_read(&self.filler, tag, length)
    }

    /// The buffer of slot `slot` with the `length` bytes that a transfer writes.
    pub(super) fn for_write(&mut self, slot: u32, length: usize, transfer: &Transfer) -> Prepared<'_> {
        let prepared = self.memory.of_write(&self.filler, slot, length);
        match &self.checker {
            Some(checker) => checker.stamp(transfer.tag, prepared.bytes),
            None => self.filler.make(prepared.bytes, &transfer.request),
        }
        prepared
    }

    /// The read of `length` bytes in that slot has succeeded at `at`: its data are checked.
    pub(super) fn was_read(&mut self, tag: u32, length: usize, at: Instant) {
        if let Some(checker) = &mut self.checker {
            checker.check(tag, self.memory.of_read(&self.filler, tag, length).bytes, at);
        }
    }
}

impl Memory {
    fn of_read(&mut self, filler: &Filler, tag: u32, length: usize) -> Prepared<'_> {
        let tag = tag as usize;
        self.place(filler, (tag < self.reads).then_some(tag), tag, length)
    }

    fn of_write(&mut self, filler: &Filler, slot: u32, length: usize) -> Prepared<'_> {
        let slot = slot as usize;
        let prepared = (slot < self.writes).then_some(self.reads + slot);
        self.place(filler, prepared, self.longer.len() / 2 + slot, length)
    }

    /// The buffer of that number in the region if the request fits into it, else that number of the longer ones.
    fn place(
        &mut self,
        filler: &Filler,
        prepared: Option<usize>,
        longer: usize,
        length: usize,
    ) -> Prepared<'_> {
        if let Some(number) = prepared.filter(|_| length <= self.stride) {
            let at = self.start + number * self.stride;
            return Prepared { bytes: &mut self.region[at..at + length], is_in_region: true };
        }
        let buffer = &mut self.longer[longer];
        if buffer.len() < length + ALIGNMENT_BYTES {
            *buffer = vec![0; length + ALIGNMENT_BYTES];
            let at = buffer.as_ptr().align_offset(ALIGNMENT_BYTES);
            // Those of the region have smaller numbers.
            filler.fill(&mut buffer[at..], u64::from(u32::MAX) + longer as u64);
        }
        let at = buffer.as_ptr().align_offset(ALIGNMENT_BYTES);
        Prepared { bytes: &mut buffer[at..at + length], is_in_region: false }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Operation, Request};
    use seeklab_emulator::clock::Pacing;

    use super::*;
    use crate::WriteData;

    #[test]
    fn buffers_are_aligned_and_apart_and_writes_differ() {
        let options = TargetOptions {
            outstanding_max: 3,
            direct: true,
            polling: crate::target::Polling::default(),
            prepared_bytes: 5_000,
            reads: true,
            writes: true,
            data: WriteData::default(),
            priority: None,
            seed: 7,
            pacing: Pacing::default(),
        };
        let mut buffers = Buffers::new(3, &options);
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
