//! Device models, schedulers and layers of seeklab.
//!
//! ```text
//! description (TOML, catalog) ─▶ registry ─▶ Box<dyn Device>
//!                                              ├─ disk/       layout ▸ mechanism ▸ electronics ▸ queue
//!                                              ├─ simple/     immediate, constant, exponential
//!                                              ├─ station/    servers, waiting and service times fitted to a trace
//!                                              ├─ table/      response times of a trace, drawn by class
//!                                              └─ layer/      queue, limit, fault, bank: devices that own devices
//! fitted      contents of such a model, as tables and curves
//! fault/      faults: the requests that they strike, when, and how
//! limit/      rate and burst limits: the token bucket
//! region/     loads that a model was fitted to, and requests outside of them
//! power_loss  what a buffer and the unit under the head hold afterwards
//! scheduler/  FCFS … SPTF, for the host's queue and the drive's own
//! service_law service times for a demand, for estimates
//! ```
//!
//! # Scope and limits
//! Models never read a clock, never do I/O, never see data. A description is text; whoever calls reads
//! the file.

pub mod catalog;
pub mod description;
pub mod disk;
mod durability;
mod error;
pub mod fault;
pub mod fitted;
pub mod kind;
pub mod layer;
pub mod limit;
mod outstanding;
pub mod power_loss;
pub mod region;
pub mod registry;
pub mod scheduler;
pub mod schema;
pub mod service_law;
pub mod simple;
pub mod station;
pub mod table;
pub mod torn;

pub use description::Description;
pub use fitted::FittedModel;
pub use kind::{Children, Kind};
pub use seeklab_core::DescriptionError;
pub use service_law::ServiceLaw;
