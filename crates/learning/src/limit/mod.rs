//! Finding rate and burst limits in a trace.
//!
//! ```text
//! trace ─▶ Passed, History ─▶ Traffic ─▶ envelope: lines on the arrival curve ─▶ calibration ─▶ trial: does a bucket explain the waiting?
//! ```
//! # Scope and limits
//! A limit is a token bucket of requests or of bytes, which come back evenly or in [portions]; two of them make a volume whose burst has a rate of its own. A bucket of requests
//! and one of bytes are also tried together. A device of constant service time that becomes slower once, under one kind of load,
//! cannot be distinguished from a used-up burst.

mod calibration;
mod envelope;
mod find;
mod history;
mod portions;
mod traffic;
mod trial;

#[cfg(test)]
mod tests;

pub(crate) use find::{Limits, Wait, find};
pub(crate) use history::History;
pub(crate) use traffic::Passed;
