//! Real-time priorities and processors of threads.
//!
//! # References
//! `sched(7)`, `sched_setscheduler(2)`, `sched_setaffinity(2)`.
#![expect(
    unsafe_code,
    reason = "sched_setscheduler(2), which no safe interface offers for a thread by its number"
)]

use std::io;

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

    fn policy_of_this_thread() -> String {
        let number = rustix::thread::gettid().as_raw_pid();
        let line = std::fs::read_to_string(format!("/proc/self/task/{number}/stat")).unwrap();
        let fields = line.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(38).unwrap().to_owned()
    }
}
