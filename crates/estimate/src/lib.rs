//! Estimates: response times, utilisation and limits of a device by arithmetic, before anything runs.
//!
//! ```text
//!   service times, arrivals ─▶ queueing::METHOD ─▶ Steady (utilisation, queue time, response time, outstanding)
//! ```
//! Every method is one file of [`queueing`]. It states its assumptions and the source of its formulas.
//!
//! # Scope and limits
//! No I/O, no clock: the same input gives the same figures on every machine. Times are seconds in `f64`, because
//! estimates are statistics and enter no state of a device.

mod error;
pub mod job_slot;
pub mod lindsay_ferrari;
mod moments;
pub mod queueing;

pub use error::EstimateError;
pub use moments::ServiceMoments;
