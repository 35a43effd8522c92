//! Mean and variance of a service time.

use crate::error::{EstimateError, check_not_negative, check_positive};

/// Mean and variance of the time that a server holds one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceMoments {
    /// Mean, in seconds.
    pub mean_s: f64,
    /// Variance, in seconds squared.
    pub variance_s2: f64,
}

impl ServiceMoments {
    /// Moments of equally probable times, in seconds; of none, all 0.
    pub fn of(times_s: impl IntoIterator<Item = f64, IntoIter: Clone>) -> Self {
        let times_s = times_s.into_iter();
        let count = times_s.clone().count().max(1) as f64;
        let mean_s = times_s.clone().sum::<f64>() / count;
        // Around the mean, so that nearly constant times keep their digits.
        let variance_s2 = times_s.map(|time_s| (time_s - mean_s).powi(2)).sum::<f64>() / count;
        Self { mean_s, variance_s2 }
    }

    /// A service time that is always the same.
    pub const fn constant(mean_s: f64) -> Self {
        Self { mean_s, variance_s2: 0.0 }
    }

    /// An exponentially distributed service time.
    pub const fn exponential(mean_s: f64) -> Self {
        Self { mean_s, variance_s2: mean_s * mean_s }
    }

    /// A service time with a mean and a standard deviation.
    pub const fn with_deviation(mean_s: f64, deviation_s: f64) -> Self {
        Self { mean_s, variance_s2: deviation_s * deviation_s }
    }

    /// Second moment, in seconds squared.
    pub const fn second_moment_s2(&self) -> f64 {
        self.variance_s2 + self.mean_s * self.mean_s
    }

    /// Standard deviation, in seconds.
    pub fn deviation_s(&self) -> f64 {
        self.variance_s2.sqrt()
    }

    /// Variance in units of the squared mean: 0 for a constant, 1 for an exponential time.
    pub const fn squared_variation(&self) -> f64 {
        self.variance_s2 / (self.mean_s * self.mean_s)
    }

    /// Checks that the mean is positive and the variance not negative.
    ///
    /// # Errors
    /// The value that is not.
    pub fn check(&self) -> Result<(), EstimateError> {
        check_positive("service_mean_s", self.mean_s)?;
        check_not_negative("service_variance_s2", self.variance_s2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_zero_of_a_constant_and_one_of_an_exponential() {
        assert_eq!(ServiceMoments::constant(0.25).squared_variation(), 0.0);
        assert_eq!(ServiceMoments::exponential(0.25).squared_variation(), 1.0);
        assert_eq!(ServiceMoments::with_deviation(2.0, 3.0).second_moment_s2(), 13.0);
    }

    #[test]
    fn moments_of_times_are_those_of_their_equal_shares() {
        let moments = ServiceMoments::of([1.0, 3.0]);
        assert_eq!((moments.mean_s, moments.variance_s2), (2.0, 1.0));
        assert_eq!(ServiceMoments::of([]), ServiceMoments::constant(0.0));
    }

    #[test]
    fn moments_without_a_mean_are_refused() {
        assert!(ServiceMoments::constant(0.0).check().is_err());
        assert!(ServiceMoments { mean_s: 1.0, variance_s2: -1.0 }.check().is_err());
        assert!(ServiceMoments { mean_s: f64::NAN, variance_s2: 1.0 }.check().is_err());
        assert!(ServiceMoments::exponential(1.0).check().is_ok());
    }
}
