//! `seeklab capture`: records the requests sent to a block device of this machine as a trace.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use seeklab_core::{ByteSize, Duration};
use seeklab_lab::capture::{Child, Outcome, Wishes, run};
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, print, print_json};
use seeklab_lab::session::Session;
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  seeklab capture /dev/vda -o prod.parquet --duration 60s
  seeklab capture /dev/nvme0n1p2 -o build.parquet -- make -j8
  seeklab capture /dev/loop0 -o fio.csv.zst --json -- fio job.fio

It ends with the command, after the duration, or at Ctrl-C, whichever comes first. Any block device: whole
disks, partitions, loop devices, device-mapper, md and zram. Root, or CAP_PERFMON and tracefs readable.
Keep the trace on another device than the one that is captured.";

/// Records every request that the kernel gives to a block device.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Block device to record
    device: PathBuf,
    /// Trace to write. The suffix selects format and compression
    #[arg(long, short = 'o', value_name = "TRACE")]
    output: PathBuf,
    /// Stop after this time, for example 60s [default: no limit]
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Omit the queue times and initiators of requests. Saves one event per request
    #[arg(long)]
    no_queue_times: bool,
    /// Kernel memory for each kind of event on each processor. An event takes about 100B [default: an equal share
    /// of 64MiB, from 256KiB to 2MiB]
    #[arg(long, value_name = "SIZE")]
    kernel_buffer: Option<ByteSize>,
    /// Print one JSON document. The output of COMMAND goes to stderr
    #[arg(long)]
    json: bool,
    /// Run COMMAND and capture until it ends
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let command = match self.command.is_empty() {
            true => None,
            false => Some(Child::new(&self.command, self.json)?),
        };
        let wishes = Wishes {
            device: self.device,
            output: self.output,
            duration: self.duration,
            queue_times: !self.no_queue_times,
            buffer: self.kernel_buffer,
        };
        let outcome = run(session, &wishes, command)?;
        if self.json {
            print_json(&document(&wishes, &outcome))?;
        } else {
            print(&summary(&wishes, &outcome))?;
        }
        match outcome.command {
            Some(ended) if ended.exit_code != 0 => {
                Err(Failure::check(format!("the command ended with exit code {}", ended.exit_code)))
            }
            _ => Ok(()),
        }
    }
}

fn summary(wishes: &Wishes, outcome: &Outcome) -> String {
    let (figures, captured) = (&outcome.summary, &outcome.captured);
    let seconds = outcome.elapsed.as_s();
    let mut text = format!(
        "{}: {} requests of {} in {seconds:.1} s ({} reads, {} writes, {} others, {} errors), {:.1} IOPS\n",
        wishes.output.display(),
        figures.requests,
        wishes.device.display(),
        figures.reads,
        figures.writes,
        figures.others,
        figures.errors,
        figures.requests as f64 / seconds.max(1e-9),
    );
    for (name, times) in
        [("response", figures.response), ("reads", figures.read_response), ("writes", figures.write_response)]
    {
        if let Some(times) = times {
            text += &format!(
                "{name:<9} mean {:.3} ms, p50 {:.3}, p99 {:.3}, max {:.3}\n",
                times.mean_ms, times.p50_ms, times.p99_ms, times.max_ms
            );
        }
    }
    text += &format!(
        "lost      {} events, {} requests not written, {} requests given up\n",
        captured.lost_events, outcome.lost_requests, captured.given_up
    );
    text += &format!(
        "cost      {:.2} s of processor, {:.2} % of one\n",
        outcome.cpu.as_s(),
        100.0 * outcome.cpu.as_s() / seconds.max(1e-9)
    );
    if outcome.own > 0 {
        text += &format!(
            "note: {} more requests are the recorder's own: in the trace, marked, and in no figure\n",
            outcome.own
        );
    }
    if !outcome.is_complete() {
        text += "warning: this trace is not complete\n";
    }
    if captured.completed == 0 && captured.issued > 0 {
        text += "warning: requests were given to the device and none was complete: it may hand them on as they \
                 are; capture the device beneath it\n";
    }
    text
}

fn document(wishes: &Wishes, outcome: &Outcome) -> Value {
    let (figures, captured) = (&outcome.summary, &outcome.captured);
    json!({
        "device": wishes.device.display().to_string(),
        "output": wishes.output.display().to_string(),
        "version": VERSION,
        "elapsed_s": outcome.elapsed.as_s(),
        "command_exit_code": outcome.command.map(|ended| ended.exit_code),
        "requests": figures.requests,
        "reads": figures.reads,
        "writes": figures.writes,
        "others": figures.others,
        "errors": figures.errors,
        "requests_per_second": figures.requests as f64 / outcome.elapsed.as_s().max(1e-9),
        "response_mean_ms": figures.response.map(|times| times.mean_ms),
        "response_p50_ms": figures.response.map(|times| times.p50_ms),
        "response_p99_ms": figures.response.map(|times| times.p99_ms),
        "rows": outcome.rows.rows,
        "recorders_own": outcome.own,
        "lost_events": captured.lost_events,
        "lost_requests": outcome.lost_requests,
        "given_up": captured.given_up,
        "pending": captured.pending,
        "unpaired_completions": captured.unpaired_completions,
        "late_events": captured.late_events,
        "malformed_records": captured.malformed_records,
        "other_commands": captured.other_commands,
        "out_of_order": outcome.rows.out_of_order,
        "widened": outcome.rows.widened,
        "capture_cpu_s": outcome.cpu.as_s(),
    })
}
