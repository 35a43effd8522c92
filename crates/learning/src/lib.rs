//! Models fitted to traces and to results of benchmarks, and their evaluation.
//!
//! ```text
//! records ─▶ Fit ─▶ description (TOML) ─▶ devices: the model that runs
//! ```
//! # Scope and limits
//! No I/O: whoever calls opens traces and results, and hands their records over in order of arrival.

mod backlog;
mod counts;
mod driven;
mod error;
pub mod evaluation;
pub mod fio;
pub mod fit;
mod limit;
pub mod station;
pub mod survey;
pub mod sweep;
pub mod table;

pub use error::{Error, ErrorKind};
