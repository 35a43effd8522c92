//! Timing-accurate storage emulation: the models of seeklab behind a real block interface, in real time.
//!
//! ```text
//! client ─▶ frontend ─▶ pacer (timing manager) ─▶ Device
//!            │  ▲         what completes when
//!            ▼  │
//!           store (data manager): the bytes
//! ```
//! # References
//! J. L. Griffin, Timing-accurate storage emulation, CMU, 2004: figure 3.4 and chapters 3 and 5.

pub mod calibration;
pub mod client;
pub mod clock;
pub mod emulation;
pub mod frontend;
pub mod pacer;
pub mod passthrough;
pub mod store;
