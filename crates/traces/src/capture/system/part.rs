//! The recording as it lies in `OUTPUT.part` until its trace is written: what a recorder leaves that is killed.
//!
//! ```text
//! "seeklab system part 1\n"
//! frame   u32 kind | u32 length of the data | u32 CRC-32 of the data | data
//!   0     beginning, JSON: what the pages cannot be read without
//!   1     task, JSON: known when the command starts
//!   2     pages of a buffer: u32 number of the buffer | pages as the kernel gives them
//!   3     round: u64 time in nanoseconds; all events before it are in the file
//! ```
//! Integers are little-endian. Every second, all buffers are emptied and a round is marked. The trace of a file that was left behind
//! ends at its last round.
//!
//! # Scope and limits
//! A process that is killed leaves an incomplete last frame at most. A machine that loses power leaves what the file system had
//! written back, with anything behind it. The first frame that is not whole ends the recording; the bytes from there on are counted.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::Crc;
use seeklab_files::PartFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::symbols::Symbols;
use super::{HostFacts, Root, StartState};
use crate::capture::error::CaptureError;
use crate::system::{InitialThread, RecordingCost, TracedDevice};

/// Line with which the file begins.
const HEADER: &[u8] = b"seeklab system part 1\n";
const FRAME_BYTES: usize = 12;
/// Bytes of the data of a frame at most.
const DATA_BYTES_MAX: usize = 64 << 20;

const BEGINNING: u32 = 0;
const TASK: u32 = 1;
const PAGES: u32 = 2;
const ROUND: u32 = 3;

/// Everything that is known at the beginning of a recording.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Beginning {
    pub(super) begin_ns: u64,
    pub(super) path: PathBuf,
    pub(super) device: TracedDevice,
    pub(super) initial: Vec<InitialThread>,
    pub(super) facts: HostFacts,
    #[serde(default)]
    pub(super) state: StartState,
    pub(super) cost: RecordingCost,
    /// Text of `events/header_page`.
    pub(super) header_page: String,
    /// Group and name of each tracepoint, with the text of its `format` file.
    pub(super) formats: Vec<(String, String, String)>,
    pub(super) symbols: Symbols,
    /// Buffers by their numbers: true for one of the task, and the processor.
    pub(super) buffers: Vec<(bool, u16)>,
}

/// The command that is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTask {
    /// First threads of the task.
    pub root: Root,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Processors that it may use, as a list such as `0,2-3`. `None` if they are not known.
    #[serde(default)]
    pub cpus: Option<String>,
    /// Limit of the memory of the group that it runs in, in bytes. `None` if it has none of its own.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// Time at which the device was made, in nanoseconds of CLOCK_MONOTONIC. `None` if it is not known.
    #[serde(default)]
    pub device_made_ns: Option<u64>,
}

/// Place of pages in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: usize,
}

/// The part file of a recording that is under way.
#[derive(Debug)]
pub(super) struct Part {
    file: PartFile,
    /// Bytes in the file.
    length: u64,
    frame: Vec<u8>,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CaptureError {
    let path = path.to_owned();
    move |source| CaptureError::Spool { action, path, source }
}

fn checksum(data: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(data);
    crc.sum()
}

impl Part {
    /// Creates the part file of `output`.
    pub(super) fn create(output: &Path, beginning: &Beginning) -> Result<Self, CaptureError> {
        let storing = |error: seeklab_files::FileError| failed("store", output)(std::io::Error::other(error));
        let file = PartFile::create(output).map_err(storing)?.ok_or_else(|| {
            failed("store", output)(std::io::Error::other(
                "the trace is a folder, and this is no place for one",
            ))
        })?;
        let mut this = Self { file, length: 0, frame: Vec::new() };
        this.write(HEADER)?;
        this.append_json(BEGINNING, beginning)?;
        Ok(this)
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn set_task(&mut self, task: &RecordedTask) -> Result<(), CaptureError> {
        self.append_json(TASK, task)
    }

    /// Appends pages of a buffer.
    pub(super) fn append_pages(&mut self, buffer: u32, pages: &[u8]) -> Result<Place, CaptureError> {
        let number = buffer.to_le_bytes();
        let offset = self.length + (FRAME_BYTES + number.len()) as u64;
        self.append(PAGES, &[&number, pages])?;
        Ok(Place { offset, bytes: pages.len() })
    }

    /// Marks that all events before a time are in the file.
    pub(super) fn end_round(&mut self, time_ns: u64) -> Result<(), CaptureError> {
        self.append(ROUND, &[&time_ns.to_le_bytes()])
    }

    /// Removes the file.
    pub(super) fn remove(self) -> Result<(), CaptureError> {
        let path = self.path().to_owned();
        self.file.remove().map_err(|error| failed("remove", &path)(std::io::Error::other(error)))
    }

    fn append_json(&mut self, kind: u32, value: &impl Serialize) -> Result<(), CaptureError> {
        let text = serde_json::to_vec(value).expect("its keys are texts");
        self.append(kind, &[&text])
    }

    fn append(&mut self, kind: u32, data: &[&[u8]]) -> Result<(), CaptureError> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.extend_from_slice(&[0; FRAME_BYTES]);
        data.iter().for_each(|data| frame.extend_from_slice(data));
        let (length, crc) = (frame.len() - FRAME_BYTES, checksum(&frame[FRAME_BYTES..]));
        for (place, number) in frame.chunks_exact_mut(4).zip([kind, length as u32, crc]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        // One write: a killed process leaves a frame in whole or in part, and none behind it.
        let written = self.write(&frame);
        self.frame = frame;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        let path = self.file.path().to_owned();
        self.file.append(bytes).map_err(|error| failed("store", &path)(std::io::Error::other(error)))?;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// A part file that was left behind.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) beginning: Beginning,
    pub(super) task: RecordedTask,
    /// Time of the last round.
    pub(super) end_ns: u64,
    /// Pages of each buffer.
    pub(super) places: Vec<Vec<Place>>,
    /// Bytes behind the last whole frame.
    pub(super) omitted_bytes: u64,
}

/// Returns true if the file begins as the part file of a system-level recording.
pub fn is_system_part(path: &Path) -> bool {
    let mut head = [0; HEADER.len()];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut head).is_ok())
        && head == HEADER
}

impl Left {
    /// Looks at all frames of the file.
    pub(super) fn read(path: &Path) -> Result<Self, CaptureError> {
        let file = File::open(path).map_err(failed("read", path))?;
        let length = file.metadata().map_err(failed("read", path))?.len();
        let mut input = BufReader::new(file);
        let mut offset = HEADER.len() as u64;
        std::io::copy(&mut (&mut input).take(offset), &mut std::io::sink()).map_err(failed("read", path))?;
        let (mut beginning, mut task, mut end_ns) = (None::<Beginning>, None::<RecordedTask>, None);
        let mut places: Vec<Vec<Place>> = Vec::new();
        let mut data = Vec::new();
        while let Some(kind) = next_frame(&mut input, &mut data).map_err(failed("read", path))? {
            match kind {
                BEGINNING if beginning.is_none() => {
                    let Some(read) = json::<Beginning>(&data) else { break };
                    places = vec![Vec::new(); read.buffers.len()];
                    beginning = Some(read);
                }
                TASK if task.is_none() => {
                    let Some(read) = json(&data) else { break };
                    task = Some(read);
                }
                PAGES => {
                    let Some((number, pages)) = data.split_first_chunk() else { break };
                    let Some(places) = places.get_mut(u32::from_le_bytes(*number) as usize) else { break };
                    let offset = offset + (FRAME_BYTES + number.len()) as u64;
                    places.push(Place { offset, bytes: pages.len() });
                }
                ROUND => {
                    let Some(time) = data.first_chunk() else { break };
                    end_ns = Some(u64::from_le_bytes(*time));
                }
                _ => break,
            }
            offset += (FRAME_BYTES + data.len()) as u64;
        }
        let missing = |what| CaptureError::Part { path: path.to_owned(), problem: what };
        Ok(Self {
            beginning: beginning.ok_or_else(|| missing("the description of the host"))?,
            task: task.ok_or_else(|| missing("the command, which had not begun"))?,
            end_ns: end_ns.ok_or_else(|| missing("the events of the first second"))?,
            places,
            omitted_bytes: length.saturating_sub(offset),
        })
    }
}

fn json<T: DeserializeOwned>(data: &[u8]) -> Option<T> {
    serde_json::from_slice(data).ok()
}

/// Reads the data of the next frame; its kind, or `None` at the end and before a frame that is not whole.
fn next_frame(input: &mut impl Read, data: &mut Vec<u8>) -> std::io::Result<Option<u32>> {
    data.clear();
    input.take(FRAME_BYTES as u64).read_to_end(data)?;
    let number = |place: usize| data.get(place..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let (Some(kind), Some(length), Some(crc)) = (number(0), number(4), number(8)) else { return Ok(None) };
    if length as usize > DATA_BYTES_MAX {
        return Ok(None);
    }
    data.clear();
    input.take(u64::from(length)).read_to_end(data)?;
    Ok((data.len() == length as usize && checksum(data) == crc).then_some(kind))
}

/// Pages of one buffer, one after the other.
#[derive(Debug)]
pub(super) struct Pages {
    places: std::vec::IntoIter<Place>,
    held: Vec<u8>,
    next: usize,
}

impl Pages {
    pub(super) fn new(places: Vec<Place>) -> Self {
        Self { places: places.into_iter(), held: Vec::new(), next: 0 }
    }

    /// Reads the next page of `size` bytes. `None` behind the last one.
    pub(super) fn next(&mut self, file: &File, size: usize) -> std::io::Result<Option<&[u8]>> {
        while self.next + size > self.held.len() {
            let Some(place) = self.places.next() else { return Ok(None) };
            self.held.resize(place.bytes, 0);
            file.read_exact_at(&mut self.held, place.offset)?;
            self.next = 0;
        }
        let page = self.next..self.next + size;
        self.next = page.end;
        Ok(Some(&self.held[page]))
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use proptest::prelude::*;

    use super::super::Recorded;
    use super::super::format::tests::SWITCH;
    use super::*;
    use crate::capture::pages::tests::HEADER as HEADER_PAGE;

    fn beginning() -> Vec<u8> {
        let beginning = Beginning {
            begin_ns: 1_000,
            path: PathBuf::from("/dev/loop0"),
            device: TracedDevice { requests: 7, file_system: 7, partition: None },
            initial: Vec::new(),
            facts: HostFacts { cpus: vec![0, 1], ..HostFacts::default() },
            state: StartState::default(),
            cost: RecordingCost::default(),
            header_page: HEADER_PAGE.to_owned(),
            formats: vec![("sched".to_owned(), "sched_switch".to_owned(), SWITCH.to_owned())],
            symbols: Symbols::default(),
            buffers: vec![(false, 0), (true, 1)],
        };
        serde_json::to_vec(&beginning).unwrap()
    }

    fn task() -> Vec<u8> {
        let task = RecordedTask {
            root: Root::Thread(10),
            command: vec!["cp".to_owned()],
            cpus: None,
            memory_limit_bytes: None,
            device_made_ns: None,
        };
        serde_json::to_vec(&task).unwrap()
    }

    fn frame(kind: u32, data: &[u8]) -> Vec<u8> {
        let numbers = [kind, data.len() as u32, checksum(data)];
        numbers.iter().flat_map(|number| number.to_le_bytes()).chain(data.iter().copied()).collect()
    }

    /// A page of a buffer: its time, the bytes that are used, and 32-bit words of events.
    fn page(number: u32, time_ns: u64, words: &[u32]) -> Vec<u8> {
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut page = number.to_le_bytes().to_vec();
        page.extend_from_slice(&time_ns.to_le_bytes());
        page.extend_from_slice(&(data.len() as u64).to_le_bytes());
        page.extend_from_slice(&data);
        page.resize(4 + 4096, 0);
        page
    }

    fn read(bytes: &[u8]) -> Result<u64, CaptureError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.sys.part");
        std::fs::write(&path, bytes).unwrap();
        let mut left = Recorded::left_in(&path)?;
        left.recorded.process(left.task.root, &mut |_| ()).map(|processed| processed.events)
    }

    fn whole(pages: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        bytes.extend(frame(BEGINNING, &beginning()));
        bytes.extend(frame(TASK, &task()));
        pages.iter().for_each(|page| bytes.extend(frame(PAGES, page)));
        bytes.extend(frame(ROUND, &u64::MAX.to_le_bytes()));
        bytes
    }

    #[test]
    fn events_of_a_recording_that_was_left_are_read() {
        // 100 ns behind the time of the page: thread 10 sleeps, and thread 11 gets the processor.
        let switch = [16 | 100 << 5, 372, 10, 0, 0, 0, 0, 10, 120, 2, 0, 0, 0, 0, 0, 11, 120];
        assert_eq!(read(&whole(&[page(0, 2_000, &switch), page(0, 3_000, &switch)])).unwrap(), 2);
        for missing in [HEADER.len(), HEADER.len() + 5, HEADER.len() + FRAME_BYTES + beginning().len()] {
            assert!(read(&whole(&[])[..missing]).is_err(), "{missing} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_pages_and_damages_yield_a_trace_or_an_error(
            pages in prop::collection::vec(
                (0_u32..3, any::<u64>(), prop::collection::vec(prop_oneof![any::<u32>(), 0_u32..40, Just(16 | 100 << 5), Just(372)], 0..200)),
                0..6,
            ),
            damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            cut in prop::option::of(any::<prop::sample::Index>()),
            repeated in any::<bool>(),
        ) {
            let pages: Vec<_> = pages.iter().map(|(number, time_ns, words)| page(*number, *time_ns, words)).collect();
            let mut bytes = whole(&pages);
            if repeated {
                bytes.extend(frame(TASK, b"{}"));
                bytes.extend(frame(BEGINNING, b"null"));
                bytes.extend(frame(9, &[]));
            }
            for (place, value) in damages {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let _ = read(&bytes);
        }
    }
}
