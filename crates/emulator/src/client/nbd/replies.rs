//! Decoder for the server's messages after the handshake: no I/O, and every length bounded.

use std::collections::VecDeque;

use seeklab_core::{HostRequest, Instant, Operation};

use crate::client::Failure;
use crate::frontend::nbd::wire::{
    CHUNK_SIZE, SIMPLE_REPLY_MAGIC, SIMPLE_REPLY_SIZE, STRING_BYTES_MAX, STRUCTURED_REPLY_MAGIC, chunk,
    u16_at, u32_at, u64_at,
};

/// An outstanding request and what has come of it.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its name on the wire, until its reply is complete.
    cookie: Option<u64>,
    pub(super) tag: u64,
    pub(super) request: HostRequest,
    pub(super) failure: Option<Failure>,
    /// Data of a read. The buffer is reused by later requests, so its length is that of the longest read.
    buffer: Vec<u8>,
    received_bytes: u64,
}

impl Slot {
    pub(super) fn data(&self) -> &[u8] {
        match (self.request.op, &self.failure) {
            (Operation::Read, None) => &self.buffer[..self.request.length_bytes as usize],
            _ => &[],
        }
    }
}

/// A part of a reply that is longer than its head.
#[derive(Debug, Clone, Copy)]
struct Data {
    slot: usize,
    at: usize,
    left: usize,
    is_last: bool,
}

/// The outstanding requests of a connection.
#[derive(Debug, Default)]
pub(super) struct Replies {
    slots: Vec<Slot>,
    free: Vec<usize>,
    outstanding: usize,
    done: VecDeque<usize>,
    serial: u64,
    data: Option<Data>,
}

/// Description of a violation of the protocol by the server.
pub(super) type Broken = String;

/// Content of chunks that is looked at as a whole: an error with its message and offset.
const CONTENT_BYTES_MAX: usize = 4 + 2 + STRING_BYTES_MAX as usize + 8;

/// Below this, data comes through the receive buffer.
const DIRECT_BYTES_MIN: usize = 32 << 10;

impl Replies {
    /// The smallest receive buffer with which [`take`](Self::take) always gets on.
    pub(super) const BUFFER_BYTES_MIN: usize = CHUNK_SIZE + CONTENT_BYTES_MAX;

    /// Requests without complete reply.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Returns true if every reply was received and taken.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.done.is_empty()
    }

    /// Expects a reply to `request`; returns its cookie.
    pub(super) fn expect(&mut self, tag: u64, request: HostRequest) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            let slot =
                Slot { cookie: None, tag, request, failure: None, buffer: Vec::new(), received_bytes: 0 };
            self.slots.push(slot);
            self.slots.len() - 1
        });
        let cookie = self.serial << 32 | index as u64;
        self.serial = (self.serial + 1) & 0xffff_ffff;
        self.outstanding += 1;
        let slot = &mut self.slots[index];
        (slot.cookie, slot.tag, slot.request) = (Some(cookie), tag, request);
        (slot.failure, slot.received_bytes) = (None, 0);
        if request.op == Operation::Read && slot.buffer.len() < request.length_bytes as usize {
            slot.buffer.resize(request.length_bytes as usize, 0);
        }
        cookie
    }

    /// The request goes to the kernel now.
    pub(super) fn issued(&mut self, cookie: u64, now: Instant) {
        let slot = &mut self.slots[(cookie & 0xffff_ffff) as usize];
        (slot.request.issue, slot.request.completion) = (now, now);
    }

    /// Nothing more comes: outstanding requests fail with that error number, at `now`, in order of their slots.
    pub(super) fn abandon(&mut self, code: u32, now: Instant) {
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.cookie.is_some()) {
            slot.cookie = None;
            slot.failure = Some(Failure { code, message: String::new(), offset_bytes: None });
            slot.request.completion = now;
            self.done.push_back(index);
        }
        (self.outstanding, self.data) = (0, None);
    }

    /// The next complete reply; its place is given back with [`release`](Self::release).
    pub(super) fn next(&mut self) -> Option<usize> {
        self.done.pop_front()
    }

    pub(super) fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    pub(super) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    pub(super) fn release(&mut self, index: usize) {
        self.free.push(index);
    }

    /// Returns the destination of the next bytes, if they are many and go to one place. The caller can receive
    /// directly into it, without a copy.
    pub(super) fn direct(&mut self) -> Option<&mut [u8]> {
        let Data { slot, at, left, .. } = self.data.filter(|data| data.left >= DIRECT_BYTES_MIN)?;
        Some(&mut self.slots[slot].buffer[at..at + left])
    }

    /// Records that `count` bytes were received into the destination of [`direct`](Self::direct), the last at
    /// `now`.
    pub(super) fn advance(&mut self, count: usize, now: Instant) -> Result<(), Broken> {
        let mut data = self.data.take().expect("only data is received directly");
        data.at += count;
        data.left -= count;
        self.slots[data.slot].received_bytes += count as u64;
        if data.left > 0 {
            self.data = Some(data);
        } else if data.is_last {
            self.finish(data.slot, now)?;
        }
        Ok(())
    }

    /// Takes what it can from the front of `bytes`, received at `now`, and returns how much that was.
    pub(super) fn take(&mut self, bytes: &[u8], now: Instant) -> Result<usize, Broken> {
        let mut rest = bytes;
        loop {
            if let Some(data) = self.data {
                let count = data.left.min(rest.len());
                if count == 0 && data.left > 0 {
                    break;
                }
                self.slots[data.slot].buffer[data.at..data.at + count].copy_from_slice(&rest[..count]);
                rest = &rest[count..];
                self.advance(count, now)?;
            } else {
                let count = self.head(rest, now)?;
                if count == 0 {
                    break;
                }
                rest = &rest[count..];
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Takes the head of a reply or chunk, and its content unless that is data; zero if it is not all there.
    fn head(&mut self, bytes: &[u8], now: Instant) -> Result<usize, Broken> {
        if bytes.len() < SIMPLE_REPLY_SIZE {
            return Ok(0);
        }
        match u32_at(bytes, 0) {
            SIMPLE_REPLY_MAGIC => self.simple(bytes, now),
            STRUCTURED_REPLY_MAGIC if bytes.len() < CHUNK_SIZE => Ok(0),
            STRUCTURED_REPLY_MAGIC => self.chunk(bytes, now),
            magic => Err(format!("a reply begins with {magic:#010x} instead of a magic number")),
        }
    }

    fn simple(&mut self, bytes: &[u8], now: Instant) -> Result<usize, Broken> {
        let (code, slot) = (u32_at(bytes, 4), self.find(u64_at(bytes, 8))?);
        let request = self.slots[slot].request;
        if code == 0 && request.op == Operation::Read {
            self.data = Some(Data { slot, at: 0, left: request.length_bytes as usize, is_last: true });
        } else {
            if code != 0 {
                self.slots[slot].failure = Some(Failure { code, message: String::new(), offset_bytes: None });
            }
            self.finish(slot, now)?;
        }
        Ok(SIMPLE_REPLY_SIZE)
    }

    fn chunk(&mut self, bytes: &[u8], now: Instant) -> Result<usize, Broken> {
        let (flags, kind) = (u16_at(bytes, 4), u16_at(bytes, 6));
        let (slot, length) = (self.find(u64_at(bytes, 8))?, u32_at(bytes, 16) as usize);
        let is_last = flags & chunk::FLAG_DONE != 0;
        let content = &bytes[CHUNK_SIZE..];
        if kind == chunk::OFFSET_DATA {
            if content.len() < 8 {
                return Ok(0);
            }
            let left = length.checked_sub(8).filter(|&left| left > 0);
            let left = left.ok_or_else(|| format!("a data chunk of {length} bytes"))?;
            let at = self.place(slot, u64_at(content, 0), left)?;
            self.data = Some(Data { slot, at, left, is_last });
            return Ok(CHUNK_SIZE + 8);
        }
        if length > CONTENT_BYTES_MAX {
            return Err(format!("a chunk of kind {kind} with {length} bytes, more than {CONTENT_BYTES_MAX}"));
        }
        let Some(content) = content.get(..length) else { return Ok(0) };
        match kind {
            chunk::NONE if length == 0 && is_last => {}
            chunk::OFFSET_HOLE if length == 12 => {
                let count = u32_at(content, 8) as usize;
                let at = self.place(slot, u64_at(content, 0), count)?;
                self.slots[slot].buffer[at..at + count].fill(0);
                self.slots[slot].received_bytes += count as u64;
            }
            kind if kind & chunk::IS_ERROR != 0 && length >= 6 => {
                let (code, count) = (u32_at(content, 0), usize::from(u16_at(content, 4)));
                let Some(message) = content[6..].get(..count) else {
                    return Err(format!("a message of {count} bytes in an error of {length}"));
                };
                if code == 0 {
                    return Err("an error chunk with error 0".to_owned());
                }
                let message = String::from_utf8_lossy(message).into_owned();
                let offset_bytes = match content[6 + count..] {
                    ref offset if kind == chunk::ERROR_OFFSET && offset.len() == 8 => Some(u64_at(offset, 0)),
                    _ => None,
                };
                self.slots[slot].failure.get_or_insert(Failure { code, message, offset_bytes });
            }
            _ => return Err(format!("a chunk of kind {kind}, flags {flags:#x}, with {length} bytes")),
        }
        if is_last {
            self.finish(slot, now)?;
        }
        Ok(CHUNK_SIZE + length)
    }

    /// Returns the index of the server's offset in the buffer of a read.
    fn place(&self, slot: usize, offset: u64, length: usize) -> Result<usize, Broken> {
        let Slot { request, received_bytes, .. } = &self.slots[slot];
        let asked = request.length_bytes;
        let at = offset.checked_sub(request.offset_bytes).filter(|at| {
            request.op == Operation::Read
                && at.checked_add(length as u64).is_some_and(|end| end <= asked)
                && received_bytes + length as u64 <= asked
        });
        at.map(|at| at as usize).ok_or_else(|| {
            format!(
                "{length} bytes at {offset} in answer to a {} of {asked} bytes at {}",
                request.op.name(),
                request.offset_bytes
            )
        })
    }

    fn find(&self, cookie: u64) -> Result<usize, Broken> {
        let index = (cookie & 0xffff_ffff) as usize;
        match self.slots.get(index) {
            Some(slot) if slot.cookie == Some(cookie) => Ok(index),
            _ => Err(format!("a reply to request {cookie:#x}, which is not outstanding")),
        }
    }

    fn finish(&mut self, index: usize, now: Instant) -> Result<(), Broken> {
        let slot = &mut self.slots[index];
        let asked = slot.request.length_bytes;
        if slot.request.op == Operation::Read && slot.failure.is_none() && slot.received_bytes != asked {
            return Err(format!("{} bytes in answer to a read of {asked}", slot.received_bytes));
        }
        slot.request.completion = now;
        slot.cookie = None;
        self.outstanding -= 1;
        self.done.push_back(index);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outstanding(count: u64) -> Replies {
        let mut replies = Replies::default();
        for number in 0..count {
            let op = if number % 2 == 0 { Operation::Read } else { Operation::Write };
            let request = HostRequest::new(Instant::ZERO, Instant::ZERO, op, number * 512, 512);
            replies.expect(number, request);
        }
        replies
    }

    fn structured(flags: u16, kind: u16, cookie: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend((content.len() as u32).to_be_bytes());
        bytes.extend(content);
        bytes
    }

    /// Replies to two reads in interleaved chunks, the second with a hole, and to a write.
    fn conversation() -> Vec<u8> {
        let mut bytes = Vec::new();
        let data = |offset: u64, byte: u8| [&offset.to_be_bytes()[..], &[byte; 256]].concat();
        let second = 1 << 32 | 1;
        let third = 2 << 32 | 2;
        bytes.extend(structured(0, chunk::OFFSET_DATA, third, &data(1280, 4)));
        bytes.extend(structured(0, chunk::OFFSET_DATA, 0, &data(0, 1)));
        bytes.extend([&SIMPLE_REPLY_MAGIC.to_be_bytes()[..], &[0; 4], &u64::to_be_bytes(second)].concat());
        bytes.extend(structured(1, chunk::OFFSET_DATA, 0, &data(256, 2)));
        let hole = [&1024u64.to_be_bytes()[..], &256u32.to_be_bytes()].concat();
        bytes.extend(structured(0, chunk::OFFSET_HOLE, third, &hole));
        bytes.extend(structured(1, chunk::NONE, third, &[]));
        bytes
    }

    #[test]
    fn failed_read_names_the_first_bad_byte() {
        let mut replies = outstanding(1);
        let mut bytes = structured(0, chunk::OFFSET_DATA, 0, &[&[0; 8][..], &[7; 128]].concat());
        let error = [&5_u32.to_be_bytes()[..], &3_u16.to_be_bytes(), b"bad", &128_u64.to_be_bytes()].concat();
        bytes.extend(structured(1, chunk::ERROR_OFFSET, 0, &error));
        assert_eq!(replies.take(&bytes, Instant::ZERO), Ok(bytes.len()));
        let index = replies.next().unwrap();
        let expected = Failure { code: 5, message: "bad".to_owned(), offset_bytes: Some(128) };
        assert_eq!(replies.slot(index).failure, Some(expected));
        assert!(replies.slot(index).data().is_empty());
    }

    proptest! {
        #[test]
        fn replies_do_not_depend_on_how_the_bytes_are_divided(pieces in prop::collection::vec(1usize..200, 1..20)) {
            let mut replies = outstanding(3);
            let bytes = conversation();
            let (mut taken, mut come) = (0, 0);
            for (step, piece) in pieces.iter().cycle().enumerate() {
                come = (come + piece).min(bytes.len());
                taken += replies.take(&bytes[taken..come], Instant::from_ns(step as u64)).expect("it is right");
                if come == bytes.len() {
                    break;
                }
            }
            prop_assert_eq!((taken, replies.outstanding()), (bytes.len(), 0));
            let mut order = Vec::new();
            while let Some(index) = replies.next() {
                order.push((replies.slot(index).tag, replies.slot(index).data().to_vec()));
            }
            let first = [[1; 256], [2; 256]].concat();
            let third = [[0; 256], [4; 256]].concat();
            prop_assert_eq!(order, [(1, vec![]), (0, first), (2, third)]);
        }

        #[test]
        fn arbitrary_bytes_neither_panic_nor_take_memory(
            damage in prop::collection::vec((0usize..1000, any::<u8>()), 0..6),
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut replies = outstanding(3);
            let mut bytes = conversation();
            for (at, byte) in damage {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes.extend(noise);
            let _ = replies.take(&bytes, Instant::ZERO);
            prop_assert!(replies.slots.iter().all(|slot| slot.buffer.len() <= 512));
        }
    }
}
