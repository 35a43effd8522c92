//! Files that a trace is written to. A file appears complete or not at all.

pub(crate) mod device_names;
pub(crate) mod device_rows;
pub(crate) mod losses;
mod part;
pub(crate) mod rows;

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use seeklab_files::OutputFile;

use crate::error::TraceError;
use crate::metadata::Metadata;
use crate::source::compression::{Compression, Compressor};

pub use part::{check_no_part, saving};

/// The file of a trace with this metadata. A recorder's own file goes to its device as it is written, by the process
/// that writes it, so that a capture of that device can tell.
///
/// # Errors
/// If nothing can be written there.
pub fn create_file(path: &Path, metadata: &Metadata) -> Result<OutputFile, TraceError> {
    let file = OutputFile::create(path)?;
    Ok(if metadata.recorder().is_known() { file.written_back_at_once() } else { file })
}

/// Takes the lines of a trace.
pub(crate) trait TextSink: Send {
    /// The file, for messages.
    fn path(&self) -> &Path;

    /// Takes whole lines.
    fn write(&mut self, text: &[u8]) -> Result<(), TraceError>;

    /// Writes what is held back.
    fn finish(self) -> Result<(), TraceError>;
}

/// Text of a trace, compressed according to the suffix of its file.
pub(crate) struct TextOutput {
    path: PathBuf,
    compressor: Compressor<BufWriter<OutputFile>>,
}

impl TextOutput {
    pub(crate) fn create(path: &Path) -> Result<Self, TraceError> {
        Self::create_for(path, &Metadata::default())
    }

    pub(crate) fn create_for(path: &Path, metadata: &Metadata) -> Result<Self, TraceError> {
        let (compression, _) = Compression::of_path(path);
        let file = BufWriter::with_capacity(64 * 1024, create_file(path, metadata)?);
        let compressor = Compressor::new(compression, file)
            .map_err(|error| TraceError::io("cannot create the file", error).in_file(path))?;
        Ok(Self { path: path.to_owned(), compressor })
    }
}

impl TextSink for TextOutput {
    fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    fn write(&mut self, text: &[u8]) -> Result<(), TraceError> {
        self.compressor
            .write_all(text)
            .map_err(|error| TraceError::io("cannot write the file", error).in_file(&self.path))
    }

    fn finish(self) -> Result<(), TraceError> {
        let path = self.path;
        let file = self
            .compressor
            .finish()
            .and_then(|buffer| buffer.into_inner().map_err(io::IntoInnerError::into_error))
            .map_err(|error| TraceError::io("cannot write the file", error).in_file(&path))?;
        Ok(file.finish()?)
    }
}
