//! Methods of queueing theory, one file each.
//!
//! | method | arrivals | server |
//! | --- | --- | --- |
//! | [`mm1`], [`mmc`] | Poisson | one, or several; exponential |
//! | [`mg1`], [`mg1_queue_times`], [`mg1_response_times`] | Poisson | one, any distribution |
//! | [`mxg1`], [`mxg1_response_times`] | batches, Poisson | one, any distribution |
//! | [`mg1_priorities`] | Poisson, of several classes | one, any distribution |
//! | [`allen_cunneen`] | two moments | several, two moments |
//! | [`departure_chain`] | Poisson | one, service depends on the queue |
//! | [`buffered_writes`] | Poisson | one, with a write buffer that is written to the media behind it |
//! | [`reordered_response_times`] | Poisson | one, service depends on the queue, any order |
//! | [`finite_population`] | members that think | rate depends on the queue, exponential |
//! | [`finite_source`] | members that think | one, any distribution |
//! | [`finite_departures`] | members that think | one, service depends on the queue |
//! | [`constant_think_times`] | members with constant think times | one, service depends on the queue, any order |
//! | [`mean_value_analysis`], [`asymptotic_bounds`], [`balanced_bounds`] | members that think | a network |
//! | [`Lindley`] | those of a trace | one, any times |
//! | [`operational_laws`], [`OperationalPass`] | those of a trace | unknown |
//!
//! # References
//! - [Kleinrock 1975] L. Kleinrock, *Queueing Systems, volume 1: Theory*, Wiley, 1975.
//! - [Allen 1990] A. O. Allen, *Probability, Statistics, and Queueing Theory*, 2nd edition, Academic Press, 1990.
//! - [Cobham 1954] A. Cobham, *Priority assignment in waiting line problems*, Operations Research 2(1), 1954.
//! - [Denning & Buzen 1978] P. J. Denning, J. P. Buzen, *The operational analysis of queueing network models*, ACM
//!   Computing Surveys 10(3), 1978.
//! - [Gross & Harris 1998] D. Gross, C. M. Harris, *Fundamentals of Queueing Theory*, 3rd edition, Wiley, 1998.
//! - [Kleinrock 1976] L. Kleinrock, *Queueing Systems, volume 2: Computer Applications*, Wiley, 1976.
//! - [Lazowska et al. 1984] E. D. Lazowska, J. Zahorjan, G. S. Graham, K. C. Sevcik, *Quantitative System Performance*,
//!   Prentice-Hall, 1984.
//! - [Lindley 1952] D. V. Lindley, *The theory of queues with a single server*, Proceedings of the Cambridge Philosophical
//!   Society 48(2), 1952.
//! - [Le Boudec 2001] J.-Y. Le Boudec, P. Thiran, *Network Calculus*, Springer LNCS 2050, 2001.
//! - [Kingman 1962] J. F. C. Kingman, *On queues in which customers are served in random order*, Mathematical
//!   Proceedings of the Cambridge Philosophical Society 58(1), 1962.
//! - [Bowling et al. 2009] S. R. Bowling, M. T. Khasawneh, S. Kaewkuekool, B. R. Cho, *A logistic approximation to the
//!   cumulative normal distribution*, Journal of Industrial Engineering and Management 2(1), 2009.
//! - [Takács 1962] L. Takács, *Introduction to the Theory of Queues*, Oxford University Press, 1962.
//! - [Panjer 1981] H. H. Panjer, *Recursive evaluation of a family of compound distributions*, ASTIN Bulletin 12(1), 1981.
//! - [Reiser & Lavenberg 1980] M. Reiser, S. S. Lavenberg, *Mean-value analysis of closed multichain queueing networks*,
//!   Journal of the ACM 27(2), 1980.

mod allen_cunneen;
mod batches;
mod bounds;
mod buffered_writes;
mod control;
mod departures;
mod finite_departures;
mod finite_population;
mod finite_source;
mod limited_queue;
mod lindley;
mod mg1;
mod mm1;
mod mmc;
mod mva;
mod operational;
mod priorities;
mod reordered;
mod response_times;
mod thinking_quantiles;

pub use allen_cunneen::allen_cunneen;
pub use batches::{Batch, BatchSizes, mxg1, mxg1_response_times};
pub use bounds::{ThroughputBounds, asymptotic_bounds, balanced_bounds};
pub use buffered_writes::{BufferedSteady, buffered_saturation_per_s, buffered_writes};
pub use departures::{DepartureChain, QueueDependentService, departure_chain};
pub use finite_departures::finite_departures;
pub use finite_population::{Population, finite_population};
pub use finite_source::finite_source;
pub use limited_queue::{Held, LimitedSteady, Unlimited, drawn_held, limited_queue};
pub use lindley::{Lindley, ServedArrival};
pub use mg1::mg1;
pub use mm1::{mm1, mm1_response_quantile_s};
pub use mmc::{mmc, waiting_probability};
pub use mva::{NetworkMeans, Station, StationMeans, mean_value_analysis};
pub use operational::{OperationalLaws, OperationalPass, Stay, operational_laws};
pub use priorities::{PriorityClass, mg1_priorities};
pub use reordered::{ReorderedTimes, reordered_response_times};
pub use response_times::{ResponseTimes, mg1_queue_times, mg1_response_times, sum_quantiles_s};
pub use thinking_quantiles::{ServiceOrder, ThinkingSteady, constant_think_times, thinking_quantiles_s};

use crate::error::{EstimateError, check_positive};

/// Means of a queue in the steady state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// Arrivals, and completions, per second.
    pub throughput_per_s: f64,
    /// Share of the time in which at least one request is in service, 0 to 1; of [`mmc`], the mean over the servers.
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
