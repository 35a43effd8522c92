//! Methods of queueing theory, one file each.
//!
//! # References
//! - [Kleinrock 1975] L. Kleinrock, *Queueing Systems, volume 1: Theory*, Wiley, 1975.

mod mg1;

pub use mg1::mg1;

use crate::error::{EstimateError, check_positive};

/// Means of a queue in the steady state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// Arrivals, and completions, per second.
    pub throughput_per_s: f64,
    /// Share of the time in which a server is busy, 0 to 1; with several servers, the mean over them.
    pub utilisation: f64,
    /// Mean queue time, in seconds.
    pub queue_time_mean_s: f64,
    /// Mean response time, in seconds.
    pub response_mean_s: f64,
    /// Mean number of requests that have arrived and are not complete.
    pub outstanding_mean: f64,
}

impl Steady {
    /// Means of a queue with a known queue time. The number outstanding follows by Little's law.
    pub(crate) fn of_queue_time(
        throughput_per_s: f64,
        utilisation: f64,
        queue_time_mean_s: f64,
        service_mean_s: f64,
    ) -> Self {
        let response_mean_s = queue_time_mean_s + service_mean_s;
        Self {
            throughput_per_s,
            utilisation,
            queue_time_mean_s,
            response_mean_s,
            outstanding_mean: throughput_per_s * response_mean_s,
        }
    }
}

/// Checks that arrivals are positive and below the rate that `servers` servers sustain.
pub(crate) fn check_load(
    arrivals_per_s: f64,
    service_mean_s: f64,
    servers: f64,
) -> Result<(), EstimateError> {
    check_positive("arrivals_per_s", arrivals_per_s)?;
    let saturation_per_s = servers / service_mean_s;
    if arrivals_per_s < saturation_per_s {
        Ok(())
    } else {
        Err(EstimateError::Overload { arrivals_per_s, saturation_per_s })
    }
}
