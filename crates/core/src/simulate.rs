//! The event loop: a workload drives a device as fast as possible.

use crate::completion::Completion;
use crate::device::{Device, Rejected};
use crate::request::Request;
use crate::units::Instant;
use crate::workload::{Arrival, Workload};

/// Bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most requests that may be outstanding; with one more, the run stops as saturated.
    pub outstanding_max: usize,
}

impl Default for Limits {
    /// One hundred thousand outstanding requests: past any queue that a stable load builds up.
    fn default() -> Self {
        Self { outstanding_max: 100_000 }
    }
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSummary {
    /// Requests that were submitted; all of them completed.
    pub requests: u64,
    /// Time of the last completion.
    pub end: Instant,
}

/// Reason why a run stopped before its workload finished.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The device did not take a request.
    #[error("request {} at {at}: {}", request.id.0, rejected)]
    Rejected {
        /// The request, its number counted from zero.
        request: Request,
        /// Time at which the request arrived.
        at: Instant,
        /// Reason for the rejection.
        rejected: Rejected,
    },
    /// Requests arrive faster than the device can serve them.
    #[error(
        "the device cannot sustain this load: {outstanding} requests are outstanding after {completed} completions at {at}"
    )]
    Saturated {
        /// Requests outstanding, one more than the limit.
        outstanding: usize,
        /// Requests completed so far.
        completed: u64,
        /// When the limit was exceeded.
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

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;
    use crate::completion::{Breakdown, BufferOutcome, Status};
    use crate::device::Capabilities;
    use crate::request::Operation;
    use crate::units::Duration;

    /// A device that completes all that it holds one millisecond after the first request.
    #[derive(Debug, Clone, Default)]
    struct Together {
        held: Vec<Request>,
        due: Option<Instant>,
    }

    impl Device for Together {
        fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
            self.due.get_or_insert(now + Duration::from_ms(1));
            self.held.push(request);
            Ok(())
        }
        fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
            if self.due.is_some_and(|due| due <= now) {
                self.due = None;
                completions.extend(self.held.drain(..).map(|request| Completion {
                    request,
                    submitted: Instant::ZERO,
                    issued: Instant::ZERO,
                    started: Instant::ZERO,
                    completed: now,
                    breakdown: Breakdown::default(),
                    status: Status::Ok,
                    buffer: BufferOutcome::None,
                    seek_cylinders: 0,
                    queue_length: 0,
                }));
            }
        }
        fn next_event(&self) -> Option<Instant> {
            self.due
        }
        fn capabilities(&self) -> &Capabilities {
            unreachable!("the event loop asks for no capabilities")
        }
        fn fork(&self) -> Box<dyn Device> {
            Box::new(self.clone())
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }

    /// So many requests at once.
    struct Burst(u64);

    impl Workload for Burst {
        fn next_arrival(&mut self, _: Instant) -> Arrival {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Arrival::Request(Request::new(left, Operation::Read, 0, 1))
                }
                None => Arrival::Finished,
            }
        }
        fn completed(&mut self, _: &Completion) {}
    }

    #[test]
    fn run_stops_with_one_request_more_than_the_limit() {
        let run = |requests| {
            simulate(&mut Burst(requests), &mut Together::default(), Limits { outstanding_max: 4 }, |_| ())
        };
        assert_eq!(run(4), Ok(RunSummary { requests: 4, end: Instant::from_ns(1_000_000) }));
        let saturated = SimulationError::Saturated { outstanding: 5, completed: 0, at: Instant::ZERO };
        assert_eq!(run(5), Err(saturated));
    }
}
