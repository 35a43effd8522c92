//! The plan of a measurement: everything but target and workload.

use seeklab_core::Duration;
use seeklab_emulator::clock::Pacing;
use seeklab_workloads::Retries;

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

/// The plan of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Requests under way at a time at most, on all threads together.
    pub outstanding_max: u32,
    /// Treatment of arrivals beyond that.
    pub late: Late,
    /// Attempts after a request failed.
    pub retries: Retries,
    /// Time that is counted [default: until the workload ends].
    pub duration: Option<Duration>,
    /// Part before it that is not counted.
    pub ramp: Ramp,
    /// Length of an interval of the figures over time [default: one interval].
    pub interval: Option<Duration>,
    /// Time after which a request counts as failed [default: never].
    pub timeout: Option<Duration>,
    /// Completions to wait for at a time. More than one costs less and is for closed loads only.
    pub batch: u32,
    /// Trade of processor time for exact arrivals.
    pub pacing: Pacing,
    /// Hand every request to the listener.
    pub record: bool,
    /// The targets are models in virtual time.
    pub is_virtual: bool,
}

impl Plan {
    /// Time that requests under way at the end of the run get to end.
    pub const DRAIN: Duration = Duration::from_s(2);

    /// Age from which a request counts as hung in the figures of an interval.
    pub const HUNG: Duration = Duration::from_s(1);
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            outstanding_max: 1024,
            late: Late::Queue,
            retries: Retries::default(),
            duration: None,
            ramp: Ramp::None,
            interval: Some(Duration::from_s(1)),
            timeout: None,
            batch: 1,
            pacing: Pacing::Balanced,
            record: false,
            is_virtual: false,
        }
    }
}
