//! Serving an emulated device until the caller stops it.
//!
//! ```text
//! EmulationOptions ─▶ serve ─┬─ on_ready(Endpoints): clients connect
//!                            └▶ after Stop::stop: EmulationResult, which is also the JSON document
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_analysis::{Evidence, MissCounts, Trust};
use seeklab_core::statistics::Distribution;
use seeklab_core::{ByteSize, Duration, MissCause, Seed};
use seeklab_emulator::clock::Processors;
use seeklab_emulator::frontend::Stop;
use seeklab_emulator::frontend::loop_device::{Queue, QueueOptions};
use seeklab_emulator::store::Store;
use seeklab_files::check_distinct;
use serde::Serialize;

use super::{
    Contents, CriticalityFigures, Endpoints, FrontendOptions, HostFigures, HostFollowed, Measurements,
    Observer, Pace, PaceOptions, Recorder, StartOptions, StoreChoice, capabilities_of, exported_size, start,
};
use crate::devices::Resolved;
use crate::events::{EventFile, EventWriter};
use crate::failure::Failure;
use crate::fitted_range::FittedRangeFigures;
use crate::output::VERSION;
use crate::run::metadata;
use crate::session::{Held, Session};

/// Options of an emulation.
#[derive(Debug, Clone)]
pub struct EmulationOptions {
    /// Device to emulate.
    pub device: Resolved,
    /// Frontends that clients connect to [default: an NBD socket in the temporary folder].
    pub frontends: FrontendOptions,
    /// Bytes to export [default: the whole device].
    pub size: Option<ByteSize>,
    /// Initial contents, and the place where the bytes live.
    pub contents: Contents,
    /// Accuracy of the emulation.
    pub pace: PaceOptions,
    /// Measure the compensation of the block device from the host's own time stamps.
    pub follow_host: bool,
    /// Trace of all requests.
    pub record: Option<PathBuf>,
    /// File of the events inside the device.
    pub events: Option<PathBuf>,
    /// Leave out of the contents in the end what faults of data made of them. For a store in memory.
    pub pristine: bool,
    /// Seed of the model's random draws.
    pub seed: Seed,
}

impl EmulationOptions {
    /// The options for `device` with all defaults: a RAM store, an NBD socket, no trace.
    pub fn new(device: Resolved) -> Self {
        Self {
            device,
            frontends: FrontendOptions::default(),
            size: None,
            contents: Contents::default(),
            pace: PaceOptions::default(),
            follow_host: false,
            record: None,
            events: None,
            pristine: false,
            seed: Seed(1),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        self.frontends.check()?;
        if self.follow_host && self.frontends.block.is_none() {
            return Err(Failure::new("--follow-host: the device is not served as a block device")
                .hint("add --block, or leave out --follow-host"));
        }
        let lack = self.frontends.block.as_ref().and_then(QueueOptions::unavailability);
        if let Some((what, remedy)) = lack {
            return Err(Failure::new(what).hint(remedy));
        }
        if self.pristine && self.contents.store != StoreChoice::Ram(None) {
            return Err(Failure::new(
                "--pristine: the store is a file, which holds what faults made of its data",
            )
            .hint("leave out --store, or --pristine"));
        }
        let Some(path) = &self.record else { return Ok(()) };
        let read = [PathBuf::from(&self.device.name)].into_iter().chain(self.contents.image.clone());
        Ok(check_distinct(path, read)?)
    }

    fn recorder(&self, session: &Session, pace: &Pace) -> Result<Option<Recorder>, Failure> {
        let Some(path) = &self.record else { return Ok(None) };
        let mut metadata = metadata(&self.device, &capabilities_of(&self.device)?, self.seed);
        pace.describe(&mut metadata);
        Ok(Some(Recorder::new(session.create_saved_trace(path, &metadata)?)))
    }
}

/// Result of an emulation. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EmulationResult {
    /// Name of the device.
    pub device: String,
    /// Seed of the model's random draws.
    pub seed: Seed,
    /// Program and version.
    pub version: &'static str,
    /// Time from the start to the end.
    pub elapsed_s: f64,
    /// Requests that the model answered.
    pub requests: u64,
    /// Requests that the store refused.
    pub refused_requests: u64,
    /// Requests that the model failed.
    pub failed_requests: u64,
    /// Replies that were never sent, because the client had disconnected.
    pub undelivered_replies: u64,
    /// Mean time from arrival to reply of requests that the model did not fail.
    pub response_mean_ms: Option<f64>,
    /// Median time from arrival to reply of requests that the model did not fail.
    pub response_p50_ms: Option<f64>,
    /// 99th percentile of the time from arrival to reply of requests that the model did not fail.
    pub response_p99_ms: Option<f64>,
    /// Longest time from arrival to reply of requests that the model did not fail.
    pub response_max_ms: Option<f64>,
    /// Median lateness of replies.
    pub lateness_p50_us: Option<f64>,
    /// 90th percentile of the lateness of replies.
    pub lateness_p90_us: Option<f64>,
    /// 99th percentile of the lateness of replies.
    pub lateness_p99_us: Option<f64>,
    /// Greatest lateness of a reply.
    pub lateness_max_us: Option<f64>,
    /// Missed deadlines by cause.
    #[schemars(with = "MissCounts")]
    pub deadline_misses: BTreeMap<MissCause, u64>,
    /// Requests of a kind with which the model was not compared with a measurement. Of a fitted model, requests
    /// outside the region of its fit.
    pub out_of_validated_range: u64,
    /// Requests outside of the loads that a clone was fitted to, by what they lie outside of. `None` of other devices.
    pub fitted_range: Option<FittedRangeFigures>,
    /// Requests that are missing in the trace.
    pub unrecorded_requests: u64,
    /// Processor time of the emulating thread.
    pub emulator_cpu_s: f64,
    /// State of idle processors during the emulation.
    pub processors: Processors,
    /// Settings of the host's queue, read back from the kernel. `None` without a block device.
    pub host_queue: Option<Queue>,
    /// Response times in the host. `None` unless the host was followed.
    pub host: Option<HostFigures>,
    /// Figures of the classes of requests. `None` without `--criticality`.
    pub criticality: Option<CriticalityFigures>,
    /// Trustworthiness of the emulation.
    #[serde(flatten)]
    pub trust: Trust,
    /// Notes on the result.
    pub notes: Vec<String>,
    /// Contents of the device at the end.
    #[serde(skip)]
    pub store: Store,
    #[serde(skip)]
    _held: Held,
    /// Failure to write the trace or to follow the host, or bytes that the store refused. The other results are valid.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

impl EmulationResult {
    /// Saves the contents of the device as a raw image at `path`. If that fails, saves them in the temporary
    /// folder instead.
    ///
    /// # Errors
    /// If the image could not be written at `path`; the message names the file that holds the contents instead, if
    /// any.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        super::save(&self.store, path)
    }

    fn new(options: &EmulationOptions, measured: Measurements, observed: Observed, held: Held) -> Self {
        let statistics = &measured.statistics;
        let (response, lateness) = (&statistics.response, statistics.deadlines.lateness());
        let (ms, us) = (Duration::as_ms, Duration::as_us);
        let max_ns = |times: &Distribution| times.moments().max();
        let device = &options.device;
        Self {
            device: device.name.clone(),
            seed: options.seed,
            version: VERSION,
            elapsed_s: measured.elapsed.as_s(),
            requests: statistics.requests,
            refused_requests: statistics.refused,
            failed_requests: statistics.failed_requests,
            undelivered_replies: statistics.undelivered_replies,
            response_mean_ms: response.moments().mean().map(|ns| ns / 1e6),
            response_p50_ms: response.quantile(0.5).map(ms),
            response_p99_ms: response.quantile(0.99).map(ms),
            response_max_ms: max_ns(response).map(|ns| ns / 1e6),
            lateness_p50_us: lateness.quantile(0.5).map(us),
            lateness_p90_us: lateness.quantile(0.9).map(us),
            lateness_p99_us: lateness.quantile(0.99).map(us),
            lateness_max_us: max_ns(lateness).map(|ns| ns / 1e3),
            deadline_misses: MissCause::ALL
                .map(|cause| (cause, statistics.deadlines.missed(cause)))
                .into_iter()
                .collect(),
            out_of_validated_range: device.out_of_validated_range(
                statistics.coverage,
                statistics.requests,
                statistics.transfers,
            ),
            fitted_range: statistics.coverage.as_ref().map(FittedRangeFigures::of),
            unrecorded_requests: observed.unrecorded_requests,
            emulator_cpu_s: measured.cpu.as_s(),
            processors: measured.processors,
            host_queue: observed.host_queue,
            host: observed.host,
            criticality: measured.criticality.clone(),
            trust: evidence(&measured, observed.host).trust(),
            notes: device.outside_note(statistics.coverage).into_iter().collect(),
            failure: observed.failure,
            store: measured.store,
            _held: held,
        }
    }
}

/// Returns the evidence for the accuracy of the run. Without `host`, the errors at the host are unknown.
fn evidence(measured: &Measurements, host: Option<HostFigures>) -> Evidence {
    let statistics = &measured.statistics;
    let deadlines = &statistics.deadlines;
    let mean_ms = |times: &Distribution| times.moments().mean().map(|ns| ns / 1e6);
    let possible = statistics.requests - deadlines.below_floor().min(statistics.requests);
    let matched = host.filter(|host| host.requests > 0);
    Evidence {
        requests: statistics.requests,
        model_mean_ms: matched
            .map_or_else(|| mean_ms(&statistics.modelled).unwrap_or_default(), |host| host.model_mean_ms),
        host_error_ms: matched.map(|host| host.ei_avg_ms),
        unmatched: host.map(|host| host.unmatched),
        reply_error_ms: mean_ms(deadlines.lateness()),
        limit: measured.deadline_limit,
        beyond_limit_pct: (possible > 0)
            .then(|| 100.0 * deadlines.missed_above_floor() as f64 / possible as f64),
        misses: MissCounts::new(MissCause::ALL.map(|cause| deadlines.missed(cause))),
        below_floor: measured.floor.map(|_| deadlines.below_floor()),
        coverage: statistics.coverage,
    }
}

/// Observation of the requests of an emulation.
enum Observation {
    /// Nothing is observed.
    None,
    /// The requests are written to a trace.
    Recorded(Observer<Recorder>),
    /// The requests are joined with the host's, and written if there is a trace.
    Followed(HostFollowed),
}

/// Result of an observation.
#[derive(Default)]
struct Observed {
    host_queue: Option<Queue>,
    host: Option<HostFigures>,
    unrecorded_requests: u64,
    failure: Option<Failure>,
}

impl Observation {
    fn finish(self) -> Observed {
        match self {
            Self::None => Observed::default(),
            Self::Recorded(observer) => {
                let (written, unrecorded_requests) = observer.finish();
                Observed {
                    unrecorded_requests,
                    failure: written.err().map(Failure::from),
                    ..Observed::default()
                }
            }
            Self::Followed(host) => match host.finish() {
                Ok((host, unrecorded_requests)) => {
                    Observed { host: Some(host), unrecorded_requests, ..Observed::default() }
                }
                Err(failure) => Observed { failure: Some(failure), ..Observed::default() },
            },
        }
    }
}

/// Emulates a device until the caller stops it. Calls `on_ready` on this thread once clients can connect; the
/// device is served meanwhile.
///
/// A block device that is still mounted or open is served until it no longer is, or until a second request to
/// stop.
///
/// # Errors
/// Options that contradict each other or the device; resources that cannot be opened or bound; errors of
/// `on_ready`, which end the emulation; a store that could not be flushed. A trace that cannot be written is part
/// of the result.
pub fn serve(
    session: &Session,
    options: &EmulationOptions,
    on_ready: impl FnOnce(&Endpoints) -> Result<(), Failure>,
) -> Result<EmulationResult, Failure> {
    options.check()?;
    let capabilities = capabilities_of(&options.device)?;
    let store = options.contents.open(exported_size(&options.device, options.size)?)?;
    let held = session.hold();
    let mut frontends = options.frontends.clone().or_own_socket()?;
    let default_queue = QueueOptions::of_device(capabilities.rotational);
    frontends.block = frontends.block.map(|queue| queue.or(default_queue));
    let pace = options.pace.load(session, frontends.kind())?;
    let recorder = options.recorder(session, &pace)?;
    let events = options.events.as_deref().map(|path| EventFile::create(session, path)).transpose()?;
    let events = events.map(EventFile::beside);
    let mut start_options = StartOptions {
        frontends,
        drives: 1,
        read_only: options.contents.read_only,
        pace,
        seed: options.seed,
        observe: None,
        tape: None,
        take_events: events.as_ref().map(EventWriter::take),
        pristine: options.pristine,
        feedback: None,
        live: true,
    };
    let mut observation = if options.follow_host {
        let block_bytes = capabilities.block_size.as_bytes() as u32;
        let (host, feedback) = HostFollowed::prepare(block_bytes, recorder);
        start_options.observe = Some(host.observe());
        start_options.feedback = Some(feedback);
        Observation::Followed(host)
    } else if let Some(recorder) = recorder {
        let observer = Observer::start(recorder);
        start_options.observe = Some(observer.observe());
        Observation::Recorded(observer)
    } else {
        Observation::None
    };
    let mut running = start(session, &options.device, store, start_options, &Stop::new()?)?;
    let began = match &mut observation {
        Observation::Followed(host) => {
            host.watch(&running).map_err(|failure| failure.context("--follow-host"))
        }
        _ => Ok(()),
    };
    if let Err(failure) = began.and_then(|()| on_ready(running.endpoints())) {
        let _ = running.end();
        return Err(failure);
    }
    let host_queue = running.block().map(|block| block.queue().clone());
    running.until_stopped(session);
    let mut measured = running.end()?;
    let mut observed = Observed { host_queue, ..observation.finish() };
    if let Some(refusal) = measured.refusal.take() {
        observed.failure.get_or_insert(refusal);
    }
    if let Some(Err(failure)) = events.map(EventWriter::finish) {
        observed.failure.get_or_insert(failure);
    }
    Ok(EmulationResult::new(options, measured, observed, held))
}
