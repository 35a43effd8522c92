//! Fitting a station to a trace: servers, the order in which they take what waits, and service times by what is known
//! when a service starts.
//!
//! ```text
//! trace ─▶ Sample ─▶ choose: servers, features ─▶ starts ─▶ rows of features ─▶ Tree ─▶ StationParameters (TOML)
//! ```
//! # Scope and limits
//! One device. At most [`SAMPLE_MAX`] requests are used for the fit, in stretches evenly over the trace. The model itself is
//! [`seeklab_devices::station`].

mod choose;
mod fit;
mod grow;
mod observe;
mod sample;
mod starts;

#[cfg(test)]
mod tests;

pub use fit::StationFit;
pub use sample::SAMPLE_MAX;
