//! Answers that wait to leave, one behind the other in one buffer that is kept.

use std::ops::Range;

use super::wire::{OUT_HEADER_SIZE, out_header};

/// Origin of the request that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addressee {
    /// The kernel's own business: names, attributes.
    Kernel,
    /// A command that was handed out under this number.
    Command(u32),
}

#[derive(Debug)]
struct Message {
    addressee: Addressee,
    range: Range<usize>,
}

/// Capacity that the buffer keeps after all answers have left.
const KEPT_BYTES: usize = 64 << 20;

/// Prepared answers in order. In steady state nothing is allocated: the buffer grows to what once left
/// together, and is given back only where that was much.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Beyond `used`, its content is left over from before.
    bytes: Vec<u8>,
    used: usize,
    messages: Vec<Message>,
}

impl Output {
    /// Prepares an answer whose result has at most `length_max` bytes. `fill` returns the length of the result,
    /// or the error number with which the request fails.
    pub(super) fn push(
        &mut self,
        addressee: Addressee,
        unique: u64,
        length_max: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, i32>,
    ) {
        let start = self.used;
        let result = start + OUT_HEADER_SIZE;
        if self.bytes.len() < result + length_max {
            self.bytes.resize(result + length_max, 0);
        }
        let (length, errno) = match fill(&mut self.bytes[result..][..length_max]) {
            Ok(length) => (length, 0),
            Err(errno) => (0, errno),
        };
        let end = result + length;
        self.bytes[start..result].copy_from_slice(&out_header(end - start, errno, unique));
        self.used = end;
        self.messages.push(Message { addressee, range: start..end });
    }

    /// Records that a command is done that needs no answer to the kernel.
    pub(super) fn push_nothing(&mut self, addressee: Addressee) {
        self.messages.push(Message { addressee, range: self.used..self.used });
    }

    /// The answers, each of which leaves in one piece.
    pub(super) fn messages(&self) -> impl Iterator<Item = (Addressee, &[u8])> {
        self.messages.iter().map(|message| (message.addressee, &self.bytes[message.range.clone()]))
    }

    /// Forgets all: they have left.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.messages.clear();
        if self.bytes.len() > KEPT_BYTES {
            self.bytes.truncate(KEPT_BYTES);
            self.bytes.shrink_to_fit();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}
