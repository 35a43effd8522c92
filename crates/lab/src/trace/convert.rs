//! Writes a trace in another format.

use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_files::check_distinct;
use seeklab_traces::NameTable;
use serde::Serialize;

use super::open::{TraceOptions, notes};
use crate::failure::Failure;
use crate::session::Session;

/// Options of a conversion.
#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// Trace to read.
    pub input: PathBuf,
    /// Trace to write.
    pub output: PathBuf,
    /// Options for reading the input.
    pub reading: TraceOptions,
    /// Format to write [default: by the suffix of the output].
    pub format: Option<String>,
}

/// Result of a conversion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConvertResult {
    /// Path of the input.
    pub input: String,
    /// Path of the output.
    pub output: String,
    /// Format of the input.
    pub format: &'static str,
    /// Format of the input in words, if it was guessed.
    #[serde(skip)]
    pub guess: Option<String>,
    /// Number of requests.
    pub requests: u64,
    /// Assumptions, changes to rows, and values that the output format cannot hold.
    pub notes: Vec<String>,
}

/// Writes the trace in another format.
///
/// # Errors
/// If the input cannot be read, or the output cannot be written or is the input.
pub fn convert(session: &Session, options: &ConvertOptions) -> Result<ConvertResult, Failure> {
    let ConvertOptions { input, output, reading, format } = options;
    check_distinct(output, [input])?;
    let mut trace = reading.open(session, input)?;
    let mut progress = session.progress_of(&input.display().to_string(), &trace);
    let mut writer = session.create_trace(output, format.as_deref(), trace.metadata())?;
    let mut names = NameTable::of(trace.metadata());
    let mut requests = 0_u64;
    while let Some(record) = trace.next() {
        let record = record?;
        names.pass_labels(trace.metadata(), &mut *writer)?;
        writer.write(&record)?;
        requests += 1;
        progress.step()?;
    }
    names.pass_all(trace.metadata(), &mut *writer)?;
    let lost = writer.notes();
    writer.finish()?;
    Ok(ConvertResult {
        input: input.display().to_string(),
        output: output.display().to_string(),
        format: trace.format(),
        guess: trace.guess().map(str::to_owned),
        requests,
        notes: notes(&trace, &lost),
    })
}
