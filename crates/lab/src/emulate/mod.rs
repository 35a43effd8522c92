//! Emulating a device in real time, on a thread of its own. [`serve`] does all of it; series use [`start`].
//!
//! ```text
//! StartOptions ─▶ start ─▶ Running ─┬─ clients connect to its frontends
//!                             └▶ end ─▶ Measurements
//! ```

mod calibrated;
mod classes;
mod contents;
mod endpoints;
mod feedback;
mod frontends;
mod host;
mod live;
mod observer;
mod pace;
pub(crate) mod passing;
mod serve;

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use seeklab_core::{ByteSize, Capabilities, Device, Duration, Instant, Seed};
use seeklab_emulator::clock::{
    Clock, KeptAwake, Pacing, Processors, Waited, Waiter, thread_cpu_time, wake_this_thread_exactly,
};
use seeklab_emulator::emulation::{Emulation, EmulationStatistics, Observe, TakeEvents, Tape};
use seeklab_emulator::frontend::fuse::DetachedFile;
use seeklab_emulator::frontend::loop_device::{LoopDevice, QueueOptions, Settings, is_attached};
use seeklab_emulator::frontend::nbd::Export;
use seeklab_emulator::frontend::{self, Endpoint, Frontends, Stop};
use seeklab_emulator::pacer::{self, Deadlines, Mode, Pacer};
use seeklab_emulator::store::{Store, StoreError, Transfers};

use crate::devices::{Faults, Resolved, Setup, customise, describe};
use crate::failure::Failure;
use crate::session::Session;
use classes::Classes;
use frontends::OpenFrontends;
use live::{Live, Watched};

pub use calibrated::Calibrated;
pub use classes::CriticalityFigures;
use contents::save;
pub use contents::{Contents, StoreChoice};
pub use endpoints::Endpoints;
pub use feedback::{Feedback, Follower, feedback};
pub use frontends::{DEFAULT_PROTOCOL, FrontendOptions};
pub use host::{HostFigures, HostFollowed, HostMessage, Joining, watch};
pub use observer::{Observer, Recorder, Sink};
pub use pace::{Pace, PaceOptions};
pub use serve::{EmulationOptions, EmulationResult, serve};

/// Options of an emulation, apart from the device.
pub struct StartOptions {
    /// Frontends that clients connect to.
    pub frontends: FrontendOptions,
    /// Drives that are emulated, each like the device. They lie one after the other in the contents.
    pub drives: u16,
    /// Refuse writes.
    pub read_only: bool,
    /// Accuracy of the emulation.
    pub pace: Pace,
    /// Root of the model's random draws.
    pub seed: Seed,
    /// Takes every completed request.
    pub observe: Option<Observe>,
    /// Takes every command with its bytes.
    pub tape: Option<Tape>,
    /// Takes every event inside the device.
    pub take_events: Option<TakeEvents>,
    /// Leave out of the contents in the end what faults of data made of them.
    pub pristine: bool,
    /// Feedback that adjusts the compensation, if the host's stamps are available.
    pub feedback: Option<Feedback>,
    /// Show a status line on stderr.
    pub live: bool,
}

/// Result of an emulation.
#[derive(Debug)]
pub struct Measurements {
    /// Requests, times and lateness.
    pub statistics: EmulationStatistics,
    /// From the start to the end.
    pub elapsed: Duration,
    /// Processor time that it took.
    pub cpu: Duration,
    /// The shortest response time that can be emulated here, if it is known.
    pub floor: Option<Duration>,
    /// Lateness beyond which a deadline counts as missed.
    pub deadline_limit: Duration,
    /// Statistics of waiting: cost of spinning, and number of sleeps that were too long.
    pub waited: Waited,
    /// State of idle processors during the measurement.
    pub processors: Processors,
    /// Contents of the device at the end.
    pub store: Store,
    /// Figures of the classes of requests, if the host was followed for them.
    pub criticality: Option<CriticalityFigures>,
    /// Refusal of bytes that the store should have and has not. The other results are valid.
    pub refusal: Option<Failure>,
}

impl Measurements {
    /// Returns the measurements of a device whose contents are complete.
    ///
    /// # Errors
    /// Bytes that the store refused.
    pub fn complete(mut self) -> Result<Self, Failure> {
        self.refusal.take().map_or(Ok(self), Err)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = error.hint().map(|hint| hint.to_string());
        hint.into_iter().fold(Self::chain(&error), Self::hint)
    }
}

/// An emulation that serves clients.
#[derive(Debug)]
pub struct Running<O = Measurements> {
    endpoints: Endpoints,
    block: Option<LoopDevice>,
    clock: Clock,
    stop: Stop,
    /// Number of the thread that serves.
    thread_number: u32,
    thread: JoinHandle<Result<O, Failure>>,
}

impl<O> Running<O> {
    /// Returns the places where clients reach the device.
    pub const fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The block device of the host.
    pub const fn block(&self) -> Option<&LoopDevice> {
        self.block.as_ref()
    }

    /// Model time.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the number of the thread that serves, as the kernel counts threads.
    pub const fn thread_number(&self) -> u32 {
        self.thread_number
    }

    /// Serves until the caller stops it, or until it cannot go on. A block device that is still mounted or open is
    /// served until it no longer is, or until a second request to stop.
    pub fn until_stopped(&mut self, session: &Session) {
        let mut watch = session.stop().watch();
        let mut over = || watch.next(LOOK) || self.thread.is_finished();
        while !over() {}
        let Some(block) = self.block.take() else { return };
        let path = block.path().to_owned();
        if block.detach() || self.thread.is_finished() {
            return;
        }
        session.remark(format!(
            "{} is still in use: it is served until it is unmounted, or until a second signal",
            path.display()
        ));
        while is_attached(&path) && !over() {}
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// A failure that ended the emulation, or a store that could not be flushed.
    pub fn end(mut self) -> Result<O, Failure> {
        // What the host still holds of the block device is written while it is served.
        if let Some(block) = self.block.take() {
            block.detach();
        }
        self.stop.stop();
        self.thread.join().expect("an emulation does not panic")
    }
}

/// Interval at which the end of serving is checked.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);

/// Resources that the thread has opened before it serves.
struct Opened {
    endpoints: Vec<Endpoint>,
    file: Option<DetachedFile>,
    clock: Clock,
    thread_number: u32,
}

/// Emulates `device` over `store` until `stop` is set. Model time zero is now.
///
/// # Errors
/// A device that cannot be served, and resources that cannot be opened or bound.
pub fn start(
    session: &Session,
    device: &Resolved,
    store: Store,
    options: StartOptions,
    stop: &Stop,
) -> Result<Running, Failure> {
    if device.description.device_numbers()?.is_some() {
        return Err(Failure::new(format!(
            "{}: several devices in one description are simulated, not emulated",
            device.label()
        ))
        .hint("write one of its `[[devices]]` to a file of its own"));
    }
    let session = session.clone();
    let model: Box<dyn Device> = match options.drives {
        1 => device.build(options.seed, "disk0")?,
        _ => Box::new(device.build_bank(options.seed)?),
    };
    if options.drives > 1 && model.hazards().fails {
        return Err(Failure::new(format!("{}: a device with faults is emulated alone", device.label()))
            .hint("write `drives = 1`, or leave out the faults"));
    }
    let title = device.description.header.title.clone();
    let (seen, block) = (stop.clone(), options.frontends.block.clone());
    let read_only = options.read_only;
    let block_size_bytes = block_size(model.capabilities().block_size)?;
    let settings = block.map(|queue| Settings { block_size_bytes, read_only, queue });
    let block_size = model.capabilities().block_size;
    let followed = options.frontends.criticality.map(|rule| classes::follow(rule, block_size));
    let (following, classes) = followed.unzip();
    let parts = Parts { model, title, store, classes };
    let running = run_beside(stop, settings, move |ready| emulate(&session, parts, options, &seen, ready))?;
    if let (Some(following), Some(block)) = (following, running.block())
        && let Err(failure) = following.begin(block.path())
    {
        let _ = running.end();
        return Err(failure);
    }
    Ok(running)
}

/// Runs what serves on a thread of its own, and makes a block device of it once it does.
fn run_beside<O: Send + 'static>(
    stop: &Stop,
    block: Option<Settings>,
    serve: impl FnOnce(&Sender<Opened>) -> Result<O, Failure> + Send + 'static,
) -> Result<Running<O>, Failure> {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || serve(&sender));
    let Ok(Opened { endpoints, file, clock, thread_number }) = receiver.recv() else {
        // It ended before it served.
        let Err(failure) = thread.join().expect("an emulation does not panic") else {
            return Err(Failure::new("the emulation ended before it was ready"));
        };
        return Err(failure);
    };
    let endpoints = Endpoints(endpoints);
    let mut running = Running { endpoints, block: None, clock, stop: stop.clone(), thread_number, thread };
    if let (Some(settings), Some(file)) = (block, file) {
        match LoopDevice::attach(&file, &settings) {
            Ok(block) => {
                running.endpoints.0.insert(0, block.endpoint());
                running.block = Some(block);
            }
            Err(error) => {
                let _ = running.end();
                return Err(Failure::from(error).context("no block device can be made"));
            }
        }
    }
    Ok(running)
}

/// Parts of an emulation beside its options.
struct Parts {
    model: Box<dyn Device>,
    /// Title of the device.
    title: String,
    store: Store,
    /// Source of the classes of requests, if they have any.
    classes: Option<Classes>,
}

fn emulate(
    session: &Session,
    parts: Parts,
    options: StartOptions,
    stop: &Stop,
    ready: &Sender<Opened>,
) -> Result<Measurements, Failure> {
    let Parts { model, title, store, classes } = parts;
    let capabilities = model.capabilities().clone();
    let clock = Clock::start();
    let export_block_bytes = block_size(capabilities.block_size)?;
    let export = Export {
        description: title,
        read_only: options.read_only,
        rotational: capabilities.rotational,
        keeps_writes: model.hazards().fails,
        is_in_memory: matches!(store, Store::Ram(_)),
        ..Export::new("", store.size().as_bytes(), export_block_bytes)
    };
    let OpenFrontends { frontends, endpoints, file } = options.frontends.open(&export, clock)?;
    let held = KeptAwake::under(options.pace.pacing);
    let correction = options.pace.calibrated.correction(export_block_bytes, options.pace.pacing);
    let mut compensation = correction.compensation;
    if let Some(lookahead) = options.pace.lookahead {
        compensation = compensation.with_lookahead(lookahead);
    }
    let pacer_options = pacer::Options {
        mode: options.pace.mode,
        compensation,
        run_behind: true,
        ..pacer::Options::default()
    };
    let drive_blocks = (options.drives > 1)
        .then(|| store.size().as_bytes() / u64::from(options.drives) / u64::from(export_block_bytes));
    let transfers = transfers(session, &store, clock);
    let mut emulation = Emulation::new(Pacer::new(model, pacer_options), store, clock).over(transfers);
    if let Some(blocks) = drive_blocks {
        emulation = emulation.of_drives(blocks);
    }
    emulation = emulation.failing(options.pristine)?;
    if let Some(take_events) = options.take_events {
        emulation = emulation.telling(take_events);
    }
    let floor = correction.floor.unwrap_or_default();
    emulation = emulation.judged_by(Deadlines::new(options.pace.deadline_limit, floor));
    if let Some(send_cost) = correction.send_cost.filter(|_| options.feedback.is_none()) {
        emulation = emulation.following(send_cost);
    }
    let mut observe = options.observe;
    let mut class_result = None;
    if let Some(classes) = classes {
        let (source, observing, result) = classes.into_parts(clock, observe);
        emulation = emulation.classified_by(source);
        (observe, class_result) = (Some(observing), Some(result));
    }
    if let Some(observe) = observe {
        emulation = emulation.observed_by(observe);
    }
    if let Some(tape) = options.tape {
        emulation = emulation.taped_by(tape);
    }
    if options.pace.pacing != Pacing::Frugal {
        emulation = emulation.prepares_ahead();
    }
    let _ = wake_this_thread_exactly();
    let mut waiter = Waiter::new(clock, options.pace.pacing, correction.margin);
    let mut watched = Watched {
        emulation,
        live: Live::start(options.live.then(|| session.figures("serving"))),
        feedback: options.feedback,
        clock,
    };
    let mut frontends = Frontends::new(frontends)?;
    // Whoever started it waits for this.
    let thread_number = rustix::thread::gettid().as_raw_pid().cast_unsigned();
    let _ = ready.send(Opened { endpoints, file, clock, thread_number });
    let result = frontend::serve(&mut frontends, &mut watched, &mut waiter, stop);
    let processors = KeptAwake::processors(held.as_ref());
    drop(held);
    let Watched { emulation, live, .. } = watched;
    drop(live);
    let elapsed = clock.now().saturating_since(Instant::ZERO);
    let (statistics, store, kept) = emulation.finish();
    let criticality = class_result.map(|result| result.figures(statistics.missed_changes));
    result?;
    if !options.read_only {
        store.flush()?;
    }
    let refusal = kept.err().map(|error| Failure::from(error).context("the contents are incomplete"));
    Ok(Measurements {
        statistics,
        elapsed,
        cpu: thread_cpu_time(),
        floor: correction.floor,
        deadline_limit: options.pace.deadline_limit,
        waited: waiter.waited(),
        processors,
        store,
        criticality,
        refusal,
    })
}

/// Returns the transfers of data to a store in a file. Without them, data is transferred synchronously.
fn transfers(session: &Session, store: &Store, clock: Clock) -> Option<Transfers> {
    let Store::File(file) = store else { return None };
    Transfers::over(file, clock)
        .inspect_err(|error| {
            session.remark(format!(
                "note: {}: is read and written synchronously, so replies wait for each other's data: io_uring cannot \
                 be used here: {error}",
                file.path().display()
            ));
        })
        .ok()
}

/// Serves `store` as a block device of the size and the blocks of `device` that takes no time.
///
/// # Errors
/// As [`start`].
pub fn start_without_time(session: &Session, device: &Resolved, store: Store) -> Result<Running, Failure> {
    start_with_faults(session, device, Faults::default(), store)
}

/// As [`start_without_time`], with faults of the device.
pub(crate) fn start_with_faults(
    session: &Session,
    device: &Resolved,
    faults: Faults,
    store: Store,
) -> Result<Running, Failure> {
    let options = StartOptions {
        frontends: FrontendOptions {
            block: Some(QueueOptions::of_device(false)),
            ..FrontendOptions::default()
        },
        drives: 1,
        read_only: false,
        pace: Pace { mode: Mode::RunToCompletion, ..Pace::default() },
        seed: Seed(0),
        observe: None,
        tape: None,
        take_events: None,
        pristine: false,
        feedback: None,
        live: false,
    };
    start(session, &without_time(device, faults)?, store, options, &Stop::new()?)
}

/// A device of the same size and blocks that takes no time, with those faults.
///
/// # Errors
/// As [`customise`].
pub fn without_time(device: &Resolved, faults: Faults) -> Result<Resolved, Failure> {
    let capabilities = capabilities_of(device)?;
    let overrides = vec![
        format!("capacity_blocks={}", capabilities.capacity_blocks),
        format!("block_size={}", capabilities.block_size),
    ];
    customise("immediate", describe("immediate")?, &Setup { overrides, faults, ..Setup::default() })
}

/// Returns the capabilities of `device`.
///
/// # Errors
/// As [`Resolved::build`].
pub fn capabilities_of(device: &Resolved) -> Result<Capabilities, Failure> {
    Ok(device.build(Seed(0), "disk0")?.capabilities().clone())
}

/// Returns the number of bytes of `device` that clients get [default: the whole capacity].
///
/// # Errors
/// A size that the device cannot have, and faults of blocks beyond it.
pub fn exported_size(device: &Resolved, wanted: Option<ByteSize>) -> Result<ByteSize, Failure> {
    let capabilities = capabilities_of(device)?;
    let (capacity, block_size) = (capabilities.capacity(), capabilities.block_size);
    let Some(size) = wanted else { return Ok(capacity) };
    let (bytes, block) = (size.as_bytes(), block_size.as_bytes());
    if bytes == 0 || bytes > capacity.as_bytes() || !bytes.is_multiple_of(block) {
        return Err(Failure::new(format!(
            "--size {size}: `{}` cannot be exported in that size",
            device.name
        ))
        .hint(format!("a multiple of {block_size}, at most its capacity of {capacity}")));
    }
    device.check_served(size)?;
    Ok(size)
}

fn block_size(size: ByteSize) -> Result<u32, Failure> {
    u32::try_from(size.as_bytes())
        .ok()
        .filter(|bytes| bytes.is_power_of_two() && *bytes <= 64 << 10)
        .ok_or_else(|| {
            Failure::new(format!("a device with blocks of {size} cannot be served"))
                .hint("clients take blocks of a power of two up to 64KiB")
        })
}
