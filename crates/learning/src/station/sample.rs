//! The requests that are fitted: all requests, or stretches spread evenly over a longer trace.

use seeklab_core::{Duration, Instant, Status, TraceRecord};
use seeklab_devices::region::RegionParameters;
use seeklab_devices::station::parts::StationRequest;

use crate::backlog::Backlog;
use crate::limit::Wait;
use crate::region::RegionFit;

/// Requests that are kept at most.
pub const SAMPLE_MAX: usize = STRETCH * STRETCHES;

/// Requests of a stretch.
const STRETCH: usize = 1 << 14;

/// Stretches that are kept; when there are as many, every other one is let go.
const STRETCHES: usize = 64;

/// Memory of a kept request.
pub const SAMPLE_REQUEST_BYTES: usize = size_of::<RecordedRequest>();

/// A recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordedRequest {
    pub(super) arrival: Instant,
    /// After its arrival.
    pub(super) completion: Instant,
    pub(super) asked: StationRequest,
    /// True if the time is fitted: the request succeeded, no unknown request was ahead of it, and no limit held it.
    pub(super) counts: bool,
    /// True if the request is part of the recorded load: it succeeded.
    pub(super) is_seen: bool,
}

/// A part of the trace without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    number: u64,
    /// Time at which all requests before the stretch had completed.
    busy_until: Instant,
    seen: Vec<RecordedRequest>,
}

/// Requests kept of a trace; memory has a bound.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    stretches: Vec<Stretch>,
    /// Requests so far.
    count: u64,
    /// Stretches for each one that is kept.
    every: u64,
    /// Time at which all requests recorded so far had completed.
    busy_until: Instant,
}

impl Default for Sample {
    fn default() -> Self {
        Self { stretches: Vec::new(), count: 0, every: 1, busy_until: Instant::ZERO }
    }
}

impl Sample {
    /// Takes one request in, in order of arrival; one without a response time is as if it had not been.
    pub(super) fn record(&mut self, record: &TraceRecord) {
        let Some(completion) = record.completion else { return };
        let number = self.count / STRETCH as u64;
        self.count += 1;
        let busy_until = self.busy_until;
        // What completes as it arrives still takes its turn.
        let completion = completion.max(record.arrival + Duration::from_ns(1));
        self.busy_until = busy_until.max(completion);
        if self.stretches.last().is_none_or(|last| last.number != number) {
            if self.stretches.len() == STRETCHES {
                self.every *= 2;
                let every = self.every;
                self.stretches.retain(|stretch| stretch.number.is_multiple_of(every));
            }
            if !number.is_multiple_of(self.every) {
                return;
            }
            self.stretches.push(Stretch { number, busy_until, seen: Vec::with_capacity(STRETCH) });
        }
        let asked = StationRequest { op: record.op, lbn: record.lbn, blocks: record.blocks, fua: record.fua };
        let seen = RecordedRequest {
            arrival: record.arrival,
            completion,
            asked,
            counts: record.status == Status::Ok,
            is_seen: record.status == Status::Ok,
        };
        self.stretches.last_mut().expect("there is one").seen.push(seen);
    }

    /// Returns the same requests without the waits for limits. `waits` are those of all
    /// [`runs`](Self::runs). Requests that came while a limit held are not fitted if there are at least
    /// `learns_enough` others.
    pub(super) fn past_limits(&self, waits: &[Wait], learns_enough: usize) -> Self {
        let mut sample = self.clone();
        let counted = self.stretches.iter().flat_map(|stretch| &stretch.seen).zip(waits);
        let free = counted.filter(|(seen, wait)| seen.counts && !wait.is_held).count();
        let mut waits = waits.iter();
        for stretch in &mut sample.stretches {
            for (seen, wait) in stretch.seen.iter_mut().zip(&mut waits) {
                seen.arrival += wait.time;
                seen.completion = seen.completion.max(seen.arrival + Duration::from_ns(1));
                seen.counts &= !wait.is_held || free < learns_enough;
            }
        }
        sample
    }

    /// Region of the loads of the kept requests, as they reach the station.
    pub(super) fn region(&self) -> Option<RegionParameters> {
        let mut region = RegionFit::default();
        for run in self.runs(usize::MAX) {
            region.interrupt();
            let mut backlog = Backlog::default();
            for RecordedRequest { arrival, completion, asked, is_seen, .. } in run {
                let queue_length = backlog.at(arrival);
                backlog.push(completion);
                let StationRequest { op, lbn, blocks, fua } = asked;
                let record = TraceRecord { fua, ..TraceRecord::new(arrival, op, lbn, blocks) };
                region.record(&record, queue_length, is_seen.then(|| completion - arrival));
            }
        }
        region.parameters()
    }

    /// At most that many of the stretches, evenly, as runs without gaps. Requests that arrived behind others that are
    /// not known do not count.
    pub(super) fn runs(&self, stretches_max: usize) -> Vec<Vec<RecordedRequest>> {
        let every = self.stretches.len().div_ceil(stretches_max).max(1);
        let (mut runs, mut next): (Vec<Vec<RecordedRequest>>, _) = (Vec::new(), 0);
        for stretch in self.stretches.iter().step_by(every) {
            match runs.last_mut() {
                Some(run) if stretch.number == next => run.extend_from_slice(&stretch.seen),
                _ => {
                    let mut seen = stretch.seen.clone();
                    let behind = seen.iter_mut().take_while(|seen| seen.arrival < stretch.busy_until);
                    behind.for_each(|seen| seen.counts = false);
                    runs.push(seen);
                }
            }
            next = stretch.number + 1;
        }
        // As they were recorded they are in order; past limits that hold up some of them they need not be.
        runs.iter_mut().for_each(|run| run.sort_by_key(|seen| seen.arrival));
        runs
    }
}
