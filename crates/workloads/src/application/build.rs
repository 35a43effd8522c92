//! A source package: unpacked, configured and built.
//!
//! ```text
//! unpack      one process creates every source and header file
//! configure   one process: small programs written, compiled, run and removed, a log that grows
//! build       several processes: read a source and the headers it includes, compute, write an object;
//!             then one reads every object and writes the program
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

use std::cell::RefCell;
use std::rc::Rc;

use rand_distr::{LogNormal, Zipf};
use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{ByteSize, DescriptionError, Duration, Seed, Stream};
use serde::{Deserialize, Serialize};

use super::filesystem::{DirectoryId, FileId, FileSystem, Full, Mount};
use super::plan::PAGE_BYTES;
use super::{Program, Scenario, Setting, check_scale, scaled};

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
    /// Memory for the page cache.
    pub cache: ByteSize,
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

#[derive(Debug)]
struct Tree {
    spec: BuildSpec,
    stream: Stream,
    directories: Vec<DirectoryId>,
    sources: Vec<FileId>,
    headers: Vec<FileId>,
    objects: Vec<FileId>,
    log: Option<FileId>,
    /// The next source to compile.
    next: usize,
    compiling: usize,
    is_linked: bool,
}

impl Tree {
    fn size(&mut self) -> u64 {
        let mu = (self.spec.size.as_bytes() as f64).ln() - SIZE_SIGMA * SIZE_SIGMA / 2.0;
        let sizes = LogNormal::new(mu, SIZE_SIGMA).expect("a positive size has a logarithm");
        (self.stream.sample(&sizes) as u64).clamp(64, self.spec.size.as_bytes() * 32)
    }

    fn directory(&self, index: u64) -> DirectoryId {
        self.directories[(index % self.directories.len() as u64) as usize]
    }

    fn burst(&mut self, system: &mut FileSystem, mean: Duration) {
        system.compute(self.stream.exponential(mean));
    }
}

fn write(system: &mut FileSystem, file: FileId, bytes: u64) -> Result<(), Full> {
    let mut at = system.size_bytes(file);
    let end = at + bytes;
    while at < end {
        let count = (WRITE_BYTES - at % PAGE_BYTES).min(end - at);
        system.write(file, at, count)?;
        at += count;
    }
    Ok(())
}

fn read(system: &mut FileSystem, file: FileId) {
    system.open(file);
    system.read(file, 0, system.size_bytes(file));
}

#[derive(Debug)]
struct Unpack {
    tree: Rc<RefCell<Tree>>,
    done: u64,
}

impl Program for Unpack {
    fn step(&mut self, system: &mut FileSystem) -> Result<bool, Full> {
        let tree = &mut *self.tree.borrow_mut();
        let scale = tree.spec.scale;
        if tree.directories.is_empty() {
            for _ in 0..scaled(tree.spec.directories, scale) {
                tree.directories.push(system.make_directory()?);
            }
        }
        let (files, headers) = (scaled(tree.spec.files, scale), scaled(tree.spec.headers, scale));
        if self.done == files + headers {
            return Ok(false);
        }
        // An archive holds one directory after the other.
        let index = self.done * tree.directories.len() as u64 / (files + headers);
        let file = system.create(tree.directory(index))?;
        let size = tree.size();
        write(system, file, size)?;
        // Headers and sources alternate as evenly as their numbers let them.
        let is_header =
            (self.done + 1) * headers / (files + headers) > self.done * headers / (files + headers);
        if is_header {
            tree.headers.push(file)
        } else {
            tree.sources.push(file)
        }
        self.done += 1;
        system.operation();
        Ok(true)
    }
}

#[derive(Debug)]
struct Configure {
    tree: Rc<RefCell<Tree>>,
    left: u64,
}

impl Program for Configure {
    fn step(&mut self, system: &mut FileSystem) -> Result<bool, Full> {
        let tree = &mut *self.tree.borrow_mut();
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let directory = tree.directory(0);
        let log = match tree.log {
            Some(log) => log,
            None => *tree.log.insert(system.create(directory)?),
        };
        let source = system.create(directory)?;
        write(system, source, TEST_SOURCE_BYTES)?;
        read(system, source);
        tree.burst(system, tree.spec.test);
        let program = system.create(directory)?;
        write(system, program, TEST_PROGRAM_BYTES)?;
        write(system, log, TEST_LOG_BYTES)?;
        system.delete(source);
        system.delete(program);
        system.operation();
        Ok(true)
    }
}

#[derive(Debug)]
struct Compile {
    tree: Rc<RefCell<Tree>>,
    is_compiling: bool,
}

impl Program for Compile {
    fn step(&mut self, system: &mut FileSystem) -> Result<bool, Full> {
        let tree = &mut *self.tree.borrow_mut();
        tree.compiling -= usize::from(std::mem::take(&mut self.is_compiling));
        let Some(&source) = tree.sources.get(tree.next) else {
            // Whoever ends last links.
            if tree.compiling > 0 || std::mem::replace(&mut tree.is_linked, true) {
                return Ok(false);
            }
            let objects = tree.objects.clone();
            let bytes = objects.iter().map(|object| system.size_bytes(*object)).sum();
            objects.iter().for_each(|object| read(system, *object));
            tree.burst(system, tree.spec.compile * 10);
            let program = system.create(tree.directory(0))?;
            write(system, program, bytes)?;
            system.operation();
            return Ok(true);
        };
        let index = tree.next as u64;
        tree.next += 1;
        tree.compiling += 1;
        self.is_compiling = true;
        read(system, source);
        let ranks = Zipf::new(tree.headers.len() as f64, INCLUDE_EXPONENT).expect("there are headers");
        for _ in 0..tree.spec.includes {
            let rank = tree.stream.sample(&ranks) as usize;
            read(system, tree.headers[rank.clamp(1, tree.headers.len()) - 1]);
        }
        tree.burst(system, tree.spec.compile);
        let count = tree.sources.len() as u64;
        let directory = tree.directory(index * tree.directories.len() as u64 / count);
        let object = system.create(directory)?;
        let bytes = (system.size_bytes(source) as f64 * OBJECT_FACTOR) as u64;
        write(system, object, bytes)?;
        tree.objects.push(object);
        system.operation();
        Ok(true)
    }
}

/// Unpack, configure, build.
#[derive(Debug)]
pub(super) struct Build {
    tree: Rc<RefCell<Tree>>,
}

impl Build {
    pub(super) fn new(spec: &BuildSpec, seed: Seed) -> Result<Self, DescriptionError> {
        spec.check()?;
        let tree = Tree {
            spec: spec.clone(),
            stream: seed.stream("application.build"),
            directories: Vec::new(),
            sources: Vec::new(),
            headers: Vec::new(),
            objects: Vec::new(),
            log: None,
            next: 0,
            compiling: 0,
            is_linked: false,
        };
        Ok(Self { tree: Rc::new(RefCell::new(tree)) })
    }
}

impl Scenario for Build {
    fn phase(&mut self, index: usize) -> Option<Setting> {
        let tree = || Rc::clone(&self.tree);
        let spec = self.tree.borrow().spec.clone();
        let (name, programs): (_, Vec<Box<dyn Program>>) = match index {
            0 => ("unpack", vec![Box::new(Unpack { tree: tree(), done: 0 })]),
            1 => {
                let left = if spec.tests == 0 { 0 } else { scaled(spec.tests, spec.scale) };
                ("configure", vec![Box::new(Configure { tree: tree(), left })])
            }
            2 => {
                let compile = || Box::new(Compile { tree: tree(), is_compiling: false }) as Box<dyn Program>;
                ("build", (0..spec.processes).map(|_| compile()).collect())
            }
            _ => return None,
        };
        Some(Setting { name, programs, unmounts: true })
    }
}
