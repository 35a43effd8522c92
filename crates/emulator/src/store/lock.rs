//! One emulator to a file: its advisory lock.
//!
//! # Locks left by a killed emulator
//! The lock goes with the last user of the open file. Transfers that were under way when a process was killed
//! are finished by the kernel after the process is gone. For that moment the file is locked without a holder.
//! To distinguish this from a file in use, the lock is retried only while no living process holds it.
//!
//! # References
//! `proc_locks(5)`: a lock whose holder is gone is not listed.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::{Access, StoreError};

/// Number of attempts, for 20 s in all, while the kernel finishes the transfers of a killed emulator.
const ATTEMPTS: u32 = 4_000;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock: alone for writing, together with others for reading.
pub(super) fn take(file: &File, path: &Path, access: Access) -> Result<(), StoreError> {
    take_after(file, path, access, || std::thread::park_timeout(PAUSE))
}

/// The same with a pause of its own between two attempts.
fn take_after(file: &File, path: &Path, access: Access, mut pause: impl FnMut()) -> Result<(), StoreError> {
    for _ in 0..ATTEMPTS {
        let taken = match access {
            Access::ReadOnly => file.try_lock_shared(),
            Access::ReadWrite => file.try_lock(),
        };
        match taken {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", path, error)),
            Err(TryLockError::WouldBlock) if is_held(file) => break,
            Err(TryLockError::WouldBlock) => pause(),
        }
    }
    Err(StoreError::Locked { path: path.to_owned() })
}

/// Returns true if a living process has the file locked, or if this cannot be determined.
fn is_held(file: &File) -> bool {
    (|| -> io::Result<bool> {
        let number = file.metadata()?.ino().to_string();
        Ok(is_held_by_one_of(&fs::read_to_string("/proc/locks")?, &number, lives))
    })()
    .unwrap_or(true)
}

/// Returns true if the kernel's list names a living process as holder of the file with that number.
fn is_held_by_one_of(locks: &str, number: &str, lives: impl Fn(&str) -> bool) -> bool {
    locks.lines().filter_map(|line| holder_of(line, number)).any(lives)
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

/// Returns true if a process exists and is not a zombie.
fn lives(process: &str) -> bool {
    let Ok(about) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    let state = about.rsplit(')').next().unwrap_or_default().trim_start();
    !state.starts_with(['Z', 'X'])
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::AsFd;
    use std::process::{Child, Command, Stdio};

    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn holder_is_found_in_the_list_of_the_kernel() {
        let line = "3: FLOCK  ADVISORY  WRITE 25561 fe:01:1318731 0 EOF";
        assert_eq!(holder_of(line, "1318731"), Some("25561"));
        assert_eq!(holder_of(line, "131873"), None);
        let waits = "3: -> FLOCK  ADVISORY  WRITE 25562 fe:01:1318731 0 EOF";
        assert_eq!(holder_of(waits, "1318731"), Some("25562"));
        assert_eq!(holder_of("1: POSIX  ADVISORY  READ 9 fe:01:1318731 4 4", "1318731"), None);
        assert_eq!(holder_of("", "1"), None);
    }

    #[test]
    fn file_is_held_only_by_living_processes() {
        let locks = "\
            1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n\
            2: FLOCK  ADVISORY  READ 12 fe:00:77 0 EOF\n\
            3: FLOCK  ADVISORY  READ 13 fe:00:77 0 EOF\n\
            3: -> FLOCK  ADVISORY  WRITE 14 fe:00:78 0 EOF\n\
            4: FLOCK  ADVISORY  WRITE 15 fe:00:177 0 EOF\n\
            5: LEASE  ACTIVE    READ 16 fe:00:77 0 EOF\n";
        let held =
            |number, living: &[&str]| is_held_by_one_of(locks, number, |process| living.contains(&process));
        assert!(held("77", &["13"]), "one of two that share it");
        assert!(!held("77", &["11", "14", "15", "16"]), "locks of other kinds and of other files");
        assert!(held("78", &["14"]), "one who waits lives too");
        assert!(!held("77", &[]) && !held("79", &["12", "13"]));
        assert!(!is_held_by_one_of("", "77", |_| true));
    }

    #[test]
    fn file_locked_by_a_living_process_is_held() {
        assert!(lives(&std::process::id().to_string()));
        assert!(!lives("4194305"), "beyond the largest number of a process");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        assert!(!is_held(&file), "nobody has locked it");
        file.lock().unwrap();
        assert!(is_held(&File::open(&path).unwrap()));
    }

    const HOLDER: &str = "SEEKLAB_TEST_LOCK_HOLDER";

    /// A process of its own that has locked `file`, an open file that it shares with this one.
    fn holder(file: &File) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::lock::tests::lock_of_a_killed_holder_is_waited_for", "--nocapture"])
            .env(HOLDER, "1")
            .stdin(file.try_clone().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(
            printed.into_iter().any(|line| line.contains("has locked it")),
            "the process has not locked it"
        );
        child
    }

    #[test]
    fn lock_of_a_killed_holder_is_waited_for() {
        if std::env::var_os(HOLDER).is_some() {
            File::from(io::stdin().as_fd().try_clone_to_owned().unwrap()).lock().unwrap();
            println!("has locked it");
            loop {
                std::thread::park(); // until it is killed
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // The lock stays for as long as this is open, as it does while the kernel finishes a transfer.
        let shared = File::create(&path).unwrap();
        let mut child = holder(&shared);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let never = || panic!("one that lives is not waited for");
        let refused = take_after(&file, &path, Access::ReadWrite, never).unwrap_err();
        assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
        child.kill().unwrap();
        // Dead, but its parent has not waited for it yet.
        let pid = Pid::from_child(&child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(!lives(&child.id().to_string()) && !is_held(&file));
        child.wait().unwrap();
        assert!(!is_held(&file), "of one that is gone nothing is listed");
        for access in [Access::ReadOnly, Access::ReadWrite] {
            let mut rounds = 0;
            let waiting = || {
                rounds += 1;
                assert!(rounds <= ATTEMPTS, "it gives up in the end");
            };
            let refused = take_after(&file, &path, access, waiting).unwrap_err();
            assert!(
                matches!(refused, StoreError::Locked { .. }) && rounds == ATTEMPTS,
                "{refused} after {rounds}"
            );
        }
        let (mut shared, mut rounds) = (Some(shared), 0);
        let waiting = || {
            rounds += 1;
            shared = shared.take().filter(|_| rounds < 3);
        };
        take_after(&file, &path, Access::ReadWrite, waiting).unwrap();
        assert_eq!(rounds, 3, "as soon as it can be had");
    }
}
