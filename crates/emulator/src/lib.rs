//! Timing-accurate storage emulation: the models of seeklab behind a real block interface, in real time.
//!
//! ```text
//! a device model decides when; the store keeps what
//! ```
//! # References
//! J. L. Griffin, Timing-accurate storage emulation, CMU, 2004: figure 3.4 and chapters 3 and 5.

pub mod store;
