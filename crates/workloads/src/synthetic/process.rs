//! Open arrival processes: interarrival times that ignore completions.

use std::sync::Arc;

use rand_distr::Exp1;
use seeklab_core::{DescriptionError, Duration, Mistake, Stream};

use super::arrivals::{ArrivalSpec, BurstDistribution, TimeDistribution};
use super::geometric::Geometric;

/// Draws interarrival times.
#[derive(Debug, Clone)]
pub(super) enum OpenProcess {
    Poisson {
        mean_ns: f64,
    },
    /// Arrival `count` lies at `count` times the mean, rounded, so that no rounding adds up.
    Constant {
        mean_ns: f64,
        count: u64,
    },
    Bursty(Bursts),
    Shaped {
        times: Arc<[Duration]>,
        position: usize,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Bursts {
    /// The distribution of lengths; `None` if all have `length`.
    lengths: Option<Geometric>,
    length: u64,
    within: Duration,
    gap: Duration,
    distribution: TimeDistribution,
    /// Arrivals left in the current burst.
    remaining: u64,
}

impl OpenProcess {
    /// The process of that description, `None` of a closed one.
    pub(super) fn new(
        spec: &ArrivalSpec,
        supplied: Option<Arc<[Duration]>>,
    ) -> Result<Option<Self>, DescriptionError> {
        Ok(Some(match spec {
            ArrivalSpec::Poisson(pace) => Self::Poisson { mean_ns: pace.interarrival_ns() },
            ArrivalSpec::Constant(pace) => Self::Constant { mean_ns: pace.interarrival_ns(), count: 0 },
            ArrivalSpec::Bursty { burst, burst_distribution, within, gap, distribution } => {
                let lengths = match burst_distribution {
                    BurstDistribution::Geometric => Some(Geometric::new(*burst)),
                    BurstDistribution::Constant => None,
                };
                Self::Bursty(Bursts {
                    lengths,
                    length: *burst as u64,
                    within: *within,
                    gap: *gap,
                    distribution: *distribution,
                    remaining: 0,
                })
            }
            ArrivalSpec::Shaped => {
                let times = supplied.filter(|times| !times.is_empty()).ok_or_else(|| {
                    DescriptionError::new(
                        Mistake::NotSupplied,
                        "arrivals",
                        "`shaped` needs a list of interarrival times",
                    )
                    .hint("name the trace that shapes the arrivals")
                })?;
                if times.iter().all(|time| time.is_zero()) {
                    return Err(DescriptionError::invalid(
                        "arrivals",
                        "all interarrival times of the list are 0",
                    ));
                }
                Self::Shaped { times, position: 0 }
            }
            ArrivalSpec::Closed { .. } => return Ok(None),
        }))
    }

    /// The time from the last arrival to the next.
    pub(super) fn interarrival(&mut self, stream: &mut Stream) -> Duration {
        match self {
            Self::Poisson { mean_ns } => {
                let draw: f64 = stream.sample(&Exp1);
                Duration::from_ns_f64(draw * *mean_ns)
            }
            Self::Constant { mean_ns, count } => {
                let last = Duration::from_ns_f64(*count as f64 * *mean_ns);
                *count += 1;
                Duration::from_ns_f64(*count as f64 * *mean_ns) - last
            }
            Self::Bursty(bursts) => bursts.interarrival(stream),
            Self::Shaped { times, position } => {
                let time = times[*position];
                *position = (*position + 1) % times.len();
                time
            }
        }
    }
}

impl Bursts {
    fn interarrival(&mut self, stream: &mut Stream) -> Duration {
        let mean = if self.remaining == 0 {
            self.remaining = match self.lengths {
                None => self.length,
                Some(lengths) => lengths.draw(stream),
            };
            self.gap
        } else {
            self.within
        };
        self.remaining -= 1;
        match self.distribution {
            TimeDistribution::Constant => mean,
            TimeDistribution::Exponential => stream.exponential(mean),
        }
    }
}
