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
}

impl QueueFlags {
    /// What they ask for, else as in `default`.
    pub(crate) fn over(&self, default: QueueWishes) -> QueueWishes {
        QueueWishes {
            scheduler: self.host_scheduler.clone().or(default.scheduler),
            read_ahead_kib: self
                .host_read_ahead
                .map_or(default.read_ahead_kib, |size| Some((size.as_bytes() >> 10) as u32)),
            ..default
        }
    }
}
