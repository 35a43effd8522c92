//! Dynamic compensation by the host's own stamps: what a run sees at MP1 moves what it compensates for.
//!
//! ```text
//!  Emulation ── completed request ──▶ Observer ── joined with the host's stamps ──▶ Follower
//!      ▲                                                                                │ centre of a window
//!      └────────────── Feedback: applied before the next request is taken ◀── Shift ────┘
//! ```
//! # Scope and limits
//! What a shift has done is seen in requests that arrived after it was applied and did not miss their deadline; others
//! count on average over many requests ([`ErrorAdjuster`]). It replaces the compensation by lateness alone
//! ([`SendCost`](seeklab_emulator::calibration::SendCost)), which sees half of the way.
//!
//! # References
//! \[Griffin 2004, §5.1.3, §5.3.2\].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use seeklab_core::{Instant, Operation, SignedDuration, TraceRecord};
use seeklab_emulator::emulation::Emulation;
use seeklab_emulator::pacer::{Direction, ErrorAdjuster, MeasuredError, Shift};

/// Errors whose centre counts.
const WINDOW: usize = 16;

/// What a [`Follower`] asks for, at the emulation's end.
#[derive(Debug)]
pub struct Feedback {
    shifts: Receiver<Shift>,
    applied: Arc<Applied>,
}

/// What of it was done, by operation and direction.
type Applied = [[Done; 2]; Operation::ALL.len()];

/// The shifts of one allowance that were done.
#[derive(Debug, Default)]
struct Done {
    count: AtomicU64,
    /// When the last was, in model time.
    at_ns: AtomicU64,
}

/// Looks at joined requests and asks for shifts.
#[derive(Debug)]
pub struct Follower {
    shifts: Sender<Shift>,
    applied: Arc<Applied>,
    /// How many shifts were asked for, by operation and direction.
    asked: [[u64; 2]; Operation::ALL.len()],
    adjuster: ErrorAdjuster,
}

/// A follower, and the feedback by which an emulation hears from it.
pub fn feedback() -> (Follower, Feedback) {
    let (sender, shifts) = channel();
    let applied = Arc::<Applied>::default();
    let adjuster = ErrorAdjuster::new(WINDOW);
    let follower =
        Follower { shifts: sender, applied: Arc::clone(&applied), asked: Default::default(), adjuster };
    (follower, Feedback { shifts, applied })
}

impl Feedback {
    /// Does what was asked for; `now` tells the time.
    pub(super) fn apply(&self, emulation: &mut Emulation, now: impl FnOnce() -> Instant) {
        let mut shifts = self.shifts.try_iter().peekable();
        if shifts.peek().is_none() {
            return;
        }
        let now_ns = now().as_ns();
        for shift in shifts {
            emulation.shift(shift);
            let done = &self.applied[shift.op as usize][shift.direction as usize];
            done.at_ns.store(now_ns, Ordering::Relaxed);
            done.count.fetch_add(1, Ordering::Release);
        }
    }
}

impl Follower {
    /// Looks at one request with its stamps.
    pub fn see(&mut self, record: &TraceRecord) {
        let points = &record.points;
        let (Some(issue), Some(completion)) = (points.mp1_arrival, points.mp1_completion) else { return };
        let (Some(arrived), Some(done)) = (points.mp2_arrival, record.completion) else { return };
        let is_missed = points.miss_cause.is_some();
        let difference = |later: Instant, earlier: Instant| {
            SignedDuration::from_ns(later.as_ns() as i64 - earlier.as_ns() as i64)
        };
        for (direction, by) in [
            (Direction::Arrival, difference(record.arrival, issue)),
            (Direction::Completion, difference(completion, done)),
        ] {
            let (op, way) = (record.op as usize, direction as usize);
            let error = MeasuredError { by, is_stale: self.is_stale(op, way, arrived), is_missed };
            if let Some(shift) = self.adjuster.observe(record.op, direction, error) {
                // An emulation that has ended asks for nothing more.
                self.asked[op][way] += u64::from(self.shifts.send(shift).is_ok());
            }
        }
    }

    /// Whether a request that arrived then came before the last shift of that allowance was done.
    fn is_stale(&self, op: usize, way: usize, arrived: Instant) -> bool {
        let done = &self.applied[op][way];
        done.count.load(Ordering::Acquire) < self.asked[op][way]
            || arrived.as_ns() <= done.at_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, MeasurementPoints, MissCause};

    use super::*;

    /// A read of 1 ms in the model from that time on, which the host saw 6 us longer at both ends.
    fn read(at_us: u64) -> TraceRecord {
        let us = |time: u64| Instant::ZERO + Duration::from_us(time);
        let points = MeasurementPoints {
            mp1_arrival: Some(us(at_us - 6)),
            mp2_arrival: Some(us(at_us)),
            mp1_completion: Some(us(at_us + 1_006)),
            ..MeasurementPoints::NONE
        };
        let record = TraceRecord::new(us(at_us), Operation::Read, 0, 8);
        TraceRecord { completion: Some(us(at_us + 1_000)), points, ..record }
    }

    #[test]
    fn is_half_of_a_lasting_error_asked_for() {
        let (mut follower, feedback) = feedback();
        for index in 0..WINDOW as u64 {
            follower.see(&read(1_000 + 2_000 * index));
        }
        let asked: Vec<Shift> = feedback.shifts.try_iter().collect();
        let by = SignedDuration::from_ns(3_000);
        let shift = |direction| Shift { op: Operation::Read, direction, by };
        assert_eq!(asked, [shift(Direction::Arrival), shift(Direction::Completion)]);
    }

    #[test]
    fn do_misses_and_requests_from_before_a_shift_fill_no_window() {
        let (mut follower, feedback) = feedback();
        let see_all = |follower: &mut Follower, from_us: u64| {
            (0..WINDOW as u64).for_each(|index| follower.see(&read(from_us + 2_000 * index)));
        };
        for index in 0..100 {
            let mut missed = read(1_000 + 2_000 * index);
            missed.points.miss_cause = Some(MissCause::ALL[0]);
            follower.see(&missed);
            let mut unseen = read(1_000 + 2_000 * index);
            unseen.points.mp1_completion = None;
            follower.see(&unseen);
            let mut wrong = read(1_000 + 2_000 * index);
            wrong.points.mp1_completion = wrong.points.mp1_completion.map(|at| at + Duration::from_ms(50));
            wrong.points.mp1_arrival = Some(Instant::ZERO);
            wrong.points.mp2_arrival = wrong.points.mp2_arrival.map(|at| at + Duration::from_ms(50));
            wrong.arrival += Duration::from_ms(50);
            follower.see(&wrong);
        }
        assert_eq!(feedback.shifts.try_iter().count(), 0);
        see_all(&mut follower, 1_000);
        assert_eq!(feedback.shifts.try_iter().count(), 2);
        // Asked for, but not done yet.
        see_all(&mut follower, 100_000);
        assert_eq!(feedback.shifts.try_iter().count(), 0);
        for done in &feedback.applied[Operation::Read as usize] {
            done.at_ns.store(500_000_000, Ordering::Relaxed);
            done.count.store(1, Ordering::Release);
        }
        see_all(&mut follower, 300_000);
        assert_eq!(feedback.shifts.try_iter().count(), 0, "they arrived before it was done");
        see_all(&mut follower, 501_000);
        assert_eq!(feedback.shifts.try_iter().count(), 2);
    }
}
