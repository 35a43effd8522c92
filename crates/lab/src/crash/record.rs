//! The record of a run: everything that is needed to tell what was on the device at any of its moments.
//!
//! ```text
//! FOLDER/base.img          the device before the run, sparse
//!        requests.parquet  its requests, with the description and the seed of the device
//!        contents.bin      the bytes of its writes, one behind the other
//!        promises.txt      time and text of each promise
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use seeklab_core::{ByteSize, Completion, Event, EventKind, Instant, Operation, Request, Seed, TraceRecord};
use seeklab_devices::description::Description;
use seeklab_emulator::store::{Store, image_size};
use seeklab_traces::{Metadata, ReadOptions};

use super::checksum;
use crate::devices::{Resolved, Setup, customise};
use crate::emulate::capabilities_of;
use crate::failure::Failure;

/// File names in the folder of a record.
pub(super) const BASE: &str = "base.img";
pub(super) const REQUESTS: &str = "requests.parquet";
pub(super) const CONTENTS: &str = "contents.bin";
pub(super) const PROMISES: &str = "promises.txt";

/// Keys in the metadata of the requests.
const SCHEMA: &str = "crash.schema";
const SIZE: &str = "crash.size";
const BEGAN: &str = "crash.began_ns";
const SCHEDULER: &str = "crash.scheduler";
const DEPTH: &str = "crash.depth";
const BASE_CRC: &str = "crash.base_crc32";
const CONTENTS_CRC: &str = "crash.contents_crc32";

/// The version of the schema of records.
const VERSION: u32 = 1;

/// A line that was promised, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Promise {
    pub(super) at: Instant,
    pub(super) line: String,
}

/// A recorded run.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) folder: PathBuf,
    pub(super) device: Resolved,
    pub(super) seed: Seed,
    pub(super) size: ByteSize,
    /// Time at which COMMAND began.
    pub(super) began: Instant,
    pub(super) requests: Vec<TraceRecord>,
    pub(super) promises: Vec<Promise>,
    pub(super) block_bytes: u64,
    /// Place in the contents of each request's bytes.
    offsets: Vec<u64>,
    contents: File,
}

/// Checksums of the large files of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checksums {
    pub(super) base: u32,
    pub(super) contents: u32,
}

/// Requests of a run as the model answers them, and when what they wrote was durable.
#[derive(Debug)]
pub(super) struct Durability {
    /// By number of the request.
    pub(super) completions: Vec<Completion>,
    /// Events of blocks that became durable, in order of time.
    pub(super) events: Vec<Event>,
}

/// The metadata of the requests of a run.
pub(super) fn metadata(
    device: &Resolved,
    mut metadata: Metadata,
    size: ByteSize,
    began: Instant,
    checksums: Checksums,
) -> Metadata {
    metadata.other.insert(SCHEMA.to_owned(), VERSION.to_string());
    metadata.other.insert(SIZE.to_owned(), size.to_string());
    metadata.other.insert(BEGAN.to_owned(), began.as_ns().to_string());
    metadata.other.insert(BASE_CRC.to_owned(), format!("{:08x}", checksums.base));
    metadata.other.insert(CONTENTS_CRC.to_owned(), format!("{:08x}", checksums.contents));
    if let Some((scheduler, depth)) = device.queue() {
        metadata.other.insert(SCHEDULER.to_owned(), scheduler.to_string());
        metadata.other.insert(DEPTH.to_owned(), depth.to_string());
    }
    metadata
}

impl Record {
    /// Reads the record in `folder`.
    ///
    /// # Errors
    /// Files that are missing, damaged or contradict each other.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        const HINT: &str = "name a folder that `seeklab crash --keep` made with this version";
        let wrong = |what: &str| Failure::new(format!("{}: {what}", folder.display())).hint(HINT);
        let opened = |name: &str| {
            File::open(folder.join(name)).map_err(|error| {
                Failure::from(error).context(format!("{}: {name}", folder.display())).hint(HINT)
            })
        };
        let path = folder.join(REQUESTS);
        let trace = seeklab_columnar::open(&path, None, &ReadOptions::default())
            .map_err(|error| Failure::from(error).context(format!("{}: no record", folder.display())))?;
        let metadata = trace.metadata().clone();
        let other = |key: &str| metadata.other.get(key).map(String::as_str);
        let version: Option<u32> = other(SCHEMA).and_then(|version| version.parse().ok());
        match version {
            None => return Err(wrong("its requests are not those of a record")),
            Some(version) if version > VERSION => {
                let found = format!("the record has version {version} of its schema, and {VERSION} is known");
                return Err(wrong(&found).hint("update seeklab"));
            }
            Some(_) => {}
        }
        let size: ByteSize = other(SIZE)
            .and_then(|size| size.parse().ok())
            .ok_or_else(|| wrong("its requests do not say the size of the device"))?;
        let began = other(BEGAN)
            .and_then(|ns| ns.parse().ok())
            .map(Instant::from_ns)
            .ok_or_else(|| wrong("its requests do not say when the command began"))?;
        let text = metadata.device.as_deref().ok_or_else(|| wrong("its requests name no device"))?;
        let name = format!("{}", path.display());
        let description = Description::parse("device", &name, text)?;
        let queue = match (other(SCHEDULER), other(DEPTH)) {
            (Some(scheduler), Some(depth)) => {
                let parsed = scheduler.parse().ok().zip(depth.parse().ok());
                Some(parsed.ok_or_else(|| wrong("its queue of the host is not known"))?)
            }
            _ => None,
        };
        let device = customise(&name, description, &Setup { queue, ..Setup::default() })?;
        let seed = metadata.seed.ok_or_else(|| wrong("its requests name no seed"))?;
        let block_bytes = metadata.block_size.as_bytes();
        let requests = trace.collect::<Result<Vec<TraceRecord>, _>>()?;
        let mut offsets = Vec::with_capacity(requests.len());
        let mut end = 0;
        for request in &requests {
            offsets.push(end);
            if request.op == Operation::Write {
                end += u64::from(request.blocks) * block_bytes;
            }
        }
        let contents = opened(CONTENTS)?;
        if contents.metadata()?.len() != end {
            return Err(wrong(&format!("{CONTENTS} does not hold the {end} bytes of its writes")));
        }
        let promises = BufReader::new(opened(PROMISES)?)
            .lines()
            .map(|line| {
                let line = line?;
                let (at, line) = line.split_once(' ').unwrap_or((&line, ""));
                let at = at.parse().map_err(|_| wrong(&format!("{PROMISES} has a line without a time")))?;
                Ok(Promise { at: Instant::from_ns(at), line: line.to_owned() })
            })
            .collect::<Result<Vec<Promise>, Failure>>()?;
        opened(BASE)?;
        let base_size = image_size(&folder.join(BASE))?;
        if base_size != size {
            return Err(wrong(&format!("{BASE} has a size of {base_size}, and the device has {size}")));
        }
        // Records of earlier versions have no checksums.
        let is_as_written = |name: &str, key: &str, sum: u32| match other(key) {
            Some(written) if written != format!("{sum:08x}") => {
                Err(wrong(&format!("{name} is damaged: its checksum is not that of the run")))
            }
            _ => Ok(()),
        };
        is_as_written(CONTENTS, CONTENTS_CRC, checksum::of_file(&contents)?)?;
        is_as_written(BASE, BASE_CRC, checksum::of_store(&base(folder, size)?)?)?;
        let folder = folder.to_owned();
        Ok(Self { folder, device, seed, size, began, requests, promises, block_bytes, offsets, contents })
    }

    /// The files of the record in `folder`.
    pub(super) fn files(folder: &Path) -> [PathBuf; 4] {
        [BASE, REQUESTS, CONTENTS, PROMISES].map(|name| folder.join(name))
    }

    /// A store with what the device held before the run.
    pub(super) fn base(&self) -> Result<Store, Failure> {
        base(&self.folder, self.size)
    }

    /// The bytes of blocks of a write.
    pub(super) fn read(&self, number: usize, lbn: u64, blocks: u32) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; blocks as usize * self.block_bytes as usize];
        let within = (lbn - self.requests[number].lbn) * self.block_bytes;
        self.contents.read_exact_at(&mut bytes, self.offsets[number] + within)?;
        Ok(bytes)
    }

    /// True if completed writes can be lost.
    pub(super) fn is_volatile(&self) -> Result<bool, Failure> {
        Ok(capabilities_of(&self.device)?.volatile_write_cache)
    }

    /// The promises made before `cut`.
    pub(super) fn promises_before(&self, cut: Instant) -> &[Promise] {
        &self.promises[..self.promises.partition_point(|promise| promise.at <= cut)]
    }

    /// Time of the last completion.
    pub(super) fn end(&self) -> Instant {
        self.requests.iter().filter_map(|request| request.completion).max().unwrap_or(self.began)
    }

    /// Runs the requests through the model again, and notes when what they wrote became durable.
    ///
    /// # Errors
    /// If the model answers otherwise than in the run: then the record is not one of this device.
    pub(super) fn replay(&self) -> Result<Durability, Failure> {
        let mut device = self.device.build(self.seed, "disk0")?;
        device.watch();
        let (mut completions, mut events) = (Vec::with_capacity(self.requests.len()), Vec::new());
        let mut arrivals: VecDeque<(Instant, Request)> =
            self.requests.iter().enumerate().map(|(number, record)| arrival(number, record)).collect();
        loop {
            let arrival = arrivals.front().map(|(at, _)| *at);
            let Some(next) = [arrival, device.next_event()].into_iter().flatten().min() else { break };
            device.poll(next, &mut completions);
            while let Some((at, request)) = arrivals.pop_front() {
                if at > next {
                    arrivals.push_front((at, request));
                    break;
                }
                device
                    .submit(next, request)
                    .map_err(|error| Failure::chain(&error).context("the record's requests"))?;
            }
        }
        // What is written in the background when everything is answered.
        device.events(self.end() + seeklab_core::Duration::from_s(60), &mut events);
        events.retain(|event| matches!(event.kind, EventKind::Durable { .. }));
        completions.sort_by_key(|completion| completion.request.id);
        for (completion, recorded) in completions.iter().zip(&self.requests) {
            if Some(completion.completed) != recorded.completion {
                return Err(Failure::new(format!(
                    "{}: request {} was complete at {} ns, and is at {} ns in the model",
                    self.folder.display(),
                    completion.request.id.0,
                    recorded.completion.map_or(0, Instant::as_ns),
                    completion.completed.as_ns()
                ))
                .hint("the record is damaged, or was made by another version"));
            }
        }
        Ok(Durability { completions, events })
    }
}

/// A store with what a device of that size held before the run that is recorded in `folder`.
fn base(folder: &Path, size: ByteSize) -> Result<Store, Failure> {
    let store = Store::in_ram(size, None)?;
    store.load_image(&folder.join(BASE))?;
    Ok(store)
}

/// The arrival of a recorded request in the model.
fn arrival(number: usize, record: &TraceRecord) -> (Instant, Request) {
    let request =
        Request { fua: record.fua, ..Request::new(number as u64, record.op, record.lbn, record.blocks) };
    (record.arrival, request)
}
