//! The plan of a measurement: everything but targets and workloads.

use seeklab_core::Duration;
use seeklab_emulator::clock::Pacing;
use seeklab_workloads::Retries;

use crate::steady::SteadyRule;

/// Treatment of arrivals that find as many requests under way as are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Late {
    /// They wait. Their response time counts from their intended start.
    #[default]
    Queue,
    /// They are left out, and counted.
    Drop,
}

/// Part of the run that is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ramp {
    /// Nothing.
    #[default]
    None,
    /// Requests that arrive before this time.
    Time(Duration),
    /// Requests that arrive before so many have ended.
    Requests(u64),
}

/// The plan of a phase: what holds for all of its streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Time that is counted [default: until the workloads end].
    pub duration: Option<Duration>,
    /// End in the steady state, at the latest at the end of the duration.
    pub steady: Option<SteadyRule>,
    /// Part before it that is not counted.
    pub ramp: Ramp,
    /// Length of an interval of the figures over time [default: one interval].
    pub interval: Option<Duration>,
    /// Intervals that are kept apart. Those behind them are joined to the last one, so that memory is bounded.
    pub intervals_max: usize,
    /// Trade of processor time for exact arrivals.
    pub pacing: Pacing,
    /// Hand every request to the listener.
    pub record: bool,
    /// The targets are models in virtual time.
    pub is_virtual: bool,
}

/// The plan of a stream: its target and workload are those of its lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPlan {
    /// Requests under way at a time at most, on all threads of the stream together.
    pub outstanding_max: u32,
    /// Treatment of arrivals beyond that.
    pub late: Late,
    /// Attempts after a request failed.
    pub retries: Retries,
    /// Time after which a request counts as failed [default: never].
    pub timeout: Option<Duration>,
    /// Completions to wait for at a time. More than one costs less and is for closed loads only.
    pub batch: u32,
    /// Number of its target in the rows of the trace.
    pub device: u16,
}

impl Plan {
    /// Time that requests under way get to end, from the end of the run or the last completion behind it, beside the longest time
    /// that one has taken.
    pub const DRAIN: Duration = Duration::from_s(2);

    /// Time that they get at most. In virtual time there is no limit, and a run that was stopped has [`DRAIN`](Self::DRAIN).
    pub const DRAIN_MAX: Duration = Duration::from_s(30);

    /// Age from which a request counts as hung in the figures of an interval.
    pub const HUNG: Duration = Duration::from_s(1);
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            duration: None,
            steady: None,
            ramp: Ramp::None,
            interval: Some(Duration::from_s(1)),
            intervals_max: 100_000,
            pacing: Pacing::Balanced,
            record: false,
            is_virtual: false,
        }
    }
}

impl Default for StreamPlan {
    fn default() -> Self {
        Self {
            outstanding_max: 1024,
            late: Late::Queue,
            retries: Retries::default(),
            timeout: None,
            batch: 1,
            device: 0,
        }
    }
}
