//! Figures of a run of the host.

use seeklab_core::{Duration, Instant};

use super::criticality::ClassFigures;

/// Figures of a host. Times and counts cover the lifetime of the task. Figures of requests cover the run, which ends
/// when everything dirty is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostFigures {
    /// True if every process of the task has ended.
    pub is_finished: bool,
    /// Number of CPUs.
    pub cpus: u32,
    /// Time from the start of the task's first process to the end of the last.
    pub elapsed: Duration,
    /// CPU time of the task's processes.
    pub task_cpu: Duration,
    /// CPU time of everything else: interrupts, context switches, the syncer, other processes.
    pub other_cpu: Duration,
    /// Time that CPUs were idle while at least as many processes waited for I/O as CPUs were idle.
    pub false_idle: Duration,
    /// Other time that CPUs were idle.
    pub idle: Duration,
    /// Interrupts, those of the clock included.
    pub interrupts: u64,
    /// Context switches.
    pub context_switches: u64,
    /// Waits of the task's processes for I/O.
    pub io_waits: u64,
    /// Time that the task's processes waited for I/O.
    pub io_wait: Duration,
    /// Time-critical requests.
    pub time_critical: ClassFigures,
    /// Time-limited requests.
    pub time_limited: ClassFigures,
    /// Time-noncritical requests.
    pub time_noncritical: ClassFigures,
    /// Blocks read in advance that no process needed.
    pub unneeded_read_ahead_blocks: u64,
    /// Time-noncritical requests whose completion a process waited for.
    pub turned_critical: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Processes that ended because a request failed.
    pub failed_processes: u64,
}

/// Time of one CPU by its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// Processes of the task.
    pub task: Duration,
    /// Everything else that ran.
    pub other: Duration,
    /// Idle while at least as many processes waited for I/O as CPUs were idle.
    pub false_idle: Duration,
    /// Otherwise idle.
    pub idle: Duration,
}

/// Sums over the time so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Accounts {
    /// Time up to which everything is accounted for.
    pub(super) until: Instant,
    pub(super) cpus: Vec<CpuTimes>,
    pub(super) interrupts: u64,
    pub(super) context_switches: u64,
    pub(super) io_waits: u64,
    pub(super) io_wait: Duration,
}
