//! Serving a real file or block device to clients while every request is recorded.
//!
//! ```text
//! RecordOptions ─▶ record ─┬─ on_ready(Endpoints): clients connect
//!                          └▶ after Stop::stop: RecordResult, which is also the JSON document
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_analysis::{Metrics, MetricsSummary};
use seeklab_core::{ByteSize, TraceRecord};
use seeklab_emulator::frontend::Stop;
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_emulator::passthrough::Backing;
use seeklab_emulator::store::Access;
use seeklab_files::check_distinct;
use seeklab_traces::recorder::OBSERVED;
use seeklab_traces::{Metadata, TraceError, TraceWriter};
use serde::Serialize;

use crate::emulate::{Endpoints, FrontendOptions, Observer, Sink, passing};
use crate::failure::Failure;
use crate::output::{VERSION, path_text};
use crate::session::Session;

/// Options of a recording.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// File or block device that holds the data.
    pub backing: PathBuf,
    /// Trace to write.
    pub output: PathBuf,
    /// Frontends that clients connect to [default: an NBD socket in the temporary folder].
    pub frontends: FrontendOptions,
    /// Refuse writes.
    pub read_only: bool,
}

impl RecordOptions {
    fn access(&self) -> Access {
        if self.read_only { Access::ReadOnly } else { Access::ReadWrite }
    }

    fn metadata(&self, session: &Session, backing: &Backing) -> Metadata {
        let page_cache = if backing.is_direct() { "passed by" } else { "used" };
        let mut metadata = Metadata {
            block_size: ByteSize::from_bytes(u64::from(backing.block_bytes())),
            version: Some(VERSION.to_owned()),
            clock: Some("monotonic".to_owned()),
            labels: vec![self.backing.display().to_string()],
            other: BTreeMap::from([
                ("capture.command".to_owned(), session.command().unwrap_or_default()),
                (OBSERVED.to_owned(), "interposed".to_owned()),
                ("capture.page_cache".to_owned(), page_cache.to_owned()),
            ]),
            ..Metadata::default()
        };
        metadata.set_capacity(0, backing.size());
        metadata
    }
}

/// Result of a recording. Its serialized form is the JSON document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordResult {
    /// File or block device that holds the data.
    #[serde(serialize_with = "path_text")]
    pub backing: PathBuf,
    /// The trace.
    #[serde(serialize_with = "path_text")]
    pub output: PathBuf,
    /// Program and version.
    pub version: &'static str,
    /// Time from the start to the end.
    pub elapsed_s: f64,
    /// True if reads and writes bypassed the page cache.
    pub page_cache_passed_by: bool,
    /// Block size of the trace.
    pub block_size_bytes: u32,
    /// Requests that the backing served.
    pub requests: u64,
    /// Rows of the trace.
    pub rows: u64,
    /// Reads among the rows.
    pub reads: u64,
    /// Writes among the rows.
    pub writes: u64,
    /// Flushes, discards and writes of zeroes among the rows.
    pub others: u64,
    /// Requests that the backing refused.
    pub failed_requests: u64,
    /// Requests that are missing in the trace.
    pub lost_requests: u64,
    /// Mean response time.
    pub response_mean_ms: Option<f64>,
    /// Median response time.
    pub response_p50_ms: Option<f64>,
    /// 99th percentile of the response time.
    pub response_p99_ms: Option<f64>,
    /// Longest response time.
    pub response_max_ms: Option<f64>,
    /// Failure to write the trace. The figures are valid.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

/// Writes the trace on a thread separate from serving.
struct Recording {
    writer: Box<dyn TraceWriter>,
    metrics: Metrics,
    failed: Option<TraceError>,
}

impl Sink for Recording {
    type Output = Self;

    fn take(&mut self, record: &TraceRecord) {
        self.metrics.record(record);
        if self.failed.is_none() {
            self.failed = self.writer.write(record).err();
        }
    }

    fn save(&mut self) {
        if self.failed.is_none() {
            self.failed = self.writer.save().err();
        }
    }

    fn finish(self) -> Self {
        self
    }
}

impl Recording {
    /// Writes the number of lost requests to the trace and completes the file. Returns the figures, and the failure to
    /// write the trace.
    fn end(self, lost: u64, elapsed_ns: u64) -> (MetricsSummary, Option<Failure>) {
        let Self { mut writer, metrics, failed } = self;
        let complete = || -> Result<(), TraceError> {
            if let Some(error) = failed {
                return Err(error);
            }
            writer.annotate("capture.lost_requests", &lost.to_string())?;
            writer.annotate("capture.elapsed_ns", &elapsed_ns.to_string())?;
            writer.finish()
        };
        (metrics.summary(), complete().err().map(Failure::from))
    }
}

/// Serves a real file or block device and records every request until the caller stops it. Calls `on_ready` on
/// this thread once clients can connect; the backing is served meanwhile.
///
/// # Errors
/// A backing that cannot be opened or served; errors of `on_ready`, which end the recording. A trace that cannot be
/// written is part of the result.
pub fn record(
    session: &Session,
    options: &RecordOptions,
    on_ready: impl FnOnce(&Endpoints) -> Result<(), Failure>,
) -> Result<RecordResult, Failure> {
    options.frontends.check()?;
    check_distinct(&options.output, [&options.backing])?;
    let backing = Backing::open(&options.backing, options.access())?;
    let _held = session.hold();
    let (is_direct, block_size_bytes) = (backing.is_direct(), backing.block_bytes());
    let title = options.backing.display().to_string();
    if !is_direct {
        session.remark(format!(
            "note: {title} is read and written through the page cache: its times are the times of the cache"
        ));
    }
    let mut frontends = options.frontends.clone().or_own_socket()?;
    frontends.block = frontends.block.map(|queue| queue.or(QueueOptions::of_device(false)));
    let metadata = options.metadata(session, &backing);
    let writer = session.create_saved_trace(&options.output, &metadata)?;
    let metrics = Metrics::new(metadata.block_size);
    let observer = Observer::start(Recording { writer, metrics, failed: None });
    let mut running =
        passing::start(backing, title, frontends, options.read_only, observer.observe(), &Stop::new()?)?;
    if let Err(failure) = on_ready(running.endpoints()) {
        let _ = running.end();
        return Err(failure);
    }
    running.until_stopped(session);
    let served = running.end()?;
    let (recording, lost_requests) = observer.finish();
    let (summary, failure) = recording.end(lost_requests, served.elapsed.as_ns());
    let times = summary.response;
    Ok(RecordResult {
        backing: options.backing.clone(),
        output: options.output.clone(),
        version: VERSION,
        elapsed_s: served.elapsed.as_s(),
        page_cache_passed_by: is_direct,
        block_size_bytes,
        requests: served.passed.requests,
        rows: summary.requests,
        reads: summary.reads,
        writes: summary.writes,
        others: summary.others,
        failed_requests: served.passed.errors,
        lost_requests,
        response_mean_ms: times.map(|times| times.mean_ms),
        response_p50_ms: times.map(|times| times.p50_ms),
        response_p99_ms: times.map(|times| times.p99_ms),
        response_max_ms: times.map(|times| times.max_ms),
        failure,
    })
}
