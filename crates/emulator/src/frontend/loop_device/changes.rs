//! Settings of a block device that outlive it: changed, noted, and restored.
//!
//! ```text
//! change:   lock ─▶ restore what ended processes left ─▶ note former values ─▶ write new values
//! restore:  lock ─▶ write former values ─▶ remove the note          (drop, or the next change of any process)
//! ```
//! The kernel keeps the disk of `/dev/loopN`, with its write limit and throttling, for the next user of the number. So a
//! file in `/run/seeklab` notes the former values, and is locked for as long as its process lives. If the process is
//! killed, the next one that changes a setting finds the note without a lock, and restores the values.
//!
//! # Scope and limits
//! After SIGKILL, values stay changed until seeklab changes such a setting again, or until the next boot.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};

/// Folder of the notes. It is gone after a boot, as the settings are.
const NOTES: &str = "/run/seeklab";

/// Notes that this process has made.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A setting to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// File to write to.
    pub(super) file: PathBuf,
    /// Value to write.
    pub(super) value: String,
    /// File of which the former value is kept: the same one, or a finer one of the same setting.
    pub(super) kept: PathBuf,
}

/// Changed settings. Dropping it restores the former values.
#[derive(Debug)]
pub(super) struct Changes {
    folder: PathBuf,
    note: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

impl Changes {
    /// Makes `changes`, in order. If one is refused, all are restored. To be called on a thread that shares its
    /// descriptors with the thread that drops the result.
    ///
    /// # Errors
    /// A value that the kernel refuses, and notes that cannot be written.
    pub(super) fn make(changes: &[Change]) -> io::Result<Option<Self>> {
        let folder = Path::new(NOTES);
        if changes.is_empty() {
            // No folder: nothing is left.
            if let Ok(_held) = lock(folder) {
                restore_orphans(folder);
            }
            return Ok(None);
        }
        Self::make_in(folder, changes).map(Some)
    }

    fn make_in(folder: &Path, changes: &[Change]) -> io::Result<Self> {
        fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
        let held = lock(folder)?;
        restore_orphans(folder);
        let mut text = String::new();
        for Change { kept, .. } in changes {
            let former = fs::read_to_string(kept).map_err(|error| at(kept, &error))?;
            text += &format!("{} {}\n", former.trim(), kept.display());
        }
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let note = folder.join(name);
        let mut file = File::create(&note).map_err(|error| at(&note, &error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)?;
        file.write_all(text.as_bytes()).map_err(|error| at(&note, &error))?;
        let this = Self { folder: folder.to_owned(), note, _lock: file };
        let refused = changes.iter().find_map(|Change { file, value, .. }| {
            let error = fs::write(file, value).err()?;
            let what = format!("{}: {value} was refused: {error}", file.display());
            Some(io::Error::new(error.kind(), what))
        });
        drop(held);
        // If it is refused, the drop of `this` restores what was changed before.
        refused.map_or(Ok(this), Err)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        // Without the lock, the values are restored all the same: leaving them would be worse.
        let _held = lock(&self.folder);
        restore(&self.note);
    }
}

/// Restores what ended processes have left changed.
fn restore_orphans(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(file) = File::open(entry.path()) else { continue };
        let is_note = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_note && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            restore(&entry.path());
        }
    }
}

/// Writes the values of a note, the last one first, and removes it. A note stays if a value is refused: another process
/// may be allowed to write it.
fn restore(note: &Path) {
    let Ok(text) = fs::read_to_string(note) else { return };
    let mut is_restored = true;
    for (value, file) in text.lines().rev().filter_map(|line| line.split_once(' ')) {
        // Nothing is made in the place of a device that is gone, and its settings with it.
        let opened = File::options().write(true).truncate(true).open(file);
        let written = opened.and_then(|mut file| file.write_all(value.as_bytes()));
        is_restored &= written.is_ok() || !Path::new(file).exists();
    }
    if is_restored {
        let _ = fs::remove_file(note);
    }
}

/// Locks the folder of the notes against other processes.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder).map_err(|error| at(folder, &error))?;
    flock(&file, FlockOperation::LockExclusive).map_err(io::Error::from)?;
    Ok(file)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of notes, and files that stand for settings.
    struct Host {
        folder: tempfile::TempDir,
    }

    impl Host {
        fn new(settings: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (name, value) in settings {
                fs::write(folder.path().join(name), value).unwrap();
            }
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn value(&self, name: &str) -> String {
            fs::read_to_string(self.path(name)).unwrap()
        }

        fn change(&self, name: &str, value: &str, kept: &str) -> Change {
            Change { file: self.path(name), value: value.to_owned(), kept: self.path(kept) }
        }

        fn notes(&self) -> usize {
            fs::read_dir(self.path("notes")).map_or(0, Iterator::count)
        }
    }

    #[test]
    fn former_values_are_restored() {
        let host = Host::new(&[("strict", "0\n"), ("bytes", "900\n"), ("fine", "1000000\n")]);
        let changes = [host.change("strict", "1", "strict"), host.change("bytes", "8", "fine")];
        let made = Changes::make_in(&host.path("notes"), &changes).unwrap();
        assert_eq!((host.value("strict").as_str(), host.value("bytes").as_str()), ("1", "8"));
        assert_eq!(host.notes(), 1);
        fs::write(host.path("fine"), "17").unwrap();
        drop(made);
        assert_eq!((host.value("strict").as_str(), host.value("fine").as_str()), ("0", "1000000"));
        assert_eq!(host.notes(), 0);
    }

    #[test]
    fn refused_value_restores_the_others() {
        let host = Host::new(&[("strict", "0"), ("fine", "5")]);
        let mut changes = vec![host.change("strict", "1", "strict"), host.change("fine", "6", "fine")];
        changes[1].file = host.path("no/such/setting");
        let error = Changes::make_in(&host.path("notes"), &changes).unwrap_err();
        assert!(error.to_string().contains("no/such/setting: 6 was refused: "), "{error}");
        assert_eq!((host.value("strict").as_str(), host.notes()), ("0", 0));
    }

    #[test]
    fn values_of_an_ended_process_are_restored_by_the_next_change() {
        let host = Host::new(&[("strict", "0"), ("wbt", "2000")]);
        let notes = host.path("notes");
        let living = Changes::make_in(&notes, &[host.change("wbt", "0", "wbt")]).unwrap();
        let text = format!("0 {}\nno line of a note\n", host.path("strict").display());
        fs::write(notes.join("4194304-0"), text).unwrap();
        // A value that cannot be written: the setting is a folder.
        let refused = notes.join("4194304-1");
        fs::create_dir(host.path("folder")).unwrap();
        fs::write(&refused, format!("1 {}\n", host.path("folder").display())).unwrap();
        fs::write(host.path("strict"), "1").unwrap();
        let next = Changes::make_in(&notes, &[]).unwrap();
        assert_eq!(host.value("strict"), "0");
        assert_eq!(host.value("wbt"), "0", "its process lives");
        assert_eq!(host.notes(), 3);
        assert!(refused.exists(), "another process may write it");
        fs::remove_file(refused).unwrap();
        drop((living, next));
        assert_eq!((host.value("wbt").as_str(), host.notes()), ("2000", 0));
    }
}
