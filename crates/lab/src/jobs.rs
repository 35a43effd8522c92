//! Figures of a stream of jobs, as they are printed.

use seeklab_core::number_words::counted;
use std::fmt;

use schemars::JsonSchema;
use seeklab_workloads::jobs::JobsFigures;
use serde::{Deserialize, Serialize};

/// Figures of a stream of jobs. Its serialized form is a part of JSON documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobsSummary {
    /// True if every job ended.
    pub finished: bool,
    /// Jobs that ended.
    pub jobs: u32,
    /// Elapsed time of the stream.
    pub elapsed_s: f64,
    /// Processor time of the jobs.
    pub job_processor_s: f64,
    /// Processor time of the system.
    pub system_processor_s: f64,
    /// Time for which jobs were blocked by their buffers, the sum over all jobs.
    pub blocked_s: f64,
    /// Calls of all drives. Each is one request of the equations.
    pub calls: u64,
    /// Calls of the busiest drive.
    pub calls_of_one_drive: u64,
    /// Sectors transferred.
    pub sectors: u64,
}

impl From<&JobsFigures> for JobsSummary {
    fn from(figures: &JobsFigures) -> Self {
        Self {
            finished: figures.is_finished,
            jobs: figures.jobs,
            elapsed_s: figures.elapsed.as_s(),
            job_processor_s: figures.job_processor.as_s(),
            system_processor_s: figures.system_processor.as_s(),
            blocked_s: figures.blocked.as_s(),
            calls: figures.calls.iter().sum(),
            calls_of_one_drive: figures.calls.iter().copied().max().unwrap_or(0),
            sectors: figures.sectors,
        }
    }
}

impl fmt::Display for JobsSummary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{} took {:.2} s; processor time {:.2} s of the jobs and {:.2} s of the system; {} moved {}",
            counted(self.jobs, "job"),
            self.elapsed_s,
            self.job_processor_s,
            self.system_processor_s,
            counted(self.calls, "call"),
            counted(self.sectors, "sector")
        )
    }
}
