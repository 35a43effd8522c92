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
pub mod jobs;
mod limit;
mod region;
mod stop;
pub mod survey;
pub mod sweep;
pub mod warm_up;

pub use error::{Error, ErrorKind};
pub use stop::StopCheck;

/// Declares the module of each model and lists the models in order.
macro_rules! models {
    ($($module:ident,)+) => {
        $(pub mod $module;)+

        /// THE list of models that can be fitted to traces.
        pub static MODELS: &[fit::Model] = &[$($module::MODEL),+];
    };
}

models! {
    station,
    table,
    trivial,
}
