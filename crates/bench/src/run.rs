//! The course of a measurement: starts the workers, collects their figures, and ends on time.
//!
//! ```text
//! worker 0 ─┐  Part of interval k, rows, end
//! worker 1 ─┼──▶ Collector ─▶ Interval k ─▶ Listener
//!   …      ─┘         └──────▶ Measurement
//! ```
//! # Scope and limits
//! A worker whose target does not return from a system call hands nothing over. The collector then reports the age of
//! that call in every interval, and ends without the worker. Its thread stays until the target returns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use seeklab_core::{Duration, Instant, Operation, TraceRecord, Workload};
use seeklab_emulator::clock::{Clock, wake_this_thread_exactly};

use crate::cost::Cost;
use crate::error::BenchError;
use crate::measurement::{Interval, Measurement, Totals, Unfinished};
use crate::part::Part;
use crate::plan::{Plan, Ramp};
use crate::records::Merger;
use crate::target::Target;
use crate::worker::{Worker, WorkerEnd};

/// Target and workload of one thread.
pub struct Lane {
    /// The target, opened for this thread.
    pub target: Box<dyn Target>,
    /// Makes the share of the workload that this thread sends, on that thread.
    pub workload: Box<dyn FnOnce() -> Box<dyn Workload> + Send>,
}

impl Lane {
    /// A lane with a workload that can move to its thread.
    pub fn new(target: Box<dyn Target>, workload: impl Workload + Send + 'static) -> Self {
        Self { target, workload: Box::new(move || Box::new(workload)) }
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Lane").field("target", self.target.facts()).finish_non_exhaustive()
    }
}

/// Hears of a measurement while it goes on.
pub trait Listener {
    /// An interval is over.
    fn interval(&mut self, _interval: &Interval) {}

    /// A request has ended. Called in order of arrival if the plan says so.
    fn row(&mut self, _record: &TraceRecord) {}

    /// Returns true if the measurement should stop. Called several times per second.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Parts of the result that a worker hands over.
pub(crate) enum Message {
    /// Figures of an interval.
    Part(usize, u64, Box<Part>),
    /// Requests that have ended, in order of arrival.
    Rows(usize, Vec<TraceRecord>),
    /// The worker has ended.
    End(usize, Box<WorkerEnd>),
}

/// The way from a worker to the collector.
#[derive(Clone)]
pub(crate) struct Outlet(Sender<Message>);

impl Outlet {
    /// Hands something over. A collector that has ended without this worker does not hear it.
    pub(crate) fn send(&self, message: Message) {
        let _ = self.0.send(message);
    }
}

/// Since when a worker has been in a system call that hands requests over.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Nanoseconds plus one; zero while it is in none.
    since: AtomicU64,
}

impl Pulse {
    /// Requests are about to be handed over.
    pub(crate) fn begin(&self, now: Instant) {
        self.since.store(now.as_ns() + 1, Ordering::Relaxed);
    }

    /// They were handed over.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    fn since(&self) -> Option<Instant> {
        self.since.load(Ordering::Relaxed).checked_sub(1).map(Instant::from_ns)
    }
}

/// State that workers and collector share. Nothing of it is written once per request.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The caller wants an end.
    pub(crate) stop: AtomicBool,
    /// Requests that ended in the ramp-up.
    ramp_ended: AtomicU64,
    /// Begin of the time that counts in nanoseconds plus one; zero before it is known.
    begin: AtomicU64,
    outstanding_max: u32,
    pulses: Vec<Pulse>,
}

impl Shared {
    fn new(workers: usize, plan: &Plan) -> Self {
        Self {
            stop: AtomicBool::new(false),
            ramp_ended: AtomicU64::new(0),
            begin: AtomicU64::new(0),
            outstanding_max: plan.outstanding_max,
            pulses: (0..workers).map(|_| Pulse::default()).collect(),
        }
    }

    /// Requests that a worker may have under way: its share of all, the first workers one more if that leaves a rest.
    pub(crate) fn room(&self, worker: usize) -> u32 {
        let workers = self.pulses.len() as u32;
        self.outstanding_max / workers + u32::from((worker as u32) < self.outstanding_max % workers)
    }

    pub(crate) fn pulse(&self, worker: usize) -> &Pulse {
        &self.pulses[worker]
    }

    /// Begin of the time that counts behind a ramp-up by requests, if it has come.
    pub(crate) fn begin(&self) -> Option<Instant> {
        self.begin.load(Ordering::Acquire).checked_sub(1).map(Instant::from_ns)
    }

    /// A request ended in the ramp-up, which is over with the last of `requests`.
    pub(crate) fn ended_in_ramp(&self, requests: u64, completed: Instant) {
        if self.ramp_ended.fetch_add(1, Ordering::AcqRel) + 1 == requests {
            self.begin.store(completed.as_ns() + 1, Ordering::Release);
        }
    }
}

/// Time between two looks for a request to stop.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Time that a worker may be late with its figures of an interval.
const PATIENCE: Duration = Duration::from_ms(500);

/// Measures: one thread for each lane, all on `clock`.
///
/// # Errors
/// A target that fails as a whole before anything was measured, or no thread. What was measured before a target failed is
/// the result.
pub fn measure(
    plan: &Plan,
    clock: Clock,
    lanes: Vec<Lane>,
    listener: &mut dyn Listener,
) -> Result<Measurement, BenchError> {
    let workers = lanes.len();
    let shared = Arc::new(Shared::new(workers, plan));
    let (sender, messages) = channel();
    for (index, Lane { target, workload }) in lanes.into_iter().enumerate() {
        let (plan, of_worker, outlet) = (plan.clone(), Arc::clone(&shared), Outlet(sender.clone()));
        let is_pinned = workers > 1 && !plan.is_virtual;
        let work = move || {
            if is_pinned {
                pin(index);
            }
            wake_this_thread_exactly();
            let worker = Worker::new(index, &plan, clock, target, workload(), &of_worker, outlet.clone());
            let end = worker.run();
            outlet.send(Message::End(index, Box::new(end)));
        };
        let spawned = thread::Builder::new().name(format!("bench {index}")).spawn(work);
        if let Err(source) = spawned {
            shared.stop.store(true, Ordering::Relaxed);
            return Err(BenchError::Thread { source });
        }
    }
    drop(sender);
    let mut collector = Collector {
        plan,
        clock,
        shared: &shared,
        listener,
        merger: Merger::new(workers),
        open: BTreeMap::new(),
        intervals: Vec::new(),
        ends: (0..workers).map(|_| None).collect(),
        is_stopped: false,
        stopped_at: None,
    };
    collector.collect(&messages);
    collector.finish()
}

/// Keeps this thread on one of the processors that the process may use.
fn pin(index: usize) {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let processors: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
    if processors.is_empty() {
        return;
    }
    let mut one = rustix::thread::CpuSet::new();
    one.set(processors[index % processors.len()]);
    // Without the right to, the thread moves as the kernel sees fit.
    let _ = rustix::thread::sched_setaffinity(None, &one);
}

/// An interval that some workers have handed over.
struct Open {
    part: Part,
    workers: BTreeSet<usize>,
}

struct Collector<'a> {
    plan: &'a Plan,
    clock: Clock,
    shared: &'a Shared,
    listener: &'a mut dyn Listener,
    merger: Merger,
    /// Intervals that are not complete, by number.
    open: BTreeMap<u64, Open>,
    intervals: Vec<Interval>,
    ends: Vec<Option<Box<WorkerEnd>>>,
    is_stopped: bool,
    stopped_at: Option<Instant>,
}

impl Collector<'_> {
    fn collect(&mut self, messages: &Receiver<Message>) {
        while self.ends.iter().any(Option::is_none) {
            match messages.recv_timeout(LOOK) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                // A worker has panicked.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !self.is_stopped && self.listener.is_stopped() {
                self.shared.stop.store(true, Ordering::Relaxed);
                self.is_stopped = true;
                // Virtual time is the workers' own.
                self.stopped_at = (!self.plan.is_virtual).then(|| self.clock.now());
            }
            if !self.plan.is_virtual {
                self.close_overdue();
                if self.deadline().is_some_and(|deadline| self.clock.now() > deadline) {
                    break;
                }
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Part(worker, index, part) => self.take_part(worker, index, &part),
            Message::Rows(worker, rows) => {
                let listener = &mut *self.listener;
                self.merger.push(worker, rows, &mut |row| listener.row(row));
            }
            Message::End(worker, end) => {
                let listener = &mut *self.listener;
                self.merger.end(worker, &mut |row| listener.row(row));
                self.ends[worker] = Some(end);
            }
        }
        self.close_complete();
    }

    fn take_part(&mut self, worker: usize, index: u64, part: &Part) {
        // One that was closed without this worker takes its figures late.
        if let Some(interval) = self.intervals.get_mut(index as usize) {
            interval.part.merge_thread(part);
            return;
        }
        let begin = || Open { part: Part::begin(part.from), workers: BTreeSet::new() };
        let open = self.open.entry(index).or_insert_with(begin);
        open.part.merge_thread(part);
        open.workers.insert(worker);
    }

    /// Closes the first intervals while all workers that still work have handed them over.
    fn close_complete(&mut self) {
        while let Some(first) = self.open.first_entry() {
            let has_handed = |worker: usize| first.get().workers.contains(&worker);
            let mut workers = self.ends.iter().enumerate();
            let is_complete = workers.all(|(worker, end)| end.is_some() || has_handed(worker));
            if !is_complete || *first.key() != self.intervals.len() as u64 {
                return;
            }
            let (index, open) = first.remove_entry();
            self.close(index, open.part, 0);
        }
    }

    fn close(&mut self, index: u64, part: Part, silent_threads: u32) {
        let interval = Interval { index, part, silent_threads };
        self.listener.interval(&interval);
        self.intervals.push(interval);
    }

    /// Closes intervals that are over although a worker has not handed over its figures.
    fn close_overdue(&mut self) {
        let (Some(length), Some(begin)) = (self.plan.interval, self.begin()) else { return };
        loop {
            let index = self.intervals.len() as u64;
            let until = begin + length * (index + 1);
            if self.clock.now() < until + PATIENCE {
                return;
            }
            if self.deadline().is_some_and(|deadline| until > deadline) {
                return;
            }
            let is_ended = |index: usize| self.ends[index].is_some();
            let silent: Vec<Instant> = (0..self.ends.len())
                .filter(|worker| !is_ended(*worker))
                .filter_map(|worker| self.shared.pulse(worker).since())
                .filter(|since| *since < until)
                .collect();
            if silent.is_empty() {
                return;
            }
            let open = self.open.remove(&index);
            let mut part = open.map_or_else(|| Part::begin(begin + length * index), |open| open.part);
            part.until = until;
            for since in &silent {
                let age = until.saturating_since(*since);
                part.outstanding += 1;
                part.hung += u64::from(age >= Plan::HUNG);
                part.oldest = part.oldest.max(Some(age));
                part.pause = part.pause.max(age);
            }
            self.close(index, part, silent.len() as u32);
        }
    }

    fn begin(&self) -> Option<Instant> {
        match self.plan.ramp {
            Ramp::None => Some(Instant::ZERO),
            Ramp::Time(length) => Some(Instant::ZERO + length),
            Ramp::Requests(_) => self.shared.begin(),
        }
    }

    /// Time after which the measurement ends without the workers that have not ended.
    fn deadline(&self) -> Option<Instant> {
        let planned = self.begin().zip(self.plan.duration).map(|(begin, duration)| begin + duration);
        let end = [planned, self.stopped_at].into_iter().flatten().min()?;
        Some(end + Plan::DRAIN + PATIENCE)
    }

    fn finish(mut self) -> Result<Measurement, BenchError> {
        // Those that wait for a worker that does not come.
        for (index, Open { part, workers }) in std::mem::take(&mut self.open) {
            let silent = self.ends.len() - workers.len();
            self.close(index, part, silent as u32);
        }
        let now = self.clock.now();
        let mut totals = Totals::default();
        for (worker, end) in self.ends.iter().enumerate() {
            if end.is_none() {
                totals.silent_threads += 1;
                let age = self.shared.pulse(worker).since().map(|since| now.saturating_since(since));
                // The request is known to its worker alone.
                let unknown = Unfinished { op: Operation::Read, lbn: 0, blocks: 0, age: Duration::ZERO };
                totals.unfinished.extend(age.map(|age| Unfinished { age, ..unknown }));
            }
        }
        let mut system_calls = 0;
        let mut failure = None;
        for end in self.ends.iter_mut().flatten() {
            totals.unissued += end.unissued;
            totals.unfinished.append(&mut end.unfinished);
            totals.reconnections += end.reconnections;
            system_calls += end.system_calls;
            failure = failure.or(end.failure.take());
        }
        for interval in &self.intervals {
            totals.part.merge_counts(&interval.part);
        }
        let failure = match failure {
            Some(failure) if totals.part.attempts == 0 => return Err(failure.into()),
            failure => failure,
        };
        let ends = || self.ends.iter().flatten();
        let first = ends().filter_map(|end| end.first).min();
        let begin = ends().filter_map(|end| end.begin).min().or(self.begin()).unwrap_or_default();
        let is_timed = self.plan.duration.is_some() || self.plan.ramp != Ramp::None;
        totals.begin = if is_timed { begin } else { first.unwrap_or(begin) };
        let last = totals.part.last_completion.unwrap_or(totals.begin);
        let planned = self.plan.duration.map(|duration| begin + duration);
        let planned = [planned, self.stopped_at].into_iter().flatten().min();
        // A workload that ended before the duration did sets the end.
        let worked_until = ends().map(|end| end.end).max().unwrap_or(now);
        totals.end = planned.map_or(last, |planned| last.max(planned.min(worked_until)));
        (totals.part.from, totals.part.until) = (totals.begin, totals.end);
        if !self.plan.is_virtual {
            let before = ends().find(|end| end.begin.is_some()).map(|end| end.cost_at_begin);
            let cost = Cost::of_process().since(before.unwrap_or_default());
            totals.cost = Some(Cost { system_calls, ..cost });
        }
        Ok(Measurement { totals, intervals: self.intervals, is_stopped: self.is_stopped, failure })
    }
}
