//! One row of the canonical trace.

use std::collections::VecDeque;

use crate::completion::{Breakdown, BufferOutcome, Completion, Status};
use crate::fault_set::FaultSet;
use crate::points::MeasurementPoints;
use crate::reclassification::{ClassHistory, ClassTimes};
use crate::request::{Criticality, Operation, Request};
use crate::units::{Duration, Instant};

/// One request of a canonical trace, whether simulated, measured or imported. A value that the source
/// does not provide is `None`.
///
/// In a trace of an emulation, times and breakdown are the model's (MP3): `arrival` is the arrival
/// time given to the model, so the trace replayed through the same model completes at the same times.
/// The times measured in the emulator and the host are in [`points`](Self::points).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRecord {
    /// Time at which the request arrived in the system.
    pub arrival: Instant,
    /// Time at which the innermost device received the request.
    pub issue: Option<Instant>,
    /// Time at which the innermost device began to serve the request.
    pub start: Option<Instant>,
    /// Time of completion.
    pub completion: Option<Instant>,
    /// From this request's completion to the issue of the next.
    pub think: Option<Duration>,
    /// Requests ahead of it when it arrived.
    pub queue_length: Option<u32>,
    /// Number of the device that the request addresses.
    pub device: u16,
    /// Initiator of the request.
    pub initiator: u32,
    /// Operation of the request.
    pub op: Operation,
    /// True if the request forces the media.
    pub fua: bool,
    /// First logical block.
    pub lbn: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Dependence of a process on the request when it arrived.
    pub criticality: Criticality,
    /// Times at which the request became more pressing while it was pending.
    pub became: ClassTimes,
    /// Larger is more urgent.
    pub priority: u8,
    /// Status of the request.
    pub status: Status,
    /// Blocks before the first bad one, if the request failed and the number is known.
    pub good_blocks: Option<u32>,
    /// Faults that struck the request, by the numbers of their names in the metadata of the trace.
    pub faults: FaultSet,
    /// Parts of the response time.
    pub breakdown: Option<Breakdown>,
    /// Cylinders that the arm moved to its first track.
    pub seek_cylinders: Option<u32>,
    /// Effect of the device's buffer on the request.
    pub buffer: BufferOutcome,
    /// Times measured outside the model.
    pub points: MeasurementPoints,
}

impl TraceRecord {
    /// A request of which only the arrival and the address are known.
    pub const fn new(arrival: Instant, op: Operation, lbn: u64, blocks: u32) -> Self {
        Self {
            arrival,
            issue: None,
            start: None,
            completion: None,
            think: None,
            queue_length: None,
            device: 0,
            initiator: 0,
            op,
            fua: false,
            lbn,
            blocks,
            criticality: Criticality::TimeCritical,
            became: ClassTimes::NONE,
            priority: 0,
            status: Status::Ok,
            good_blocks: None,
            faults: FaultSet::NONE,
            breakdown: None,
            seek_cylinders: None,
            buffer: BufferOutcome::None,
            points: MeasurementPoints::NONE,
        }
    }

    /// Time from arrival to completion, where the completion is known.
    pub fn response_time(&self) -> Option<Duration> {
        self.completion.map(|completion| completion.saturating_since(self.arrival))
    }

    /// Time from arrival to completion, where the completion is known, of a request that was carried out.
    pub fn successful_response_time(&self) -> Option<Duration> {
        self.response_time().filter(|_| self.status.is_success())
    }

    /// Time from arrival to the start of service, where that is known.
    pub fn queue_time(&self) -> Option<Duration> {
        self.start.map(|start| start.saturating_since(self.arrival))
    }

    /// Time from the start of service to completion, where both are known.
    pub fn service_time(&self) -> Option<Duration> {
        self.start.zip(self.completion).map(|(start, completion)| completion.saturating_since(start))
    }

    /// Class of the request at the end: at its completion, or the last that is known.
    pub fn last_criticality(&self) -> Criticality {
        self.became.changes().last().map_or(self.criticality, |(_, criticality)| criticality)
    }

    /// The request that this row records, as it arrived, with the given number.
    pub const fn request(&self, id: u64) -> Request {
        Request {
            id: crate::request::RequestId(id),
            device: self.device,
            initiator: self.initiator,
            op: self.op,
            fua: self.fua,
            lbn: self.lbn,
            blocks: self.blocks,
            criticality: self.criticality,
            priority: self.priority,
        }
    }
}

impl From<&Completion> for TraceRecord {
    /// The record of a request whose class did not change.
    fn from(completion: &Completion) -> Self {
        Self::of(completion, ClassHistory::constant(completion.request.criticality))
    }
}

impl TraceRecord {
    /// The record of a request whose class changed so.
    pub fn of(completion: &Completion, classes: ClassHistory) -> Self {
        let request = &completion.request;
        Self {
            arrival: completion.submitted,
            issue: Some(completion.issued),
            start: Some(completion.started),
            completion: Some(completion.completed),
            think: None,
            queue_length: Some(completion.queue_length),
            device: request.device,
            initiator: request.initiator,
            op: request.op,
            fua: request.fua,
            lbn: request.lbn,
            blocks: request.blocks,
            criticality: classes.at_arrival,
            became: classes.became,
            priority: request.priority,
            status: completion.outcome.status,
            good_blocks: (!completion.outcome.status.is_success()).then_some(completion.outcome.good_blocks),
            faults: completion.faults,
            breakdown: Some(completion.breakdown),
            seek_cylinders: Some(completion.seek_cylinders),
            buffer: completion.buffer,
            points: MeasurementPoints::NONE,
        }
    }
}

/// Puts records back in order of arrival as they complete, and fills in think times.
///
/// Requests are numbered from zero as they arrive; a record is handed on when all that arrived before it
/// have been and the next is known. Memory grows with what completes while an older request waits.
#[derive(Debug, Default)]
pub struct ArrivalOrder {
    /// Number of the first that waits.
    next: u64,
    waiting: VecDeque<Option<TraceRecord>>,
    /// The one before, which waits for the next one's arrival to know its think time.
    before: Option<TraceRecord>,
}

impl ArrivalOrder {
    /// Takes the record of request `number`; hands on what is in order now.
    ///
    /// # Panics
    /// If the number was given before.
    pub fn push(&mut self, number: u64, record: TraceRecord, mut emit: impl FnMut(&TraceRecord)) {
        let place = number.checked_sub(self.next).expect("every number is given once") as usize;
        if place == 0 && self.waiting.front().is_none_or(Option::is_none) {
            // Records are large, and most come in order: this one need not wait.
            self.waiting.pop_front();
            self.next += 1;
            self.hand_on(record, &mut emit);
        } else {
            if self.waiting.len() <= place {
                self.waiting.resize(place + 1, None);
            }
            assert!(self.waiting[place].replace(record).is_none(), "every number is given once");
        }
        while self.waiting.front().is_some_and(Option::is_some) {
            let record = self.waiting.pop_front().flatten().expect("the first is there");
            self.next += 1;
            self.hand_on(record, &mut emit);
        }
    }

    /// Records that wait for one that arrived before them, and those that are missing among them.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Hands on the one before `record`, which waits in its place.
    fn hand_on(&mut self, record: TraceRecord, emit: &mut impl FnMut(&TraceRecord)) {
        if let Some(before) = &mut self.before {
            before.think_until(record.arrival);
            emit(before);
        }
        self.before = Some(record);
    }

    /// Number of the first record that was not taken, which follows all that are in order.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Arrival of the last that is in order and waits for the arrival of the next.
    pub fn last_arrival(&self) -> Option<Instant> {
        self.before.as_ref().map(|record| record.arrival)
    }

    /// Hands on all that are in order, because the record of request [`next`](Self::next) is known to arrive at `arrival`.
    pub fn next_arrives(&mut self, arrival: Instant, mut emit: impl FnMut(&TraceRecord)) {
        if let Some(mut before) = self.before.take() {
            before.think_until(arrival);
            emit(&before);
        }
    }

    /// Hands on what is left: the last, and whatever waits behind a request that never completed.
    pub fn finish(mut self, mut emit: impl FnMut(&TraceRecord)) {
        for record in std::mem::take(&mut self.waiting).into_iter().flatten() {
            self.hand_on(record, &mut emit);
        }
        self.before.iter().for_each(emit);
    }
}

impl TraceRecord {
    /// Notes the think time to the arrival of `next`, if that came after this completion and it is not known.
    fn think_until(&mut self, next: Instant) {
        let completion = self.completion.filter(|completion| *completion <= next);
        let think = completion.map(|completion| next.saturating_since(completion));
        self.think = self.think.or(think);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_emitted_in_order_of_arrival() {
        let record = |arrival, completion| TraceRecord {
            completion: Some(Instant::from_ns(completion)),
            ..TraceRecord::new(Instant::from_ns(arrival), Operation::Read, arrival, 1)
        };
        let mut seen = Vec::new();
        let mut order = ArrivalOrder::default();
        order.push(1, record(10, 20), |record| seen.push(*record));
        assert!(seen.is_empty());
        order.push(0, record(5, 30), |record| seen.push(*record));
        order.push(3, record(60, 65), |record| seen.push(*record));
        order.finish(|record| seen.push(*record));
        let arrivals: Vec<u64> = seen.iter().map(|record| record.arrival.as_ns()).collect();
        assert_eq!(arrivals, [5, 10, 60]);
        let think = |index: usize| seen[index].think.map(Duration::as_ns);
        assert_eq!((think(0), think(1), think(2)), (None, Some(40), None));
    }

    #[test]
    fn record_whose_next_arrival_is_announced_waits_for_it_no_longer() {
        let record = |arrival, completion| TraceRecord {
            completion: Some(Instant::from_ns(completion)),
            ..TraceRecord::new(Instant::from_ns(arrival), Operation::Read, arrival, 1)
        };
        let mut seen = Vec::new();
        let mut order = ArrivalOrder::default();
        order.push(0, record(5, 30), |record| seen.push(*record));
        assert_eq!((order.next(), seen.len()), (1, 0));
        order.next_arrives(Instant::from_ns(70), |record| seen.push(*record));
        order.next_arrives(Instant::from_ns(70), |record| seen.push(*record));
        order.push(1, record(70, 90), |record| seen.push(*record));
        order.finish(|record| seen.push(*record));
        let seen: Vec<_> =
            seen.iter().map(|record| (record.arrival.as_ns(), record.think.map(Duration::as_ns))).collect();
        assert_eq!(seen, [(5, Some(40)), (70, None)]);
    }

    #[test]
    fn any_order_of_completion_is_sorted_by_arrival() {
        // Blocks of sixteen, each in an order of its own.
        let order = (0..320_u64).map(|index| index / 16 * 16 + (index * (2 * (index / 16) + 1)) % 16);
        let (mut seen, mut arrivals) = (Vec::new(), ArrivalOrder::default());
        for number in order {
            let record = TraceRecord::new(Instant::from_ns(number * 10), Operation::Read, number, 1);
            let completion = Some(Instant::from_ns(number * 10 + 4));
            let record = TraceRecord { completion, ..record };
            arrivals.push(number, record, |record| seen.push((record.lbn, record.think)));
        }
        arrivals.finish(|record| seen.push((record.lbn, record.think)));
        let think = |number: u64| (number < 319).then_some(Duration::from_ns(6));
        assert!(seen.iter().copied().eq((0..320).map(|number| (number, think(number)))), "{seen:?}");
    }
}
