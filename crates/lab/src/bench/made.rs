//! A file that a run makes, fills and removes.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use seeklab_bench::target::TargetKind;
use seeklab_core::{ByteSize, Seed};

use super::answer::{self, Patience, Unanswered};
use super::free_space::free_space;
use crate::failure::Failure;
use crate::session::Session;

/// Unit of the free space in messages.
const MEBIBYTE: u64 = 1 << 20;
/// Bytes that are written at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes that wait to be written back at most. Neither a flush nor the removal of the file can be interrupted, and both wait for them.
const UNFLUSHED_MAX: u64 = 16 << 20;

/// The file. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct MadeFile {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
    _held: crate::session::Held,
}

impl MadeFile {
    /// Makes a file of that size, filled with data that no compression makes smaller, and flushes it. An end by the caller does not wait for a file system
    /// that does not answer.
    ///
    /// # Errors
    /// No size, a target that is no file, a file that is there already, no space, or an end by the caller.
    pub(super) fn create(session: &Session, target: &str, size: ByteSize) -> Result<Self, Failure> {
        let (kind, address) = TargetKind::of(target);
        if !kind.is_of_kernel() {
            return Err(Failure::new(format!("--create: `{target}` is no file"))
                .hint("leave it out, or name a path, at which a file is made"));
        }
        if size.as_bytes() == 0 {
            return Err(Failure::new(format!("--create: {size} is out of range"))
                .hint("the size is above zero, such as 4GiB; leave it out to measure a file that is there"));
        }
        let path = PathBuf::from(address);
        let work = {
            let (session, path) = (session.clone(), path.clone());
            move || {
                let (made, file) = Self::open(&session, path)?;
                made.check_space(size)?;
                let filled = made.fill(&session, file, size);
                filled.map(|()| made).map_err(|failure| match session.stop().is_stopped() {
                    true => Failure::check("interrupted while it was filled; it is removed"),
                    false => failure,
                })
            }
        };
        let made = answer::within(Patience::UNTIL_STOPPED, session.stop(), work);
        let made = made.unwrap_or_else(|unanswered| {
            Err(match unanswered {
                Unanswered::NoThread(error) => Failure::from(error).context("no thread can be started"),
                Unanswered::Stopped | Unanswered::Late => {
                    Failure::check("interrupted while it was filled, and its file system does not answer")
                        .hint(format!("remove it if it is there then; {}", super::held_by_kernel()))
                }
            })
        });
        made.map_err(|failure| failure.context(path.display()))
    }

    /// Makes an empty file.
    fn open(session: &Session, path: PathBuf) -> Result<(Self, File), Failure> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(|error| {
            let failure = Failure::from(error).context("cannot be made");
            if path.exists() {
                failure.hint("leave out --create to measure the file that is there")
            } else {
                failure
            }
        })?;
        let identity = identity(file.metadata());
        Ok((Self { path, identity, _held: session.hold() }, file))
    }

    /// Checks that the file fits. Every block of it is written, and no compression makes it smaller.
    fn check_space(&self, size: ByteSize) -> Result<(), Failure> {
        let Some(free) = free_space(&self.path).filter(|free| *free < size) else { return Ok(()) };
        // Nobody needs the bytes of gigabytes.
        let whole = ByteSize::from_bytes(free.as_bytes() & !(MEBIBYTE - 1));
        let free = if whole.as_bytes() == 0 { free } else { whole };
        Err(Failure::new(format!("--create {size}: {free} are free on its disk"))
            .hint("make a smaller file, free space there, or name a path on another disk"))
    }

    fn fill(&self, session: &Session, mut file: File, size: ByteSize) -> Result<(), Failure> {
        let mut stream = Seed(size.as_bytes()).stream("bench.made");
        let mut chunk = vec![0; CHUNK_BYTES];
        chunk.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&stream.bits().to_le_bytes()));
        let mut progress = session.working("making the file");
        let mut left = size.as_bytes();
        let mut unflushed = 0;
        while left > 0 {
            session.check()?;
            let length = left.min(CHUNK_BYTES as u64);
            // No two chunks are alike.
            chunk[..8].copy_from_slice(&left.to_le_bytes());
            file.write_all(&chunk[..length as usize])?;
            left -= length;
            unflushed += length;
            if unflushed >= UNFLUSHED_MAX {
                file.sync_data()?;
                unflushed = 0;
            }
            progress.big_step()?;
        }
        file.sync_all()?;
        Ok(())
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        // Whoever removed it before did no harm, and what else has its name now is not ours.
        if self.identity.is_some() && identity(fs::symlink_metadata(&self.path)) == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Device and inode of a file.
fn identity(metadata: std::io::Result<Metadata>) -> Option<(u64, u64)> {
    metadata.ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
