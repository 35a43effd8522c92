//! Pages of the kernel's buffers on their way through temporary files, and their events in order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::format::{Decoder, Point, Scope};
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

/// Moves pages from the two instances to temporary files.
pub(super) struct Spooler {
    pages: PageLayout,
    pub(super) host: Instance,
    pub(super) task: Instance,
    files: Vec<BufWriter<File>>,
    page: Vec<u8>,
    bytes: u64,
    folder: PathBuf,
}

/// The pages of a capture.
#[derive(Debug)]
pub(super) struct Spooled {
    pages: PageLayout,
    /// Scope, processor and pages.
    files: Vec<(Scope, u16, File)>,
    pub(super) bytes: u64,
    /// Lost events, as the kernel counts them.
    pub(super) lost: u64,
    pub(super) end_ns: u64,
    folder: PathBuf,
}

fn failed(action: &'static str, folder: &Path) -> impl Fn(std::io::Error) -> CaptureError {
    let path = folder.to_owned();
    move |source| CaptureError::Spool { action, path: path.clone(), source }
}

impl Spooler {
    /// Makes the temporary files in `folder`.
    pub(super) fn new(
        pages: PageLayout,
        host: Instance,
        task: Instance,
        folder: &Path,
    ) -> Result<Self, CaptureError> {
        let readers = host.readers.len() + task.readers.len();
        let files = (0..readers).map(|_| tempfile::tempfile_in(folder).map(BufWriter::new));
        let files = files.collect::<Result<_, _>>().map_err(failed("store", folder))?;
        let page = vec![0; pages.size];
        // A kernel before 5.0 lacks the file, and wakes the reader for each page.
        for instance in [&host, &task] {
            let _ = instance.write("buffer_percent", FULL_PERCENT);
        }
        Ok(Self { pages, host, task, files, page, bytes: 0, folder: folder.to_owned() })
    }

    /// Moves pages until `stop` is signalled: those of a buffer when it is half full.
    pub(super) fn run(mut self, stop: &OwnedFd) -> Result<Spooled, CaptureError> {
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
            self.drain(|reader| is_ready[reader + 1])?;
        }
        let end_ns = monotonic_ns();
        for instance in [&self.host, &self.task] {
            instance.write("tracing_on", "0")?;
        }
        // What is left takes as many rounds as it needs, for nothing comes in any more.
        loop {
            let before = self.bytes;
            self.drain(|_| true)?;
            if self.bytes == before {
                break;
            }
        }
        let Self { pages, host, task, files, bytes, folder, .. } = self;
        let lost = host.lost().values().chain(task.lost().values()).sum();
        let scopes = host.readers.iter().map(|reader| (Scope::Host, reader.0));
        let scopes = scopes.chain(task.readers.iter().map(|reader| (Scope::Task, reader.0)));
        let mut stored = Vec::new();
        for ((scope, cpu), file) in scopes.zip(files) {
            let file = file.into_inner().map_err(|error| failed("store", &folder)(error.into_error()))?;
            stored.push((scope, cpu as u16, file));
        }
        Ok(Spooled { pages, files: stored, bytes, lost, end_ns, folder })
    }

    /// Empties the chosen buffers.
    fn drain(&mut self, is_chosen: impl Fn(usize) -> bool) -> Result<(), CaptureError> {
        let Self { host, task, files, page, bytes, folder, .. } = self;
        let readers = host.readers.iter_mut().chain(&mut task.readers);
        let chosen = readers.zip(files).enumerate().filter(|(number, _)| is_chosen(*number));
        for (_, ((_, reader), file)) in chosen {
            for _ in 0..PAGES_MAX {
                page.fill(0);
                match reader.read(page) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => file.write_all(page).map_err(failed("store", folder))?,
                }
                *bytes += page.len() as u64;
            }
        }
        Ok(())
    }
}

/// Events of one temporary file, page by page.
struct Stream {
    scope: Scope,
    cpu: u16,
    file: BufReader<File>,
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
        let mut page = vec![0; self.pages.size];
        let mut malformed = 0;
        let mut streams = Vec::new();
        for (scope, cpu, file) in std::mem::take(&mut self.files) {
            let mut file = BufReader::new(file);
            file.rewind().map_err(failed("read", &self.folder))?;
            streams.push(Stream { scope, cpu, file, events: VecDeque::new() });
        }
        let mut next = BinaryHeap::new();
        let mut fill = |stream: &mut Stream, page: &mut [u8]| -> Result<Option<u64>, CaptureError> {
            while stream.events.is_empty() {
                match stream.file.read_exact(page) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
                    Err(error) => return Err(failed("read", &self.folder)(error)),
                }
                malformed += decode(&self.pages, page, &decoders, symbols, stream);
            }
            Ok(stream.events.front().map(|event| event.time_ns))
        };
        for (index, stream) in streams.iter_mut().enumerate() {
            if let Some(time_ns) = fill(stream, &mut page)? {
                next.push(Reverse((time_ns, index)));
            }
        }
        while let Some(Reverse((_, index))) = next.pop() {
            let stream = &mut streams[index];
            let event = stream.events.pop_front().expect("its time was known");
            take(&event);
            if let Some(time_ns) = fill(stream, &mut page)? {
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
    stream: &mut Stream,
) -> u64 {
    let mut malformed = 0;
    let (scope, cpu, events) = (stream.scope, stream.cpu, &mut stream.events);
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
