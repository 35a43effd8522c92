//! The requests of a fio job, as fio chooses them.
//!
//! ```text
//! direction (rwmixread) ─▶ size (bs, bssplit) ─▶ offset: next of the direction, or the next of a permutation
//! ```
//! # Scope and limits
//! fio's random numbers are other ones, so single requests differ; their distributions are the same. A random offset comes from a
//! permutation of the blocks (fio's random map) if all sizes are equal and places are equally popular, otherwise each is drawn alone,
//! as with `norandommap`.
//!
//! # References
//! fio 3.33, io_u.c: get_rw_ddir, get_next_buflen, get_next_seq_offset, get_next_rand_offset.

use std::collections::VecDeque;

use seeklab_core::{
    Arrival, Completion, DescriptionError, Duration, Instant, Mistake, Operation, Request, Seed, Stream,
    Workload,
};
use seeklab_workloads::AddressSpace;
use serde::{Deserialize, Serialize};

use super::distribution::{FioDistribution, Sampler};

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
    },
    /// A rate per second.
    Open {
        /// Requests per second.
        per_s: f64,
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
    /// First byte.
    pub offset: u64,
    /// Bytes from there on; the rest of the target without.
    pub size: Option<u64>,
    /// Bytes to transfer in all [default: `size`].
    pub io_bytes: Option<u64>,
    /// Requests at most.
    pub requests: Option<u64>,
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

    /// The workload on a target.
    ///
    /// # Errors
    /// Sizes or offsets that are no multiples of the block size, or beyond the end of the target.
    pub fn workload(&self, space: AddressSpace, seed: Seed) -> Result<FioWorkload, DescriptionError> {
        let block = space.block_size.as_bytes();
        let misfit = |key: &str, problem: String| DescriptionError::new(Mistake::DoesNotFit, key, problem);
        let whole = |key: &str, bytes: u64| {
            let problem = || format!("{bytes} is no multiple of the block size, {}", space.block_size);
            if bytes.is_multiple_of(block) { Ok(bytes / block) } else { Err(misfit(key, problem())) }
        };
        for size in self.sizes.iter().flatten() {
            whole("bs", size.bytes)?;
        }
        let first = whole("offset", self.offset)?;
        let capacity = space.capacity_blocks;
        let length = match self.size {
            Some(size) => size / block,
            None => capacity.saturating_sub(first),
        };
        if length == 0 || first + length > capacity {
            let problem = format!(
                "bytes {} to {} lie beyond the end of the target, which has {}",
                self.offset,
                (first + length) * block,
                capacity * block
            );
            return Err(misfit("size", problem));
        }
        let used = || self.used_sizes();
        let longest = used().map(|size| size.bytes).max().unwrap_or(block);
        let shortest = used().map(|size| size.bytes).min().unwrap_or(block);
        if longest / block > length {
            return Err(misfit(
                "bs",
                format!("{longest} is larger than the {} bytes of the job", length * block),
            ));
        }
        let slots = length / (shortest / block);
        let mut offset_stream = seed.stream("fio.offset");
        // fio's places have the size of the shortest request, of reads and writes alike.
        let place_bytes = self.sizes.iter().flatten().map(|size| size.bytes).min().unwrap_or(block);
        let places = (length * block).div_ceil(place_bytes);
        let distribution = self.distribution.as_ref().filter(|_| self.is_random);
        let is_uniform = distribution.is_none();
        let one_pass = self.io_bytes.unwrap_or(length * block);
        Ok(FioWorkload {
            block,
            first,
            length,
            slots: [0, 1].map(|direction| {
                let sizes = self.sizes[direction].iter().map(|size| size.bytes);
                (sizes.min().unwrap_or(shortest) / block).max(1)
            }),
            permutation: (longest == shortest && !self.is_repeating && is_uniform)
                .then(|| Permutation::new(slots, seed)),
            sampler: distribution.map(|of| of.sampler(places, place_bytes, &mut offset_stream)),
            drawn: 0,
            positions: [0; 2],
            run_left: 0,
            transferred: 0,
            bytes: if self.is_time_based { u64::MAX } else { one_pass },
            sent: 0,
            issued: 0,
            writes: 0,
            until: self.runtime.map(|runtime| Instant::ZERO + self.start + runtime),
            ready: match self.arrivals {
                FioArrivals::Closed { depth, .. } => (0..depth).map(|_| Instant::ZERO + self.start).collect(),
                FioArrivals::Open { .. } => VecDeque::new(),
            },
            next: Instant::ZERO + self.start,
            direction_stream: seed.stream("fio.direction"),
            size_stream: seed.stream("fio.size"),
            offset_stream,
            arrival_stream: seed.stream("fio.arrival"),
            load: self.clone(),
        })
    }

    /// Sizes of the directions that occur.
    fn used_sizes(&self) -> impl Iterator<Item = &FioSize> {
        let occurs = [self.read > 0.0, self.read < 1.0];
        self.sizes.iter().zip(occurs).filter(|(_, occurs)| *occurs).flat_map(|(sizes, _)| sizes)
    }
}

/// The requests of a job on a target.
#[derive(Debug, Clone)]
pub struct FioWorkload {
    load: FioLoad,
    /// Bytes of a block.
    block: u64,
    /// Blocks of the job.
    first: u64,
    length: u64,
    /// Blocks to which random offsets of reads are aligned, and those of the others.
    slots: [u64; 2],
    permutation: Option<Permutation>,
    /// Places that are not equally popular.
    sampler: Option<Sampler>,
    drawn: u64,
    /// Next sequential block of reads, and of the others, from the first one.
    positions: [u64; 2],
    /// Requests that follow the last one before the next random offset.
    run_left: u64,
    transferred: u64,
    /// Bytes to transfer.
    bytes: u64,
    /// Requests sent, flushes included.
    sent: u64,
    issued: u64,
    /// Writes since the last flush.
    writes: u64,
    until: Option<Instant>,
    /// Times at which closed members are ready, in order.
    ready: VecDeque<Instant>,
    /// Next arrival of an open job.
    next: Instant,
    direction_stream: Stream,
    size_stream: Stream,
    offset_stream: Stream,
    arrival_stream: Stream,
}

impl FioWorkload {
    fn is_over(&self, now: Instant) -> bool {
        let is_flushed = !self.load.flush_at_end || self.writes == 0;
        let is_transferred = self.transferred >= self.bytes
            || self.load.requests.is_some_and(|requests| self.issued >= requests);
        self.until.is_some_and(|until| now >= until) || (is_transferred && is_flushed)
    }

    fn draw(&mut self) -> Request {
        let number = self.sent;
        self.sent += 1;
        let is_transferred = self.transferred >= self.bytes
            || self.load.requests.is_some_and(|requests| self.issued >= requests);
        if is_transferred || self.load.flush_every.is_some_and(|writes| self.writes >= writes) {
            self.writes = 0;
            // A flush is no request of `number_ios`.
            return Request::new(number, Operation::Flush, 0, 0);
        }
        let is_read = match self.load.other {
            None => true,
            Some(_) => self.load.read > 0.0 && self.direction_stream.chance(self.load.read),
        };
        let direction = usize::from(!is_read);
        let op = if is_read { Operation::Read } else { self.load.other.unwrap_or(Operation::Write) };
        let mut blocks = self.size(direction);
        let mut at = self.place(direction, blocks);
        // fio draws the size again until the request fits behind its offset.
        for _ in 0..64 {
            if at + blocks <= self.length {
                break;
            }
            blocks = self.size(direction);
        }
        if at + blocks > self.length {
            at = self.length - blocks;
        }
        self.positions[direction] = at + blocks;
        self.issued += 1;
        self.transferred = self.transferred.saturating_add(blocks * self.block);
        let is_write = op == Operation::Write;
        self.writes += u64::from(is_write);
        let request = Request::new(number, op, self.first + at, blocks as u32);
        Request { fua: is_write && self.load.fua, ..request }
    }

    fn size(&mut self, direction: usize) -> u64 {
        let sizes = &self.load.sizes[direction];
        let mut unit = if sizes.len() > 1 { self.size_stream.unit() } else { 0.0 };
        let mut bytes = sizes.last().map_or(self.block, |size| size.bytes);
        for size in sizes {
            if unit < size.share {
                bytes = size.bytes;
                break;
            }
            unit -= size.share;
        }
        bytes / self.block
    }

    /// Begin of a request, in blocks of the job.
    fn place(&mut self, direction: usize, blocks: u64) -> u64 {
        if !self.load.is_random || self.run_left > 0 {
            self.run_left = self.run_left.saturating_sub(1);
            return self.next_of(direction, blocks);
        }
        self.run_left = self.load.run.saturating_sub(1);
        let slot_blocks = self.slots[direction];
        let slots = self.length / slot_blocks;
        let slot = match (&self.permutation, &self.sampler) {
            (Some(permutation), _) => permutation.at(self.drawn / slots, self.drawn % slots),
            (None, Some(sampler)) => sampler.draw(&mut self.offset_stream) % slots,
            (None, None) => self.offset_stream.below(slots),
        };
        self.drawn += 1;
        slot * slot_blocks
    }

    fn next_of(&self, direction: usize, blocks: u64) -> u64 {
        let position = self.positions[direction];
        let skip = self.load.skip / self.block as i64;
        // fio applies the distance from the second request on, also backwards.
        let at = if position == 0 { 0 } else { position as i64 + skip };
        match u64::try_from(at) {
            Ok(at) if at + blocks <= self.length => at,
            Ok(_) => 0,
            Err(_) => self.length.saturating_add_signed(skip),
        }
    }
}

impl Workload for FioWorkload {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if self.is_over(now) {
            return Arrival::Finished;
        }
        match self.load.arrivals {
            FioArrivals::Closed { .. } => match self.ready.front() {
                None => Arrival::WaitForCompletion,
                Some(time) if self.until.is_some_and(|until| *time >= until) => Arrival::Finished,
                Some(time) if *time > now => Arrival::At(*time),
                Some(_) => {
                    self.ready.pop_front();
                    Arrival::Request(self.draw())
                }
            },
            FioArrivals::Open { per_s, is_poisson } => {
                if self.until.is_some_and(|until| self.next >= until) {
                    return Arrival::Finished;
                }
                if self.next > now {
                    return Arrival::At(self.next);
                }
                let mean = Duration::from_ns_f64(1e9 / per_s);
                let gap = if is_poisson { self.arrival_stream.exponential(mean) } else { mean };
                self.next += gap;
                Arrival::Request(self.draw())
            }
        }
    }

    fn completed(&mut self, completion: &Completion) {
        if let FioArrivals::Closed { think, .. } = self.load.arrivals {
            self.ready.push_back(completion.completed + think);
        }
    }

    fn heeds_completions(&self) -> bool {
        self.load.population().is_some()
    }
}

/// An order in which every block occurs once, without memory of those that occurred: a Feistel network, walked until it stays
/// below the number of blocks.
#[derive(Debug, Clone)]
struct Permutation {
    blocks: u64,
    half_bits: u32,
    seed: Seed,
}

impl Permutation {
    fn new(blocks: u64, seed: Seed) -> Self {
        let bits = u64::BITS - blocks.max(2).saturating_sub(1).leading_zeros();
        Self { blocks, half_bits: bits.div_ceil(2), seed }
    }

    /// The block at a place of the order of a pass.
    fn at(&self, pass: u64, place: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut value = place;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for round in 0..4 {
                let mixed = mix(right ^ mix(self.seed.0 ^ mix(pass.wrapping_mul(4) + round)));
                (left, right) = (right, left ^ (mixed & mask));
            }
            value = left << self.half_bits | right;
            if value < self.blocks {
                return value;
            }
        }
    }
}

/// The finalizer of SplitMix64.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_occurs_once_in_a_pass_and_passes_differ() {
        for blocks in [1, 2, 3, 64, 1000, 4097] {
            let permutation = Permutation::new(blocks, Seed(3));
            let pass = |pass| (0..blocks).map(|place| permutation.at(pass, place)).collect::<Vec<u64>>();
            let mut sorted = pass(0);
            sorted.sort_unstable();
            assert_eq!(sorted, (0..blocks).collect::<Vec<u64>>());
            assert!(blocks < 64 || pass(0) != pass(1));
        }
    }
}
