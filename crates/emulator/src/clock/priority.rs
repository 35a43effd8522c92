//! Real-time priorities and processors of threads.
//!
//! # References
//! `sched(7)`, `sched_setscheduler(2)`, `sched_setaffinity(2)`.
#![expect(
    unsafe_code,
    reason = "sched_setscheduler(2), which no safe interface offers for a thread by its number"
)]

use std::io;
use std::marker::PhantomData;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// A thread of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thread {
    /// The thread that calls.
    Current,
    /// The thread of that number, as the kernel counts threads.
    Numbered(u32),
}

impl Thread {
    fn pid(self) -> Option<Pid> {
        match self {
            Self::Current => None,
            Self::Numbered(number) => Pid::from_raw(number.cast_signed()),
        }
    }

    /// Gives the thread a real-time priority from 1 to 99: it runs before every thread of a lower or ordinary priority,
    /// until it sleeps or yields (`SCHED_FIFO`). Threads that it starts have an ordinary priority.
    ///
    /// # Errors
    /// If the kernel does not permit it: without `CAP_SYS_NICE`, `RLIMIT_RTPRIO` limits the priority.
    pub fn set_real_time(self, priority: u8) -> io::Result<()> {
        let number = self.pid().map_or(0, Pid::as_raw_pid);
        let parameters = libc::sched_param { sched_priority: i32::from(priority) };
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        // SAFETY: the call reads the parameters and writes no memory of ours.
        match unsafe { libc::sched_setscheduler(number, policy, &raw const parameters) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Lets the thread run on those processors only.
    ///
    /// # Errors
    /// If this process may use none of them.
    pub fn pin(self, processors: &[usize]) -> io::Result<()> {
        let mut set = CpuSet::new();
        processors.iter().filter(|number| **number < CpuSet::MAX_CPU).for_each(|number| set.set(*number));
        Ok(sched_setaffinity(self.pid(), &set)?)
    }
}

/// Keeps the calling thread from taking a processor from one that runs when it is woken (`SCHED_BATCH`), for as long as this
/// lives: work that is not urgent, beside threads that have deadlines. Threads that it starts meanwhile are the same.
#[derive(Debug)]
#[must_use = "it holds as long as it lives"]
pub struct Yielding {
    is_set: bool,
    /// The policy is that of a thread.
    _of_this_thread: PhantomData<*const ()>,
}

impl Yielding {
    /// Begins. A thread of a real-time priority, or of another policy than the ordinary one, stays as it is.
    pub fn begin() -> Self {
        // SAFETY: the call has no memory of ours.
        let policy = unsafe { libc::sched_getscheduler(0) };
        let is_set = policy == libc::SCHED_OTHER && set_policy(libc::SCHED_BATCH);
        Self { is_set, _of_this_thread: PhantomData }
    }
}

impl Drop for Yielding {
    fn drop(&mut self) {
        if self.is_set {
            set_policy(libc::SCHED_OTHER);
        }
    }
}

/// Gives the calling thread a policy without a real-time priority. Returns false if the kernel refuses.
fn set_policy(policy: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameters and writes no memory of ours.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

/// Returns the processors that the calling thread may use, in ascending order.
pub fn usable_processors() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_is_pinned_and_others_are_not() {
        let all = usable_processors();
        let first = all[..1].to_vec();
        let pinned = first.clone();
        let found = std::thread::spawn(move || {
            Thread::Current.pin(&pinned).unwrap();
            usable_processors()
        });
        assert_eq!((found.join().unwrap(), usable_processors()), (first, all));
        assert!(Thread::Current.pin(&[CpuSet::MAX_CPU]).is_err(), "a set without processors");
    }

    #[test]
    fn priority_is_set_or_refused_and_a_thread_does_not_pass_it_on() {
        std::thread::spawn(|| {
            let number = rustix::thread::gettid().as_raw_pid().cast_unsigned();
            match Thread::Numbered(number).set_real_time(1) {
                // The second field behind the name is the policy, field 41 of the line; 1 is SCHED_FIFO.
                Ok(()) => {
                    assert_eq!(policy_of_this_thread(), "1");
                    let other = std::thread::spawn(policy_of_this_thread).join().unwrap();
                    assert_eq!(other, "0");
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
            }
        })
        .join()
        .unwrap();
        assert!(Thread::Current.set_real_time(0).is_err(), "real-time priorities begin at 1");
    }

    #[test]
    fn thread_yields_to_others_until_the_guard_is_dropped() {
        std::thread::spawn(|| {
            let yielding = Yielding::begin();
            // 3 is SCHED_BATCH.
            assert_eq!(policy_of_this_thread(), "3");
            let second = Yielding::begin();
            drop(second);
            assert_eq!(policy_of_this_thread(), "3", "the first one still holds");
            drop(yielding);
            assert_eq!(policy_of_this_thread(), "0");
        })
        .join()
        .unwrap();
    }

    fn policy_of_this_thread() -> String {
        let number = rustix::thread::gettid().as_raw_pid();
        let line = std::fs::read_to_string(format!("/proc/self/task/{number}/stat")).unwrap();
        let fields = line.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(38).unwrap().to_owned()
    }
}
