//! Applications: PostMark, a build, a database, as programs on a [host](crate::host).
//!
//! ```text
//! PostMark, build, database ──operations──▶ System ──▶ processes of a Host ──requests──▶ device
//! ```
//! Each process alternates between computing and waiting. Its next action depends on completions, so a faster
//! device brings later requests forward, as with a real application. CPUs, page cache, write-back and journal are those
//! of the host. The simulator drives the host in model time, and a runner against the wall clock drives the emulator with the
//! same requests in the same dependencies.
//!
//! An application consists of phases. Each has a name, a start and an end. If a phase ends with an unmount,
//! everything is written back and the caches are empty afterwards, as in [Griffin 2004, chapter 6].
//!
//! # Scope and limits
//! - No data: a runner that drives a real device generates the data and checks it.
//! - Requests that touch the same blocks are never outstanding together if one of them changes the blocks.
//! - The limits of the host and of its file system are on their pages.
//!
//! # References
//! J. Katcher, PostMark: A New File System Benchmark, NetApp TR3022, 1997. J. L. Griffin, Timing-accurate
//! storage emulation, CMU, 2004, chapter 6. `docs/models/applications.md` compares with real programs.

mod buffer_pool;
mod build;
mod database;
mod postmark;

use seeklab_core::{ByteSize, DescriptionError, Mistake, Seed};

pub use self::build::BuildSpec;
pub use self::database::DatabaseSpec;
pub use self::postmark::PostmarkSpec;

use self::build::Build;
use self::database::Database;
use self::postmark::Postmark;
use crate::host::{Application, FileSystemSettings, Host, HostSettings, Mount};
use crate::spec::WorkloadSpec;
use crate::synthetic::AddressSpace;

/// Block of the file system, and of the buffer of stdio.
const PAGE_BYTES: u64 = 4096;

/// CPUs of a host at most.
const CPUS_MAX: u64 = 1024;

/// An application, as it is described.
#[derive(Debug, Clone, PartialEq)]
pub enum Builtin {
    /// PostMark's transactions on small files.
    Postmark(PostmarkSpec),
    /// Unpacking, configuring and building a source package.
    Build(BuildSpec),
    /// Transactions of several clients of a database.
    Database(DatabaseSpec),
}

impl Builtin {
    /// Reads the one-line form, such as `postmark,files=500,transactions=2000`; its grammar is that of
    /// [`text`](crate::text).
    ///
    /// # Errors
    /// [`DescriptionError`] names the key, the mistake and what would be right.
    pub fn parse(line: &str) -> Result<Self, DescriptionError> {
        WorkloadSpec::parse(line)?.builtin().ok_or_else(|| {
            DescriptionError::new(Mistake::UnknownName, "", format!("`{line}` is not an application"))
                .hint("write `postmark`, `build` or `database`")
        })
    }

    /// Returns true if it commits transactions, each of which promises that what it wrote is durable.
    pub const fn commits(&self) -> bool {
        matches!(self, Self::Database(_))
    }

    /// Its name on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Postmark(_) => "postmark",
            Self::Build(_) => "build",
            Self::Database(_) => "database",
        }
    }

    /// The host that runs the application on an empty file system over the whole of `target`, but at most 1 TiB.
    ///
    /// # Errors
    /// A value out of range, or a device that is too small or whose blocks are too large.
    pub fn host(&self, target: AddressSpace, seed: Seed) -> Result<Host, DescriptionError> {
        let (settings, files) = self.settings()?;
        let application: Box<dyn Application> = match self {
            Self::Postmark(spec) => Box::new(Postmark::new(spec, seed)?),
            Self::Build(spec) => Box::new(Build::new(spec, seed)?),
            Self::Database(spec) => Box::new(Database::new(spec, seed)?),
        };
        Host::of_application(application, files, &settings, target, seed)
    }

    /// Settings of the host and of its file system.
    fn settings(&self) -> Result<(HostSettings, FileSystemSettings), DescriptionError> {
        let (given, cache, processes, mount, discards) = match self {
            Self::Postmark(spec) => (&spec.host, Some(spec.cache), 1, spec.mount, spec.discard),
            Self::Build(spec) => (&spec.host, Some(spec.cache), spec.processes, spec.mount, false),
            // The page cache only serves the file system's own blocks: pages of the database bypass it.
            Self::Database(spec) => (&spec.host, None, spec.clients, Mount::Journal, false),
        };
        let cache_min = ByteSize::from_bytes(64 * PAGE_BYTES);
        if cache.is_some_and(|cache| cache < cache_min) {
            return Err(DescriptionError::invalid("cache", "is too small").hint("write at least `256KiB`"));
        }
        let settings = HostSettings {
            memory: given.memory.or(cache).or(Some(DATABASE_MEMORY)),
            cpus: given.cpus.or(Some(processes.clamp(1, CPUS_MAX) as u32)),
            // Every write to the device may be volatile until it is flushed.
            write_cache: given.write_cache.or(Some(true)),
            ..given.clone()
        };
        Ok((settings, FileSystemSettings { mount, discards }))
    }
}

/// Memory for metadata of a host with a database.
const DATABASE_MEMORY: ByteSize = ByteSize::from_bytes(16 << 20);

/// A count times a scale, at least one.
fn scaled(count: u64, scale: f64) -> u64 {
    ((count as f64 * scale).round() as u64).max(1)
}

/// A count times a scale, at least one unless the count is zero.
fn count(count: u64, scale: f64) -> u64 {
    if count == 0 { 0 } else { scaled(count, scale) }
}

fn check_scale(scale: f64) -> Result<(), DescriptionError> {
    if scale.is_finite() && scale > 0.0 && scale <= 1e6 {
        return Ok(());
    }
    Err(DescriptionError::invalid("scale", format!("`{scale}` is out of range"))
        .hint("a scale lies above 0, for example 0.5 for half as much"))
}
