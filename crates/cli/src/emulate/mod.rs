//! Emulating a device in real time, on a thread of its own.
//!
//! ```text
//! Wishes ─▶ start ─▶ Running ─┬─ clients come in by its doors
//!                             └▶ end ─▶ Outcome
//! ```

mod doors;
mod live;
mod observer;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{ByteSize, Capabilities, Device, Duration, Instant, Seed};
use seeklab_emulator::clock::{Clock, DEFAULT_MARGIN, Pacing, Waiter, wake_this_thread_exactly};
use seeklab_emulator::emulation::{Emulation, Observe, Tally};
use seeklab_emulator::frontend::loop_device::{LoopDevice, QueueWishes};
use seeklab_emulator::frontend::nbd::{Address, Export, Uri};
use seeklab_emulator::frontend::{Stop, Waiting, serve};
use seeklab_emulator::pacer::{Mode, Options, Pacer};
use seeklab_emulator::store::{Access, Store, StoreError};

use crate::devices::{Resolved, Setup, customise, describe};
use crate::failure::Failure;
use doors::{Doors, Opened};
use live::{Live, Watched};

pub use observer::{Observer, Recorder, Sink};

/// What is asked for beside the device.
pub struct Wishes {
    /// Where NBD clients connect, if they may.
    pub nbd: Option<Address>,
    /// An empty directory in which the device appears as a file, if it shall.
    pub fuse: Option<PathBuf>,
    /// How the host treats the block device, if there shall be one. What is not said is as the device has it.
    pub block: Option<QueueWishes>,
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
    /// What the device holds now.
    pub store: Store,
    /// The block device, if somebody still used it when serving ended: what they had not written is lost.
    pub in_use: Option<PathBuf>,
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
    file: Option<PathBuf>,
    block: Option<LoopDevice>,
    clock: Clock,
    /// Asks it to end, or says that it has ended by itself.
    asked: Stop,
    /// Ends serving, once nothing that is served is needed any more.
    stop: Stop,
    thread: JoinHandle<Result<Outcome, Failure>>,
}

impl Running {
    /// What NBD clients connect with.
    pub const fn uri(&self) -> Option<&Uri> {
        self.uri.as_ref()
    }

    /// The device as a file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The device as a block device of the kernel.
    pub const fn block(&self) -> Option<&LoopDevice> {
        self.block.as_ref()
    }

    /// Model time.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Waits until it is asked to end, and ends it in order: what was written to the block device and not sent
    /// yet goes to the device before serving ends.
    ///
    /// # Errors
    /// What it could not go on after, and a store that could not be flushed.
    pub fn wait(self) -> Result<Outcome, Failure> {
        doors::wait_for(&self.asked)?;
        let in_use = self.block.and_then(doors::close);
        self.stop.stop();
        let outcome = join(self.thread)?;
        Ok(Outcome { in_use, ..outcome })
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn end(self) -> Result<Outcome, Failure> {
        self.asked.stop();
        self.wait()
    }
}

fn join(thread: JoinHandle<Result<Outcome, Failure>>) -> Result<Outcome, Failure> {
    thread.join().expect("an emulation does not panic")
}

/// Emulates `device` over `store` from now on, model time zero, until `asked` says so.
///
/// # Errors
/// A device that cannot be served, and what cannot be opened, bound, mounted or attached.
pub fn start(device: &Resolved, store: Store, wishes: Wishes, asked: &Stop) -> Result<Running, Failure> {
    let model = device.build(wishes.seed, "disk0")?;
    let title = device.description.header.title.clone();
    let capabilities = model.capabilities().clone();
    let block = wishes.block.clone();
    let block = block.map(|queue| doors::settings(&capabilities, wishes.read_only, queue)).transpose()?;
    let stop = Stop::new()?;
    let (sender, receiver) = channel();
    let (inner, outer) = (stop.clone(), asked.clone());
    let thread = std::thread::spawn(move || {
        let outcome = emulate(model, title, store, wishes, &inner, &sender);
        outer.stop();
        outcome
    });
    let Ok((Doors { uri, file, detached }, clock)) = receiver.recv() else {
        // It ended before it served.
        return Err(join(thread).expect_err("it did not serve"));
    };
    let block = match doors::attach(detached, block) {
        Ok(block) => block,
        Err(failure) => {
            stop.stop();
            // Why there is no block device is the cause of the rest.
            let _ = join(thread);
            return Err(failure);
        }
    };
    Ok(Running { uri, file, block, clock, asked: asked.clone(), stop, thread })
}

fn emulate(
    model: Box<dyn Device>,
    title: String,
    store: Store,
    wishes: Wishes,
    stop: &Stop,
    ready: &Sender<(Doors, Clock)>,
) -> Result<Outcome, Failure> {
    let capabilities = model.capabilities().clone();
    let clock = Clock::start();
    let export = Export {
        description: title,
        read_only: wishes.read_only,
        rotational: capabilities.rotational,
        ..Export::new("", store.size().as_bytes(), block_size(capabilities.block_size)?)
    };
    let Opened { mut frontends, doors } = doors::open(&wishes, export, clock)?;
    let options = Options { mode: wishes.mode, run_behind: true, ..Options::default() };
    let mut emulation = Emulation::new(Pacer::new(model, options), store, clock);
    if let Some(observe) = wishes.observe {
        emulation = emulation.observed_by(observe);
    }
    if wishes.pacing != Pacing::Frugal {
        emulation = emulation.prepares_ahead();
    }
    let _ = wake_this_thread_exactly();
    let waiter = Waiter::new(clock, wishes.pacing, DEFAULT_MARGIN);
    let waiting = Waiting { margin: waiter.margin(), spin: wishes.pacing != Pacing::Frugal };
    let mut watched = Watched { emulation, live: Live::start(wishes.live), clock };
    // Whoever started it waits for this.
    let _ = ready.send((doors, clock));
    let result = serve(&mut frontends, &mut watched, &|| clock.now(), waiting, stop);
    let Watched { emulation, live, .. } = watched;
    drop(live);
    let elapsed = clock.now().saturating_since(Instant::ZERO);
    let (tally, store) = emulation.finish();
    let flushed = if wishes.read_only { Ok(()) } else { store.flush() };
    result?;
    flushed?;
    Ok(Outcome { tally, elapsed, cpu: thread_cpu_time(), store, in_use: None })
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
