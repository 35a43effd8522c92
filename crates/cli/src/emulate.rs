//! Emulating a device behind a frontend until somebody ends it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use indicatif::{ProgressBar, ProgressStyle};
use seeklab_core::{ByteSize, Device, Duration, Instant, Seed, TraceRecord};
use seeklab_emulator::clock::{Clock, DEFAULT_MARGIN, Pacing, Waiter, wake_this_thread_exactly};
use seeklab_emulator::emulation::{Emulation, Tally};
use seeklab_emulator::frontend::nbd::{Address, Export, Server, ServerOptions};
use seeklab_emulator::frontend::{Backend, Command, Frontend, Stop, Tag, serve};
use seeklab_emulator::pacer::{Mode, Options, Pacer};
use seeklab_emulator::store::{Access, Store, StoreError};
use seeklab_traces::{TraceError, TraceWriter};

use crate::devices::Resolved;
use crate::failure::Failure;
use crate::run::metadata;

/// What is asked for beside the device.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// Where clients connect.
    pub address: Address,
    /// Bytes exported; all of the device if `None`.
    pub size: Option<ByteSize>,
    /// Where the bytes live.
    pub store: StoreChoice,
    /// What the device holds at first.
    pub image: Option<PathBuf>,
    /// Where to keep what it holds at the end.
    pub save: Option<PathBuf>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// How much processor time exactness may cost.
    pub pacing: Pacing,
    /// How the model is run against the wall clock.
    pub mode: Mode,
    /// The trace to write.
    pub record: Option<PathBuf>,
    /// Root of the model's random draws.
    pub seed: Seed,
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
    /// Requests missing in the trace, since it could not be written fast enough.
    pub not_recorded: u64,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = error.hint().map(|hint| hint.to_string());
        hint.into_iter().fold(Self::chain(&error), Self::hint)
    }
}

/// Emulates `device` until it is interrupted; `ready` is told where clients connect.
///
/// # Errors
/// What cannot be opened, bound or written.
pub fn emulate(
    device: &Resolved,
    wishes: &Wishes,
    ready: impl FnOnce(&Server) -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    let model = device.build(wishes.seed, "disk0")?;
    let capabilities = model.capabilities().clone();
    let size = exported_size(device, &capabilities.capacity(), capabilities.block_size, wishes.size)?;
    let store = open_store(wishes, size)?;
    let clock = Clock::start();
    let export = Export {
        description: device.description.header.title.clone(),
        read_only: wishes.read_only,
        rotational: capabilities.rotational,
        ..Export::new("", size.as_bytes(), block_size(capabilities.block_size)?)
    };
    let mut server =
        Server::bind(&wishes.address, export, ServerOptions::default(), Box::new(move || clock.now()))
            .map_err(|error| Failure::from(error).context(format!("--nbd {}", wishes.address)))?;
    let stop = Stop::new()?;
    stop_on_signals(&stop)?;
    let recorder = wishes
        .record
        .as_deref()
        .map(|path| Recorder::start(path, device, capabilities.block_size, wishes.seed))
        .transpose()?;
    let options = Options { mode: wishes.mode, ..Options::default() };
    let mut emulation = Emulation::new(Pacer::new(model, options), store, clock);
    if let Some(recorder) = &recorder {
        emulation = emulation.observed_by(recorder.observe());
    }
    let _ = wake_this_thread_exactly();
    let mut waiter = Waiter::new(clock, wishes.pacing, DEFAULT_MARGIN);
    ready(&server)?;
    let mut watched = Watched { emulation, live: Live::start(), clock };
    let result = serve(&mut server, &mut watched, &mut waiter, &stop);
    let Watched { emulation, live, .. } = watched;
    drop(live);
    let elapsed = clock.now().saturating_since(Instant::ZERO);
    let tally = emulation.tally().clone();
    let store = emulation.into_store();
    let flushed = if wishes.read_only { Ok(()) } else { store.flush() };
    let not_recorded = recorder.map_or(Ok(0), Recorder::finish)?;
    result?;
    flushed?;
    if let Some(path) = &wishes.save {
        store.save_image(path)?;
    }
    Ok(Outcome { tally, elapsed, not_recorded })
}

fn exported_size(
    device: &Resolved,
    capacity: &ByteSize,
    block_size: ByteSize,
    wanted: Option<ByteSize>,
) -> Result<ByteSize, Failure> {
    let Some(size) = wanted else { return Ok(*capacity) };
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

fn open_store(wishes: &Wishes, size: ByteSize) -> Result<Store, Failure> {
    let store = match &wishes.store {
        StoreChoice::Ram(cap) => Store::in_ram(size, *cap)?,
        StoreChoice::File(path) => {
            let access = if wishes.read_only { Access::ReadOnly } else { Access::ReadWrite };
            Store::in_file(path, size, access)?
        }
    };
    if let Some(image) = &wishes.image {
        store.load_image(image)?;
    }
    Ok(store)
}

/// Interrupt, termination and hang-up end the emulation in order.
fn stop_on_signals(stop: &Stop) -> Result<(), Failure> {
    let stop = stop.clone();
    ctrlc::set_handler(move || stop.stop())
        .map_err(|error| Failure::new(format!("signals cannot be handled: {error}")))
}

/// Writes completed requests as a trace, beside the loop that answers them: it never waits for a disk.
struct Recorder {
    sender: SyncSender<TraceRecord>,
    lost: Arc<AtomicU64>,
    thread: JoinHandle<Result<(), TraceError>>,
}

/// Requests that may wait to be written.
const RECORDED_MAX: usize = 1 << 16;

impl Recorder {
    fn start(path: &Path, device: &Resolved, block_size: ByteSize, seed: Seed) -> Result<Self, Failure> {
        let mut metadata = metadata(device, block_size, seed);
        metadata.clock = Some("emulated".to_owned());
        let writer = seeklab_columnar::create(path, None, &metadata)?;
        let (sender, receiver) = sync_channel(RECORDED_MAX);
        let thread = std::thread::spawn(move || write_all(writer, &receiver));
        Ok(Self { sender, lost: Arc::default(), thread })
    }

    fn observe(&self) -> Box<dyn FnMut(&TraceRecord)> {
        let (sender, lost) = (self.sender.clone(), Arc::clone(&self.lost));
        Box::new(move |record| {
            if sender.try_send(*record).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Ends the trace; returns how many requests are missing in it.
    fn finish(self) -> Result<u64, Failure> {
        drop(self.sender);
        self.thread.join().expect("the writer does not panic")?;
        Ok(self.lost.load(Ordering::Relaxed))
    }
}

fn write_all(mut writer: Box<dyn TraceWriter>, receiver: &Receiver<TraceRecord>) -> Result<(), TraceError> {
    while let Ok(record) = receiver.recv() {
        writer.write(&record)?;
    }
    writer.finish()
}

/// An emulation with its line on stderr.
struct Watched {
    emulation: Emulation,
    live: Live,
    clock: Clock,
}

impl Backend for Watched {
    fn take(&mut self, command: Command<'_>) {
        self.emulation.take(command);
    }

    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> Option<Instant> {
        let deadline = self.emulation.reply(now, frontend);
        self.live.show(self.clock.now(), deadline, &self.emulation);
        deadline
    }

    fn left(&mut self, tag: Tag, now: Instant) {
        self.emulation.left(tag, now);
    }
}

/// A line on stderr, redrawn every second by a thread of its own; nothing where stderr is not a terminal.
struct Live {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    outstanding: AtomicU64,
    response_p50_ns: AtomicU64,
    lateness_p99_ns: AtomicU64,
    looked_at_ns: AtomicU64,
    over: AtomicBool,
}

/// Time to the next deadline from which there is time to look at the figures.
const LEISURE: Duration = Duration::from_ms(2);

impl Live {
    fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let bar = ProgressBar::new_spinner();
            bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is right"));
            let mut before = 0;
            while !seen.over.load(Ordering::Acquire) {
                std::thread::park_timeout(std::time::Duration::from_secs(1));
                let requests = seen.requests.load(Ordering::Relaxed);
                let ms = |ns: &AtomicU64| ns.load(Ordering::Relaxed) as f64 / 1e6;
                bar.set_message(format!(
                    "{} requests/s, response p50 {:.3} ms, lateness p99 {:.1} us, {} outstanding",
                    requests - before,
                    ms(&seen.response_p50_ns),
                    ms(&seen.lateness_p99_ns) * 1e3,
                    seen.outstanding.load(Ordering::Relaxed),
                ));
                bar.tick();
                before = requests;
            }
            bar.finish_and_clear();
        });
        Self { shared, thread: Some(thread) }
    }

    fn show(&self, now: Instant, deadline: Option<Instant>, emulation: &Emulation) {
        self.shared.requests.store(emulation.tally().requests, Ordering::Relaxed);
        self.shared.outstanding.store(emulation.outstanding() as u64, Ordering::Relaxed);
        let looked = self.shared.looked_at_ns.load(Ordering::Relaxed);
        let leisure = deadline.is_none_or(|deadline| deadline.saturating_since(now) > LEISURE);
        if leisure && now.as_ns() - looked > 1_000_000_000 {
            let tally = emulation.tally();
            let ns = |duration: Option<Duration>| duration.unwrap_or_default().as_ns();
            self.shared.response_p50_ns.store(ns(tally.response.quantile(0.5)), Ordering::Relaxed);
            let lateness = tally.deadlines.lateness();
            self.shared.lateness_p99_ns.store(ns(lateness.quantile(0.99)), Ordering::Relaxed);
            self.shared.looked_at_ns.store(now.as_ns(), Ordering::Relaxed);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
