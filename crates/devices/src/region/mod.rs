//! The region of loads that a model was fitted to, and the requests outside of it.
//!
//! ```text
//! trace ─▶ LoadMeter ─▶ extremes of requests and windows ─▶ RegionParameters (TOML)
//! request ─▶ LoadMeter ─▶ Region: bounds that it, or its window, lies beyond ─▶ RegionCounter ─▶ Coverage
//! ```
//! Requests are judged one by one, and in windows of 8, 64 and 512 requests that arrive one after the other. A fit and a
//! clone measure loads by the same code.
//!
//! # Scope and limits
//! Queue length, mixture of operations, length, sequentiality and rate have bounds, each on its own: two properties that
//! lie within their bounds can still be a combination that was not fitted. Addresses have no bounds, except by
//! sequentiality.

mod counter;
mod meter;
mod parameters;

pub use counter::RegionCounter;
pub use meter::{Arrived, LoadMeter, LoadRequest, WINDOWS, Window};
pub use parameters::{OperationBounds, Region, RegionParameters, WindowBounds};
