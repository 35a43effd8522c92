//! Files in zip archives.
//!
//! # Scope and limits
//! Stored and deflated files. Encrypted ones and other methods are refused. The checksum of a file is compared at its end.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::parts::{MEMBERS_MAX, Slice};
use crate::error::TraceError;

/// First bytes of an archive with a file.
const MAGIC: &[u8] = b"PK\x03\x04";
/// Folder in which macOS keeps what is no file of the archive.
const RESOURCES: &str = "__MACOSX/";

/// A file in an archive.
#[derive(Debug, Clone)]
pub(crate) struct Zipped {
    pub(super) slice: Slice,
    is_deflated: bool,
    crc: u32,
    bytes: u64,
}

/// Returns true if a file with this beginning is a zip archive.
pub(crate) fn is_zip(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// The files in the archive `file`, which messages call `path`.
///
/// # Errors
/// If the archive is damaged, encrypted, or compressed by another method.
pub(super) fn files(path: &Path, file: File) -> Result<Vec<(PathBuf, Zipped)>, TraceError> {
    let damaged = |error: io::Error| {
        TraceError::malformed("the archive is damaged or ends early").with_source(error).in_file(path)
    };
    let length = file.metadata().map_err(damaged)?.len();
    let shared = Arc::new(Mutex::new(file.try_clone().map_err(damaged)?));
    let mut archive = ZipArchive::new(file).map_err(|error| damaged(io::Error::other(error)))?;
    if archive.len() > MEMBERS_MAX {
        let what = format!("the archive has more than {MEMBERS_MAX} files");
        return Err(TraceError::malformed(what).in_file(path));
    }
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|error| damaged(io::Error::other(error)))?;
        let name = entry.name().map_err(|error| damaged(io::Error::other(error)))?.into_owned();
        if entry.is_dir() || name.starts_with(RESOURCES) {
            continue;
        }
        let place = path.join(&name);
        let refused = |what: &str| {
            Err(TraceError::malformed(what.to_owned()).with_hint("unpack the archive").in_file(&place))
        };
        if entry.encrypted() {
            return refused("an encrypted file in an archive cannot be read");
        }
        let is_deflated = match entry.compression() {
            CompressionMethod::Stored => false,
            CompressionMethod::DEFLATE => true,
            _ => return refused("a file in a zip archive must be stored or deflated"),
        };
        let range =
            entry.data_start().and_then(|start| Some((start, start.checked_add(entry.compressed_size())?)));
        let (position, end) = range
            .filter(|(_, end)| *end <= length)
            .ok_or_else(|| damaged(io::ErrorKind::UnexpectedEof.into()))?;
        let slice = Slice { file: Arc::clone(&shared), position, end };
        files.push((place, Zipped { slice, is_deflated, crc: entry.crc32(), bytes: entry.size() }));
    }
    Ok(files)
}

impl Zipped {
    /// Returns true if the file has no bytes.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes of the file, of which `packed` are those in the archive.
    pub(super) fn unpacked(&self, packed: impl Read + Send + 'static) -> Box<dyn Read + Send> {
        let (crc, expected) = (Crc::new(), self.crc);
        if self.is_deflated {
            Box::new(Checked { input: DeflateDecoder::new(packed), crc, expected })
        } else {
            Box::new(Checked { input: packed, crc, expected })
        }
    }
}

/// A stream whose checksum is compared at its end.
struct Checked<R> {
    input: R,
    crc: Crc,
    expected: u32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(target)?;
        self.crc.update(&target[..count]);
        if count == 0 && !target.is_empty() && self.crc.sum() != self.expected {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the checksum of the file in the archive differs",
            ));
        }
        Ok(count)
    }
}
