//! The flags that say how the host treats a block device, the same for every verb that makes one.

use clap::Args;
use seeklab_core::ByteSize;
use seeklab_emulator::frontend::loop_device::QueueWishes;

/// How the host treats a block device.
#[derive(Debug, Args)]
pub(crate) struct QueueFlags {
    /// The host's scheduler for the block device, such as none or mq-deadline; by the kind of device unless
    /// said
    #[arg(long, value_name = "NAME")]
    host_scheduler: Option<String>,
    /// How far the host reads ahead on the block device, such as 128KiB
    #[arg(long, value_name = "SIZE")]
    host_read_ahead: Option<ByteSize>,
    /// Whether the host takes the block device for a disk that turns; by the kind of device unless said
    #[arg(long, value_name = "true|false")]
    host_rotational: Option<bool>,
    /// Requests that the host holds for the block device
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    host_requests: Option<u32>,
}

impl QueueFlags {
    /// What they ask for; what they leave open is the device's.
    pub(crate) fn wishes(&self) -> QueueWishes {
        QueueWishes {
            rotational: self.host_rotational,
            scheduler: self.host_scheduler.clone(),
            read_ahead_kib: self.host_read_ahead.map(|size| (size.as_bytes() >> 10) as u32),
            request_count: self.host_requests,
        }
    }
}
