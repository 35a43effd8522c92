//! A device cloned from its trace as a service station: servers, the order in which they take what waits, and service
//! times by what is known when a service starts.
//!
//! ```text
//! trace ─▶ a fit ─▶ StationParameters (TOML)
//!
//! request ─▶ free server? ─no─▶ waits ─▶ Picks: which of those that wait
//!              └──────yes──────────────────────┴─▶ State: features ─▶ Tree: leaf ─▶ a time from it ─▶ completion
//! ```
//! Under [`Order::Sptf`] a time is drawn for each of those that wait, and the least decides which is next.
//!
//! A response time, which [`table`](crate::table) keeps whole, is divided into waiting time and service time. Service times
//! are fitted; waiting times follow from the simulated queue. A queue longer than any recorded one therefore drains at the
//! recorded rate.
//!
//! # Scope and limits
//! One device. Times depend on what is in [`Feature`] alone. A leaf draws fitted times: none is longer than the
//! longest.
//!
//! # References
//! Station: E. D. Lazowska, J. Zahorjan, G. S. Graham, K. C. Sevcik, Quantitative System Performance, 1984, chapter 3.
//! Tree: L. Breiman, J. Friedman, R. Olshen, C. Stone, Classification and Regression Trees, 1984, chapters 3 and 4.

mod feature;
mod fitted;
mod model;
mod order;
mod parameters;
mod picks;
mod state;
mod tree;

pub use feature::Feature;
pub(crate) use fitted::fitted_model;
pub(crate) use model::Parts;
pub use model::Station;
pub use order::{First, Order};
pub use parameters::StationParameters;

/// Parts of a station, for a fit that makes one.
pub mod parts {
    pub use super::feature::{CLASSES, FEATURES, Row};
    pub use super::model::Parts;
    pub use super::order::{COMPARED, Line};
    pub use super::parameters::{OperationSeen, is_sequential};
    pub use super::picks::{PickCounts, Picks};
    pub use super::state::{Scale, State, StationRequest};
    pub use super::tree::{DEPTH_MAX, Node, Tree};
}
