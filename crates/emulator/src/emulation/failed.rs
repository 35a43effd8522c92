//! Answers to requests that the model failed.

use super::{Answer, Emulation};
use crate::frontend::{Content, ErrorCode};

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
            Self::Data { offset, length } | Self::Part { offset, good_bytes: length, .. } => {
                Some((offset, length))
            }
            Self::Done | Self::Failed(_) | Self::Extents { .. } => None,
        }
    }
}

impl Emulation {
    /// Returns the function that takes data from `bytes`, or from the store at `offset` if they are empty.
    pub(super) fn fill<'a>(
        &'a self,
        offset: u64,
        bytes: &'a [u8],
    ) -> impl FnMut(&mut [u8]) -> Result<Content, ErrorCode> + 'a {
        move |buffer| {
            if !bytes.is_empty() {
                buffer.copy_from_slice(&bytes[..buffer.len()]);
                return Ok(Content::Data);
            }
            self.store.read(offset, buffer).map(|()| Content::Data).map_err(|error| super::code_of(&error))
        }
    }
}
