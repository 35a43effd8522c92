//! A fio job: which requests it makes, and when.
//!
//! # Scope and limits
//! fio's random numbers are other ones, so single requests differ; their distributions are the same.

use std::collections::VecDeque;
use std::ops::Range;

use seeklab_core::{
    Arrival, Completion, DescriptionError, Duration, Instant, Mistake, Operation, Request, Seed, Stream,
    Workload,
};
use seeklab_workloads::AddressSpace;
use serde::{Deserialize, Serialize};

use super::distribution::FioDistribution;
use super::requests::FioRequests;
use super::zones::FioZones;

/// Size of a request and its share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FioSize {
    /// Size in bytes.
    pub bytes: u64,
    /// Share of the requests of the direction, from 0 to 1.
    pub share: f64,
}

/// Arrivals of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum FioArrivals {
    /// So many outstanding; each next one after a completion and the think time.
    Closed {
        /// Requests outstanding.
        depth: u32,
        /// Time from a completion to the next request, with one outstanding.
        think: Duration,
        /// Reads, writes and trims from one think time to the next.
        #[serde(default = "one")]
        think_every: u64,
    },
    /// Rates of reads, and of the others. Each direction has its own, whatever the share of reads.
    Open {
        /// Bytes per second of each direction; zero of one that does not occur.
        bytes_per_s: [f64; 2],
        /// Exponential interarrival times instead of equal ones.
        is_poisson: bool,
    },
}

/// The requests of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FioLoad {
    /// Name of the job.
    pub name: String,
    /// Operation of the direction that writes: write, or discard of a job that trims. `None` of a job that only reads.
    pub other: Option<Operation>,
    /// Share of reads.
    pub read: f64,
    /// Offsets are random.
    pub is_random: bool,
    /// Popularity of random offsets; equal without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<FioDistribution>,
    /// Requests from one random offset to the next; those between follow one another.
    pub run: u64,
    /// Bytes from the end of a sequential request to the next.
    pub skip: i64,
    /// Sizes of reads, and of the others.
    pub sizes: [Vec<FioSize>; 2],
    /// Bytes to which random offsets of reads, and of the others, are aligned [default: the shortest size].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aligned_bytes: Option<[u64; 2]>,
    /// Zones with gaps between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<FioZones>,
    /// First byte.
    pub offset: u64,
    /// Bytes from there on; the rest of the target without.
    pub size: Option<u64>,
    /// Bytes to transfer in all [default: `size`].
    pub io_bytes: Option<u64>,
    /// Requests at most.
    pub requests: Option<u64>,
    /// Times that bytes and requests are multiplied with.
    #[serde(default = "one")]
    pub loops: u64,
    /// Bytes of the file, from its begin, where fio would have another one than the target [default: the target].
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// A pass ends when `size` bytes are issued. fio counts them only with engines that queue.
    #[serde(default)]
    pub ends_pass_by_bytes: bool,
    /// Each pass draws the same numbers (`randrepeat`).
    #[serde(default = "yes")]
    pub repeats_draws: bool,
    /// Draw every random offset alone, also if all sizes are equal.
    pub is_repeating: bool,
    /// Writes after which a flush follows.
    pub flush_every: Option<u64>,
    /// A flush follows the last write.
    pub flush_at_end: bool,
    /// Writes have force unit access.
    pub fua: bool,
    /// Arrivals.
    pub arrivals: FioArrivals,
    /// Time of the first request.
    pub start: Duration,
    /// Time after that at which the job ends.
    pub runtime: Option<Duration>,
    /// The job begins anew when all bytes are transferred, until the time is over.
    pub is_time_based: bool,
}

const fn one() -> u64 {
    1
}

const fn yes() -> bool {
    true
}

impl FioLoad {
    /// Requests outstanding of a closed job.
    pub const fn population(&self) -> Option<u32> {
        match self.arrivals {
            FioArrivals::Closed { depth, .. } => Some(depth),
            FioArrivals::Open { .. } => None,
        }
    }

    /// Size of the longest request.
    pub fn longest_bytes(&self) -> u64 {
        self.sizes.iter().flatten().map(|size| size.bytes).max().unwrap_or(0)
    }

    /// Blocks that the keys `offset` and `size` limit the writes of the job to. `None` without these keys.
    pub(in crate::bench) fn stated_blocks(&self, space: AddressSpace) -> Option<Range<u64>> {
        if self.offset == 0 && self.size.is_none() {
            return None;
        }
        let block = space.block_size.as_bytes();
        let capacity = space.capacity_blocks.saturating_mul(block);
        // Zones go on to the end of the file.
        let size = self.size.filter(|_| self.zones.is_none());
        let length = size.unwrap_or_else(|| capacity.saturating_sub(self.offset));
        // The last request of a job with one size may end beyond its bytes.
        let length = match self.sizes[1].as_slice() {
            [only] if self.skip == 0 => length.next_multiple_of(only.bytes.max(1)),
            [only] => length + only.bytes,
            _ => length,
        };
        let end = self.offset.saturating_add(length).div_ceil(block).min(space.capacity_blocks);
        Some(self.offset / block..end)
    }

    /// The workload on a target.
    ///
    /// # Errors
    /// Sizes or offsets that are no multiples of the block size, or beyond the end of the target.
    pub fn workload(&self, space: AddressSpace, seed: Seed) -> Result<FioWorkload, DescriptionError> {
        let block = space.block_size.as_bytes();
        let misfit = |key: &str, problem: String| DescriptionError::new(Mistake::DoesNotFit, key, problem);
        let whole = |key: &str, bytes: u64| match bytes.is_multiple_of(block) {
            true => Ok(()),
            false => {
                Err(misfit(key, format!("{bytes} is no multiple of the block size, {}", space.block_size)))
            }
        };
        for size in self.sizes.iter().flatten() {
            whole("bs", size.bytes)?;
        }
        for aligned in self.aligned_bytes.iter().flatten() {
            whole("blockalign", *aligned)?;
        }
        if let Some(FioZones { range_bytes, skip_bytes, .. }) = self.zones {
            whole("zonerange", range_bytes)?;
            whole("zoneskip", skip_bytes)?;
        }
        whole("offset", self.offset)?;
        whole("rw", self.skip.unsigned_abs())?;
        let capacity = space.capacity_blocks.saturating_mul(block);
        let length = self.size.unwrap_or_else(|| capacity.saturating_sub(self.offset));
        // The blocks that end within the target, as those of a file that was made for the job.
        let last = (self.offset + length).next_multiple_of(block);
        if length == 0 || last > capacity {
            let problem = format!(
                "bytes {} to {} lie beyond the end of the target, which has {capacity}",
                self.offset,
                self.offset + length,
            );
            return Err(misfit("size", problem));
        }
        let shortest = self.used_sizes().map(|size| size.bytes).min().unwrap_or(block);
        if shortest > length {
            return Err(misfit("bs", format!("{shortest} is larger than the {length} bytes of the job")));
        }
        let file_bytes = self.file_bytes.map_or(capacity, |bytes| bytes.min(capacity));
        Ok(FioWorkload {
            requests: FioRequests::new(self.clone(), block, length, file_bytes, seed),
            load: self.clone(),
            until: self.runtime.map(|runtime| Instant::ZERO + self.start + runtime),
            ready: match self.arrivals {
                FioArrivals::Closed { depth, .. } => (0..depth).map(|_| Instant::ZERO + self.start).collect(),
                FioArrivals::Open { .. } => VecDeque::new(),
            },
            ended: 0,
            next: [Instant::ZERO + self.start; 2],
            last: Instant::ZERO + self.start,
            arrival_stream: seed.stream("fio.arrival"),
        })
    }

    /// Returns true if fio would keep a map of the blocks that it has visited, and cut requests of other sizes that meet one.
    pub(in crate::bench) fn cuts_in_fio(&self) -> bool {
        let mut bytes = self.used_sizes().map(|size| size.bytes);
        let first = bytes.next();
        self.is_random
            && !self.is_repeating
            && self.distribution.is_none()
            && bytes.any(|other| Some(other) != first)
    }

    /// Sizes of the directions that occur.
    pub(super) fn used_sizes(&self) -> impl Iterator<Item = &FioSize> {
        let occurs = self.occurring_directions();
        self.sizes.iter().zip(occurs).filter(|(_, occurs)| *occurs).flat_map(|(sizes, _)| sizes)
    }
}

/// The requests of a job on a target, at their times.
#[derive(Debug, Clone)]
pub struct FioWorkload {
    requests: FioRequests,
    load: FioLoad,
    until: Option<Instant>,
    /// Times at which closed members are ready, in order.
    ready: VecDeque<Instant>,
    /// Reads, writes and trims of a closed job that have ended.
    ended: u64,
    /// Next arrival of each direction of an open job.
    next: [Instant; 2],
    /// Last arrival of an open job, which a flush follows at once.
    last: Instant,
    arrival_stream: Stream,
}

impl FioWorkload {
    /// Direction of the next request of an open job: the one that is due first. `None` of a closed job, which draws it.
    fn due_direction(&self) -> Option<usize> {
        let FioArrivals::Open { .. } = self.load.arrivals else { return None };
        let occurs = self.load.occurring_directions();
        (0..2).filter(|direction| occurs[*direction]).min_by_key(|direction| self.next[*direction])
    }

    fn open_arrival(&mut self, request: Request, direction: usize, now: Instant) -> Arrival {
        let is_flush = request.op == Operation::Flush;
        let due = if is_flush { self.last } else { self.next[direction] };
        if self.until.is_some_and(|until| due >= until) {
            return Arrival::Finished;
        }
        if due > now {
            return Arrival::At(due);
        }
        self.requests.pop();
        if !is_flush {
            let bytes = u64::from(request.blocks) * self.requests.block_bytes();
            self.next[direction] += self.load.gap(direction, bytes, &mut self.arrival_stream);
            self.last = due;
        }
        Arrival::Request(request)
    }
}

impl Workload for FioWorkload {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if self.until.is_some_and(|until| now >= until) {
            return Arrival::Finished;
        }
        let direction = self.due_direction();
        let Some(request) = self.requests.first(direction) else { return Arrival::Finished };
        if let Some(direction) = direction {
            return self.open_arrival(request, direction, now);
        }
        match self.ready.front() {
            None => Arrival::WaitForCompletion,
            Some(time) if self.until.is_some_and(|until| *time >= until) => Arrival::Finished,
            Some(time) if *time > now => Arrival::At(*time),
            Some(_) => {
                self.ready.pop_front();
                self.requests.pop();
                Arrival::Request(request)
            }
        }
    }

    fn completed(&mut self, completion: &Completion) {
        if let FioArrivals::Closed { think, think_every, .. } = self.load.arrivals {
            // A flush is followed by no think time, as in fio.
            let is_counted = completion.request.op != Operation::Flush;
            self.ended += u64::from(is_counted);
            let thinks = is_counted && self.ended.is_multiple_of(think_every);
            self.ready.push_back(completion.completed + if thinks { think } else { Duration::ZERO });
        }
    }

    fn announces_requests(&self) -> bool {
        true
    }

    fn heeds_completions(&self) -> bool {
        matches!(self.load.arrivals, FioArrivals::Closed { .. })
    }
}
