//! A live capture into a trace file: the reader of events, two buffers, a thread that writes.
//!
//! ```text
//! Capture ─▶ recording::Input ─▶ Output ─▶ Rows ─▶ Metrics, TraceWriter     (on a thread of its own)
//! ```
//! Losses are counted at every step and recorded in the trace's metadata: `lost_events` (the kernel's buffers
//! were full), `lost_requests` (the writer was too slow), `given_up`, `pending`, and so on.

mod child;
mod live;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration as Pause;

use seeklab_analysis::{Metrics, MetricsSummary};
use seeklab_core::{ByteSize, Duration, HostRequest, Instant, ProcessName, TraceRecord};
use seeklab_traces::capture::{
    Capture, CaptureError, Captured, Observed, Options, Rows, RowsCounts, Way, holds, look_at, monotonic_ns,
    recording,
};
use seeklab_traces::{Metadata, Recorder, TraceError, TraceWriter, recorder};

use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;
use crate::stop::StopWatch;
use seeklab_files::check_writable;

pub use child::{Child, Ended};
use live::{Live, Seen};

/// Requests that each of the two buffers holds: about 60 MiB together.
const BUFFERED_MAX: usize = 1 << 18;

/// Interval at which the end of the capture is checked.
const LOOK: Pause = Pause::from_millis(20);

/// Options of a capture.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// The block device.
    pub device: PathBuf,
    /// The trace.
    pub output: PathBuf,
    /// Duration of the capture [default: until the command ends or a signal arrives]. A command's end or a signal
    /// also ends it earlier.
    pub duration: Option<Duration>,
    /// Record when and by which process requests were made.
    pub queue_times: bool,
    /// Bytes of each of the kernel's buffers.
    pub buffer: Option<ByteSize>,
}

/// Result of a capture.
#[derive(Debug)]
pub struct Outcome {
    /// Counts of the kernel's events.
    pub captured: Captured,
    /// Counts of the rows made from the requests.
    pub rows: RowsCounts,
    /// Requests that the writer was too slow for.
    pub lost_requests: u64,
    /// Requests that this process made itself, which are in the trace, marked, and not in the figures.
    pub own: u64,
    /// Figures of all others.
    pub summary: MetricsSummary,
    /// Time that was captured.
    pub elapsed: Duration,
    /// Processor time of this process from start to end.
    pub cpu: Duration,
    /// Exit of the command, if there was one.
    pub command: Option<Ended>,
}

impl Outcome {
    /// Requests that are missing, and events of which it is not known to how many requests they belong.
    pub const fn is_complete(&self) -> bool {
        self.captured.lost_events == 0 && self.captured.given_up == 0 && self.lost_requests == 0
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        let hint = error.hint();
        hint.into_iter().fold(Self::chain(&error), Self::hint)
    }
}

/// Captures until `command` has ended, the time is over, or a signal comes.
///
/// # Errors
/// What is missing, with its remedy, before anything starts; a trace that cannot be written.
pub fn run(session: &Session, wishes: &Wishes, command: Option<Child>) -> Result<Outcome, Failure> {
    check_writable(&wishes.output)?;
    let device = look_at(&wishes.device)?;
    if let Some(own) = own_device(wishes) {
        session.remark(format!(
            "note: {} lies on the device that is captured; what writing it adds is marked as the recorder's \
             and left out of fits, but for what the file system adds; another place is better",
            own.display()
        ));
    }
    let origin_ns = monotonic_ns();
    let mut metadata = Metadata {
        block_size: ByteSize::from_bytes(device.block_bytes),
        version: Some(VERSION.to_owned()),
        clock: Some("monotonic".to_owned()),
        labels: vec![wishes.device.display().to_string()],
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
            "note: in a PID namespace the kernel's number of this process is not known, so that its own writes are not \
             marked; write the trace to another device than the one that is captured"
        ),
    }
    let options = Options {
        origin_ns,
        way: Way::Tracefs,
        queue_times: wishes.queue_times,
        buffer_bytes: wishes.buffer.map(|size| usize::try_from(size.as_bytes()).unwrap_or(usize::MAX)),
    };
    let (input, output) = recording::pair(BUFFERED_MAX, Instant::ZERO);
    let capture = Capture::start(&wishes.device, &options, move |observed| match observed {
        Observed::Request(request) => input.push(request),
        Observed::Settled { arrived, .. } => input.mark(arrived),
    })?;
    // Only now, when nothing is missing, is there a file.
    let writer = seeklab_columnar::create(&wishes.output, None, &metadata)?;
    let seen = Arc::<Seen>::default();
    let writing = Writing {
        rows: Rows::new(device.block_bytes),
        kept: Kept {
            recorder: metadata.recorder(),
            metrics: Metrics::new(metadata.block_size),
            own: 0,
            writer,
            failed: None,
        },
        seen: Arc::clone(&seen),
    };
    let thread = std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || writing.run(output))
        .map_err(Failure::from)?;
    let live = Live::start(session.figures("capturing"), seen, wishes.duration);
    let command = match command {
        Some(command) => Some(command.start()?),
        None => None,
    };
    let mut watch = session.stop().watch();
    let ended = wait(wishes, command, &mut watch, &thread)?;
    let elapsed = Duration::from_ns(monotonic_ns() - origin_ns);
    let captured = capture.finish()?;
    let written = thread.join().map_err(|_| Failure::new("the writer of the trace panicked"))?;
    drop(live);
    let outcome = written.finish(captured, elapsed)?;
    let command = match ended {
        Over::Command(ended) => Some(ended),
        Over::Running(child) => {
            session.remark("the capture is over and written; waiting for the command");
            Some(child.wait(&mut watch)?)
        }
        Over::Alone => None,
    };
    Ok(Outcome { command, ..outcome })
}

/// The number of this process in the kernel's events, which are those of the initial PID namespace; `None` in another.
fn own_number() -> Option<u32> {
    // The inode of the initial namespace is fixed: PROC_PID_INIT_INO of the kernel.
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    (namespace.as_os_str() == "pid:[4026531836]").then(std::process::id)
}

/// The trace, if it is written to the device that is captured.
fn own_device(wishes: &Wishes) -> Option<&Path> {
    let folder = wishes.output.parent().filter(|folder| !folder.as_os_str().is_empty());
    holds(&wishes.device, folder.unwrap_or(Path::new("."))).then_some(wishes.output.as_path())
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
    wishes: &Wishes,
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
        let over = wishes.duration.is_some_and(|duration| monotonic_ns() - started_ns >= duration.as_ns());
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
    seen: Arc<Seen>,
}

struct Kept {
    recorder: Recorder,
    metrics: Metrics,
    own: u64,
    writer: Box<dyn TraceWriter>,
    failed: Option<TraceError>,
}

impl Kept {
    fn take(&mut self, record: &TraceRecord) {
        if self.recorder.is_recorders_own(record) {
            self.own += 1;
        } else {
            self.metrics.record(record);
        }
        if self.failed.is_none() {
            self.failed = self.writer.write(record).err();
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
    /// Records losses and process names in the trace, and gives the file its name.
    fn finish(self, captured: Captured, elapsed: Duration) -> Result<Outcome, Failure> {
        let Self { kept, names, rows, lost_requests } = self;
        if let Some(error) = kept.failed {
            return Err(error.into());
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
            ("recorders_own", kept.own),
            ("elapsed_ns", elapsed.as_ns()),
        ];
        for (key, count) in counts {
            writer.annotate(&format!("capture.{key}"), &count.to_string())?;
        }
        for (process, name) in names {
            writer.annotate(&format!("process.{process}"), &name.to_string())?;
        }
        writer.finish()?;
        Ok(Outcome {
            captured,
            rows,
            lost_requests,
            own: kept.own,
            summary: kept.metrics.summary(),
            elapsed,
            cpu: processor_time(),
            command: None,
        })
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::from_s(time.tv_sec.cast_unsigned()) + Duration::from_ns(time.tv_nsec.cast_unsigned())
}
