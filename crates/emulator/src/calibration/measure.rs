//! Running the streams of a calibration.

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{Duration, Operation};

use super::stream::{Sample, Served, Setting, Stream};
use super::{Calibration, CalibrationError, FrontendKind, Machine, Row, VERSION, Wakeups};
use crate::clock::{Clock, Pacing};
use crate::pacer::Compensation;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Sleeps, to know how late they end.
    pub sleeps: u32,
    /// Requests in each repetition of a stream.
    pub requests: usize,
    /// Repetitions of each stream.
    pub repetitions: usize,
    /// Sizes of reads and writes in bytes, multiples of 512.
    pub sizes: &'static [u32],
}

impl Default for Effort {
    /// About six seconds for each frontend.
    fn default() -> Self {
        let sizes = &[512, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
        Self { sleeps: 1_000, requests: 60, repetitions: 3, sizes }
    }
}

/// How long the device of the timed streams takes: long enough for the emulator to sleep meanwhile.
const SERVICE_TIME: Duration = Duration::from_ms(1);

/// From a completion to the next issue: long enough for the emulator to be asleep.
const PAUSE: Duration = Duration::from_ms(1);

/// As [`PAUSE`], where the device takes no time.
const SHORT_PAUSE: Duration = Duration::from_us(300);

impl Calibration {
    /// Measures how late sleeps end; frontends are measured next.
    ///
    /// # Errors
    /// If no descriptor is left to wait for.
    pub fn begin(effort: &Effort, clock: Clock) -> Result<Self, CalibrationError> {
        clock.settle();
        let now = clock_gettime(ClockId::Realtime);
        Ok(Self {
            version: VERSION,
            machine: Machine::this(),
            measured_at_s: u64::try_from(now.tv_sec).unwrap_or(0),
            wakeups: Wakeups::measure(clock, effort.sleeps)?,
            clock: clock.report(),
            frontends: BTreeMap::new(),
        })
    }

    /// Measures what a frontend adds, and replaces what was known of it. `progress` is told how many of how
    /// many repetitions are done.
    ///
    /// # Errors
    /// If the frontend cannot be served here.
    pub fn measure(
        &mut self,
        frontend: FrontendKind,
        effort: &Effort,
        clock: Clock,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), CalibrationError> {
        let setting = Setting {
            frontend,
            service_time: SERVICE_TIME,
            pacing: Pacing::Balanced,
            margin: self.margin(),
            compensation: Compensation::default(),
        };
        let mut timed = Served::start(setting, clock)?;
        let mut immediate = Served::start(Setting { service_time: Duration::ZERO, ..setting }, clock)?;
        let mut measured: Vec<Measured> = kinds(effort).map(Measured::new).collect();
        let total = effort.repetitions * measured.len();
        for (repetition, done) in (0..effort.repetitions).zip((0..).step_by(measured.len())) {
            for (index, measured) in measured.iter_mut().enumerate() {
                let (op, bytes) = measured.kind;
                let stream = |pause| Stream { op, bytes, requests: effort.requests, pause };
                if repetition == 0 {
                    // Caches, memory and the ways of the kernel are warm in a run.
                    timed.run(Stream { requests: 5, ..stream(PAUSE) })?;
                    immediate.run(Stream { requests: 5, ..stream(PAUSE) })?;
                }
                measured.timed.push(timed.run(stream(PAUSE))?);
                measured.immediate.push(immediate.run(stream(SHORT_PAUSE))?);
                clock.check();
                progress(done + index + 1, total);
            }
        }
        timed.finish()?;
        immediate.finish()?;
        self.frontends.insert(frontend, measured.iter().map(Measured::row).collect());
        self.clock = clock.report();
        Ok(())
    }
}

/// The operations and sizes that are measured.
fn kinds(effort: &Effort) -> impl Iterator<Item = (Operation, u32)> {
    let sized = [Operation::Read, Operation::Write].into_iter();
    sized.flat_map(|op| effort.sizes.iter().map(move |bytes| (op, *bytes))).chain([(Operation::Flush, 0)])
}

/// The repetitions of one kind of request.
struct Measured {
    kind: (Operation, u32),
    timed: Vec<Vec<Sample>>,
    immediate: Vec<Vec<Sample>>,
}

impl Measured {
    const fn new(kind: (Operation, u32)) -> Self {
        Self { kind, timed: Vec::new(), immediate: Vec::new() }
    }

    fn row(&self) -> Row {
        let (op, bytes) = self.kind;
        let quantile = |samples: &Vec<Sample>, share, time: &dyn Fn(&Sample) -> Duration| {
            let mut times: Vec<Duration> = samples.iter().map(time).collect();
            sorted_quantile(&mut times, share)
        };
        let response = |samples: &Vec<Sample>| quantile(samples, 0.5, &|sample| sample.response);
        // What a repetition has beyond the best is the machine's other work, not the way.
        let best = |repetitions: &[Vec<Sample>], share, time: &dyn Fn(&Sample) -> Duration| {
            let best = repetitions.iter().min_by_key(|samples| response(samples));
            best.map_or(Duration::ZERO, |samples| quantile(samples, share, time))
        };
        let responses = self.timed.iter().map(response);
        let (lowest, highest) = (responses.clone().min(), responses.max());
        Row {
            op,
            bytes,
            requests: self.timed.first().map_or(0, |samples| samples.len() as u64),
            arrival: best(&self.timed, 0.5, &|sample| sample.arrival),
            lateness: best(&self.timed, 0.5, &|sample| sample.lateness),
            completion: best(&self.timed, 0.5, &|sample| sample.completion),
            spread: highest.unwrap_or_default().saturating_sub(lowest.unwrap_or_default()),
            floor: best(&self.immediate, 0.5, &|sample| sample.response),
            floor_p99: best(&self.immediate, 0.99, &|sample| sample.response),
        }
    }
}

/// The value within which that share of `times` is, by nearest rank; zero of none.
pub(super) fn sorted_quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let rank = (share * times.len() as f64).ceil() as usize;
    times.get(rank.max(1) - 1).copied().unwrap_or_default()
}
