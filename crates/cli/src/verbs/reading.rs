//! Options for reading a trace, shared by all verbs that read one.

use std::path::Path;

use clap::Args;
use seeklab_core::ByteSize;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::trace_notes::notes;
use seeklab_traces::guess::by_name;
use seeklab_traces::schema::Column;
use seeklab_traces::{Note, OpenTrace, Position, ReadOptions, Setting, Source};

/// Options for reading a trace.
#[derive(Debug, Args)]
pub(crate) struct Reading {
    /// Format of the trace [default: guessed]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,
    /// Block size of a trace that does not record its own [default: 512B]
    #[arg(long, value_name = "SIZE")]
    pub(crate) block_size: Option<ByteSize>,
    /// Set an option of the format, for example byte-order=big. `seeklab trace formats` lists the options
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) format_option: Vec<Setting>,
}

impl Reading {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or its format is not known.
    pub(crate) fn open(&self, session: &Session, path: &Path) -> Result<OpenTrace, Failure> {
        self.open_columns(session, path, &Column::ALL)
    }

    /// Opens the trace at `path` for those columns; see [`ReadOptions::columns`].
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_columns(
        &self,
        session: &Session,
        path: &Path,
        columns: &'static [Column],
    ) -> Result<OpenTrace, Failure> {
        let settings = self.format_option.clone();
        let options =
            ReadOptions { block_size: self.block_size, settings, columns, ..ReadOptions::default() };
        if let Some(name) = &self.from {
            by_name(seeklab_columnar::FORMATS, name)?; // A name that is not known is told before a file that is not there.
        }
        let position = Position::default();
        // An archive is unpacked here, which takes its time.
        let _shown = session.progress_through("opening", position.clone());
        let source = Source::open_counting(path, position)?;
        Ok(seeklab_columnar::open_source(source, self.from.as_deref(), &options)?)
    }
}

/// Returns the guessed format of a trace in brackets, or an empty string if the user named the format.
pub(crate) fn guess(trace: &OpenTrace) -> String {
    trace.guess().map(|guess| format!(" (read as {guess})")).unwrap_or_default()
}

/// Prints the notes on a trace to stderr and returns them: assumptions, changes to its rows, and `lost`, the
/// values that were lost in writing.
pub(crate) fn told(session: &Session, trace: &OpenTrace, lost: &[Note]) -> Vec<String> {
    let mut notes = notes(trace);
    notes.extend(lost.iter().map(ToString::to_string));
    for note in &notes {
        session.remark(format!("note: {note}"));
    }
    notes
}
