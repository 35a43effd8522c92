//! The event loop: a workload drives a device as fast as possible.

use crate::completion::Completion;
use crate::device::{Device, Rejected};
use crate::request::Request;
use crate::units::Instant;
use crate::workload::{Arrival, Workload};

/// Bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Outstanding requests at which the run stops as saturated.
    pub outstanding_max: usize,
}

impl Default for Limits {
    /// One hundred thousand outstanding requests: past any queue that a stable load builds up.
    fn default() -> Self {
        Self { outstanding_max: 100_000 }
    }
}

/// What a run amounted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSummary {
    /// Requests that were submitted; all of them completed.
    pub requests: u64,
    /// Time of the last completion.
    pub end: Instant,
}

/// Why a run stopped before its workload finished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The device did not take a request.
    #[error("request {} at {at}: {}", request.id.0, rejected)]
    Rejected {
        /// The request, its number counted from zero.
        request: Request,
        /// When it arrived.
        at: Instant,
        /// Why it was not taken.
        rejected: Rejected,
    },
    /// Requests arrive faster than the device can serve them.
    #[error(
        "the device cannot sustain this load: {outstanding} requests are outstanding after {completed} completions at {at}"
    )]
    Saturated {
        /// Requests outstanding, the limit.
        outstanding: usize,
        /// Requests completed so far.
        completed: u64,
        /// When the limit was reached.
        at: Instant,
    },
}

/// Drives `device` with `workload` until the workload has finished and everything is complete.
///
/// `observe` sees every completion in order of completion time. At equal times completions come
/// before arrivals.
///
/// # Errors
/// [`SimulationError`], when a request is rejected or `limits` are reached.
///
/// # Panics
/// If the workload waits for a completion while nothing is outstanding, or the device breaks its
/// contract: bugs, both.
pub fn simulate<W, D, F>(
    workload: &mut W,
    device: &mut D,
    limits: Limits,
    mut observe: F,
) -> Result<RunSummary, SimulationError>
where
    W: Workload + ?Sized,
    D: Device + ?Sized,
    F: FnMut(&Completion),
{
    let mut now = Instant::ZERO;
    let mut summary = RunSummary::default();
    let mut outstanding = 0;
    let mut completions = Vec::new();
    loop {
        let next_arrival = loop {
            match workload.next_arrival(now) {
                Arrival::Request(request) => {
                    device.submit(now, request).map_err(|rejected| SimulationError::Rejected {
                        request,
                        at: now,
                        rejected,
                    })?;
                    summary.requests += 1;
                    outstanding += 1;
                    if outstanding > limits.outstanding_max {
                        let completed = summary.requests - outstanding as u64;
                        return Err(SimulationError::Saturated { outstanding, completed, at: now });
                    }
                }
                Arrival::At(time) => break Some(time),
                Arrival::WaitForCompletion => {
                    assert!(
                        outstanding > 0,
                        "the workload waits for a completion, but nothing is outstanding"
                    );
                    break None;
                }
                Arrival::Finished => break None,
            }
        };
        let next = match (next_arrival, device.next_event()) {
            (Some(arrival), Some(event)) => arrival.min(event),
            (Some(time), None) | (None, Some(time)) => time,
            (None, None) => {
                assert!(outstanding == 0, "the device forgot {outstanding} requests");
                return Ok(summary);
            }
        };
        assert!(next >= now, "an event at {next} lies before {now}");
        now = next;
        device.poll(now, &mut completions);
        for completion in &completions {
            outstanding -= 1;
            summary.end = completion.completed;
            workload.completed(completion);
            observe(completion);
        }
        completions.clear();
    }
}
