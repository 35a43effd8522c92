//! fio's results as JSON: benchmark results for a device without a trace.
//!
//! `fio --output-format=json` or `json+` of fio 3, whose times are nanoseconds. Text before the first `{` is
//! passed over, since fio prints warnings there; a file may hold several documents.
//!
//! # Loads
//! Jobs of one group (`groupid`) ran at the same time, so they are one load: together they keep requests
//! outstanding. Jobs that differ only by `numjobs` or `group_reporting` are one component.
//!
//! # Scope and limits
//! Times are `clat_ns`, from the submission to the completion, or `lat_ns` if only that has percentiles.
//! Times of flushes (`sync`: the result of `fsync=` and `fdatasync=`) are `lat_ns`. If directions are
//! reported as one (`mixed`), their separate times are unknown, so a job of two directions is omitted. A job
//! of a single direction has its times there.
//!
//! Omitted, with a note: failed jobs, directions without percentiles or bins, sequential jobs beside others
//! (the device's requests are then neither sequential nor random), `sync_file_range` (it flushes nothing).
//! Used, with a note: flushes of files, whose times include the file system and the page cache. Not read: fio
//! 2.
//!
//! # References
//! fio's HOWTO, sections *Interpreting the output* and *JSON+ output*, version 3.33.

mod document;
mod figures;
mod options;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use seeklab_core::Operation;
use seeklab_devices::table::sweep::Quantiles;

use crate::failure::Failure;

pub use document::read;

/// Requests of one kind of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// Operation of the requests.
    pub op: Operation,
    /// Bytes of each, a multiple of 512, the mean where they differed; 0 of flushes.
    pub bytes: u64,
    /// True if each request began where the one before ended.
    pub is_sequential: bool,
    /// Their number.
    pub requests: u64,
    /// Per second.
    pub iops: f64,
    /// Mean response time, in nanoseconds.
    pub mean_ns: f64,
    /// Mean from before the submission to the completion, in nanoseconds: what fio's depth counts.
    pub whole_mean_ns: f64,
    /// 99th percentile of the response time, in nanoseconds.
    pub p99_ns: f64,
    /// Their response times, of that mean.
    pub times: Quantiles,
}

/// Jobs that each keep so many requests outstanding.
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// Requests that it keeps outstanding.
    pub depth: u32,
    /// Indices of the components that the loop makes, and the number of each per second.
    pub makes: Vec<(usize, f64)>,
}

/// Jobs that ran at the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The jobs' names.
    pub name: String,
    /// Requests of the jobs, by kind.
    pub components: Vec<Component>,
    /// Jobs that made the requests.
    pub loops: Vec<Loop>,
    /// Most bytes that were addressed, if that is known.
    pub region_bytes: Option<u64>,
}

/// Outstanding requests below this share of the depth: the load waits for something else than the device.
const FITS: std::ops::RangeInclusive<f64> = 0.9..=1.05;

impl Load {
    /// The jobs' depths together.
    pub fn depth(&self) -> u32 {
        self.loops.iter().fold(0, |sum, of| sum.saturating_add(of.depth))
    }

    /// Requests outstanding on average, by Little's law: requests per second times their mean time, submission
    /// included, as fio counts them.
    pub fn outstanding(&self) -> f64 {
        self.components.iter().map(|component| component.iops * component.whole_mean_ns / 1e9).sum()
    }

    /// The same with the device alone.
    fn with_the_device(&self) -> f64 {
        self.components.iter().map(|component| component.iops * component.mean_ns / 1e9).sum()
    }

    /// Returns true if the jobs kept their depth: by Little's law, between 90 and 105 % of the depth was
    /// outstanding.
    ///
    /// Engines that wait for a flush do so while their other requests are under way, and fio counts both. An
    /// excess no larger than the flushes is therefore accepted.
    pub fn fits(&self) -> bool {
        let flushes = self.components.iter().filter(|component| component.op == Operation::Flush);
        let flushing: f64 = flushes.map(|flushes| flushes.iops * flushes.whole_mean_ns / 1e9).sum();
        let share = |outstanding: f64| outstanding / f64::from(self.depth());
        share(self.outstanding()) >= *FITS.start() && share(self.outstanding() - flushing) <= *FITS.end()
    }

    /// Returns the number of outstanding requests that an arrival finds.
    ///
    /// By the arrival theorem, an arrival finds the average number outstanding with one customer less. If the
    /// jobs kept their depth N, these are the N - 1 others. If more than N requests were outstanding, the result
    /// is their number less one. If fewer were outstanding, the result is their number times (N - 1) / N.
    pub fn queue_length(&self) -> u32 {
        let depth = f64::from(self.depth());
        let outstanding = self.with_the_device();
        let others = if self.fits() {
            depth - 1.0
        } else if outstanding > depth {
            outstanding - 1.0
        } else {
            outstanding * (depth - 1.0) / depth
        };
        others.round() as u32
    }
}

/// Contents of a file.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Its loads.
    pub loads: Vec<Load>,
    /// Notes on results that were omitted or interpreted, with the reasons.
    pub notes: Vec<String>,
}

/// Number of bytes that are examined to recognise a file.
const LOOK_BYTES: u64 = 64 * 1024;

/// The largest file that is read.
const BYTES_MAX: u64 = 1 << 30;

/// Returns true if the file holds fio's JSON.
///
/// # Errors
/// If it cannot be read.
pub fn is_fio(path: &Path) -> Result<bool, Failure> {
    if !path.is_file() {
        return Ok(false); // Readers of traces say what is wrong.
    }
    let mut bytes = Vec::new();
    open(path)?
        .take(LOOK_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::from(error).context(path.display()))?;
    let named = path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("json"));
    Ok(named || looks_like_fio(&bytes))
}

/// Returns true if a file with this beginning holds fio's JSON.
fn looks_like_fio(bytes: &[u8]) -> bool {
    let key = b"\"fio version\"";
    let begin = bytes.iter().position(|byte| *byte == b'{');
    begin.is_some_and(|begin| bytes[begin..].windows(key.len()).any(|window| window == key))
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| Failure::from(error).context(path.display()))
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read or is not fio's.
pub fn read_file(path: &Path) -> Result<Sweep, Failure> {
    let mut bytes = Vec::new();
    open(path)?
        .take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::from(error).context(path.display()))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Failure::new(format!("{}: is larger than 1 GiB", path.display()))
            .hint("fio's results are some 10 KiB for each job; is it a log?"));
    }
    read(&bytes).map_err(|failure| failure.context(path.display()))
}
