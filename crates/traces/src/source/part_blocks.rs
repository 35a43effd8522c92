//! Blocks of a part file: the rows of a trace that was not finished.
//!
//! ```text
//! skippable frame   0x184D2A53 | u32 length | "seeklab part 1"
//! block             0x184D2A54 | u32 8 | u32 length | u32 number | zstd frame with a checksum, of whole lines
//! block             …
//! ```
//! The lines are those of a canonical CSV. Integers are little-endian, and blocks are numbered from 0. The whole is a valid
//! zstd file, so `zstd -d` reads it, too.
//!
//! # Scope and limits
//! A process that is killed within a write leaves an incomplete last block, and a machine that loses power may leave a last
//! block of anything. This reader omits it, and appends a line with the number of omitted bytes. A damaged block with
//! a block behind it is an error, because nothing but damage explains it.
//!
//! # References
//! RFC 8878, 3.1.2: skippable frames.

use std::io::{self, Cursor, Read};

/// Frame with which a part file begins.
pub(crate) const FILE_HEADER: &[u8] = b"\x53\x2a\x4d\x18\x0e\x00\x00\x00seeklab part 1";
/// Bytes with which each block begins.
const MARK: &[u8; 8] = b"\x54\x2a\x4d\x18\x08\x00\x00\x00";
const HEADER_BYTES: usize = 16;
/// Bytes of text in a block at most.
pub(crate) const TEXT_BYTES_MAX: usize = 4 << 20;
/// Bytes of a compressed block at most.
const BLOCK_BYTES_MAX: usize = 8 << 20;

/// Metadata key of the omitted bytes.
pub(crate) const OMITTED_KEY: &str = "unfinished.omitted_bytes";

/// Appends a block that holds the zstd frame `frame` to `to`.
pub(crate) fn push_block(to: &mut Vec<u8>, number: u32, frame: &[u8]) {
    to.extend_from_slice(MARK);
    to.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    to.extend_from_slice(&number.to_le_bytes());
    to.extend_from_slice(frame);
}

/// The text of a part file, whose header was read.
pub(crate) struct PartBlocks<R> {
    input: R,
    decompressor: zstd::bulk::Decompressor<'static>,
    text: Cursor<Vec<u8>>,
    number: u32,
    is_over: bool,
}

impl<R: Read> PartBlocks<R> {
    pub(crate) fn new(input: R) -> io::Result<Self> {
        let decompressor = zstd::bulk::Decompressor::new()?;
        Ok(Self { input, decompressor, text: Cursor::default(), number: 0, is_over: false })
    }

    /// Reads the next block.
    fn advance(&mut self) -> io::Result<()> {
        let mut block = Vec::with_capacity(HEADER_BYTES);
        self.read_up_to(HEADER_BYTES, &mut block)?;
        if block.is_empty() {
            self.is_over = true;
            return Ok(());
        }
        let is_read = match self.frame_length(&block) {
            Some(length) => {
                self.read_up_to(length, &mut block)?;
                block.len() == HEADER_BYTES + length
            }
            None => false,
        };
        let text = if is_read { self.text_of(&block[HEADER_BYTES..]) } else { None };
        if let Some(text) = text {
            self.text = Cursor::new(text);
            self.number += 1;
            return Ok(());
        }
        self.end_at(block)
    }

    /// Length of the frame behind a header, if it is the header of the next block.
    fn frame_length(&self, header: &[u8]) -> Option<usize> {
        let rest = header.strip_prefix(MARK)?;
        let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
        let number = u32::from_le_bytes(*rest.get(4..)?.first_chunk()?);
        (number == self.number && length <= BLOCK_BYTES_MAX).then_some(length)
    }

    /// Text of a frame, if it is one whole frame.
    fn text_of(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        // With a wrong length, the header of the next block could pass for another frame of this block.
        let is_one = zstd::zstd_safe::find_frame_compressed_size(frame).is_ok_and(|size| size == frame.len());
        if is_one { self.decompressor.decompress(frame, TEXT_BYTES_MAX).ok() } else { None }
    }

    fn read_up_to(&mut self, length: usize, to: &mut Vec<u8>) -> io::Result<()> {
        (&mut self.input).take(length as u64).read_to_end(to)?;
        Ok(())
    }

    /// Ends the text before the block that begins with `bytes`, unless another follows it.
    fn end_at(&mut self, mut bytes: Vec<u8>) -> io::Result<()> {
        let mut omitted = 0;
        // The mark of this block itself is passed over.
        let mut from = 1;
        loop {
            if bytes.get(from..).is_some_and(|rest| rest.windows(MARK.len()).any(|window| window == MARK)) {
                let message = format!("block {} is damaged, and others follow it", self.number);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            // A mark may lie across two pieces.
            let kept = bytes.len().saturating_sub(MARK.len() - 1).max(from.min(bytes.len()));
            omitted += kept as u64;
            bytes.drain(..kept);
            from = 0;
            let before = bytes.len();
            self.read_up_to(1 << 16, &mut bytes)?;
            if bytes.len() == before {
                break;
            }
        }
        omitted += bytes.len() as u64;
        self.text = Cursor::new(format!("# {OMITTED_KEY}: {omitted}\n").into_bytes());
        self.is_over = true;
        Ok(())
    }
}

impl<R: Read> Read for PartBlocks<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.text.read(target)?;
            if read > 0 || target.is_empty() || self.is_over {
                return Ok(read);
            }
            self.advance()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(texts: &[&str]) -> (Vec<u8>, Vec<usize>) {
        let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
        compressor.include_checksum(true).unwrap();
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for (number, text) in (0..).zip(texts) {
            push_block(&mut bytes, number, &compressor.compress(text.as_bytes()).unwrap());
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn read(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        PartBlocks::new(bytes)?.read_to_string(&mut text)?;
        Ok(text)
    }

    const TEXTS: [&str; 3] = ["# a: b\nfirst\n", "second\nthird\nfourth\n", "fifth\n"];

    #[test]
    fn every_cut_leaves_the_complete_blocks_and_states_the_rest() {
        let (bytes, ends) = file(&TEXTS);
        for length in 0..=bytes.len() {
            let complete = ends.iter().rposition(|end| *end <= length).unwrap();
            let mut expected = TEXTS[..complete].concat();
            if length > ends[complete] {
                expected += &format!("# {OMITTED_KEY}: {}\n", length - ends[complete]);
            }
            assert_eq!(read(&bytes[..length]).unwrap(), expected, "{length}");
        }
    }

    #[test]
    fn zeroes_at_the_end_are_omitted() {
        let (mut bytes, _) = file(&TEXTS);
        bytes.resize(bytes.len() + 200_000, 0);
        assert_eq!(read(&bytes).unwrap(), TEXTS.concat() + "# unfinished.omitted_bytes: 200000\n");
    }

    #[test]
    fn flipped_bits_are_an_error_or_omit_the_last_block_or_change_nothing() {
        let (bytes, ends) = file(&TEXTS);
        let mut unread = 0;
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match read(&flipped) {
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bit}"),
                // A bit of the header of a zstd frame has no meaning.
                Ok(text) if text == TEXTS.concat() => unread += 1,
                Ok(text) => {
                    let omitted = format!("# {OMITTED_KEY}: {}\n", bytes.len() - ends[2]);
                    assert!(bit / 8 >= ends[2], "{bit}");
                    assert_eq!(text, TEXTS[..2].concat() + &omitted, "{bit}");
                }
            }
        }
        assert!(unread <= 4 * TEXTS.len(), "{unread}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, has_mark: bool) {
            let mark = if has_mark { &MARK[..] } else { &[] };
            let _ = read(&[mark, &bytes].concat());
        }
    }
}
