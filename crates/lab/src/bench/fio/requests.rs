//! The requests of a fio job, as fio chooses them.
//!
//! ```text
//! direction (rwmixread) ─▶ offset: next of the direction, or the next of a permutation ─▶ size (bs, bssplit)
//!                            └─▶ none: the pass ends; another one begins at the first byte, if bytes or loops are left
//! ```
//! # Scope and limits
//! A random offset comes from a permutation of the blocks (fio's random map) if all sizes are equal and places are equally popular,
//! otherwise each is drawn alone, as with `norandommap`.
//!
//! # References
//! fio 3.33. backend.c: keep_running, do_io, io_issue_bytes_exceeded. io_u.c: get_rw_ddir, fill_io_u, get_next_offset,
//! get_next_seq_offset, get_next_rand_block, get_next_buflen.

use seeklab_core::{Operation, Request, Seed, Stream};

use super::distribution::Sampler;
use super::load::FioLoad;
use super::zones::FioZones;

/// The requests of a job, one after another.
#[derive(Debug, Clone)]
pub(super) struct FioRequests {
    load: FioLoad,
    /// Bytes of a block of the target.
    block: u64,
    /// Bytes of the job from its offset on.
    length: u64,
    /// End of the file: no request goes beyond it.
    file_bytes: u64,
    /// Bytes to which random offsets of reads are aligned, and those of the others.
    units: [u64; 2],
    /// Bytes at the end of all at which no random request begins.
    margins: [u64; 2],
    /// First byte: of the zone, or of the job.
    base: u64,
    /// Bytes of the zone so far.
    zone_bytes: u64,
    /// Times that a zone has begun anew.
    zone_turns: u64,
    permutation: Option<Permutation>,
    /// Places that are not equally popular, with the numbers that they are drawn from in all passes.
    sampler: Option<(Sampler, Stream)>,
    seed: Seed,
    draws: Draws,
    /// The next request, if it is known.
    upcoming: Option<Request>,
    /// There is no other request.
    is_over: bool,
    /// Passes that may begin whatever was transferred.
    passes_left: u64,
    pass: Option<Pass>,
    /// The last pass ended because it had no further offset.
    is_file_done: bool,
    transferred: u64,
    /// Reads, writes and discards.
    issued: u64,
    writes: u64,
    /// Requests sent, flushes included.
    sent: u64,
}

/// State of a pass over the bytes of the job.
#[derive(Debug, Clone)]
struct Pass {
    bytes: u64,
    /// Next sequential byte of reads, and of the others, from the begin of the file.
    positions: [u64; 2],
    /// Requests that follow the last one before the next random offset.
    run_left: u64,
    /// Random offsets so far.
    drawn: u64,
    was_flushed: bool,
    is_ending: bool,
}

/// Random numbers that begin anew with each pass, unless `randrepeat=0`.
#[derive(Debug, Clone)]
struct Draws {
    direction: Stream,
    size: Stream,
    offset: Stream,
}

impl Draws {
    fn new(seed: Seed) -> Self {
        Self {
            direction: seed.stream("fio.direction"),
            size: seed.stream("fio.size"),
            offset: seed.stream("fio.offset"),
        }
    }
}

impl FioRequests {
    /// The requests of `load` to its `length` bytes of a file of `file_bytes`, on a target with blocks of that size.
    pub(super) fn new(load: FioLoad, block: u64, length: u64, file_bytes: u64, seed: Seed) -> Self {
        let used = || load.used_sizes().map(|size| size.bytes);
        let (shortest, longest) = (used().min().unwrap_or(block), used().max().unwrap_or(block));
        let smallest = [0, 1].map(|direction| {
            let sizes: &[super::load::FioSize] = &load.sizes[direction];
            sizes.iter().map(|size| size.bytes).min().unwrap_or(shortest).max(block)
        });
        let units = load.aligned_bytes.unwrap_or(smallest);
        let margins = [0, 1].map(|direction| smallest[direction].saturating_sub(units[direction]));
        let slots = load.zones.map_or(length.min(file_bytes), |zones| zones.range_bytes) / shortest;
        let distribution = load.distribution.as_ref().filter(|_| load.is_random);
        let is_mapped = longest == shortest && !load.is_repeating && distribution.is_none();
        let sampler = distribution.map(|of| {
            // fio's places have the size of the shortest request, of reads and writes alike.
            let place = load.sizes.iter().flatten().map(|size| size.bytes).min().unwrap_or(block).max(block);
            let mut stream = seed.stream("fio.popularity");
            (of.sampler(length.div_ceil(place), place, &mut stream), stream)
        });
        Self {
            block,
            length,
            file_bytes,
            units,
            margins,
            base: load.offset,
            zone_bytes: 0,
            zone_turns: 0,
            permutation: is_mapped.then(|| Permutation::new(slots, seed)),
            sampler,
            seed,
            draws: Draws::new(seed),
            upcoming: None,
            is_over: false,
            passes_left: load.loops,
            pass: None,
            is_file_done: false,
            transferred: 0,
            issued: 0,
            writes: 0,
            sent: 0,
            load,
        }
    }

    /// Bytes of a block of the target.
    pub(super) const fn block_bytes(&self) -> u64 {
        self.block
    }

    /// The next request, which stays the next one until [`pop`](Self::pop): of that direction, or of a drawn one. `None` at the
    /// end. Reads are direction 0.
    pub(super) fn first(&mut self, direction: Option<usize>) -> Option<Request> {
        if self.upcoming.is_none() && !self.is_over {
            self.upcoming = self.find(direction);
            self.is_over = self.upcoming.is_none();
        }
        self.upcoming
    }

    /// The first request was sent.
    pub(super) fn pop(&mut self) {
        self.upcoming = None;
    }

    fn find(&mut self, direction: Option<usize>) -> Option<Request> {
        loop {
            let Some(mut pass) = self.pass.take() else {
                if !self.goes_on() {
                    return None;
                }
                let positions = [self.base; 2];
                self.zone_bytes = 0;
                let (run_left, drawn) = (0, 0);
                if self.load.repeats_draws {
                    self.draws = Draws::new(self.seed);
                }
                let pass =
                    Pass { bytes: 0, positions, run_left, drawn, was_flushed: false, is_ending: false };
                (self.pass, self.is_file_done) = (Some(pass), false);
                continue;
            };
            if pass.is_ending {
                continue;
            }
            let request = match self.is_pass_over(&pass) {
                true => None,
                false => self.next_of(&mut pass, direction),
            };
            match request {
                None if self.load.flush_at_end && self.flushes() && !pass.was_flushed => {
                    pass.is_ending = true;
                    self.pass = Some(pass);
                    return Some(self.flush());
                }
                None if pass.bytes == 0 => return None,
                None => {}
                Some(request) => {
                    self.pass = Some(pass);
                    return Some(request);
                }
            }
        }
    }

    /// fio's `keep_running`: another pass begins.
    fn goes_on(&mut self) -> bool {
        if self.load.is_time_based {
            return true;
        }
        if self.passes_left > 0 {
            self.passes_left -= 1;
            return true;
        }
        if self.has_all_requests() {
            return false;
        }
        let left = self.load.io_bytes.unwrap_or(self.length).saturating_sub(self.transferred);
        let longest = self.load.used_sizes().map(|size| size.bytes).max().unwrap_or(self.block);
        left >= longest && (self.load.io_bytes.is_some() || !self.is_file_done)
    }

    /// fio's end of `do_io`.
    fn is_pass_over(&self, pass: &Pass) -> bool {
        if self.load.is_time_based {
            return false;
        }
        let bytes = self.load.io_bytes.unwrap_or(self.length).saturating_mul(self.load.loops);
        let io_bytes = match self.load.is_random && self.load.is_repeating && self.load.read < 1.0 {
            true => self.load.io_bytes.unwrap_or(0),
            false => 0,
        };
        let of_pass = self.length.max(io_bytes);
        self.transferred >= bytes
            || self.has_all_requests()
            || (self.load.ends_pass_by_bytes && pass.bytes >= of_pass)
    }

    fn has_all_requests(&self) -> bool {
        let requests = self.load.requests.map(|requests| requests.saturating_mul(self.load.loops));
        requests.is_some_and(|requests| self.issued >= requests)
    }

    /// The job writes, so it may flush.
    fn flushes(&self) -> bool {
        self.load.other == Some(Operation::Write) && self.load.read < 1.0
    }

    fn flush(&mut self) -> Request {
        self.sent += 1;
        Request::new(self.sent - 1, Operation::Flush, 0, 0)
    }

    /// The next request of a pass; `None` if there is no offset for it.
    fn next_of(&mut self, pass: &mut Pass, direction: Option<usize>) -> Option<Request> {
        let is_due = |every: u64| self.writes > 0 && self.writes.is_multiple_of(every);
        if !pass.was_flushed && self.flushes() && self.load.flush_every.is_some_and(is_due) {
            pass.was_flushed = true;
            return Some(self.flush());
        }
        let is_read = match (self.load.other, direction) {
            (None, _) => true,
            (Some(_), Some(direction)) => direction == 0,
            (Some(_), None) => self.load.read > 0.0 && self.draws.direction.chance(self.load.read),
        };
        let direction = usize::from(!is_read);
        let op = if is_read { Operation::Read } else { self.load.other.unwrap_or(Operation::Write) };
        self.enter_zone(pass, direction);
        let at = self.place(pass, direction).filter(|at| *at < self.length);
        let at = at.map(|at| at + self.base).filter(|at| *at < self.file_bytes);
        let sized = at.and_then(|at| Some((at, self.size(direction, at)?)));
        let Some((at, bytes)) = sized.filter(|(at, bytes)| at + bytes <= self.file_bytes) else {
            self.is_file_done = true;
            return None;
        };
        pass.positions[direction] = at + bytes;
        self.zone_bytes += bytes;
        pass.bytes = pass.bytes.saturating_add(bytes);
        pass.was_flushed = false;
        self.transferred = self.transferred.saturating_add(bytes);
        self.issued += 1;
        let is_write = op == Operation::Write;
        self.writes += u64::from(is_write);
        self.sent += 1;
        let request = Request::new(self.sent - 1, op, at / self.block, (bytes / self.block) as u32);
        Some(Request { fua: is_write && self.load.fua, ..request })
    }

    /// fio's `setup_strided_zone_mode`.
    fn enter_zone(&mut self, pass: &mut Pass, direction: usize) {
        let Some(FioZones { bytes, range_bytes, skip_bytes }) = self.load.zones else { return };
        if self.zone_bytes >= bytes {
            self.zone_bytes = 0;
            self.base += range_bytes + skip_bytes;
            if self.base >= self.file_bytes {
                self.base = self.load.offset;
            }
            pass.positions[direction] = self.base;
        }
        if pass.positions[direction] >= self.base + range_bytes {
            pass.positions[direction] = self.base;
        }
        if self.zone_bytes.is_multiple_of(range_bytes) {
            pass.positions = [self.base; 2];
            pass.drawn = 0;
            self.zone_turns += 1;
        }
    }

    /// Size of a request at that byte. If all sizes are one, it may end beyond the bytes of the job.
    fn size(&mut self, direction: usize, at: u64) -> Option<u64> {
        let sizes = &self.load.sizes[direction];
        let end = self.load.offset + self.length;
        if let [only] = sizes.as_slice() {
            return Some(only.bytes);
        }
        let fits = |bytes: u64| at + bytes <= end;
        if !sizes.iter().any(|size| size.share > 0.0 && fits(size.bytes)) {
            return None;
        }
        // fio draws again until the size fits.
        loop {
            let unit = self.draws.size.unit();
            let mut sum = 0.0;
            for size in sizes {
                sum += size.share;
                if unit < sum && fits(size.bytes) {
                    return Some(size.bytes);
                }
            }
        }
    }

    /// Begin of a request, in bytes from the offset of the job.
    fn place(&mut self, pass: &mut Pass, direction: usize) -> Option<u64> {
        if !self.load.is_random {
            return self.sequential(pass, direction);
        }
        if pass.run_left > 0 {
            pass.run_left -= 1;
            let next = self.sequential(pass, direction);
            return next.or_else(|| self.random(pass, direction));
        }
        pass.run_left = self.load.run.saturating_sub(1);
        self.random(pass, direction)
    }

    fn random(&mut self, pass: &mut Pass, direction: usize) -> Option<u64> {
        let unit = self.units[direction];
        let span = self.load.zones.map_or(self.length.min(self.file_bytes), |zones| zones.range_bytes);
        let slots = span.saturating_sub(self.margins[direction]) / unit;
        if slots == 0 {
            return None;
        }
        let slot = match (&self.permutation, &mut self.sampler) {
            // Every block was visited. A job with a time begins anew.
            (Some(_), _) if pass.drawn >= slots && !self.load.is_time_based => return None,
            (Some(permutation), _) => {
                permutation.at(self.zone_turns + pass.drawn / slots, pass.drawn % slots)
            }
            (None, Some((sampler, stream))) => sampler.draw(stream) % slots,
            (None, None) => self.draws.offset.below(slots),
        };
        pass.drawn += 1;
        Some(slot * unit)
    }

    /// fio's `get_next_seq_offset`, in whose arithmetic a position before the first byte is one far behind the last.
    fn sequential(&self, pass: &mut Pass, direction: usize) -> Option<u64> {
        let (first, skip) = (self.base, self.load.skip);
        let position = &mut pass.positions[direction];
        if self.load.is_time_based && *position >= self.length + self.load.offset {
            *position = first;
        }
        if *position >= self.file_bytes {
            return None;
        }
        let end = self.length.min(self.file_bytes);
        if *position == first && first > 0 && skip < 0 {
            *position = end;
        }
        let mut at = position.wrapping_sub(first);
        if at > 0 && skip != 0 {
            at = at.wrapping_add_signed(skip);
            if at >= self.file_bytes {
                at = if skip > 0 { first } else { end.wrapping_add_signed(skip) };
            }
        }
        Some(at)
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
