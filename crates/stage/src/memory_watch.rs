//! Memory of a group that is not page cache, while commands run.
//!
//! The page cache has what the limit leaves. So samples count that were taken while the limit was nearly reached; if there are none,
//! all of them count.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(20);
/// Share of the limit from which on it counts as reached, in tenths.
const NEARLY: u64 = 9;

/// Files with the figures of a group, and the limit.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// Memory in use, in bytes.
    pub(crate) usage: PathBuf,
    /// Division of the memory.
    pub(crate) stat: PathBuf,
    /// Beginning of the line with the page cache.
    pub(crate) cache: &'static str,
    pub(crate) limit_bytes: u64,
}

/// A sampler of the memory of a group. It ends when it is dropped.
#[derive(Debug)]
pub struct MemoryWatch {
    limit_bytes: u64,
    end: Sender<()>,
    thread: JoinHandle<Samples>,
}

/// Memory of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Limit of the group.
    pub limit_bytes: u64,
    /// Mean memory that processes and the kernel used, without the page cache. `None` if nothing was measured.
    pub used_bytes: Option<u64>,
}

impl MemoryWatch {
    pub(crate) fn start(files: Files) -> std::io::Result<Self> {
        let (end, ended) = channel();
        let limit_bytes = files.limit_bytes;
        let thread = thread::Builder::new().name("memory".to_owned()).spawn(move || {
            let mut samples = Samples::default();
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Some((usage, cache)) = read(&files) {
                    samples.add(usage, cache, files.limit_bytes);
                }
            }
            samples
        })?;
        Ok(Self { limit_bytes, end, thread })
    }

    /// The limit of the group, in bytes.
    pub const fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Ends the sampler and returns what it found.
    pub fn finish(self) -> MemoryUse {
        let Self { limit_bytes, end, thread } = self;
        drop(end);
        let used_bytes = thread.join().ok().and_then(|samples| samples.mean());
        MemoryUse { limit_bytes, used_bytes }
    }
}

/// Sums of samples: all, and those near the limit.
#[derive(Debug, Default)]
struct Samples {
    all: (u64, u64),
    near: (u64, u64),
}

impl Samples {
    fn add(&mut self, usage: u64, cache: u64, limit: u64) {
        let used = usage.saturating_sub(cache);
        let add = |(sum, count): (u64, u64)| (sum.saturating_add(used), count + 1);
        self.all = add(self.all);
        if usage >= limit / 10 * NEARLY {
            self.near = add(self.near);
        }
    }

    fn mean(&self) -> Option<u64> {
        let (sum, count) = if self.near.1 > 0 { self.near } else { self.all };
        sum.checked_div(count)
    }
}

/// Memory in use, and the part of it that is page cache.
fn read(files: &Files) -> Option<(u64, u64)> {
    let text = |path: &Path| std::fs::read_to_string(path).ok();
    let usage = text(&files.usage)?.trim().parse().ok()?;
    Some((usage, cache(&text(&files.stat)?, files.cache)?))
}

/// The number in the line of a name.
fn cache(stat: &str, name: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_near_the_limit_count_alone() {
        let mut samples = Samples::default();
        samples.add(1000, 0, 10_000);
        assert_eq!(samples.mean(), Some(1000));
        samples.add(9000, 7000, 10_000);
        samples.add(10_000, 6000, 10_000);
        assert_eq!(samples.mean(), Some(3000));
        assert_eq!(Samples::default().mean(), None);
    }

    #[test]
    fn page_cache_is_the_line_of_its_name() {
        assert_eq!(cache("anon 5\nfile 4096\nfile_mapped 7\n", "file"), Some(4096));
        assert_eq!(cache("cache 12288\nrss 4\n", "cache"), Some(12_288));
        assert_eq!(cache("", "cache"), None);
    }

    #[test]
    fn sampler_reads_the_files_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let (usage, stat) = (folder.path().join("usage"), folder.path().join("stat"));
        std::fs::write(&usage, "8192\n").unwrap();
        std::fs::write(&stat, "cache 4096\n").unwrap();
        let files = Files { usage, stat, cache: "cache", limit_bytes: 65_536 };
        assert_eq!(read(&files), Some((8192, 4096)));
        let watch = MemoryWatch::start(files).unwrap();
        let found = watch.finish();
        assert_eq!(found.limit_bytes, 65_536);
        assert!([None, Some(4096)].contains(&found.used_bytes), "before the first sample, or after it");
    }
}
