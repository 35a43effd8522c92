//! The directory on which the device is mounted.
//!
//! In the private mount namespace a small tmpfs covers a directory that exists and is empty, so that no
//! directory has to be made and possibly left behind, and no files that a command may need are hidden.

use std::fs;
use std::path::Path;

/// Directories that are empty on most systems, the most expected first; the last exists wherever FUSE does.
const CANDIDATES: [&str; 7] =
    ["/mnt", "/media", "/srv", "/opt", "/var/empty", "/var/opt", "/sys/fs/fuse/connections"];

/// The directory under the tmpfs that the device is mounted on.
pub(crate) const NAME: &str = "seeklab";

/// A directory that can be covered.
pub(crate) fn find() -> Option<&'static Path> {
    CANDIDATES.into_iter().map(Path::new).find(|path| is_empty(path))
}

fn is_empty(path: &Path) -> bool {
    let real = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    real && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// All of them, for the message that there is none.
pub(crate) fn candidates() -> impl Iterator<Item = &'static str> {
    CANDIDATES.into_iter()
}
