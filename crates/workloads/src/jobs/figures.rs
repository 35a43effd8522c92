//! Figures of a stream of jobs.

use seeklab_core::Duration;

/// Figures of a stream of jobs so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobsFigures {
    /// True if every job has ended.
    pub is_finished: bool,
    /// Jobs that have ended.
    pub jobs: u32,
    /// Elapsed time.
    pub elapsed: Duration,
    /// Processor time of the jobs that have ended.
    pub job_processor: Duration,
    /// Processor time of the system.
    pub system_processor: Duration,
    /// Time for which jobs were blocked by their buffers, the sum over all jobs.
    pub blocked: Duration,
    /// Calls of each drive.
    pub calls: Vec<u64>,
    /// Sectors transferred.
    pub sectors: u64,
    /// Requests that failed.
    pub failed_requests: u64,
}

impl JobsFigures {
    pub(super) fn new(drives: u16) -> Self {
        Self {
            is_finished: false,
            jobs: 0,
            elapsed: Duration::ZERO,
            job_processor: Duration::ZERO,
            system_processor: Duration::ZERO,
            blocked: Duration::ZERO,
            calls: vec![0; usize::from(drives)],
            sectors: 0,
            failed_requests: 0,
        }
    }
}
