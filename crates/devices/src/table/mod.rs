//! A device cloned from its trace as tables: for each operation, request length and queue length at arrival, a
//! distribution of times for each seek distance, sampled by look-up.
//!
//! ```text
//! trace ─▶ a fit ─▶ TableParameters (TOML) ─▶ TableModel
//!                                                   request ─▶ class ─▶ cell, or the nearest ─▶ draw
//! ```
//! Exactly the technique of Thornock, Tu and Flanagan. What they call service time contains queueing: it is our
//! response time. The seek distance is signed, from start to start, in order of arrival; the queue length in
//! simulation is that of the model's own requests; flushes, discards and write-zeroes are operations of their own.
//!
//! # Scope and limits
//! Draws are independent, and completions do not wait for each other: runs of slow requests, caches and phases are lost.
//! One device; see `docs/models/table.md` for what that costs.
//!
//! # References
//! \[Thornock97\]: N. C. Thornock, X.-H. Tu, J. K. Flanagan, A stochastic disk I/O simulation technique, Winter
//! Simulation Conference 1997, section 3.

mod classes;
mod fitted;
mod grid;
mod model;
mod parameters;
mod times;

pub use classes::Classes;
pub(crate) use fitted::{ClassTimes, fitted_model};
pub use model::TableModel;
pub(crate) use model::Tables;
pub use parameters::TableParameters;
pub(crate) use times::Times;

/// Parts of tables, for a fit that makes some.
pub mod parts {
    pub use super::classes::{Class, Distance};
    pub use super::grid::{Place, place};
    pub use super::model::distance;
    pub use super::parameters::write_cell;
    pub use super::times::{Counts, bucket};
}
