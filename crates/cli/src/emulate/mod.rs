//! Emulating a device in real time, on a thread of its own.
//!
//! ```text
//! Wishes ─▶ start ─▶ Running ─┬─ clients come in by its doors
//!                             └▶ end ─▶ Outcome
//! ```

mod live;
mod observer;

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{ByteSize, Capabilities, Device, Duration, Instant, Seed};
use seeklab_emulator::clock::{
    Clock, ClockReport, DEFAULT_MARGIN, Pacing, Waited, Waiter, wake_this_thread_exactly,
};
use seeklab_emulator::emulation::{Emulation, Observe, Tally};
use seeklab_emulator::frontend::nbd::{Address, Export, Server, ServerOptions, Uri};
use seeklab_emulator::frontend::{Frontend, Frontends, Stop, serve};
use seeklab_emulator::pacer::{Mode, Options, Pacer};
use seeklab_emulator::store::{Access, Store, StoreError};

use crate::devices::{Resolved, Setup, customise, describe};
use crate::failure::Failure;
use live::{Live, Watched};

pub use observer::{Observer, Recorder, Sink};

/// What is asked for beside the device.
pub struct Wishes {
    /// Where NBD clients connect, if they may.
    pub nbd: Option<Address>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// How much processor time exactness may cost.
    pub pacing: Pacing,
    /// How the model is run against the wall clock.
    pub mode: Mode,
    /// Root of the model's random draws.
    pub seed: Seed,
    /// Takes every completed request.
    pub observe: Option<Observe>,
    /// Whether a line on stderr shows what happens.
    pub live: bool,
}

/// Where the bytes of the device live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreChoice {
    /// In memory, up to a cap; by default half of what is available.
    Ram(Option<ByteSize>),
    /// In a sparse file or on a block device, kept.
    File(PathBuf),
}

/// What an emulation amounted to.
#[derive(Debug)]
pub struct Outcome {
    /// Requests, times and lateness.
    pub tally: Tally,
    /// From the start to the end.
    pub elapsed: Duration,
    /// Processor time that it took.
    pub cpu: Duration,
    /// How it waited: what spinning has cost, and how often a sleep was too long.
    pub waited: Waited,
    /// How its clock did.
    pub clock: ClockReport,
    /// What the device holds now.
    pub store: Store,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = error.hint().map(|hint| hint.to_string());
        hint.into_iter().fold(Self::chain(&error), Self::hint)
    }
}

/// An emulation that serves clients.
#[derive(Debug)]
pub struct Running {
    uri: Option<Uri>,
    clock: Clock,
    stop: Stop,
    thread: JoinHandle<Result<Outcome, Failure>>,
}

impl Running {
    /// What NBD clients connect with.
    pub const fn uri(&self) -> Option<&Uri> {
        self.uri.as_ref()
    }

    /// Model time.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What it could not go on after, and a store that could not be flushed.
    pub fn wait(self) -> Result<Outcome, Failure> {
        self.thread.join().expect("an emulation does not panic")
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn end(self) -> Result<Outcome, Failure> {
        self.stop.stop();
        self.wait()
    }
}

/// What the thread has made before it serves.
struct Doors {
    uri: Option<Uri>,
    clock: Clock,
}

/// Emulates `device` over `store` from now on, model time zero, until `stop` is asked for.
///
/// # Errors
/// A device that cannot be served, and what cannot be opened or bound.
pub fn start(device: &Resolved, store: Store, wishes: Wishes, stop: &Stop) -> Result<Running, Failure> {
    let model = device.build(wishes.seed, "disk0")?;
    let title = device.description.header.title.clone();
    let (sender, receiver) = channel();
    let seen = stop.clone();
    let thread = std::thread::spawn(move || emulate(model, title, store, wishes, &seen, &sender));
    match receiver.recv() {
        Ok(Doors { uri, clock }) => Ok(Running { uri, clock, stop: stop.clone(), thread }),
        // It ended before it served.
        Err(_) => Err(thread.join().expect("an emulation does not panic").expect_err("it did not serve")),
    }
}

fn emulate(
    model: Box<dyn Device>,
    title: String,
    store: Store,
    wishes: Wishes,
    stop: &Stop,
    ready: &Sender<Doors>,
) -> Result<Outcome, Failure> {
    let capabilities = model.capabilities().clone();
    let clock = Clock::start();
    let export = Export {
        description: title,
        read_only: wishes.read_only,
        rotational: capabilities.rotational,
        ..Export::new("", store.size().as_bytes(), block_size(capabilities.block_size)?)
    };
    let mut frontends: Vec<Box<dyn Frontend>> = Vec::new();
    let mut uri = None;
    if let Some(address) = &wishes.nbd {
        let server = Server::bind(address, export, ServerOptions::default(), Box::new(move || clock.now()))
            .map_err(|error| Failure::from(error).context(format!("--nbd {address}")))?;
        uri = Some(server.uri());
        frontends.push(Box::new(server));
    }
    let options = Options { mode: wishes.mode, ..Options::default() };
    let mut emulation = Emulation::new(Pacer::new(model, options), store, clock);
    if let Some(observe) = wishes.observe {
        emulation = emulation.observed_by(observe);
    }
    let _ = wake_this_thread_exactly();
    let mut waiter = Waiter::new(clock, wishes.pacing, DEFAULT_MARGIN);
    let mut watched = Watched { emulation, live: Live::start(wishes.live), clock };
    let mut frontends = Frontends::new(frontends)?;
    // Whoever started it waits for this.
    let _ = ready.send(Doors { uri, clock });
    let result = serve(&mut frontends, &mut watched, &mut waiter, stop);
    let Watched { emulation, live, .. } = watched;
    drop(live);
    let elapsed = clock.now().saturating_since(Instant::ZERO);
    let tally = emulation.tally().clone();
    let store = emulation.into_store();
    let flushed = if wishes.read_only { Ok(()) } else { store.flush() };
    result?;
    flushed?;
    Ok(Outcome {
        tally,
        elapsed,
        cpu: thread_cpu_time(),
        waited: waiter.waited(),
        clock: clock.report(),
        store,
    })
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_s(time.tv_sec as u64) + Duration::from_ns(time.tv_nsec as u64)
}

/// A device of the same size and blocks that takes no time, to prepare what `device` holds at first.
///
/// # Errors
/// As [`customise`].
pub fn without_time(device: &Resolved) -> Result<Resolved, Failure> {
    let capabilities = capabilities_of(device)?;
    let overrides = vec![
        format!("capacity_blocks={}", capabilities.capacity_blocks),
        format!("block_size={}", capabilities.block_size),
    ];
    customise("immediate", describe("immediate")?, &Setup { bare: false, overrides, queue: None })
}

/// What `device` can do.
///
/// # Errors
/// As [`Resolved::build`].
pub fn capabilities_of(device: &Resolved) -> Result<Capabilities, Failure> {
    Ok(device.build(Seed(0), "disk0")?.capabilities().clone())
}

/// How many bytes of `device` clients get: as `wanted`, else all.
///
/// # Errors
/// A size that the device cannot have.
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

/// Opens the place of the bytes of a device of `size`.
///
/// # Errors
/// As [`Store::in_ram`] and [`Store::in_file`].
pub fn open_store(choice: &StoreChoice, size: ByteSize, read_only: bool) -> Result<Store, Failure> {
    Ok(match choice {
        StoreChoice::Ram(cap) => Store::in_ram(size, *cap)?,
        StoreChoice::File(path) => {
            let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
            Store::in_file(path, size, access)?
        }
    })
}

/// Interrupt, termination and hang-up stop an emulation in order.
///
/// # Errors
/// If signals cannot be handled; they can be once in a process.
pub fn stop_on_signals(stop: &Stop) -> Result<(), Failure> {
    let stop = stop.clone();
    ctrlc::set_handler(move || stop.stop())
        .map_err(|error| Failure::new(format!("signals cannot be handled: {error}")))
}
