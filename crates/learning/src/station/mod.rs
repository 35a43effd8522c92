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
mod survival;

#[cfg(test)]
mod tests;

use crate::fit::Model;

pub use fit::StationFit;
pub use sample::{SAMPLE_MAX, SAMPLE_REQUEST_BYTES};

pub(super) const MODEL: Model = Model {
    name: "station",
    description: "waiting times from a queue, service times from the state at the start of service",
    leaves_out_warm_up: true,
    carries_waits: false,
    begin: |classes| {
        // A station finds its own classes. Classes that no model accepts are refused all the same.
        classes.check()?;
        Ok(Box::new(StationFit::default()))
    },
};
