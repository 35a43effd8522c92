//! Common parts of the writers of one row per line.

use std::borrow::Cow;
use std::path::Path;

use seeklab_core::{Operation, TraceRecord};

use crate::error::{Place, TraceError};
use crate::output::{TextOutput, TextSink};

/// A text of one row per line.
pub(crate) struct RowsOut {
    format: &'static str,
    output: TextOutput,
    /// The line that is being written.
    pub(crate) line: Vec<u8>,
    rows: u64,
}

impl RowsOut {
    /// Begins to write `path` in the format of that name.
    pub(crate) fn create(format: &'static str, path: &Path) -> Result<Self, TraceError> {
        Ok(Self { format, output: TextOutput::create(path)?, line: Vec::new(), rows: 0 })
    }

    /// Begins the next row with an empty line.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.rows += 1;
        self.line.clear();
    }

    /// Writes the line.
    #[inline]
    pub(crate) fn end(&mut self) -> Result<(), TraceError> {
        self.line.push(b'\n');
        self.output.write(&self.line)
    }

    pub(crate) fn finish(self) -> Result<(), TraceError> {
        self.output.finish()
    }

    /// Returns the error that the format cannot represent `what`, a value of this row.
    #[cold]
    pub(crate) fn cannot(&self, what: impl Into<Cow<'static, str>>) -> TraceError {
        let what = what.into();
        TraceError::not_representable(self.format, what).at(Place::Row(self.rows)).in_file(self.output.path())
    }

    /// `write` or `read`, whichever `record` is; other operations are an error.
    #[inline]
    pub(crate) fn read_or_write<T>(&self, record: &TraceRecord, read: T, write: T) -> Result<T, TraceError> {
        match record.op {
            Operation::Read => Ok(read),
            Operation::Write => Ok(write),
            other => Err(self.cannot(format!("a {}", other.name()))),
        }
    }

    /// Offset and length of `record` in bytes.
    #[inline]
    pub(crate) fn bytes(&self, record: &TraceRecord, block_size: u64) -> Result<(u64, u64), TraceError> {
        let offset = record.lbn.checked_mul(block_size);
        let length = u64::from(record.blocks).checked_mul(block_size);
        offset.zip(length).ok_or_else(|| self.cannot(format!("block {} in bytes", record.lbn)))
    }

    /// First sector of 512 bytes and number of sectors of `record`.
    #[inline]
    pub(crate) fn sectors(&self, record: &TraceRecord, block_size: u64) -> Result<(u64, u64), TraceError> {
        let (offset, length) = self.bytes(record, block_size)?;
        if offset % 512 != 0 || length % 512 != 0 {
            return Err(self.cannot(format!("{length} bytes at {offset} in sectors of 512 bytes")));
        }
        Ok((offset / 512, length / 512))
    }
}
