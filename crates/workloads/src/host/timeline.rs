//! The course of a run: use of the CPUs, waits and requests over time.
//!
//! A run has at most [`BINS_MAX`] intervals. When they are full, neighbours are joined, so memory does not grow with the
//! length of the run.

use seeklab_core::{Duration, Instant};

/// Intervals at most.
const BINS_MAX: usize = 240;

/// Length of the intervals at the start.
const FIRST_WIDTH: Duration = Duration::from_us(1);

/// State of the host while nothing changes: numbers of CPUs, processes and requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Levels {
    pub(super) task: u64,
    pub(super) other: u64,
    pub(super) false_idle: u64,
    pub(super) idle: u64,
    pub(super) io_waiting: u64,
    pub(super) outstanding: u64,
}

impl Levels {
    const fn values(&self) -> [u64; 6] {
        [self.task, self.other, self.false_idle, self.idle, self.io_waiting, self.outstanding]
    }
}

/// Means over an interval of the run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostInterval {
    /// Start of the interval.
    pub start: Duration,
    /// Length. The last interval ends with the run.
    pub width: Duration,
    /// CPUs that execute processes of the task.
    pub task_cpus: f64,
    /// CPUs that execute something else.
    pub other_cpus: f64,
    /// CPUs that are idle while at least as many processes wait for I/O as CPUs are idle.
    pub false_idle_cpus: f64,
    /// Other idle CPUs.
    pub idle_cpus: f64,
    /// Processes that wait for I/O.
    pub io_waiting_processes: f64,
    /// Requests from their issue until their completion is handled.
    pub outstanding_requests: f64,
}

/// Sums over intervals of equal length.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    /// Products of levels and nanoseconds.
    bins: Vec<[u128; 6]>,
    width: Duration,
}

impl Timeline {
    pub(super) fn new() -> Self {
        Self { bins: Vec::with_capacity(BINS_MAX), width: FIRST_WIDTH }
    }

    /// Takes in that the host had these levels from `from` to `until`.
    pub(super) fn add(&mut self, from: Instant, until: Instant, levels: Levels) {
        let (mut from_ns, until_ns) = (from.as_ns(), until.as_ns());
        let levels = levels.values();
        while until_ns.div_ceil(self.width.as_ns()) > BINS_MAX as u64 {
            self.join();
        }
        let width_ns = self.width.as_ns();
        while from_ns < until_ns {
            let bin = from_ns / width_ns;
            let end_ns = (bin + 1).saturating_mul(width_ns).min(until_ns);
            if bin as usize >= self.bins.len() {
                self.bins.resize(bin as usize + 1, [0; 6]);
            }
            for (sum, level) in self.bins[bin as usize].iter_mut().zip(levels) {
                *sum += u128::from(level) * u128::from(end_ns - from_ns);
            }
            from_ns = end_ns;
        }
    }

    /// Doubles the length of the intervals.
    fn join(&mut self) {
        let joined = self.bins.len().div_ceil(2);
        for index in 0..joined {
            let second = self.bins.get(index * 2 + 1).copied().unwrap_or_default();
            let mut sums = self.bins[index * 2];
            sums.iter_mut().zip(second).for_each(|(sum, second)| *sum += second);
            self.bins[index] = sums;
        }
        self.bins.truncate(joined);
        self.width = self.width * 2;
    }

    /// The intervals of a run that ended at `end`.
    pub(super) fn intervals(&self, end: Instant) -> Vec<HostInterval> {
        let width_ns = self.width.as_ns();
        let bins = self.bins.iter().zip(0_u64..);
        bins.map(|(sums, number)| {
            let start_ns = number * width_ns;
            let width_ns = width_ns.min(end.as_ns().saturating_sub(start_ns)).max(1);
            let mean = |index: usize| sums[index] as f64 / width_ns as f64;
            HostInterval {
                start: Duration::from_ns(start_ns),
                width: Duration::from_ns(width_ns),
                task_cpus: mean(0),
                other_cpus: mean(1),
                false_idle_cpus: mean(2),
                idle_cpus: mean(3),
                io_waiting_processes: mean(4),
                outstanding_requests: mean(5),
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn means_are_kept_when_intervals_are_joined() {
        let mut timeline = Timeline::new();
        let levels = |task, outstanding| Levels { task, outstanding, ..Levels::default() };
        timeline.add(at(0), at(3), levels(2, 5));
        timeline.add(at(3), at(4), levels(0, 1));
        let short = timeline.intervals(at(4));
        assert_eq!(short.len(), 4);
        assert_eq!((short[2].task_cpus, short[3].task_cpus, short[3].outstanding_requests), (2.0, 0.0, 1.0));
        timeline.add(at(4), at(4 * BINS_MAX as u64 - 1), levels(0, 0));
        let long = timeline.intervals(at(4 * BINS_MAX as u64 - 1));
        assert_eq!(
            (long.len(), long[0].width, long[1].start),
            (BINS_MAX, Duration::from_us(4), long[0].width)
        );
        assert_eq!((long[0].task_cpus, long[0].outstanding_requests), (1.5, 4.0));
        assert_eq!(long[BINS_MAX - 1].width, Duration::from_us(3), "the last interval ends with the run");
    }

    #[test]
    fn memory_does_not_grow_with_the_length() {
        let mut timeline = Timeline::new();
        for second in 0..1000_u64 {
            let start = at(second * 1_000_000);
            timeline.add(start, start + Duration::from_s(1), Levels { idle: 1, ..Levels::default() });
        }
        assert!(timeline.bins.len() <= BINS_MAX && timeline.bins.capacity() == BINS_MAX);
        assert!(timeline.intervals(at(1_000_000_000)).iter().all(|one| (one.idle_cpus - 1.0).abs() < 1e-12));
    }
}
