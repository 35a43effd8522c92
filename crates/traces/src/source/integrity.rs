//! Checksums of compressed traces, when a row cannot be read.
//!
//! A decoder compares a checksum behind the data that it covers: a block of bzip2 or xz, a frame of zstd, all of a gzip member or
//! of a file in a zip archive. So a flipped bit often shows as a wrong row first. After the error of a row, what is left of the
//! stream is decoded, and if its checksum is wrong, the trace is reported as damaged.
//!
//! # Scope and limits
//! At most 512 MiB of plain bytes are decoded behind the row. A gzip member or zstd frame that ends later is not judged, and
//! neither is a zstd frame without a checksum.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{ErrorKind, TraceError};
use crate::source::compression::stream_error;

/// Plain bytes that are decoded behind a row that cannot be read.
const DECODED_MAX: u64 = 512 << 20;

/// Compressed streams that a trace is read from. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Integrity(Arc<Mutex<Vec<Arc<Mutex<Stream>>>>>);

/// A stream, and its error after it ended with one.
struct Stream {
    input: Box<dyn Read + Send>,
    failure: Option<(io::ErrorKind, String)>,
}

/// A watched stream as its reader has it.
struct Watched(Arc<Mutex<Stream>>);

impl Integrity {
    /// Returns the plain bytes of `input`, a compressed stream that is verified after the error of a row.
    pub(crate) fn watch(&self, input: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        let stream = Arc::new(Mutex::new(Stream { input, failure: None }));
        locked(&self.0).push(Arc::clone(&stream));
        Box::new(Watched(stream))
    }

    /// Forgets all streams, which are opened again.
    pub(crate) fn restart(&self) {
        locked(&self.0).clear();
    }

    /// Returns `error`, the failure of a trace after `rows` rows, or that the trace is damaged if a checksum is wrong.
    #[cold]
    pub(crate) fn explain(&self, error: TraceError, rows: u64) -> TraceError {
        if !matches!(
            error.kind(),
            ErrorKind::Invalid(_)
                | ErrorKind::Malformed { .. }
                | ErrorKind::LineTooLong { .. }
                | ErrorKind::Empty
                | ErrorKind::FormatNotRecognised { .. }
                | ErrorKind::FormatAmbiguous { .. }
        ) {
            return error;
        }
        let streams: Vec<_> = locked(&self.0).clone();
        let Some(failure) = streams.iter().find_map(|stream| locked(stream).failure()) else { return error };
        let mut damage = stream_error(failure, rows).with_hint(match error.kind() {
            ErrorKind::FormatNotRecognised { .. } | ErrorKind::FormatAmbiguous { .. } => {
                "copy or download the file again; the damage may be why no format recognises it".to_owned()
            }
            kind => format!("copy or download the file again; the damage may have caused this: {kind}"),
        });
        if let Some(path) = error.path() {
            damage = damage.in_file(path);
        }
        match error.place() {
            Some(place) => damage.at(place),
            None => damage,
        }
    }
}

impl Stream {
    /// The error of the stream, which is read on for it.
    fn failure(&mut self) -> Option<io::Error> {
        if self.failure.is_none() {
            let mut buffer = vec![0; 64 << 10];
            let mut left = DECODED_MAX;
            while left > 0
                && let Ok(count @ 1..) = self.read(&mut buffer)
            {
                left = left.saturating_sub(count as u64);
            }
        }
        self.failure.as_ref().map(|(kind, text)| io::Error::new(*kind, text.clone()))
    }

    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(target) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure.get_or_insert_with(|| (error.kind(), error.to_string()));
                    return Err(error);
                }
                read => return read,
            }
        }
    }
}

impl Read for Watched {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        locked(&self.0).read(target)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
