//! Copies a part of a trace: a window of time, one device, one kind of operation.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_core::{Duration, Instant, Operation, TraceRecord};
use seeklab_files::check_distinct;
use seeklab_traces::NameTable;
use serde::Serialize;

use super::open::{TraceOptions, notes};
use crate::failure::Failure;
use crate::session::Session;
use crate::trace_notes::check_device;

/// Options for copying a part of a trace.
#[derive(Debug, Clone, Default)]
pub struct SliceOptions {
    /// Trace to read.
    pub input: PathBuf,
    /// Trace to write.
    pub output: PathBuf,
    /// Copy arrivals from this time of the trace on.
    pub start: Duration,
    /// Copy arrivals for this time after the start [default: to the end of the trace].
    pub length: Option<Duration>,
    /// Copy only the requests of this device [default: all devices].
    pub device: Option<u16>,
    /// Copy only requests of this operation [default: all operations].
    pub operation: Option<Operation>,
    /// Keep the times of the trace. Otherwise, times count from the start.
    pub keep_time: bool,
    /// Options for reading the input.
    pub reading: TraceOptions,
}

/// Result of copying a part of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SliceResult {
    /// Path of the input.
    pub input: String,
    /// Path of the output.
    pub output: String,
    /// Format of the input.
    pub format: &'static str,
    /// Format of the input in words, if it was guessed.
    #[serde(skip)]
    pub guess: Option<String>,
    /// Assumptions, changes to rows, and values that the output format cannot hold.
    pub notes: Vec<String>,
    /// Requests of the input.
    pub requests: u64,
    /// Rows of the output.
    pub rows: u64,
}

impl SliceOptions {
    fn includes(&self, record: &TraceRecord) -> bool {
        let start = Instant::ZERO + self.start;
        let end = self
            .length
            .map_or(Instant::MAX, |length| Instant::from_ns(start.as_ns().saturating_add(length.as_ns())));
        (start..end).contains(&record.arrival)
            && self.device.is_none_or(|device| device == record.device)
            && self.operation.is_none_or(|op| op == record.op)
    }
}

/// Copies a part of a trace.
///
/// # Errors
/// If the input cannot be read or lacks the device, or the output cannot be written or is the input.
pub fn slice(session: &Session, options: &SliceOptions) -> Result<SliceResult, Failure> {
    let SliceOptions { input, output, .. } = options;
    check_distinct(output, [input])?;
    let mut trace = options.reading.open(session, input)?;
    let mut metadata = trace.metadata().clone();
    metadata.other.insert("slice".to_owned(), session.command().unwrap_or_default());
    let mut writer = session.create_trace(output, None, &metadata)?;
    let mut progress = session.progress_of(&input.display().to_string(), &trace);
    let (mut requests, mut rows, mut devices) = (0_u64, 0_u64, BTreeSet::new());
    let mut names = NameTable::of(trace.metadata());
    while let Some(record) = trace.next() {
        let mut record = record?;
        requests += 1;
        progress.step()?;
        if options.device.is_some() {
            devices.insert(record.device);
        }
        if !options.includes(&record) {
            continue;
        }
        if !options.keep_time {
            shift(&mut record, options.start);
        }
        names.pass_labels(trace.metadata(), &mut *writer)?;
        writer.write(&record)?;
        rows += 1;
    }
    check_device(options.device, &devices)?;
    names.pass_all(trace.metadata(), &mut *writer)?;
    let lost = writer.notes();
    writer.finish()?;
    Ok(SliceResult {
        input: input.display().to_string(),
        output: output.display().to_string(),
        format: trace.format(),
        guess: trace.guess().map(str::to_owned),
        notes: notes(&trace, &lost),
        requests,
        rows,
    })
}

/// Subtracts `by` from every time of a request.
fn shift(record: &mut TraceRecord, by: Duration) {
    let points = &mut record.points;
    let mut arrival = Some(record.arrival);
    let times = [
        &mut arrival,
        &mut record.issue,
        &mut record.start,
        &mut record.completion,
        &mut points.mp1_arrival,
        &mut points.mp1_completion,
        &mut points.mp2_arrival,
        &mut points.mp2_due,
        &mut points.mp2_completion,
    ];
    let earlier = |time: Instant| Instant::from_ns(time.as_ns().saturating_sub(by.as_ns()));
    times.into_iter().for_each(|time| *time = time.map(earlier));
    record.arrival = arrival.expect("it was given");
}
