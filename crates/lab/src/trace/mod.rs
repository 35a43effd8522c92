//! The trace tools: describe, convert, cut, remap and plot traces.
//!
//! ```text
//! path, TraceOptions ─▶ OpenTrace ─┬▶ info, head, report   (results)
//!                                  └▶ convert, slice, remap (results and a new trace)
//! ```
//!
//! # Scope and limits
//! Every tool reads its input once and in bounded memory, except `remap`, which reads it twice.

pub mod columns;
pub mod convert;
pub mod formats;
pub mod head;
pub mod info;
mod open;
pub mod remap;
pub mod report;
pub mod slice;

pub(crate) use open::check_read_twice;
pub use open::{STANDARD_INPUT, TraceOptions, check_streams};
use schemars::JsonSchema;
use serde::Serialize;

/// Results for several traces, as one JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Traces<T> {
    /// Results in the order of the traces.
    pub traces: Vec<T>,
}
