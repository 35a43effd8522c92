//! Contents of blocks before the last media writes that end within a unit: the next one may be cut within that unit.

use std::collections::VecDeque;

use crate::store::{Store, StoreError};

/// Contents of blocks before the last media writes.
pub(super) struct Former {
    block_bytes: u64,
    /// Blocks of a unit that the media write as a whole.
    unit_blocks: u64,
    /// In order of the media, at most as many as a unit can have blocks and older data.
    parts: VecDeque<Part>,
}

/// Contents of blocks before a write.
struct Part {
    /// Rank of arrival of the write.
    number: u64,
    start: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl Former {
    /// Nothing yet, of a device with such units.
    pub(super) const fn new(block_bytes: u64, unit_blocks: u64) -> Self {
        Self { block_bytes, unit_blocks, parts: VecDeque::new() }
    }

    /// Reads the blocks of `start..end` that lie in a unit which the range ends within: first block, and contents.
    pub(super) fn read(&self, store: &Store, start: u64, end: u64) -> Option<(u64, Vec<u8>)> {
        if end.is_multiple_of(self.unit_blocks) {
            return None;
        }
        let first = start.max(end / self.unit_blocks * self.unit_blocks);
        let mut bytes = vec![0; ((end - first) * self.block_bytes) as usize];
        // What cannot be read cannot come back.
        store.read(first * self.block_bytes, &mut bytes).ok()?;
        Some((first, bytes))
    }

    /// The write of that rank gave `start..end` new contents; before, the last of these blocks held `former`.
    pub(super) fn keep(&mut self, number: u64, (start, end): (u64, u64), former: Option<(u64, Vec<u8>)>) {
        // Of each block, only the last change can be undone.
        for place in (0..self.parts.len()).rev() {
            let part = &self.parts[place];
            if end <= part.start || part.end <= start {
                continue;
            }
            let part = self.parts.remove(place).expect("it is there");
            for (from, to) in [(part.start, part.end.min(start)), (part.start.max(end), part.end)] {
                if from < to {
                    let within = |block: u64| ((block - part.start) * self.block_bytes) as usize;
                    let bytes = part.bytes[within(from)..within(to)].to_vec();
                    self.parts.insert(place, Part { number: part.number, start: from, end: to, bytes });
                }
            }
        }
        if let Some((first, bytes)) = former {
            self.parts.push_back(Part { number, start: first, end, bytes });
        }
        while self.parts.len() as u64 > 2 * self.unit_blocks {
            self.parts.pop_front();
        }
    }

    /// Gives blocks `start..end` of the write of that rank the contents from before it.
    ///
    /// # Errors
    /// A refusal of the store.
    pub(super) fn put_back(
        &self,
        store: &Store,
        number: u64,
        (start, end): (u64, u64),
    ) -> Result<(), StoreError> {
        for part in self.parts.iter().filter(|part| part.number == number) {
            let (from, to) = (part.start.max(start), part.end.min(end));
            if from < to {
                let within = |block: u64| ((block - part.start) * self.block_bytes) as usize;
                store.write(from * self.block_bytes, &part.bytes[within(from)..within(to)])?;
            }
        }
        Ok(())
    }

    /// Forgets everything: what is on the media now stays.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }
}
