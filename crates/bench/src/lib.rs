//! Measures real targets: sends the requests of a workload, stamps them, and keeps errors apart from successes.
//!
//! ```text
//! Workload ─▶ Arrivals (intended times) ─▶ queue ─▶ slots ─▶ Target ─▶ kernel, server or model
//!               never wait for the target            ▲         │
//!                                                    └─ ended ─┘──▶ Part of an interval ─▶ Measurement
//! ```
//! A worker runs on a thread of its own with a target of its own. [`measure`] starts the workers, collects
//! what they hand over at the end of each interval, and returns on time although a worker may never come back.
//!
//! # Scope and limits
//! A worker takes no lock and allocates nothing per request: it hands over the figures of an interval at once. The
//! times of a target in virtual time are those of [`simulate`](seeklab_core::simulate()).
//!
//! # References
//! X. He, M. Zhang and Q. Yang, SPEK: A Storage Performance Evaluation Kernel module, IEEE TDSC 2(2), 2005: sections 2
//! and 3.2. G. Tene's *coordinated omission* is the reason for two times of each request.

mod arrivals;
mod claim;
mod cost;
pub mod counters;
mod dealt;
mod error;
mod identity;
mod measurement;
mod part;
mod plan;
mod priority;
mod records;
mod rounds;
mod run;
mod signature;
mod slots;
mod steady;
pub mod target;
pub mod verify;
mod worker;
mod write_data;

pub use claim::{Claim, ClaimOptions, claim};
pub use cost::Cost;
pub use dealt::Dealt;
pub use error::BenchError;
pub use identity::DeviceIdentity;
pub use measurement::{Draining, Interval, Measurement, Totals, Unfinished};
pub use part::{Depths, Direction, Part};
pub use plan::{Late, Plan, Ramp, StreamPlan};
pub use priority::IoPriority;
pub use run::{Lane, Listener, Stream, measure};
pub use signature::{Signature, signature_of};
pub use steady::{
    STEADY_RANGE_PCT, STEADY_ROUNDS, STEADY_SLOPE_PCT, SteadyChange, SteadyFigure, SteadyRule, SteadyTrack,
    SteadyWindow,
};
pub use write_data::WriteData;
