//! Answers to commands: data from the store, errors, and the allocation of ranges.

use seeklab_core::DataEffect;

use super::{Answer, Emulation, code_of};
use crate::frontend::{Content, ErrorCode, Extent, Frontend, Reply, Tag};
use crate::store::{Allocation, StoreError};

/// Extents in one answer at most.
const EXTENTS_MAX: usize = 1 << 12;

impl Answer {
    /// Returns the answer if the model failed the request with `code` behind its first `good_bytes`.
    pub(super) fn failed(self, code: ErrorCode, good_bytes: u64) -> Self {
        match self {
            Self::Data { offset, .. } => Self::Part { offset, good_bytes, code },
            _ => Self::Failed(code),
        }
    }

    /// Returns the first byte and the length of the data that the answer takes to the client, if any.
    pub(super) const fn data(self) -> Option<(u64, u64)> {
        match self {
            Self::Data { offset, length, .. } | Self::Part { offset, good_bytes: length, .. } => {
                Some((offset, length))
            }
            Self::Done | Self::Failed(_) | Self::Extents { .. } => None,
        }
    }
}

impl Emulation {
    /// Returns the function that takes data from `bytes`, or, if they are empty, what a read with that effect brings from the
    /// store at `offset`.
    fn fill<'a>(
        &'a self,
        offset: u64,
        effect: DataEffect,
        bytes: &'a [u8],
    ) -> impl FnMut(&mut [u8]) -> Result<Content, ErrorCode> + 'a {
        move |buffer| {
            if !bytes.is_empty() {
                buffer.copy_from_slice(&bytes[..buffer.len()]);
                return Ok(Content::Data);
            }
            let read = match &self.failing.staging {
                Some(staging) => staging.read(&self.store, offset, effect, buffer),
                None => self.store.read(offset, buffer),
            };
            read.map(|()| Content::Data).map_err(|error| code_of(&error))
        }
    }

    /// Prepares an answer; the data of a read is `bytes`, or is still in the store if that is empty.
    pub(super) fn prepare(&self, frontend: &mut dyn Frontend, tag: Tag, answer: Answer, bytes: &[u8]) {
        match answer {
            Answer::Done => frontend.reply(tag, Reply::Done),
            Answer::Failed(code) => frontend.reply(tag, Reply::Failed(code)),
            Answer::Data { offset, effect, .. } => {
                frontend.reply(tag, Reply::Data(&mut self.fill(offset, effect, bytes)));
            }
            Answer::Part { offset, good_bytes, code } => {
                let mut fill = self.fill(offset, DataEffect::NONE, bytes);
                frontend.reply(tag, Reply::Part { code, good_bytes, fill: &mut fill });
            }
            Answer::Extents { offset, length, single } => match self.extents(offset, length, single) {
                Ok(extents) => frontend.reply(tag, Reply::Extents(&extents)),
                Err(error) => frontend.reply(tag, Reply::Failed(code_of(&error))),
            },
        }
    }

    /// Extents in whole blocks: a block that is allocated in part is allocated.
    fn extents(&self, offset: u64, length: u64, single: bool) -> Result<Vec<Extent>, StoreError> {
        if self.failing.staging.is_some() {
            // What is not in the store may be anywhere.
            let length_bytes = u32::try_from(length).unwrap_or(u32::MAX);
            return Ok(vec![Extent { length_bytes, allocated: true, zero: false }]);
        }
        let mut extents: Vec<Extent> = Vec::new();
        let (mut at, mut reported) = (offset, offset);
        for extent in self.store.extents(offset, length)? {
            let extent = extent?;
            at += extent.length;
            let allocated = extent.allocation == Allocation::Allocated;
            let last = at == offset + length;
            let end = match (allocated, last) {
                (_, true) => at,
                (true, _) => at.next_multiple_of(self.block_bytes),
                (false, _) => at / self.block_bytes * self.block_bytes,
            };
            if end <= reported {
                continue;
            }
            let length_bytes = u32::try_from(end - reported).unwrap_or(u32::MAX);
            match extents.last_mut() {
                Some(before) if before.allocated == allocated => {
                    before.length_bytes = before.length_bytes.saturating_add(length_bytes);
                }
                _ => extents.push(Extent { length_bytes, allocated, zero: !allocated }),
            }
            reported = end;
            if (single && extents.len() > 1) || extents.len() == EXTENTS_MAX {
                break;
            }
        }
        if single {
            extents.truncate(1);
        }
        Ok(extents)
    }
}
