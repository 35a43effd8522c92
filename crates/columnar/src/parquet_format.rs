//! Parquet among the trace formats.

use std::path::Path;

use seeklab_traces::{
    Head, Metadata, ReadOptions, Sniff, Source, TraceError, TraceFormat, TraceReader, TraceWriter,
};

use crate::reader::ParquetReader;
use crate::writer::ParquetWriter;

/// Parquet, the canonical trace in columns.
pub struct Parquet;

/// The name that a user types.
pub(crate) const NAME: &str = "parquet";

/// Bytes at the start and the end of a Parquet file.
pub(crate) const MAGIC: &[u8; 4] = b"PAR1";

impl TraceFormat for Parquet {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "seeklab's canonical trace in columns, compressed"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &["parquet"]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        if head.bytes.starts_with(MAGIC) { Sniff::Yes } else { Sniff::No }
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        Ok(Box::new(ParquetReader::open(source, options)?))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn create(&self, path: &Path, metadata: &Metadata) -> Result<Box<dyn TraceWriter>, TraceError> {
        Ok(Box::new(ParquetWriter::create(path, metadata)?))
    }
}
