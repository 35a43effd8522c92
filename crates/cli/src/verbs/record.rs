//! `seeklab record`: serves a real file or device and records every request to it.

use std::path::PathBuf;

use clap::Args;
use seeklab_lab::crates::core::number_words::counted;
use seeklab_lab::crates::emulator::frontend::loop_device::QueueOptions;
use seeklab_lab::crates::report::folded;
use seeklab_lab::failure::Failure;
use seeklab_lab::record::{RecordOptions, RecordResult, record};
use seeklab_lab::session::Session;

use crate::delivery::Delivery;
use crate::output::{print, print_json};
use crate::terminal::tell;

use super::frontends::FrontendFlags;

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
    #[command(flatten)]
    frontends: FrontendFlags,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let options = RecordOptions {
            backing: self.backing,
            output: self.output,
            frontends: self.frontends.options(QueueOptions::default()),
            read_only: self.read_only,
        };
        let result = record(session, &options, |endpoints| {
            let text = format!("{} is ready: {endpoints}\nend it with Ctrl-C\n", options.backing.display());
            if self.json {
                tell(&text)
            } else {
                print(&text)?
            }
            Ok(())
        })?;
        let printed = if self.json { print_json(&result) } else { print(&summary(&result)) };
        Delivery::of(session, printed).and(result.failure.map_or(Ok(()), Err)).finish()
    }
}

fn summary(result: &RecordResult) -> String {
    let heading = format!(
        "{}: {} in {:.1} s ({}, {}, {}, {} failed), {} lost",
        result.output.display(),
        counted(result.rows, "request"),
        result.elapsed_s,
        counted(result.reads, "read"),
        counted(result.writes, "write"),
        counted(result.others, "other"),
        result.failed_requests,
        result.lost_requests
    );
    let mut text = format!("\n{}\n", folded(&heading, 2));
    if let (Some(mean), Some(p50), Some(p99), Some(max)) =
        (result.response_mean_ms, result.response_p50_ms, result.response_p99_ms, result.response_max_ms)
    {
        text += &format!("response  mean {mean:.3} ms, p50 {p50:.3}, p99 {p99:.3}, max {max:.3}\n");
    }
    if result.lost_requests > 0 {
        text += "warning: this trace is not complete\n";
    }
    text
}
