//! The course of a phase: starts the workers of all streams, collects their figures, and ends on time.
//!
//! ```text
//! stream 0: worker 0 ─┐  Part of interval k, rows, end
//!           worker 1 ─┼──▶ Collector ─▶ Interval k ─▶ Listener
//! stream 1: worker 2 ─┘         └──────▶ Measurement
//! ```
//! # Scope and limits
//! A worker whose target does not return from a system call hands nothing over. The collector then reports the age of
//! that call in every interval, and ends without the worker. Its thread stays until the target returns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;

use seeklab_core::{Duration, Instant, Operation, TraceRecord, Workload};
use seeklab_emulator::clock::priority::Yielding;
use seeklab_emulator::clock::{Clock, wake_this_thread_exactly};

use crate::cost::Cost;
use crate::error::BenchError;
use crate::measurement::{Draining, Interval, Measurement, Totals, Unfinished};
use crate::part::Part;
use crate::plan::{Plan, Ramp, StreamPlan};
use crate::records::Merger;
use crate::rounds::Rounds;
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

/// A stream of requests: its plan, and one lane for each of its threads.
#[derive(Debug)]
pub struct Stream {
    /// The plan of the stream.
    pub plan: StreamPlan,
    /// Its threads.
    pub lanes: Vec<Lane>,
}

impl Stream {
    /// A stream.
    pub fn new(plan: StreamPlan, lanes: Vec<Lane>) -> Self {
        Self { plan, lanes }
    }
}

/// Hears of a measurement while it goes on.
pub trait Listener {
    /// An interval is over.
    fn interval(&mut self, _interval: &Interval) {}

    /// No more requests arrive, and the last ones are waited for. Called at the end of each interval until they have ended, in
    /// real time only. They belong to the last interval, which follows.
    fn draining(&mut self, _draining: &Draining) {}

    /// A request has ended. Called in order of arrival if the plan says so.
    fn row(&mut self, _record: &TraceRecord) {}

    /// Requests of a thread of a stream have ended: those of [`row`](Self::row), before they wait for rows of other threads.
    fn stream_rows(&mut self, _stream: usize, _records: &[TraceRecord]) {}

    /// Called several times per second, on the thread of [`interval`](Self::interval).
    fn look(&mut self) {}

    /// Returns true if the measurement should stop. Called several times per second.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Parts of the result that a worker hands over.
pub(crate) enum Message {
    /// Figures of an interval.
    Part(usize, u64, Box<Part>),
    /// Requests that the worker waits for behind the end of its arrivals.
    Draining(usize, Draining),
    /// Requests that have ended, in order of arrival, and the time before which no others arrive, if it is known.
    Rows(usize, Vec<TraceRecord>, Option<Instant>),
    /// The worker has ended.
    End(usize, Box<WorkerEnd>),
}

/// Messages that wait for the collector at most, in virtual time.
const MESSAGES_MAX: usize = 64;

/// The way from a worker to the collector.
#[derive(Clone)]
pub(crate) enum Outlet {
    /// In real time no worker waits for the collector.
    Free(Sender<Message>),
    /// In virtual time a worker that is faster than the collector would fill the memory, and a stop would wait for what is there.
    Bounded(SyncSender<Message>),
}

impl Outlet {
    /// The way to a collector, and its end.
    fn to_collector(is_virtual: bool) -> (Self, Receiver<Message>) {
        if is_virtual {
            let (sender, receiver) = sync_channel(MESSAGES_MAX);
            (Self::Bounded(sender), receiver)
        } else {
            let (sender, receiver) = channel();
            (Self::Free(sender), receiver)
        }
    }

    /// Hands something over. A collector that has ended without this worker does not hear it.
    pub(crate) fn send(&self, message: Message) {
        let _ = match self {
            Self::Free(sender) => sender.send(message),
            Self::Bounded(sender) => sender.send(message),
        };
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
    /// Requests that each worker may have under way.
    rooms: Vec<u32>,
    pulses: Vec<Pulse>,
    /// The rounds of a phase that ends in its steady state.
    rounds: Option<Rounds>,
    /// Time until which a worker waits for its last requests, in nanoseconds.
    draining_until: AtomicU64,
}

impl Shared {
    fn new(streams: &[Stream], plan: &Plan) -> Self {
        let rooms: Vec<u32> = streams.iter().flat_map(rooms).collect();
        Self {
            stop: AtomicBool::new(false),
            ramp_ended: AtomicU64::new(0),
            begin: AtomicU64::new(0),
            pulses: rooms.iter().map(|_| Pulse::default()).collect(),
            rounds: plan.steady.map(|rule| Rounds::new(rule, rooms.len())),
            rooms,
            draining_until: AtomicU64::new(0),
        }
    }

    /// A worker waits for its last requests until then.
    pub(crate) fn drains_until(&self, time: Instant) {
        self.draining_until.fetch_max(time.as_ns(), Ordering::Relaxed);
    }

    /// Requests that a worker may have under way.
    pub(crate) fn room(&self, worker: usize) -> u32 {
        self.rooms[worker]
    }

    /// A worker hands over its figures of an interval.
    pub(crate) fn round_over(&self, worker: usize, index: u64, part: &Part) {
        if let Some(rounds) = &self.rounds {
            rounds.handed(worker, index, part);
        }
    }

    /// A worker hands over no more figures.
    pub(crate) fn worker_ended(&self, worker: usize) {
        if let Some(rounds) = &self.rounds {
            rounds.worker_ended(worker);
        }
    }

    /// Returns true if the phase is over because of its steady state.
    pub(crate) fn is_steady(&self) -> bool {
        self.rounds.as_ref().is_some_and(|rounds| rounds.end().is_some())
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

/// Requests that each worker of a stream may have under way: an equal share, the first workers one more if that leaves a
/// rest.
fn rooms(stream: &Stream) -> impl Iterator<Item = u32> + use<> {
    let (all, workers) = (stream.plan.outstanding_max, stream.lanes.len() as u32);
    (0..workers).map(move |worker| all / workers + u32::from(worker < all % workers))
}

/// Time between two looks for a request to stop.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Time that a worker may be late with its figures of an interval.
const PATIENCE: Duration = Duration::from_ms(500);

/// Measures one phase: one thread for each lane of each stream, all on `clock`.
///
/// # Errors
/// A target that fails as a whole before anything was measured, or no thread. What was measured before a target failed is
/// the result.
pub fn measure(
    plan: &Plan,
    clock: Clock,
    streams: Vec<Stream>,
    listener: &mut dyn Listener,
) -> Result<Measurement, BenchError> {
    let shared = Arc::new(Shared::new(&streams, plan));
    let of_streams: Vec<usize> =
        streams.iter().enumerate().flat_map(|(stream, of)| of.lanes.iter().map(move |_| stream)).collect();
    let (workers, stream_count) = (of_streams.len(), streams.len());
    let (outlet, messages) = Outlet::to_collector(plan.is_virtual);
    let lanes = streams
        .into_iter()
        .flat_map(|Stream { plan, lanes }| lanes.into_iter().map(move |lane| (plan.clone(), lane)));
    for (index, (stream, Lane { target, workload })) in lanes.enumerate() {
        let (plan, of_worker, outlet) = (plan.clone(), Arc::clone(&shared), outlet.clone());
        let is_pinned = workers > 1 && !plan.is_virtual;
        let work = move || {
            if is_pinned {
                pin(index);
            }
            wake_this_thread_exactly();
            let plans = (&plan, &stream);
            let worker = Worker::new(index, plans, clock, target, workload(), &of_worker, outlet.clone());
            let end = worker.run();
            outlet.send(Message::End(index, Box::new(end)));
        };
        let spawned = thread::Builder::new().name(format!("bench {index}")).spawn(work);
        if let Err(source) = spawned {
            shared.stop.store(true, Ordering::Relaxed);
            return Err(BenchError::Thread { source });
        }
    }
    drop(outlet);
    // The end of an interval wakes this thread on the processor of a worker, whose next arrival may be due.
    let _yielding = (!plan.is_virtual).then(Yielding::begin);
    let mut collector = Collector {
        plan,
        clock,
        shared: &shared,
        listener,
        merger: Merger::new(workers),
        stream_count,
        of_streams,
        open: BTreeMap::new(),
        intervals: Vec::new(),
        closed: 0,
        ends: (0..workers).map(|_| None).collect(),
        draining: vec![None; workers],
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
    streams: Vec<Part>,
    workers: BTreeSet<usize>,
}

impl Open {
    fn begin(from: Instant, streams: usize) -> Self {
        Self { streams: (0..streams).map(|_| Part::begin(from)).collect(), workers: BTreeSet::new() }
    }
}

struct Collector<'a> {
    plan: &'a Plan,
    clock: Clock,
    shared: &'a Shared,
    listener: &'a mut dyn Listener,
    merger: Merger,
    stream_count: usize,
    /// The stream of each worker.
    of_streams: Vec<usize>,
    /// Intervals that are not complete, by number.
    open: BTreeMap<u64, Open>,
    intervals: Vec<Interval>,
    /// Number of intervals that were closed, those that were joined included.
    closed: u64,
    ends: Vec<Option<Box<WorkerEnd>>>,
    /// The latest figures of each worker on the requests that it waits for.
    draining: Vec<Option<Draining>>,
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
            self.listener.look();
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
            Message::Draining(worker, draining) => self.take_draining(worker, draining),
            Message::Rows(worker, rows, from) => {
                let listener = &mut *self.listener;
                listener.stream_rows(self.of_streams[worker], &rows);
                self.merger.push(worker, (rows, from), &mut |row| listener.row(row));
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
        let stream = self.of_streams[worker];
        // One that was closed without this worker takes its figures late.
        let kept = self.intervals.len().saturating_sub(1).min(index as usize);
        if let Some(interval) = self.intervals.get_mut(kept).filter(|_| index < self.closed) {
            interval.part.merge_thread(part);
            interval.streams[stream].merge_thread(part);
            return;
        }
        let count = self.stream_count;
        let open = self.open.entry(index).or_insert_with(|| Open::begin(part.from, count));
        open.streams[stream].merge_thread(part);
        open.workers.insert(worker);
    }

    /// Reports the requests that are waited for as soon as all workers that still work have handed them over.
    fn take_draining(&mut self, worker: usize, draining: Draining) {
        self.draining[worker] = Some(draining);
        let working = self.ends.iter().zip(&self.draining).filter(|(end, _)| end.is_none());
        let mut sum = Draining { at: draining.at, ..Draining::default() };
        for (_, of_worker) in working {
            let Some(of_worker) = of_worker.filter(|of_worker| of_worker.at >= draining.at) else { return };
            sum.outstanding += of_worker.outstanding;
            sum.hung += of_worker.hung;
            sum.oldest = sum.oldest.max(of_worker.oldest);
        }
        self.listener.draining(&sum);
    }

    /// Closes the first intervals while all workers that still work have handed them over.
    fn close_complete(&mut self) {
        while let Some(first) = self.open.first_entry() {
            let has_handed = |worker: usize| first.get().workers.contains(&worker);
            let mut workers = self.ends.iter().enumerate();
            let is_complete = workers.all(|(worker, end)| end.is_some() || has_handed(worker));
            if !is_complete || *first.key() != self.closed {
                return;
            }
            let (index, open) = first.remove_entry();
            self.close(index, open.streams, 0);
        }
    }

    fn close(&mut self, index: u64, streams: Vec<Part>, silent_threads: u32) {
        let mut part = Part::begin(streams[0].from);
        streams.iter().for_each(|stream| part.merge_thread(stream));
        let mut interval = Interval { index, part, streams, silent_threads };
        interval.compact();
        self.listener.interval(&interval);
        self.closed = index + 1;
        if self.intervals.len() < self.plan.intervals_max.max(1) {
            self.intervals.push(interval);
        } else if let Some(last) = self.intervals.last_mut() {
            last.join(&interval);
        }
    }

    /// Closes intervals that are over although a worker has not handed over its figures.
    fn close_overdue(&mut self) {
        let (Some(length), Some(begin)) = (self.plan.interval, self.begin()) else { return };
        loop {
            let index = self.closed;
            let until = begin + length * (index + 1);
            if self.clock.now() < until + PATIENCE {
                return;
            }
            if self.deadline().is_some_and(|deadline| until > deadline) {
                return;
            }
            let is_ended = |index: usize| self.ends[index].is_some();
            let silent: Vec<(usize, Instant)> = (0..self.ends.len())
                .filter(|worker| !is_ended(*worker))
                .filter_map(|worker| Some((worker, self.shared.pulse(worker).since()?)))
                .filter(|(_, since)| *since < until)
                .collect();
            if silent.is_empty() {
                return;
            }
            let count = self.stream_count;
            let open = self.open.remove(&index);
            let mut open = open.unwrap_or_else(|| Open::begin(begin + length * index, count));
            open.streams.iter_mut().for_each(|part| part.until = until);
            for (worker, since) in &silent {
                let age = until.saturating_since(*since);
                let part = &mut open.streams[self.of_streams[*worker]];
                part.outstanding += 1;
                part.hung += u64::from(age >= Plan::HUNG);
                part.oldest = part.oldest.max(Some(age));
                part.pause = part.pause.max(age);
            }
            self.close(index, open.streams, silent.len() as u32);
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
        let end = [planned, self.stopped_at, self.steady_end()].into_iter().flatten().min()?;
        let drained = Instant::from_ns(self.shared.draining_until.load(Ordering::Relaxed));
        Some(drained.max(end + Plan::DRAIN) + PATIENCE)
    }

    /// End of the round with which a steady state ends the phase.
    fn steady_end(&self) -> Option<Instant> {
        self.shared.rounds.as_ref()?.end()
    }

    fn finish(mut self) -> Result<Measurement, BenchError> {
        // Those that wait for a worker that does not come.
        for (index, Open { streams, workers }) in std::mem::take(&mut self.open) {
            let silent = self.ends.len() - workers.len();
            self.close(index, streams, silent as u32);
        }
        if let Some(end) = self.steady_end() {
            self.join_rest(end);
        }
        let steady = self.shared.rounds.as_ref().map(|rounds| rounds.track(&self.intervals));
        let all: Vec<usize> = (0..self.ends.len()).collect();
        let mut totals = self.totals(&all, |interval| &interval.part);
        let of_stream = |stream: usize| {
            let workers: Vec<usize> =
                all.iter().copied().filter(|worker| self.of_streams[*worker] == stream).collect();
            self.totals(&workers, |interval| &interval.streams[stream])
        };
        let streams: Vec<Totals> = (0..self.stream_count).map(of_stream).collect();
        let failure = self.ends.iter_mut().flatten().find_map(|end| end.failure.take());
        let failure = match failure {
            Some(failure) if totals.part.attempts == 0 => return Err(failure.into()),
            failure => failure,
        };
        if !self.plan.is_virtual {
            let ends = || self.ends.iter().flatten();
            let before = ends().find(|end| end.begin.is_some()).map(|end| end.cost_at_begin);
            let system_calls = ends().map(|end| end.thread_cost.system_calls).sum();
            let cost = Cost::of_process().since(before.unwrap_or_default());
            let sum = |of: fn(&Cost) -> Duration| {
                ends().fold(Duration::ZERO, |sum, end| sum + of(&end.thread_cost))
            };
            let processor_wait = sum(|cost| cost.processor_wait);
            let (busy, loop_time) = (sum(|cost| cost.busy), sum(|cost| cost.loop_time));
            totals.cost = Some(Cost { system_calls, processor_wait, busy, loop_time, ..cost });
        }
        let Self { intervals, is_stopped, .. } = self;
        Ok(Measurement { totals, streams, intervals, steady, is_stopped, failure })
    }

    /// Joins what ended behind the last round to that round: it is no round of its own.
    fn join_rest(&mut self, end: Instant) {
        let rounds = self.intervals.iter().take_while(|interval| interval.part.from < end).count().max(1);
        for rest in self.intervals.split_off(rounds.min(self.intervals.len())) {
            let Some(last) = self.intervals.last_mut() else { return };
            last.join(&rest);
        }
    }

    /// Figures of the whole time of some workers, whose share of an interval is `part`.
    fn totals(&self, workers: &[usize], part: impl Fn(&Interval) -> &Part) -> Totals {
        let now = self.clock.now();
        let mut totals = Totals::default();
        for worker in workers.iter().filter(|worker| self.ends[**worker].is_none()) {
            totals.silent_threads += 1;
            // The request is known to its worker alone.
            let unknown =
                Unfinished { op: Operation::Read, lbn: 0, blocks: 0, age: Duration::ZERO, since: None };
            let since = self.shared.pulse(*worker).since();
            totals.unfinished.extend(since.map(|at| Unfinished {
                age: now.saturating_since(at),
                since,
                ..unknown
            }));
        }
        let ends = || workers.iter().filter_map(|worker| self.ends[*worker].as_deref());
        for end in ends() {
            totals.unissued += end.unissued;
            totals.has_more_unissued |= end.has_more_unissued;
            totals.unfinished.extend(&end.unfinished);
            totals.refusal = totals.refusal.take().or_else(|| end.refusal.clone());
            totals.reconnections += end.reconnections;
            totals.away = totals.away.max(end.away);
        }
        totals.cost = (!self.plan.is_virtual).then(|| {
            let mut cost = Cost::default();
            ends().for_each(|end| cost += end.thread_cost);
            cost
        });
        for interval in &self.intervals {
            totals.part.merge_counts(part(interval));
        }
        let first = ends().filter_map(|end| end.first).min();
        let begin = ends().filter_map(|end| end.begin).min().or(self.begin()).unwrap_or_default();
        let is_timed = self.plan.duration.is_some() || self.plan.ramp != Ramp::None;
        totals.begin = if is_timed { begin } else { first.unwrap_or(begin) };
        let last = totals.part.last_completion.unwrap_or(totals.begin);
        let planned = self.plan.duration.map(|duration| begin + duration);
        let planned = [planned, self.stopped_at, self.steady_end()].into_iter().flatten().min();
        // A workload that ended before the duration did sets the end.
        let worked_until = ends().map(|end| end.end).max().unwrap_or(now);
        totals.end = planned.map_or(last, |planned| last.max(planned.min(worked_until)));
        (totals.part.from, totals.part.until) = (totals.begin, totals.end);
        let held = totals.unfinished.iter().filter_map(|request| request.since);
        totals.unfinished_time =
            held.fold(Duration::ZERO, |sum, since| sum + totals.end.saturating_since(since));
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_so_many_messages_ahead_of_its_collector_at_most() {
        let (outlet, messages) = Outlet::to_collector(true);
        let Outlet::Bounded(sender) = outlet else { panic!("a worker in virtual time does not wait") };
        let has_room = |_: &u32| sender.try_send(Message::Draining(0, Draining::default())).is_ok();
        assert_eq!((0..1_000).take_while(has_room).count(), MESSAGES_MAX);
        messages.recv().unwrap();
        assert!(has_room(&0) && !has_room(&0));
        assert!(matches!(Outlet::to_collector(false).0, Outlet::Free(_)), "in real time none waits");
    }
}
