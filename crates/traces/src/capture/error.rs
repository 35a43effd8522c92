//! Reasons why a capture cannot start or fails.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A capture that could not be made; advice is apart in [`hint`](Self::hint).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The device cannot be looked at.
    #[error("cannot look at `{}`", path.display())]
    Device {
        /// The device as it was named.
        path: PathBuf,
        /// Error reported by the operating system.
        source: io::Error,
    },
    /// The path names something other than a block device.
    #[error("`{}` is no block device", path.display())]
    NotABlockDevice {
        /// The path as it was given.
        path: PathBuf,
    },
    /// This kernel lacks an event.
    #[error("this kernel does not describe the event `{}`", path.display())]
    NoTracepoint {
        /// Path at which the kernel's description was expected.
        path: PathBuf,
    },
    /// The kernel's descriptions of its events are not there.
    #[error("the block layer's events are not described in any of {}", searched.join(", "))]
    NoTracefs {
        /// Paths that were searched.
        searched: Vec<String>,
    },
    /// The description of an event cannot be read.
    #[error("cannot read `{}`", path.display())]
    Tracefs {
        /// The file.
        path: PathBuf,
        /// Error reported by the operating system.
        source: io::Error,
    },
    /// The description of an event is not understood.
    #[error("`{}` is not understood: {problem}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// Description of what is missing or wrong.
        problem: String,
    },
    /// The events' buffers are refused.
    #[error("the kernel refuses {buffers} event buffers of {bytes} bytes")]
    Buffers {
        /// Number of buffers requested: one for each processor.
        buffers: usize,
        /// Bytes of each.
        bytes: usize,
        /// Error reported by the operating system.
        source: io::Error,
    },
    /// No file system of the device is mounted.
    #[error("no file system of `{}` is mounted", path.display())]
    NotMounted {
        /// The device as it was named.
        path: PathBuf,
    },
    /// The file system of the device cannot be traced.
    #[error("`{}` has a file system of type `{kind}`, and a system-level trace needs one of the ext4 driver", path.display())]
    FileSystem {
        /// The device as it was named.
        path: PathBuf,
        /// Type of the file system.
        kind: String,
    },
    /// The process is in a PID namespace, so the kernel's numbers of its children are unknown.
    #[error("in a PID namespace, the kernel's numbers of the traced processes are unknown")]
    PidNamespace,
    /// Recorded events cannot be stored until the end.
    #[error("cannot {action} the recorded events of `{}`", path.display())]
    Spool {
        /// Action that failed.
        action: &'static str,
        /// The part file.
        path: PathBuf,
        /// Error reported by the operating system.
        source: io::Error,
    },
    /// A part file is too short to make a trace of it.
    #[error("`{}` lacks {problem}", path.display())]
    Part {
        /// The part file.
        path: PathBuf,
        /// The missing part.
        problem: &'static str,
    },
    /// The kernel refuses something else.
    #[error("cannot {action}")]
    Kernel {
        /// Action that failed.
        action: &'static str,
        /// Error reported by the operating system.
        source: io::Error,
    },
    /// The sink panicked; what it had been given by then is all there is.
    #[error("the capture's sink panicked")]
    SinkPanicked,
}

impl CaptureError {
    /// Returns advice on how to solve the problem.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Device { .. } => None,
            Self::NotABlockDevice { .. } => Some("name a device such as `/dev/loop0`".to_owned()),
            Self::NoTracepoint { .. } => Some(
                "capture on a kernel built with CONFIG_BLOCK, CONFIG_EVENT_TRACING and CONFIG_BLK_DEV_IO_TRACE, \
                 as distributions build it; or put `seeklab record` between the program and the device"
                    .to_owned(),
            ),
            Self::NoTracefs { .. } => {
                Some("mount it: `mount -t tracefs tracefs /sys/kernel/tracing`, as root".to_owned())
            }
            Self::Tracefs { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("run as root, or let this user read tracefs: `mount -o remount,gid=GROUP,mode=0750 /sys/kernel/tracing`".to_owned())
            }
            Self::Tracefs { .. } | Self::SinkPanicked => None,
            Self::Description { .. } => Some("this kernel is unknown to seeklab; report the file".to_owned()),
            Self::Buffers { .. } => Some("ask for smaller buffers".to_owned()),
            Self::NotMounted { .. } => {
                Some("mount its ext4 file system, and let COMMAND work on it".to_owned())
            }
            Self::FileSystem { .. } => {
                Some("make it with `mkfs.ext4`, or `mkfs.ext2`, and mount it as ext4".to_owned())
            }
            Self::PidNamespace => Some("run outside of the container or namespace".to_owned()),
            Self::Spool { .. } => Some(
                "the place of the trace needs some GiB of free space: an event takes about 100 bytes until the end".to_owned(),
            ),
            Self::Kernel { source, .. } if source.raw_os_error() == Some(24) => {
                Some("raise the limit of open files: one is needed for each processor; `ulimit -n 8192`".to_owned())
            }
            Self::Kernel { .. } => None,
            Self::Part { .. } => Some("nothing can be made of it: delete it and record again".to_owned()),
        }
    }
}
