//! Times for which a job could compute, and the processor time that was lost meanwhile.

use seeklab_core::{Duration, Instant};

/// Times for which a job could compute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Occupancy {
    /// Begin of the time, and the processor time of the system until then.
    since: Option<(Instant, Duration)>,
    ready: Duration,
    system: Duration,
}

impl Occupancy {
    /// From `now` on, a job can compute, or none can. `system` is the processor time of the system until now.
    pub(super) fn note(&mut self, now: Instant, is_ready: bool, system: Duration) {
        match (self.since, is_ready) {
            (None, true) => self.since = Some((now, system)),
            (Some((since, before)), false) => {
                self.ready += now.saturating_since(since);
                self.system += system.saturating_sub(before);
                self.since = None;
            }
            _ => {}
        }
    }

    /// Time for which a job could compute and neither a job nor the system had the processor, if the jobs had it for
    /// `of_jobs`.
    pub(super) fn lost(&self, of_jobs: Duration) -> Duration {
        self.ready.saturating_sub(of_jobs + self.system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_time_is_what_neither_jobs_nor_system_had() {
        let (at, ms) = (|ms| Instant::ZERO + Duration::from_ms(ms), Duration::from_ms);
        let mut occupancy = Occupancy::default();
        occupancy.note(at(10), true, ms(1));
        occupancy.note(at(12), true, ms(2));
        occupancy.note(at(30), false, ms(4));
        // What the system does while no job can compute is not taken from a job.
        occupancy.note(at(40), false, ms(9));
        occupancy.note(at(50), true, ms(9));
        occupancy.note(at(55), false, ms(9));
        assert_eq!(occupancy.lost(ms(20)), ms(25 - 3 - 20));
        assert_eq!(occupancy.lost(ms(30)), Duration::ZERO);
    }
}
