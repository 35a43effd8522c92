//! Reasons for which there is no estimate.

/// A failure to estimate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// Arrivals exceed the rate that the device sustains, so its queue grows without end.
    #[error(
        "{arrivals_per_s:.6} requests arrive per second, and the device completes at most \
         {saturation_per_s:.6} per second: its queue grows without end"
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
