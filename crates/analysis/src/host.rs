//! Figures of a simulated host: where the elapsed time of a task goes, and the requests by criticality.
//!
//! # References
//! G. R. Ganger and Y. N. Patt, Using System-Level Models to Evaluate I/O Subsystem Designs, IEEE Transactions on
//! Computers 47(6), 1998: tables 4 and 6 have these figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of a simulated host. Times and counts cover the lifetime of the task. Figures of requests cover the run, which
/// ends when everything dirty is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    /// False if the run stopped before the task ended.
    pub finished: bool,
    /// Number of CPUs. The CPU times and idle times of all CPUs add up to the elapsed time of each.
    pub cpus: u32,
    /// Time from the start of the task's first process to the end of the last.
    pub elapsed_s: f64,
    /// CPU time of the task's processes.
    pub task_cpu_s: f64,
    /// CPU time of everything else: interrupts, context switches, the syncer, other processes.
    pub other_cpu_s: f64,
    /// Time that CPUs were idle while at least as many processes waited for I/O as CPUs were idle.
    pub false_idle_s: f64,
    /// Other time that CPUs were idle.
    pub idle_s: f64,
    /// Time that the task's processes waited for I/O.
    pub io_wait_s: f64,
    /// Interrupts, those of the clock included.
    pub interrupts: u64,
    /// Context switches.
    pub context_switches: u64,
    /// Waits of the task's processes for I/O.
    pub io_waits: u64,
    /// Mean length of a wait for I/O; null if there was none.
    pub io_wait_mean_ms: Option<f64>,
    /// Time-critical requests: demand reads and synchronous writes.
    pub time_critical: ClassSummary,
    /// Time-limited requests: read-ahead and asynchronous writes.
    pub time_limited: ClassSummary,
    /// Time-noncritical requests: writes of the syncer.
    pub time_noncritical: ClassSummary,
    /// Blocks read in advance that no process needed.
    pub unneeded_read_ahead_blocks: u64,
    /// Time-noncritical requests whose completion a process waited for, as when memory is full.
    pub turned_critical_requests: u64,
    /// Processes that ended because a request failed.
    pub failed_processes: u64,
}

/// Figures of the requests of one class at issue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassSummary {
    /// Requests that completed.
    pub requests: u64,
    /// Mean response time; null without requests.
    pub response_mean_ms: Option<f64>,
    /// Longest response time; null without requests.
    pub response_max_ms: Option<f64>,
    /// Mean time limit: from the issue of a read-ahead to the first access to its block; null if no block was needed.
    pub limit_mean_ms: Option<f64>,
    /// Share of time limits that were met; null if no block was needed.
    pub met_pct: Option<f64>,
}

impl HostSummary {
    /// The classes with their names, most pressing first.
    pub const fn classes(&self) -> [(&'static str, &ClassSummary); 3] {
        [
            ("time-critical", &self.time_critical),
            ("time-limited", &self.time_limited),
            ("time-noncritical", &self.time_noncritical),
        ]
    }

    /// The parts that the elapsed time of all CPUs consists of, with their names.
    pub const fn parts_s(&self) -> [(&'static str, f64); 4] {
        [
            ("task CPU", self.task_cpu_s),
            ("other CPU", self.other_cpu_s),
            ("false idle", self.false_idle_s),
            ("idle", self.idle_s),
        ]
    }
}
