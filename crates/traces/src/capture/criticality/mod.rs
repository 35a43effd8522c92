//! Following the classes of the requests of a block device while it serves them.
//!
//! ```text
//!  instance of tracefs: requests, and by waits also sleeps, pages, buffers, extents ─┐
//!                                                                                    │ pages of each processor,
//!  ClassCapture::poll ◀──────── read without waiting ◀───────────────────────────────┘ merged by time
//!        └─▶ Classifier ─▶ ClassNotice: from that time on, requests of that range have that class
//! ```
//! The kernel filters the events by device. Reading takes a system call for each processor, and gives every event that has
//! happened before. So a request that arrives at an emulator has its flags already: the kernel recorded its issue before
//! the driver got it. `classifier.rs` has the rules.
//!
//! # Scope and limits
//! - Root and tracefs. The instance is removed when the value is dropped. If the process is killed, the kernel stops the
//!   recording, and the next capture removes the empty instance.
//! - Events of different processors are ordered by time within what one call reads.
//! - If a buffer is full, the oldest events are lost and counted. Requests without events have the class of their
//!   operation.

mod classifier;
#[cfg(test)]
mod tests;
mod tracepoints;

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use seeklab_core::{Criticality, Operation};

use super::device::Target;
use super::error::CaptureError;
use super::instance::{Instance, remove_orphans};
use super::pages::{Item, PageLayout};
use super::tracefs::tracefs;
use classifier::{Classifier, HostEvent};
use tracepoints::{Decoder, Tracepoint};

/// Pages that one call reads of each processor at most.
const PAGES_MAX: usize = 64;
/// Bytes of the kernel's buffer of each processor.
const BUFFER_BYTES: usize = 4 << 20;

/// Rule by which requests of a host have classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClassRule {
    /// By the flags that the kernel gives to requests.
    Flags,
    /// By the threads that sleep on them.
    Waits,
}

impl ClassRule {
    /// Every rule.
    pub const ALL: [Self; 2] = [Self::Flags, Self::Waits];

    /// Its name in options and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::Waits => "waits",
        }
    }
}

/// A change of class in the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassNotice {
    /// Time of the change, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Operation of the requests.
    pub op: Operation,
    /// First byte of the requests on the device. Flushes have none.
    pub offset_bytes: u64,
    /// Bytes from there on.
    pub length_bytes: u64,
    /// The new class.
    pub criticality: Criticality,
}

/// Sleeps of threads that use the device, by what they slept on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitCounts {
    /// On a request of the device.
    pub attributed: u64,
    /// Because too much was dirty.
    pub throttled: u64,
    /// On something else, such as a lock, or on a request that is not known.
    pub other: u64,
}

/// Follows the classes of the requests of a block device.
pub struct ClassCapture {
    instance: Instance,
    pages: PageLayout,
    decoders: Vec<Decoder>,
    classifier: Classifier,
    page: Vec<u8>,
    events: Vec<HostEvent>,
}

impl ClassCapture {
    /// Begins to follow the requests of `device`.
    ///
    /// # Errors
    /// [`CaptureError`], naming what is missing and, in its hint, the remedy.
    pub fn start(device: &Path, rule: ClassRule) -> Result<Self, CaptureError> {
        let target = Target::of(device)?;
        let tracefs = tracefs()?;
        remove_orphans(&tracefs);
        let followed = decoders(&tracefs, rule)?;
        let pages = Instance::page_layout(&tracefs)?;
        let instance = Instance::create(&tracefs, Some(BUFFER_BYTES))?;
        for (tracepoint, _) in &followed {
            let folder = format!("events/{}/{}", tracepoint.group, tracepoint.name);
            instance.write(&format!("{folder}/filter"), &tracepoint.filter(target.number))?;
            instance.write(&format!("{folder}/enable"), "1")?;
        }
        let decoders = followed.into_iter().map(|(_, decoder)| decoder).collect();
        let classifier = Classifier::new(rule, u64::from(target.number));
        let page = vec![0; pages.size];
        Ok(Self { instance, pages, decoders, classifier, page, events: Vec::new() })
    }

    /// Reads what has happened. `notify` receives the changes of class of requests that were submitted before.
    pub fn poll(&mut self, mut notify: impl FnMut(ClassNotice)) {
        let Self { instance, pages, decoders, classifier, page, events } = self;
        for (_, reader) in &mut instance.readers {
            for _ in 0..PAGES_MAX {
                // The length that the page states, not that of the read, says what is new.
                match reader.read(page) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => read_page(*pages, page, decoders, events),
                }
            }
        }
        events.sort_by_key(|event| event.time_ns);
        for event in events.drain(..) {
            classifier.push(&event, &mut notify);
        }
    }

    /// Class of a request that arrives at the device, from what was read so far.
    pub fn class(&self, op: Operation, offset_bytes: u64, length_bytes: u64) -> Criticality {
        self.classifier.class(op, offset_bytes, length_bytes)
    }

    /// Sleeps of threads so far.
    pub const fn waits(&self) -> WaitCounts {
        self.classifier.counts()
    }

    /// Events that were lost so far, as the kernel counts them.
    pub fn lost_events(&self) -> u64 {
        self.instance.lost().values().sum()
    }
}

/// Adds the events of a page.
fn read_page(pages: PageLayout, page: &[u8], decoders: &[Decoder], events: &mut Vec<HostEvent>) {
    // What comes before a contradiction in a page is used.
    let _ = pages.read(page, |item| {
        let Item::Event { time_ns, bytes } = item else { return };
        let number = bytes.first_chunk().map(|number| u16::from_ne_bytes(*number));
        let decoder = decoders.iter().find(|decoder| Some(decoder.id) == number);
        events.extend(decoder.and_then(|decoder| decoder.decode(bytes, time_ns)));
    });
}

/// Reads the descriptions of the tracepoints of a rule that this kernel has.
fn decoders(tracefs: &Path, rule: ClassRule) -> Result<Vec<(&'static Tracepoint, Decoder)>, CaptureError> {
    let mut decoders = Vec::new();
    for tracepoint in Tracepoint::of(rule) {
        let path = tracefs.join("events").join(tracepoint.group).join(tracepoint.name).join("format");
        match fs::read_to_string(&path) {
            Ok(text) => {
                let decoder = Decoder::parse(tracepoint, &text)
                    .map_err(|problem| CaptureError::Description { path, problem })?;
                decoders.push((tracepoint, decoder));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if tracepoint.is_needed {
                    return Err(CaptureError::NoTracepoint { path });
                }
            }
            Err(source) => return Err(CaptureError::Tracefs { path, source }),
        }
    }
    Ok(decoders)
}
