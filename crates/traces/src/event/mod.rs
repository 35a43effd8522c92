//! Events of the block layer in files: their text and records, and requests paired from them.

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "capture uses more of it"))]
pub(crate) mod block_event;
pub(crate) mod details;
pub(crate) mod issue_order;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "capture uses more of it"))]
pub(crate) mod pairing;
pub(crate) mod rows;
pub(crate) mod text;
