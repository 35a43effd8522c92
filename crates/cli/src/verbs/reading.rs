//! Options for reading a trace, shared by all verbs that read one.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::core::ByteSize;
use seeklab_lab::crates::traces::Setting;
use seeklab_lab::fit::TimesFrom;
use seeklab_lab::session::Session;
use seeklab_lab::trace::{STANDARD_INPUT, TraceOptions};

use crate::completion;

/// Options for reading a trace.
#[derive(Debug, Args)]
pub(crate) struct Reading {
    /// Format of the trace [default: guessed]
    #[arg(long, value_name = "FORMAT", add = ArgValueCompleter::new(completion::format))]
    from: Option<String>,
    /// Block size of a trace that does not record its own [default: 512B]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<ByteSize>,
    /// Set an option of the format, for example byte-order=big. `seeklab trace formats` lists the options
    #[arg(long, value_name = "NAME=VALUE")]
    format_option: Vec<Setting>,
}

impl Reading {
    /// Returns the options for the laboratory.
    pub(crate) fn options(&self) -> TraceOptions {
        TraceOptions {
            format: self.from.clone(),
            block_size: self.block_size,
            settings: self.format_option.clone(),
        }
    }
}

/// Start of the times of a request.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TimesFromName {
    /// Arrival at the host's queue. Queue time in the host belongs to the device
    Arrival,
    /// Issue to the driver. Queue time in the host is excluded
    Issue,
}

impl From<TimesFromName> for TimesFrom {
    fn from(name: TimesFromName) -> Self {
        match name {
            TimesFromName::Arrival => Self::Arrival,
            TimesFromName::Issue => Self::Issue,
        }
    }
}

/// Parses the path of an input. `-` is standard input.
pub(crate) fn input_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(
        |path| {
            if path == Path::new("-") { PathBuf::from(STANDARD_INPUT) } else { path }
        },
    )
}

/// Returns the guessed format of a trace in brackets, or an empty string if the user named the format.
pub(crate) fn in_brackets(guess: Option<&str>) -> String {
    guess.map(|guess| format!(" (read as {guess})")).unwrap_or_default()
}

/// Prints the notes on a trace to stderr.
pub(crate) fn print_notes(session: &Session, notes: &[String]) {
    notes.iter().for_each(|note| session.remark(format!("note: {note}")));
}
