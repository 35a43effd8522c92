//! Settings of the host's queue in front of the block device, in sysfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Duration};
use serde::{Deserialize, Serialize};

use super::Settings;
use super::changes::{Change, Changes};

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
    /// Limit of the data that the page cache holds for the device and that are not written yet.
    pub dirty_limit: Option<ByteSize>,
    /// Writeback throttling: the latency of reads that it keeps to, or zero to switch it off.
    pub writeback_throttling: Option<Duration>,
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
            ..Self::default()
        }
    }

    /// These, and `other` where they are open.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            rotational: self.rotational.or(other.rotational),
            scheduler: self.scheduler.or(other.scheduler),
            read_ahead_kib: self.read_ahead_kib.or(other.read_ahead_kib),
            request_count: self.request_count.or(other.request_count),
            dirty_limit: self.dirty_limit.or(other.dirty_limit),
            writeback_throttling: self.writeback_throttling.or(other.writeback_throttling),
        }
    }

    /// Returns the reason why this kernel cannot have these options, and a remedy; `None` if it can.
    pub fn unavailability(&self) -> Option<(String, &'static str)> {
        self.unavailability_in(Path::new("/sys"))
    }

    fn unavailability_in(&self, sysfs: &Path) -> Option<(String, &'static str)> {
        let has = |class: &str, file: &str| {
            let folders = fs::read_dir(sysfs.join(class)).into_iter().flatten().flatten();
            folders.into_iter().any(|folder| fs::read_to_string(folder.path().join(file)).is_ok())
        };
        let bounds = |file| has("class/bdi", file);
        if let Some(limit) = self.dirty_limit
            && !(bounds("strict_limit") && bounds("max_bytes"))
        {
            let what =
                format!("--dirty-limit {limit}: this kernel limits the dirty data of no single device");
            return Some((
                what,
                "it takes Linux 6.2, which has `max_bytes` and `strict_limit` in /sys/class/bdi",
            ));
        }
        if self.writeback_throttling.is_some() && !has("block", "queue/wbt_lat_usec") {
            let what = "--wbt: this kernel has no writeback throttling".to_owned();
            return Some((what, "leave it out, or use a kernel with CONFIG_BLK_WBT"));
        }
        None
    }

    /// The settings that outlive the device and have to be restored.
    fn lasting_changes(&self, folder: &Path) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut change = |name: &str, value: String, kept: &str| {
            changes.push(Change { file: folder.join(name), value, kept: folder.join(kept) });
        };
        if let Some(limit) = self.dirty_limit {
            // The kernel keeps the limit as a share, in millionths where it can.
            let fine = "bdi/max_ratio_fine";
            let kept = if folder.join(fine).exists() { fine } else { "bdi/max_ratio" };
            change("bdi/strict_limit", "1".to_owned(), "bdi/strict_limit");
            change("bdi/max_bytes", limit.as_bytes().to_string(), kept);
        }
        if let Some(latency) = self.writeback_throttling {
            let us = latency.as_ns().div_ceil(1_000);
            change("queue/wbt_lat_usec", us.to_string(), "queue/wbt_lat_usec");
        }
        changes
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
    /// Limit of the data that the page cache holds for the device and that are not written yet. `None` without a limit
    /// of its own.
    #[serde(default)]
    pub dirty_limit_bytes: Option<u64>,
    /// Latency of reads that writeback throttling keeps to; 0 if it is off. `None` if the kernel has none.
    #[serde(default)]
    pub writeback_throttling_us: Option<u64>,
}

/// Sets what is wanted of the device at `path`, and checks what must be.
pub(super) fn apply(path: &Path, settings: &Settings) -> io::Result<()> {
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
    let mut wanted = all_tags();
    wanted.extend(requested.rotational.map(|rotational| ("rotational", u8::from(rotational).to_string())));
    wanted.extend(requested.scheduler.clone().map(|scheduler| ("scheduler", scheduler)));
    wanted.extend(requested.read_ahead_kib.map(|kib| ("read_ahead_kb", kib.to_string())));
    wanted.extend(requested.request_count.map(|count| ("nr_requests", count.to_string())));
    for (name, value) in wanted {
        let file = folder.join("queue").join(name);
        if let Err(error) = fs::write(&file, &value) {
            // Without the scheduler, the device works as well; the caller reads back what it has got.
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
    let (got, wanted) = (number::<u32>(&folder, "queue/logical_block_size")?, settings.block_size_bytes);
    if got != wanted {
        let what = format!("{}: has blocks of {got} bytes instead of {wanted}", path.display());
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// The settings that give a device all tags of the loop driver again.
///
/// A number of requests outlives the device that it was set for, and the kernel hides it: a change of the scheduler shows
/// the driver's number and leaves the tags as they are, and a number that is shown already is not set. So the
/// number is set to another one first. Linux, `blk_mq_update_nr_requests` in `block/blk-mq.c`.
fn all_tags() -> Vec<(&'static str, String)> {
    /// The number of tags if the driver's parameter cannot be read: its default.
    const DEFAULT: u32 = 128;
    let depth = fs::read_to_string("/sys/module/loop/parameters/hw_queue_depth");
    let tags = depth.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT);
    let number = |tags: u32| ("nr_requests", tags.to_string());
    vec![("scheduler", "none".to_owned()), number(tags - 1), number(tags)]
}

/// Changes what outlives the device at `path`, until the result is dropped. To be called after [`apply`], for a scheduler
/// sets the throttling too.
pub(super) fn limit(path: &Path, options: &QueueOptions) -> io::Result<Option<Changes>> {
    Changes::make(&options.lasting_changes(&folder(path))).map_err(|error| match options.dirty_limit {
        Some(_) if error.kind() == io::ErrorKind::InvalidInput => {
            let hint = "; a dirty limit is at most a part of the memory of this machine, and at least 4KiB";
            io::Error::new(error.kind(), format!("{error}{hint}"))
        }
        _ => error,
    })
}

impl Queue {
    /// Reads the settings of the device at `path`.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let folder = folder(path);
        let has_limit = read(&folder, "bdi/strict_limit").is_ok_and(|strict| strict == "1");
        Ok(Self {
            rotational: read(&folder, "queue/rotational")? == "1",
            scheduler: chosen(&read(&folder, "queue/scheduler")?).to_owned(),
            read_ahead_kib: number(&folder, "queue/read_ahead_kb")?,
            request_count: number(&folder, "queue/nr_requests")?,
            block_size_bytes: number(&folder, "queue/logical_block_size")?,
            request_kib_max: number(&folder, "queue/max_sectors_kb")?,
            discard_bytes_max: number(&folder, "queue/discard_max_bytes")?,
            dirty_limit_bytes: if has_limit { Some(number(&folder, "bdi/max_bytes")?) } else { None },
            // Without writeback throttling, reading it fails, or there is no such file.
            writeback_throttling_us: number(&folder, "queue/wbt_lat_usec").ok(),
        })
    }
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

    #[test]
    fn options_that_the_kernel_lacks_are_refused_by_name() {
        let sysfs = tempfile::tempdir().unwrap();
        let limit =
            QueueOptions { dirty_limit: Some(ByteSize::from_bytes(1 << 20)), ..QueueOptions::default() };
        let throttling =
            QueueOptions { writeback_throttling: Some(Duration::ZERO), ..QueueOptions::default() };
        let lack = |options: &QueueOptions| options.unavailability_in(sysfs.path()).map(|(what, _)| what);
        assert_eq!(lack(&QueueOptions::default()), None);
        assert!(lack(&limit).unwrap().starts_with("--dirty-limit 1MiB: "), "{:?}", lack(&limit));
        assert!(lack(&throttling).unwrap().starts_with("--wbt: "));
        for file in ["class/bdi/7:0/strict_limit", "block/loop0/queue/wbt_lat_usec"] {
            let file = sysfs.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "0").unwrap();
        }
        assert!(lack(&limit).is_some(), "it also takes `max_bytes`");
        fs::write(sysfs.path().join("class/bdi/7:0/max_bytes"), "0").unwrap();
        assert_eq!((lack(&limit), lack(&throttling)), (None, None));
    }

    #[test]
    fn lasting_settings_are_those_given() {
        let folder = tempfile::tempdir().unwrap();
        let names = |options: &QueueOptions| -> Vec<(String, String, String)> {
            let name = |path: &Path| path.strip_prefix(folder.path()).unwrap().display().to_string();
            let changes = options.lasting_changes(folder.path());
            changes
                .iter()
                .map(|change| (name(&change.file), change.value.clone(), name(&change.kept)))
                .collect()
        };
        let row = |file: &str, value: &str, kept: &str| (file.to_owned(), value.to_owned(), kept.to_owned());
        assert_eq!(names(&QueueOptions::of_device(true)), []);
        let mut options = QueueOptions {
            dirty_limit: Some(ByteSize::from_bytes(8 << 20)),
            writeback_throttling: Some(Duration::from_ns(1)),
            ..QueueOptions::default()
        };
        let mut expected = [
            row("bdi/strict_limit", "1", "bdi/strict_limit"),
            row("bdi/max_bytes", "8388608", "bdi/max_ratio"),
            row("queue/wbt_lat_usec", "1", "queue/wbt_lat_usec"),
        ];
        assert_eq!(names(&options), expected);
        fs::create_dir(folder.path().join("bdi")).unwrap();
        fs::write(folder.path().join("bdi/max_ratio_fine"), "1000000").unwrap();
        options.writeback_throttling = Some(Duration::ZERO);
        expected[1].2 = "bdi/max_ratio_fine".to_owned();
        expected[2].1 = "0".to_owned();
        assert_eq!(names(&options), expected);
    }
}
