//! `seeklab record`: serves a real file or device and records every request to it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use seeklab_analysis::{Metrics, MetricsSummary};
use seeklab_core::{ByteSize, TraceRecord};
use seeklab_emulator::frontend::Stop;
use seeklab_emulator::frontend::fuse::FILE_NAME;
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_emulator::frontend::nbd::Address;
use seeklab_emulator::passthrough::Backing;
use seeklab_emulator::store::Access;
use seeklab_files::check_distinct;
use seeklab_lab::emulate::{FrontendOptions, Observer, Sink, passing};
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, command_line, print, print_json};
use seeklab_lab::session::Session;
use seeklab_traces::recorder::OBSERVED;
use seeklab_traces::{Metadata, TraceError, TraceWriter};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  seeklab record --backing disk.img -o prod.parquet
  seeklab record --backing /dev/sdb --block -o prod.parquet
  seeklab record --backing disk.img --fuse ~/disk -o prod.parquet --read-only

Clients use what it serves in place of the backing: an NBD export (no privilege), a block device (--block), a file
(--fuse). Ctrl-C ends it in order.";

/// Serves a real file or device and records every request to it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// File or block device that holds the data
    #[arg(long, value_name = "FILE|DEV")]
    backing: PathBuf,
    /// Trace to write. The suffix selects format and compression
    #[arg(long, short = 'o', value_name = "TRACE")]
    output: PathBuf,
    /// Address for NBD clients: unix:PATH or tcp:ADDR [default: a socket in the temporary folder, unless --block
    /// or --fuse is given]
    #[arg(long, value_name = "ADDRESS")]
    nbd: Option<Address>,
    /// Limit of NBD connections at a time [default: 64]
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroUsize>,
    /// Serve it as a block device of the kernel, /dev/loopN. Needs root and FUSE
    #[arg(long)]
    block: bool,
    /// Serve it as a plain file, `disk`, in this directory, through FUSE. Needs no root
    #[arg(long, value_name = "DIR")]
    fuse: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

/// Writes the trace on a thread separate from serving.
struct Recording {
    writer: Box<dyn TraceWriter>,
    metrics: Metrics,
    failed: Option<TraceError>,
}

impl Sink for Recording {
    type Outcome = Self;

    fn take(&mut self, record: &TraceRecord) {
        self.metrics.record(record);
        if self.failed.is_none() {
            self.failed = self.writer.write(record).err();
        }
    }

    fn finish(self) -> Self {
        self
    }
}

impl Recording {
    /// Writes the number of lost requests to the trace and completes the file.
    fn end(self, lost: u64, elapsed_ns: u64) -> Result<MetricsSummary, Failure> {
        let Self { mut writer, metrics, failed } = self;
        if let Some(error) = failed {
            return Err(error.into());
        }
        writer.annotate("capture.lost_requests", &lost.to_string())?;
        writer.annotate("capture.elapsed_ns", &elapsed_ns.to_string())?;
        writer.finish()?;
        Ok(metrics.summary())
    }
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        check_distinct(&self.output, [&self.backing])?;
        let access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let backing = Backing::open(&self.backing, access)?;
        let is_direct = backing.is_direct();
        if !is_direct {
            session.remark(format!(
                "note: {} is read and written through the page cache: its times are the cache's",
                self.backing.display()
            ));
        }
        let block_bytes = backing.block_bytes();
        let mut metadata = Metadata {
            block_size: ByteSize::from_bytes(u64::from(block_bytes)),
            version: Some(VERSION.to_owned()),
            clock: Some("monotonic".to_owned()),
            labels: vec![self.backing.display().to_string()],
            other: BTreeMap::from([
                ("capture.command".to_owned(), command_line()),
                (OBSERVED.to_owned(), "interposed".to_owned()),
                ("capture.page_cache".to_owned(), if is_direct { "passed by" } else { "used" }.to_owned()),
            ]),
            ..Metadata::default()
        };
        metadata.set_capacity(0, backing.size());
        let writer = seeklab_columnar::create(&self.output, None, &metadata)?;
        let metrics = Metrics::new(metadata.block_size);
        let observer = Observer::start(Recording { writer, metrics, failed: None });
        let elsewhere = self.block || self.fuse.is_some();
        let nbd = match &self.nbd {
            Some(address) => Some(address.clone()),
            None if elsewhere => None,
            None => Some(super::serve::own_socket()?),
        };
        let block = self.block.then(|| QueueOptions::of_device(false));
        let frontends =
            FrontendOptions { nbd, fuse: self.fuse.clone(), block, connections: self.connections };
        let title = self.backing.display().to_string();
        let mut running =
            passing::start(backing, title, frontends, self.read_only, observer.observe(), &Stop::new()?)?;
        let mut places: Vec<String> =
            running.block().map(|block| block.path().display().to_string()).into_iter().collect();
        places.extend(self.fuse.iter().map(|folder| folder.join(FILE_NAME).display().to_string()));
        places.extend(running.uri().map(ToString::to_string));
        let ready =
            format!("{} is ready: {}\nend it with Ctrl-C\n", self.backing.display(), places.join(", "));
        if self.json {
            eprint!("{ready}");
        } else {
            print(&ready)?;
        }
        running.until_stopped(session);
        let outcome = running.end()?;
        let (recording, lost) = observer.finish();
        let summary = recording.end(lost, outcome.elapsed.as_ns())?;
        let passed = &outcome.passed;
        let times = summary.response;
        if self.json {
            return print_json(&json!({
                "backing": self.backing.display().to_string(),
                "output": self.output.display().to_string(),
                "version": VERSION,
                "elapsed_s": outcome.elapsed.as_s(),
                "page_cache_passed_by": is_direct,
                "block_size_bytes": block_bytes,
                "requests": passed.requests,
                "rows": summary.requests,
                "reads": summary.reads,
                "writes": summary.writes,
                "others": summary.others,
                "errors": passed.errors,
                "lost_requests": lost,
                "response_mean_ms": times.map(|times| times.mean_ms),
                "response_p50_ms": times.map(|times| times.p50_ms),
                "response_p99_ms": times.map(|times| times.p99_ms),
            }));
        }
        let mut text = format!(
            "\n{}: {} requests in {:.1} s ({} reads, {} writes, {} others, {} errors), {lost} lost\n",
            self.output.display(),
            summary.requests,
            outcome.elapsed.as_s(),
            summary.reads,
            summary.writes,
            summary.others,
            passed.errors
        );
        if let Some(times) = times {
            text += &format!(
                "response  mean {:.3} ms, p50 {:.3}, p99 {:.3}, max {:.3}\n",
                times.mean_ms, times.p50_ms, times.p99_ms, times.max_ms
            );
        }
        if lost > 0 {
            text += "warning: this trace is not complete\n";
        }
        print(&text)
    }
}
