//! The description of a stream of jobs.

use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{ByteSize, DescriptionError, Duration, Seed};
use serde::{Deserialize, Serialize};

use super::file::Direction;
use super::states::{RateStates, SectorTimes};

/// A stream of jobs that compute while their buffers are written and read, as it is described.
///
/// ```toml
/// kind = "jobs"
/// multiprogramming = 2
/// buffer = 8
/// threshold = 4
/// reactivation = "end"
/// call_time = "7ms"
/// input = "5000/s:50%:45 + 38.76/s:50%:45"
/// output = "5000/s:50%:45 + 38.76/s:50%:45"
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsSpec {
    /// Jobs of the stream. A job begins when another one ends.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1), extend("x-unit" = "jobs"))]
    pub jobs: u32,
    /// Sectors that each job reads, and that it writes unless `output_cycles` has another number.
    #[serde(default = "thousand")]
    #[schemars(range(min = 0, max = 1_000_000_000), extend("x-unit" = "sectors"))]
    pub cycles: u64,
    /// Sectors that each job writes [default: `cycles`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000_000), extend("x-unit" = "sectors"))]
    pub output_cycles: Option<u64>,
    /// Jobs that are active at a time.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 10_000), extend("x-unit" = "jobs"))]
    pub multiprogramming: u32,
    /// Number of drives. Input files lie on the first, output files on the last.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 2), extend("x-unit" = "drives"))]
    pub drives: u16,
    /// Size of a sector, in whole blocks of the device.
    #[serde(default = "block")]
    #[schemars(extend("x-minimum" = "1B"))]
    pub sector: ByteSize,
    /// Size of a buffer. Each job has one for its input and one for its output.
    #[schemars(range(min = 1, max = 1_000_000), extend("x-unit" = "sectors"))]
    pub buffer: u32,
    /// Sectors filled (output) or free (input) at which a job calls the drive, at most `buffer` [default: half of
    /// `buffer`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-unit" = "sectors"))]
    pub threshold: Option<u32>,
    /// Moment at which a blocked job may run again.
    #[serde(default)]
    pub reactivation: Reactivation,
    /// Requests of a call.
    #[serde(default)]
    pub transfers: Transfers,
    /// Processor time of the system for each call. It does not delay the transfer.
    #[serde(default)]
    pub call_time: Duration,
    /// Processor time of the system for each sector. It does not delay the transfer.
    #[serde(default)]
    pub sector_time: Duration,
    /// Rate states of the input: sectors per second of processor time, share of the sectors, residence.
    pub input: RateStates,
    /// Rate states of the output.
    pub output: RateStates,
}

/// Moment at which a job may run again that was blocked by its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reactivation {
    /// At the end of the call.
    #[default]
    End,
    /// At the end of each sector.
    Sector,
}

/// Requests of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transfers {
    /// Sector after sector while the buffer has data, or room. The drive is held meanwhile.
    #[default]
    Chained,
    /// One request of what the buffer holds, or has room for, when the drive is free.
    SizedAtStart,
}

const fn one() -> u16 {
    1
}

const fn two() -> u32 {
    2
}

const fn twenty() -> u32 {
    20
}

const fn thousand() -> u64 {
    1000
}

const fn block() -> ByteSize {
    ByteSize::from_bytes(512)
}

impl JobsSpec {
    /// The threshold, half of the buffer by default.
    pub fn threshold(&self) -> u32 {
        self.threshold.unwrap_or_else(|| self.buffer.div_ceil(2))
    }

    /// Checks what ranges do not: the threshold, and the sums of shares.
    ///
    /// # Errors
    /// A quantity that no stream of jobs can have.
    pub fn check(&self) -> Result<(), DescriptionError> {
        check_ranges(self)?;
        if self.threshold() > self.buffer {
            let problem = format!("{} sectors are more than the buffer has", self.threshold());
            return Err(
                DescriptionError::invalid("threshold", problem).hint(format!("at most {}", self.buffer))
            );
        }
        if self.file_sectors(Direction::Input) + self.file_sectors(Direction::Output) == 0 {
            let problem = "no job reads or writes a sector".to_owned();
            return Err(
                DescriptionError::invalid("cycles", problem).hint("at least 1, or `output_cycles` is")
            );
        }
        self.input.check("input")?;
        self.output.check("output")
    }

    /// Sectors of a file of each job.
    pub fn file_sectors(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Input => self.cycles,
            Direction::Output => self.output_cycles.unwrap_or(self.cycles),
        }
    }

    /// Sectors of all jobs, input and output.
    pub fn sectors(&self) -> u64 {
        u64::from(self.jobs) * (self.file_sectors(Direction::Input) + self.file_sectors(Direction::Output))
    }

    /// Processor times of the sectors of a job: input, output. They depend on the seed alone.
    pub fn sector_times(&self, seed: Seed, job: u32) -> (SectorTimes, SectorTimes) {
        let times = |states, name: &str| SectorTimes::new(states, seed.stream(&format!("jobs.{job}.{name}")));
        (times(&self.input, "input"), times(&self.output, "output"))
    }

    /// Processor time of all jobs of a stream with that seed: each computes until the longer of its files is complete.
    pub fn processor_time(&self, seed: Seed) -> Duration {
        let sum = |mut times: SectorTimes, direction| -> Duration {
            (0..self.file_sectors(direction)).map(|_| times.next_time()).sum()
        };
        let of_job = |job| {
            let (input, output) = self.sector_times(seed, job);
            sum(input, Direction::Input).max(sum(output, Direction::Output))
        };
        (0..self.jobs).map(of_job).sum()
    }
}
