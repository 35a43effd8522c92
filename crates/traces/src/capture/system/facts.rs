//! State and settings of the host at the beginning of a trace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::journal::JournalPlace;
use crate::capture::device::{Target, processors};
use crate::capture::error::CaptureError;
use crate::system::table::process_name;
use crate::system::{InitialThread, Role};

/// Settings of the virtual memory that the trace records.
const MEMORY_SETTINGS: [&str; 9] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "laptop_mode",
    "swappiness",
    "vfs_cache_pressure",
];

/// Settings of the request queue that the trace records.
const QUEUE_SETTINGS: [&str; 14] = [
    "discard_max_bytes",
    "fua",
    "logical_block_size",
    "max_sectors_kb",
    "max_segments",
    "nomerges",
    "nr_requests",
    "physical_block_size",
    "read_ahead_kb",
    "rotational",
    "rq_affinity",
    "scheduler",
    "wbt_lat_usec",
    "write_cache",
];

/// Limits of the dirty data of the device that the trace records.
const DEVICE_LIMITS: [&str; 3] = ["max_bytes", "max_ratio", "strict_limit"];

/// Figures of `/proc/meminfo` that the trace records.
const MEMORY_FIGURES: [&str; 8] =
    ["MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "Dirty", "Writeback"];

/// Flag of `/proc/PID/stat` of a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Place at which a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mount {
    /// Folder at which it is mounted.
    pub point: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// Options of the mount and the file system.
    pub options: String,
    /// Device of the file system: the major number above 20 bits of minor.
    pub device: u32,
}

impl Mount {
    /// Path of the mount point for this process, if the table `mounts` is that of another process.
    pub(super) fn reachable(&self, mounts: Option<&Path>) -> PathBuf {
        match mounts.and_then(Path::parent) {
            Some(process) => process.join("root").join(self.point.strip_prefix("/").unwrap_or(&self.point)),
            None => self.point.clone(),
        }
    }
}

/// State and settings of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFacts {
    /// Release of the kernel.
    pub kernel: String,
    /// Architecture of the processors.
    pub machine: String,
    /// Processors that are online.
    pub cpus: Vec<u16>,
    /// Figures of the memory in bytes, by the names of `/proc/meminfo`.
    pub memory_bytes: BTreeMap<String, u64>,
    /// Settings by name: `vm.` for the virtual memory, `queue.` for the request queue, `bdi.` for the dirty data of the device.
    pub settings: BTreeMap<String, String>,
    /// The traced file system.
    pub mount: Mount,
    /// Journal of the file system, if it has one whose place is known.
    #[serde(default)]
    pub journal: Option<JournalPlace>,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// Bytes of a logical block of the device.
    pub block_bytes: u64,
}

fn line(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

impl HostFacts {
    /// Collects the state and settings of this host and the device, which is mounted according to the table `mounts`.
    ///
    /// # Errors
    /// If the device has no mounted file system of the ext4 driver.
    pub(super) fn collect(device: &Path, mounts: &Path) -> Result<Self, CaptureError> {
        let target = Target::of(device)?;
        let failed = |source| CaptureError::Device { path: device.to_owned(), source };
        let metadata = fs::metadata(device).map_err(failed)?;
        let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let table = fs::read_to_string(mounts).map_err(failed)?;
        let mount = find_mount(&table, major, minor)
            .ok_or_else(|| CaptureError::NotMounted { path: device.to_owned() })?;
        let described = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let described = described.canonicalize().map_err(failed)?;
        let name = described.file_name().unwrap_or_default();
        // The driver has a folder for each of its file systems, whatever their type is called.
        if !Path::new("/sys/fs/ext4").join(name).is_dir() {
            return Err(CaptureError::FileSystem { path: device.to_owned(), kind: mount.kind });
        }
        let whole = match described.join("partition").exists() {
            true => described.parent().expect("a partition is within its device").to_owned(),
            false => described.clone(),
        };
        let settings =
            MEMORY_SETTINGS.iter().map(|name| (format!("vm.{name}"), format!("/proc/sys/vm/{name}")));
        let queue = whole.join("queue");
        let settings = settings.chain(
            QUEUE_SETTINGS
                .iter()
                .map(|name| (format!("queue.{name}"), format!("{}/{name}", queue.display()))),
        );
        let limits = Path::new("/sys/class/bdi").join(line(whole.join("dev")).unwrap_or_default());
        let settings = settings.chain(
            DEVICE_LIMITS.iter().map(|name| (format!("bdi.{name}"), limits.join(name).display().to_string())),
        );
        let mut settings: BTreeMap<String, String> =
            settings.filter_map(|(name, path)| Some((name, line(path)?))).collect();
        // Where debugfs is mounted.
        let figures = format!("/sys/kernel/debug/bdi/{}/stats", line(whole.join("dev")).unwrap_or_default());
        let bandwidth = fs::read_to_string(figures).ok().and_then(|text| write_bandwidth(&text));
        settings.extend(bandwidth.map(|kilobytes| ("bdi.write_bandwidth_kbps".to_owned(), kilobytes)));
        Ok(Self {
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            machine: std::env::consts::ARCH.to_owned(),
            cpus: processors()?.into_iter().filter_map(|cpu| u16::try_from(cpu).ok()).collect(),
            memory_bytes: memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
            settings,
            mount,
            journal: JournalPlace::of_device(device),
            device_bytes: target.size_bytes,
            block_bytes: target.block_bytes,
        })
    }
}

/// Figures of `/proc/meminfo`: lines such as `MemTotal:  24684084 kB`.
fn memory(text: &str) -> BTreeMap<String, u64> {
    let figure = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        MEMORY_FIGURES.contains(&name).then(|| (name.to_owned(), kibibytes * 1024))
    };
    text.lines().filter_map(figure).collect()
}

/// Bandwidth that the kernel takes a device to have, in KiB/s: `BdiWriteBandwidth:   560 kBps` of the figures of its dirty data.
fn write_bandwidth(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("BdiWriteBandwidth:"))?;
    let kilobytes = line.trim().strip_suffix("kBps")?.trim();
    kilobytes.parse::<u64>().ok().map(|number| number.to_string())
}

/// Time that the hypervisor has given to others since the start of the machine, summed over the processors. `None` if the kernel does not
/// tell it.
pub(super) fn stolen_ns() -> Option<u64> {
    stolen(&fs::read_to_string("/proc/stat").ok()?)
}

/// The eighth figure of `cpu  10132153 290696 3084719 46828483 16683 0 25195 175628 0 0`, in hundredths of a second.
fn stolen(text: &str) -> Option<u64> {
    let figure = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?;
    figure.parse::<u64>().ok()?.checked_mul(10_000_000)
}

/// Finds the device in `/proc/self/mountinfo`: `36 35 98:0 /root /point options … - type source options`.
fn find_mount(table: &str, major: u32, minor: u32) -> Option<Mount> {
    table.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let file_system: Vec<&str> = file_system.split(' ').collect();
        (mount.get(2)? == &format!("{major}:{minor}")).then_some(())?;
        Some(Mount {
            point: PathBuf::from(unescape(mount.get(4)?)),
            kind: (*file_system.first()?).to_owned(),
            options: format!("{},{}", mount.get(5)?, file_system.get(2)?),
            device: major << 20 | minor,
        })
    })
}

/// Undoes the kernel's escapes of blanks: `\040`.
fn unescape(text: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Threads that have another role than their processes alone would give them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownThreads {
    /// Threads of this process that emulate a device.
    pub emulators: Vec<u32>,
    /// Processes that belong to the recorder, besides this one.
    pub recorders: Vec<u32>,
}

impl KnownThreads {
    fn role(&self, thread: u32, process: u32) -> Role {
        if self.emulators.contains(&thread) {
            return Role::Emulator;
        }
        let is_recorder = process == std::process::id() || self.recorders.contains(&process);
        if is_recorder { Role::Recorder } else { Role::Other }
    }
}

/// All threads of the host.
pub(super) fn threads(known: &KnownThreads) -> Vec<InitialThread> {
    let mut threads = Vec::new();
    let numbers = |path: &Path| -> Vec<u32> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    for process in numbers(Path::new("/proc")) {
        let folder = PathBuf::from(format!("/proc/{process}/task"));
        for thread in numbers(&folder) {
            let stat = line(folder.join(thread.to_string()).join("stat"));
            threads.extend(stat.and_then(|stat| initial(thread, process, &stat, known)));
        }
    }
    threads
}

/// A thread by its `stat` file: `10 (name) S parent … flags …`; the name may contain anything.
fn initial(thread: u32, process: u32, stat: &str, known: &KnownThreads) -> Option<InitialThread> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let role = match flags {
        flags if flags & KERNEL_THREAD != 0 => Role::Kernel,
        _ => known.role(thread, process),
    };
    Some(InitialThread {
        thread,
        process,
        parent: fields.get(1)?.parse().ok()?,
        name: process_name(name),
        role,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_of_a_device_is_found() {
        let table = "25 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                     90 25 7:0 / /mnt/a\\040b rw,noatime shared:1 - ext2 /dev/loop0 rw,errors=continue\n";
        let mount = find_mount(table, 7, 0).unwrap();
        assert_eq!((mount.point, mount.kind.as_str()), (PathBuf::from("/mnt/a b"), "ext2"));
        assert_eq!((mount.options.as_str(), mount.device), ("rw,noatime,rw,errors=continue", 7 << 20));
        assert_eq!(find_mount(table, 7, 1), None);
        assert_eq!(find_mount("broken\n - \n", 7, 1), None);
    }

    #[test]
    fn threads_of_the_kernel_are_known_by_their_flags() {
        let none = KnownThreads::default();
        let thread = |stat| initial(4663, 4663, stat, &none).unwrap();
        let kernel = thread("4663 (kworker/u8:4) I 2 0 0 0 -1 69238880 0 0 0 0");
        assert_eq!((kernel.role, kernel.parent), (Role::Kernel, 2));
        let other = thread("4663 (a) b) S 17 1 1 0 -1 4194304 0 0 0 0");
        assert_eq!((other.role, other.parent, other.name.to_string()), (Role::Other, 17, "a) b".to_owned()));
        assert_eq!(initial(1, 1, "1 (x", &none), None);
        let known = KnownThreads { emulators: vec![7], recorders: vec![4663] };
        let role =
            |number, process| initial(number, process, "7 (a) S 17 1 1 0 -1 4194304 0", &known).unwrap().role;
        assert_eq!(role(4664, 4663), Role::Recorder);
        assert_eq!(role(7, std::process::id()), Role::Emulator);
        assert_eq!(role(8, std::process::id()), Role::Recorder);
        assert_eq!(role(8, 8), Role::Other);
        assert!(threads(&none).iter().any(|thread| thread.role == Role::Recorder));
    }

    #[test]
    fn bandwidth_of_the_device_is_in_kibibytes() {
        let figures = "BdiWritten:        348795104 kB\nBdiWriteBandwidth:        560 kBps\nb_dirty:     0\n";
        assert_eq!(write_bandwidth(figures).as_deref(), Some("560"));
        assert_eq!(write_bandwidth("BdiWriteBandwidth: much kBps\n"), None);
        assert_eq!(write_bandwidth(""), None);
    }

    #[test]
    fn stolen_time_is_in_nanoseconds() {
        let text =
            "cpu  10132153 290696 3084719 46828483 16683 0 25195 175628 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(stolen(text), Some(1_756_280_000_000));
        assert_eq!(stolen("cpu  1 2 3 4\n"), None);
        assert!(stolen_ns().is_some(), "Linux tells it, on any machine");
    }

    #[test]
    fn memory_is_in_bytes() {
        let memory = memory("MemTotal:       24684084 kB\nHugePages_Total:       0\nDirty:  12 kB\n");
        assert_eq!(memory.get("MemTotal"), Some(&(24_684_084 * 1024)));
        assert_eq!(memory.len(), 2);
    }
}
