//! Estimates of streams of jobs: elapsed time, processor times and calls, over one parameter or at one point.
//!
//! ```text
//! DEVICE ─▶ access time, sector time ─┐
//! W (kind = "jobs"), --vary ──────────┴▶ equations, job slot, processor alone ─▶ JobsEstimateFigures, page
//! ```

use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_core::{Device, Instant, Operation, Request, Seed};
use seeklab_estimate::job_slot;
use seeklab_estimate::lindsay_ferrari::{DriveTimes, Parameters, iterate, solve};
use seeklab_files::check_distinct;
use seeklab_report::{Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};
use seeklab_workloads::{JobsSpec, WorkloadSpec};
use serde::Serialize;

use super::errors::jobs_errors;
use super::figures::{ms, rounded};
use super::jobs_range::{outside_of_the_validation, used_slots};
use super::law;
use crate::devices::{Resolved, Setup, resolve};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::progress::Progress;
use crate::session::Session;
use crate::workload::{WorkloadOptions, resolve_workload};

/// Calls with which the times of a drive are measured, and their sectors.
const CALLS: u64 = 2_000;
const CALL_SECTORS: u64 = 8;

/// Steps of the published iteration at most, and the change of the elapsed time at which it has converged.
const ITERATION_STEPS_MAX: u32 = 1_000;
const ITERATION_TOLERANCE: f64 = 1e-9;

/// Values of a varied parameter at most.
const VALUES_MAX: u32 = 16;

/// Ratio of the elapsed time to the processor time from which the errors of the validation apply.
const BOUND_BY_DRIVES: f64 = 1.1;

/// A parameter of a stream of jobs that takes several values, such as `buffer=8..64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    parameter: Varied,
    values: Vec<u32>,
    text: String,
}

/// A parameter that can be varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Varied {
    Buffer,
    Threshold,
    Multiprogramming,
}

impl Varied {
    const ALL: [(&'static str, Self); 3] = [
        ("buffer", Self::Buffer),
        ("threshold", Self::Threshold),
        ("multiprogramming", Self::Multiprogramming),
    ];

    const fn unit(self) -> &'static str {
        match self {
            Self::Buffer | Self::Threshold => "sectors",
            Self::Multiprogramming => "jobs",
        }
    }

    const fn set(self, spec: &mut JobsSpec, value: u32) {
        match self {
            Self::Buffer => spec.buffer = value,
            Self::Threshold => spec.threshold = Some(value),
            Self::Multiprogramming => spec.multiprogramming = value,
        }
    }
}

impl FromStr for Vary {
    type Err = String;

    /// Reads `buffer=8..64`: both ends, and evenly spaced values between them.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no parameter with a range (hint: write for example `buffer=8..64`)");
        let (key, range) = text.split_once('=').ok_or_else(wrong)?;
        let parameter = Varied::ALL.iter().find(|(name, _)| *name == key.trim()).map(|(_, varied)| *varied);
        let parameter = parameter.ok_or_else(|| {
            let names: Vec<&str> = Varied::ALL.iter().map(|(name, _)| *name).collect();
            format!("`{key}` cannot be varied (hint: one of {})", names.join(", "))
        })?;
        let (first, last) = range.split_once("..").ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first == 0 || first >= last {
            return Err(format!("`{range}` is no range (hint: write the smaller end first, at least 1)"));
        }
        let steps = (last - first).min(VALUES_MAX - 1);
        let span = u64::from(last - first);
        let value =
            |step: u32| first + ((u64::from(step) * span + u64::from(steps) / 2) / u64::from(steps)) as u32;
        Ok(Self { parameter, values: (0..=steps).map(value).collect(), text: text.to_owned() })
    }
}

/// Options of an estimate of a stream of jobs.
#[derive(Debug, Clone)]
pub struct JobsEstimateOptions {
    /// Catalog names or TOML files.
    pub devices: Vec<String>,
    /// Setup of every device.
    pub setup: Setup,
    /// Name of the workload.
    pub workload: String,
    /// The stream of jobs.
    pub spec: JobsSpec,
    /// Seed that draws the jobs: those of a simulation with the same seed.
    pub seed: Seed,
    /// Parameter that takes several values.
    pub vary: Option<Vary>,
    /// Path that the caller writes the page to.
    pub report: Option<PathBuf>,
}

/// Result of an estimate of a stream of jobs.
#[derive(Debug)]
pub struct JobsEstimateResult {
    /// Figures, as one JSON document.
    pub figures: JobsEstimateFigures,
    /// The same, with a plot over the varied parameter.
    pub page: Page,
}

/// Figures of an estimate of a stream of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobsEstimateFigures {
    /// Seed that draws the jobs.
    pub seed: u64,
    /// Name of the workload.
    pub workload: String,
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the figures again.
    pub command: Option<String>,
    /// Parameter that takes several values, and their range; null without one.
    pub vary: Option<String>,
    /// Figures of each device.
    pub devices: Vec<JobsDeviceEstimate>,
}

/// Figures of one device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobsDeviceEstimate {
    /// Name of the device.
    pub device: String,
    /// Mean time before the first sector of a call, sampled with one request at a time.
    pub access_ms: f64,
    /// Mean transfer time of a sector that continues a call, sampled likewise.
    pub sector_ms: f64,
    /// Estimates, for each value of the varied parameter.
    pub points: Vec<JobsPoint>,
}

/// Estimates for one value of the varied parameter.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobsPoint {
    /// Value of the varied parameter; null without one.
    pub value: Option<u32>,
    /// Estimates by each method.
    pub estimates: Vec<JobsMethodFigures>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Estimate by one method.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobsMethodFigures {
    /// Method of the figures: `job_slot`, `lindsay_ferrari`, or `processor_alone`.
    pub method: &'static str,
    /// Elapsed time of the stream.
    pub elapsed_s: f64,
    /// Time for which one job slot is blocked.
    pub blocked_s: f64,
    /// Processor time of the jobs.
    pub job_processor_s: f64,
    /// Processor time of the system.
    pub system_processor_s: f64,
    /// Calls of all drives.
    pub calls: f64,
    /// Share of the processor that a ready job has.
    pub processor_share_pct: f64,
    /// Mean wait of a call in the queue of its drive.
    pub wait_mean_ms: f64,
    /// Mean error of the elapsed time in the validation. Null if the stream lies outside of its range, on devices of other kinds than
    /// `access`, and where the processor is the bottleneck by this method.
    pub error_mean_pct: Option<f64>,
    /// Largest error of the elapsed time in the validation: null where the mean error is.
    pub error_max_pct: Option<f64>,
    /// Mean error of the calls in the validation: null where that of the elapsed time is.
    pub calls_error_mean_pct: Option<f64>,
    /// Largest error of the calls in the validation: null where that of the elapsed time is.
    pub calls_error_max_pct: Option<f64>,
}

/// Returns the stream of jobs that a workload describes, `None` of another kind of workload.
///
/// # Errors
/// A workload that cannot be read, or options that do not fit.
pub fn stream_of_jobs(workload: &str, options: &WorkloadOptions) -> Result<Option<JobsSpec>, Failure> {
    match resolve_workload(workload, options)?.spec {
        WorkloadSpec::Jobs(spec) => Ok(Some(*spec)),
        _ => Ok(None),
    }
}

/// Estimates a stream of jobs on each device.
///
/// # Errors
/// If a device does not fit, or a value of the varied parameter does not fit the stream.
pub fn estimate_jobs(
    session: &Session,
    options: &JobsEstimateOptions,
) -> Result<JobsEstimateResult, Failure> {
    if let Some(path) = &options.report {
        check_distinct(path, options.devices.iter().chain([&options.workload]).map(PathBuf::from))?;
    }
    let context = |failure: Failure| failure.context(format!("--workload `{}`", options.workload));
    let mut devices = Vec::new();
    for name in &options.devices {
        let device = resolve(name, &options.setup)?;
        options.spec.check().map_err(|error| context(error.into()))?;
        let drive = drive_times(&device, &options.spec, options.seed)?;
        let mut points = Vec::new();
        let values = options.vary.as_ref().map_or(&[][..], |vary| &vary.values);
        let iterations = values.len().max(1) as u64 * u64::from(job_slot::ITERATIONS);
        let mut progress = session.steps(&format!("estimating {}", device.label()), iterations);
        let mut advance = advancing(session, &mut progress);
        let values = values.iter().map(|value| Some(*value));
        for value in values.chain(options.vary.is_none().then_some(None)) {
            let mut spec = options.spec.clone();
            if let (Some(vary), Some(value)) = (&options.vary, value) {
                vary.parameter.set(&mut spec, value);
                let context = format!("--vary {}: at {value}", vary.text);
                spec.check().map_err(|error| Failure::from(error).context(context))?;
            }
            let point = point_on(&device, &spec, drive, options.seed, &mut advance).map_err(context)?;
            points.push(JobsPoint { value, ..point });
        }
        devices.push(JobsDeviceEstimate {
            device: device.label(),
            access_ms: ms(drive.access_s),
            sector_ms: ms(drive.sector_s),
            points,
        });
    }
    let figures = JobsEstimateFigures {
        seed: options.seed.0,
        workload: options.workload.clone(),
        version: VERSION,
        command: session.command(),
        vary: options.vary.as_ref().map(|vary| vary.text.clone()),
        devices,
    };
    let page = page(&figures, options.vary.as_ref());
    Ok(JobsEstimateResult { figures, page })
}

/// Returns true of drives as those of the comparison: each access takes the same time, wherever the head was. On others, calls
/// that follow each other take far less than calls at random places, of which the estimate is.
fn has_one_access_time(device: &Resolved) -> bool {
    device.description.kind().name == "access"
}

impl JobsPoint {
    /// Drops the errors of the estimates, with the reason.
    fn forget_errors(&mut self, reason: String) {
        for estimate in &mut self.estimates {
            (estimate.error_mean_pct, estimate.error_max_pct) = (None, None);
            (estimate.calls_error_mean_pct, estimate.calls_error_max_pct) = (None, None);
        }
        self.notes.push(reason);
    }
}

/// Estimates of one stream by all methods, with the errors that are known on that device.
fn point_on(
    device: &Resolved,
    spec: &JobsSpec,
    drive: DriveTimes,
    seed: Seed,
    advance: &mut impl FnMut(u32) -> Result<(), Failure>,
) -> Result<JobsPoint, Failure> {
    // A slot that never has a job takes no share of the processor.
    let used = JobsSpec { multiprogramming: used_slots(spec), ..spec.clone() };
    let mut point = point(&used, drive, seed, advance)?;
    if used.multiprogramming < spec.multiprogramming {
        point.notes.push(format!(
            "`multiprogramming` of {} exceeds the number of jobs: at most {} can be active, so the estimate is that of {}",
            spec.multiprogramming, used.multiprogramming, used.multiprogramming
        ));
    }
    if !has_one_access_time(device) {
        point.forget_errors(
            "access times are those of calls at random places; calls that follow each other may take far less, so simulate the \
             stream on this device"
                .to_owned(),
        );
    }
    let outside = outside_of_the_validation(spec, drive);
    if !outside.is_empty() {
        point.forget_errors(format!(
            "no errors are known, because such streams were not compared with simulations: {}",
            outside.join("; ")
        ));
    }
    Ok(point)
}

/// Estimates of the stream of a simulation.
///
/// # Errors
/// A device that does not fit the stream, or a stop.
pub(super) fn estimate_simulated(
    session: &Session,
    device: &Resolved,
    spec: &JobsSpec,
    seed: Seed,
) -> Result<JobsPoint, Failure> {
    let drive = drive_times(device, spec, seed)?;
    let iterations = u64::from(job_slot::ITERATIONS);
    let mut progress = session.steps(&format!("estimating {}", device.label()), iterations);
    point_on(device, spec, drive, seed, &mut advancing(session, &mut progress))
}

/// Steps of the progress for the iterations of an estimate, and a look at the stop token between them.
fn advancing<'a>(
    session: &'a Session,
    progress: &'a mut Progress,
) -> impl FnMut(u32) -> Result<(), Failure> + 'a {
    move |iterations| match iterations {
        0 => session.check(),
        _ => progress.big_step(),
    }
}

/// Access and sector times of a drive: means over calls at random places, one request at a time.
fn drive_times(device: &Resolved, spec: &JobsSpec, seed: Seed) -> Result<DriveTimes, Failure> {
    let mut built = device.build(seed, "disk0")?;
    let capabilities = built.capabilities().clone();
    let (sector, block) = (spec.sector.as_bytes(), capabilities.block_size.as_bytes());
    let unfit = |problem: String| Err(Failure::new(format!("{}: {problem}", device.label())));
    if sector == 0 || !sector.is_multiple_of(block) {
        return unfit(format!(
            "sectors of {} are not whole blocks of {}",
            spec.sector, capabilities.block_size
        ));
    }
    let sector_blocks = sector / block;
    let sectors = capabilities.capacity_blocks / sector_blocks;
    if sectors <= CALL_SECTORS {
        return unfit(format!("{sectors} sectors are too few for a stream of jobs"));
    }
    let mut stream = seed.stream("estimate.places");
    let (mut first_s, mut next_s, mut now, mut id) = (0.0, 0.0, Instant::ZERO, 0);
    for call in 0..CALLS {
        let op = if call % 2 == 0 { Operation::Read } else { Operation::Write };
        let place = stream.below(sectors - CALL_SECTORS);
        for sector in 0..CALL_SECTORS {
            let lbn = (place + sector) * sector_blocks;
            let response_s =
                response_s(&mut *built, &mut now, Request::new(id, op, lbn, sector_blocks as u32))?;
            id += 1;
            *(if sector == 0 { &mut first_s } else { &mut next_s }) += response_s;
        }
    }
    let sector_s = (next_s / (CALLS * (CALL_SECTORS - 1)) as f64).max(f64::MIN_POSITIVE);
    let access_s = (first_s / CALLS as f64 - sector_s).max(1e-9);
    Ok(DriveTimes { access_s, sector_s: sector_s.max(1e-9) })
}

/// Response time of one request alone, in seconds.
fn response_s(device: &mut dyn Device, now: &mut Instant, request: Request) -> Result<f64, Failure> {
    device.submit(*now, request).map_err(|rejected| Failure::new(rejected.to_string()))?;
    let mut completions = Vec::new();
    while completions.is_empty() {
        *now = device.next_event().expect("a request is outstanding").max(*now);
        device.poll(*now, &mut completions);
    }
    Ok(completions[0].response_time().as_s())
}

/// Estimates of one stream by all methods.
fn point(
    spec: &JobsSpec,
    drive: DriveTimes,
    seed: Seed,
    advance: &mut impl FnMut(u32) -> Result<(), Failure>,
) -> Result<JobsPoint, Failure> {
    let slot = job_slot::estimate(spec, drive, seed, advance)?;
    let parameters = Parameters::of_jobs(spec, drive, slot.job_processor_s);
    let solution = solve(&parameters).map_err(law::failure)?;
    let iteration = iterate(&parameters, ITERATION_STEPS_MAX, ITERATION_TOLERANCE).map_err(law::failure)?;
    let published = solution.point;
    let of_slot = figures("job_slot", &slot);
    let of_equations = job_slot::JobsEstimate {
        elapsed_s: published.elapsed_s,
        blocked_s: published.blocked_s,
        job_processor_s: slot.job_processor_s,
        system_processor_s: published.system_processor_s,
        calls: published.requests_per_drive * parameters.drives,
        processor_share: published.processor_share,
        wait_s: published.wait_s,
    };
    let alone = job_slot::JobsEstimate {
        elapsed_s: slot.job_processor_s + slot.system_processor_s,
        blocked_s: 0.0,
        processor_share: 1.0 / parameters.multiprogramming,
        wait_s: 0.0,
        ..slot
    };
    let estimates =
        vec![of_slot, figures("lindsay_ferrari", &of_equations), figures("processor_alone", &alone)];
    let mut notes = Vec::new();
    if !iteration.is_converged {
        notes.push(format!("the published iteration does not converge in {ITERATION_STEPS_MAX} steps"));
    }
    if let Some(other) = solution.other {
        notes.push(format!(
            "the equations have {} solutions; the one with the largest processor share is taken, the one with the \
             smallest takes {:.2} s",
            solution.processor_shares.len(),
            other.elapsed_s
        ));
    }
    if !solution.is_exact {
        notes.push("the equations jump across their solution".to_owned());
    }
    Ok(JobsPoint { value: None, estimates, notes })
}

fn figures(method: &'static str, estimate: &job_slot::JobsEstimate) -> JobsMethodFigures {
    let errors = jobs_errors(method);
    let processor_s = estimate.job_processor_s + estimate.system_processor_s;
    let is_bound_by_drives = estimate.elapsed_s >= BOUND_BY_DRIVES * processor_s;
    JobsMethodFigures {
        method,
        elapsed_s: rounded(estimate.elapsed_s),
        blocked_s: rounded(estimate.blocked_s),
        job_processor_s: rounded(estimate.job_processor_s),
        system_processor_s: rounded(estimate.system_processor_s),
        calls: rounded(estimate.calls),
        processor_share_pct: rounded(estimate.processor_share * 100.0),
        wait_mean_ms: ms(estimate.wait_s),
        error_mean_pct: is_bound_by_drives.then_some(errors.elapsed_mean_pct),
        error_max_pct: is_bound_by_drives.then_some(errors.elapsed_max_pct),
        calls_error_mean_pct: is_bound_by_drives.then_some(errors.calls_mean_pct),
        calls_error_max_pct: is_bound_by_drives.then_some(errors.calls_max_pct),
    }
}

/// The page: a table of all estimates, and the elapsed time over the varied parameter.
fn page(figures: &JobsEstimateFigures, vary: Option<&Vary>) -> Page {
    let names: Vec<&str> = figures.devices.iter().map(|device| device.device.as_str()).collect();
    let key = vary.map(|vary| vary.text.split('=').next().unwrap_or_default().to_owned());
    let columns = |own: &[&str]| {
        let named = ["device".to_owned()].into_iter().chain(key.clone()).chain(["method".to_owned()]);
        named.chain(own.iter().map(|name| (*name).to_owned())).collect::<Vec<_>>()
    };
    let (mut rows, mut parts) = (Vec::new(), Vec::new());
    let mut notes = Vec::new();
    for device in &figures.devices {
        for point in &device.points {
            let at = point.value.map_or_else(String::new, |value| format!(" at {value}"));
            notes.extend(point.notes.iter().map(|note| format!("{}{at}: {note}", device.device)));
            for estimate in &point.estimates {
                let row = |own: Vec<String>| {
                    let named = [device.device.clone()].into_iter();
                    let named = named.chain(point.value.map(|value| value.to_string()));
                    named.chain([estimate.method.to_owned()]).chain(own).collect::<Vec<_>>()
                };
                rows.push(row(vec![
                    format!("{:.2}", estimate.elapsed_s),
                    format!("{:.0}", estimate.calls),
                    format!("{:.1} %", estimate.processor_share_pct),
                    match (estimate.error_mean_pct, estimate.error_max_pct) {
                        (Some(mean), Some(max)) => format!("{mean} % ({max})"),
                        _ => "-".to_owned(),
                    },
                ]));
                parts.push(row(vec![
                    format!("{:.2}", estimate.blocked_s),
                    format!("{:.2}", estimate.job_processor_s),
                    format!("{:.2}", estimate.system_processor_s),
                    format!("{:.3}", estimate.wait_mean_ms),
                ]));
            }
        }
    }
    let tables = vec![
        PlainTable {
            columns: columns(&["R s", "calls", "share", "error"]),
            rows,
            caption: "R: elapsed time. Share: of the processor, for a ready job. Error: mean and largest error of R in the \
                      validation, within its range."
                .to_owned(),
        },
        PlainTable {
            columns: columns(&["blocked s", "C_j s", "C_s s", "wait ms"]),
            rows: parts,
            caption: "Blocked: of one job slot. C_j, C_s: processor time of the jobs, and of the system. Wait: of a call in \
                      the queue of its drive."
                .to_owned(),
        },
    ];
    let plots = vary.map(|vary| plot(figures, vary)).into_iter().collect();
    Page {
        title: format!("{}: estimate for {}", figures.workload, names.join(", ")),
        subtitle: String::new(),
        generated_by: VERSION.to_owned(),
        command: figures.command.clone(),
        notes,
        sections: vec![PageSection {
            title: "Stream of jobs".to_owned(),
            tables,
            plots,
            ..PageSection::default()
        }],
    }
}

fn plot(figures: &JobsEstimateFigures, vary: &Vary) -> Plot {
    let key = vary.text.split('=').next().unwrap_or_default();
    let mut series = Vec::new();
    for device in &figures.devices {
        let methods = device.points.first().map_or(0, |point| point.estimates.len());
        for method in 0..methods {
            let points = device
                .points
                .iter()
                .filter_map(|point| Some((f64::from(point.value?), point.estimates[method].elapsed_s)));
            let name = device.points[0].estimates[method].method;
            let name = match figures.devices.len() {
                1 => name.to_owned(),
                _ => format!("{} {name}", device.device),
            };
            series.push(PlotSeries::new(name, PlotMark::LineAndPoints, points.collect::<Vec<_>>()));
        }
    }
    Plot {
        title: format!("elapsed time over {key}"),
        caption: "Elapsed time of the stream by each method.".to_owned(),
        x: PlotAxis::new(key, vary.parameter.unit(), PlotScale::Linear),
        y: PlotAxis::new("elapsed time", "s", PlotScale::Linear),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> JobsSpec {
        let states = "5000/s:50%:45+38.75968992/s:50%:45";
        let line = format!("jobs,multiprogramming=2,buffer=8,call_time=7ms,input={states},output={states}");
        match WorkloadSpec::parse(&line) {
            Ok(WorkloadSpec::Jobs(spec)) => *spec,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn range_has_both_ends_and_at_most_sixteen_values() {
        let values = |text: &str| text.parse::<Vary>().unwrap().values;
        assert_eq!(values("threshold=1..8"), [1, 2, 3, 4, 5, 6, 7, 8]);
        let buffers = values("buffer=8..64");
        assert_eq!((buffers.len(), buffers[0], buffers[15]), (16, 8, 64));
        assert!(buffers.windows(2).all(|pair| pair[0] < pair[1]), "{buffers:?}");
        for (text, part) in [
            ("buffer", "no parameter with a range"),
            ("buffer=8", "no parameter with a range"),
            ("buffer=a..b", "no parameter with a range"),
            ("buffer=8..8", "is no range"),
            ("buffer=0..8", "is no range"),
            ("cycles=1..8", "one of buffer, threshold, multiprogramming"),
        ] {
            let error = text.parse::<Vary>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn times_of_the_drive_are_those_of_its_description() {
        let device = resolve("berkeley-1975", &Setup::default()).unwrap();
        let times = drive_times(&device, &spec(), Seed(1)).unwrap();
        assert!((times.access_s - 0.062).abs() < 1e-9, "{times:?}");
        assert!((times.sector_s - 0.001).abs() < 1e-9, "{times:?}");
    }

    #[test]
    fn elapsed_time_falls_with_the_buffer_as_in_figure_7() {
        let options = JobsEstimateOptions {
            devices: vec!["berkeley-1975".to_owned()],
            setup: Setup::default(),
            workload: "mix".to_owned(),
            spec: spec(),
            seed: Seed(1),
            vary: Some("buffer=8..12".parse().unwrap()),
            report: None,
        };
        let result = estimate_jobs(&Session::default(), &options).unwrap();
        let points = &result.figures.devices[0].points;
        for method in 0..2 {
            let elapsed_s: Vec<f64> = points.iter().map(|point| point.estimates[method].elapsed_s).collect();
            assert!(elapsed_s[0] > 1.02 * elapsed_s[4], "{elapsed_s:?}");
        }
        assert_eq!(result.page.sections[0].plots[0].series.len(), 3);
        let mut wrong = options;
        wrong.spec.threshold = Some(8);
        wrong.vary = Some("buffer=4..8".parse().unwrap());
        let error = estimate_jobs(&Session::default(), &wrong).unwrap_err().to_string();
        assert!(error.starts_with("--vary buffer=4..8: at 4: threshold"), "{error}");
    }
}
