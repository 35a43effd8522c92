//! Counts of requests that are rounded to whole blocks.

use crate::trace_format::Note;
use seeklab_core::number_words::{counted, in_number};

/// Requests whose bytes are rounded to blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rounding {
    requests: u64,
    rounded: u64,
    /// Bytes of the requests, and of their blocks.
    bytes: u128,
    block_bytes: u128,
}

impl Rounding {
    /// A rounding of no requests.
    pub(crate) const NONE: Self = Self { requests: 0, rounded: 0, bytes: 0, block_bytes: 0 };

    /// Counts a request of `bytes` that takes `blocks` of that size.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u64, blocks: u32, block_size: u64) {
        let block_bytes = u128::from(blocks) * u128::from(block_size);
        self.requests += 1;
        self.rounded += u64::from(block_bytes != u128::from(bytes));
        self.bytes += u128::from(bytes);
        self.block_bytes += block_bytes;
    }

    /// Appends a note of the requests that were rounded.
    pub(crate) fn notes(&self, block_size: u64, notes: &mut Vec<Note>) {
        if self.rounded == 0 {
            return;
        }
        let added_pct = (self.block_bytes - self.bytes) as f64 * 100.0 / (self.bytes as f64).max(1.0);
        let text = format!(
            "{} of {} {} within a block of {block_size} bytes: each takes every block that it touches, which adds \
             {added_pct:.2} % to the bytes (`--block-size 1B` adds none)",
            self.rounded,
            counted(self.requests, "request"),
            in_number(self.rounded, "[begins or ends|begin or end]")
        );
        notes.push(Note::Remark(text.into()));
    }
}
