//! Waits for a command, and ends what it left running.

use std::fs;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};

use nix::sys::signal::{Signal, kill};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use seeklab_core::Duration;

use crate::error::Trouble;
use crate::os::{Reaped, Usage, monotonic_ns, reap};

use super::Control;

/// Interval at which orphans that ended during a command are reaped. The interval is long, because reaping
/// takes time from the measurement, but short enough to keep their number small.
const REAP_EVERY: Duration = Duration::from_s(1);

/// Interval of the checks whether signalled processes have ended.
const SWEEP_EVERY: Duration = Duration::from_ms(2);

/// Time after SIGKILL after which a process is considered unable to end.
const KILL_WAIT: Duration = Duration::from_s(60);

/// Maximum number of names listed of processes left running.
const NAMES_MAX: usize = 16;

/// Result of a command and of all processes that it started.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) end_ns: u64,
    pub(super) usage: Usage,
    pub(super) stopped: bool,
    pub(super) left_running: Vec<String>,
}

/// Waits for `child`, then ends every other process of the namespace and waits for it.
pub(super) fn attend(child: &Child, control: &mut Control, grace: Duration) -> Result<Ended, Trouble> {
    let pid = Pid::from_child(child);
    let pidfd =
        pidfd_open(pid, PidfdFlags::empty()).map_err(|error| Trouble::io("watch a process", error))?;
    let stops_before = control.stops();
    let mut usage = Usage::default();
    let mut pressure = Pressure { grace, kill_at_ns: None };
    let mut end_ns = None;
    let status = loop {
        // Once it has ended the descriptor stays readable: then only pauses, until it can be reaped, which a
        // tracer delays.
        let watched = end_ns.is_none().then(|| pidfd.as_fd());
        let look = if end_ns.is_none() { REAP_EVERY } else { SWEEP_EVERY };
        if control.wait(watched, pressure.next_look(look)) {
            end_ns = Some(monotonic_ns());
        }
        if let Some(status) = reap_all(pid, &mut usage).status {
            break status;
        }
        let stops = control.stops() - stops_before;
        pressure.apply(stops, stops > 0);
    };
    // Reaped by chance before its end was detected.
    let end_ns = end_ns.unwrap_or_else(monotonic_ns);
    let left_running = sweep(pid, &mut usage, control, stops_before, &mut pressure)?;
    Ok(Ended { status, end_ns, usage, stopped: control.stops() > stops_before, left_running })
}

/// Ends all processes but this one; returns the names of those that there were.
fn sweep(
    pid: Pid,
    usage: &mut Usage,
    control: &mut Control,
    stops_before: u32,
    pressure: &mut Pressure,
) -> Result<Vec<String>, Trouble> {
    if !reap_all(pid, usage).running {
        return Ok(Vec::new());
    }
    let names = names_of_others();
    while reap_all(pid, usage).running {
        pressure.apply(control.stops() - stops_before, true);
        if pressure.is_hopeless() {
            let what = format!("processes do not end, even killed: {}", names_of_others().join(", "));
            return Err(Trouble::new(what).hint("the device does not answer them"));
        }
        control.wait(None, pressure.next_look(SWEEP_EVERY));
    }
    Ok(names)
}

/// Presses processes to end: SIGTERM first, SIGKILL when the grace is over or somebody insists.
struct Pressure {
    grace: Duration,
    kill_at_ns: Option<u64>,
}

impl Pressure {
    fn apply(&mut self, stops: u32, wanted: bool) {
        let now_ns = monotonic_ns();
        match self.kill_at_ns {
            None if wanted => {
                self.kill_at_ns = Some(now_ns.saturating_add(self.grace.as_ns()));
                signal_all(Signal::SIGTERM);
            }
            Some(kill_at_ns) if now_ns >= kill_at_ns || stops > 1 => {
                self.kill_at_ns = Some(kill_at_ns.min(now_ns));
                signal_all(Signal::SIGKILL);
            }
            _ => {}
        }
    }

    /// `at_most`, or sooner if SIGKILL is due before.
    fn next_look(&self, at_most: Duration) -> Duration {
        let Some(kill_at_ns) = self.kill_at_ns else { return at_most };
        // Once it is due, processes may still be forking: again and again, but not without a pause.
        Duration::from_ns(kill_at_ns.saturating_sub(monotonic_ns())).max(SWEEP_EVERY).min(at_most)
    }

    fn is_hopeless(&self) -> bool {
        self.kill_at_ns.is_some_and(|at_ns| monotonic_ns().saturating_sub(at_ns) > KILL_WAIT.as_ns())
    }
}

/// To every process of the namespace but this one.
fn signal_all(signal: Signal) {
    // It fails if there is none.
    let _ = kill(nix::unistd::Pid::from_raw(-1), signal);
}

struct Look {
    status: Option<ExitStatus>,
    running: bool,
}

fn reap_all(pid: Pid, usage: &mut Usage) -> Look {
    let mut status = None;
    loop {
        match reap(usage) {
            Reaped::Ended(ended, its) if ended == pid => status = Some(its),
            Reaped::Ended(..) => {}
            Reaped::Running => return Look { status, running: true },
            Reaped::None => return Look { status, running: false },
        }
    }
}

/// The names of the other processes of the namespace that are alive.
fn names_of_others() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let stats = entries.filter_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        if pid == 1 { None } else { fs::read(format!("/proc/{pid}/stat")).ok() }
    });
    stats.filter_map(|stat| living_name(&String::from_utf8_lossy(&stat))).take(NAMES_MAX).collect()
}

/// The name out of `/proc/N/stat`, unless the process is a zombie.
fn living_name(stat: &str) -> Option<String> {
    let (before, after) = stat.rsplit_once(") ")?;
    let (_, name) = before.split_once('(')?;
    (!after.starts_with(['Z', 'X'])).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_living_process_may_have_any_characters() {
        assert_eq!(living_name("7 (sleep) S 1 7").as_deref(), Some("sleep"));
        assert_eq!(living_name("7 (a) Z (b) R 1 7").as_deref(), Some("a) Z (b"));
        assert_eq!(living_name("7 (sleep) Z 1 7"), None);
        assert_eq!(living_name(""), None);
    }
}
