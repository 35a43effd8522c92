//! Sources of a trace: a file, a stream, an archive or several files, decompressed transparently.

pub(crate) mod compression;
pub mod guess;
pub(crate) mod integrity;
pub(crate) mod part_blocks;
pub(crate) mod parts;
pub(crate) mod position;
mod zipped;

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use crate::error::{ErrorKind, TraceError};
use crate::source::compression::{Compression, decompress, stream_error};
use crate::source::integrity::Integrity;
use crate::source::parts::{Member, Members, Part, TAR_HEADER};
use crate::source::position::Position;

/// A trace to be read, of which the first plain bytes can be looked at.
///
/// Text formats take the [`stream`](Self::into_stream); a format that must seek takes the
/// [`file`](Self::into_file).
pub struct Source {
    path: PathBuf,
    file: Option<File>,
    compression: Compression,
    /// Plain bytes read so far.
    head: Vec<u8>,
    rest: Box<dyn Read + Send>,
    /// Error that ended the reading of the head. It is reported after the bytes before it.
    failure: Option<io::Error>,
    at_end: bool,
    /// Files of the trace where it is in an archive or a folder, or was named by its base.
    members: Members,
    /// Reading position.
    position: Position,
    /// Compressed streams that the trace is read from.
    integrity: Integrity,
}

/// The first plain bytes of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// True if the bytes are the whole trace.
    pub whole: bool,
}

/// Mark that some programs, above all on Windows, put in front of a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<'a> Head<'a> {
    /// Returns the bytes without a byte order mark, as a format of text reads them.
    pub fn text(self) -> &'a [u8] {
        self.bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(self.bytes)
    }
}

impl Source {
    /// Opens the file at `path`; also a folder with the numbered files of one trace, or their base, such as
    /// `sdb` where there is `sdb.blktrace.0`.
    ///
    /// # Errors
    /// If it cannot be opened or read, is empty, or is compressed and damaged at its very start.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::open_counting(path, Position::default())
    }

    /// The same, and whoever has `position` sees how far that is, for a compressed archive is unpacked here; then how
    /// far the trace was read.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_counting(path: &Path, position: Position) -> Result<Self, TraceError> {
        let members = match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => parts::in_folder(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => parts::of_base(path)?,
            _ => None,
        };
        if let Some(members) = members {
            return Self::of_members(path.to_owned(), members, position);
        }
        let open = || -> io::Result<(File, File)> {
            let file = File::open(path)?;
            if file.metadata()?.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Ok((file.try_clone()?, file))
        };
        let (file, stream) =
            open().map_err(|error| TraceError::io("cannot open the file", error).in_file(path))?;
        let seekable = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let stream = Box::new(position.counting(stream));
        Self::new(path.to_owned(), seekable.then_some(file), stream, position)
    }

    /// Reads from `stream`, which messages call `name`, such as `standard input`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_stream(name: &str, stream: Box<dyn Read + Send>) -> Result<Self, TraceError> {
        Self::new(PathBuf::from(name), None, stream, Position::default())
    }

    fn new(
        path: PathBuf,
        file: Option<File>,
        stream: Box<dyn Read + Send>,
        position: Position,
    ) -> Result<Self, TraceError> {
        let (compression, rest) =
            decompress(stream).map_err(|error| stream_error(error, 0).in_file(&path))?;
        let integrity = Integrity::default();
        let rest = if compression == Compression::None { rest } else { integrity.watch(rest) };
        let source = Self { position, integrity, ..Self::begin(path, file, compression, rest)? };
        if parts::is_archive(&source.head) { source.unpack() } else { Ok(source) }
    }

    fn begin(
        path: PathBuf,
        file: Option<File>,
        compression: Compression,
        rest: Box<dyn Read + Send>,
    ) -> Result<Self, TraceError> {
        let (head, members) = (Vec::new(), Members::default());
        let (position, integrity) = (Position::default(), Integrity::default());
        let (failure, at_end) = (None, false);
        let mut source =
            Self { path, file, compression, head, rest, failure, at_end, members, position, integrity };
        if source.head(TAR_HEADER).bytes.is_empty() {
            let error = match source.failure.take() {
                Some(failure) => stream_error(failure, 0),
                None => TraceError::new(ErrorKind::Empty),
            };
            return Err(error.in_file(&source.path));
        }
        Ok(source)
    }

    /// The trace in the archive that this is.
    fn unpack(mut self) -> Result<Self, TraceError> {
        let (path, position) = (self.path.clone(), self.position.clone());
        let file = match self.file.take().filter(|_| self.compression == Compression::None) {
            Some(file) => Ok(file),
            None => tempfile::tempfile().and_then(|mut file| {
                io::copy(&mut self.into_stream(), &mut file)?;
                Ok(file)
            }),
        };
        let file = file.and_then(|mut file| {
            file.rewind()?;
            Ok(file)
        });
        let file = file.map_err(|error| stream_error(error, 0).in_file(&path))?;
        let members = parts::in_archive(&path, file)?;
        Self::of_members(path, members, position)
    }

    /// The trace in those files, looked at through the first.
    fn of_members(path: PathBuf, members: Members, position: Position) -> Result<Self, TraceError> {
        let first = members.parts.first().ok_or_else(|| TraceError::new(ErrorKind::Empty).in_file(&path))?;
        position.restart(0);
        let integrity = Integrity::default();
        let (compression, part) = first.open(&position, &integrity)?;
        Ok(Self { members, position, integrity, ..Self::begin(path, None, compression, part.input)? })
    }

    /// Returns the reading position, which every reader of the trace updates.
    pub fn position(&self) -> Position {
        self.position.clone()
    }

    /// Returns the compressed streams of the trace.
    pub(crate) fn integrity(&self) -> Integrity {
        self.integrity.clone()
    }

    /// Files that the trace has, as far as that is known without looking beside the one that was named.
    pub fn part_count(&self) -> usize {
        self.members.parts.len().max(1)
    }

    /// Names of files in the archive or folder that are no part of the trace.
    pub fn beside(&self) -> &[String] {
        &self.members.beside
    }

    /// The files of the trace; with `siblings` also those beside the one that was named, where its name ends
    /// in a number.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub(crate) fn into_parts(self, siblings: bool) -> Result<Vec<Part>, TraceError> {
        let beside = match siblings && self.members.parts.is_empty() && self.file.is_some() {
            true => parts::siblings(&self.path)?,
            false => Vec::new(),
        };
        let open = |members: &[Member]| {
            self.position.restart(0);
            self.integrity.restart();
            members.iter().map(|member| Ok(member.open(&self.position, &self.integrity)?.1)).collect()
        };
        match (&self.members.parts[..], &beside[..]) {
            (members @ [_, ..], _) => open(members),
            (_, members @ [_, _, ..]) => open(members),
            _ => Ok(vec![Part { name: self.path.clone(), input: self.into_stream() }]),
        }
    }

    /// The first `size` plain bytes or more, fewer only where there are no more.
    pub fn head(&mut self, size: usize) -> Head<'_> {
        let missing = size.saturating_sub(self.head.len());
        if missing > 0 && !self.at_end {
            let read = (&mut self.rest).take(missing as u64).read_to_end(&mut self.head);
            self.at_end = !matches!(read, Ok(count) if count == missing);
            self.failure = read.err();
        }
        Head { bytes: &self.head, whole: self.at_end }
    }

    /// The file, or the name of the stream.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the compression of the trace.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// All plain bytes, in order.
    pub fn into_stream(self) -> Box<dyn Read + Send> {
        let head = Cursor::new(self.head);
        match self.failure {
            Some(failure) => Box::new(head.chain(Failing(Some(failure)))),
            None => Box::new(head.chain(self.rest)),
        }
    }

    /// The file itself, from its start, for a format that must seek.
    ///
    /// # Errors
    /// If the trace is compressed, or comes from a stream that cannot seek.
    pub fn into_file(self) -> Result<File, TraceError> {
        self.position.restart(0);
        let path = self.path;
        let error = |what: &'static str| TraceError::malformed(what).in_file(&path);
        if self.compression != Compression::None {
            return Err(error("the format needs a file that is not compressed as a whole")
                .with_hint("unpack it first, with `gzip -d`, `zstd -d`, `xz -d` or `bzip2 -d`"));
        }
        let mut file = self.file.ok_or_else(|| {
            error("the format must go back and forth in a file, which a pipe cannot do")
                .with_hint("write it to a file first")
        })?;
        file.rewind().map_err(|cause| TraceError::io("cannot go back in the file", cause).in_file(&path))?;
        Ok(file)
    }
}

/// A stream that ends with an error.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0.take() {
            Some(error) => Err(error),
            None => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(bytes: &[u8]) -> Result<Source, TraceError> {
        Source::from_stream("x", Box::new(Cursor::new(bytes.to_vec())))
    }

    /// Returns the reported shares while all parts are read, ten bytes from each part at a time.
    fn shares(path: &Path) -> Vec<f64> {
        let position = Position::default();
        let source = Source::open_counting(path, position.clone()).unwrap();
        let mut shares = vec![position.share().unwrap()];
        for mut part in source.into_parts(false).unwrap() {
            while part.input.read(&mut [0; 10]).unwrap() > 0 {
                shares.push(position.share().unwrap());
            }
        }
        shares
    }

    #[test]
    fn progress_is_reported_for_archives_packed_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = tar::Builder::new(Vec::new());
        for name in ["x.0", "x.1"] {
            let mut header = tar::Header::new_gnu();
            header.set_size(200_000);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, &vec![b'a'; 200_000][..]).unwrap();
        }
        let bytes = builder.into_inner().unwrap();
        let packed = zstd::encode_all(&bytes[..], 1).unwrap();
        for (name, bytes) in [("x.tar", bytes), ("x.tar.zst", packed)] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let shares = shares(&path);
            // A part is read in pieces of 64 KiB.
            assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{name}");
            assert!(shares.iter().any(|share| (0.4..0.6).contains(share)), "{name}: {:?}", shares.last());
        }
    }

    #[test]
    fn reading_the_head_loses_nothing() {
        let text = b"0123456789".repeat(100);
        let mut source = source(&text).unwrap();
        assert!(source.head(4).bytes.starts_with(b"0123"));
        assert!(!source.head(600).whole);
        assert!(source.head(5_000).whole);
        let mut all = Vec::new();
        source.into_stream().read_to_end(&mut all).unwrap();
        assert_eq!(all, text);
    }

    #[test]
    fn empty_file_is_an_error_and_missing_file_is_named() {
        assert_eq!(source(b"").err().unwrap().kind(), &ErrorKind::Empty);
        let error = Source::open(Path::new("/no/such/trace")).err().unwrap();
        assert_eq!(error.to_string(), "/no/such/trace: cannot open the file");
        let error = Source::open(Path::new("/")).err().unwrap();
        assert_eq!(error.to_string(), "/: cannot open the file");
    }

    #[test]
    fn truncated_gzip_yields_its_rows_before_its_error() {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        encoder.write_all(b"some plain text, long enough").unwrap();
        let mut bytes = encoder.finish().unwrap();
        bytes.truncate(bytes.len() - 12);
        let mut source = source(&bytes).unwrap();
        assert!(source.head(9).bytes.starts_with(b"some plai"));
        assert!(source.head(100).whole);
        let mut all = Vec::new();
        let error = source.into_stream().read_to_end(&mut all).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(all.starts_with(b"some plain"), "{all:?}");
    }
}
