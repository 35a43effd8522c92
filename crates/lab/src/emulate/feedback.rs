//! Dynamic compensation by the host's own stamps: the times measured at MP1 during a run determine the
//! compensation.
//!
//! ```text
//!  Emulation ── completed request ──▶ Observer ── joined with the host's stamps ──▶ Follower
//!      ▲                                                                                │ AllowanceEstimator
//!      └────────────── Feedback: applied before the next request is taken ◀── Fixed ────┘
//! ```
//! It replaces the compensation by lateness alone ([`SendCost`](seeklab_emulator::calibration::SendCost)),
//! which covers only half of the way.
//!
//! # References
//! \[Griffin 2004, §5.1.3, §5.3.2\].

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use seeklab_core::TraceRecord;
use seeklab_emulator::emulation::Emulation;
use seeklab_emulator::pacer::{AllowanceEstimator, Compensation, Fixed};

/// Receives the allowances found by a [`Follower`], for use by the emulation.
#[derive(Debug)]
pub struct Feedback {
    found: Receiver<Fixed>,
    begun_with: Arc<OnceLock<Compensation>>,
}

/// Looks at joined requests and finds what is to be compensated for.
#[derive(Debug)]
pub struct Follower {
    found: Sender<Fixed>,
    begun_with: Arc<OnceLock<Compensation>>,
    estimator: Option<AllowanceEstimator>,
}

/// A follower, and the feedback by which an emulation hears from it.
pub fn feedback() -> (Follower, Feedback) {
    let (sender, found) = channel();
    let begun_with = Arc::<OnceLock<Compensation>>::default();
    let follower = Follower { found: sender, begun_with: Arc::clone(&begun_with), estimator: None };
    (follower, Feedback { found, begun_with })
}

impl Feedback {
    /// Compensates for what was found since the last time.
    pub(super) fn apply(&self, emulation: &mut Emulation) {
        self.begun_with.get_or_init(|| emulation.compensation());
        self.found.try_iter().for_each(|fixed| emulation.compensate(fixed));
    }
}

impl Follower {
    /// Looks at one request with its stamps.
    pub fn see(&mut self, record: &TraceRecord) {
        // No request is observed before the first is taken.
        let Some(begun_with) = self.begun_with.get() else { return };
        let estimator = self.estimator.get_or_insert_with(|| AllowanceEstimator::new(*begun_with));
        if let Some(fixed) = estimator.see(record) {
            // An emulation that has ended compensates for nothing more.
            let _ = self.found.send(fixed);
        }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, Instant, MeasurementPoints, Operation};

    use super::*;

    /// Returns a read that lasts 1 ms in the model from that time on, and 6 us longer at both ends in the host.
    fn read(at_us: u64) -> TraceRecord {
        let us = |time: u64| Instant::ZERO + Duration::from_us(time);
        let points = MeasurementPoints {
            mp1_arrival: Some(us(at_us - 6)),
            mp1_completion: Some(us(at_us + 1_006)),
            mp2_arrival: Some(us(at_us)),
            mp2_due: Some(us(at_us + 1_000)),
            mp2_completion: Some(us(at_us + 1_000)),
            miss_cause: None,
        };
        let record = TraceRecord::new(us(at_us), Operation::Read, 0, 8);
        TraceRecord { completion: Some(us(at_us + 1_000)), points, ..record }
    }

    #[test]
    fn allowances_are_sent_once_the_initial_compensation_is_known() {
        let (mut follower, feedback) = feedback();
        let see =
            |follower: &mut Follower| (0..16).for_each(|index| follower.see(&read(1_000 + 2_000 * index)));
        see(&mut follower);
        assert_eq!(feedback.found.try_iter().count(), 0);
        feedback.begun_with.set(Compensation::default()).unwrap();
        see(&mut follower);
        let found: Vec<Fixed> = feedback.found.try_iter().collect();
        let us = Duration::from_us;
        // Half of what the ways take.
        assert_eq!(found, [Fixed { op: Operation::Read, arrival: us(3), early: us(3) }]);
        drop(feedback);
        see(&mut follower);
    }
}
