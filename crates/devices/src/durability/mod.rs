//! Durability of written blocks, and the events that say so.
//!
//! [`Waiting`] holds the blocks that are not durable, by the write that they belong to; [`Noted`] the events that nobody
//! has taken. A disk feeds them from its media writes (`disk/watched.rs`), a device without media from its completions
//! ([`ByCompletion`]).

mod by_completion;
mod noted;
mod waiting;

pub(crate) use by_completion::ByCompletion;
pub(crate) use noted::Noted;
pub(crate) use waiting::Waiting;

/// Room for so many events and pieces from the start.
const ROOM: usize = 64;
