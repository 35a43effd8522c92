//! A live capture into a trace file: the reader of events, two buffers, a thread that writes.
//!
//! ```text
//! Capture ─▶ recording::Input ─▶ Output ─▶ Rows ─▶ Metrics, TraceWriter     (on a thread of its own)
//! ```
//! Losses are counted at every step and recorded in the trace's metadata: `lost_events` (the kernel's buffers
//! were full), `lost_requests` (the writer was too slow), `given_up`, `pending`, and so on.

pub(crate) mod child;
mod live;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration as Pause;

use schemars::JsonSchema;
use seeklab_analysis::{Metrics, MetricsSummary, TimeSummary};
use seeklab_core::{ByteSize, Duration, HostRequest, Instant, ProcessName, TraceRecord};
use seeklab_files::check_writable;
use seeklab_traces::capture::{
    self as traces, Capture, CaptureError, Captured, Observed, Rows, RowsCounts, holds, look_at,
    monotonic_ns, recording,
};
use seeklab_traces::{Metadata, Recorder, TraceError, TraceWriter, check_no_part, recorder, saving};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{VERSION, path_text};
use crate::session::Session;
use crate::stop::StopWatch;

use child::{Child, Ended};
use live::{Live, LiveCounts};

/// Requests that each of the two buffers holds: about 60 MiB together.
const BUFFERED_MAX: usize = 1 << 18;

/// Interval at which the end of the capture is checked.
const LOOK: Pause = Pause::from_millis(20);

/// Options of a capture.
#[derive(Debug, Clone)]
pub struct CaptureOptions {
    /// The block device.
    pub device: PathBuf,
    /// The trace.
    pub output: PathBuf,
    /// Duration of the capture [default: until the command ends or the caller stops it]. Both also end it earlier.
    pub duration: Option<Duration>,
    /// Record when and by which process requests were made.
    pub queue_times: bool,
    /// Bytes of the kernel's buffer for each processor.
    pub buffer: Option<ByteSize>,
    /// Command to run during the capture, with its arguments. Empty: none.
    pub command: Vec<OsString>,
    /// Write the output of the command to stderr.
    pub output_to_stderr: bool,
}

/// Result of a capture. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CaptureResult {
    /// The block device.
    #[serde(serialize_with = "path_text")]
    pub device: PathBuf,
    /// The trace.
    #[serde(serialize_with = "path_text")]
    pub output: PathBuf,
    /// Program and version.
    pub version: &'static str,
    /// Time that was captured.
    pub elapsed_s: f64,
    /// Exit code of the command; 128 plus the signal number if a signal ended it. `None` without a command.
    pub command_exit_code: Option<i32>,
    /// Requests of the device, without those of the recorder itself.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes, discards and writes of zeroes among them.
    pub others: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Requests per second of the captured time.
    pub requests_per_second: f64,
    /// Mean response time.
    pub response_mean_ms: Option<f64>,
    /// Median response time.
    pub response_p50_ms: Option<f64>,
    /// 99th percentile of the response time.
    pub response_p99_ms: Option<f64>,
    /// Longest response time.
    pub response_max_ms: Option<f64>,
    /// Response times of reads. Not part of the document.
    #[serde(skip)]
    pub read_response: Option<TimeSummary>,
    /// Response times of writes. Not part of the document.
    #[serde(skip)]
    pub write_response: Option<TimeSummary>,
    /// Rows of the trace.
    pub rows: u64,
    /// Requests of the recorder itself, which are marked in the trace.
    pub recorder_requests: u64,
    /// Events for which the kernel's buffers had no room.
    pub lost_events: u64,
    /// Requests that the writer of the trace was too slow for.
    pub lost_requests: u64,
    /// Requests with an event missing.
    pub given_up: u64,
    /// Requests that were outstanding at the end.
    pub pending: u64,
    /// Completions of requests whose issue was not captured.
    pub unpaired_completions: u64,
    /// Events that came after later events had been used.
    pub late_events: u64,
    /// Records of an unknown form.
    pub malformed_records: u64,
    /// Commands other than reads, writes, flushes, discards and writes of zeroes. They are not in the trace.
    pub other_commands: u64,
    /// Rows that follow a row that arrived later.
    pub out_of_order: u64,
    /// Requests whose ends lie within a block, widened to whole blocks.
    pub widened: u64,
    /// Processor time of this process from start to end.
    pub capture_cpu_s: f64,
    /// Notes on the result.
    pub notes: Vec<String>,
    /// Failure to write the trace. The figures are valid up to that time.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

impl CaptureResult {
    /// Returns true if no request is missing in the trace.
    pub const fn is_complete(&self) -> bool {
        self.lost_events == 0 && self.given_up == 0 && self.lost_requests == 0
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        let hint = error.hint();
        hint.into_iter().fold(Self::chain(&error), Self::hint)
    }
}

/// Captures until the command has ended, the time is over, or the caller stops it.
///
/// # Errors
/// Missing requirements and their remedy, before anything starts. A trace that cannot be written and a command that
/// fails are part of the result.
pub fn capture(session: &Session, options: &CaptureOptions) -> Result<CaptureResult, Failure> {
    let command = match &options.command[..] {
        [] => None,
        words => Some(Child::new(words, options.output_to_stderr)?),
    };
    check_writable(&options.output)?;
    check_no_part(&options.output)?;
    let device = look_at(&options.device)?;
    if lies_on(&options.output, &options.device) {
        session.remark(format!(
            "note: {} lies on the captured device. Its writes are marked as the recorder's and omitted from fits, but \
             writes of the file system are not. Choose another device for the trace",
            options.output.display()
        ));
    }
    let origin_ns = monotonic_ns();
    let mut metadata = Metadata {
        block_size: ByteSize::from_bytes(device.block_bytes),
        version: Some(VERSION.to_owned()),
        clock: Some("monotonic".to_owned()),
        labels: vec![options.device.display().to_string()],
        other: BTreeMap::from([
            ("capture.command".to_owned(), session.command().unwrap_or_default()),
            ("capture.started_unix_ns".to_owned(), unix_ns().to_string()),
            (recorder::OBSERVED.to_owned(), if device.takes_bios { "bios" } else { "requests" }.to_owned()),
        ]),
        ..Metadata::default()
    };
    metadata.set_capacity(0, ByteSize::from_bytes(device.size_bytes));
    match own_number() {
        Some(number) => {
            metadata.other.insert(recorder::KEY.to_owned(), number.to_string());
        }
        None => session.remark(
            "note: in a PID namespace, the kernel's number of this process is unknown, so its own writes are not marked. \
             Choose another device for the trace"
        ),
    }
    let events = traces::Options {
        origin_ns,
        queue_times: options.queue_times,
        buffer_bytes: options.buffer.map(|size| usize::try_from(size.as_bytes()).unwrap_or(usize::MAX)),
    };
    let _awaited = session.await_reader(&options.output)?;
    let _held = session.hold();
    let (input, output) = recording::pair(BUFFERED_MAX, Instant::ZERO);
    let capture = Capture::start(&options.device, &events, move |observed| match observed {
        Observed::Request(request) => input.push(request),
        Observed::Settled { arrived, .. } => input.mark(arrived),
    })?;
    // Only now, when nothing is missing, is there a file.
    let writer = seeklab_columnar::create(&options.output, None, &metadata)?;
    let writer = saving(writer, &options.output, &metadata)?;
    let seen = Arc::<LiveCounts>::default();
    let writing = Writing {
        rows: Rows::new(device.block_bytes),
        kept: Kept {
            recorder: metadata.recorder(),
            metrics: Metrics::new(metadata.block_size),
            recorder_requests: 0,
            writer,
            failed: None,
        },
        seen: Arc::clone(&seen),
    };
    let thread = std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || writing.run(output))
        .map_err(Failure::from)?;
    let live = Live::start(session.figures("capturing"), seen, options.duration);
    let command = match command.map(Child::start).transpose() {
        Ok(command) => command,
        Err(failure) => {
            drop(capture);
            if let Ok(written) = thread.join() {
                written.kept.writer.discard();
            }
            return Err(failure);
        }
    };
    let mut watch = session.stop().watch();
    let ended = wait(options, command, &mut watch, &thread)?;
    let elapsed = Duration::from_ns(monotonic_ns() - origin_ns);
    let captured = capture.finish()?;
    let written = thread.join().map_err(|_| Failure::new("the writer of the trace panicked"))?;
    drop(live);
    let (figures, failure) = written.finish(&captured, elapsed);
    let command = match ended {
        Over::Command(ended) => Some(ended),
        Over::Running(child) => {
            let end = if failure.is_some() { "ended early" } else { "is over and written" };
            session.remark(format!("the capture {end}; waiting for the command"));
            Some(child.wait(&mut watch)?)
        }
        Over::Alone => None,
    };
    Ok(CaptureResult { failure, ..CaptureResult::new(options, &captured, &figures, elapsed, command) })
}

/// The number of this process in the kernel's events, which are those of the initial PID namespace; `None` in another.
pub(crate) fn own_number() -> Option<u32> {
    // The inode of the initial namespace is fixed: PROC_PID_INIT_INO of the kernel.
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    (namespace.as_os_str() == "pid:[4026531836]").then(std::process::id)
}

/// Returns true if a file that is to be written lies on the device.
pub(crate) fn lies_on(file: &Path, device: &Path) -> bool {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    holds(device, folder.unwrap_or(Path::new(".")))
}

fn unix_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// State of the command at the end of a capture.
enum Over {
    Command(Ended),
    Running(child::Running),
    Alone,
}

fn wait(
    options: &CaptureOptions,
    mut command: Option<child::Running>,
    watch: &mut StopWatch,
    writer: &JoinHandle<Written>,
) -> Result<Over, Failure> {
    let started_ns = monotonic_ns();
    loop {
        if watch.next(LOOK) {
            match &mut command {
                // It gets the signal too, or the like of it; what it does until it ends is captured.
                Some(command) => command.interrupt(),
                None => return Ok(Over::Alone),
            }
        }
        if let Some(running) = &mut command
            && let Some(ended) = running.look()?
        {
            return Ok(Over::Command(ended));
        }
        let over = options.duration.is_some_and(|duration| monotonic_ns() - started_ns >= duration.as_ns());
        // A writer that ends early has failed: there is nothing to wait for.
        if over || writer.is_finished() {
            return Ok(command.map_or(Over::Alone, Over::Running));
        }
    }
}

/// State of the writer's thread.
struct Writing {
    rows: Rows,
    kept: Kept,
    seen: Arc<LiveCounts>,
}

struct Kept {
    recorder: Recorder,
    metrics: Metrics,
    recorder_requests: u64,
    writer: Box<dyn TraceWriter>,
    failed: Option<TraceError>,
}

impl Kept {
    fn take(&mut self, record: &TraceRecord) {
        if self.recorder.is_recorders_own(record) {
            self.recorder_requests += 1;
        } else {
            self.metrics.record(record);
        }
        if self.failed.is_none() {
            self.failed = self.writer.write(record).err();
        }
    }

    fn save(&mut self) {
        if self.failed.is_none() {
            self.failed = self.writer.save().err();
        }
    }
}

/// Result of the writer's thread.
struct Written {
    kept: Kept,
    names: BTreeMap<u32, ProcessName>,
    rows: RowsCounts,
    lost_requests: u64,
}

impl Writing {
    fn run(self, mut output: recording::Output<HostRequest, Instant>) -> Written {
        let Self { mut rows, mut kept, seen } = self;
        while let Some(recording::Batch { entries, mark, dropped }) = output.take() {
            for request in entries {
                seen.saw(&request);
                rows.push(&request, |record| kept.take(record));
            }
            rows.settle(mark, |record| kept.take(record));
            kept.save();
            seen.lost(dropped);
            if kept.failed.is_some() {
                break;
            }
        }
        let lost_requests = output.dropped();
        let (names, counts) = rows.finish(|record| kept.take(record));
        Written { kept, names, rows: counts, lost_requests }
    }
}

impl Written {
    /// Completes the trace. Returns its figures, and the failure to write it.
    fn finish(self, captured: &Captured, elapsed: Duration) -> (TraceFigures, Option<Failure>) {
        let figures = TraceFigures {
            rows: self.rows,
            lost_requests: self.lost_requests,
            recorder_requests: self.kept.recorder_requests,
            summary: self.kept.metrics.summary(),
        };
        (figures, self.complete(captured, elapsed).err().map(Failure::from))
    }

    /// Records losses and process names in the trace, and gives the file its name.
    fn complete(self, captured: &Captured, elapsed: Duration) -> Result<(), TraceError> {
        let Self { kept, names, rows, lost_requests } = self;
        if let Some(error) = kept.failed {
            return Err(error);
        }
        let mut writer = kept.writer;
        let counts = [
            ("lost_events", captured.lost_events),
            ("lost_requests", lost_requests),
            ("given_up", captured.given_up),
            ("pending", captured.pending),
            ("unpaired_completions", captured.unpaired_completions),
            ("late_events", captured.late_events),
            ("malformed_records", captured.malformed_records),
            ("other_commands", captured.other_commands),
            ("requeues", captured.requeues),
            ("out_of_order", rows.out_of_order),
            ("widened", rows.widened),
            ("recorder_requests", kept.recorder_requests),
            ("elapsed_ns", elapsed.as_ns()),
        ];
        for (key, count) in counts {
            writer.annotate(&format!("capture.{key}"), &count.to_string())?;
        }
        for (process, name) in names {
            writer.annotate(&format!("process.{process}"), &name.to_string())?;
        }
        writer.finish()
    }
}

/// Figures of a written trace.
struct TraceFigures {
    rows: RowsCounts,
    lost_requests: u64,
    recorder_requests: u64,
    /// All requests except those of the recorder.
    summary: MetricsSummary,
}

impl CaptureResult {
    fn new(
        options: &CaptureOptions,
        captured: &Captured,
        trace: &TraceFigures,
        elapsed: Duration,
        command: Option<Ended>,
    ) -> Self {
        let summary = &trace.summary;
        let times = summary.response;
        let is_passed_on = captured.completed == 0 && captured.issued > 0;
        let note = "requests were issued to the device and none was completed. The device may pass them on \
                    unchanged: capture the device beneath it";
        Self {
            device: options.device.clone(),
            output: options.output.clone(),
            version: VERSION,
            elapsed_s: elapsed.as_s(),
            command_exit_code: command.map(|ended| ended.exit_code),
            requests: summary.requests,
            reads: summary.reads,
            writes: summary.writes,
            others: summary.others,
            failed_requests: summary.errors,
            requests_per_second: summary.requests as f64 / elapsed.as_s().max(1e-9),
            response_mean_ms: times.map(|times| times.mean_ms),
            response_p50_ms: times.map(|times| times.p50_ms),
            response_p99_ms: times.map(|times| times.p99_ms),
            response_max_ms: times.map(|times| times.max_ms),
            read_response: summary.read_response,
            write_response: summary.write_response,
            rows: trace.rows.rows,
            recorder_requests: trace.recorder_requests,
            lost_events: captured.lost_events,
            lost_requests: trace.lost_requests,
            given_up: captured.given_up,
            pending: captured.pending,
            unpaired_completions: captured.unpaired_completions,
            late_events: captured.late_events,
            malformed_records: captured.malformed_records,
            other_commands: captured.other_commands,
            out_of_order: trace.rows.out_of_order,
            widened: trace.rows.widened,
            capture_cpu_s: processor_time().as_s(),
            notes: is_passed_on.then(|| note.to_owned()).into_iter().collect(),
            failure: None,
        }
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::from_s(time.tv_sec.cast_unsigned()) + Duration::from_ns(time.tv_nsec.cast_unsigned())
}
