//! Figures of a simulated host: where the elapsed time of a task goes, and the requests by criticality.
//!
//! # References
//! G. R. Ganger and Y. N. Patt, Using System-Level Models to Evaluate I/O Subsystem Designs, IEEE Transactions on
//! Computers 47(6), 1998: tables 4 and 6 have these figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures of a simulated host. Times and counts cover the lifetime of the task. Figures of requests cover the run, which
/// ends when everything dirty is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    /// False if the run stopped before the task ended.
    pub finished: bool,
    /// Number of CPUs. The CPU times and idle times of all CPUs add up to the elapsed time of each.
    pub cpus: u32,
    /// Time from the start of the task's first process to the end of the last, or of the run if the task did not end.
    pub elapsed_s: f64,
    /// CPU time of the task's processes.
    pub task_cpu_s: f64,
    /// CPU time of everything else: interrupts, context switches, the syncer, other processes.
    pub other_cpu_s: f64,
    /// Time that CPUs were idle while at least as many processes waited for I/O as CPUs were idle.
    pub false_idle_s: f64,
    /// Other time that CPUs were idle.
    pub idle_s: f64,
    /// Share of the time of all CPUs in which they executed something; null if no time elapsed.
    pub cpu_utilisation_pct: Option<f64>,
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
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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

/// Course of a run of a host, in intervals of equal length from its start to the end of its last request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostTimeline {
    /// Length of an interval.
    pub stretch_s: f64,
    /// Start of the task; null if no process of it started.
    pub task_start_s: Option<f64>,
    /// End of the task; null if the run stopped before.
    pub task_end_s: Option<f64>,
    /// Share of the CPU time in which processes of the task computed.
    pub task_cpu_pct: Vec<f64>,
    /// Share of the CPU time in which CPUs executed something else.
    pub other_cpu_pct: Vec<f64>,
    /// Share of the CPU time in which CPUs were idle while at least as many processes waited for I/O as CPUs were idle.
    pub false_idle_pct: Vec<f64>,
    /// Share of the CPU time in which CPUs were idle otherwise.
    pub idle_pct: Vec<f64>,
    /// Processes that waited for I/O, mean.
    pub io_waiting_processes: Vec<f64>,
    /// Requests from their issue until the host had handled their completion, mean.
    pub outstanding_requests: Vec<f64>,
}

/// Division of the elapsed time of a process, or of several of one name. `elapsed_s` is the sum of computing, ready and
/// waiting time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostProcess {
    /// Name of the process. Of a trace, its program and the number of its thread.
    pub name: String,
    /// Number of processes that started.
    pub processes: u64,
    /// Time from the start of each process to its end, or to the end of the run.
    pub elapsed_s: f64,
    /// CPU time.
    pub computing_s: f64,
    /// Time in which the process could have computed and had no CPU for itself.
    pub ready_s: f64,
    /// Waits for reads.
    pub read_wait_s: f64,
    /// Waits for writes.
    pub write_wait_s: f64,
    /// Waits for memory that is free or clean.
    pub memory_wait_s: f64,
    /// Waits for fewer dirty blocks.
    pub dirty_limit_wait_s: f64,
    /// Waits for other processes: for their progress, a lock or a pipe.
    pub process_wait_s: f64,
    /// Waits for the end of children.
    pub children_wait_s: f64,
    /// Sleeps. Of the syncer or flusher, the time without work.
    pub timer_wait_s: f64,
}

impl HostProcess {
    /// The parts of the elapsed time, with their names.
    pub const fn parts_s(&self) -> [(&'static str, f64); 9] {
        [
            ("computing", self.computing_s),
            ("ready", self.ready_s),
            ("read wait", self.read_wait_s),
            ("write wait", self.write_wait_s),
            ("memory wait", self.memory_wait_s),
            ("dirty limit wait", self.dirty_limit_wait_s),
            ("process wait", self.process_wait_s),
            ("children wait", self.children_wait_s),
            ("timer wait", self.timer_wait_s),
        ]
    }
}

impl HostSummary {
    /// Returns true if the task ended and no process ended early, so that the elapsed time is that of all of its work.
    pub const fn is_complete(&self) -> bool {
        self.finished && self.failed_processes == 0
    }

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
