//! The processor: the system first, then the ready jobs in equal shares.

use seeklab_core::Duration;

/// Progress of a job in fractions of a nanosecond, so that equal shares of short times are not lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Progress(u128);

/// Fractions of a nanosecond, as a power of two.
const FRACTION_BITS: u32 = 20;

impl Progress {
    /// The progress of a job that has the processor to itself for a time.
    pub const fn of(time: Duration) -> Self {
        Self((time.as_ns() as u128) << FRACTION_BITS)
    }

    /// The time, rounded down to nanoseconds.
    pub const fn time(self) -> Duration {
        Duration::from_ns((self.0 >> FRACTION_BITS) as u64)
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// Progress from here to `due`, zero if that has passed.
    pub(super) const fn until(self, due: Self) -> Self {
        Self(due.0.saturating_sub(self.0))
    }
}

/// The processor.
#[derive(Debug, Clone)]
pub(super) struct Processor {
    /// Work of the system that is not done.
    system: Duration,
    /// Work of the system so far.
    system_time: Duration,
}

impl Processor {
    pub(super) const fn new() -> Self {
        Self { system: Duration::ZERO, system_time: Duration::ZERO }
    }

    /// Adds work of the system, which comes before all jobs.
    pub(super) fn add_system_time(&mut self, time: Duration) {
        self.system += time;
        self.system_time += time;
    }

    /// Processor time that the system has needed so far.
    pub(super) const fn system_time(&self) -> Duration {
        self.system_time
    }

    /// Lets time pass. Returns the progress of each of `ready` jobs.
    pub(super) fn advance(&mut self, time: Duration, ready: usize) -> Progress {
        let of_system = self.system.min(time);
        self.system -= of_system;
        let of_jobs = Progress::of(time - of_system);
        Progress(of_jobs.0 / ready.max(1) as u128)
    }

    /// Time until each of `ready` jobs has made that progress, rounded up to nanoseconds.
    pub(super) fn time_until(&self, progress: Progress, ready: usize) -> Duration {
        let work = (progress.0 * ready as u128).div_ceil(1 << FRACTION_BITS);
        self.system + Duration::from_ns(u64::try_from(work).unwrap_or(u64::MAX / 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_comes_first_and_jobs_share_the_rest() {
        let mut processor = Processor::new();
        processor.add_system_time(Duration::from_ms(7));
        let due = Progress::of(Duration::from_ms(10));
        assert_eq!(processor.time_until(due, 3), Duration::from_ms(37));
        assert_eq!(processor.advance(Duration::from_ms(5), 3), Progress::default());
        assert_eq!(processor.advance(Duration::from_ms(17), 3).time(), Duration::from_ms(5));
        assert_eq!(processor.system_time(), Duration::from_ms(7));
    }

    #[test]
    fn jobs_have_made_their_progress_when_it_is_due() {
        let mut processor = Processor::new();
        for ready in 1..9 {
            let due = Progress::of(Duration::from_ns(1_000_003));
            let time = processor.time_until(due, ready);
            assert!(processor.advance(time, ready) >= due, "{ready}");
            assert!(processor.advance(time - Duration::from_ns(1), ready) < due, "{ready}");
        }
    }
}
