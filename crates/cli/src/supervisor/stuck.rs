//! Threads of a process that the kernel holds in a wait that no signal ends (state D).
//!
//! # Scope and limits
//! A thread that waits for its disk is in the same state for moments. It counts as stuck if it has not run from one look to the
//! next. The system call and the place in the kernel are those that `/proc` shows to this user.

use std::fmt;
use std::fs;
use std::path::Path;

use nix::libc;

/// Numbers of the system calls in which a target can hold a thread, and their names.
const CALLS: [(i64, &str); 11] = [
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_pwritev2, "pwritev2"),
    (libc::SYS_read, "read"),
    (libc::SYS_write, "write"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_close, "close"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_exit_group, "exit_group"),
];

/// The threads of a process that are stuck.
#[derive(Debug, Default)]
pub(super) struct StuckThreads {
    process: u32,
    /// Threads in state D, stuck or not yet known to be.
    waiting: Vec<Waiting>,
}

#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    number: u32,
    name: String,
    /// Context switches so far.
    switches: u64,
    is_stuck: bool,
    call: Option<&'static str>,
    /// Function of the kernel in which it waits.
    place: Option<String>,
}

impl StuckThreads {
    /// The threads of a process that wait now and have not run since the look before.
    pub(super) fn of(process: u32, before: &Self) -> Self {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let mut waiting: Vec<Waiting> =
            threads.filter_map(|thread| Waiting::of(&thread.path(), &before.waiting)).collect();
        waiting.sort_by_key(|thread| thread.number);
        Self { process, waiting }
    }

    fn stuck(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|thread| thread.is_stuck)
    }

    /// Returns true if no thread is stuck.
    pub(super) fn is_empty(&self) -> bool {
        self.stuck().next().is_none()
    }

    /// Returns true if the thread is stuck with which the process began, or that has ended and others are stuck.
    pub(super) fn have_first_thread(&self) -> bool {
        let has_ended = || state(&format!("/proc/{0}/task/{0}", self.process)) == Some('Z');
        self.stuck().any(|thread| thread.number == self.process) || (!self.is_empty() && has_ended())
    }
}

impl Waiting {
    /// The thread of that folder, if it is in state D.
    fn of(folder: &Path, before: &[Self]) -> Option<Self> {
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let stat = text("stat")?;
        if state_in(&stat) != Some('D') {
            return None;
        }
        let (number, name) = stat.rsplit_once(')')?.0.split_once(" (")?;
        let (number, switches) = (number.parse().ok()?, switches(&text("status")?));
        let call = text("syscall").and_then(|call| call.split_whitespace().next()?.parse::<i64>().ok());
        let place = text("wchan").filter(|place| !["", "0"].contains(&place.trim()));
        Some(Self {
            number,
            name: name.to_owned(),
            switches,
            is_stuck: before.iter().any(|before| (before.number, before.switches) == (number, switches)),
            call: call
                .and_then(|call| CALLS.iter().find(|(number, _)| *number == call))
                .map(|(_, name)| *name),
            place: place.map(|place| place.trim().to_owned()),
        })
    }
}

/// State of the thread with that folder in `/proc`.
fn state(folder: &str) -> Option<char> {
    state_in(&fs::read_to_string(format!("{folder}/stat")).ok()?)
}

fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Sum of the context switches in a status of `/proc`.
fn switches(status: &str) -> u64 {
    let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
    counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

impl fmt::Display for StuckThreads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, thread) in self.stuck().enumerate() {
            let separator = if index == 0 { "the kernel holds thread" } else { ", thread" };
            write!(formatter, "{separator} `{}` ({})", thread.name, thread.number)?;
            match (thread.call, &thread.place) {
                (Some(call), Some(place)) => write!(formatter, " in {call}, {place}")?,
                (Some(call), None) => write!(formatter, " in {call}")?,
                (None, Some(place)) => write!(formatter, " in {place}")?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as `/proc` has it of a thread.
    fn thread(state: char, switches: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
        write("stat", format!("77 (bench) (0) {state} 1 1 1"));
        write(
            "status",
            format!("Name:\tbench 0\nvoluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t3\n"),
        );
        write("syscall", format!("{} 0x5 0x0", libc::SYS_pwrite64));
        write("wchan", "percpu_rwsem_wait".to_owned());
        folder
    }

    #[test]
    fn thread_is_stuck_that_has_not_run_since_the_look_before() {
        assert_eq!(Waiting::of(thread('S', 5).path(), &[]), None);
        let first = Waiting::of(thread('D', 5).path(), &[]).unwrap();
        assert!(!first.is_stuck);
        let ran = Waiting::of(thread('D', 6).path(), std::slice::from_ref(&first)).unwrap();
        assert!(!ran.is_stuck, "it waits again");
        let stuck = Waiting::of(thread('D', 5).path(), &[first]).unwrap();
        assert!(stuck.is_stuck);
        let threads = StuckThreads { process: 77, waiting: vec![ran, stuck] };
        assert!(threads.have_first_thread());
        assert_eq!(
            threads.to_string(),
            "the kernel holds thread `bench) (0` (77) in pwrite64, percpu_rwsem_wait"
        );
        assert!(StuckThreads::of(std::process::id(), &StuckThreads::default()).is_empty());
    }
}
