//! The event loop: a workload drives a device as fast as possible.

use crate::completion::Completion;
use crate::device::{Device, Rejected};
use crate::reclassification::{ClassHistory, ClassLedger};
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
        /// Time at which the limit was exceeded.
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
    observe: F,
) -> Result<RunSummary, SimulationError>
where
    W: Workload + ?Sized,
    D: Device + ?Sized,
    F: FnMut(&Completion),
{
    Simulation::new(limits).run(workload, device, observe)
}

/// A run that can pause: the event loop behind [`simulate`].
///
/// A workload that gets its requests bit by bit says that it has finished whenever it has no more.
/// [`run_until_finished`](Self::run_until_finished) returns then, what is outstanding stays so, and the next call goes
/// on at the same time; [`run`](Self::run) ends the run.
#[derive(Debug)]
pub struct Simulation {
    limits: Limits,
    now: Instant,
    summary: RunSummary,
    outstanding: usize,
    completions: Vec<Completion>,
    classes: ClassLedger,
}

impl Simulation {
    /// A run at time zero.
    pub const fn new(limits: Limits) -> Self {
        let summary = RunSummary { requests: 0, end: Instant::ZERO };
        Self {
            limits,
            now: Instant::ZERO,
            summary,
            outstanding: 0,
            completions: Vec::new(),
            classes: ClassLedger::new(),
        }
    }

    /// The time that the run has reached.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Runs until the workload has finished and everything is complete; see [`simulate`].
    ///
    /// # Errors
    /// As [`simulate`].
    ///
    /// # Panics
    /// As [`simulate`].
    pub fn run<W, D, F>(
        &mut self,
        workload: &mut W,
        device: &mut D,
        mut observe: F,
    ) -> Result<RunSummary, SimulationError>
    where
        W: Workload + ?Sized,
        D: Device + ?Sized,
        F: FnMut(&Completion),
    {
        self.run_with_classes(workload, device, |completion, _| observe(completion))
    }

    /// Runs as [`run`](Self::run). `observe` sees the changes of each request's class, too, as a
    /// [record](crate::TraceRecord::of) has them.
    ///
    /// # Errors
    /// As [`simulate`].
    ///
    /// # Panics
    /// As [`simulate`].
    pub fn run_with_classes<W, D, F>(
        &mut self,
        workload: &mut W,
        device: &mut D,
        mut observe: F,
    ) -> Result<RunSummary, SimulationError>
    where
        W: Workload + ?Sized,
        D: Device + ?Sized,
        F: FnMut(&Completion, ClassHistory),
    {
        loop {
            let arrival = self.submit_arrivals(workload, device)?;
            if !self.advance(arrival, workload, device, &mut observe) {
                return Ok(self.summary);
            }
        }
    }

    /// Runs until the workload has finished; what is outstanding then stays in the device.
    ///
    /// # Errors
    /// As [`simulate`].
    ///
    /// # Panics
    /// As [`simulate`].
    pub fn run_until_finished<W, D, F>(
        &mut self,
        workload: &mut W,
        device: &mut D,
        mut observe: F,
    ) -> Result<(), SimulationError>
    where
        W: Workload + ?Sized,
        D: Device + ?Sized,
        F: FnMut(&Completion),
    {
        self.run_until_finished_with_classes(workload, device, |completion, _| observe(completion))
    }

    /// Runs as [`run_until_finished`](Self::run_until_finished), `observe` as in
    /// [`run_with_classes`](Self::run_with_classes).
    ///
    /// # Errors
    /// As [`simulate`].
    ///
    /// # Panics
    /// As [`simulate`].
    pub fn run_until_finished_with_classes<W, D, F>(
        &mut self,
        workload: &mut W,
        device: &mut D,
        mut observe: F,
    ) -> Result<(), SimulationError>
    where
        W: Workload + ?Sized,
        D: Device + ?Sized,
        F: FnMut(&Completion, ClassHistory),
    {
        loop {
            let arrival = self.submit_arrivals(workload, device)?;
            if arrival == Arrival::Finished {
                return Ok(());
            }
            self.advance(arrival, workload, device, &mut observe);
        }
    }

    /// Submits what arrives now, and reclassifies; what the workload wants next.
    #[inline]
    fn submit_arrivals<W, D>(&mut self, workload: &mut W, device: &mut D) -> Result<Arrival, SimulationError>
    where
        W: Workload + ?Sized,
        D: Device + ?Sized,
    {
        let now = self.now;
        loop {
            match workload.next_arrival(now) {
                Arrival::Request(request) => {
                    device.submit(now, request).map_err(|rejected| SimulationError::Rejected {
                        request,
                        at: now,
                        rejected,
                    })?;
                    self.summary.requests += 1;
                    self.outstanding += 1;
                    if self.outstanding > self.limits.outstanding_max {
                        let outstanding = self.outstanding;
                        let completed = self.summary.requests - outstanding as u64;
                        return Err(SimulationError::Saturated { outstanding, completed, at: now });
                    }
                }
                Arrival::Reclassification(change) => {
                    if let Some(before) = device.reclassify(now, &change) {
                        self.classes.note(now, &change, before);
                    }
                }
                next => return Ok(next),
            }
        }
    }

    /// Goes to the next arrival or event; false if there is neither.
    #[inline]
    fn advance<W, D, F>(
        &mut self,
        arrival: Arrival,
        workload: &mut W,
        device: &mut D,
        observe: &mut F,
    ) -> bool
    where
        W: Workload + ?Sized,
        D: Device + ?Sized,
        F: FnMut(&Completion, ClassHistory),
    {
        let next = match arrival {
            // Nothing brings it forward, so the device can go there in one step.
            Arrival::At(time) if !workload.heeds_completions() => Some(time),
            Arrival::At(time) => Some(device.next_event().map_or(time, |event| time.min(event))),
            Arrival::WaitForCompletion => {
                assert!(
                    self.outstanding > 0,
                    "the workload waits for a completion, but nothing is outstanding"
                );
                device.next_event()
            }
            Arrival::Finished | Arrival::Request(_) | Arrival::Reclassification(_) => device.next_event(),
        };
        let Some(next) = next else {
            assert!(self.outstanding == 0, "the device forgot {} requests", self.outstanding);
            return false;
        };
        assert!(next >= self.now, "an event at {next} lies before {}", self.now);
        self.now = next;
        device.poll(next, &mut self.completions);
        for completion in &self.completions {
            self.outstanding -= 1;
            self.summary.end = completion.completed;
            workload.completed(completion);
            observe(completion, self.classes.complete(completion.request.id, completion.request.criticality));
        }
        self.completions.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;
    use crate::completion::{Breakdown, BufferOutcome, Outcome};
    use crate::device::Capabilities;
    use crate::fault_set::FaultSet;
    use crate::reclassification::Reclassification;
    use crate::request::{Criticality, Operation, RequestId};
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
        fn reclassify(&mut self, _: Instant, change: &Reclassification) -> Option<Criticality> {
            let held = self.held.iter_mut().find(|request| request.id == change.id);
            held.and_then(|request| request.reclassify(change.criticality))
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
                    outcome: Outcome::ok(&request),
                    buffer: BufferOutcome::None,
                    seek_cylinders: 0,
                    queue_length: 0,
                    faults: FaultSet::NONE,
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

    /// A number of requests at once.
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

    /// One time-noncritical request, which is stated to be more pressing at these times.
    struct Pressed(Vec<(u64, Criticality)>, bool);

    impl Workload for Pressed {
        fn next_arrival(&mut self, now: Instant) -> Arrival {
            if !std::mem::replace(&mut self.1, true) {
                let request = Request::new(7, Operation::Read, 0, 1);
                return Arrival::Request(Request { criticality: Criticality::TimeNoncritical, ..request });
            }
            match self.0.first() {
                None => Arrival::Finished,
                Some((at, _)) if *at > now.as_ns() => Arrival::At(Instant::from_ns(*at)),
                Some(_) => {
                    let (_, criticality) = self.0.remove(0);
                    Arrival::Reclassification(Reclassification { id: RequestId(7), device: 0, criticality })
                }
            }
        }
        fn completed(&mut self, _: &Completion) {}
    }

    #[test]
    fn observer_gets_the_changes_that_came_before_the_completion() {
        use Criticality::{TimeCritical, TimeLimited, TimeNoncritical};
        let run = |changes: &[(u64, Criticality)]| {
            let mut histories = Vec::new();
            let mut workload = Pressed(changes.to_vec(), false);
            Simulation::new(Limits::default())
                .run_with_classes(&mut workload, &mut Together::default(), |completion, classes| {
                    assert_eq!(
                        completion.completed,
                        Instant::from_ns(1_000_000),
                        "no change of class moves it"
                    );
                    histories.push((completion.request.criticality, classes));
                })
                .unwrap();
            assert_eq!(histories.len(), 1);
            let (last, classes) = histories[0];
            assert_eq!(classes.at_arrival, TimeNoncritical);
            (last, classes.became.changes().map(|(at, class)| (at.as_ns(), class)).collect::<Vec<_>>())
        };
        assert_eq!(run(&[]), (TimeNoncritical, vec![]));
        let both = [(5, TimeLimited), (999_999, TimeCritical)];
        assert_eq!(run(&both), (TimeCritical, both.to_vec()));
        // At equal times completions come first, and a request does not become less pressing.
        assert_eq!(
            run(&[(5, TimeLimited), (1_000_000, TimeCritical)]),
            (TimeLimited, vec![(5, TimeLimited)])
        );
        assert_eq!(run(&[(5, TimeCritical), (6, TimeLimited)]), (TimeCritical, vec![(5, TimeCritical)]));
        assert_eq!(run(&[(5, TimeLimited), (6, TimeLimited)]), (TimeLimited, vec![(5, TimeLimited)]));
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
