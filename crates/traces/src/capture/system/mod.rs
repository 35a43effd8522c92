//! Live capture of a whole host while a command runs: the events of a system-level trace.
//!
//! ```text
//!  instance `host`   switches, wake-ups, interrupts, requests of all devices, … of all threads  ─┐
//!  instance `task`   system calls, page cache, metadata, call stacks of waits of the task        ─┤
//!                                                                                                ▼
//!  reader thread, of half full buffers: pages ─▶ OUTPUT.part ─▶ at the end: decode, merge by time ─▶ Processor
//! ```
//! Both instances are private and removed at the end. The kernel itself filters the events of the task
//! (`set_event_pid` with `event-fork`): the thread that starts the command is followed, and so is everything that
//! it makes. It records only system calls that do I/O, name files, or wait. Pages are stored as they are and decoded after the
//! end, so the recorder takes little time from the command.
//!
//! # Scope and limits
//! - File systems of the ext4 driver, on a device with a request queue. Root, tracefs, and outside of PID namespaces.
//! - The part file takes about 100 bytes for each event. If the process is killed, it stays, and [`Recorded::left_in`] reads it.
//! - Events on processors that go online during a capture are not recorded.
//! - If a buffer is full, the oldest events are lost. They are counted and located for each processor.
//! - What an event costs its thread is measured at the beginning ([`RecordingCost`]), and the pass takes it out of the
//!   computing times.
//! - Without addresses of functions (`kernel.kptr_restrict`), causes of waits come from the wakers alone.
//!
//! # References
//! Linux: Documentation/trace/ftrace.rst (`set_event_pid`, instances), Documentation/trace/events.rst (triggers).

mod calls;
mod cost;
mod facts;
mod format;
mod journal;
mod part;
mod spool;
mod start;
mod symbols;

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use super::device::Target;
use super::error::CaptureError;
use super::instance::{Instance, remove_orphans};
use super::monotonic_ns;
use super::pages::PageLayout;
use super::tracefs::tracefs;
use crate::system::fields::EXTENT_PLACED;
use crate::system::{InitialThread, Output, Processed, Processor, RecordingCost, TracedDevice};
use format::{Decoder, Point, STACK, Scope, TRACEPOINTS, Tracepoint};
use part::{Beginning, Left, Part};
use spool::{SharedPart, Spooled, Spooler, held};
use symbols::Symbols;

pub use facts::{HostFacts, KnownThreads, Mount};
pub use journal::{JournalPart, JournalPlace};
pub use part::{RecordedTask, is_system_part};
pub use start::{CachedPart, OpenFile, PartPlace, StartState};

/// Filter of reads and writes. Without it, the decoder leaves the others out.
const TRANSFERS: &str = "rwbs ~ \"R*\" || rwbs ~ \"*W*\"";

/// Records the call stack of a thread that leaves its processor to wait.
const STACK_TRIGGER: &str = "stacktrace if prev_state & 3";

/// Options of a system-level capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemOptions {
    /// Bytes of each of the two kernel buffers of each processor; by default a share of 64 MiB, between 1 MiB and
    /// 16 MiB.
    pub buffer_bytes: Option<usize>,
    /// Trace that will be written. The recording lies in its part file.
    pub output: PathBuf,
    /// Table of the mounts, in which the device is [default: that of this process].
    pub mounts: Option<PathBuf>,
    /// Threads whose role their processes do not tell.
    pub known: KnownThreads,
}

/// First threads of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// This thread.
    Thread(u32),
    /// All children that this thread makes within the trace.
    ChildrenOf(u32),
}

/// A system-level capture that goes on until it is finished or dropped.
#[derive(Debug)]
pub struct SystemCapture {
    stop: Arc<OwnedFd>,
    reader: Option<JoinHandle<Result<Spooled, CaptureError>>>,
    /// `None` once the events are read.
    part: Option<SharedPart>,
    /// File of the instance `task` that names the followed threads.
    followed: PathBuf,
    begin_ns: u64,
    device: TracedDevice,
    initial: Vec<InitialThread>,
    facts: HostFacts,
    state: StartState,
    cost: RecordingCost,
    decoders: Vec<Decoder>,
    /// Time that the hypervisor had taken before the beginning.
    stolen_before_ns: Option<u64>,
}

/// Events of a finished capture.
#[derive(Debug)]
pub struct Recorded {
    /// Time at which the capture began, in nanoseconds of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// Time at which it ended.
    pub end_ns: u64,
    /// The traced device.
    pub device: TracedDevice,
    /// Threads at the beginning.
    pub initial: Vec<InitialThread>,
    /// Settings of the host at the beginning.
    pub facts: HostFacts,
    /// Open files and pages in memory at the beginning.
    pub state: StartState,
    /// Cost of recording an event, measured before the beginning.
    pub cost: RecordingCost,
    /// Processor time that the hypervisor gave to others during the capture, summed over the processors. Computing times of threads contain
    /// it. `None` if the kernel does not tell it, and of a recorder that was killed.
    pub stolen_ns: Option<u64>,
    /// Number of the events by kind, after the pass.
    pub kinds: BTreeMap<&'static str, u64>,
    /// True if call stacks could be turned into functions.
    pub has_symbols: bool,
    /// Tracepoints that this kernel lacks.
    pub missing_events: Vec<&'static str>,
    /// Records of an unknown form.
    pub malformed_records: u64,
    part: Option<SharedPart>,
    spooled: Spooled,
    decoders: Vec<Decoder>,
    symbols: Symbols,
}

/// A recording whose recorder was killed.
#[derive(Debug)]
pub struct LeftRecording {
    /// Its events, until about a second before the end.
    pub recorded: Recorded,
    /// The command.
    pub task: RecordedTask,
    /// Path of the device.
    pub device: PathBuf,
    /// Bytes at the end of the file that are not whole.
    pub omitted_bytes: u64,
}

impl SystemCapture {
    /// Begins to record the host. When this returns, everything is recorded.
    ///
    /// # Errors
    /// [`CaptureError`], naming what is missing and, in its hint, the remedy.
    pub fn start(device: &Path, options: &SystemOptions) -> Result<Self, CaptureError> {
        // The inode of the initial namespace is fixed: PROC_PID_INIT_INO of the kernel.
        let namespace = fs::read_link("/proc/self/ns/pid");
        if !namespace.is_ok_and(|namespace| namespace.as_os_str() == "pid:[4026531836]") {
            return Err(CaptureError::PidNamespace);
        }
        let target = Target::of(device)?;
        let facts = HostFacts::collect(
            device,
            options.mounts.as_deref().unwrap_or(Path::new("/proc/self/mountinfo")),
        )?;
        let traced = TracedDevice {
            requests: target.number,
            file_system: facts.mount.device,
            partition: target.partition,
        };
        let tracefs = tracefs()?;
        remove_orphans(&tracefs);
        let (decoders, formats) = decoders(&tracefs)?;
        let (pages, header_page) = Instance::described_layout(&tracefs)?;
        let cost = cost::measure(&tracefs)?;
        let host = Instance::create(&tracefs, options.buffer_bytes)?;
        let task = Instance::create(&tracefs, options.buffer_bytes)?;
        task.write("options/event-fork", "1")?;
        // Nothing is followed yet: a number that no thread has.
        task.write("set_event_pid", &u32::from(u16::MAX).saturating_mul(64).to_string())?;
        let followed = task.folder().join("set_event_pid");
        let initial = facts::threads(&options.known);
        let state = StartState::collect(device, &facts.mount.reachable(options.mounts.as_deref()));
        let readers = |instance: &Instance, is_task| -> Vec<(bool, u16)> {
            instance.readers.iter().map(|(cpu, _)| (is_task, *cpu as u16)).collect()
        };
        let mut beginning = Beginning {
            begin_ns: monotonic_ns(),
            path: device.to_owned(),
            device: traced,
            initial: initial.clone(),
            facts: facts.clone(),
            state: state.clone(),
            cost,
            header_page,
            formats,
            symbols: Symbols::of_kernel().essential(),
            buffers: [readers(&host, false), readers(&task, true)].concat(),
        };
        let spooler = Spooler::new(pages, host, task);
        let call_filter = calls::filter(&facts.machine);
        for decoder in decoders.iter().filter(|decoder| decoder.tracepoint.point != Point::Stack) {
            let Tracepoint { group, name, scope, point, .. } = decoder.tracepoint;
            let instance = if scope == Scope::Task { &spooler.task } else { &spooler.host };
            if scope == Scope::FileSystem {
                let file = format!("events/{group}/{name}/filter");
                let of_device = format!("dev == {}", traced.file_system);
                // Nine in ten lookups find a hole or blocks without a place, which the decoder leaves out.
                let placed = format!("{of_device} && found == 1 && status & {EXTENT_PLACED}");
                let is_filtered = point == Point::FoundExtent && instance.write(&file, &placed).is_ok();
                if !is_filtered {
                    instance.write(&file, &of_device)?;
                }
            }
            if point == Point::Submit {
                let _ = instance.write(&format!("events/{group}/{name}/filter"), TRANSFERS);
            }
            if matches!(point, Point::CallEnter | Point::CallExit) {
                // A kernel that refuses the filter records all calls.
                let _ = instance.write(&format!("events/{group}/{name}/filter"), &call_filter);
            }
            instance.write(&format!("events/{group}/{name}/enable"), "1")?;
            if scope == Scope::Task && point == Point::Switch {
                instance.write(&format!("events/{group}/{name}/trigger"), STACK_TRIGGER)?;
            }
        }
        let failed = |action| move |source| CaptureError::Kernel { action, source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed("make an event descriptor")(error.into()))?;
        let stop = Arc::new(stop);
        let stolen_before_ns = facts::stolen_ns();
        beginning.begin_ns = monotonic_ns();
        let begin_ns = beginning.begin_ns;
        let part = Arc::new(Mutex::new(Part::create(&options.output, &beginning)?));
        let reader = thread::Builder::new()
            .name("spooler".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                let part = Arc::clone(&part);
                move || spooler.run(&part, &stop)
            })
            .map_err(failed("start the reader's thread"))?;
        Ok(Self {
            stop,
            reader: Some(reader),
            part: Some(part),
            followed,
            begin_ns,
            device: traced,
            initial,
            facts,
            state,
            cost,
            decoders,
            stolen_before_ns,
        })
    }

    /// Runs `start` on a thread that is followed: the processes that it makes, and their descendants, are the task.
    ///
    /// # Errors
    /// If the kernel refuses to follow the thread.
    ///
    /// # Panics
    /// If `start` panics.
    pub fn follow<T: Send>(&self, start: impl FnOnce() -> T + Send) -> Result<T, CaptureError> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.follow_thread(rustix::thread::gettid().as_raw_pid().cast_unsigned())?;
                Ok(start())
            });
            thread.join().expect("the start of the command does not panic")
        })
    }

    /// Follows a thread: the processes that it makes from now on, and their descendants, are recorded as the task.
    ///
    /// # Errors
    /// If the kernel refuses to follow the thread.
    pub fn follow_thread(&self, thread: u32) -> Result<(), CaptureError> {
        fs::write(&self.followed, thread.to_string())
            .map_err(|source| CaptureError::Tracefs { path: self.followed.clone(), source })
    }

    /// Names the command, so that a part file that is left behind tells its threads.
    ///
    /// # Errors
    /// If the part file cannot be written.
    pub fn set_task(&self, task: &RecordedTask) -> Result<(), CaptureError> {
        self.part.as_ref().map_or(Ok(()), |part| held(part).set_task(task))
    }

    /// Time at which the capture began, in nanoseconds of CLOCK_MONOTONIC.
    pub fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// Settings and state of the host at the beginning.
    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// If the events could not be stored. The part file stays then.
    pub fn finish(mut self) -> Result<Recorded, CaptureError> {
        let reader = self.end().expect("only this and drop end a capture");
        let part = self.part.take();
        let spooled = reader.join().map_err(|_| CaptureError::SinkPanicked)??;
        let stolen_ns = facts::stolen_ns().zip(self.stolen_before_ns);
        let symbols = Symbols::of_kernel();
        let decoders = std::mem::take(&mut self.decoders);
        Ok(Recorded {
            begin_ns: self.begin_ns,
            end_ns: spooled.end_ns,
            device: self.device,
            initial: std::mem::take(&mut self.initial),
            facts: std::mem::take(&mut self.facts),
            state: std::mem::take(&mut self.state),
            cost: self.cost,
            stolen_ns: stolen_ns.map(|(after, before)| after.saturating_sub(before)),
            kinds: BTreeMap::new(),
            has_symbols: !symbols.is_empty(),
            missing_events: missing_events(&decoders),
            malformed_records: 0,
            part,
            spooled,
            decoders,
            symbols,
        })
    }

    fn end(&mut self) -> Option<JoinHandle<Result<Spooled, CaptureError>>> {
        // Fails only if the counter is at its end, when the reader was woken before.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        self.reader.take()
    }
}

impl Drop for SystemCapture {
    fn drop(&mut self) {
        if let Some(reader) = self.end() {
            let _ = reader.join();
            // Nobody wanted this recording.
            remove(self.part.take());
        }
    }
}

/// Removes a part file that only this holds. One that cannot be removed stays, and the next recording names it.
fn remove(part: Option<SharedPart>) {
    if let Some(part) = part.and_then(Arc::into_inner) {
        let _ = part.into_inner().map(Part::remove);
    }
}

impl Recorded {
    /// Reads the part file of a recorder that was killed. The recording ends with its last round, up to a second before the end.
    ///
    /// # Errors
    /// If the file is too short, or describes no host.
    pub fn left_in(path: &Path) -> Result<LeftRecording, CaptureError> {
        let Left { beginning, task, end_ns, places, omitted_bytes } = Left::read(path)?;
        let described = |what: &str| {
            let (path, what) = (path.to_owned(), what.to_owned());
            move |problem: String| CaptureError::Description { path, problem: format!("{what}: {problem}") }
        };
        let pages = PageLayout::parse(&beginning.header_page).map_err(described("header_page"))?;
        let mut decoders = Vec::new();
        for tracepoint in TRACEPOINTS.iter().chain([&STACK]) {
            let is_it = |(group, name, _): &&(String, String, String)| {
                (group.as_str(), name.as_str()) == (tracepoint.group, tracepoint.name)
            };
            if let Some((.., text)) = beginning.formats.iter().find(is_it) {
                decoders.push(Decoder::parse(*tracepoint, text).map_err(described(tracepoint.name))?);
            }
        }
        let bytes = places.iter().flatten().map(|place| place.bytes as u64).sum();
        let scope = |is_task| if is_task { Scope::Task } else { Scope::Host };
        let buffers = beginning.buffers.iter().zip(places);
        let buffers = buffers.map(|((is_task, cpu), places)| (scope(*is_task), *cpu, places)).collect();
        let recorded = Self {
            begin_ns: beginning.begin_ns,
            end_ns: end_ns.max(beginning.begin_ns),
            device: beginning.device,
            initial: beginning.initial,
            facts: beginning.facts,
            state: beginning.state,
            cost: beginning.cost,
            stolen_ns: None,
            kinds: BTreeMap::new(),
            has_symbols: !beginning.symbols.is_empty(),
            missing_events: missing_events(&decoders),
            malformed_records: 0,
            part: None,
            spooled: Spooled { pages, path: path.to_owned(), buffers, bytes, lost: 0, end_ns },
            decoders,
            symbols: beginning.symbols,
        };
        Ok(LeftRecording { recorded, task, device: beginning.path, omitted_bytes })
    }

    /// Removes the part file, when the trace is written.
    pub fn remove_part(self) {
        remove(self.part);
    }

    /// Bytes of the recorded pages.
    pub fn spooled_bytes(&self) -> u64 {
        self.spooled.bytes
    }

    /// Lost events, as the kernel counts them.
    pub fn lost_events(&self) -> u64 {
        self.spooled.lost
    }

    /// Makes one pass over the events. The task is what `root` names, with all descendants.
    ///
    /// # Errors
    /// If the part file cannot be read.
    pub fn process(&mut self, root: Root, sink: &mut impl FnMut(Output)) -> Result<Processed, CaptureError> {
        let cpus = self.facts.cpus.iter().copied();
        let roots: &[u32] = if let Root::Thread(thread) = &root { &[*thread] } else { &[] };
        let mut processor = Processor::new(self.begin_ns, cpus, self.device, roots, &self.initial);
        processor = processor.with_cost(self.cost).with_machine(&self.facts.machine);
        if let Root::ChildrenOf(thread) = root {
            processor = processor.with_starter(thread);
        }
        self.state.rows(self.begin_ns, sink);
        let end_ns = self.end_ns;
        let kinds = &mut self.kinds;
        let malformed = self.spooled.read(&self.decoders, &self.symbols, |event| {
            if event.time_ns <= end_ns {
                *kinds.entry(event.kind.name()).or_default() += 1;
                processor.push(event, sink);
            }
        })?;
        self.malformed_records = malformed;
        Ok(processor.finish(end_ns, sink))
    }
}

/// Describes the host and a mounted device of it, as a capture would record them now.
///
/// # Errors
/// If the device has no mounted file system of the ext4 driver.
pub fn describe(device: &Path) -> Result<(HostFacts, TracedDevice), CaptureError> {
    let target = Target::of(device)?;
    let facts = HostFacts::collect(device, Path::new("/proc/self/mountinfo"))?;
    let traced = TracedDevice {
        requests: target.number,
        file_system: facts.mount.device,
        partition: target.partition,
    };
    Ok((facts, traced))
}

/// Tracepoints of which there is no decoder, for the kernel lacks them.
fn missing_events(decoders: &[Decoder]) -> Vec<&'static str> {
    let is_there = |tracepoint: &&Tracepoint| {
        decoders.iter().any(|decoder| {
            (decoder.tracepoint.group, decoder.tracepoint.name) == (tracepoint.group, tracepoint.name)
        })
    };
    let missing = TRACEPOINTS.iter().chain([&STACK]).filter(|tracepoint| !is_there(tracepoint));
    missing.map(|tracepoint| tracepoint.name).collect()
}

/// Group, name and description of tracepoints.
type Formats = Vec<(String, String, String)>;

/// Reads the descriptions of all tracepoints that this kernel has.
fn decoders(tracefs: &Path) -> Result<(Vec<Decoder>, Formats), CaptureError> {
    let (mut decoders, mut formats) = (Vec::new(), Formats::new());
    for tracepoint in TRACEPOINTS.iter().chain([&STACK]) {
        let path = tracefs.join("events").join(tracepoint.group).join(tracepoint.name).join("format");
        match fs::read_to_string(&path) {
            Ok(text) => match Decoder::parse(*tracepoint, &text) {
                Ok(decoder) => {
                    decoders.push(decoder);
                    formats.push((tracepoint.group.to_owned(), tracepoint.name.to_owned(), text));
                }
                Err(problem) => return Err(CaptureError::Description { path, problem }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if tracepoint.is_needed {
                    return Err(CaptureError::NoTracepoint { path });
                }
            }
            Err(source) => return Err(CaptureError::Tracefs { path, source }),
        }
    }
    Ok((decoders, formats))
}

/// Writes all dirty blocks of a file system to its device, and waits for them.
///
/// # Errors
/// If the folder cannot be opened, or a block cannot be written.
pub fn write_back(mount: &Mount) -> io::Result<()> {
    let folder = File::open(&mount.point)?;
    Ok(rustix::fs::syncfs(folder)?)
}
