//! System calls that no safe interface offers: waiting with resource usage, dispositions of signals, and code
//! between fork and exec.
//!
//! # References
//! `wait4(2)`, `getrusage(2)`, `fork(2)`, `signal-safety(7)`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Pid, Uid};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use seeklab_core::Duration;

use crate::account::Account;

/// Nanoseconds of CLOCK_MONOTONIC, as the emulator stamps.
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Never negative, and past 2^64 ns only after 584 years of uptime.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Resources used by processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) max_rss_bytes: u64,
}

impl Usage {
    fn add(&mut self, usage: &libc::rusage) {
        self.user += duration(usage.ru_utime);
        self.system += duration(usage.ru_stime);
        // In KiB on Linux.
        self.max_rss_bytes = self.max_rss_bytes.max(usage.ru_maxrss.unsigned_abs().saturating_mul(1024));
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_s(time.tv_sec.unsigned_abs()) + Duration::from_us(time.tv_usec.unsigned_abs())
}

/// A look at the children of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// Process that ended. It is gone from the table of processes, and its usage was added.
    Ended(Pid, ExitStatus),
    /// There are children, all running.
    Running,
    /// There is none.
    None,
}

/// Reaps one child that ended, of any kind, without waiting; adds what it and the children that it had
/// waited for used.
pub(crate) fn reap(usage: &mut Usage) -> Reaped {
    let mut status = 0;
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    #[expect(unsafe_code, reason = "no safe crate offers wait4")]
    // SAFETY: both pointers are to live, writable values of the types that wait4 fills.
    let pid = unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, used.as_mut_ptr()) };
    match pid {
        0 => Reaped::Running,
        pid if pid < 0 => Reaped::None,
        pid => {
            #[expect(unsafe_code, reason = "no safe crate offers wait4")]
            // SAFETY: it was zeroed, which is a valid value of this struct of integers.
            let used = unsafe { used.assume_init() };
            usage.add(&used);
            Pid::from_raw(pid).map_or(Reaped::Running, |pid| Reaped::Ended(pid, ExitStatus::from_raw(status)))
        }
    }
}

/// Restores the default dispositions of the signals that a stage itself relies on, for this process and the
/// commands that it starts: an ignored signal stays ignored through exec.
///
/// - SIGCHLD: the kernel would remove children that ended before [`reap`] sees them.
/// - SIGTERM: a stage ends commands with it.
///
/// Commands inherit SIGINT, SIGHUP and SIGQUIT as seeklab was started with them, so `nohup` and a shell's
/// background jobs keep their meaning. They get the default SIGPIPE from [`Command`], and no signal blocked.
pub(crate) fn restore_default_dispositions() {
    for signal in [libc::SIGCHLD, libc::SIGTERM] {
        #[expect(unsafe_code, reason = "no safe crate offers to set a signal's disposition")]
        // SAFETY: no handler is installed, and this process has none that it would replace.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Limits on the process of a command.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// File through which it enters its memory cgroup.
    pub(crate) memory_group: Option<File>,
    /// Processors that it may use.
    pub(crate) cpus: Option<CpuSet>,
}

/// Starts `command` within `limits`, as `account` if one is given, and returns the child with the time of its exec. For a child
/// that a signal ended before its exec, the time is when this process noticed that.
///
/// # Errors
/// A failure of fork, of the change of user or of exec.
pub(crate) fn spawn(
    mut command: Command,
    account: Option<&Account>,
    limits: Limits,
) -> io::Result<(Child, u64)> {
    let (receive, send) = pipe_with(PipeFlags::CLOEXEC)?;
    let identity = account.map(|account| Identity {
        groups: account.groups.iter().map(|group| Gid::from_raw(*group)).collect(),
        gid: Gid::from_raw(account.gid),
        uid: Uid::from_raw(account.uid),
    });
    let before_exec = move || prepare(identity.as_ref(), &limits, &send);
    #[expect(unsafe_code, reason = "there is no other way to run code between fork and exec")]
    // SAFETY: the closure makes system calls and allocates nothing, so it is safe after fork even if there
    // were other threads.
    unsafe {
        command.pre_exec(before_exec);
    }
    let child = command.spawn()?;
    // The command owns the closure and with it the write end: the read below would never end.
    drop(command);
    let mut stamp = [0; 8];
    match File::from(receive).read_exact(&mut stamp) {
        Ok(()) => Ok((child, u64::from_ne_bytes(stamp))),
        // The child is a zombie: its status tells the signal.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok((child, monotonic_ns())),
        Err(error) => Err(error),
    }
}

struct Identity {
    groups: Vec<Gid>,
    gid: Gid,
    uid: Uid,
}

/// Between fork and exec: system calls only. The user goes last, for afterwards there is no right to the rest.
fn prepare(identity: Option<&Identity>, limits: &Limits, stamp: &OwnedFd) -> io::Result<()> {
    if let Some(group) = &limits.memory_group {
        // 0 is the process that writes.
        rustix::io::write(group, b"0")?;
    }
    if let Some(cpus) = &limits.cpus {
        rustix::thread::sched_setaffinity(None, cpus)?;
    }
    if let Some(Identity { groups, gid, uid }) = identity {
        rustix::thread::set_thread_groups(groups)?;
        rustix::thread::set_thread_gid(*gid)?;
        rustix::thread::set_thread_uid(*uid)?;
    }
    rustix::io::write(stamp, &monotonic_ns().to_ne_bytes())?;
    Ok(())
}
