//! The kernel's trace buffer: an instance of its own in tracefs, one buffer for each processor.
//!
//! ```text
//!  instances/seeklab-PID-N/   trace_clock = mono, overwrite, filters, events on
//!     per_cpu/cpu0/trace_pipe_raw ─▶ pages ─▶ events in order within the processor
//! ```
//! # Scope and limits
//! - If a buffer is full, new events replace the oldest. The kernel reports the place and the number of the
//!   lost events.
//! - Dropping this value removes the instance. If the process is killed, the kernel frees the buffers and
//!   stops the recording (`free_buffer`). The next capture removes the empty instance.
//! - An event names the thread. Its process is looked up in `/proc` soon after. If the thread has ended by
//!   then, the thread's own number is recorded. Both are numbers of the initial PID namespace.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use seeklab_core::ProcessName;

use super::device::{processors, tracefs};
use super::error::CaptureError;
use super::layout::Layout;
use super::pages::{Item, PageLayout};
use crate::event::block_event::{Kind, Stamped, What};

/// Bytes that all buffers may have together, where the size is not given, and those of one.
const BUFFERS_BYTES: usize = 64 << 20;
const BUFFER_BYTES_MAX: usize = 16 << 20;
const BUFFER_BYTES_MIN: usize = 1 << 20;
/// Start of the name of an instance; the process that made it follows.
const PREFIX: &str = "seeklab-";
/// Threads of which the process is remembered.
const THREADS_MAX: usize = 4096;
/// Pages of one processor that are taken together, so that one busy processor does not keep the others waiting.
const PAGES_MAX: usize = 8192;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An instance of the kernel's trace buffer.
pub(super) struct Pipes {
    readers: Vec<File>,
    /// Kinds and layouts by the number with which an event begins.
    layouts: BTreeMap<u16, (Kind, Layout)>,
    pages: PageLayout,
    page: Vec<u8>,
    processes: BTreeMap<(u32, ProcessName), u32>,
    /// Frees the buffers when the process ends.
    free: Option<File>,
    folder: PathBuf,
    lost: u64,
    pub(super) malformed: u64,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CaptureError {
    let path = path.to_owned();
    move |source| CaptureError::Tracefs { path, source }
}

fn write(path: &Path, text: &str) -> Result<(), CaptureError> {
    fs::write(path, text).map_err(failed(path))
}

/// A file of the kernel that answers the first read only.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut text = vec![0; 4096];
    let length = File::open(path)?.read(&mut text)?;
    text.truncate(length);
    String::from_utf8(text).map_err(io::Error::other)
}

impl Pipes {
    /// Sets everything up and begins to record what passes `filter`.
    pub(super) fn open(
        filter: &str,
        layouts: &[(Kind, Layout)],
        buffer_bytes: Option<usize>,
    ) -> Result<Self, CaptureError> {
        let tracefs = tracefs()?;
        let instances = tracefs.join("instances");
        remove_orphans(&instances);
        let header = tracefs.join("events/header_page");
        let text = read_at_once(&header).map_err(failed(&header))?;
        let pages = PageLayout::parse(&text)
            .map_err(|problem| CaptureError::Description { path: header, problem })?;
        let processors = processors()?;
        let bytes = buffer_bytes
            .unwrap_or_else(|| (BUFFERS_BYTES / processors.len()).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(failed(&folder))?;
        let mut this = Self {
            readers: Vec::new(),
            layouts: layouts
                .iter()
                .map(|(kind, layout)| (layout.id as u16, (*kind, layout.clone())))
                .collect(),
            pages,
            page: vec![0; pages.size],
            processes: BTreeMap::new(),
            free: None,
            folder,
            lost: 0,
            malformed: 0,
        };
        // From here on, what was made goes when `this` does.
        this.set_up(filter, layouts, &processors, bytes)?;
        Ok(this)
    }

    fn set_up(
        &mut self,
        filter: &str,
        layouts: &[(Kind, Layout)],
        processors: &[u32],
        bytes: usize,
    ) -> Result<(), CaptureError> {
        let folder = self.folder.clone();
        write(&folder.join("trace_clock"), "mono")?;
        write(&folder.join("options/overwrite"), "1")?;
        let size = folder.join("buffer_size_kb");
        fs::write(&size, bytes.div_ceil(1024).max(8).to_string())
            .map_err(|source| CaptureError::Buffers { buffers: processors.len(), bytes, source })?;
        let free = folder.join("free_buffer");
        self.free = Some(OpenOptions::new().write(true).open(&free).map_err(failed(&free))?);
        // Whether the recording stops too when the buffers are freed; where there is no such option, the
        // events go on into the smallest of buffers.
        let _ = fs::write(folder.join("options/disable_on_free"), "1");
        for processor in processors {
            let path = folder.join(format!("per_cpu/cpu{processor}/trace_pipe_raw"));
            let nonblocking =
                i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("it is a small number");
            let reader = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path);
            self.readers.push(reader.map_err(failed(&path))?);
        }
        for (kind, _) in layouts {
            write(&self.event(*kind, "filter"), filter)?;
        }
        for (kind, _) in layouts {
            write(&self.event(*kind, "enable"), "1")?;
        }
        Ok(())
    }

    fn event(&self, kind: Kind, file: &str) -> PathBuf {
        self.folder.join("events/block").join(kind.tracepoint()).join(file)
    }

    /// Takes what is in the buffers, in order within each processor.
    pub(super) fn drain(&mut self, mut take: impl FnMut(Stamped)) {
        let Self { readers, layouts, pages, page, processes, lost, malformed, .. } = self;
        for reader in readers {
            for _ in 0..PAGES_MAX {
                let length = match reader.read(page) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => length,
                };
                let read = pages.read(&page[..length], |item| match item {
                    Item::Lost { time_ns, events } => {
                        *lost += events;
                        take(Stamped { time_ns, what: What::Lost(Kind::Complete, events) });
                    }
                    Item::Event { time_ns, bytes } => match event(layouts, processes, bytes) {
                        Some(what) => take(Stamped { time_ns, what }),
                        None => *malformed += 1,
                    },
                });
                *malformed += u64::from(read.is_err());
            }
        }
    }

    /// Ends the recording. The buffers keep their contents.
    ///
    /// The events are switched off in the reverse order of switching on, so the capture still records the
    /// completion of a request issued last, if it completes in time.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        for kind in Kind::OF_REQUESTS.iter().rev().chain(Kind::OF_BIOS.iter().rev()) {
            if self.layouts.values().any(|(recorded, _)| recorded == kind) {
                fs::write(self.event(*kind, "enable"), "0")?;
            }
        }
        Ok(())
    }

    /// Returns the number of lost events: the number reported in the pages, or the kernel's own count where that
    /// is greater.
    pub(super) fn lost(&self) -> u64 {
        let folder = self.folder.join("per_cpu");
        let counted = |entry: io::Result<fs::DirEntry>| -> Option<u64> {
            let text = fs::read_to_string(entry.ok()?.path().join("stats")).ok()?;
            let count = |line: &str| {
                let (name, value) = line.split_once(':')?;
                let loses = matches!(name, "overrun" | "commit overrun" | "dropped events");
                loses.then(|| value.trim().parse::<u64>().ok()).flatten()
            };
            Some(text.lines().filter_map(count).sum())
        };
        let by_kernel = fs::read_dir(folder).map_or(0, |entries| entries.filter_map(counted).sum());
        self.lost.max(by_kernel)
    }
}

/// The event in its bytes.
fn event(
    layouts: &BTreeMap<u16, (Kind, Layout)>,
    processes: &mut BTreeMap<(u32, ProcessName), u32>,
    bytes: &[u8],
) -> Option<What> {
    let number = u16::from_ne_bytes(*bytes.first_chunk()?);
    let (kind, layout) = layouts.get(&number)?;
    let thread = u32::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let mut event = layout.decode(bytes, thread)?;
    // The process that a completion interrupts is not its origin.
    if !kind.is_completion() && thread != 0 {
        if processes.len() >= THREADS_MAX {
            processes.clear();
        }
        event.process =
            *processes.entry((thread, event.command)).or_insert_with(|| process_of(thread).unwrap_or(thread));
    }
    Some(What::Event(event))
}

/// The process that a thread belongs to.
fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Removes what captures that were killed have left.
fn remove_orphans(instances: &Path) {
    // The inode of the initial namespace is fixed: PROC_PID_INIT_INO of the kernel. In another namespace, /proc lacks
    // processes that live, whose recordings are not ours to remove.
    let namespace = fs::read_link("/proc/self/ns/pid");
    if !namespace.is_ok_and(|namespace| namespace.as_os_str() == "pid:[4026531836]") {
        return;
    }
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let process =
            process.and_then(|rest| rest.split('-').next()).and_then(|text| text.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.stop();
        self.readers.clear();
        self.free = None;
        // The kernel may hold on to it for a moment.
        if fs::remove_dir(&self.folder).is_err() {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}
