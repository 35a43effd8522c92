//! Transparent compression with gzip, zstd, xz and bzip2: detected by magic bytes on reading, chosen by the suffix
//! on writing.
//!
//! # Scope and limits
//! Files of several gzip members, zstd frames or bzip2 streams are read to their end. Only one layer of compression is
//! removed. Zstd windows beyond 128 MiB (`zstd --long=28` and up) and xz dictionaries beyond that are
//! refused. Xz and bzip2 are not written. A part file is zstd, too, and may end anywhere (`part_blocks.rs`).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lzma_rust2::XzReader;

use crate::error::{ErrorKind, TraceError};
use crate::source::part_blocks::{FILE_HEADER, PartBlocks};

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// Gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
    /// The xz format; read only.
    Xz,
    /// Bzip2; read only.
    Bzip2,
}

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_LEVEL: i32 = 3;
/// A digit, the size of the blocks, follows.
const BZIP2_MAGIC: &[u8] = b"BZh";
const XZ_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// Memory that a dictionary may take.
const XZ_KIB_MAX: u32 = 128 << 10;

impl Compression {
    /// The compression that the first bytes of a file tell.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        // A skippable frame may come first: magic numbers 0x184D2A50 to 0x184D2A5F.
        let skippable = matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
        if bytes.starts_with(GZIP_MAGIC) {
            Self::Gzip
        } else if bytes.starts_with(ZSTD_MAGIC) || skippable {
            Self::Zstd
        } else if bytes.starts_with(XZ_MAGIC) {
            Self::Xz
        } else if bytes.starts_with(BZIP2_MAGIC) && matches!(bytes.get(3), Some(b'1'..=b'9')) {
            Self::Bzip2
        } else {
            Self::None
        }
    }

    /// Returns the compression that the suffix of `path` stands for, and the file name without that suffix.
    pub fn of_path(path: &Path) -> (Self, String) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for (suffix, compression) in
            [(".gz", Self::Gzip), (".zst", Self::Zstd), (".xz", Self::Xz), (".bz2", Self::Bzip2)]
        {
            if let Some(stem) = name.strip_suffix(suffix) {
                return (compression, stem.to_owned());
            }
        }
        (Self::None, name)
    }
}

/// The plain bytes of `input`, and how they were compressed.
pub(crate) fn decompress(input: Box<dyn Read + Send>) -> io::Result<(Compression, Box<dyn Read + Send>)> {
    let mut input = BufReader::with_capacity(64 * 1024, input);
    let mut magic = Vec::with_capacity(FILE_HEADER.len());
    // A pipe may give its first bytes one at a time, so `fill_buf` alone does not do.
    (&mut input).take(FILE_HEADER.len() as u64).read_to_end(&mut magic)?;
    if magic == FILE_HEADER {
        return Ok((Compression::Zstd, Box::new(PartBlocks::new(input)?)));
    }
    let compression = Compression::of_bytes(&magic);
    let whole = io::Cursor::new(magic).chain(input);
    let plain: Box<dyn Read + Send> = match compression {
        Compression::None => Box::new(whole),
        Compression::Gzip => Box::new(MultiGzDecoder::new(Buffered(whole))),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(Buffered(whole))?),
        Compression::Xz => Box::new(XzReader::new_mem_limit(whole, true, XZ_KIB_MAX)),
        Compression::Bzip2 => Box::new(MultiBzDecoder::new(whole)),
    };
    Ok((compression, plain))
}

/// A chain as one buffered reader.
struct Buffered<R>(R);

impl<R: BufRead> Read for Buffered<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.0.read(target)
    }
}

impl<R: BufRead> BufRead for Buffered<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }
    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}

/// The error of a stream from which `rows` could be read. The decoders answer `UnexpectedEof` where
/// their input is cut short, and `InvalidData`, `InvalidInput` or `Other` where it is damaged.
pub(crate) fn stream_error(error: io::Error, rows: u64) -> TraceError {
    let kind = match error.kind() {
        io::ErrorKind::UnexpectedEof => ErrorKind::CompressedDataEndsEarly { rows },
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
            ErrorKind::CompressedDataDamaged { rows }
        }
        _ => ErrorKind::Io { action: "cannot read the file" },
    };
    TraceError::new(kind).with_source(error)
}

/// Compresses what is written.
pub(crate) enum Compressor<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    pub(crate) fn new(compression: Compression, output: W) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::None(output),
            Compression::Gzip => Self::Gzip(GzEncoder::new(output, flate2::Compression::default())),
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(output, ZSTD_LEVEL)?;
                // So that readers notice a damaged frame.
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
            Compression::Xz | Compression::Bzip2 => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "xz and bzip2 are not written; end the name in `.zst` or `.gz`",
                ));
            }
        })
    }

    /// Writes what is held back and the end mark.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Self::None(output) => Ok(output),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::None(output) => output.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn compress(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::new(compression, Vec::new()).unwrap();
        compressor.write_all(bytes).unwrap();
        compressor.finish().unwrap()
    }

    fn plain(bytes: Vec<u8>) -> io::Result<(Compression, Vec<u8>)> {
        let (compression, mut stream) = decompress(Box::new(io::Cursor::new(bytes)))?;
        let mut plain = Vec::new();
        stream.read_to_end(&mut plain)?;
        Ok((compression, plain))
    }

    #[test]
    fn several_members_or_frames_are_read_to_the_end() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let mut bytes = compress(compression, b"first\n");
            bytes.extend(compress(compression, b"second\n"));
            assert_eq!(plain(bytes).unwrap(), (compression, b"first\nsecond\n".to_vec()));
        }
    }

    #[test]
    fn every_truncation_is_an_error() {
        let text = b"0,303567,3584,w,0.000000\n".repeat(40);
        for compression in [Compression::Gzip, Compression::Zstd] {
            let bytes = compress(compression, &text);
            for length in 4..bytes.len() {
                let error = plain(bytes[..length].to_vec()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{compression:?} {length}");
            }
        }
    }

    #[test]
    fn suffix_separates_compression_and_format() {
        let check = |path: &str| Compression::of_path(Path::new(path));
        assert_eq!(check("a/b.csv.gz"), (Compression::Gzip, "b.csv".to_owned()));
        assert_eq!(check("b.csv.zst"), (Compression::Zstd, "b.csv".to_owned()));
        assert_eq!(check("b.tar.xz"), (Compression::Xz, "b.tar".to_owned()));
        assert_eq!(check("gz"), (Compression::None, "gz".to_owned()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(magic in 0_usize..5, bytes: Vec<u8>) {
            let magic = [&b""[..], GZIP_MAGIC, ZSTD_MAGIC, &[0x50, 0x2a, 0x4d, 0x18], XZ_MAGIC][magic];
            let _ = plain([magic, &bytes].concat());
        }

        #[test]
        fn compression_round_trips(bytes: Vec<u8>) {
            for compression in [Compression::Gzip, Compression::Zstd] {
                prop_assert_eq!(plain(compress(compression, &bytes)).unwrap(), (compression, bytes.clone()));
            }
        }
    }
}
