//! Options for the host's queue of a block device, shared by all verbs that make one.

use clap::Args;
use seeklab_lab::crates::core::{ByteSize, Duration};
use seeklab_lab::crates::emulator::frontend::loop_device::QueueOptions;
use seeklab_lab::failure::Failure;

/// Options for the host's queue of a block device.
#[derive(Debug, Args)]
pub(crate) struct QueueFlags {
    /// The host's scheduler for the block device, for example none or mq-deadline [default: mq-deadline if the
    /// emulated device is a rotating disk, otherwise none]
    #[arg(long, value_name = "NAME")]
    host_scheduler: Option<String>,
    /// Read-ahead of the host on the block device [default: 128KiB]
    #[arg(long, value_name = "SIZE")]
    host_read_ahead: Option<ByteSize>,
    /// Report the block device to the host as a rotating disk [default: true if the emulated device is a rotating
    /// disk]
    #[arg(long, value_name = "true|false")]
    host_rotational: Option<bool>,
    /// Requests that the host's queue holds for the block device [default: the kernel's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    host_requests: Option<u32>,
    /// Limit of the data that the page cache holds for the block device and has not written yet, for example 8MiB. Writers
    /// that exceed it wait [default: the kernel's, for all devices together]
    #[arg(long, value_name = "SIZE")]
    dirty_limit: Option<ByteSize>,
    /// Writeback throttling of the host's queue: off, or the latency of reads that it keeps to [default: the kernel's,
    /// 2ms]
    #[arg(long, value_name = "off|TIME", value_parser = parse_throttling)]
    wbt: Option<Duration>,
}

/// Reads `off` as zero.
fn parse_throttling(text: &str) -> Result<Duration, String> {
    match text {
        "off" => Ok(Duration::ZERO),
        text => text.parse().map_err(|error| format!("`off` and times such as 2ms are allowed: {error}")),
    }
}

impl QueueFlags {
    /// Returns the queue options that were given. Each omitted option takes the default of the device.
    pub(crate) fn options(&self) -> QueueOptions {
        QueueOptions {
            rotational: self.host_rotational,
            scheduler: self.host_scheduler.clone(),
            read_ahead_kib: self.host_read_ahead.map(|size| (size.as_bytes() >> 10) as u32),
            request_count: self.host_requests,
            dirty_limit: self.dirty_limit,
            writeback_throttling: self.wbt,
        }
    }

    /// Refuses limits of the host that would do nothing without a block device.
    pub(crate) fn check_without_block(&self, reason: &str) -> Result<(), Failure> {
        let given = [("--dirty-limit", self.dirty_limit.is_some()), ("--wbt", self.wbt.is_some())];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                Err(Failure::new(format!("{option}: {reason}")).hint("leave the option out"))
            }
            None => Ok(()),
        }
    }
}
