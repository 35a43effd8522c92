//! Settings of the host's queue in front of the block device, in sysfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Settings;

/// Options of the host's queue; `None` leaves the choice to the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// True if the host is to treat the block device as a rotating disk.
    pub rotational: Option<bool>,
    /// The host's scheduler, by the kernel's name.
    pub scheduler: Option<String>,
    /// Read-ahead of the page cache, in KiB.
    pub read_ahead_kib: Option<u32>,
    /// Requests that the host holds for the device.
    pub request_count: Option<u32>,
}

impl QueueOptions {
    /// Returns the options that Linux chooses for such a device when it is real: `mq-deadline` for a rotating
    /// disk, otherwise no scheduler; a read-ahead of 128 KiB for both (a loop device has twice its largest
    /// request, 2560).
    pub fn of_device(rotational: bool) -> Self {
        let scheduler = if rotational { "mq-deadline" } else { "none" };
        Self {
            rotational: Some(rotational),
            scheduler: Some(scheduler.to_owned()),
            read_ahead_kib: Some(128),
            request_count: None,
        }
    }
}

impl QueueOptions {
    /// These, and `other` where they are open.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            rotational: self.rotational.or(other.rotational),
            scheduler: self.scheduler.or(other.scheduler),
            read_ahead_kib: self.read_ahead_kib.or(other.read_ahead_kib),
            request_count: self.request_count.or(other.request_count),
        }
    }
}

/// Settings of the host's queue, read back from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// True if the host treats the block device as a rotating disk.
    pub rotational: bool,
    /// The host's scheduler.
    pub scheduler: String,
    /// Read-ahead of the page cache, in KiB.
    pub read_ahead_kib: u32,
    /// Requests that the host holds for the device.
    pub request_count: u32,
    /// The logical block size, in bytes.
    pub block_size_bytes: u32,
    /// The most KiB of one request.
    pub request_kib_max: u32,
    /// The most bytes of one discard; 0 if it takes none.
    pub discard_bytes_max: u64,
}

/// Sets what is wanted of the device at `path`, and checks what must be.
pub(super) fn apply(path: &Path, settings: &Settings) -> io::Result<Queue> {
    let folder = folder(path);
    if read(&folder, "loop/dio")? != "1" {
        let what = format!(
            "{}: direct I/O is off, so requests would arrive one at a time; the file may not take blocks of {} \
             bytes",
            path.display(),
            settings.block_size_bytes
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    let requested = &settings.queue;
    let mut wanted = Vec::new();
    wanted.extend(requested.rotational.map(|rotational| ("rotational", u8::from(rotational).to_string())));
    wanted.extend(requested.scheduler.clone().map(|scheduler| ("scheduler", scheduler)));
    wanted.extend(requested.read_ahead_kib.map(|kib| ("read_ahead_kb", kib.to_string())));
    wanted.extend(requested.request_count.map(|count| ("nr_requests", count.to_string())));
    for (name, value) in wanted {
        let file = folder.join("queue").join(name);
        if let Err(error) = fs::write(&file, &value) {
            // Without the scheduler, the device works as well; what it has got is read back below.
            if name == "scheduler" && error.kind() == io::ErrorKind::InvalidInput {
                continue;
            }
            let mut what = format!("{}: {value} was refused: {error}", file.display());
            if name == "nr_requests" {
                what += "; the loop driver has 128, and with a scheduler twice that";
            }
            return Err(io::Error::new(error.kind(), what));
        }
    }
    let queue = Queue {
        rotational: read(&folder, "queue/rotational")? == "1",
        scheduler: chosen(&read(&folder, "queue/scheduler")?).to_owned(),
        read_ahead_kib: number(&folder, "queue/read_ahead_kb")?,
        request_count: number(&folder, "queue/nr_requests")?,
        block_size_bytes: number(&folder, "queue/logical_block_size")?,
        request_kib_max: number(&folder, "queue/max_sectors_kb")?,
        discard_bytes_max: number(&folder, "queue/discard_max_bytes")?,
    };
    if queue.block_size_bytes != settings.block_size_bytes {
        let (got, wanted) = (queue.block_size_bytes, settings.block_size_bytes);
        let what = format!("{}: has blocks of {got} bytes instead of {wanted}", path.display());
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(queue)
}

/// Returns true if the loop device at `path` is still bound to a file.
pub fn is_attached(path: &Path) -> bool {
    folder(path).join("loop").exists()
}

fn folder(path: &Path) -> PathBuf {
    Path::new("/sys/block").join(path.file_name().expect("it is /dev/loopN"))
}

fn read(folder: &Path, name: &str) -> io::Result<String> {
    let file = folder.join(name);
    let text = fs::read_to_string(&file)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    Ok(text.trim().to_owned())
}

fn number<N: std::str::FromStr>(folder: &Path, name: &str) -> io::Result<N> {
    let text = read(folder, name)?;
    text.parse().map_err(|_| {
        let what = format!("{}: `{text}` is no number", folder.join(name).display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

/// The scheduler in brackets.
fn chosen(schedulers: &str) -> &str {
    let bracketed = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(schedulers, |(chosen, _)| chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_in_brackets_is_the_chosen_one() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("[none]"), "none");
        assert_eq!(chosen("none"), "none");
    }

    #[test]
    fn rotating_disk_gets_the_default_scheduler_of_linux() {
        assert_eq!(QueueOptions::of_device(true).scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(QueueOptions::of_device(false).scheduler.as_deref(), Some("none"));
        assert_eq!(QueueOptions::of_device(false).read_ahead_kib, Some(128));
    }
}
