//! The rounds of a phase that ends in its steady state, as its workers hand them over.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use seeklab_core::Instant;

use crate::measurement::Interval;
use crate::part::Part;
use crate::steady::{SteadyRule, SteadyTrack};

/// Judges each round as soon as all workers have handed it over. A lock is taken once per worker and round.
#[derive(Debug)]
pub(crate) struct Rounds {
    rule: SteadyRule,
    /// End of the round that ends the phase in nanoseconds plus one; zero before it is known.
    end: AtomicU64,
    open: Mutex<OpenRounds>,
}

#[derive(Debug)]
struct OpenRounds {
    track: SteadyTrack,
    /// Rounds that some workers have handed over, by number.
    parts: BTreeMap<u64, (Part, Vec<bool>)>,
    is_working: Vec<bool>,
}

impl Rounds {
    pub(crate) fn new(rule: SteadyRule, workers: usize) -> Self {
        let open = OpenRounds {
            track: SteadyTrack::default(),
            parts: BTreeMap::new(),
            is_working: vec![true; workers],
        };
        Self { rule, end: AtomicU64::new(0), open: Mutex::new(open) }
    }

    /// End of the round that ends the phase, if it is known.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.end.load(Ordering::Acquire).checked_sub(1).map(Instant::from_ns)
    }

    /// Takes the figures of a worker in a round.
    pub(crate) fn handed(&self, worker: usize, index: u64, part: &Part) {
        let mut open = self.open.lock().expect("no holder panics");
        let workers = open.is_working.len();
        let begin = || (Part::begin(part.from), vec![false; workers]);
        let (sum, has_handed) = open.parts.entry(index).or_insert_with(begin);
        sum.merge_thread(part);
        has_handed[worker] = true;
        self.judge(&mut open);
    }

    /// The worker hands over no more rounds.
    pub(crate) fn worker_ended(&self, worker: usize) {
        let mut open = self.open.lock().expect("no holder panics");
        open.is_working[worker] = false;
        self.judge(&mut open);
    }

    /// The rounds that were judged, and those of `intervals` that follow and are whole.
    pub(crate) fn track(&self, intervals: &[Interval]) -> SteadyTrack {
        let mut track = self.open.lock().expect("no holder panics").track.clone();
        if self.end().is_none() {
            let rest = intervals.iter().skip(track.figures().len());
            let length = |part: &Part| part.until.saturating_since(part.from);
            rest.filter(|interval| length(&interval.part) >= self.rule.round)
                .for_each(|interval| track.push(self.rule.figure.of(&interval.part)));
        }
        track
    }

    fn judge(&self, open: &mut OpenRounds) {
        while self.end().is_none() {
            let next = open.track.figures().len() as u64;
            let Some((_, has_handed)) = open.parts.get(&next) else { return };
            if open
                .is_working
                .iter()
                .zip(has_handed)
                .any(|(is_working, has_handed)| *is_working && !has_handed)
            {
                return;
            }
            let (part, _) = open.parts.remove(&next).expect("it is there");
            open.track.push(self.rule.figure.of(&part));
            if open.track.is_over(&self.rule) {
                self.end.store(part.until.as_ns() + 1, Ordering::Release);
            }
        }
    }
}
