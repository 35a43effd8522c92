//! `seeklab capture`: records the requests sent to a block device of this machine as a trace.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use seeklab_lab::capture::{CaptureOptions, CaptureResult, capture};
use seeklab_lab::crates::core::number_words::{counted, numbered};
use seeklab_lab::crates::core::{ByteSize, Duration};
use seeklab_lab::crates::report::folded;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::system::{SystemCaptureOptions, capture_system};

use super::system_page::system_page;
use crate::delivery::Delivery;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Examples:
  seeklab capture /dev/vda -o prod.parquet --duration 60s
  seeklab capture /dev/nvme0n1p2 -o build.parquet -- make -j8
  seeklab capture /dev/loop0 -o fio.csv.zst --json -- fio job.fio
  seeklab capture --system /dev/loop0 -o copy.sys -- cp -r /mnt/a /mnt/b

It ends with the command, after the duration, or at Ctrl-C, whichever comes first. Any block device: whole
disks, partitions, loop devices, device-mapper, md and zram. Root, or tracefs writable.
Keep the trace on another device than the one that is captured.

--system records a command with the host around it: where the time of each of its processes went, and the
causes of their waits. DEVICE has a mounted ext4 file system then, and TRACE is a folder. It ends when the
last dirty block of the file system is on the device.";

/// Records every request that the kernel gives to a block device.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Block device to record
    device: PathBuf,
    /// Record COMMAND and the host as a system-level trace
    #[arg(long, requires = "command", conflicts_with_all = ["duration", "no_queue_times"])]
    system: bool,
    /// Trace to write. The suffix selects format and compression
    #[arg(long, short = 'o', value_name = "TRACE")]
    output: PathBuf,
    /// Stop after this time, for example 60s [default: no limit]
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Omit the queue times and initiators of requests. Saves one event per request
    #[arg(long)]
    no_queue_times: bool,
    /// Kernel memory for the events of each processor. An event takes about 100B [default: an equal share of 64MiB,
    /// from 1MiB to 16MiB]
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
        if self.system {
            return self.run_system(session);
        }
        let options = CaptureOptions {
            device: self.device,
            output: self.output,
            duration: self.duration,
            queue_times: !self.no_queue_times,
            buffer: self.kernel_buffer,
            command: self.command,
            output_to_stderr: self.json,
        };
        let result = capture(session, &options)?;
        let printed = if self.json { print_json(&result) } else { print(&summary(&result)) };
        let ended = match result.command_exit_code {
            None | Some(0) => Ok(()),
            Some(code) => Err(Failure::check(format!("the command ended with exit code {code}"))),
        };
        Delivery::of(session, printed).and(result.failure.map_or(Ok(()), Err)).and(ended).finish()
    }
}

impl Arguments {
    fn run_system(self, session: &Session) -> Result<(), Failure> {
        let options = SystemCaptureOptions {
            device: self.device,
            output: self.output,
            buffer: self.kernel_buffer,
            command: self.command,
            output_to_stderr: self.json,
        };
        let result = capture_system(session, &options)?;
        let printed = if self.json { print_json(&result) } else { print(&system_page(&result.trace)) };
        let ended = match result.command_exit_code {
            0 => Ok(()),
            code => Err(Failure::check(format!("the command ended with exit code {code}"))),
        };
        Delivery::of(session, printed).and(result.failure.map_or(Ok(()), Err)).and(ended).finish()
    }
}

fn summary(result: &CaptureResult) -> String {
    let heading = format!(
        "{}: {} of {} in {:.1} s ({}, {}, {}, {} failed), {:.1} IOPS",
        result.output.display(),
        counted(result.requests, "request"),
        result.device.display(),
        result.elapsed_s,
        counted(result.reads, "read"),
        counted(result.writes, "write"),
        counted(result.others, "other"),
        result.failed_requests,
        result.requests_per_second,
    );
    let mut text = folded(&heading, 2) + "\n";
    if let (Some(mean), Some(p50), Some(p99), Some(max)) =
        (result.response_mean_ms, result.response_p50_ms, result.response_p99_ms, result.response_max_ms)
    {
        text += &format!("response  mean {mean:.3} ms, p50 {p50:.3}, p99 {p99:.3}, max {max:.3}\n");
    }
    for (name, times) in [("reads", result.read_response), ("writes", result.write_response)] {
        if let Some(times) = times {
            text += &format!(
                "{name:<9} mean {:.3} ms, p50 {:.3}, p99 {:.3}, max {:.3}\n",
                times.mean_ms, times.p50_ms, times.p99_ms, times.max_ms
            );
        }
    }
    text += &format!(
        "lost      {}, {} not written, {} with an event missing\n",
        counted(result.lost_events, "event"),
        counted(result.lost_requests, "request"),
        counted(result.given_up, "request")
    );
    text += &format!(
        "cost      {:.2} s of processor time, {:.2} % of one processor\n",
        result.capture_cpu_s,
        100.0 * result.capture_cpu_s / result.elapsed_s.max(1e-9)
    );
    if result.recorder_requests > 0 {
        let own = "more request[|s] [is|are] the recorder's own; the trace marks [it|them], and no figure includes [it|them]";
        let note = format!("note: {}", numbered(result.recorder_requests, own));
        text += &format!("{}\n", folded(&note, 2));
    }
    if !result.is_complete() {
        text += "warning: this trace is not complete\n";
    }
    for note in &result.notes {
        text += &format!("warning: {note}\n");
    }
    text
}
