//! Replay of a trace: its requests in order, with arrivals by one of five rules.
//!
//! | mode | when request *i* + 1 arrives |
//! | --- | --- |
//! | open | at its arrival time in the trace, whatever the device does |
//! | open, scaled by *f* | at its arrival time divided by *f* |
//! | closed with population *N* | when any request completes; the first *N* at the start |
//! | think | when request *i* is complete and its think time has passed; the first at its arrival time |
//! | follow | as long after what it had waited for as in the trace, which is inferred: see [`Dependencies`] |
//!
//! No mode is right for all traces: open replay lets requests be outstanding together that never
//! would be and overstates a change of performance, closed replay has no bursts and no idle time and
//! understates it \[Ganger & Patt 1998, sections 6.1 to 6.3\]. A trace with think times of one process at a
//! time is replayed with its feedback; `follow` infers the feedback of any trace with completion times.
//!
//! # Scope and limits
//! One record is held at a time, so a trace of any length is replayed in constant memory. Records
//! come in arrival order; one that arrives before its predecessor arrives with it, and is counted.
//! A recorded change of a pending request's class keeps its distance from the arrival of the request, which is divided like
//! the arrivals when they are scaled. At equal times changes come after arrivals.
//! Addresses are blocks of the device; whoever reads the trace converts them. The number of a device
//! in the trace is kept, unless [`Settings::devices`] numbers them densely.
//!
//! # References
//! \[Ganger & Patt 1998, §6.1 and §6.3\] for open, scaled and closed replay.

mod arrivals;
mod beyond;
mod changes;
mod clients;
mod dependencies;
mod failure;
mod following;
mod spec;
mod survey;
mod think;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::iter;

use seeklab_core::{
    Arrival, ClassTimes, Completion, Duration, Instant, Ratio, Request, TraceRecord, Workload,
};

pub use arrivals::{ARRIVAL_MODES, ArrivalMode, ArrivalModeError, FollowWindow, Population};
pub use beyond::Beyond;
pub use dependencies::{Dependencies, DependencyCounts};
pub use failure::ReplayError;
pub use following::Following;
pub use spec::ReplaySpec;
pub use survey::{DeviceMap, Survey};
pub use think::{DerivedThinkTimes, ThinkTimes};

use beyond::{Fit, Place};
use changes::Changes;

/// Rule that the arrivals of a replay follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// The arrival times of the trace.
    Open,
    /// The arrival times of the trace, divided by a factor and rounded to the nearest nanosecond.
    Scaled {
        /// Divisor of the arrival times, above zero.
        factor: Ratio,
    },
    /// Completions: so many are outstanding, until the trace ends.
    Closed {
        /// Number of outstanding requests, at least one.
        population: u32,
    },
    /// Completions and think times, one request at a time.
    Think,
    /// Arrivals after the events that the requests waited for in the trace.
    Follow {
        /// Longest time from a completion to the arrival of a request that had waited for it; `None` if none had.
        within: Option<Duration>,
    },
}

/// Settings of a replay. [`ReplaySpec::settings`] makes them from a description.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Rule that arrivals follow.
    pub mode: Mode,
    /// Treatment of requests beyond the end of the device.
    pub beyond: Beyond,
    /// Blocks that the device has; every device without [capacity of its own](Replay::with_capacities), if there are several.
    pub capacity_blocks: u64,
    /// Blocks that the trace extends over. Used only by [`Beyond::Scale`].
    pub address_range_blocks: u64,
    /// Maximum number of requests to issue.
    pub requests: Option<u64>,
    /// The device of the trace whose requests are replayed; all if `None`.
    pub device: Option<u16>,
    /// Requests that arrive before this time of the trace are left out.
    pub from: Instant,
    /// Numbers the devices densely; `None` keeps the numbers of the trace.
    pub devices: Option<DeviceMap>,
}

/// Counts of the records of a trace, by their treatment in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Records read, of any device.
    pub read: u64,
    /// Requests issued.
    pub issued: u64,
    /// Requests moved by [`Beyond::Wrap`].
    pub wrapped: u64,
    /// Requests moved by [`Beyond::Scale`].
    pub scaled: u64,
    /// Requests left out by [`Beyond::Drop`].
    pub dropped: u64,
    /// Records that arrive before their predecessor in the trace, and were issued with it.
    pub out_of_order: u64,
}

/// A workload that replays the records of an iterator.
#[derive(Debug, Clone)]
pub struct Replay<I, E> {
    records: I,
    settings: Settings,
    /// Blocks of the devices that have others than [`Settings::capacity_blocks`], by number.
    capacities: BTreeMap<u16, u64>,
    counters: Counters,
    pace: Pace,
    /// While requests follow what they had waited for.
    dependencies: Option<Dependencies>,
    /// The request that is next, not yet issued.
    next: Option<Next>,
    /// Changes of class of the requests that were issued.
    changes: Changes,
    /// More records may be handed over.
    is_fed: bool,
    /// No more records are wanted, or there are none.
    ended: bool,
    failure: Option<ReplayError<E>>,
}

#[derive(Debug, Clone, Copy)]
struct Next {
    request: Request,
    /// In the trace.
    arrival: Instant,
    /// In the trace, as it stands there.
    recorded: Instant,
    /// In the trace.
    became: ClassTimes,
    /// In the trace; its arrival if that is not known.
    completion: Instant,
    /// Arrival here, once the request that it waits for has completed.
    due: Option<Instant>,
    think: Option<Duration>,
    row: u64,
}

#[derive(Debug, Clone, Copy)]
enum Pace {
    /// The arrival of the last record, for the order of arrivals; times are divided by the factor.
    Open {
        last: Instant,
        factor: f64,
    },
    /// Requests that may be issued now.
    Closed {
        vacancies: u32,
    },
    Think(Thought),
    /// The arrival of the last record, for the order of arrivals.
    Follow {
        last: Instant,
    },
}

/// State of the one process of a replay with think times.
#[derive(Debug, Clone, Copy)]
enum Thought {
    /// Before its first request, which arrives at its recorded time.
    Start,
    /// The request is outstanding. `think` is the think time after it, or the row of a record without
    /// one.
    Waits { think: Result<Duration, u64> },
    /// The next request is issued at `until`, or `until` is the row of a last record without a think
    /// time.
    Thinks { until: Result<Instant, u64> },
}

impl<I, E> Replay<I, E>
where
    I: Iterator<Item = Result<TraceRecord, E>>,
{
    /// A replay of `records`.
    ///
    /// # Panics
    /// If a closed population is zero or a factor is zero.
    pub fn new(records: I, settings: Settings) -> Self {
        let pace = match settings.mode {
            Mode::Open => Pace::Open { last: Instant::ZERO, factor: 1.0 },
            Mode::Scaled { factor } => {
                assert!(factor > Ratio::ZERO, "a factor of zero");
                Pace::Open { last: Instant::ZERO, factor: factor.as_f64() }
            }
            Mode::Closed { population } => {
                assert!(population > 0, "a population of zero");
                Pace::Closed { vacancies: population }
            }
            Mode::Think => Pace::Think(Thought::Start),
            Mode::Follow { .. } => Pace::Follow { last: Instant::ZERO },
        };
        let dependencies = match settings.mode {
            Mode::Follow { within } => Some(Dependencies::following(within)),
            _ => None,
        };
        Self {
            records,
            settings,
            capacities: BTreeMap::new(),
            counters: Counters::default(),
            pace,
            dependencies,
            next: None,
            changes: Changes::default(),
            is_fed: false,
            ended: false,
            failure: None,
        }
    }

    /// The same replay on devices of different sizes: the blocks of each, by number.
    pub fn with_capacities(self, capacities: BTreeMap<u16, u64>) -> Self {
        Self { capacities, ..self }
    }

    /// Returns the counts of the records so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the numbers of requests so far by the event that they waited for, in the mode [`Mode::Follow`].
    pub fn dependencies(&self) -> Option<DependencyCounts> {
        self.dependencies.as_ref().map(Dependencies::counts)
    }

    /// Returns the error that ended the replay early, `None` if there was none.
    pub const fn failure(&self) -> Option<&ReplayError<E>> {
        self.failure.as_ref()
    }

    /// Returns the counts of the records, or the error that ended the replay early.
    ///
    /// # Errors
    /// [`ReplayError`] with the record at fault.
    pub fn into_result(self) -> Result<Counters, ReplayError<E>> {
        match self.failure {
            None => Ok(self.counters),
            Some(failure) => Err(failure),
        }
    }

    /// Reads on to the next request that is to be issued.
    fn fill(&mut self) {
        if self.settings.requests.is_some_and(|limit| self.counters.issued >= limit) {
            self.ended = true;
        }
        while self.next.is_none() && !self.ended {
            match self.records.next() {
                None => self.ended = true,
                Some(record) => {
                    self.counters.read += 1;
                    let row = self.counters.read;
                    let taken = record
                        .map_err(|source| ReplayError::Trace { row, source })
                        .and_then(|record| self.take(&record, row));
                    if let Err(failure) = taken {
                        self.failure = Some(failure);
                        self.ended = true;
                    }
                }
            }
        }
    }

    /// Makes a record the next request, or leaves it out.
    fn take(&mut self, record: &TraceRecord, row: u64) -> Result<(), ReplayError<E>> {
        let is_others = self.settings.device.is_some_and(|device| device != record.device);
        if is_others || record.arrival < self.settings.from {
            return Ok(());
        }
        let mut request = record.request(self.counters.issued);
        if let Some(devices) = &self.settings.devices {
            let device = record.device;
            request.device = devices.dense(device).ok_or(ReplayError::NoSuchDevice { row, device })?;
        }
        let arrival = self.arrival_of(record);
        let completion = record.completion.unwrap_or(arrival).max(arrival);
        let TraceRecord { arrival: recorded, became, think, .. } = *record;
        let next = Next { request, arrival, recorded, became, completion, due: None, think, row };
        if !request.op.addresses_blocks() {
            self.next = Some(next);
            return Ok(());
        }
        if request.blocks == 0 {
            return Err(ReplayError::Empty { row });
        }
        let Settings { beyond, capacity_blocks, address_range_blocks, .. } = self.settings;
        let capacity_blocks = *self.capacities.get(&request.device).unwrap_or(&capacity_blocks);
        match (Fit { beyond, capacity_blocks, address_range_blocks }).place(request.lbn, request.blocks) {
            Place::Same => self.next = Some(next),
            Place::Moved(lbn) => {
                match beyond {
                    Beyond::Scale => self.counters.scaled += 1,
                    _ => self.counters.wrapped += 1,
                }
                self.next = Some(Next { request: Request { lbn, ..request }, ..next });
            }
            Place::Dropped => {
                self.counters.dropped += 1;
                self.skip_think(record.think, row);
            }
            Place::Refused => {
                let (lbn, blocks) = (request.lbn, request.blocks);
                return Err(ReplayError::Beyond { row, lbn, blocks, capacity_blocks });
            }
        }
        Ok(())
    }

    /// Returns the arrival of a record in an open replay or in the followed trace, no earlier than its predecessor.
    fn arrival_of(&mut self, record: &TraceRecord) -> Instant {
        let (last, factor) = match &mut self.pace {
            Pace::Open { last, factor } => (last, *factor),
            Pace::Follow { last } => (last, 1.0),
            Pace::Closed { .. } | Pace::Think(_) => return record.arrival,
        };
        if record.arrival < *last {
            self.counters.out_of_order += 1;
        }
        *last = record.arrival.max(*last);
        if factor == 1.0 {
            *last
        } else {
            Instant::from_ns(Duration::from_ns_f64(last.as_ns() as f64 / factor).as_ns())
        }
    }

    /// A dropped request takes no time, but the process thinks after it all the same.
    fn skip_think(&mut self, think: Option<Duration>, row: u64) {
        if let Pace::Think(Thought::Thinks { until }) = &mut self.pace {
            *until = match (*until, think) {
                (Ok(until), Some(think)) => Ok(until + think),
                (Ok(_), None) => Err(row),
                (failed, _) => failed,
            };
        }
    }

    /// Returns the arrival of the next request that follows another, or `None` while the other is outstanding.
    fn due(&mut self) -> Option<Instant> {
        let (Some(next), Some(dependencies)) = (&mut self.next, &mut self.dependencies) else { return None };
        if next.due.is_none() && !dependencies.waits(next.arrival) {
            next.due = Some(dependencies.arrival(next.arrival, next.completion));
        }
        next.due
    }

    fn fail(&mut self, failure: ReplayError<E>) -> Arrival {
        self.failure = Some(failure);
        self.ended = true;
        self.next = None;
        Arrival::Finished
    }

    fn issue(&mut self, now: Instant) -> Arrival {
        let next = self.next.take().expect("a request is issued only when there is one");
        self.counters.issued += 1;
        if !next.became.is_none() {
            let factor = match self.pace {
                Pace::Open { factor, .. } => factor,
                _ => 1.0,
            };
            self.changes.issued(now, &next.request, next.recorded, next.became, factor);
        }
        match &mut self.pace {
            Pace::Open { .. } | Pace::Follow { .. } => {}
            Pace::Closed { vacancies } => *vacancies -= 1,
            Pace::Think(thought) => *thought = Thought::Waits { think: next.think.ok_or(next.row) },
        }
        Arrival::Request(next.request)
    }
}

/// A replay whose records are handed over one by one.
pub type FedReplay = Replay<iter::Empty<Result<TraceRecord, Infallible>>, Infallible>;

impl FedReplay {
    /// A replay of records that [`push`](Self::push) hands over.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn fed(settings: Settings) -> Self {
        Self { is_fed: true, ..Self::new(iter::empty(), settings) }
    }

    /// No record is handed over any more: the replay finishes after the last change of class.
    pub fn end(&mut self) {
        self.is_fed = false;
    }

    /// Hands the next record over; the replay has finished whenever it has issued all that it got. Changes of class behind
    /// the last arrival wait for the next record, or for [`end`](Self::end).
    ///
    /// # Errors
    /// As [`into_result`](Self::into_result).
    pub fn push(&mut self, record: &TraceRecord) -> Result<(), ReplayError<Infallible>> {
        debug_assert!(self.next.is_none(), "the record before was not issued");
        self.counters.read += 1;
        self.take(record, self.counters.read)
    }
}

impl<I, E> Replay<I, E>
where
    I: Iterator<Item = Result<TraceRecord, E>>,
{
    /// Returns the next arrival of a request.
    fn next_request(&mut self, now: Instant) -> Arrival {
        if matches!(self.pace, Pace::Closed { vacancies: 0 } | Pace::Think(Thought::Waits { .. })) {
            return Arrival::WaitForCompletion;
        }
        if self.next.is_none() {
            self.fill();
        }
        let Some(next) = &self.next else { return Arrival::Finished };
        let time = match self.pace {
            Pace::Open { .. } | Pace::Think(Thought::Start) => next.arrival,
            Pace::Think(Thought::Thinks { until: Ok(until) }) => until,
            Pace::Think(Thought::Thinks { until: Err(row) }) => {
                return self.fail(ReplayError::NoThinkTime { row });
            }
            Pace::Follow { .. } => match self.due() {
                Some(due) => due,
                None => return Arrival::WaitForCompletion,
            },
            Pace::Closed { .. } | Pace::Think(Thought::Waits { .. }) => now,
        };
        if time > now { Arrival::At(time) } else { self.issue(now) }
    }
}

impl<I, E> Workload for Replay<I, E>
where
    I: Iterator<Item = Result<TraceRecord, E>>,
{
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        let next = self.next_request(now);
        let Some(change) = self.changes.next() else { return next };
        match next {
            Arrival::Request(_) | Arrival::Reclassification(_) => next,
            Arrival::Finished if self.is_fed || self.failure.is_some() => next,
            _ if change <= now => {
                Arrival::Reclassification(self.changes.pop(now).expect("the change is due"))
            }
            Arrival::At(time) => Arrival::At(time.min(change)),
            Arrival::WaitForCompletion | Arrival::Finished => Arrival::At(change),
        }
    }

    fn completed(&mut self, completion: &Completion) {
        match &mut self.pace {
            Pace::Open { .. } => {}
            Pace::Follow { .. } => {
                if let Some(dependencies) = &mut self.dependencies {
                    dependencies.completed(completion.request.id.0, completion.completed);
                }
            }
            Pace::Closed { vacancies } => *vacancies += 1,
            Pace::Think(thought) => {
                if let Thought::Waits { think } = *thought {
                    *thought = Thought::Thinks { until: think.map(|think| completion.completed + think) };
                }
            }
        }
    }

    /// Once the next arrival is known, no completion changes it. A change of class may come before that.
    fn announces_requests(&self) -> bool {
        self.changes.is_empty()
    }

    fn heeds_completions(&self) -> bool {
        match self.pace {
            Pace::Open { .. } => false,
            Pace::Follow { .. } => !self.changes.is_empty(),
            Pace::Closed { .. } | Pace::Think(_) => true,
        }
    }
}
