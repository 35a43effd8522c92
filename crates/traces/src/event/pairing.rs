//! Pairs events into requests.
//!
//! ```text
//!   Queue   a 0+8 ─┐
//!   Queue   b 8+8 ─┴─▶ Issue 0+16 ─▶ Requeue ─▶ Issue 0+16 ─▶ Complete 0+4 ─▶ Complete 4+12
//!   queued = a        issue = here                              completion = here ────────▲
//! ```
//! # Rules
//! - A request begins with its first `Issue` and ends with the `Complete` of its last byte. An `Issue` of a
//!   requeued request continues that request. A `Complete` of fewer sectors than remain moves the start of
//!   the request forward.
//! - An event belongs to the request of the same operation whose remaining part starts at its sector: first
//!   choice is a request of exactly its length, then a longer request, then any. Among equal requests the
//!   pairing takes the request issued last: if a completion of an earlier request was lost, each request
//!   would otherwise be given the completion of the next. In a file, the pairing takes the request issued
//!   first: see below.
//! - Merged requests appear once: an `Issue` takes every `Queue` within its range (one for each start). The
//!   earliest `Queue` gives the time and the process. A flush takes every queued flush.
//! - A `Complete` of no sectors that is no flush is ignored. It is the second end of a request whose flush
//!   steps are over, and each step was a request of its own.
//! - In a file every `Issue` is a request. A requeued request is no longer awaited, and its next `Issue` is
//!   another request.
//! - A `Complete` without a request (it was issued before the capture began) is counted.
//! - An `Issue` may be equal to an outstanding request although a later request has completed. The `Complete`
//!   of the older request was then not recorded (occasionally the kernel drops an event without counting it),
//!   so the older request is given up and counted. Otherwise each request would be given the completion of
//!   the next, for ever. If a client really makes equal requests at the same time, this rule may cost one of
//!   them. In a file, where whole parts may be missing, every such request is given up, whatever its
//!   operation, and also at a `Queue`.
//! - If events were lost, all requests outstanding at that time are given up and counted. The oldest request
//!   is given up if more than 65,536 requests are outstanding, or more than 256 of one operation at one
//!   place. No device holds that many requests at a time, and each event is compared with all of them.

use std::collections::{BTreeMap, BTreeSet};

use seeklab_core::{HostRequest, Instant, Operation, ProcessName};

use super::block_event::{BlockEvent, Kind, Stamped, What};

/// Requests that may be outstanding or queued; the oldest beyond are given up.
pub(crate) const OUTSTANDING_MAX: usize = 1 << 16;

/// Requests of one operation that may be outstanding at one place; the oldest beyond are given up.
const AT_ONE_PLACE_MAX: usize = 256;

/// Bytes per sector of the block layer, whatever the device's own.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Counts of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Captured {
    /// Requests that began.
    pub issued: u64,
    /// Completed requests. The requests of a partition are selected later.
    pub completed: u64,
    /// Requests that were still outstanding at the end.
    pub pending: u64,
    /// Requests given up because events were lost, a completion was not recorded, or too many were outstanding.
    pub given_up: u64,
    /// Completions of requests whose issue was not recorded, such as requests outstanding at the start.
    pub unpaired_completions: u64,
    /// Times that a request went back to be issued again.
    pub requeues: u64,
    /// Completions of a part of a request.
    pub partial_completions: u64,
    /// Commands that were neither read nor write, flush, discard or write-zeroes, and were left out.
    pub other_commands: u64,
    /// Events that the kernel could not put in its buffer, of every kind.
    pub lost_events: u64,
    /// Events that came after later ones had been used.
    pub late_events: u64,
    /// Records of an unknown form.
    pub malformed_records: u64,
}

/// Operation, start of a request's remaining part, and the request's number in order of issue.
type Place = (Operation, u64, u64);

#[derive(Debug)]
struct Open {
    request: HostRequest,
    /// Arrival time, in nanoseconds of CLOCK_MONOTONIC.
    arrival_ns: u64,
    /// First sector not yet complete.
    sector: u64,
    /// Sectors not yet complete.
    sectors: u64,
    requeued: bool,
}

#[derive(Debug, Clone, Copy)]
struct Queued {
    time_ns: u64,
    process: u32,
    command: ProcessName,
}

/// Makes requests of events in order of time.
#[derive(Debug)]
pub(crate) struct Pairing {
    origin_ns: u64,
    each_issue: bool,
    next: u64,
    /// The latest issued that has completed.
    completed_latest: u64,
    /// By number, which is the order of issue.
    open: BTreeMap<u64, Open>,
    places: BTreeSet<Place>,
    queued: BTreeMap<Place, Queued>,
    /// Arrivals, with their numbers, of what is outstanding or queued.
    arrivals: BTreeSet<(u64, u64)>,
    pub(crate) counts: Captured,
}

/// Longest time that a queued request delays the rows of later arrivals. A request that is issued later than
/// this comes too late.
const QUEUED_NS_MAX: u64 = 60_000_000_000;

impl Pairing {
    /// Of stamps that are absolute, and for which every issue is a request: what was given back is awaited no
    /// longer, and its next issue is another request.
    pub(crate) fn of_issues() -> Self {
        Self { each_issue: true, ..Self::new(0) }
    }

    /// Stamps are counted from `origin_ns` of CLOCK_MONOTONIC.
    pub(crate) fn new(origin_ns: u64) -> Self {
        Self {
            origin_ns,
            each_issue: false,
            next: 0,
            completed_latest: 0,
            open: BTreeMap::new(),
            places: BTreeSet::new(),
            queued: BTreeMap::new(),
            arrivals: BTreeSet::new(),
            counts: Captured::default(),
        }
    }

    /// Takes what happened next; gives the request that it completes, with its number in order of issue.
    pub(crate) fn push(&mut self, stamped: &Stamped) -> Option<(u64, HostRequest)> {
        match stamped.what {
            What::Lost(Kind::Queue, _) => {
                for (place, queued) in std::mem::take(&mut self.queued) {
                    self.arrivals.remove(&(queued.time_ns, place.2));
                }
            }
            What::Lost(..) => {
                self.queued.clear();
                self.places.clear();
                self.arrivals.clear();
                self.counts.given_up += std::mem::take(&mut self.open).len() as u64;
            }
            What::Event(event) => {
                let Some(op) = event.op else {
                    self.counts.other_commands += u64::from(event.kind == Kind::Issue);
                    return None;
                };
                match event.kind {
                    Kind::Queue => self.queue(op, stamped.time_ns, &event),
                    Kind::Issue => self.issue(op, stamped.time_ns, &event),
                    Kind::Requeue => self.requeue(op, &event),
                    Kind::Complete => return self.complete(op, stamped.time_ns, &event),
                    Kind::BioQueue | Kind::BioComplete => {
                        unreachable!("they are not recorded beside requests")
                    }
                }
            }
        }
        None
    }

    /// The request that was issued last, with its number.
    pub(crate) fn newest(&self) -> Option<(u64, &HostRequest)> {
        self.open.last_key_value().map(|(number, open)| (*number, &open.request))
    }

    /// Returns operation, sector and length of the oldest outstanding request, of the given sector and length if
    /// `place` is given.
    pub(crate) fn outstanding(&self, place: Option<(u64, u32)>) -> Option<(Operation, u64, u32)> {
        let number = match place {
            None => *self.open.first_key_value()?.0,
            Some((sector, sectors)) => {
                let at =
                    |op| self.at(op, sector).filter(|number| self.open[number].sectors == u64::from(sectors));
                Operation::ALL.into_iter().flat_map(at).min()?
            }
        };
        let open = &self.open[&number];
        Some((open.request.op, open.sector, u32::try_from(open.sectors).ok()?))
    }

    /// Returns true if the completion of the request with that number is still awaited.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// Awaits the completion of the request of that number no longer.
    pub(crate) fn give_up(&mut self, number: u64) {
        if let Some(open) = self.open.get(&number) {
            self.places.remove(&(open.request.op, open.sector, number));
            self.remove(number);
            self.counts.given_up += 1;
        }
    }

    /// Returns the arrival time of the oldest request that is queued or outstanding at the time `now_ns`.
    /// Requests queued more than a minute ago are not awaited.
    pub(crate) fn oldest(&mut self, now_ns: u64) -> Option<Instant> {
        while let Some((time_ns, number)) = self.arrivals.first().copied() {
            if self.open.contains_key(&number) || time_ns + QUEUED_NS_MAX >= now_ns {
                return Some(self.instant(time_ns));
            }
            self.arrivals.pop_first();
        }
        None
    }

    /// The counts at the end.
    pub(crate) fn finish(mut self) -> Captured {
        self.counts.pending = self.open.len() as u64;
        self.counts
    }

    fn instant(&self, time_ns: u64) -> Instant {
        Instant::from_ns(time_ns.saturating_sub(self.origin_ns))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn queue(&mut self, op: Operation, time_ns: u64, event: &BlockEvent) {
        if self.each_issue && op != Operation::Flush {
            self.give_up_overtaken(op, event.sector, u64::from(event.sectors));
        }
        let place = (op, event.sector, self.number());
        let BlockEvent { process, command, .. } = *event;
        self.queued.insert(place, Queued { time_ns, process, command });
        self.arrivals.insert((time_ns, place.2));
        if self.queued.len() > OUTSTANDING_MAX
            && let Some((place, queued)) = self.queued.pop_first()
        {
            self.arrivals.remove(&(queued.time_ns, place.2));
        }
    }

    fn issue(&mut self, op: Operation, time_ns: u64, event: &BlockEvent) {
        let sectors = u64::from(event.sectors);
        if op != Operation::Flush && sectors == 0 {
            self.counts.other_commands += 1;
            return;
        }
        let again = self.at(op, event.sector).find(|number| self.open[number].requeued);
        if let Some(number) = again {
            let open = self.open.get_mut(&number).expect("every place has a request");
            open.requeued = false;
            open.request.length_bytes += sectors.saturating_sub(open.sectors) * SECTOR_BYTES;
            open.sectors = open.sectors.max(sectors);
            return;
        }
        self.give_up_overtaken(op, event.sector, sectors);
        let queued = self.take_queued(op, event.sector, sectors);
        let number = self.number();
        let request = HostRequest {
            queued: queued.map(|queued| self.instant(queued.time_ns)),
            issue: self.instant(time_ns),
            completion: Instant::ZERO,
            op,
            fua: event.fua,
            offset_bytes: event.sector.saturating_mul(SECTOR_BYTES),
            length_bytes: sectors * SECTOR_BYTES,
            process: queued.map_or(event.process, |queued| queued.process),
            command: queued.map_or(event.command, |queued| queued.command),
            error: None,
        };
        self.counts.issued += 1;
        let arrival_ns = queued.map_or(time_ns, |queued| queued.time_ns);
        let open = Open { request, arrival_ns, sector: event.sector, sectors, requeued: false };
        self.open.insert(number, open);
        self.arrivals.insert((arrival_ns, number));
        self.places.insert((op, event.sector, number));
        let mut there = self.at(op, event.sector);
        let oldest = there.next().filter(|_| there.count() >= AT_ONE_PLACE_MAX);
        if let Some(oldest) = oldest {
            self.give_up(oldest);
        }
        if self.open.len() > OUTSTANDING_MAX
            && let Some((number, oldest)) = self.open.pop_first()
        {
            self.places.remove(&(oldest.request.op, oldest.sector, number));
            self.arrivals.remove(&(oldest.arrival_ns, number));
            self.counts.given_up += 1;
        }
    }

    /// Forgets a request that is open.
    fn remove(&mut self, number: u64) -> HostRequest {
        let open = self.open.remove(&number).expect("it was found");
        self.arrivals.remove(&(open.arrival_ns, number));
        open.request
    }

    /// Gives up what is outstanding just where something begins although a later request has completed.
    fn give_up_overtaken(&mut self, op: Operation, sector: u64, sectors: u64) {
        let overtaken = |this: &Self, op| {
            let mut there = this.at(op, sector);
            there.find(|number| *number < this.completed_latest && this.open[number].sectors == sectors)
        };
        if !self.each_issue {
            if let Some(number) = overtaken(self, op) {
                self.give_up(number);
            }
            return;
        }
        for op in Operation::ALL.into_iter().filter(|op| *op != Operation::Flush) {
            while let Some(number) = overtaken(self, op) {
                self.give_up(number);
            }
        }
    }

    /// The earliest queued within the range, taking one for each start.
    fn take_queued(&mut self, op: Operation, sector: u64, sectors: u64) -> Option<Queued> {
        let end = sector.saturating_add(sectors);
        let within = |place: &Place| place.1 < end || op == Operation::Flush;
        let mut taken: Vec<Place> = Vec::new();
        let mut from = Some((op, sector, 0));
        while let Some(place) =
            from.and_then(|from| self.queued.range(from..).next()).map(|(place, _)| *place)
            && place.0 == op
            && within(&place)
        {
            taken.push(place);
            // Of those that start together only the first, however many they are.
            from = match op {
                Operation::Flush => Some((op, place.1, place.2 + 1)),
                _ => place.1.checked_add(1).map(|next| (op, next, 0)),
            };
        }
        let Self { queued, arrivals, .. } = self;
        let taken = taken.iter().filter_map(|place| {
            let queued = queued.remove(place)?;
            arrivals.remove(&(queued.time_ns, place.2));
            Some(queued)
        });
        taken.min_by_key(|queued| queued.time_ns)
    }

    fn requeue(&mut self, op: Operation, event: &BlockEvent) {
        if let Some(number) = self.find(op, event, false) {
            if self.each_issue {
                self.give_up(number);
                self.counts.given_up -= 1;
                self.counts.requeues += 1;
                return;
            }
            self.open.get_mut(&number).expect("it was found").requeued = true;
            self.counts.requeues += 1;
        }
    }

    fn complete(&mut self, op: Operation, time_ns: u64, event: &BlockEvent) -> Option<(u64, HostRequest)> {
        if event.sectors == 0 && op != Operation::Flush {
            return None;
        }
        let Some(number) = self.find(op, event, true) else {
            self.counts.unpaired_completions += 1;
            return None;
        };
        let open = self.open.get_mut(&number).expect("it was found");
        self.places.remove(&(op, open.sector, number));
        if event.error != 0 {
            open.request.error.get_or_insert(event.error.unsigned_abs());
        }
        let sectors = u64::from(event.sectors);
        if sectors < open.sectors {
            open.sector += sectors;
            open.sectors -= sectors;
            self.places.insert((op, open.sector, number));
            self.counts.partial_completions += 1;
            return None;
        }
        let request = self.remove(number);
        self.completed_latest = self.completed_latest.max(number);
        self.counts.completed += 1;
        Some((number, HostRequest { completion: self.instant(time_ns), ..request }))
    }

    /// The requests whose remaining part starts there, in order of issue.
    fn at(&self, op: Operation, sector: u64) -> impl Iterator<Item = u64> {
        self.places.range((op, sector, 0)..=(op, sector, u64::MAX)).map(|place| place.2)
    }

    /// The request that an event belongs to. What was requeued can complete too: the driver may fail it
    /// without issuing it again.
    fn find(&self, op: Operation, event: &BlockEvent, requeued_too: bool) -> Option<u64> {
        let sectors = u64::from(event.sectors);
        self.at(op, event.sector)
            .map(|number| (number, &self.open[&number]))
            .filter(|(_, open)| requeued_too || !open.requeued)
            .min_by_key(|(number, open)| {
                let misfit = match open.sectors {
                    left if left == sectors => 0,
                    left if left > sectors => 1,
                    _ => 2,
                };
                // The one issued last has not lost its completion yet; files of whole traces go in order.
                let rank = if self.each_issue { *number } else { u64::MAX - *number };
                (misfit, open.requeued, rank)
            })
            .map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Option<Operation> = Some(Operation::Read);

    struct Events {
        pairing: Pairing,
        now: u64,
    }

    impl Events {
        fn new() -> Self {
            Self { pairing: Pairing::new(0), now: 0 }
        }

        /// Takes an event one nanosecond later and returns the request that the event completes.
        fn event(
            &mut self,
            kind: Kind,
            op: Option<Operation>,
            sector: u64,
            sectors: u32,
        ) -> Option<HostRequest> {
            let command = ProcessName::default();
            let process = u32::try_from(self.now).unwrap();
            self.now += 1;
            let event = BlockEvent { kind, op, fua: false, sector, sectors, error: 0, process, command };
            let stamped = Stamped { time_ns: self.now, what: What::Event(event) };
            self.pairing.push(&stamped).map(|(_, request)| request)
        }

        fn read(&mut self, kind: Kind, sector: u64, sectors: u32) -> Option<(u64, u64, u64)> {
            let request = self.event(kind, READ, sector, sectors)?;
            Some((request.issue.as_ns(), request.completion.as_ns(), request.length_bytes / 512))
        }
    }

    use Kind::{Complete, Issue, Queue, Requeue};

    #[test]
    fn outstanding_requests_at_one_place_are_bounded() {
        let mut events = Events { pairing: Pairing::of_issues(), now: 0 };
        for _ in 0..AT_ONE_PLACE_MAX + 3 {
            events.read(Queue, 8, 8);
            events.read(Issue, 8, 8);
        }
        assert_eq!(events.pairing.open.len(), AT_ONE_PLACE_MAX);
        assert_eq!(events.pairing.counts.given_up, 3, "the oldest");
        assert_eq!(
            events.read(Complete, 8, 8).map(|(issue, ..)| issue),
            Some(8),
            "the fourth is the oldest now"
        );
        // Elsewhere or with another operation it is another place.
        events.read(Issue, 16, 8);
        events.event(Issue, Some(Operation::Write), 8, 8);
        assert_eq!(events.pairing.counts.given_up, 3);
    }

    #[test]
    fn request_lasts_from_its_issue_to_its_completion() {
        let mut events = Events::new();
        assert_eq!(events.read(Queue, 8, 8), None);
        assert_eq!(events.read(Issue, 8, 8), None);
        let request = events.event(Complete, READ, 8, 8).unwrap();
        assert_eq!(request.queued, Some(Instant::from_ns(1)));
        assert_eq!((request.issue.as_ns(), request.completion.as_ns()), (2, 3));
        assert_eq!((request.offset_bytes, request.length_bytes, request.process), (4096, 4096, 0));
        let counts = events.pairing.finish();
        assert_eq!((counts.issued, counts.completed, counts.pending), (1, 1, 0));
    }

    #[test]
    fn missing_completion_costs_one_request_only() {
        let mut events = Events::new();
        events.read(Issue, 8, 8);
        // Its completion is missing.
        events.read(Issue, 64, 8);
        assert_eq!(events.read(Complete, 64, 8), Some((2, 3, 8)));
        events.read(Issue, 8, 8);
        assert_eq!(events.read(Complete, 8, 8), Some((4, 5, 8)));
        events.read(Issue, 8, 8);
        assert_eq!(events.read(Complete, 8, 8), Some((6, 7, 8)));
        let counts = events.pairing.finish();
        assert_eq!((counts.issued, counts.completed, counts.given_up, counts.pending), (4, 3, 1, 0));
    }

    #[test]
    fn lost_completion_does_not_shift_completions_of_equal_requests() {
        let mut events = Events::new();
        events.read(Issue, 8, 8);
        // Its completion is missing; the next request does the same at the same place.
        for round in 1..20 {
            events.read(Issue, 8, 8);
            assert_eq!(events.read(Complete, 8, 8), Some((2 * round, 2 * round + 1, 8)));
        }
        let counts = events.pairing.finish();
        assert_eq!((counts.issued, counts.completed, counts.given_up, counts.pending), (20, 19, 1, 0));
    }

    #[test]
    fn request_completed_in_parts_is_one_request() {
        let mut events = Events::new();
        events.read(Issue, 0, 16);
        events.read(Issue, 4, 12);
        assert_eq!(events.read(Complete, 0, 4), None);
        // Both now start at 4 with 12 sectors left: the last issued goes first.
        assert_eq!(events.read(Complete, 4, 12), Some((2, 4, 12)));
        assert_eq!(events.read(Complete, 4, 12), Some((1, 5, 16)));
        assert_eq!(events.pairing.counts.partial_completions, 1);
    }

    #[test]
    fn requeued_request_lasts_from_its_first_issue() {
        let mut events = Events::new();
        events.read(Issue, 0, 16);
        assert_eq!(events.read(Complete, 0, 8), None);
        events.read(Requeue, 8, 8);
        events.read(Issue, 8, 8);
        assert_eq!(events.read(Complete, 8, 8), Some((1, 5, 16)));
        // Not requeued, an equal issue is another request.
        events.read(Issue, 8, 8);
        events.read(Issue, 8, 8);
        assert_eq!(events.read(Complete, 8, 8), Some((7, 8, 8)));
        assert_eq!(events.read(Complete, 8, 8), Some((6, 9, 8)));
        let counts = events.pairing.finish();
        assert_eq!((counts.issued, counts.completed, counts.requeues), (3, 3, 1));
    }

    #[test]
    fn completion_prefers_the_request_of_its_length() {
        let mut events = Events::new();
        events.read(Issue, 0, 16);
        events.read(Issue, 0, 8);
        assert_eq!(events.read(Complete, 0, 8), Some((2, 3, 8)));
        assert_eq!(events.read(Complete, 0, 16), Some((1, 4, 16)));
    }

    #[test]
    fn merged_request_takes_all_its_queued_requests() {
        let mut events = Events::new();
        events.event(Queue, READ, 8, 8);
        events.event(Queue, READ, 0, 8);
        events.event(Queue, READ, 0, 8);
        events.event(Queue, READ, 16, 8);
        events.event(Issue, READ, 0, 16);
        let request = events.event(Complete, READ, 0, 16).unwrap();
        assert_eq!((request.queued, request.process), (Some(Instant::from_ns(1)), 0));
        // The second of the equal ones, and the one beyond, are still there for their own.
        events.event(Issue, READ, 0, 8);
        assert_eq!(events.event(Complete, READ, 0, 8).unwrap().queued, Some(Instant::from_ns(3)));
        events.event(Issue, READ, 16, 8);
        assert_eq!(events.event(Complete, READ, 16, 8).unwrap().queued, Some(Instant::from_ns(4)));
    }

    #[test]
    fn steps_of_a_flush_are_distinguished_from_its_second_end() {
        // As Linux 6.18 reports `dd oflag=dsync` on a loop device.
        let mut events = Events::new();
        let (write, flush) = (Some(Operation::Write), Some(Operation::Flush));
        events.event(Queue, write, 40, 8);
        events.event(Issue, write, 40, 8);
        assert_eq!(events.event(Complete, write, 40, 8).unwrap().op, Operation::Write);
        events.event(Issue, flush, 0, 0);
        let request = events.event(Complete, flush, 0, 0).unwrap();
        assert_eq!((request.op, request.length_bytes, request.queued), (Operation::Flush, 0, None));
        assert_eq!(events.event(Complete, write, 40, 0), None);
        let counts = events.pairing.finish();
        assert_eq!((counts.issued, counts.completed, counts.unpaired_completions), (2, 2, 0));
    }

    #[test]
    fn requests_are_given_up_after_lost_events() {
        let mut events = Events::new();
        events.read(Issue, 0, 8);
        events.pairing.push(&Stamped { time_ns: 2, what: What::Lost(Queue, 3) });
        assert_eq!(events.pairing.oldest(2), Some(Instant::from_ns(1)));
        events.pairing.push(&Stamped { time_ns: 2, what: What::Lost(Complete, 1) });
        assert_eq!(events.pairing.oldest(2), None);
        assert_eq!(events.read(Complete, 0, 8), None);
        let counts = events.pairing.finish();
        assert_eq!((counts.given_up, counts.unpaired_completions, counts.completed), (1, 1, 0));
    }

    #[test]
    fn queued_request_delays_later_arrivals_for_a_limited_time() {
        let mut events = Events::new();
        events.read(Queue, 0, 8);
        events.read(Queue, 8, 8);
        events.read(Issue, 8, 8);
        assert_eq!(events.pairing.oldest(10), Some(Instant::from_ns(1)));
        assert_eq!(events.pairing.oldest(1 + QUEUED_NS_MAX), Some(Instant::from_ns(1)));
        // The first is forgotten, the second is outstanding for however long.
        assert_eq!(events.pairing.oldest(10 + QUEUED_NS_MAX), Some(Instant::from_ns(2)));
        assert!(events.read(Complete, 8, 8).is_some());
        assert_eq!(events.pairing.oldest(10), None);
        // It keeps its queue time all the same.
        events.read(Issue, 0, 8);
        assert_eq!(events.event(Complete, READ, 0, 8).unwrap().queued, Some(Instant::from_ns(1)));
        assert_eq!(events.pairing.oldest(10), None);
    }

    #[test]
    fn number_of_outstanding_requests_is_bounded() {
        let mut events = Events::new();
        for sector in 0..OUTSTANDING_MAX as u64 + 10 {
            events.read(Queue, 1 << 40, 8);
            events.read(Issue, sector * 8, 8);
        }
        assert_eq!(events.pairing.open.len(), OUTSTANDING_MAX);
        assert_eq!(events.pairing.places.len(), OUTSTANDING_MAX);
        assert_eq!(events.pairing.queued.len(), OUTSTANDING_MAX);
        assert_eq!(events.pairing.arrivals.len(), 2 * OUTSTANDING_MAX);
        assert_eq!(events.pairing.counts.given_up, 10);
        assert_eq!(events.read(Complete, 0, 8), None);
        assert!(events.read(Complete, 80, 8).is_some());
    }

    #[test]
    fn errors_and_other_commands_are_counted_separately() {
        let mut events = Events::new();
        events.event(Issue, None, 0, 0);
        events.event(Complete, None, 0, 0);
        events.read(Issue, 0, 8);
        let failed = BlockEvent {
            kind: Complete,
            op: READ,
            fua: false,
            sector: 0,
            sectors: 8,
            error: -5,
            process: 0,
            command: ProcessName::default(),
        };
        let (_, request) = events.pairing.push(&Stamped { time_ns: 9, what: What::Event(failed) }).unwrap();
        assert_eq!(request.error, Some(5));
        assert_eq!(events.pairing.finish().other_commands, 1);
    }
}
