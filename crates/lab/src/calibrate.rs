//! Measuring the time that this machine adds to every emulated request.

use std::error::Error;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_core::{Duration, Operation};
use seeklab_emulator::calibration::{
    Calibration, CalibrationError, Effort, FrontendKind, Machine, NoCalibration, Route, Row,
};
use seeklab_emulator::clock::{Clock, KeptAwake, Processors};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{VERSION, path_text};
use crate::session::Session;

/// Options of a calibration.
#[derive(Debug, Clone, Default)]
pub struct CalibrationOptions {
    /// Frontends to calibrate; the saved results of the others are kept. Empty: all that can be served here.
    pub frontends: Vec<FrontendKind>,
    /// File to save the calibration in [default: `calibration.json` in the user's state directory].
    pub file: Option<PathBuf>,
}

/// Result of a calibration. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CalibrationResult {
    /// Program and version.
    pub version: &'static str,
    /// File that holds the calibration.
    #[serde(serialize_with = "path_text")]
    pub file: PathBuf,
    /// Time of the measurement, in seconds since 1970 UTC.
    pub measured_at_s: u64,
    /// Machine that the calibration is valid for.
    pub machine: Machine,
    /// Lateness of wake-ups from sleep.
    pub wakeups: WakeupTimes,
    /// Time before a deadline at which sleeping ends.
    pub margin_us: f64,
    /// Measured times by frontend, state of idle processors and request.
    pub rows: Vec<CalibrationRow>,
}

/// Lateness of wake-ups from sleep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WakeupTimes {
    /// Number of measured sleeps.
    pub sleeps: u64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The greatest lateness.
    pub max_us: f64,
}

/// Measured times of one operation and size over one frontend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CalibrationRow {
    /// Name of the frontend.
    pub frontend: &'static str,
    /// State of idle processors during the measurement.
    pub processors: Processors,
    /// Operation of the requests.
    pub op: Operation,
    /// Length of each request; 0 for flushes.
    pub bytes: u32,
    /// Requests in each repetition of each stream.
    pub requests: u64,
    /// Median from MP1 to MP2 on the way in.
    pub arrival_us: f64,
    /// Median lateness of completions at MP2.
    pub lateness_us: f64,
    /// Median from MP2 to MP1 on the way out.
    pub completion_us: f64,
    /// Spread of the ways in and out.
    pub spread_us: f64,
    /// Median of the shortest response time that can be emulated.
    pub floor_us: f64,
    /// 99th percentile of the shortest response time that can be emulated.
    pub floor_p99_us: f64,
}

impl CalibrationRow {
    fn new(frontend: FrontendKind, row: &Row) -> Self {
        let us = Duration::as_us;
        Self {
            frontend: frontend.name(),
            processors: row.processors,
            op: row.op,
            bytes: row.bytes,
            requests: row.requests,
            arrival_us: us(row.arrival),
            lateness_us: us(row.lateness),
            completion_us: us(row.completion),
            spread_us: us(row.spread),
            floor_us: us(row.floor),
            floor_p99_us: us(row.floor_p99),
        }
    }
}

impl CalibrationResult {
    fn new(calibration: &Calibration, file: PathBuf) -> Self {
        let (us, wakeups) = (Duration::as_us, &calibration.wakeups);
        let of = |(frontend, rows): (&FrontendKind, &Vec<Row>)| {
            rows.iter().map(|row| CalibrationRow::new(*frontend, row)).collect::<Vec<_>>()
        };
        Self {
            version: VERSION,
            file,
            measured_at_s: calibration.measured_at_s,
            machine: calibration.machine.clone(),
            wakeups: WakeupTimes {
                sleeps: wakeups.sleeps,
                p50_us: us(wakeups.p50),
                p90_us: us(wakeups.p90),
                p99_us: us(wakeups.p99),
                max_us: us(wakeups.max),
            },
            margin_us: us(calibration.margin()),
            rows: calibration.frontends.iter().flat_map(of).collect(),
        }
    }
}

/// Measures the frontends and saves the calibration. If no frontends are named, a frontend that cannot be served
/// here is left out with a warning.
///
/// # Errors
/// If a named frontend, or none at all, can be served; if the file cannot be written.
pub fn calibrate(session: &Session, options: &CalibrationOptions) -> Result<CalibrationResult, Failure> {
    let path = options.file.clone().map_or_else(Calibration::default_path, Ok).map_err(no_calibration)?;
    let all = options.frontends.is_empty();
    let frontends = if all { &FrontendKind::ALL[..] } else { &options.frontends };
    let _held = session.hold();
    let (clock, effort) = (Clock::start(), Effort::default());
    let mut calibration = Calibration::begin(&effort, clock).map_err(failure)?;
    if !all {
        keep_others(session, &mut calibration, &path);
    }
    let awake = KeptAwake::hold().map(drop);
    if let Err(error) = &awake {
        session.remark(format!("note: processors cannot be kept awake for exact pacing: {error}"));
    }
    let conditions = if awake.is_ok() { &Processors::ALL[..] } else { &[Processors::Asleep] };
    let mut measured = 0;
    'frontends: for &frontend in frontends {
        for &processors in conditions {
            session.check()?;
            match measure(session, &mut calibration, Route { frontend, processors }, &effort, clock) {
                Ok(()) => measured += 1,
                // A frontend that cannot be served here does not keep the others from being calibrated.
                Err(error) if all => {
                    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
                    session.warn(format!("{frontend} is left out: {error}{source}"));
                    continue 'frontends;
                }
                Err(error) => return Err(failure(error)),
            }
        }
    }
    if measured == 0 {
        return Err(Failure::new("no frontend could be served, so nothing was calibrated"));
    }
    calibration
        .save_to(&path)
        .map_err(|error| Failure::from(error).context(format!("{}: cannot be saved", path.display())))?;
    Ok(CalibrationResult::new(&calibration, path))
}

/// Keeps the saved results of frontends that are not measured now.
fn keep_others(session: &Session, calibration: &mut Calibration, path: &Path) {
    match Calibration::load_from(path, &Machine::this()) {
        Ok(known) => calibration.frontends = known.frontends,
        Err(NoCalibration::Absent { .. }) => {}
        Err(error) => session.warn(format!("{error}; it is replaced")),
    }
}

fn measure(
    session: &Session,
    calibration: &mut Calibration,
    route: Route,
    effort: &Effort,
    clock: Clock,
) -> Result<(), CalibrationError> {
    let mut progress = None;
    calibration.measure(route, effort, clock, &mut |_, total| {
        let progress =
            progress.get_or_insert_with(|| session.progress(&route.to_string(), Some(total as u64)));
        // The loop over the frontends ends a calibration that was stopped.
        let _ = progress.big_step();
    })
}

fn failure(error: CalibrationError) -> Failure {
    Failure::chain(&error)
}

fn no_calibration(error: NoCalibration) -> Failure {
    let hint = error.hint();
    Failure::chain(&error).hint(hint)
}
