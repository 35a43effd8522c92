//! fio's results as JSON: what a benchmark measured, where there is no trace.
//!
//! `fio --output-format=json` or `json+` of fio 3, whose times are nanoseconds. Text before the first `{` is passed
//! over, since fio prints warnings there; a file may hold several documents.
//!
//! # Loads
//! Jobs of one group (`groupid`) ran at the same time, so they are one load: together they keep requests outstanding.
//! Jobs that were told apart only by `numjobs` or `group_reporting` are one component.
//!
//! # Scope and limits
//! Times are `clat_ns`, from the submission to the completion, or `lat_ns` where percentiles are only there; of flushes
//! (`sync`: what `fsync=` and `fdatasync=` ask for) `lat_ns`. Of directions that are reported as one (`mixed`) the times of
//! neither are known, so a job of two is left out; one of a single direction has its times there.
//!
//! Left out, and told: failed jobs, directions without percentiles or bins, sequential jobs beside others (what reaches
//! the device is neither sequential nor random), `sync_file_range` (it flushes nothing). Told: flushes of files, in which
//! file system and page cache have their part. Not read: fio 2.
//!
//! # References
//! fio's HOWTO, sections *Interpreting the output* and *JSON+ output*, version 3.33.

mod document;
mod figures;
mod options;
#[cfg(test)]
mod tests;

use seeklab_core::Operation;

use crate::table::sweep::Quantiles;

pub use document::read;

/// Requests of one kind of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// What they did.
    pub op: Operation,
    /// Bytes of each, a multiple of 512, the mean where they differed; 0 of flushes.
    pub bytes: u64,
    /// Whether each began where the one before ended.
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
    /// Which components it makes, by their places, and how many of each per second.
    pub makes: Vec<(usize, f64)>,
}

/// Jobs that ran at the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The jobs' names.
    pub name: String,
    /// What they made.
    pub components: Vec<Component>,
    /// Who made it.
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

    /// Whether the jobs kept their depth: by Little's law between 90 and 105 % of it were outstanding.
    ///
    /// Engines that wait for a flush do so while their other requests are under way, and fio counts both: what
    /// is too much by no more than the flushes fits.
    pub fn fits(&self) -> bool {
        let flushes = self.components.iter().filter(|component| component.op == Operation::Flush);
        let flushing: f64 = flushes.map(|flushes| flushes.iops * flushes.whole_mean_ns / 1e9).sum();
        let share = |outstanding: f64| outstanding / f64::from(self.depth());
        share(self.outstanding()) >= *FITS.start() && share(self.outstanding() - flushing) <= *FITS.end()
    }

    /// Requests outstanding that another finds at its arrival: of N that each comes back after a while those of
    /// the others, and if more were outstanding than the jobs' depth says, those.
    ///
    /// That an arrival finds what is outstanding on average with one customer less is the arrival theorem.
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

/// What a file holds.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Its loads.
    pub loads: Vec<Load>,
    /// What was left out or taken for something, and why.
    pub notes: Vec<String>,
}

/// Whether a file that begins so holds fio's JSON.
pub fn looks_like_fio(bytes: &[u8]) -> bool {
    let key = b"\"fio version\"";
    let begin = bytes.iter().position(|byte| *byte == b'{');
    begin.is_some_and(|begin| bytes[begin..].windows(key.len()).any(|window| window == key))
}
