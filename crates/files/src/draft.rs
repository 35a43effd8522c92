//! A draft: a file that takes its name only when it is complete.
//!
//! Where the file system allows it the draft has no name at all, so that it vanishes with the
//! process however that ends; elsewhere it has a hidden one, removed when the draft is dropped.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};

use crate::target::folder_of;

/// A file being written, to become the one at `target`.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    target: PathBuf,
    hidden: Option<PathBuf>,
}

impl Draft {
    /// An empty draft in the folder of `target`.
    pub(crate) fn new(target: &Path) -> io::Result<Self> {
        let permissions = Mode::from_raw_mode(0o666);
        let anonymous = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match open(folder_of(target), anonymous, permissions) {
            Ok(file) => Ok(Self { file: file.into(), target: target.to_owned(), hidden: None }),
            // Not known to this file system or kernel; if the reason is another, this says it.
            Err(_) => Self::with_name(target),
        }
    }

    fn with_name(target: &Path) -> io::Result<Self> {
        let name = hidden_name(target);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&name)?;
        Ok(Self { file, target: target.to_owned(), hidden: Some(name) })
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// Gives the draft its name, in place of the file that had it, whose permissions it keeps.
    pub(crate) fn publish(mut self) -> io::Result<()> {
        self.take_name()
    }

    /// As [`publish`](Self::publish), with contents and name on the medium before it returns.
    pub(crate) fn publish_durably(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.take_name()?;
        File::open(folder_of(&self.target))?.sync_all()
    }

    fn take_name(&mut self) -> io::Result<()> {
        if let Ok(replaced) = fs::metadata(&self.target) {
            self.file.set_permissions(replaced.permissions())?;
        }
        if self.hidden.is_none() {
            // A name cannot be taken over by linking, only by renaming.
            let name = hidden_name(&self.target);
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, own, CWD, &name, AtFlags::SYMLINK_FOLLOW)?;
            self.hidden = Some(name);
        }
        let name = self.hidden.as_ref().expect("has a name by now");
        fs::rename(name, &self.target)?;
        self.hidden = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.hidden {
            // Nobody is left to tell if this fails, and the target is untouched either way.
            let _ = fs::remove_file(name);
        }
    }
}

/// A name beside `target` that no other draft has.
fn hidden_name(target: &Path) -> PathBuf {
    static DRAFT_COUNT: AtomicU64 = AtomicU64::new(0);
    let number = DRAFT_COUNT.fetch_add(1, Ordering::Relaxed);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    folder_of(target).join(format!(".{name}.{}-{number}.part", process::id()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn check(draft: fn(&Path) -> io::Result<Draft>) {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("image");
        fs::write(&target, "old").unwrap();
        let abandoned = draft(&target).unwrap();
        abandoned.file().write_all(b"half").unwrap();
        drop(abandoned);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        let complete = draft(&target).unwrap();
        complete.file().write_all(b"new").unwrap();
        complete.publish_durably().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(names_in(folder.path()), ["image"]);
    }

    #[test]
    fn draft_replaces_only_when_published() {
        check(Draft::new);
        check(Draft::with_name);
    }
}
