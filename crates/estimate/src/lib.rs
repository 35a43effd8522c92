//! Estimates: response times, utilisation and limits of a device by arithmetic, before anything runs.
//!
//! ```text
//!   device ─▶ service law (a formula, or sampled by closed runs) ─┐
//!                                                                 ├─▶ open_poisson(), closed(), recorded() ─▶ Estimate
//!   load: Poisson, a population, arrivals of a trace ─────────────┘        └ queueing::METHOD
//! ```
//! Every method of queueing theory is one file of [`queueing`]. It states its assumptions and the source of its
//! formulas. [`assumptions`] tests them, and [`growth_until`] looks for the load at which a figure passes a bound, of which
//! [`growth_error`] gives the random error.
//!
//! # Scope and limits
//! No I/O, no clock: the same input gives the same figures on every machine. Times are seconds in `f64`, because
//! estimates are statistics and enter no state of a device.

pub mod assumptions;
mod closed;
mod closed_replay;
mod error;
mod growth;
pub mod job_slot;
pub mod lindsay_ferrari;
mod method;
mod moments;
mod network;
mod one_server;
mod open;
mod quantiles;
pub mod queueing;
mod recorded;
mod recorded_service;
mod resampling;
mod sampling;

pub use closed::{closed, closed_with_constant_think_times, response_min_s};
pub use closed_replay::closed_replay;
pub use error::EstimateError;
pub use growth::growth_until;
pub use method::{ClassMeans, Estimate, Method};
pub use moments::ServiceMoments;
pub use network::{NetworkEstimate, NetworkStation, closed_network};
pub use one_server::{is_one_server, open_batches, open_priorities};
pub use open::{HELD_SHARE_MAX, held, open_poisson, with_write_buffer};
pub use quantiles::{OperationTimes, Quantiles, SHARES};
pub use recorded::{RecordedLoad, depends_on_queue, recorded, recorded_moments, recorded_responses_s};
pub use recorded_service::{RecordedService, services_in_queue};
pub use resampling::{GrowthError, ResponseFigure, growth_error};
pub use sampling::{OUTSTANDING, sample_law, services_one_at_a_time};
