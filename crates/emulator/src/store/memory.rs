//! Memory: how much of it is there to keep data in.

use std::fs;
use std::path::{Path, PathBuf};

use seeklab_core::units::ByteSize;

/// Available memory that is assumed if the system does not report it.
const AVAILABLE_UNKNOWN: ByteSize = ByteSize::from_bytes(1 << 30);

/// Memory that this process can use before something is killed: what the system has available, or
/// what the control groups around the process still allow, whichever is less.
///
/// File pages that can be reclaimed count as available. Both change as others allocate; this is
/// what is true now.
pub fn available_memory() -> ByteSize {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_available(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let allowed = group_folders(&groups).iter().filter_map(|folder| group_available(folder)).min();
    system.into_iter().chain(allowed).min().map_or(AVAILABLE_UNKNOWN, ByteSize::from_bytes)
}

/// Returns the default memory limit of a store in memory: half of the available memory. The other half is for
/// the client, the page cache and the program under test.
pub fn default_cap() -> ByteSize {
    ByteSize::from_bytes(available_memory().as_bytes() / 2)
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn meminfo_available(text: &str) -> Option<u64> {
    keyed(text, "MemAvailable:").map(|kibibytes| kibibytes.saturating_mul(1024))
}

/// The number behind `key` in a text of one key and number per line.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(key)).then(|| words.next()?.parse().ok())?
    })
}

/// The folders of the memory controller that bind this process, from its own group up to the root,
/// as `/proc/self/cgroup` names them for version 1 and version 2.
///
/// In a container the path may be the host's while the folder mounted is the container's own; then
/// only the root of it exists here, and it is the one that binds.
fn group_folders(text: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let roots: &[&str] = if controllers.is_empty() {
            &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        } else if controllers.split(',').any(|controller| controller == "memory") {
            &["/sys/fs/cgroup/memory"]
        } else {
            continue;
        };
        for root in roots {
            let ancestors = Path::new(path.trim_start_matches('/')).ancestors();
            folders.extend(ancestors.map(|group| Path::new(root).join(group)));
        }
    }
    folders
}

/// Returns the memory that the control group at `folder` still allows, if it has a limit.
fn group_available(folder: &Path) -> Option<u64> {
    let number = |name| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // Version 2 writes "max" where there is no limit, which is no number and so no limit here.
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let usage = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let statistics = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let reclaimable = keyed(&statistics, "total_inactive_file")
        .or_else(|| keyed(&statistics, "inactive_file"))
        .unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:       24684084 kB\nMemFree: 1 kB\nMemAvailable:   22988572 kB\n";
        assert_eq!(meminfo_available(text), Some(22_988_572 * 1024));
        assert_eq!(meminfo_available("MemTotal: 5 kB\n"), None);
        assert!(available_memory().as_bytes() > 0);
    }

    #[test]
    fn all_ancestor_groups_are_considered() {
        let folders = group_folders("4:cpu,memory:/a/b\n3:cpu:/x\n0::/\n");
        let expected = [
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/memory/a",
            "/sys/fs/cgroup/memory/",
            "/sys/fs/cgroup/",
            "/sys/fs/cgroup/unified/",
        ];
        assert_eq!(folders, expected.map(PathBuf::from));
    }

    #[test]
    fn control_group_limits_available_memory() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name, text| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(group_available(folder.path()), None);
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        assert_eq!(group_available(folder.path()), None);
        write("memory.max", "1000\n");
        assert_eq!(group_available(folder.path()), Some(300));
        write("memory.stat", "anon 500\ninactive_file 200\n");
        assert_eq!(group_available(folder.path()), Some(500));
        write("memory.current", "5000\n");
        assert_eq!(group_available(folder.path()), Some(0));
    }
}
