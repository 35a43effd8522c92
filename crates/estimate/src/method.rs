//! Methods of estimates and the figures that each gives.

use crate::moments::ServiceMoments;
use crate::quantiles::{OperationTimes, Quantiles};
use crate::queueing::Steady;

/// Method of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// M/G/1.
    Mg1,
    /// M/G/1 with two classes of priority.
    Mg1Priorities,
    /// M/G/1 with arrivals in batches.
    Mxg1,
    /// The chain embedded at departures.
    DepartureChain,
    /// The recursion with a write buffer.
    BufferedWrites,
    /// The recursion with token buckets in front of one server.
    LimitedQueue,
    /// Birth and death with several servers.
    BirthDeath,
    /// A population without think time.
    Closed,
    /// A closed replay of recorded requests.
    ClosedReplay,
    /// A closed network of several devices.
    MeanValueAnalysis,
    /// A finite population with think time.
    FinitePopulation,
    /// A population with constant think times, followed over drawn requests.
    ConstantThinkTimes,
    /// Lindley's recursion over arrivals.
    Lindley,
    /// Lindley's recursion in the order of a device that reorders its queue, with service times that depend on the number
    /// waiting.
    LindleyReordered,
    /// Allen-Cunneen from two moments of arrivals and service.
    AllenCunneen,
}

impl Method {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mg1 => "mg1",
            Self::Mg1Priorities => "mg1_priorities",
            Self::Mxg1 => "mxg1",
            Self::DepartureChain => "departure_chain",
            Self::BufferedWrites => "buffered_writes",
            Self::LimitedQueue => "limited_queue",
            Self::BirthDeath => "birth_death",
            Self::Closed => "closed",
            Self::ClosedReplay => "closed_replay",
            Self::MeanValueAnalysis => "mean_value_analysis",
            Self::FinitePopulation => "finite_population",
            Self::ConstantThinkTimes => "constant_think_times",
            Self::Lindley => "lindley",
            Self::LindleyReordered => "lindley_reordered",
            Self::AllenCunneen => "allen_cunneen",
        }
    }
}

/// Estimate of one device under one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Method of the figures.
    pub method: Method,
    /// Service time at this load: mean and variance over the requests.
    pub service: ServiceMoments,
    /// Means.
    pub steady: Steady,
    /// Response times of shares of the requests. `None` if the method gives none.
    pub quantiles_s: Option<Quantiles>,
    /// Response times of the reads, if they differ from those of the writes.
    pub reads: Option<OperationTimes>,
    /// Response times of the writes, if they differ from those of the reads.
    pub writes: Option<OperationTimes>,
    /// Mean response times by class, if a queue serves one class first.
    pub classes: Option<ClassMeans>,
    /// Highest sustained rate per second. `None` if nothing limits it.
    pub saturation_per_s: Option<f64>,
}

/// Mean response times of the two classes of a queue that serves one class first, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassMeans {
    /// Of the requests that are served first.
    pub time_critical_s: f64,
    /// Of the others.
    pub time_noncritical_s: f64,
}

impl Estimate {
    /// An estimate of means alone.
    pub(crate) const fn of_means(method: Method, service: ServiceMoments, steady: Steady) -> Self {
        Self {
            method,
            service,
            steady,
            quantiles_s: None,
            reads: None,
            writes: None,
            classes: None,
            saturation_per_s: None,
        }
    }
}
