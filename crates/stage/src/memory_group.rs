//! A memory cgroup that commands run in: limits their memory, with the page cache that they fill.
//!
//! ```text
//! create: remove the groups of ended callers ─▶ mkdir seeklab-PID-N ─▶ lock ─▶ limits
//! use:    the process of a command enters between fork and exec
//! drop:   rmdir, once its last process has ended
//! ```
//! A group is locked for as long as its caller lives. If the caller is killed, its group has no processes (the stage
//! dies with it), and the next group that is created removes it.
//!
//! # Scope and limits
//! - Version 1, if the machine has the memory controller there; otherwise version 2, in the nearest group above this
//!   process whose children have the memory controller.
//! - Version 1 does not throttle writers by the limit of their group: they wait when memory is reclaimed.
//! - The limit holds for memory and swap together, where the kernel accounts for swap.
//!
//! # References
//! Linux: Documentation/admin-guide/cgroup-v1/memory.rst, Documentation/admin-guide/cgroup-v2.rst.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use schemars::JsonSchema;
use seeklab_core::ByteSize;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Missing};
use crate::memory_watch::{Files, MemoryWatch};

/// Beginning of the names of groups.
const PREFIX: &str = "seeklab-";

/// Number of attempts to remove a group: the kernel may take a moment to let go of its last process.
const REMOVALS_MAX: usize = 500;

/// Groups that this process has made.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Memory of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFigures {
    /// Limit, as the kernel has it.
    pub limit_bytes: u64,
    /// The most memory that was in use, with the page cache. `None` if the kernel does not record it.
    pub peak_bytes: Option<u64>,
    /// Processes that the kernel killed because the limit was reached.
    pub oom_kills: u64,
}

/// A hierarchy of cgroups with the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    /// Folder in which groups are made.
    parent: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn limit(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }

    const fn peak(self) -> &'static str {
        match self {
            Self::One => "memory.max_usage_in_bytes",
            Self::Two => "memory.peak",
        }
    }

    /// Files of the memory in use and of its division, and the name of the page cache there.
    const fn usage(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::One => ("memory.usage_in_bytes", "memory.stat", "cache"),
            Self::Two => ("memory.current", "memory.stat", "file"),
        }
    }

    const fn events(self) -> &'static str {
        match self {
            Self::One => "memory.oom_control",
            Self::Two => "memory.events",
        }
    }

    /// The limit that keeps commands from evading into swap, and its value.
    fn swap(self, limit: ByteSize) -> (&'static str, u64) {
        match self {
            Self::One => ("memory.memsw.limit_in_bytes", limit.as_bytes()),
            Self::Two => ("memory.swap.max", 0),
        }
    }
}

/// A memory cgroup. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
    version: Version,
    /// Locked until it is closed.
    _lock: File,
}

impl MemoryGroup {
    /// Makes a group with a limit.
    pub(crate) fn create(limit: ByteSize) -> Result<Self, Error> {
        let hierarchy = Hierarchy::find().map_err(|missing| Error::Inside {
            what: format!("--memory {limit}: {}", missing.what),
            hint: Some(missing.remedy),
        })?;
        hierarchy.create(limit).map_err(|source| Error::Memory { limit, source })
    }

    /// Returns what is missing for groups with limits.
    pub(crate) fn missing(limit: ByteSize) -> Option<Missing> {
        let missing = Hierarchy::find().err()?;
        Some(Missing::new(format!("--memory {limit}: {}", missing.what), missing.remedy))
    }

    /// Returns the file through which a process enters.
    pub(crate) fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Begins to sample its memory.
    pub(crate) fn watch(&self) -> io::Result<MemoryWatch> {
        let (usage, stat, cache) = self.version.usage();
        let limit_bytes = self.figures()?.limit_bytes;
        let files =
            Files { usage: self.folder.join(usage), stat: self.folder.join(stat), cache, limit_bytes };
        MemoryWatch::start(files)
    }

    /// Returns its figures up to now.
    pub(crate) fn figures(&self) -> io::Result<MemoryFigures> {
        let read = |name: &str| fs::read_to_string(self.folder.join(name));
        let limit = read(self.version.limit())?;
        Ok(MemoryFigures {
            limit_bytes: limit.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?,
            peak_bytes: read(self.version.peak()).ok().and_then(|peak| peak.trim().parse().ok()),
            oom_kills: read(self.version.events()).map_or(0, |events| oom_kills(&events)),
        })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 2_000_000 }));
                }
                _ => break,
            }
        }
    }
}

/// The number in the line `oom_kill N`.
fn oom_kills(events: &str) -> u64 {
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

impl Hierarchy {
    fn find() -> Result<Self, Missing> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::of(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), &|path| {
            fs::read_to_string(path).unwrap_or_default()
        })
    }

    /// The hierarchy by the mount table, the groups of this process, and the files of the groups.
    fn of(mounts: &str, groups: &str, read: &dyn Fn(&Path) -> String) -> Result<Self, Missing> {
        let has =
            |list: &str, name: &str, separator: char| list.trim().split(separator).any(|one| one == name);
        let group = |matches: &dyn Fn(&str) -> bool| {
            groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let controllers = parts.next()?;
                let path = parts.next()?;
                matches(controllers).then(|| path.to_owned())
            })
        };
        let mut unified = None;
        for line in mounts.lines() {
            let Some((mount, file_system)) = line.split_once(" - ") else { continue };
            let mount: Vec<&str> = mount.split(' ').collect();
            let file_system: Vec<&str> = file_system.split(' ').collect();
            let (Some(root), Some(point)) = (mount.get(3), mount.get(4)) else { continue };
            match (file_system.first(), file_system.get(2)) {
                (Some(&"cgroup"), Some(options)) if has(options, "memory", ',') => {
                    let path = group(&|controllers| has(controllers, "memory", ','));
                    let parent = own_folder(root, point, path.as_deref());
                    return Ok(Self { version: Version::One, parent });
                }
                (Some(&"cgroup2"), _) => unified = Some((*root, *point)),
                _ => {}
            }
        }
        let none = |what: &str| {
            let remedy = "leave out --memory, or use a kernel with CONFIG_MEMCG whose memory controller is mounted; in a \
                          container, give it a cgroup of its own with the memory controller";
            Err(Missing::new(what, remedy))
        };
        let Some((root, point)) = unified else {
            return none("no cgroups are mounted that limit memory");
        };
        let own = own_folder(root, point, group(&str::is_empty).as_deref());
        for folder in own.ancestors().take_while(|folder| folder.starts_with(point)) {
            if has(&read(&folder.join("cgroup.subtree_control")), "memory", ' ') {
                return Ok(Self { version: Version::Two, parent: folder.to_owned() });
            }
        }
        if has(&read(&Path::new(point).join("cgroup.controllers")), "memory", ' ') {
            return none("no group above this process gives its children the memory controller");
        }
        none("no cgroups are mounted that limit memory")
    }

    fn create(&self, limit: ByteSize) -> io::Result<MemoryGroup> {
        self.remove_orphans();
        let folder = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = self.parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match fs::create_dir(&folder) {
                // Of another process that had the same number, and is not ours to use.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => break made.map(|()| folder)?,
            }
        };
        let lock = File::open(&folder).and_then(|lock| {
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            Ok(lock)
        });
        let lock = lock.inspect_err(|_| drop(fs::remove_dir(&folder)))?;
        // From here on, it goes when `group` does.
        let group = MemoryGroup { folder, version: self.version, _lock: lock };
        fs::write(group.folder.join(self.version.limit()), limit.as_bytes().to_string())?;
        let (swap, value) = self.version.swap(limit);
        let swap = group.folder.join(swap);
        if swap.exists() {
            fs::write(swap, value.to_string())?;
        }
        Ok(group)
    }

    /// Removes the groups of ended callers.
    fn remove_orphans(&self) {
        for entry in fs::read_dir(&self.parent).into_iter().flatten().flatten() {
            if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let Ok(folder) = File::open(entry.path()) else { continue };
            if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // Refused while a process is in it.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// Folder of the group of this process: its path, from where the hierarchy is mounted.
fn own_folder(root: &str, point: &str, path: Option<&str>) -> PathBuf {
    let path = Path::new(path.unwrap_or("/"));
    let within = path.strip_prefix(root).unwrap_or(Path::new(""));
    // A group above the root of a cgroup namespace shows as `/../`.
    let is_plain = within.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let within = if is_plain { within } else { Path::new("") };
    Path::new(point).components().chain(within.components()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        31 23 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const UNIFIED: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn find(mounts: &str, groups: &str, files: &[(&str, &str)]) -> Result<(Version, String), String> {
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map_or_else(String::new, |(_, text)| format!("{text}\n"))
        };
        match Hierarchy::of(mounts, groups, &read) {
            Ok(hierarchy) => Ok((hierarchy.version, hierarchy.parent.display().to_string())),
            Err(missing) => Err(missing.what),
        }
    }

    #[test]
    fn group_is_made_beneath_the_own_one_in_version_1() {
        let folder = |name: &str| Ok((Version::One, format!("/sys/fs/cgroup/memory{name}")));
        assert_eq!(find(HYBRID, "9:name=systemd:/\n4:memory:/a/b\n0::/\n", &[]), folder("/a/b"));
        assert_eq!(find(HYBRID, "4:cpu,memory:/\n0::/x\n", &[]), folder(""));
        let container = HYBRID.replace("0:32 / ", "0:32 /docker/1 ");
        assert_eq!(find(&container, "4:memory:/docker/1/c\n", &[]), folder("/c"));
        assert_eq!(find(&container, "4:memory:/../c\n", &[]), folder(""));
    }

    #[test]
    fn group_is_made_where_children_have_the_controller_in_version_2() {
        let groups = "0::/user.slice/user-0.slice/session.scope\n";
        let folder = |name: &str| Ok((Version::Two, format!("/sys/fs/cgroup{name}")));
        let root = ("/sys/fs/cgroup/cgroup.subtree_control", "cpu memory pids");
        assert_eq!(find(UNIFIED, groups, &[root]), folder(""));
        let slice = ("/sys/fs/cgroup/user.slice/user-0.slice/cgroup.subtree_control", "memory");
        assert_eq!(find(UNIFIED, groups, &[root, slice]), folder("/user.slice/user-0.slice"));
        let controllers = ("/sys/fs/cgroup/cgroup.controllers", "cpu memory");
        let what = find(UNIFIED, groups, &[controllers]).unwrap_err();
        assert_eq!(what, "no group above this process gives its children the memory controller");
        let none = "no cgroups are mounted that limit memory";
        assert_eq!(find(UNIFIED, groups, &[]).unwrap_err(), none);
        assert_eq!(find("", "", &[]).unwrap_err(), none);
        assert_eq!(find("- - -\n - cgroup2\nx", ":::\n:", &[]).unwrap_err(), none);
    }

    #[test]
    fn killed_processes_are_counted() {
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(oom_kills("low 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n"), 1);
        assert_eq!(oom_kills("oom_kill_disable 1\n"), 0);
    }

    #[test]
    fn group_has_its_limits_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        for (version, limit, events) in [
            (Version::One, "memory.limit_in_bytes", "memory.oom_control"),
            (Version::Two, "memory.max", "memory.events"),
        ] {
            let hierarchy = Hierarchy { version, parent: folder.path().to_owned() };
            let group = hierarchy.create(ByteSize::from_bytes(64 << 20)).unwrap();
            assert_eq!(fs::read_to_string(group.folder.join(limit)).unwrap(), "67108864");
            fs::write(group.folder.join(events), "oom_kill 2\n").unwrap();
            let figures = group.figures().unwrap();
            assert_eq!((figures.limit_bytes, figures.peak_bytes, figures.oom_kills), (64 << 20, None, 2));
            // The files of a real group go with it.
            for file in [limit, events] {
                fs::remove_file(group.folder.join(file)).unwrap();
            }
            let other = folder.path().join("seeklab-4194304-0");
            fs::create_dir(&other).unwrap();
            hierarchy.remove_orphans();
            assert!(group.folder.exists() && !other.exists());
            let path = group.folder.clone();
            drop(group);
            assert!(!path.exists());
        }
    }
}
