//! One emulator to a file: its advisory lock.
//!
//! # What a killed emulator leaves
//! The lock goes with the last user of the open file. Transfers that were under way when a process was killed are
//! the kernel's to finish, and it does so after the process is gone: for a moment the file is locked and nobody
//! has it. That is told from a file in use by looking for a holder that lives, and waited for.
//!
//! # References
//! `proc_locks(5)`: a lock whose holder is gone is not listed.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::{Access, StoreError};

/// How often it is tried again while the kernel finishes what a killed emulator had under way: for 20 s.
const ATTEMPTS: u32 = 4_000;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock: alone for writing, together with others for reading.
pub(super) fn take(file: &File, path: &Path, access: Access) -> Result<(), StoreError> {
    for _ in 0..ATTEMPTS {
        let taken = match access {
            Access::ReadOnly => file.try_lock_shared(),
            Access::ReadWrite => file.try_lock(),
        };
        match taken {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", path, error)),
            Err(TryLockError::WouldBlock) if is_held(file) => break,
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(PAUSE),
        }
    }
    Err(StoreError::Locked { path: path.to_owned() })
}

/// Whether a process that lives has the file locked; where that cannot be known, it does.
fn is_held(file: &File) -> bool {
    (|| -> io::Result<bool> {
        let number = file.metadata()?.ino().to_string();
        let locks = fs::read_to_string("/proc/locks")?;
        Ok(locks.lines().filter_map(|line| holder_of(line, &number)).any(lives))
    })()
    .unwrap_or(true)
}

/// The process that a line of `/proc/locks` names, if it is about the file of that number.
///
/// Device numbers are left aside: file systems with subvolumes show another one there.
fn holder_of<'a>(line: &'a str, number: &str) -> Option<&'a str> {
    let mut fields = line.split_whitespace().skip_while(|field| *field != "FLOCK");
    let holder = fields.nth(3)?;
    let file = fields.next()?;
    (file.rsplit(':').next() == Some(number)).then_some(holder)
}

/// Whether a process is there, and not only waits for its parent to ask how it ended.
fn lives(process: &str) -> bool {
    let Ok(about) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    let state = about.rsplit(')').next().unwrap_or_default().trim_start();
    !state.starts_with(['Z', 'X'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_holder_found_in_the_list_of_the_kernel() {
        let line = "3: FLOCK  ADVISORY  WRITE 25561 fe:01:1318731 0 EOF";
        assert_eq!(holder_of(line, "1318731"), Some("25561"));
        assert_eq!(holder_of(line, "131873"), None);
        let waits = "3: -> FLOCK  ADVISORY  WRITE 25562 fe:01:1318731 0 EOF";
        assert_eq!(holder_of(waits, "1318731"), Some("25562"));
        assert_eq!(holder_of("1: POSIX  ADVISORY  READ 9 fe:01:1318731 4 4", "1318731"), None);
        assert_eq!(holder_of("", "1"), None);
    }

    #[test]
    fn does_a_lock_without_a_living_holder_only_delay() {
        assert!(lives(&std::process::id().to_string()));
        assert!(!lives("4194305"), "beyond the largest number of a process");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        assert!(!is_held(&file), "nobody has locked it");
        file.lock().unwrap();
        assert!(is_held(&File::open(&path).unwrap()));
    }
}
