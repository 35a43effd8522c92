//! Logs that a fio job writes (`write_bw_log`, `write_iops_log`, `write_lat_log`): their options, and their files.
//!
//! # References
//! fio 3.33. init.c: add_job. HOWTO.rst, "Log File Formats".

use std::path::PathBuf;

use seeklab_core::Duration;

use super::file::{number, switch};
use super::job::Job;

/// Figure of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioLogFigure {
    /// Throughput: of a request in kB/s, of a window in KiB/s, as fio counts them.
    Bandwidth,
    /// Requests: 1 for each, or requests per second of a window.
    Iops,
    /// Time from the intended start to the completion in ns.
    Response,
    /// Time from the issue to the completion in ns.
    Service,
    /// Time of the submission, which is not measured: the log is empty.
    Submission,
}

impl FioLogFigure {
    /// Its part of the name of a log.
    const fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bw",
            Self::Iops => "iops",
            Self::Response => "lat",
            Self::Service => "clat",
            Self::Submission => "slat",
        }
    }
}

/// A log of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FioLog {
    /// Its file. Several jobs may have one.
    pub path: PathBuf,
    /// Number of the phase of the job.
    pub phase: usize,
    /// Number of its stream in the phase.
    pub stream: usize,
    /// Figure.
    pub figure: FioLogFigure,
    /// Length of a window with one row [default: a row for each request].
    pub window_ms: Option<u64>,
    /// A row has the greatest value of its window, and not the mean.
    pub takes_greatest: bool,
    /// Rows have the offset of the request.
    pub has_offsets: bool,
    /// Rows have the I/O priority of the request. Otherwise they have 1 for real-time requests and 0 for others.
    pub has_priorities: bool,
    /// I/O priority of the job, as the kernel numbers it.
    pub priority: u16,
    /// Time zero of the rows, from the begin of the phase.
    pub from: Duration,
    /// Time of a job that ends by time alone, from there on.
    pub length: Option<Duration>,
}

/// Options of logs.
#[derive(Debug, Clone)]
pub(super) struct LogOptions {
    /// Names of the logs; an empty one stands for the name of the job.
    bandwidth: Option<String>,
    iops: Option<String>,
    latency: Option<String>,
    window_ms: u64,
    bandwidth_window_ms: Option<u64>,
    iops_window_ms: Option<u64>,
    is_per_job: bool,
    has_offsets: bool,
    has_priorities: bool,
    takes_greatest: bool,
    lacks_response: bool,
    lacks_service: bool,
    lacks_submission: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            bandwidth: None,
            iops: None,
            latency: None,
            window_ms: 0,
            bandwidth_window_ms: None,
            iops_window_ms: None,
            is_per_job: true,
            has_offsets: false,
            has_priorities: false,
            takes_greatest: false,
            lacks_response: false,
            lacks_service: false,
            lacks_submission: false,
        }
    }
}

impl LogOptions {
    /// Takes an option of logs.
    pub(super) fn take(&mut self, name: &str, value: &str, base: u64) -> Result<(), String> {
        let ms = || number(value, base).ok_or_else(|| "is no number of milliseconds".to_owned());
        let is_on = || switch(value).ok_or_else(|| "0 and 1 are allowed".to_owned());
        match name {
            "write_bw_log" => self.bandwidth = Some(value.to_owned()),
            "write_iops_log" => self.iops = Some(value.to_owned()),
            "write_lat_log" => self.latency = Some(value.to_owned()),
            "log_avg_msec" => self.window_ms = ms()?,
            "bwavgtime" => self.bandwidth_window_ms = Some(ms()?),
            "iopsavgtime" => self.iops_window_ms = Some(ms()?),
            "per_job_logs" => self.is_per_job = is_on()?,
            "log_offset" => self.has_offsets = is_on()?,
            "log_prio" => self.has_priorities = is_on()?,
            "log_max_value" => self.takes_greatest = is_on()?,
            "disable_lat" => self.lacks_response = is_on()?,
            "disable_clat" => self.lacks_service = is_on()?,
            _ => self.lacks_submission = is_on()?,
        }
        Ok(())
    }

    /// The logs of a clone of a job, which is the `number`th of the file, at its place among the phases and streams.
    pub(super) fn logs(&self, job: &Job, number: usize, (phase, stream): (usize, usize)) -> Vec<FioLog> {
        let window = |own: Option<u64>| match (self.window_ms, own) {
            (0, _) => None,
            (_, Some(own)) => Some(own).filter(|own| *own > 0),
            (all, None) => Some(all),
        };
        let times = window(None);
        let of = |figure, name: &Option<String>, window_ms, is_left_out: bool| {
            let name = name.as_ref().filter(|_| !is_left_out)?;
            let name = if name.is_empty() { &job.name } else { name };
            let path = match self.is_per_job {
                true => format!("{name}_{}.{number}.log", FioLogFigure::name(figure)),
                false => format!("{name}_{}.log", FioLogFigure::name(figure)),
            };
            Some(FioLog {
                path: PathBuf::from(path),
                phase,
                stream,
                figure,
                window_ms,
                takes_greatest: self.takes_greatest,
                has_offsets: self.has_offsets,
                has_priorities: self.has_priorities,
                priority: job.priority.map_or(0, seeklab_bench::IoPriority::number),
                from: job.load.start + job.ramp,
                length: job.load.runtime.filter(|_| job.load.is_time_based),
            })
        };
        let all = [
            of(FioLogFigure::Bandwidth, &self.bandwidth, window(self.bandwidth_window_ms), false),
            of(FioLogFigure::Iops, &self.iops, window(self.iops_window_ms), false),
            of(FioLogFigure::Response, &self.latency, times, self.lacks_response),
            of(FioLogFigure::Service, &self.latency, times, self.lacks_service),
            of(FioLogFigure::Submission, &self.latency, times, self.lacks_submission),
        ];
        all.into_iter().flatten().collect()
    }
}
