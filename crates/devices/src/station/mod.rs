//! A device cloned from its trace as a service station: servers, the order in which they take waiting
//! requests, and service times by the features known when a service starts.
//!
//! ```text
//! trace ─▶ Sample ─▶ choose: servers, features ─▶ starts ─▶ rows of features ─▶ Tree ─▶ StationParameters (TOML)
//!
//! request ─▶ free server? ─no─▶ waits ─▶ Picks: which of those that wait
//!              └──────yes──────────────────────┴─▶ State: features ─▶ Tree: leaf ─▶ a time from it ─▶ completion
//! ```
//! The response time of [`table`](crate::table) is divided here into waiting, which the station makes itself,
//! and service, which is fitted. So requests lengthen each other's waiting as in the trace, and a queue
//! longer than any recorded one is served at the recorded rate.
//!
//! # Scope and limits
//! One device. Times depend on the [`Feature`]s alone. A leaf draws measured times: none is longer than the
//! longest measured one. At most [`SAMPLE_MAX`] requests are fitted, in stretches spread evenly over the
//! trace.
//!
//! # References
//! Station: E. D. Lazowska, J. Zahorjan, G. S. Graham, K. C. Sevcik, Quantitative System Performance, 1984,
//! chapter 3. Tree: L. Breiman, J. Friedman, R. Olshen, C. Stone, Classification and Regression Trees, 1984,
//! chapters 3 and 4.

mod choose;
mod feature;
mod fit;
mod grow;
mod learnt;
mod model;
mod observe;
mod order;
mod parameters;
mod picks;
mod sample;
mod starts;
mod state;
mod tree;

#[cfg(test)]
mod tests;

pub use feature::Feature;
pub use fit::StationFit;
pub(crate) use learnt::learnt;
pub(crate) use model::Parts;
pub use model::Station;
pub use order::Order;
pub use parameters::StationParameters;
pub use sample::SAMPLE_MAX;
