//! One thread of a measurement: takes arrivals, issues them, takes what has ended, and hands over figures.
//!
//! ```text
//! loop: interval over? ─▶ arrivals up to now ─▶ issue while there is room ─▶ poll the target ─▶ record what ended
//! ```
//! The loop waits for the next of: an arrival, a retry, a completion, the end of the interval. Before an arrival it spins,
//! as the emulator does before a reply.
//!
//! # Scope and limits
//! A request counts if its intended start lies behind the ramp-up. The time that counts ends with the last of these
//! requests, so none is left out because it took long.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use seeklab_core::{
    Breakdown, BufferOutcome, Completion, Duration, FaultSet, Instant, Outcome, Status, TraceRecord, Workload,
};
use seeklab_emulator::clock::{Clock, DEFAULT_MARGIN, MarginAdjuster, Wait, Waiter};

use crate::arrivals::{Arrivals, Arrived};
use crate::cost::Cost;
use crate::error::TargetError;
use crate::measurement::{Draining, Unfinished};
use crate::part::Part;
use crate::plan::{Late, Plan, Ramp, StreamPlan};
use crate::records::{NextRow, Records};
use crate::run::{Message, Outlet, Shared};
use crate::slots::{Attempt, Slots};
use crate::target::{Ended, Target, Transfer};

/// Time without a connection after which a measurement without a duration ends.
const AWAY_MAX: Duration = Duration::from_s(60);
/// Longest wait, so that a request to stop is noticed.
const WAIT_MAX: Duration = Duration::from_ms(50);
/// Shortest time between two looks for requests that exceed their time limit.
const SCAN_MIN: Duration = Duration::from_ms(1);

/// Keeps the time for which a worker spins before an arrival at the lateness that nine in ten of its sleeps do not exceed. A
/// processor that slept for a hundredth of a second takes longer to wake than one that slept for a thousandth.
fn adjuster() -> MarginAdjuster {
    const MARGIN_MAX: Duration = Duration::from_us(500);
    MarginAdjuster::new(20, 0.9, DEFAULT_MARGIN, MARGIN_MAX)
}

/// Arrivals that were never issued which are counted behind those in memory, in about a tenth of a second.
const UNISSUED_MAX: u64 = 1 << 20;

/// Result of a worker.
#[derive(Debug)]
pub(crate) struct WorkerEnd {
    /// Time of its end.
    pub(crate) end: Instant,
    /// Intended start of the first request that counts.
    pub(crate) first: Option<Instant>,
    /// Begin of the time that counts, if it came.
    pub(crate) begin: Option<Instant>,
    /// Cost of the process when the time that counts began.
    pub(crate) cost_at_begin: Cost,
    /// Cost of its thread since then.
    pub(crate) thread_cost: Cost,
    /// Requests that arrived and were never issued.
    pub(crate) unissued: u64,
    /// True if there were more of them than were counted.
    pub(crate) has_more_unissued: bool,
    /// Requests that the target never returned.
    pub(crate) unfinished: Vec<Unfinished>,
    /// Reason for which the target refused requests without sending them.
    pub(crate) refusal: Option<String>,
    /// Connections that were remade.
    pub(crate) reconnections: u64,
    /// Time at the end for which there was no connection.
    pub(crate) away: Option<Duration>,
    /// Failure that ended it early.
    pub(crate) failure: Option<TargetError>,
}

pub(crate) struct Worker<'a> {
    index: usize,
    plan: &'a Plan,
    stream: &'a StreamPlan,
    target: Box<dyn Target>,
    arrivals: Arrivals,
    slots: Slots,
    /// Failed requests in order of their next attempt.
    retries: VecDeque<Attempt>,
    waiter: Option<Waiter>,
    shared: &'a Shared,
    outlet: Outlet,
    records: Option<Records>,
    part: Part,
    /// Number of the interval from the begin of the time that counts.
    interval: u64,
    begin: Option<Instant>,
    first: Option<Instant>,
    cost_at_begin: Cost,
    thread_cost_at_begin: Cost,
    /// Time since when there was no room for all arrivals, if there is none. Those before it found room, and this loop was late.
    full_since: Option<Instant>,
    /// The last time at which there was no room. Arrivals before it had to wait.
    full_until: Instant,
    /// The last time at which the target took no requests. Arrivals before it had to wait for a connection.
    away_until: Instant,
    /// Since then requests are under way, or wait for room or their next attempt, without a completion.
    waiting_since: Option<Instant>,
    /// Since then the target takes no requests.
    away_since: Option<Instant>,
    /// The last completion.
    last_end: Instant,
    /// Longest time from an issue to its completion.
    longest: Duration,
    next_scan: Instant,
    /// Time in which there was nothing to do, or the target was looked at until something ended.
    idle: Duration,
    /// Begin of a turn of the loop that found nothing to do, and how it waited.
    idle_since: Option<(Instant, Wait)>,
    /// Arrivals from then on are not made.
    end: Option<Instant>,
    is_ended: bool,
    /// Time until which the requests that are waited for were reported.
    reported: Instant,
    unissued: u64,
    rows: u64,
    transfers: Vec<Transfer>,
    ended: Vec<Ended>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        index: usize,
        (plan, stream): (&'a Plan, &'a StreamPlan),
        clock: Clock,
        target: Box<dyn Target>,
        workload: Box<dyn Workload>,
        shared: &'a Shared,
        outlet: Outlet,
    ) -> Self {
        let room = shared.room(index).min(target.facts().outstanding_max).max(1);
        Self {
            index,
            plan,
            stream,
            arrivals: Arrivals::new(workload),
            slots: Slots::new(room),
            retries: VecDeque::new(),
            waiter: (!plan.is_virtual)
                .then(|| Waiter::new(clock, plan.pacing, DEFAULT_MARGIN).adapting(adjuster())),
            shared,
            records: plan.record.then(|| Records::new(index, outlet.clone())),
            outlet,
            part: Part::default(),
            interval: 0,
            begin: None,
            first: None,
            cost_at_begin: Cost::default(),
            thread_cost_at_begin: Cost::default(),
            full_since: None,
            full_until: Instant::ZERO,
            away_until: Instant::ZERO,
            waiting_since: None,
            away_since: None,
            last_end: Instant::ZERO,
            longest: Duration::ZERO,
            next_scan: Instant::ZERO,
            idle: Duration::ZERO,
            idle_since: None,
            end: None,
            is_ended: false,
            reported: Instant::ZERO,
            unissued: 0,
            rows: 0,
            transfers: Vec::with_capacity(room as usize),
            ended: Vec::with_capacity(room as usize),
            target,
        }
        .on(clock)
    }

    /// Puts the stamps of the target on the clock of the run.
    fn on(mut self, clock: Clock) -> Self {
        self.target.set_clock(clock);
        self
    }

    /// Runs to the end, hands over what is left, and returns the result.
    pub(crate) fn run(mut self) -> WorkerEnd {
        let failure = self.work().err();
        let end = self.target.now();
        self.roll(end);
        self.part.until = end;
        self.note_state(end);
        let held: Vec<(bool, Attempt)> =
            self.slots.held().map(|(_, is_given_up, attempt)| (is_given_up, *attempt)).collect();
        let mut unfinished = Vec::new();
        for (is_given_up, attempt) in held {
            let age = end.saturating_since(attempt.issued);
            let is_in_no_time = !is_given_up && self.counts(attempt.intended);
            let since = is_in_no_time.then_some(attempt.intended);
            unfinished.push(Unfinished { since, ..Unfinished::of(&attempt.request, age) });
            if !is_given_up {
                self.write_row(&attempt, None, Status::Timeout, None);
            }
        }
        if self.begin.is_some() {
            let part = std::mem::take(&mut self.part);
            self.outlet.send(Message::Part(self.index, self.interval, Box::new(part)));
        }
        if let Some(records) = self.records.take() {
            records.finish();
        }
        self.shared.worker_ended(self.index);
        let loop_time = self.begin.map_or(Duration::ZERO, |begin| end.saturating_since(begin));
        let thread_cost = self.thread_cost().since(self.thread_cost_at_begin).within(loop_time, self.idle);
        // Of a load far above what the target does, there are more than can be counted in time.
        let rest = self.arrivals.count_rest(UNISSUED_MAX);
        WorkerEnd {
            end,
            first: self.first,
            begin: self.begin,
            cost_at_begin: self.cost_at_begin,
            thread_cost,
            unissued: self.unissued + rest,
            has_more_unissued: rest >= UNISSUED_MAX,
            unfinished,
            refusal: self.target.refusal().map(str::to_owned),
            reconnections: self.target.reconnections(),
            away: self.away_since.map(|since| end.saturating_since(since)),
            failure,
        }
    }

    fn work(&mut self) -> Result<(), TargetError> {
        loop {
            let now = self.target.now();
            if let Some((since, wait)) = self.idle_since.take() {
                self.idle += now.saturating_since(since);
                if let (Some(waiter), Wait::Until(_)) = (&mut self.waiter, wait) {
                    waiter.woke(wait, since, now, None);
                }
            }
            self.roll(now);
            let rows = self.rows;
            self.hand_over_rows(now);
            self.end_if_due(now)?;
            self.give_up_late(now);
            self.arrivals.advance(now);
            self.issue(now)?;
            let held = self.slots.under_way() + self.slots.given_up();
            if !self.is_ended
                && self.arrivals.is_finished()
                && self.retries.is_empty()
                && self.slots.under_way() == 0
            {
                // Requests that were given up may still be returned.
                (self.end, self.is_ended) = (Some(now), true);
            }
            if self.is_ended {
                let until = self.drained();
                if held == 0 || until.is_some_and(|until| now >= until) {
                    return Ok(());
                }
                until.into_iter().for_each(|until| self.shared.drains_until(until));
                self.report_draining(now);
            }
            let wait = self.wait(now, held > 0);
            self.shared.pulse(self.index).end();
            let at_least = self.stream.batch.min(self.slots.under_way()).max(1);
            let looks_since = (self.target.spins() && !self.plan.is_virtual).then(|| self.target.now());
            self.target.poll(wait, at_least, &mut self.ended)?;
            match looks_since {
                Some(since) => self.idle += self.target.now().saturating_since(since),
                None if self.rows == rows && self.ended.is_empty() => self.idle_since = Some((now, wait)),
                None => {}
            }
            self.take_ended();
        }
    }

    /// Reports the requests that are waited for, if an interval behind the end of the arrivals is over.
    fn report_draining(&mut self, now: Instant) {
        let (Some(length), Some(begin), Some(end)) = (self.plan.interval, self.begin, self.end) else {
            return;
        };
        let at = begin + length * (now.saturating_since(begin).as_ns() / length.as_ns());
        if self.plan.is_virtual || at <= end.max(self.reported) {
            return;
        }
        self.reported = at;
        let (oldest, hung) = self.slots.ages(at, Plan::HUNG);
        let outstanding = u64::from(self.slots.under_way() + self.slots.given_up());
        let draining = Draining { at, outstanding, hung: u64::from(hung), oldest };
        self.outlet.send(Message::Draining(self.index, draining));
    }

    /// Time until which requests under way at the end are waited for. A target that still completes some is not given up.
    fn drained(&self) -> Option<Instant> {
        let end = self.end?;
        if self.shared.stop.load(Ordering::Relaxed) {
            return Some(end + Plan::DRAIN);
        }
        let until = end.max(self.last_end) + Plan::DRAIN + self.longest;
        Some(if self.plan.is_virtual { until } else { until.min(end + Plan::DRAIN_MAX) })
    }

    /// The cost of its thread so far.
    fn thread_cost(&self) -> Cost {
        Cost { system_calls: self.target.system_calls(), ..Cost::of_thread() }
    }

    /// Begins the time that counts, and hands over intervals that are over at `now`.
    fn roll(&mut self, now: Instant) {
        let begin = match self.begin {
            Some(begin) => begin,
            None => {
                let begin = match self.plan.ramp {
                    Ramp::None => Some(Instant::ZERO),
                    Ramp::Time(length) => Some(Instant::ZERO + length),
                    Ramp::Requests(_) => self.shared.begin(),
                };
                let Some(begin) = begin.filter(|begin| *begin <= now) else { return };
                self.begin = Some(begin);
                self.part = Part::begin(begin);
                self.cost_at_begin = Cost::of_process();
                self.thread_cost_at_begin = self.thread_cost();
                self.idle = Duration::ZERO;
                self.end = self.end.or_else(|| Some(begin + self.plan.duration?));
                begin
            }
        };
        let Some(length) = self.plan.interval else { return };
        loop {
            let boundary = begin + length * (self.interval + 1);
            // The last interval includes what ends behind the end of the arrivals.
            if boundary > now || self.end.is_some_and(|end| boundary >= end) {
                return;
            }
            self.arrivals.advance(boundary);
            self.part.until = boundary;
            self.note_state(boundary);
            let part = std::mem::replace(&mut self.part, Part::begin(boundary));
            self.shared.round_over(self.index, self.interval, &part);
            self.outlet.send(Message::Part(self.index, self.interval, Box::new(part)));
            self.interval += 1;
        }
    }

    /// Notes what the target has and what waits.
    fn note_state(&mut self, now: Instant) {
        let (oldest, hung) = self.slots.ages(now, Plan::HUNG);
        self.part.outstanding = u64::from(self.slots.under_way() + self.slots.given_up());
        // Behind the end of the arrivals, those that never found room wait no more.
        self.part.queued = self.arrivals.queued() as u64 + self.unissued;
        (self.part.oldest, self.part.hung) = (oldest, u64::from(hung));
        if let Some(since) = self.waiting_since {
            self.part.pause = self.part.pause.max(now.saturating_since(since));
        }
    }

    /// Ends the arrivals when the time is over or a stop was requested.
    fn end_if_due(&mut self, now: Instant) -> Result<(), TargetError> {
        if self.is_ended {
            return Ok(());
        }
        if self.shared.stop.load(Ordering::Relaxed) || self.shared.is_steady() {
            self.end = Some(self.end.map_or(now, |end| end.min(now)));
        }
        if let Some(end) = self.end.filter(|end| *end <= now) {
            self.issue_before(end, now)?;
            self.is_ended = true;
            self.unissued = self.arrivals.end_before(end);
            // Their last attempt failed, and there is no other.
            for retry in std::mem::take(&mut self.retries) {
                if self.counts(retry.intended) {
                    self.part.failed += 1;
                    self.part.failed_response.record(now.saturating_since(retry.intended));
                }
            }
        }
        Ok(())
    }

    /// Issues what arrived before the end and has room. This loop may be late, which the target does not answer for.
    fn issue_before(&mut self, end: Instant, now: Instant) -> Result<(), TargetError> {
        self.arrivals.cut(end);
        loop {
            self.arrivals.advance_before(end);
            // Room that a completion at the end or behind it has made came too late.
            let has_room = self.slots.has_room() && self.target.is_ready() && self.full_until < end;
            if !has_room || self.arrivals.queued() == 0 {
                break;
            }
            self.issue(now)?;
        }
        if self.stream.late == Late::Drop {
            self.leave_out();
        }
        Ok(())
    }

    /// Gives up attempts that exceed the time limit.
    fn give_up_late(&mut self, now: Instant) {
        let Some(limit) = self.stream.timeout else { return };
        if now < self.next_scan || self.slots.under_way() == 0 {
            return;
        }
        self.next_scan = now + (limit / 8).max(SCAN_MIN);
        let late: Vec<u32> = self
            .slots
            .held()
            .filter(|(_, is_given_up, attempt)| !is_given_up && now.saturating_since(attempt.issued) >= limit)
            .map(|(tag, ..)| tag)
            .collect();
        for tag in late {
            let Some(attempt) = self.slots.give_up(tag) else { continue };
            self.target.timed_out(tag);
            self.attempt_ended(&attempt, now, Status::Timeout, None, true);
        }
        self.arrivals.completed_at(now);
    }

    /// Issues retries and arrivals while there is room.
    fn issue(&mut self, now: Instant) -> Result<(), TargetError> {
        if !self.target.is_ready() {
            (self.full_until, self.away_until) = (now, now);
            if self.has_waiting() {
                self.waiting_since.get_or_insert(now);
            }
            if self.stream.late == Late::Drop {
                self.leave_out();
            }
            let away = now.saturating_since(*self.away_since.get_or_insert(now));
            return match self.end {
                None if away >= AWAY_MAX => {
                    Err(TargetError::Away { seconds: AWAY_MAX.as_ns() / 1_000_000_000 })
                }
                _ => Ok(()),
            };
        }
        if self.away_since.take().is_some() {
            // The connection was remade a moment ago.
            (self.full_until, self.away_until) = (now, now);
        }
        while self.slots.has_room() {
            let retry = self.retries.front().filter(|retry| retry.due <= now).map(|retry| retry.due);
            let arrived = self.arrivals.front().map(|arrived| arrived.intended);
            let attempt = match (retry, arrived) {
                (Some(due), intended) if intended.is_none_or(|intended| due <= intended) => {
                    self.retries.pop_front().expect("the first is there")
                }
                // It found no room, though there is some by now.
                (_, Some(intended)) if self.stream.late == Late::Drop && intended < self.full_until => {
                    self.arrivals.pop();
                    self.part.dropped += u64::from(self.counts(intended));
                    continue;
                }
                (_, Some(_)) => self.take_arrival(),
                (_, None) => break,
            };
            let attempt = Attempt { row: self.rows, ..attempt };
            self.rows += 1;
            let tag = self.slots.begin(attempt).expect("there is room");
            self.transfers.push(Transfer { tag, request: attempt.request });
        }
        if self.stream.late == Late::Drop {
            self.leave_out();
        }
        if !self.transfers.is_empty() {
            self.hand_over()?;
        }
        match self.slots.has_room() {
            true => self.full_since = None,
            false => _ = self.full_since.get_or_insert(now),
        }
        for change in self.arrivals.take_changes() {
            self.target.reclassify(&change);
        }
        Ok(())
    }

    /// Leaves out the arrivals that wait.
    fn leave_out(&mut self) {
        while let Some(Arrived { intended, .. }) = self.arrivals.pop() {
            self.part.dropped += u64::from(self.counts(intended));
        }
    }

    /// True if requests have arrived, or are to be sent again, that the target does not have.
    fn has_waiting(&self) -> bool {
        !self.retries.is_empty() || self.arrivals.queued() > 0
    }

    /// The first arrival as an attempt.
    fn take_arrival(&mut self) -> Attempt {
        let Arrived { request, intended } = self.arrivals.pop().expect("the first is there");
        let found_room = self.full_since.is_none_or(|since| intended < since) && intended >= self.away_until;
        let had_to_wait = intended < self.full_until && !found_room;
        if had_to_wait && self.counts(intended) {
            self.part.delayed += 1;
            self.part.delayed_away += u64::from(intended < self.away_until);
        }
        // The end of time marks it: this loop is not late with it.
        let due = if had_to_wait { Instant::MAX } else { intended };
        Attempt { request, intended, due, number: 1, issued: Instant::ZERO, row: 0 }
    }

    /// Stamps the transfers and gives them to the target.
    fn hand_over(&mut self) -> Result<(), TargetError> {
        let issued = self.target.now();
        let together = self.transfers.len() as u32;
        let before = self.slots.under_way() - together;
        let mut counted = false;
        for index in 0..self.transfers.len() {
            let Transfer { tag, .. } = self.transfers[index];
            let attempt = self.slots.issue(tag, issued);
            if !self.counts(attempt.intended) {
                continue;
            }
            self.first = Some(self.first.map_or(attempt.intended, |first| first.min(attempt.intended)));
            self.part.attempts += 1;
            self.part.depths.record(before + index as u32 + 1);
            counted = true;
            self.part.retries += u64::from(attempt.number > 1);
            if attempt.due < Instant::MAX {
                self.part.lateness.record(issued.saturating_since(attempt.due));
            }
        }
        if counted {
            self.part.submissions.record(together - 1);
        }
        self.waiting_since.get_or_insert(issued);
        self.shared.pulse(self.index).begin(issued);
        let submitted = self.target.submit(&self.transfers);
        self.transfers.clear();
        submitted
    }

    /// Returns true of a request that counts.
    fn counts(&self, intended: Instant) -> bool {
        self.begin.is_some_and(|begin| intended >= begin)
    }

    /// Returns the way to wait from `now` on.
    fn wait(&mut self, now: Instant, is_under_way: bool) -> Wait {
        let retry = self.retries.front().map(|retry| retry.due);
        // Without room, only a completion helps.
        let arrives = self.slots.has_room() && self.target.is_ready();
        let arrival =
            if arrives || self.stream.late == Late::Drop { self.arrivals.next_time() } else { None };
        let event = [arrival, retry.filter(|_| arrives)].into_iter().flatten().min();
        let boundary = self.begin.zip(self.plan.interval);
        let boundary = boundary.map(|(begin, length)| begin + length * (self.interval + 1));
        let boundary = boundary.filter(|boundary| self.end.is_none_or(|end| *boundary < end));
        let ramp = match self.plan.ramp {
            Ramp::Time(length) if self.begin.is_none() => Some(Instant::ZERO + length),
            _ => None,
        };
        let end = if self.is_ended { self.drained() } else { self.end };
        let scan =
            self.stream.timeout.filter(|_| self.slots.under_way() > 0).map(|_| self.next_scan.max(now));
        let Some(waiter) = &mut self.waiter else {
            // In virtual time nothing else happens before these.
            let away = self.away_since.map(|since| since + AWAY_MAX);
            let next = [event, boundary.filter(|_| is_under_way || event.is_some()), ramp, end, scan, away];
            return next.into_iter().flatten().min().map_or(Wait::Forever, Wait::Until);
        };
        let latest = [boundary, ramp, end, scan].into_iter().flatten().fold(now + WAIT_MAX, Instant::min);
        match waiter.begin(now, event, None) {
            Wait::Spin => Wait::Spin,
            Wait::Until(until) => Wait::Until(until.min(latest)),
            Wait::Forever => Wait::Until(latest),
        }
    }

    /// Records what the target has returned, and tells the workload.
    fn take_ended(&mut self) {
        if self.ended.is_empty() {
            return;
        }
        let mut ended = std::mem::take(&mut self.ended);
        if self.begin.is_some() {
            self.part.completions.record(ended.len() as u32 - 1);
        }
        if !ended.is_sorted_by_key(|end| end.completed) {
            ended.sort_by_key(|end| end.completed);
        }
        for group in ended.chunk_by(|one, other| one.completed == other.completed) {
            let completed = group[0].completed;
            self.roll(completed);
            self.arrivals.advance_before(completed);
            if let Some(since) = self.waiting_since {
                self.part.pause = self.part.pause.max(completed.saturating_since(since));
            }
            self.part.last_completion = Some(completed);
            self.last_end = completed;
            if !self.slots.has_room() {
                self.full_until = completed;
            }
            for Ended { tag, status, good_blocks, .. } in group {
                match self.slots.end(*tag) {
                    Some(attempt) => {
                        self.longest = self.longest.max(completed.saturating_since(attempt.issued));
                        self.attempt_ended(&attempt, completed, *status, *good_blocks, false);
                    }
                    None => self.part.late_ends += 1,
                }
            }
            let waits = self.slots.under_way() > 0 || self.has_waiting();
            self.waiting_since = waits.then_some(completed);
            self.arrivals.completed_at(completed);
        }
        ended.clear();
        self.ended = ended;
    }

    /// Records the end of an attempt, and sends it again or tells the workload.
    fn attempt_ended(
        &mut self,
        attempt: &Attempt,
        completed: Instant,
        status: Status,
        good_blocks: Option<u32>,
        is_given_up: bool,
    ) {
        let counts = self.counts(attempt.intended);
        self.part.statuses[status as usize] += u64::from(counts);
        self.write_row(attempt, (!is_given_up).then_some(completed), status, good_blocks);
        if self.stream.retries.sends_again(status, attempt.number) && !self.is_ended {
            let due = completed + self.stream.retries.after;
            self.retries.push_back(Attempt { due, number: attempt.number + 1, ..*attempt });
            return;
        }
        let response = completed.saturating_since(attempt.intended);
        if status.is_success() {
            if counts {
                let request = &attempt.request;
                let operation = &mut self.part.operations[request.op as usize];
                operation.requests += 1;
                operation.bytes +=
                    u64::from(request.blocks) * self.target.facts().space.block_size.as_bytes();
                operation.response.record(response);
                operation.service.record(completed.saturating_since(attempt.issued));
                self.part.retried += u64::from(attempt.number > 1);
            }
        } else if counts {
            self.part.failed += 1;
            self.part.failed_response.record(response);
        }
        if let Ramp::Requests(requests) = self.plan.ramp
            && self.begin.is_none()
        {
            self.shared.ended_in_ramp(requests, completed);
        }
        self.arrivals.completed(&completion(attempt, completed, status, good_blocks));
    }

    /// Hands over rows that have waited for long, in real time: a trace has them if this process is killed.
    fn hand_over_rows(&mut self, now: Instant) {
        let Some(records) = self.records.as_mut().filter(|of| !self.plan.is_virtual && of.is_due(now)) else {
            return;
        };
        let number = records.next();
        let under_way =
            self.slots.held().find(|(_, is_given_up, attempt)| !is_given_up && attempt.row == number);
        let retry = self.retries.front().map(|retry| retry.due);
        let next = match under_way {
            Some((.., attempt)) => NextRow::At(attempt.arrival()),
            None => match (self.arrivals.next_arrival(), retry) {
                (next, None) => next,
                (NextRow::At(next), Some(retry)) => NextRow::At(next.min(retry)),
                (NextRow::From(next), Some(retry)) => NextRow::From(next.min(retry)),
                (NextRow::Unknown, Some(retry)) => NextRow::At(retry),
            },
        };
        records.hand_over_old(now, next);
    }

    fn write_row(
        &mut self,
        attempt: &Attempt,
        completed: Option<Instant>,
        status: Status,
        good_blocks: Option<u32>,
    ) {
        let Some(records) = &mut self.records else { return };
        let Attempt { request, issued, row, .. } = *attempt;
        let record = TraceRecord {
            issue: Some(issued),
            start: Some(issued),
            completion: completed,
            device: self.stream.device,
            initiator: request.initiator,
            fua: request.fua,
            criticality: request.criticality,
            priority: request.priority,
            status,
            good_blocks,
            ..TraceRecord::new(attempt.arrival(), request.op, request.lbn, request.blocks)
        };
        records.push(row, record);
    }
}

/// The end of a request, as a workload hears of it.
fn completion(attempt: &Attempt, completed: Instant, status: Status, good_blocks: Option<u32>) -> Completion {
    let request = attempt.request;
    let good_blocks = if status.is_success() { request.blocks } else { good_blocks.unwrap_or(0) };
    Completion {
        request,
        submitted: attempt.intended,
        issued: attempt.issued,
        started: attempt.issued,
        completed,
        breakdown: Breakdown::default(),
        outcome: Outcome { status, good_blocks, ..Outcome::default() },
        buffer: BufferOutcome::None,
        seek_cylinders: 0,
        queue_length: 0,
        faults: FaultSet::NONE,
    }
}
