//! Progress of reading a trace, for display while the reader continues.
//!
//! # Scope and limits
//! Progress counts bytes of files as stored on disk, compressed or not, or rows where the format knows their
//! number beforehand. A compressed archive is read twice: as stored on disk while it is unpacked, then the
//! bytes of its parts. The size of a pipe is unknown.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Progress of reading a trace. Clones share the same progress.
#[derive(Debug, Clone, Default)]
pub struct Position(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    done: AtomicU64,
    total: AtomicU64,
}

impl Position {
    /// Share of the trace that was read, from 0 to 1; `None` where its size is not known.
    pub fn share(&self) -> Option<f64> {
        let [done, total] = [&self.0.done, &self.0.total].map(|count| count.load(Ordering::Relaxed));
        (total > 0).then(|| (done as f64 / total as f64).min(1.0))
    }

    /// Begins anew, of so many bytes or rows; of none if that is not known.
    pub fn restart(&self, total: u64) {
        self.0.done.store(0, Ordering::Relaxed);
        self.0.total.store(total, Ordering::Relaxed);
    }

    /// Adds `more` to the total that is to be read.
    pub(crate) fn extend(&self, more: u64) {
        self.0.total.fetch_add(more, Ordering::Relaxed);
    }

    /// Adds `count` to the amount that was read.
    pub fn advance(&self, count: u64) {
        self.0.done.fetch_add(count, Ordering::Relaxed);
    }

    /// A file of which every byte that is read counts.
    pub(crate) fn counting(&self, file: File) -> Counting<File> {
        let length = file.metadata().ok().filter(Metadata::is_file).map_or(0, |metadata| metadata.len());
        self.counting_of(file, length)
    }

    /// A stream of so many bytes, 0 if that is not known, of which every byte that is read counts.
    pub(crate) fn counting_of<R: Read>(&self, input: R, length: u64) -> Counting<R> {
        self.extend(length);
        Counting { input, position: self.clone() }
    }
}

/// A stream of which every byte that is read counts.
#[derive(Debug)]
pub(crate) struct Counting<R> {
    input: R,
    position: Position,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(target)?;
        self.position.advance(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn share_of_a_file_that_was_read_is_reported() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 1_000]).unwrap();
        let position = Position::default();
        assert_eq!(position.share(), None);
        let mut counting = position.counting(file.reopen().unwrap());
        counting.read_exact(&mut [0; 250]).unwrap();
        assert_eq!(position.clone().share(), Some(0.25));
        io::copy(&mut counting, &mut io::sink()).unwrap();
        assert_eq!(position.share(), Some(1.0));
        position.restart(0);
        assert_eq!(position.share(), None);
    }
}
