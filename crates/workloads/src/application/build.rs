//! A source package: unpacked, configured and built.
//!
//! ```text
//! unpack      one process creates every source and header file
//! configure   one process: small programs written, compiled, run and removed, a log that grows
//! build       several processes: read a source and the headers it includes, compute, write an object;
//!             then `make` reads every object and writes the program
//! ```
//! The phases are those of [Griffin 2004, chapter 6], with an unmount after each, so that caches are cold.
//!
//! # Scope and limits
//! The shape is a real build's; the numbers are ours and round, chosen so that a default run takes tens of
//! seconds on a disk of 2001, except where a line names its source.
//!
//! # References
//! J. L. Griffin, Timing-accurate storage emulation, CMU, 2004, chapter 6. N. Agrawal et al., A Five-Year
//! Study of File-System Metadata, FAST 2007: sizes of files are lognormal.

use rand_distr::{LogNormal, Zipf};
use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{ByteSize, DescriptionError, Duration, Seed, Stream};
use serde::{Deserialize, Serialize};

use super::{PAGE_BYTES, check_scale, count, scaled};
use crate::host::{Application, DirectoryId, FileId, Full, HostSettings, Mount, ProcessId, System};

/// A build, as it is described.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BuildSpec {
    /// Source files.
    #[schemars(range(min = 1), extend("x-unit" = "files"))]
    pub files: u64,
    /// Header files.
    #[schemars(range(min = 1), extend("x-unit" = "headers"))]
    pub headers: u64,
    /// Directories of the source and header files.
    #[schemars(range(min = 1))]
    pub directories: u64,
    /// Small programs that configuring compiles.
    #[schemars(extend("x-unit" = "programs"))]
    pub tests: u64,
    /// Factor for the numbers of files, headers, directories and programs, above 0.
    pub scale: f64,
    /// Mean size of a source file.
    #[schemars(extend("x-minimum" = "1B"))]
    pub size: ByteSize,
    /// Headers that a source file includes, some of them several times over.
    #[schemars(extend("x-unit" = "headers"))]
    pub includes: u64,
    /// Mean time to compile a source file.
    pub compile: Duration,
    /// Mean time of one test of configuring.
    pub test: Duration,
    /// Processes that build at a time.
    #[schemars(range(min = 1), extend("x-unit" = "processes"))]
    pub processes: u64,
    /// Time at which changes go to the device.
    pub mount: Mount,
    /// Memory for the page cache. `host.memory` overrides it.
    pub cache: ByteSize,
    /// Settings of the host that differ from those of the profile `linux`. By default, it has a CPU for each process.
    pub host: HostSettings,
}

impl Default for BuildSpec {
    fn default() -> Self {
        Self {
            files: 300,
            headers: 100,
            directories: 12,
            tests: 60,
            scale: 1.0,
            size: ByteSize::from_bytes(12 << 10),
            includes: 20,
            compile: Duration::from_ms(30),
            test: Duration::from_ms(15),
            processes: 2,
            mount: Mount::Sync,
            cache: ByteSize::from_bytes(64 << 20),
            host: HostSettings::default(),
        }
    }
}

/// Shape of the lognormal distribution of sizes: the largest tenth holds over half of all bytes.
const SIZE_SIGMA: f64 = 1.3;
/// An object with debugging information, relative to its source.
const OBJECT_FACTOR: f64 = 1.5;
/// Common headers are included most.
const INCLUDE_EXPONENT: f64 = 0.8;
/// Calls write at most so much: what `cc` and `tar` were built to use.
const WRITE_BYTES: u64 = 16 << 10;
/// Bytes that a test of configuring writes: its source, its program, and a few lines of log.
const TEST_SOURCE_BYTES: u64 = 600;
const TEST_PROGRAM_BYTES: u64 = 16 << 10;
const TEST_LOG_BYTES: u64 = 400;

impl BuildSpec {
    fn check(&self) -> Result<(), DescriptionError> {
        check_scale(self.scale)?;
        check_ranges(self)
    }
}

/// The kinds of processes: `make`, and the compilers that it starts.
const KINDS: &[&str] = &["make", "compile"];
const COMPILE: u32 = 1;

/// A build while it runs.
#[derive(Debug, Clone)]
pub(super) struct Build {
    spec: BuildSpec,
    stream: Stream,
    part: Part,
    directories: Vec<DirectoryId>,
    sources: Vec<FileId>,
    headers: Vec<FileId>,
    objects: Vec<FileId>,
    log: Option<FileId>,
    /// The next source to compile.
    next: usize,
}

/// Part of the work of `make`.
#[derive(Debug, Clone, Copy)]
enum Part {
    Begin,
    /// With the files that are unpacked.
    Unpack {
        done: u64,
    },
    /// With the tests that are left.
    Configure {
        left: u64,
    },
    Link,
    Done,
}

impl Build {
    pub(super) fn new(spec: &BuildSpec, seed: Seed) -> Result<Self, DescriptionError> {
        spec.check()?;
        Ok(Self {
            spec: spec.clone(),
            stream: seed.stream("application.build"),
            part: Part::Begin,
            directories: Vec::new(),
            sources: Vec::new(),
            headers: Vec::new(),
            objects: Vec::new(),
            log: None,
            next: 0,
        })
    }

    fn size(&mut self) -> u64 {
        let mu = (self.spec.size.as_bytes() as f64).ln() - SIZE_SIGMA * SIZE_SIGMA / 2.0;
        let sizes = LogNormal::new(mu, SIZE_SIGMA).expect("a positive size has a logarithm");
        (self.stream.sample(&sizes) as u64).clamp(64, self.spec.size.as_bytes().saturating_mul(32).max(64))
    }

    fn directory(&self, index: u64) -> DirectoryId {
        self.directories[(index % self.directories.len() as u64) as usize]
    }

    fn burst(&mut self, system: &mut System, mean: Duration) {
        system.compute(self.stream.exponential(mean));
    }

    /// Files and headers of the package.
    fn counts(&self) -> (u64, u64) {
        (scaled(self.spec.files, self.spec.scale), scaled(self.spec.headers, self.spec.scale))
    }

    fn tests(&self) -> u64 {
        count(self.spec.tests, self.spec.scale)
    }

    fn unpack(&mut self, done: u64, system: &mut System) -> Result<(), Full> {
        let (files, headers) = self.counts();
        // An archive holds one directory after the other.
        let index = done * self.directories.len() as u64 / (files + headers);
        let size = self.size();
        let file = system.create(self.directory(index), size)?;
        append(system, file, size)?;
        // Headers and sources alternate as evenly as their numbers let them.
        let is_header = (done + 1) * headers / (files + headers) > done * headers / (files + headers);
        if is_header {
            self.headers.push(file)
        } else {
            self.sources.push(file)
        }
        system.operation();
        Ok(())
    }

    fn configure(&mut self, system: &mut System) -> Result<(), Full> {
        let directory = self.directory(0);
        let log = match self.log {
            Some(log) => log,
            None => *self.log.insert(system.create(directory, self.tests() * TEST_LOG_BYTES)?),
        };
        let source = system.create(directory, TEST_SOURCE_BYTES)?;
        append(system, source, TEST_SOURCE_BYTES)?;
        read(system, source);
        self.burst(system, self.spec.test);
        let program = system.create(directory, TEST_PROGRAM_BYTES)?;
        append(system, program, TEST_PROGRAM_BYTES)?;
        append(system, log, TEST_LOG_BYTES)?;
        system.delete(source);
        system.delete(program);
        system.operation();
        Ok(())
    }

    fn compile(&mut self, system: &mut System) -> Result<bool, Full> {
        let Some(&source) = self.sources.get(self.next) else { return Ok(false) };
        let index = self.next as u64;
        self.next += 1;
        read(system, source);
        let ranks = Zipf::new(self.headers.len() as f64, INCLUDE_EXPONENT).expect("there are headers");
        for _ in 0..self.spec.includes {
            let rank = self.stream.sample(&ranks) as usize;
            read(system, self.headers[rank.clamp(1, self.headers.len()) - 1]);
        }
        self.burst(system, self.spec.compile);
        let sources = self.sources.len() as u64;
        let directory = self.directory(index * self.directories.len() as u64 / sources);
        let bytes = (system.size_bytes(source) as f64 * OBJECT_FACTOR) as u64;
        let object = system.create(directory, bytes)?;
        append(system, object, bytes)?;
        self.objects.push(object);
        system.operation();
        Ok(true)
    }

    fn link(&mut self, system: &mut System) -> Result<(), Full> {
        let bytes = self.objects.iter().map(|object| system.size_bytes(*object)).sum();
        self.objects.iter().for_each(|object| read(system, *object));
        self.burst(system, self.spec.compile * 10);
        let program = system.create(self.directory(0), bytes)?;
        append(system, program, bytes)?;
        system.operation();
        Ok(())
    }
}

fn append(system: &mut System, file: FileId, bytes: u64) -> Result<(), Full> {
    let mut at = system.size_bytes(file);
    let end = at + bytes;
    while at < end {
        let count = (WRITE_BYTES - at % PAGE_BYTES).min(end - at);
        system.write(file, at, count)?;
        at += count;
    }
    Ok(())
}

fn read(system: &mut System, file: FileId) {
    system.open(file);
    system.read(file, 0, system.size_bytes(file));
}

impl Application for Build {
    fn kinds(&self) -> &'static [&'static str] {
        KINDS
    }

    fn step(&mut self, process: ProcessId, system: &mut System) -> Result<bool, Full> {
        if process.kind == COMPILE {
            return self.compile(system);
        }
        let (files, headers) = self.counts();
        match self.part {
            Part::Begin => {
                system.begin_phase("unpack");
                for _ in 0..scaled(self.spec.directories, self.spec.scale) {
                    self.directories.push(system.make_directory()?);
                }
                self.part = Part::Unpack { done: 0 };
            }
            Part::Unpack { done } if done == files + headers => {
                next_phase(system, "configure");
                self.part = Part::Configure { left: self.tests() };
            }
            Part::Unpack { done } => {
                self.part = Part::Unpack { done: done + 1 };
                self.unpack(done, system)?;
            }
            Part::Configure { left: 0 } => {
                next_phase(system, "build");
                (0..self.spec.processes).for_each(|number| system.fork(COMPILE, number as u32));
                system.wait();
                self.part = Part::Link;
            }
            Part::Configure { left } => {
                self.part = Part::Configure { left: left - 1 };
                self.configure(system)?;
            }
            Part::Link => {
                self.part = Part::Done;
                self.link(system)?;
                system.end_phase();
                system.unmount();
            }
            Part::Done => return Ok(false),
        }
        Ok(true)
    }

    fn fork(&self) -> Box<dyn Application> {
        Box::new(self.clone())
    }
}

/// The file system is unmounted after each phase.
fn next_phase(system: &mut System, name: &'static str) {
    system.end_phase();
    system.unmount();
    system.begin_phase(name);
}
