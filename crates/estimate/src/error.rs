//! Reasons for which there is no estimate.

use seeklab_core::number_words::{in_number, numbered};

/// A failure to estimate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// Arrivals exceed the rate that the device sustains, so its queue grows without end.
    #[error(
        "{arrivals_per_s:.3} requests arrive per second, and the device completes at most \
         {saturation_per_s:.3} per second: its queue grows without end"
    )]
    Overload {
        /// Arrivals per second.
        arrivals_per_s: f64,
        /// Highest sustained rate of completions per second.
        saturation_per_s: f64,
    },
    /// A parameter is outside its allowed range.
    #[error("`{parameter}` is {value}, allowed: {allowed}")]
    Parameter {
        /// Name of the parameter.
        parameter: &'static str,
        /// Value found.
        value: f64,
        /// Allowed values.
        allowed: &'static str,
    },
    /// Too few requests for an estimate.
    #[error("{}, which needs at least {needed}", numbered(*requests, "request[|s] [is|are] too few for an estimate"))]
    TooFewRequests {
        /// Requests found.
        requests: u64,
        /// Least number of requests.
        needed: u64,
    },
    /// All requests arrive at the same time, so there is no rate.
    #[error("{}", in_number(*requests, &format!("[one request has|all {requests} requests have the same arrival time, so they have] no rate")))]
    WithoutTimes {
        /// Requests found.
        requests: u64,
    },
    /// Requests take no time, so a population without think time has no rate.
    #[error("the device answers at once, so a closed load without think time has no rate")]
    WithoutService,
    /// The method gives no such figure for the load.
    #[error("`{method}` gives no {figure} for this load")]
    WithoutFigure {
        /// Name of the method.
        method: &'static str,
        /// Name of the figure.
        figure: &'static str,
    },
    /// The figure exceeds its bound at any load.
    #[error("exceeds {bound:?} at any load")]
    AlwaysExceeded {
        /// The bound.
        bound: f64,
    },
    /// The figure stays within its bound at any load.
    #[error("stays within {bound:?} at any load")]
    NeverReached {
        /// The bound.
        bound: f64,
    },
    /// The device does not take the requests.
    #[error("a sample of the service times failed: {0}")]
    Refused(String),
}

/// Checks that a parameter is finite and positive.
pub(crate) fn check_positive(parameter: &'static str, value: f64) -> Result<(), EstimateError> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(EstimateError::Parameter { parameter, value, allowed: "a finite number above 0" })
    }
}

/// Checks that a parameter is finite and not negative.
pub(crate) fn check_not_negative(parameter: &'static str, value: f64) -> Result<(), EstimateError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(EstimateError::Parameter { parameter, value, allowed: "a finite number of at least 0" })
    }
}
