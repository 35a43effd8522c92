//! Options for the host's queue of a block device, shared by all verbs that make one.

use clap::Args;
use seeklab_lab::crates::core::ByteSize;
use seeklab_lab::crates::emulator::frontend::loop_device::QueueOptions;

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
}

impl QueueFlags {
    /// Returns the queue options that were given. Each omitted option takes the default of the device.
    pub(crate) fn options(&self) -> QueueOptions {
        QueueOptions {
            rotational: self.host_rotational,
            scheduler: self.host_scheduler.clone(),
            read_ahead_kib: self.host_read_ahead.map(|size| (size.as_bytes() >> 10) as u32),
            request_count: self.host_requests,
        }
    }
}
