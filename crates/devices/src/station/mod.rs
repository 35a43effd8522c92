//! A device cloned from its trace as a service station: servers, the order in which they take what waits, and service
//! times by what is known when a service starts.
//!
//! ```text
//! trace ─▶ Sample ─▶ choose: servers, features ─▶ starts ─▶ rows of features ─▶ Tree ─▶ StationParameters (TOML)
//!
//! request ─▶ free server? ─no─▶ waits ─▶ Picks: which of those that wait
//!              └──────yes──────────────────────┴─▶ State: features ─▶ Tree: leaf ─▶ a time from it ─▶ completion
//! ```
//! What [`table`](crate::table) calls a response is taken apart here into waiting, which the station makes itself, and
//! service, which is learnt. So requests lengthen each other's waiting as they did, and a longer queue than any that was
//! recorded is answered by the rate that was.
//!
//! # Scope and limits
//! One device. Times depend on what is in [`Feature`] alone. A leaf draws times that were seen: none is longer than the
//! longest. At most [`SAMPLE_MAX`] requests are learnt from, in stretches evenly over the trace.
//!
//! # References
//! Station: E. D. Lazowska, J. Zahorjan, G. S. Graham, K. C. Sevcik, Quantitative System Performance, 1984, chapter 3.
//! Tree: L. Breiman, J. Friedman, R. Olshen, C. Stone, Classification and Regression Trees, 1984, chapters 3 and 4.

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
