//! Lines of a stream, bounded and without an allocation per line.

use std::io::{self, Read};

use crate::error::{ErrorKind, TraceError};
use crate::source::BYTE_ORDER_MARK;

/// Bytes that a line may have.
pub(crate) const LINE_MAX: usize = 64 * 1024;

const BUFFER_SIZE: usize = 4 * LINE_MAX;

/// Reads lines from a stream, handing each out as a slice of its buffer.
pub(crate) struct Lines {
    input: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Position in `start..end` at which the search for a line end continues.
    searched: usize,
    at_end: bool,
    number: u64,
    /// True if the last line handed out had no end.
    unended: bool,
}

/// Reason why there is no further line.
#[derive(Debug)]
pub(crate) enum LineError {
    TooLong,
    Io(io::Error),
}

impl Lines {
    pub(crate) fn new(input: Box<dyn Read + Send>) -> Self {
        let buffer = vec![0; BUFFER_SIZE].into_boxed_slice();
        Self { input, buffer, start: 0, end: 0, searched: 0, at_end: false, number: 0, unended: false }
    }

    /// Number of the line last handed out, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if the last line of the stream had no end and was handed out. It may have been cut.
    pub(crate) fn ended_early(&self) -> bool {
        self.unended
    }

    /// The next line without its end (`\n` or `\r\n`), the first without a byte order mark. `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, LineError> {
        loop {
            if let Some(length) = find_line_end(&self.buffer[self.searched..self.end]) {
                let line = self.start..self.searched + length;
                self.start = line.end + 1;
                self.searched = self.start;
                return self.hand_out(line);
            }
            self.searched = self.end;
            if self.end - self.start > LINE_MAX {
                self.number += 1;
                return Err(LineError::TooLong);
            }
            if self.at_end {
                if self.start == self.end {
                    return Ok(None);
                }
                let line = self.start..self.end;
                self.start = self.end;
                self.unended = true;
                return self.hand_out(line);
            }
            self.fill().map_err(LineError::Io)?;
        }
    }

    fn hand_out(&mut self, mut line: std::ops::Range<usize>) -> Result<Option<&[u8]>, LineError> {
        self.number += 1;
        if line.len() > LINE_MAX {
            return Err(LineError::TooLong);
        }
        if self.number == 1 && self.buffer[line.clone()].starts_with(BYTE_ORDER_MARK) {
            line.start += BYTE_ORDER_MARK.len();
        }
        if self.buffer[line.clone()].last() == Some(&b'\r') {
            line.end -= 1;
        }
        Ok(Some(&self.buffer[line]))
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.searched -= self.start;
        self.start = 0;
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

impl LineError {
    /// The error of a trace of which `rows` could be read.
    pub(crate) fn into_trace_error(self, rows: u64) -> TraceError {
        match self {
            Self::TooLong => TraceError::new(ErrorKind::LineTooLong { limit_bytes: LINE_MAX }),
            Self::Io(error) => crate::source::compression::stream_error(error, rows),
        }
    }
}

/// Index of the first `\n`, eight bytes at a time.
#[inline]
fn find_line_end(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    const ENDS: u64 = u64::from_ne_bytes([b'\n'; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        // A byte of `differs` is zero where the line ends; the borrow of the subtraction finds the
        // lowest zero byte exactly, and only the lowest is used.
        let differs = u64::from_le_bytes(*word) ^ ENDS;
        let found = differs.wrapping_sub(ONES) & !differs & HIGHS;
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|byte| *byte == b'\n').map(|index| words.len() * 8 + index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hands out its bytes a few at a time.
    struct Trickle(Vec<u8>, usize, usize);

    impl Read for Trickle {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            let count = self.2.min(target.len()).min(self.0.len() - self.1);
            target[..count].copy_from_slice(&self.0[self.1..self.1 + count]);
            self.1 += count;
            Ok(count)
        }
    }

    fn all(text: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(Box::new(Trickle(text.to_vec(), 0, step)));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(line.to_vec());
        }
        found
    }

    #[test]
    fn both_line_ends_are_removed() {
        assert_eq!(all(b"a\r\n\nbc", 100), [&b"a"[..], b"", b"bc"]);
        assert_eq!(all(b"a\n", 1), [b"a"]);
        assert!(all(b"", 1).is_empty());
    }

    #[test]
    fn byte_order_mark_of_the_first_line_is_removed() {
        assert_eq!(all(b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb\n", 1), [&b"a"[..], b"\xef\xbb\xbfb"]);
    }

    #[test]
    fn line_without_end_is_refused_before_memory_runs_out() {
        let mut lines = Lines::new(Box::new(io::repeat(b'x')));
        assert!(matches!(lines.next(), Err(LineError::TooLong)));
        assert_eq!(lines.number(), 1);
        let mut text = vec![b'x'; LINE_MAX];
        text.push(b'\n');
        assert_eq!(all(&text, 1000)[0].len(), LINE_MAX);
    }

    proptest! {
        #[test]
        fn lines_equal_those_of_the_standard_library(text in "[ab\r\n]{0,60}", step in 1_usize..9) {
            let expect: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            // The standard library keeps a lone `\r` at the very end of a text without `\n`.
            prop_assume!(!text.ends_with('\r'));
            prop_assert_eq!(all(text.as_bytes(), step), expect);
        }
    }
}
