//! PostMark: the short-lived small files of mail, news and web commerce.
//!
//! A pool of files is created; each transaction reads a file whole or appends to one, then creates a file or
//! deletes one; at the end the remaining files are deleted. Sizes and biases are PostMark's defaults.
//!
//! # Scope and limits
//! One directory, as by default. Files are read and written through stdio with a buffer of one block, so a
//! `write` call has at most 4 KiB. The numbers drawn are ours, not those of PostMark's generator.
//!
//! # References
//! J. Katcher, PostMark: A New File System Benchmark, NetApp TR3022, 1997. PostMark 1.51's `show`: 500 files
//! of 500 to 10,000 bytes, 500 transactions, biases of 5 in 10.

use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{ByteSize, DescriptionError, Duration, Ratio, Seed, Stream};
use serde::{Deserialize, Serialize};

use super::{PAGE_BYTES, check_scale, count, scaled};
use crate::host::{Application, DirectoryId, FileId, Full, HostSettings, Mount, ProcessId, System};

/// PostMark, as it is described.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostmarkSpec {
    /// Files in the pool at the beginning.
    #[schemars(range(min = 1), extend("x-unit" = "files"))]
    pub files: u64,
    /// Number of transactions.
    #[schemars(extend("x-unit" = "transactions"))]
    pub transactions: u64,
    /// Factor for the numbers of files and transactions, above 0.
    pub scale: f64,
    /// Size of the smallest file.
    #[schemars(extend("x-minimum" = "1B"))]
    pub size_min: ByteSize,
    /// Size of the largest file.
    pub size_max: ByteSize,
    /// Share of transactions that read; the others append.
    #[schemars(extend("x-maximum" = "100%"))]
    pub read: Ratio,
    /// Share of transactions that create; the others delete.
    #[schemars(extend("x-maximum" = "100%"))]
    pub create: Ratio,
    /// Time of the processor that each file operation takes.
    pub compute: Duration,
    /// Time at which changes go to the device.
    pub mount: Mount,
    /// Memory for the page cache. `host.memory` overrides it.
    pub cache: ByteSize,
    /// True if deleting a file discards its blocks.
    pub discard: bool,
    /// Settings of the host that differ from those of the profile `linux`. By default, it has a CPU for each process.
    pub host: HostSettings,
}

impl Default for PostmarkSpec {
    fn default() -> Self {
        Self {
            files: 500,
            transactions: 500,
            scale: 1.0,
            size_min: ByteSize::from_bytes(500),
            size_max: ByteSize::from_bytes(10_000),
            read: Ratio::from_const(0.5),
            create: Ratio::from_const(0.5),
            // Measured: PostMark 1.51 on tmpfs, 200,378 operations in 0.665 s (docs/models/applications.md).
            compute: Duration::from_us(3),
            mount: Mount::Sync,
            // More than the files of ten thousand transactions: all is cached, as it was in 1997.
            cache: ByteSize::from_bytes(128 << 20),
            discard: false,
            host: HostSettings::default(),
        }
    }
}

impl PostmarkSpec {
    fn check(&self) -> Result<(), DescriptionError> {
        check_scale(self.scale)?;
        check_ranges(self)?;
        if self.size_min > self.size_max {
            let problem = format!("{} is more than `size_max`, {}", self.size_min, self.size_max);
            return Err(DescriptionError::invalid("size_min", problem));
        }
        Ok(())
    }
}

/// PostMark while it runs.
#[derive(Debug, Clone)]
pub(super) struct Postmark {
    spec: PostmarkSpec,
    stream: Stream,
    directory: Option<DirectoryId>,
    files: Vec<FileId>,
    part: Part,
}

/// A phase, with the operations left in it.
#[derive(Debug, Clone, Copy)]
enum Part {
    Create { left: u64 },
    Transactions { left: u64 },
    Delete,
    Done,
}

impl Postmark {
    pub(super) fn new(spec: &PostmarkSpec, seed: Seed) -> Result<Self, DescriptionError> {
        spec.check()?;
        let stream = seed.stream("application.postmark");
        let part = Part::Create { left: scaled(spec.files, spec.scale) };
        Ok(Self { spec: spec.clone(), stream, directory: None, files: Vec::new(), part })
    }

    fn create(&mut self, system: &mut System) -> Result<(), Full> {
        let directory = match self.directory {
            Some(directory) => directory,
            None => *self.directory.insert(system.make_directory()?),
        };
        system.compute(self.spec.compute);
        let (low, high) = (self.spec.size_min.as_bytes(), self.spec.size_max.as_bytes());
        let file = system.create(directory, high)?;
        self.files.push(file);
        let size = low + self.stream.below(high - low + 1);
        write(system, file, 0, size)
    }

    fn pick(&mut self) -> usize {
        self.stream.below(self.files.len() as u64) as usize
    }

    fn read(&mut self, system: &mut System) {
        let index = self.pick();
        let file = self.files[index];
        system.compute(self.spec.compute);
        system.open(file);
        system.read(file, 0, system.size_bytes(file));
    }

    fn append(&mut self, system: &mut System) -> Result<(), Full> {
        let index = self.pick();
        let file = self.files[index];
        system.compute(self.spec.compute);
        system.open(file);
        let size = system.size_bytes(file);
        match self.spec.size_max.as_bytes().saturating_sub(size) {
            0 => Ok(()),
            room => {
                let bytes = 1 + self.stream.below(room);
                write(system, file, size, bytes)
            }
        }
    }

    fn delete(&mut self, system: &mut System) {
        let index = self.pick();
        let file = self.files.swap_remove(index);
        system.compute(self.spec.compute);
        system.delete(file);
    }

    fn transaction(&mut self, system: &mut System) -> Result<(), Full> {
        let reads = self.stream.chance(self.spec.read.as_f64());
        let creates = self.stream.chance(self.spec.create.as_f64());
        match (self.files.is_empty(), reads) {
            (true, _) => {}
            (false, true) => self.read(system),
            (false, false) => self.append(system)?,
        }
        if creates || self.files.is_empty() {
            self.create(system)?;
        } else {
            self.delete(system);
        }
        Ok(())
    }
}

/// Writes as stdio does: a block at a time.
fn write(system: &mut System, file: FileId, offset: u64, bytes: u64) -> Result<(), Full> {
    let mut at = 0;
    while at < bytes {
        let count = PAGE_BYTES.min(bytes - at);
        system.write(file, offset + at, count)?;
        at += count;
    }
    Ok(())
}

impl Application for Postmark {
    fn kinds(&self) -> &'static [&'static str] {
        &["postmark"]
    }

    fn step(&mut self, _: ProcessId, system: &mut System) -> Result<bool, Full> {
        match self.part {
            Part::Create { left: 0 } => {
                system.end_phase();
                system.begin_phase("transactions");
                self.part = Part::Transactions { left: count(self.spec.transactions, self.spec.scale) };
            }
            Part::Create { left } => {
                if self.directory.is_none() {
                    system.begin_phase("create");
                }
                self.part = Part::Create { left: left - 1 };
                self.create(system)?;
                system.operation();
            }
            Part::Transactions { left: 0 } => {
                system.end_phase();
                system.begin_phase("delete");
                self.part = Part::Delete;
            }
            Part::Transactions { left } => {
                self.part = Part::Transactions { left: left - 1 };
                self.transaction(system)?;
                system.operation();
            }
            Part::Delete if self.files.is_empty() => {
                system.end_phase();
                system.unmount();
                self.part = Part::Done;
            }
            Part::Delete => {
                self.delete(system);
                system.operation();
            }
            Part::Done => return Ok(false),
        }
        Ok(true)
    }

    fn fork(&self) -> Box<dyn Application> {
        Box::new(self.clone())
    }
}
