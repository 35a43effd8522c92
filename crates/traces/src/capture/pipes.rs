//! The kernel's trace buffer: an instance of its own in tracefs, one buffer for each processor.
//!
//! ```text
//!  instances/seeklab-PID-N/   trace_clock = mono, overwrite, filters, events on
//!     per_cpu/cpu0/trace_pipe_raw ─▶ pages ─▶ events in order within the processor
//! ```
//! # Scope and limits
//! - If a buffer is full, new events replace the oldest. The kernel reports the place and the number of the
//!   lost events.
//! - An event names the thread. Its process is looked up in `/proc` soon after. If the thread has ended by
//!   then, the thread's own number is recorded. Both are numbers of the initial PID namespace.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};

use seeklab_core::ProcessName;

use super::error::CaptureError;
use super::instance::{Instance, PAGES_MAX, remove_orphans};
use super::layout::Layout;
use super::pages::{Item, PageLayout};
use super::tracefs::tracefs;
use crate::event::block_event::{Kind, Stamped, What};

/// Threads of which the process is remembered.
const THREADS_MAX: usize = 4096;

/// Events of block devices in an instance of the kernel's trace buffer.
pub(super) struct Pipes {
    instance: Instance,
    /// Kinds and layouts by the number with which an event begins.
    layouts: BTreeMap<u16, (Kind, Layout)>,
    pages: PageLayout,
    page: Vec<u8>,
    processes: BTreeMap<(u32, ProcessName), u32>,
    lost: u64,
    pub(super) malformed: u64,
}

impl Pipes {
    /// Sets everything up and begins to record what passes `filter`.
    pub(super) fn open(
        filter: &str,
        layouts: &[(Kind, Layout)],
        buffer_bytes: Option<usize>,
    ) -> Result<Self, CaptureError> {
        let tracefs = tracefs()?;
        remove_orphans(&tracefs);
        let pages = Instance::page_layout(&tracefs)?;
        // From here on, what was made goes when `this` does.
        let this = Self {
            instance: Instance::create(&tracefs, buffer_bytes)?,
            layouts: layouts
                .iter()
                .map(|(kind, layout)| (layout.id as u16, (*kind, layout.clone())))
                .collect(),
            pages,
            page: vec![0; pages.size],
            processes: BTreeMap::new(),
            lost: 0,
            malformed: 0,
        };
        for (kind, _) in layouts {
            this.instance.write(&event_file(*kind, "filter"), filter)?;
        }
        for (kind, _) in layouts {
            this.instance.write(&event_file(*kind, "enable"), "1")?;
        }
        Ok(this)
    }

    /// Takes what is in the buffers, in order within each processor.
    pub(super) fn drain(&mut self, mut take: impl FnMut(Stamped)) {
        let Self { instance, layouts, pages, page, processes, lost, malformed, .. } = self;
        for (_, reader) in &mut instance.readers {
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
                fs::write(self.instance.folder().join(event_file(*kind, "enable")), "0")?;
            }
        }
        Ok(())
    }

    /// Returns the number of lost events: the number reported in the pages, or the kernel's own count where that
    /// is greater.
    pub(super) fn lost(&self) -> u64 {
        let by_kernel = self.instance.lost().values().sum();
        self.lost.max(by_kernel)
    }
}

/// File of an event, within the instance.
fn event_file(kind: Kind, file: &str) -> String {
    format!("events/block/{}/{file}", kind.tracepoint())
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

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
