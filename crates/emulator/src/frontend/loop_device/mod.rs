//! A block device of the kernel, `/dev/loopN`, over the file that a FUSE [`Server`] serves.
//!
//! ```text
//! file systems, applications ─▶ /dev/loopN ─ direct I/O ─▶ FUSE file ─▶ Server
//!                                  ▲ kept by a thread with descriptors of its own
//! ```
//! # However this process ends, nothing hangs and nothing stays
//! The device is set to go with its last user. A thread, the keeper, holds the only descriptor that this
//! process has of it, in a descriptor table of its own (`unshare(CLONE_FILES)`), where `/dev/fuse` is not.
//! When the process is killed, the other threads' table goes, `/dev/fuse` with it, and all requests of the
//! keeper or the kernel to the file fail at once. If one table held both, closing the block device, which
//! writes its dirty pages back through FUSE, could wait for ever for an answer of the very process that ends.
//! A file system that is still mounted then sees I/O errors; unmounting it removes the device.
//!
//! # Scope and limits
//! - Root, and a kernel with the loop driver and `LOOP_CONFIGURE` (Linux 5.8).
//! - Attaching, and closing in order ([`LoopDevice::detach`]), need the server to be answering on another
//!   thread.
//! - The loop driver executes flushes and discards one after the other in a worker, and reads and writes that
//!   come meanwhile wait behind them: with flushes of 100 ms in flight, reads fell from 5096 to 18 per second
//!   in a measurement (`feasibility.md`, section 1). It has a worker per block-I/O cgroup, so a reader in a
//!   cgroup of its own is not held up (4610). The FUSE file itself has no such limit.
//! - It sends no FUA: such writes arrive as a write and a flush. At most 128 requests are outstanding.
//!
//! # References
//! The kernel's `include/uapi/linux/loop.h` and `drivers/block/loop.c`.
//!
//! [`Server`]: crate::frontend::fuse::Server

mod changes;
mod kernel;
mod queue;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

pub(crate) use kernel::own_descriptor_only;
pub use queue::{Queue, QueueOptions, is_attached};

use changes::Changes;

use crate::frontend::Endpoint;
use crate::frontend::fuse::DetachedFile;

/// Settings of the block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Its logical block size, a power of two from 512 to 4096.
    pub block_size_bytes: u32,
    /// Refuse writes.
    pub read_only: bool,
    /// Options of the host's queue in front of the block device.
    pub queue: QueueOptions,
}

/// A block device, until it is dropped; it stays while somebody else uses it.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    queue: Queue,
    /// Settings that are restored when the device is given up.
    changes: Option<Changes>,
    /// Dropped to end the keeper.
    hold: Option<Sender<()>>,
    keeper: JoinHandle<()>,
}

/// Limit of the time for the server to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum number of attempts to take a free device, since other programs may take it first.
const ATTEMPTS_MAX: usize = 64;

impl LoopDevice {
    /// Makes a block device of `file`, which another thread is serving.
    ///
    /// # Errors
    /// A missing driver or permission, with its remedy; a server that does not answer.
    pub fn attach(file: &DetachedFile, settings: &Settings) -> io::Result<Self> {
        let block = settings.block_size_bytes;
        if !block.is_power_of_two() || !(512..=4096).contains(&block) {
            let what = format!(
                "the loop driver takes blocks of 512 to 4096 bytes, not {block}; serve this device over NBD or as a \
                 FUSE file"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let (ready, attached) = channel();
        let (hold, held) = channel();
        let (number, name) = (file.directory.as_raw_fd(), file.name.clone());
        let (settings, options) = (settings.clone(), settings.queue.clone());
        let keeper = std::thread::Builder::new().name("loop-keeper".to_owned());
        let keeper = keeper.spawn(move || keep(number, &name, &settings, &ready, &held))?;
        match attached.recv_timeout(PATIENCE) {
            Ok(Ok((path, queue))) => {
                Self { path, queue, changes: None, hold: Some(hold), keeper }.limited(&options)
            }
            Ok(Err(error)) => Err(error),
            Err(RecvTimeoutError::Timeout) => {
                let what =
                    format!("the FUSE file did not open in {} s: is it being served?", PATIENCE.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, what))
            }
            Err(RecvTimeoutError::Disconnected) => panic!("the keeper of the loop device panicked"),
        }
    }

    /// Changes the settings that outlive it. The keeper cannot: its descriptors are its own.
    fn limited(mut self, options: &QueueOptions) -> io::Result<Self> {
        let limited = queue::limit(&self.path, options)
            .and_then(|changes| Queue::read(&self.path).map(|queue| (changes, queue)));
        match limited {
            Ok((changes, queue)) => {
                (self.changes, self.queue) = (changes, queue);
                Ok(self)
            }
            Err(error) => {
                self.detach();
                Err(error)
            }
        }
    }

    /// Returns the path of the block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the place where programs of the host reach it.
    pub fn endpoint(&self) -> Endpoint {
        let path = self.path.display();
        Endpoint {
            protocol: "block",
            address: path.to_string(),
            trial: format!("mkfs.ext4 {path}; mount {path} /mnt"),
        }
    }

    /// Returns the settings of the host's queue, read back from the kernel.
    pub const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Gives it up: what was written to it without direct I/O goes to the device first, for which the server
    /// must be answering. Returns whether it is gone; it is not while somebody else has it open or mounted.
    pub fn detach(mut self) -> bool {
        // First, for the next user of the number must not take them for its own former settings.
        drop(self.changes.take());
        drop(self.hold.take());
        let _ = self.keeper.join();
        !is_attached(&self.path)
    }
}

/// Returns the reason why no block device can be made here, and a remedy; `None` if it seems possible.
pub fn unavailability() -> Option<String> {
    open_control().err().map(|error| error.to_string())
}

/// The keeper: attaches, then holds the device until `held` ends.
fn keep(
    directory: i32,
    name: &str,
    settings: &Settings,
    ready: &Sender<io::Result<(PathBuf, Queue)>>,
    held: &Receiver<()>,
) {
    let attached = own_descriptor_only(directory).and_then(|directory| attach(&directory, name, settings));
    let device = match attached {
        Ok((device, path, queue)) => {
            if ready.send(Ok((path, queue))).is_err() {
                return;
            }
            device
        }
        Err(error) => {
            // If the receiver is gone, the error has no reader.
            let _ = ready.send(Err(error));
            return;
        }
    };
    // It ends without ever a message.
    let _ = held.recv();
    // Closing syncs only if the file is open nowhere else. Writers have received their errors.
    let _ = rustix::fs::fsync(&device);
    drop(device);
}

fn attach(directory: &OwnedFd, name: &str, settings: &Settings) -> io::Result<(OwnedFd, PathBuf, Queue)> {
    let access = if settings.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let file = openat(directory, name, access | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| io::Error::new(io::Error::from(error).kind(), format!("the FUSE file: {error}")))?;
    let (device, path) = configure(&file, name, access, settings)?;
    queue::apply(&path, settings)?;
    let queue = Queue::read(&path)?;
    Ok((device, path, queue))
}

fn configure(
    file: &OwnedFd,
    name: &str,
    access: OFlags,
    settings: &Settings,
) -> io::Result<(OwnedFd, PathBuf)> {
    let control = open_control()?;
    for attempt in 1..=ATTEMPTS_MAX {
        let number = kernel::free_device(&control)?;
        // Somebody may have taken it meanwhile. That is found below.
        let _ = kernel::renew_device(&control, number);
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let named = |error: Errno| {
            let hint = match error {
                Errno::NOENT => {
                    "; the kernel has it, but /dev has no node: create it with `mknod`, or run outside the container"
                }
                Errno::INVAL => "; LOOP_CONFIGURE needs Linux 5.8 and a block size of 512 to 4096",
                _ => "",
            };
            io::Error::new(io::Error::from(error).kind(), format!("{}: {error}{hint}", path.display()))
        };
        let device = match open(&path, access | OFlags::CLOEXEC, Mode::empty()) {
            Ok(device) => device,
            // Somebody else makes it anew.
            Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) if attempt < ATTEMPTS_MAX => continue,
            Err(error) => return Err(named(error)),
        };
        match kernel::configure(&device, file, name, settings) {
            Ok(()) => {
                // Held for reading only: who holds it for writing keeps some kernels from mounting it.
                let held = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(named)?;
                return Ok((held, path));
            }
            // Somebody else was faster.
            Err(Errno::BUSY) => {}
            Err(error) => return Err(named(error)),
        }
    }
    Err(io::Error::other(format!(
        "every loop device was taken before it could be used, {ATTEMPTS_MAX} times"
    )))
}

fn open_control() -> io::Result<OwnedFd> {
    const PATH: &str = "/dev/loop-control";
    open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
        let remedy = match error {
            Errno::ACCESS | Errno::PERM => "run as root",
            Errno::NOENT | Errno::NODEV | Errno::NXIO => {
                "`modprobe loop`; in a container, give it the device"
            }
            _ => "load the loop driver (`modprobe loop`)",
        };
        io::Error::new(io::Error::from(error).kind(), format!("{PATH}: {error}; {remedy}"))
    })
}
