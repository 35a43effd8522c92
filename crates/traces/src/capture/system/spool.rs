//! Pages of the kernel's buffers on their way through the part file, and their events in order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::format::{Decoder, Point, Scope};
use super::part::{Pages, Part, Place};
use super::symbols::Symbols;
use crate::capture::error::CaptureError;
use crate::capture::instance::{Instance, PAGES_MAX};
use crate::capture::monotonic_ns;
use crate::capture::pages::{Item, PageLayout};
use crate::system::{Context, EventKind, SystemEvent};

/// Longest time between two looks at how full the buffers are. The kernel wakes the reader earlier if one is half full.
const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Share of a buffer, in percent, that is full when it is emptied.
const FULL_PERCENT: &str = "50";
/// Time between two rounds, in which all buffers are emptied.
const ROUND_NS: u64 = 1_000_000_000;
/// An event is in its buffer so long after its time stamp, at the latest.
const STORED_NS: u64 = 1_000_000;
/// Pages that are stored together.
const FRAME_PAGES: usize = 16;

/// The part file, which the reader shares with the thread that starts the command.
pub(super) type SharedPart = Arc<Mutex<Part>>;

/// Takes hold of the part file.
pub(super) fn held(part: &SharedPart) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves pages from the two instances to the part file.
pub(super) struct Spooler {
    pages: PageLayout,
    pub(super) host: Instance,
    pub(super) task: Instance,
    places: Vec<Vec<Place>>,
    bytes: u64,
    frame: Vec<u8>,
}

/// The pages of a capture.
#[derive(Debug)]
pub(super) struct Spooled {
    pub(super) pages: PageLayout,
    /// The part file.
    pub(super) path: PathBuf,
    /// Scope, processor and pages of each buffer.
    pub(super) buffers: Vec<(Scope, u16, Vec<Place>)>,
    pub(super) bytes: u64,
    /// Lost events, as the kernel counts them.
    pub(super) lost: u64,
    pub(super) end_ns: u64,
}

fn failed(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> CaptureError {
    let path = path.to_owned();
    move |source| CaptureError::Spool { action, path: path.clone(), source }
}

impl Spooler {
    /// Reads the buffers of two instances.
    pub(super) fn new(pages: PageLayout, host: Instance, task: Instance) -> Self {
        let places = vec![Vec::new(); host.readers.len() + task.readers.len()];
        // A kernel before 5.0 lacks the file, and wakes the reader for each page.
        for instance in [&host, &task] {
            let _ = instance.write("buffer_percent", FULL_PERCENT);
        }
        Self { pages, host, task, places, bytes: 0, frame: Vec::new() }
    }

    /// Moves pages until `stop` is signalled: those of a buffer when it is half full, and those of all buffers every second.
    pub(super) fn run(mut self, part: &SharedPart, stop: &OwnedFd) -> Result<Spooled, CaptureError> {
        let mut round_ns = monotonic_ns() + ROUND_NS;
        loop {
            let readers = self.host.readers.iter().chain(&self.task.readers);
            let mut descriptors = vec![PollFd::new(stop, PollFlags::IN)];
            descriptors.extend(readers.map(|(_, reader)| PollFd::new(reader, PollFlags::IN)));
            match poll(&mut descriptors, Some(&LOOK_INTERVAL)) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => {
                    return Err(CaptureError::Kernel { action: "wait for events", source: error.into() });
                }
            }
            let is_ready: Vec<bool> =
                descriptors.iter().map(|descriptor| descriptor.revents().contains(PollFlags::IN)).collect();
            if is_ready[0] {
                break;
            }
            let now_ns = monotonic_ns();
            if now_ns >= round_ns {
                if self.drain(part, |_| true)? {
                    held(part).end_round(now_ns - STORED_NS)?;
                }
                round_ns = now_ns + ROUND_NS;
            } else {
                self.drain(part, |reader| is_ready[reader + 1])?;
            }
        }
        let end_ns = monotonic_ns();
        for instance in [&self.host, &self.task] {
            instance.write("tracing_on", "0")?;
        }
        // What is left takes as many rounds as it needs, for nothing comes in any more.
        loop {
            let before = self.bytes;
            self.drain(part, |_| true)?;
            if self.bytes == before {
                break;
            }
        }
        held(part).end_round(end_ns)?;
        let Self { pages, host, task, bytes, places, .. } = self;
        let lost = host.lost().values().chain(task.lost().values()).sum();
        let scopes = host.readers.iter().map(|reader| (Scope::Host, reader.0));
        let scopes = scopes.chain(task.readers.iter().map(|reader| (Scope::Task, reader.0)));
        let buffers = scopes.zip(places).map(|((scope, cpu), places)| (scope, cpu as u16, places)).collect();
        let path = held(part).path().to_owned();
        Ok(Spooled { pages, path, buffers, bytes, lost, end_ns })
    }

    /// Empties the chosen buffers. Returns true if nothing was left in them.
    fn drain(&mut self, part: &SharedPart, is_chosen: impl Fn(usize) -> bool) -> Result<bool, CaptureError> {
        let Self { pages, host, task, places, bytes, frame } = self;
        let readers = host.readers.iter_mut().chain(&mut task.readers);
        let chosen = readers.zip(places).enumerate().filter(|(number, _)| is_chosen(*number));
        let mut is_empty = true;
        for (number, ((_, reader), places)) in chosen {
            let mut is_read = false;
            frame.clear();
            for _ in 0..PAGES_MAX {
                let begin = frame.len();
                frame.resize(begin + pages.size, 0);
                if !reader.read(&mut frame[begin..]).is_ok_and(|length| length > 0) {
                    frame.truncate(begin);
                    is_read = true;
                    break;
                }
                *bytes += pages.size as u64;
                if frame.len() == FRAME_PAGES * pages.size {
                    places.push(held(part).append_pages(number as u32, frame)?);
                    frame.clear();
                }
            }
            if !frame.is_empty() {
                places.push(held(part).append_pages(number as u32, frame)?);
            }
            is_empty &= is_read;
        }
        Ok(is_empty)
    }
}

/// Events of one buffer, page by page.
struct Stream {
    scope: Scope,
    cpu: u16,
    pages: Pages,
    events: VecDeque<SystemEvent>,
}

impl Spooled {
    /// Hands on all events in order of time. Returns the number of records of an unknown form.
    pub(super) fn read(
        &mut self,
        decoders: &[Decoder],
        symbols: &Symbols,
        mut take: impl FnMut(&SystemEvent),
    ) -> Result<u64, CaptureError> {
        let decoders: BTreeMap<u16, &Decoder> = decoders
            .iter()
            .filter(|decoder| {
                decoder.tracepoint.scope != Scope::Task || decoder.tracepoint.point != Point::Switch
            })
            .map(|decoder| (decoder.id, decoder))
            .collect();
        let file = File::open(&self.path).map_err(failed("read", &self.path))?;
        let mut malformed = 0;
        let buffers = std::mem::take(&mut self.buffers).into_iter();
        let mut streams: Vec<Stream> = buffers
            .map(|(scope, cpu, places)| Stream {
                scope,
                cpu,
                pages: Pages::new(places),
                events: VecDeque::new(),
            })
            .collect();
        let mut next = BinaryHeap::new();
        let mut fill = |stream: &mut Stream| -> Result<Option<u64>, CaptureError> {
            while stream.events.is_empty() {
                let Stream { scope, cpu, pages, events } = stream;
                let page = pages.next(&file, self.pages.size).map_err(failed("read", &self.path))?;
                let Some(page) = page else { return Ok(None) };
                malformed += decode(&self.pages, page, &decoders, symbols, (*scope, *cpu), events);
            }
            Ok(stream.events.front().map(|event| event.time_ns))
        };
        for (index, stream) in streams.iter_mut().enumerate() {
            if let Some(time_ns) = fill(stream)? {
                next.push(Reverse((time_ns, index)));
            }
        }
        while let Some(Reverse((_, index))) = next.pop() {
            let stream = &mut streams[index];
            let event = stream.events.pop_front().expect("its time was known");
            take(&event);
            if let Some(time_ns) = fill(stream)? {
                next.push(Reverse((time_ns, index)));
            }
        }
        Ok(malformed)
    }
}

/// Decodes a page. Returns the number of records of an unknown form.
fn decode(
    pages: &PageLayout,
    page: &[u8],
    decoders: &BTreeMap<u16, &Decoder>,
    symbols: &Symbols,
    (scope, cpu): (Scope, u16),
    events: &mut VecDeque<SystemEvent>,
) -> u64 {
    let mut malformed = 0;
    let read = pages.read(page, |item| match item {
        Item::Lost { time_ns, events: lost } => {
            let kind = EventKind::Lost { events: lost };
            events.push_back(SystemEvent { time_ns, cpu, thread: 0, context: Context::Process, kind });
        }
        Item::Event { time_ns, bytes } => {
            let number = bytes.first_chunk().map(|number| u16::from_ne_bytes(*number));
            let decoder = number.and_then(|number| decoders.get(&number));
            // The switches of the task are recorded for their call stacks alone.
            let Some(decoder) = decoder else {
                malformed += 1;
                return;
            };
            if scope == Scope::Task && decoder.tracepoint.point == Point::Switch {
                return;
            }
            match decoder.decode(bytes, time_ns, cpu, symbols) {
                Some(Some(event)) => events.push_back(event),
                Some(None) => {}
                None => malformed += 1,
            }
        }
    });
    malformed + u64::from(read.is_err())
}
