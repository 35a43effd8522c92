//! Opening a trace.

use std::collections::BTreeSet;
use std::path::Path;

use seeklab_core::ByteSize;
use seeklab_files::check_rereadable;
use seeklab_traces::guess::by_name;
use seeklab_traces::schema::Column;
use seeklab_traces::{Note, OpenTrace, Position, ReadOptions, Setting, Source};

use crate::failure::Failure;
use crate::session::Session;
use crate::trace_notes;

/// The path by which a process opens its standard input.
pub const STANDARD_INPUT: &str = "/dev/stdin";

/// Options for reading a trace.
#[derive(Debug, Clone, Default)]
pub struct TraceOptions {
    /// Format of the trace; guessed if `None`.
    pub format: Option<String>,
    /// Block size of a trace that does not record its own [default: 512B].
    pub block_size: Option<ByteSize>,
    /// Options of the format.
    pub settings: Vec<Setting>,
}

impl TraceOptions {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or its format is not known.
    pub fn open(&self, session: &Session, path: &Path) -> Result<OpenTrace, Failure> {
        self.open_columns(session, path, &Column::ALL)
    }

    /// Opens the trace at `path` for those columns; see [`ReadOptions::columns`].
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_columns(
        &self,
        session: &Session,
        path: &Path,
        columns: &'static [Column],
    ) -> Result<OpenTrace, Failure> {
        let settings = self.settings.clone();
        let options =
            ReadOptions { block_size: self.block_size, settings, columns, ..ReadOptions::default() };
        if let Some(name) = &self.format {
            by_name(seeklab_columnar::FORMATS, name)?; // An unknown format is reported before a missing file.
        }
        let position = Position::default();
        // A compressed archive is unpacked here, which can take minutes.
        let _shown = session.progress_through("opening", position.clone());
        let source = Source::open_counting(path, position)?;
        Ok(seeklab_columnar::open_source(source, self.format.as_deref(), &options)?)
    }
}

/// Checks that no pipe is named twice, for it can be read once only.
///
/// # Errors
/// If a pipe or a device is named twice.
pub fn check_streams<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for path in paths {
        if !seen.insert(path) {
            check_rereadable(path)?;
        }
    }
    Ok(())
}

/// Checks that an input can be read twice.
///
/// # Errors
/// If it is a pipe or a device.
pub(crate) fn check_read_twice(path: &Path) -> Result<(), Failure> {
    check_rereadable(path).map_err(|error| {
        Failure::from(error).hint("write it to a file first, or pipe it to the command and name it `-`")
    })
}

/// Returns the notes on a trace that was read, and on the values that were `lost` in writing it.
pub(super) fn notes(trace: &OpenTrace, lost: &[Note]) -> Vec<String> {
    let lost = lost.iter().map(ToString::to_string);
    trace_notes::notes(trace).into_iter().chain(lost).collect()
}
