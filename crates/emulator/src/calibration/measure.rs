//! Running the streams of a calibration.

use std::collections::BTreeMap;

use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{Duration, Operation};

use super::stream::{Sample, Served, Setting, Stream};
use super::{Calibration, CalibrationError, Machine, Route, Row, VERSION, Wakeups};
use crate::clock::{Clock, KeptAwake, Pacing, Processors};
use crate::pacer::Compensation;

/// Number of measurements of a calibration.
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
    /// About five seconds for each frontend.
    fn default() -> Self {
        let sizes = &[512, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
        Self { sleeps: 1_000, requests: 60, repetitions: 3, sizes }
    }
}

/// Service time of the device of the timed streams: long enough for the emulator to sleep during it.
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
        let now = clock_gettime(ClockId::Realtime);
        Ok(Self {
            version: VERSION,
            machine: Machine::this(),
            measured_at_s: u64::try_from(now.tv_sec).unwrap_or(0),
            wakeups: Wakeups::measure(clock, effort.sleeps)?,
            frontends: BTreeMap::new(),
        })
    }

    /// Measures the times of a route, and replaces its previous results. `progress` receives the number of
    /// repetitions done, and of all repetitions.
    ///
    /// # Errors
    /// If the frontend cannot be served on this machine, or if processors are to be kept awake and cannot be.
    pub fn measure(
        &mut self,
        route: Route,
        effort: &Effort,
        clock: Clock,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), CalibrationError> {
        let Route { frontend, processors } = route;
        let _held = match processors {
            Processors::Asleep => None,
            Processors::Awake => Some(KeptAwake::hold().map_err(CalibrationError::Awake)?),
        };
        let setting = Setting {
            frontend,
            service_time: SERVICE_TIME,
            pacing: Pacing::Balanced,
            margin: self.margin(),
            compensation: Compensation::default(),
        };
        let kinds: Vec<_> = kinds(effort).collect();
        let half = effort.repetitions * kinds.len();
        // One after the other: beside a second emulator the kernel places the threads otherwise than in a run.
        let timed = repeat(setting, PAUSE, &kinds, effort, clock, &mut |done| progress(done, 2 * half))?;
        let immediate = Setting { service_time: Duration::ZERO, ..setting };
        let immediate = repeat(immediate, SHORT_PAUSE, &kinds, effort, clock, &mut |done| {
            progress(half + done, 2 * half);
        })?;
        let measured = kinds.into_iter().zip(timed).zip(immediate);
        let rows =
            measured.map(|((kind, timed), immediate)| Measured { processors, kind, timed, immediate }.row());
        let known = self.frontends.entry(frontend).or_default();
        known.retain(|row| row.processors != processors);
        known.extend(rows);
        Ok(())
    }
}

/// The samples of each repetition of each kind of request.
fn repeat(
    setting: Setting,
    pause: Duration,
    kinds: &[(Operation, u32)],
    effort: &Effort,
    clock: Clock,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Vec<Vec<Sample>>>, CalibrationError> {
    let mut served = Served::start(setting, clock)?;
    let mut samples = vec![Vec::new(); kinds.len()];
    let mut done = 0;
    for repetition in 0..effort.repetitions {
        for ((op, bytes), samples) in kinds.iter().zip(&mut samples) {
            let stream = Stream { op: *op, bytes: *bytes, requests: effort.requests, pause };
            if repetition == 0 {
                // Caches, memory and the ways of the kernel are warm in a run.
                served.run(Stream { requests: 5, ..stream })?;
            }
            samples.push(served.run(stream)?);
            done += 1;
            progress(done);
        }
    }
    served.finish()?;
    Ok(samples)
}

/// The operations and sizes that are measured.
fn kinds(effort: &Effort) -> impl Iterator<Item = (Operation, u32)> {
    let sized = [Operation::Read, Operation::Write].into_iter();
    sized.flat_map(|op| effort.sizes.iter().map(move |bytes| (op, *bytes))).chain([(Operation::Flush, 0)])
}

/// The repetitions of one kind of request.
struct Measured {
    processors: Processors,
    kind: (Operation, u32),
    timed: Vec<Vec<Sample>>,
    immediate: Vec<Vec<Sample>>,
}

impl Measured {
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
            processors: self.processors,
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
