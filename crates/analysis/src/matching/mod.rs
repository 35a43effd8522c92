//! Matching of requests of the host with requests of the emulator.
//!
//! ```text
//!  MP1, host       ├────── write 0..64 ──────┤   ├─ read 0..8 ─┤├─ read 8..16 ─┤   ├─ flush ─┤
//!  MP2, emulator     ├ 0..32 ┤ ├ 32..64 ┤            (merged) ├ 0..16 ┤            ├ flush ┤
//!                    split: both have the                 one record has the         one each
//!                    host's arrival and completion        earliest and the latest
//! ```
//! Each record of the emulator gets the arrival and completion at MP1 of the host's requests that it
//! serves: the earliest issue and the latest completion of them.
//!
//! # Rules
//! - A record serves a request of the host if both do the same (discard and write-zeroes, which hosts and
//!   protocols turn into each other, count as the same), share bytes that no other record has served, and
//!   the record lies in time within the request, give or take a tolerance.
//! - Records are taken in order of arrival. Among the requests that one can serve, those come first that do
//!   just the same, then those that contain it in time without the tolerance, then one of just its range,
//!   then one that contains its range (the host's request was split), then those that lie within it, from
//!   its first byte on (they were merged), then any that overlap; among equals, the one that completed
//!   first. For equal concurrent requests this matches the maximum number.
//! - A flush serves one flush; where there is none, a FUA write that contains it and has been served: what
//!   has no FUA makes it a write, then a flush.
//! - What is left without a partner is counted, and so is what shares only some of its bytes. The loop driver flushes
//!   when it attaches a file and when it lets go; the host makes no request of that, so up to two flushes count apart.
//!
//! # Scope and limits
//! Two requests that are equal in operation and range, and each of which could be the other in time, cannot
//! be distinguished. The one that completed first goes to the record that arrived first. A host cache that
//! writes back later than it answers is beyond this: its requests do not contain the records. Memory holds
//! what is given and not yet settled; the time for one record grows with the requests outstanding at its
//! addresses.

mod ranges;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use seeklab_core::{Duration, HostRequest, Instant, Operation, TraceRecord};
use serde::Serialize;

use ranges::Ranges;

/// Default time by which a record may exceed its request of the host: the stamps are of one clock, but may be
/// read by different means.
const TOLERANCE: Duration = Duration::from_us(20);

/// Time after a record's completion during which the request's completion in the host is awaited.
const PATIENCE: Duration = Duration::from_s(1);

/// Flushes that the loop driver makes by itself at most: one when it attaches the file, one when it lets go.
pub const DRIVER_FLUSHES_MAX: u64 = 2;

/// Times up to which the host's side is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostKnown {
    /// Every request that the host issued before this was given.
    pub issued: Instant,
    /// Every request that completed in the host before this time was given, if its completion was recorded.
    pub happened: Instant,
}

impl HostKnown {
    /// The host has ended.
    pub const ALL: Self = Self { issued: Instant::MAX, happened: Instant::MAX };
}

/// Numbers of matched and unmatched requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct MatchCounts {
    /// Requests of the host.
    pub host: u64,
    /// Records of the emulator.
    pub emulated: u64,
    /// Records that serve a request of the host.
    pub matched: u64,
    /// Requests of the host that several records serve.
    pub split_groups: u64,
    /// Records that serve several requests of the host.
    pub merged_groups: u64,
    /// Requests of the host that no record serves.
    pub unmatched_host: u64,
    /// Records that serve no request of the host.
    pub unmatched_emulated: u64,
    /// Flushes among the records that the loop driver made by itself. They are not unmatched.
    pub driver_flushes: u64,
    /// Requests of the host of which records serve only some bytes.
    pub partly_unmatched_host: u64,
    /// Records of which only some bytes serve a request of the host.
    pub partly_unmatched_emulated: u64,
}

/// Operations that can serve each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Read,
    Write,
    Flush,
    Clear,
}

impl Class {
    const fn of(op: Operation) -> Self {
        match op {
            Operation::Read => Self::Read,
            Operation::Write => Self::Write,
            Operation::Flush => Self::Flush,
            Operation::Discard | Operation::WriteZeroes => Self::Clear,
        }
    }
}

/// A request of the host whose issue has been reached.
#[derive(Debug)]
struct Open {
    request: HostRequest,
    range: Range<u64>,
    /// Bytes that no record serves yet. A flush counts as one byte.
    left: Ranges,
    /// Records that serve it.
    records: u64,
    /// True if a flush of this request may still come.
    flush_to_come: bool,
}

/// A record and where it lies.
struct Sought {
    op: Operation,
    arrival: Instant,
    completion: Instant,
    range: Range<u64>,
    left: Ranges,
}

/// Misfit of a request of the host to a record. Less is better.
type Misfit = (bool, bool, u8, Instant, u64);

/// Adds the host's stamps (MP1) to the emulator's records.
///
/// Requests and records are given as they become known, each side roughly in order of time.
/// [`advance`](Self::advance) takes the times up to which both sides are known. Records come out in order of
/// arrival.
#[derive(Debug)]
pub struct Matcher {
    block_bytes: u64,
    tolerance: Duration,
    /// Number of the next request or record.
    next: u64,
    /// Requests of the host by issue, until the records reach it.
    ahead: BTreeMap<(Instant, u64), HostRequest>,
    /// Records by arrival at MP2, until the host's requests are known.
    records: BTreeMap<(Instant, u64), TraceRecord>,
    /// Requests of the host that records may serve.
    open: BTreeMap<u64, Open>,
    /// The same by place, as long as any of their bytes are left.
    by_place: BTreeSet<(Class, u64, u64)>,
    by_completion: BTreeSet<(Instant, u64)>,
    /// The longest range there was of each class.
    longest: BTreeMap<Class, u64>,
    counts: MatchCounts,
}

impl Matcher {
    /// A matcher for records in blocks of that many bytes.
    pub fn new(block_bytes: u32) -> Self {
        Self {
            block_bytes: u64::from(block_bytes),
            tolerance: TOLERANCE,
            next: 0,
            ahead: BTreeMap::new(),
            records: BTreeMap::new(),
            open: BTreeMap::new(),
            by_place: BTreeSet::new(),
            by_completion: BTreeSet::new(),
            longest: BTreeMap::new(),
            counts: MatchCounts::default(),
        }
    }

    /// With another tolerance than 20 µs for how far a record may stick out of its request of the host.
    #[must_use]
    pub fn with_tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance, ..self }
    }

    /// Takes a request of the host; its stamps count from the same zero as those of the records.
    pub fn host(&mut self, request: &HostRequest) {
        self.counts.host += 1;
        let number = self.number();
        self.ahead.insert((request.issue, number), *request);
    }

    /// Takes a record of the emulator. Its place in time is its stamps at MP2 or, where it has none, its
    /// own arrival and completion.
    pub fn record(&mut self, record: TraceRecord) {
        self.counts.emulated += 1;
        let number = self.number();
        self.records.insert((record.points.mp2_arrival.unwrap_or(record.arrival), number), record);
    }

    /// Settles all records that can be settled when the host is known up to `host`, and every record that arrived
    /// before `records_until` has been given.
    ///
    /// If the host reports no completion for a record within one second after the record's own, the completion is
    /// taken as lost and no longer awaited. (The same holds for the rest of a split request, if some of its parts
    /// took that much longer than others.)
    pub fn advance(&mut self, host: HostKnown, records_until: Instant, mut emit: impl FnMut(&TraceRecord)) {
        while let Some(entry) = self.records.first_entry() {
            let arrival = entry.key().0;
            let completion = completion_of(entry.get(), arrival);
            let reached = self.later(arrival);
            let is_overdue = host.happened.saturating_since(completion) > PATIENCE;
            let is_known = reached < host.issued || is_overdue;
            if arrival >= records_until || !is_known {
                break;
            }
            let ((arrival, _), record) = self.records.pop_first().expect("the first was looked at just now");
            self.open_until(reached);
            self.retire_before(arrival);
            emit(&self.matched(record, arrival));
        }
        let waiting = self.records.first_key_value().map_or(Instant::MAX, |((arrival, _), _)| *arrival);
        let settled = waiting.min(records_until).min(host.issued);
        self.open_until(settled);
        self.retire_before(settled);
    }

    /// Settles everything.
    pub fn finish(mut self, mut emit: impl FnMut(&TraceRecord)) -> MatchCounts {
        while let Some(((arrival, _), record)) = self.records.pop_first() {
            self.open_until(self.later(arrival));
            self.retire_before(arrival);
            emit(&self.matched(record, arrival));
        }
        self.open_until(Instant::MAX);
        for open in std::mem::take(&mut self.open).into_values() {
            self.count_retired(&open);
        }
        self.counts
    }

    /// Returns the numbers of matched and unmatched requests so far.
    pub fn counts(&self) -> &MatchCounts {
        &self.counts
    }

    /// Requests and records that are held.
    pub fn held(&self) -> usize {
        self.ahead.len() + self.open.len() + self.records.len()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Later by the tolerance.
    fn later(&self, instant: Instant) -> Instant {
        Instant::from_ns(instant.as_ns().saturating_add(self.tolerance.as_ns()))
    }

    /// Opens the host's requests that were issued up to then.
    fn open_until(&mut self, until: Instant) {
        while let Some(entry) = self.ahead.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((_, number), request) = entry.remove_entry();
            let range = match request.op {
                Operation::Flush => 0..1,
                _ => request.offset_bytes..request.offset_bytes.saturating_add(request.length_bytes),
            };
            let class = Class::of(request.op);
            let longest = self.longest.entry(class).or_default();
            *longest = (*longest).max(range.end - range.start);
            if !range.is_empty() {
                self.by_place.insert((class, range.start, number));
            }
            self.by_completion.insert((request.completion, number));
            let left = Ranges::all(&range);
            let open = Open { request, range, left, records: 0, flush_to_come: request.fua };
            self.open.insert(number, open);
        }
    }

    /// Closes the host's requests that no record which arrives then or later can serve.
    fn retire_before(&mut self, arrival: Instant) {
        while let Some((completion, number)) = self.by_completion.first().copied() {
            if self.later(completion) >= arrival {
                break;
            }
            let open = self.close(number);
            self.count_retired(&open);
        }
    }

    fn close(&mut self, number: u64) -> Open {
        let open = self.open.remove(&number).expect("what is listed is open");
        self.by_completion.remove(&(open.request.completion, number));
        self.by_place.remove(&(Class::of(open.request.op), open.range.start, number));
        open
    }

    fn count_retired(&mut self, open: &Open) {
        if open.records == 0 {
            self.counts.unmatched_host += 1;
        } else if !open.left.is_empty() {
            self.counts.partly_unmatched_host += 1;
        }
    }

    /// Returns the record with the stamps of the host's requests that it serves.
    fn matched(&mut self, mut record: TraceRecord, arrival: Instant) -> TraceRecord {
        let range = match record.op {
            Operation::Flush => 0..1,
            _ => {
                let start = record.lbn.saturating_mul(self.block_bytes);
                start..start.saturating_add(u64::from(record.blocks).saturating_mul(self.block_bytes))
            }
        };
        let mut sought = Sought {
            op: record.op,
            arrival,
            completion: completion_of(&record, arrival),
            left: Ranges::all(&range),
            range,
        };
        let mut served = 0_u64;
        let mut serve = |request: &HostRequest| {
            let points = &mut record.points;
            let first = points.mp1_arrival.filter(|_| served > 0).unwrap_or(Instant::MAX);
            let last = points.mp1_completion.filter(|_| served > 0).unwrap_or(Instant::ZERO);
            points.mp1_arrival = Some(first.min(request.issue));
            points.mp1_completion = Some(last.max(request.completion));
            served += 1;
        };
        while let Some(number) = self.best(&sought) {
            serve(&self.take(number, &mut sought));
        }
        if record.op == Operation::Flush
            && !sought.left.is_empty()
            && let Some(number) = self.fua_write(&sought)
        {
            sought.left = Ranges::all(&(0..0));
            serve(&self.take_flush(number));
        }
        self.counts.matched += u64::from(served > 0);
        self.counts.merged_groups += u64::from(served > 1);
        let by_driver = record.op == Operation::Flush && self.counts.driver_flushes < DRIVER_FLUSHES_MAX;
        let unmatched =
            if by_driver { &mut self.counts.driver_flushes } else { &mut self.counts.unmatched_emulated };
        *unmatched += u64::from(served == 0);
        self.counts.partly_unmatched_emulated += u64::from(served > 0 && !sought.left.is_empty());
        record
    }

    /// The request of the host that the record serves best, of those that it can.
    fn best(&self, sought: &Sought) -> Option<u64> {
        let (class, range) = (Class::of(sought.op), &sought.range);
        let first = range.start.saturating_sub(self.longest.get(&class).copied().unwrap_or(0));
        if sought.left.is_empty() {
            return None;
        }
        self.by_place
            .range((class, first, 0)..(class, range.end, 0))
            .filter_map(|(_, _, number)| Some((self.misfit(sought, *number)?, *number)))
            .min()
            .map(|(_, number)| number)
    }

    /// Returns the misfit of the request, or `None` if the record cannot serve it.
    fn misfit(&self, sought: &Sought, number: u64) -> Option<Misfit> {
        let open = &self.open[&number];
        let strict = self.within(sought, &open.request)?;
        if open.left.common(&sought.left).is_empty() {
            return None;
        }
        let record_whole = sought.left.is(&sought.range);
        let host_whole = open.left.is(&open.range);
        let inside = sought.range.start <= open.range.start && open.range.end <= sought.range.end;
        let shape = if record_whole && host_whole && open.range == sought.range {
            0
        } else if record_whole && open.left.contains(&sought.range) {
            1
        } else if host_whole && inside && sought.left.start() == Some(open.range.start) {
            2
        } else if host_whole && inside {
            3
        } else {
            4
        };
        Some((open.request.op != sought.op, !strict, shape, open.request.completion, number))
    }

    /// Tests whether the record lies within the request in time: `Some(true)` without the tolerance,
    /// `Some(false)` with it, `None` otherwise.
    fn within(&self, sought: &Sought, request: &HostRequest) -> Option<bool> {
        let within = request.issue <= self.later(sought.arrival)
            && sought.completion <= self.later(request.completion);
        within.then(|| request.issue <= sought.arrival && sought.completion <= request.completion)
    }

    /// Takes the bytes that both have out of both.
    fn take(&mut self, number: u64, sought: &mut Sought) -> HostRequest {
        let open = self.open.get_mut(&number).expect("it was found open");
        let common = open.left.common(&sought.left);
        open.left.remove(&common);
        sought.left.remove(&common);
        open.records += 1;
        self.counts.split_groups += u64::from(open.records == 2);
        let request = open.request;
        let (served, flush_to_come, start) = (open.left.is_empty(), open.flush_to_come, open.range.start);
        if served {
            self.by_place.remove(&(Class::of(request.op), start, number));
            if !flush_to_come {
                self.close(number);
            }
        }
        request
    }

    /// The FUA write that a flush belongs to: one that has been served, the first to complete.
    fn fua_write(&self, sought: &Sought) -> Option<u64> {
        self.by_completion
            .iter()
            .filter(|(_, number)| {
                let open = &self.open[number];
                open.flush_to_come && open.records > 0 && self.within(sought, &open.request).is_some()
            })
            .map(|(_, number)| *number)
            .next()
    }

    fn take_flush(&mut self, number: u64) -> HostRequest {
        let open = self.open.get_mut(&number).expect("it was found open");
        open.flush_to_come = false;
        open.records += 1;
        self.counts.split_groups += u64::from(open.records == 2);
        let (request, served) = (open.request, open.left.is_empty());
        if served {
            self.close(number);
        }
        request
    }
}

/// Returns the completion of the record, at MP2 if known.
fn completion_of(record: &TraceRecord, arrival: Instant) -> Instant {
    record.points.mp2_completion.or(record.completion).unwrap_or(arrival).max(arrival)
}
