//! Warm-up of a device: the time at the start of a trace in which it is slower than later, under similar conditions.
//!
//! ```text
//! requests ─▶ Settling: some of each of up to 128 bins of time ─▶ WarmUp, if there is one
//!                                                                    └▶ Settled: a fit to what comes after it
//! ```
//! # Method
//! Response times are compared by their logarithms, each with the mean of the others of its class: operation, force unit access, place (a 64th of
//! the addresses), queue length, and by doublings length, seek distance and requests since the one that it continues. So most changes of the load are none of the device. Of the times at
//! which the warm-up may end, up to the half, the marginal standard error rule \[White97\] chooses the one after
//! which the standard error of the mean of the rest, by batches, is least.
//!
//! A limit or a full buffer makes a device slow by what it was given before. So a stretch of the rest, as long as the warm-up, must have
//! been given as many requests, reads, bytes and written bytes, and be faster all the same.
//!
//! # Scope and limits
//! Only a slow start is a warm-up: cold caches, or a machine that is still busy with something else. A fast one is
//! the property of a device: credits of a limit, an empty buffer. Work that began before the trace is part of a warm-up, as is a
//! load that changes within a class.
//!
//! # References
//! \[White97\]: K. P. White, An effective truncation heuristic for bias reduction in simulation output, Simulation 69(6), 1997.

use std::collections::BTreeMap;
use std::ops::Range;

use seeklab_core::{ByteSize, Duration, Instant, Operation, TraceRecord};
use seeklab_devices::table::Classes;
use seeklab_devices::table::parts::{Class, Distance, distance, place};
use toml::Table;

use crate::backlog::Backlog;
use crate::error::Error;
use crate::fit::{DeviceInfo, Fit, FitSummary, LeftOut};
use crate::stop::StopCheck;

/// Bins of time, at most. There are at least half as many after the first of them.
const BINS: usize = 128;

/// Requests of a bin that are compared, at most.
const KEPT: usize = 1_024;

/// Requests that are kept of all devices of a trace, at most: 24 MiB of them. So a bin of each of up to 16 devices has `KEPT`.
const KEPT_OF_ALL: usize = 16 * BINS * KEPT;

/// Requests by which the queue length is known again after others were skipped.
const QUEUE_REQUESTS: u32 = 64;

/// Bins of the fitted part from which on a warm-up is looked for.
const BINS_MIN: usize = 16;

/// Share of the requests, and their number, from which on an operation is compared.
const COMPARED_SHARE: f64 = 0.01;
const COMPARED_MIN: f64 = 100.0;

/// Ratio of response times during and after a warm-up, at least: the geometric mean over the operations.
const SLOWER_MIN: f64 = 1.25;

/// Ratio of response times of each operation, at least.
const EACH_SLOWER_MIN: f64 = 1.1;

/// Squared standard error of the mean without the warm-up, at most, as a share of that with it.
const ERROR_SHARE_MAX: f64 = 0.8;

/// Load of a stretch after a warm-up, at least, as a share of the load in the warm-up: less by no more than chance.
const LOAD_SHARE_MIN: f64 = 0.95;

/// The classes of requests that are compared with each other.
const CLASSES: Classes = Classes { lengths_per_octave: 1, queues_per_octave: 4, distances_per_octave: 1 };

/// Places of a device that are compared each with itself.
const PLACES: f32 = 64.0;

/// Requests that one may continue: sequential streams that take turns.
const CONTINUED: usize = 32;

/// Doublings of the requests since the one that is continued.
const SINCE: u32 = CONTINUED.ilog2() + 1;

/// Steps of a compared time for each doubling.
const STEPS: f32 = 256.0;

/// A slow start of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct WarmUp {
    /// Its end: requests that arrive earlier belong to it.
    pub end: Instant,
    /// Response times of the compared operations during it, as multiples of those after it in the same classes, in the order of
    /// the operations.
    pub slower: Vec<(Operation, f64)>,
}

/// Requests of one device by which a warm-up is found, taken in order of arrival.
#[derive(Debug, Clone)]
pub(crate) struct Settling {
    is_from_issue: bool,
    begin: Option<Instant>,
    bin_ns: u64,
    bins: Vec<Bin>,
    backlog: Backlog,
    before: Before,
    /// Requests still to come until the queue length is known.
    queue_unknown: u32,
    /// Requests that a bin keeps, at most.
    kept_max: usize,
}

/// Returns the requests that a bin of each of so many devices keeps, at most: a power of two.
pub(crate) fn kept_of_each(devices: usize) -> usize {
    let most = (KEPT_OF_ALL / BINS / devices.max(1)).clamp(1, KEPT);
    1 << most.ilog2()
}

impl Settling {
    /// Nothing so far. A bin keeps at most `kept_max` requests. Their times are from the issue, if that is wanted and known, or from the arrival.
    pub(crate) fn new(kept_max: usize, is_from_issue: bool) -> Self {
        Self {
            is_from_issue,
            begin: None,
            bin_ns: 1,
            bins: vec![Bin::default(); BINS],
            backlog: Backlog::default(),
            before: Before::default(),
            queue_unknown: 0,
            kept_max,
        }
    }

    /// Lets a bin keep at most `kept_max` requests from now on.
    pub(crate) fn limit(&mut self, kept_max: usize) {
        self.kept_max = kept_max;
        for bin in &mut self.bins {
            while bin.kept.len() > kept_max {
                bin.halve();
            }
            bin.kept.shrink_to(kept_max);
        }
    }

    /// Takes one request in.
    pub(crate) fn record(&mut self, record: &TraceRecord) {
        let Some(completion) = record.completion else { return };
        let begin = *self.begin.get_or_insert(record.arrival);
        let since_ns = record.arrival.saturating_since(begin).as_ns();
        while since_ns / self.bin_ns >= BINS as u64 {
            self.widen();
        }
        let bin = &mut self.bins[(since_ns / self.bin_ns) as usize];
        bin.load.add(record);
        if bin.kept.len() >= self.kept_max {
            self.queue_unknown = QUEUE_REQUESTS;
            return;
        }
        if self.queue_unknown == QUEUE_REQUESTS {
            self.backlog = Backlog::default();
        }
        let queue_length = self.backlog.at(record.arrival);
        self.backlog.push(completion);
        let (distance, since) = self.before.distance(record);
        if self.queue_unknown > 0 {
            self.queue_unknown -= 1;
        } else if record.status.is_success() {
            let begin = record.issue.filter(|_| self.is_from_issue).unwrap_or(record.arrival);
            let time = completion.saturating_since(begin);
            let class = CLASSES.of(record.blocks, queue_length, distance);
            bin.kept.push(Kept::new(record, class, since, time));
        }
    }

    /// Makes one bin of two.
    fn widen(&mut self) {
        for pair in 0..BINS / 2 {
            let [first, second] = [2 * pair, 2 * pair + 1].map(|index| std::mem::take(&mut self.bins[index]));
            self.bins[pair] = first.joined(second, self.kept_max);
        }
        self.bin_ns *= 2;
    }

    /// Returns the warm-up of the requests that arrive before a time.
    pub(crate) fn warm_up(&self, until: Instant) -> Option<WarmUp> {
        let begin = self.begin?;
        let count = (until.saturating_since(begin).as_ns() / self.bin_ns).min(BINS as u64) as usize;
        let count = self.bins[..count].iter().rposition(|bin| !bin.kept.is_empty())? + 1;
        if count < BINS_MIN {
            return None;
        }
        let bins = &self.bins[..count];
        let operations = compared(bins);
        // The squared standard errors over all operations, of each end.
        let mut errors = vec![0.0; count / 2 + 1];
        for (_, bins) in &operations {
            let with = squared_error(bins);
            for (end, error) in errors.iter_mut().enumerate() {
                let share = if with > 0.0 { squared_error(&bins[end..]) / with } else { 1.0 };
                *error += share / operations.len() as f64;
            }
        }
        let (end, error) = errors.iter().enumerate().min_by(|one, other| one.1.total_cmp(other.1))?;
        // Its last bin may hold requests of both.
        let during = 0..end.saturating_sub(1).max(1).min(end);
        let slower = doublings_between(&operations, during.clone(), end..count);
        let starts_slow = are_slower(&slower) && slower.iter().all(|(_, of)| *of >= EACH_SLOWER_MIN.log2());
        // As much was given later, in as long a time, and took less.
        let given = load(&bins[..end]);
        let is_matched = |later: Range<usize>| {
            load(&bins[later.clone()]).is_at_least(given)
                && are_slower(&doublings_between(&operations, during.clone(), later))
        };
        let is_faster_later = (end..=count - end).any(|start| is_matched(start..start + end));
        (starts_slow && is_faster_later && *error <= ERROR_SHARE_MAX).then(|| WarmUp {
            end: begin + Duration::from_ns(self.bin_ns * end as u64),
            slower: slower.into_iter().map(|(op, doublings)| (op, doublings.exp2())).collect(),
        })
    }
}

/// Requests that came last.
#[derive(Debug, Clone)]
struct Before {
    last: Option<(u64, u64)>,
    ends: [u64; CONTINUED],
    next: usize,
}

impl Default for Before {
    fn default() -> Self {
        Self { last: None, ends: [u64::MAX; CONTINUED], next: 0 }
    }
}

impl Before {
    /// The distance of the next request: from the last, unless it continues another; and the doublings of the requests since that one.
    fn distance(&mut self, record: &TraceRecord) -> (Distance, u32) {
        let addresses = record.op.addresses_blocks();
        let continued = (1..=CONTINUED)
            .find(|since| addresses && self.ends[(self.next + CONTINUED - since) % CONTINUED] == record.lbn);
        let distance = match continued {
            Some(since) => (Distance::Sequential, since.ilog2()),
            None => (distance(record.lbn, addresses, self.last), 0),
        };
        if addresses {
            let end = record.lbn.saturating_add(u64::from(record.blocks));
            self.last = Some((record.lbn, end));
            self.ends[self.next] = end;
            self.next = (self.next + 1) % CONTINUED;
        }
        distance
    }
}

/// Load of a device in some time.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    requests: u64,
    reads: u64,
    blocks: u64,
    written: u64,
}

impl Load {
    fn add(&mut self, record: &TraceRecord) {
        let blocks = if record.op.addresses_blocks() { u64::from(record.blocks) } else { 0 };
        self.requests += 1;
        self.reads += u64::from(record.op == Operation::Read);
        self.blocks = self.blocks.saturating_add(blocks);
        if record.op == Operation::Write {
            self.written = self.written.saturating_add(blocks);
        }
    }

    fn joined(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            reads: self.reads + other.reads,
            blocks: self.blocks.saturating_add(other.blocks),
            written: self.written.saturating_add(other.written),
        }
    }

    /// True if it is as much as another, or less by no more than chance.
    fn is_at_least(self, other: Self) -> bool {
        let of = |load: Self| [load.requests, load.reads, load.blocks, load.written];
        of(self).iter().zip(of(other)).all(|(here, there)| *here as f64 >= LOAD_SHARE_MIN * there as f64)
    }
}

/// A request that is compared.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// Operation, force unit access, requests since the continued one, length, queue length and distance.
    class: u32,
    /// Its address, where the operation has one.
    lbn: f32,
    /// Logarithm of its time, in steps.
    time: u16,
}

impl Kept {
    fn new(record: &TraceRecord, class: Class, since: u32, time: Duration) -> Self {
        let counts = CLASSES.counts();
        let kind = SINCE * (2 * record.op as u32 + u32::from(record.fua)) + since;
        Self {
            class: kind * counts.iter().product::<u32>() + place(counts, class) as u32,
            lbn: if record.op.addresses_blocks() { record.lbn as f32 } else { 0.0 },
            time: (STEPS * (time.as_ns().max(1) as f32).log2()) as u16,
        }
    }

    fn operation(self) -> usize {
        (self.class / CLASSES.counts().iter().product::<u32>() / (2 * SINCE)) as usize
    }
}

/// Requests of some time.
#[derive(Debug, Clone, Default)]
struct Bin {
    load: Load,
    /// Requests that are compared, which stand for the others.
    kept: Vec<Kept>,
}

impl Bin {
    /// Keeps every other request.
    fn halve(&mut self) {
        let mut is_kept = true;
        self.kept.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
    }

    /// One bin of two.
    fn joined(mut self, mut next: Self, kept_max: usize) -> Self {
        // Those of both stand for equally many, about.
        while self.kept.len() + next.kept.len() > kept_max {
            if self.weight() <= next.weight() {
                self.halve();
            } else {
                next.halve();
            }
        }
        self.kept.append(&mut next.kept);
        Self { load: self.load.joined(next.load), kept: self.kept }
    }

    /// Number of requests for which one that is kept stands.
    fn weight(&self) -> f64 {
        self.load.requests as f64 / self.kept.len().max(1) as f64
    }
}

/// Load of the device in several bins.
fn load(bins: &[Bin]) -> Load {
    bins.iter().fold(Load::default(), |sum, bin| sum.joined(bin.load))
}

/// Number and sum of compared times.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: f64,
    sum: f64,
}

impl Sum {
    fn add(&mut self, time: f64, weight: f64) {
        self.count += weight;
        self.sum += weight * time;
    }

    /// The sum without one of its times.
    fn without(self, time: f64, weight: f64) -> Self {
        Self { count: self.count - weight, sum: self.sum - weight * time }
    }
}

/// For each operation that is compared, the times of each bin, less the means of the others of their classes.
fn compared(bins: &[Bin]) -> Vec<(Operation, Vec<Sum>)> {
    let all = || bins.iter().flat_map(|bin| &bin.kept).map(|kept| kept.lbn);
    let (least, most) = all().fold((f32::MAX, 0.0_f32), |(least, most), lbn| (least.min(lbn), most.max(lbn)));
    let part = (most - least).max(1.0) / PLACES;
    let class_of = |kept: &Kept| (kept.class, ((kept.lbn - least) / part) as u8);
    let mut classes: BTreeMap<(u32, u8), Sum> = BTreeMap::new();
    for bin in bins {
        let weight = bin.weight();
        for kept in &bin.kept {
            classes.entry(class_of(kept)).or_default().add(f64::from(kept.time), weight);
        }
    }
    let mut operations: Vec<(Operation, Vec<Sum>)> =
        Operation::ALL.into_iter().map(|op| (op, vec![Sum::default(); bins.len()])).collect();
    for (index, bin) in bins.iter().enumerate() {
        let weight = bin.weight();
        for kept in &bin.kept {
            // Those of a class that has one request say nothing.
            let others = classes[&class_of(kept)].without(f64::from(kept.time), weight);
            if others.count > 0.5 * weight {
                let sum = &mut operations[kept.operation()].1[index];
                sum.add(f64::from(kept.time) - others.sum / others.count, weight);
            }
        }
    }
    let count = |bins: &[Sum]| bins.iter().map(|bin| bin.count).sum::<f64>();
    let all: f64 = operations.iter().map(|(_, bins)| count(bins)).sum();
    operations.retain(|(_, bins)| count(bins) >= (COMPARED_SHARE * all).max(COMPARED_MIN));
    operations
}

/// Doublings by which times of each operation are longer in some bins than in others; without operations that have none in either.
fn doublings_between(
    operations: &[(Operation, Vec<Sum>)],
    during: Range<usize>,
    after: Range<usize>,
) -> Vec<(Operation, f64)> {
    let of = |(op, bins): &(Operation, Vec<Sum>)| {
        let (during, after) = (mean(&bins[during.clone()])?, mean(&bins[after.clone()])?);
        Some((*op, (during - after) / f64::from(STEPS)))
    };
    operations.iter().filter_map(of).collect()
}

/// True if operations are slower on average, by what makes a warm-up.
fn are_slower(slower: &[(Operation, f64)]) -> bool {
    let doublings = slower.iter().map(|(_, doublings)| doublings).sum::<f64>() / slower.len() as f64;
    doublings >= SLOWER_MIN.log2()
}

/// The mean of several bins; `None` without requests.
fn mean(bins: &[Sum]) -> Option<f64> {
    let count: f64 = bins.iter().map(|bin| bin.count).sum();
    (count > 0.0).then(|| bins.iter().map(|bin| bin.sum).sum::<f64>() / count)
}

/// The squared standard error of the mean of several bins, by their variation; infinite if fewer than two have requests.
fn squared_error(bins: &[Sum]) -> f64 {
    let filled = || bins.iter().filter(|bin| bin.count > 0.0);
    let Some(mean) = mean(bins).filter(|_| filled().count() > 1) else { return f64::INFINITY };
    let count: f64 = filled().map(|bin| bin.count).sum();
    filled().map(|bin| bin.count * (bin.sum / bin.count - mean).powi(2)).sum::<f64>() / (count * count)
}

/// A fit to the requests that arrive after a warm-up.
pub struct Settled {
    fit: Box<dyn Fit>,
    from: Instant,
}

impl Settled {
    /// A fit to the requests that arrive from that time on.
    pub fn new(fit: Box<dyn Fit>, from: Instant) -> Self {
        Self { fit, from }
    }
}

impl Fit for Settled {
    fn record(&mut self, record: &TraceRecord) {
        if record.arrival >= self.from {
            self.fit.record(record);
        }
    }

    fn record_all(&mut self, records: &[TraceRecord]) {
        let from = records.partition_point(|record| record.arrival < self.from);
        self.fit.record_all(&records[from..]);
    }

    fn summary(&self) -> FitSummary {
        self.fit.summary()
    }

    fn description(&self, about: DeviceInfo) -> Result<Table, Error> {
        self.fit.description(about)
    }

    fn description_with_state(&self, about: DeviceInfo) -> Result<Table, Error> {
        self.fit.description_with_state(about)
    }

    fn has_limits(&self, block_size: ByteSize) -> Result<bool, Error> {
        self.fit.has_limits(block_size)
    }

    fn keep_structure(&mut self) {
        self.fit.keep_structure();
    }

    fn leave_out(&mut self, left_out: &LeftOut) {
        self.fit.leave_out(left_out);
    }

    fn stop_by(&mut self, stop: &StopCheck) {
        self.fit.stop_by(stop);
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;

    /// Requests one at a time for 1,000 s, half of them writes, of which `times` gives the response time in us by its
    /// number of a second, a factor between 0.5 and 1.5, and whether it is a write.
    fn settling(times: impl Fn(u64, f64, bool) -> f64) -> Settling {
        let (mut settling, mut stream) = (Settling::new(KEPT, true), Seed(3).stream("requests"));
        for second in 0..1_000 {
            for index in 0..10 {
                let is_write = stream.chance(0.5);
                let us = times(second, 0.5 + stream.unit(), is_write);
                let arrival = Instant::ZERO + Duration::from_ms(1_000 * second + 100 * index);
                let completion = Some(arrival + Duration::from_ns_f64(1e3 * us));
                let op = if is_write { Operation::Write } else { Operation::Read };
                settling.record(&TraceRecord {
                    completion,
                    ..TraceRecord::new(arrival, op, 8 * stream.below(1 << 30), 8)
                });
            }
        }
        settling
    }

    const ALL: Instant = Instant::from_ns(u64::MAX);
    const HALF: Instant = Instant::from_ns(500_000_000_000);

    #[test]
    fn slow_start_of_all_operations_is_found_in_the_fitted_part_alone() {
        let slow = |end| settling(move |second, factor, _| factor * if second < end { 900.0 } else { 300.0 });
        let found = slow(100).warm_up(HALF).unwrap();
        let end_s = (found.end - Instant::ZERO).as_s();
        assert!((92.0..=108.0).contains(&end_s), "{end_s}");
        assert_eq!(found.slower.len(), 2);
        for (op, slower) in found.slower {
            assert!((2.7..3.3).contains(&slower), "{op:?}: {slower}");
        }
        assert_eq!(slow(400).warm_up(HALF), None, "most of the fitted part is slow");
        assert!(slow(400).warm_up(ALL).is_some());
    }

    #[test]
    fn fast_start_and_slow_start_of_one_operation_are_properties_of_the_device() {
        let fast = settling(|second, factor, _| factor * if second < 100 { 100.0 } else { 300.0 });
        let writes = settling(|second, factor, is_write| match (second < 100, is_write) {
            (true, true) => 900.0 * factor,
            (true, false) => 250.0 * factor,
            _ => 300.0 * factor,
        });
        for settling in [fast, writes, settling(|_, factor, _| 300.0 * factor)] {
            assert_eq!(settling.warm_up(HALF), None);
            assert_eq!(settling.warm_up(ALL), None);
        }
    }

    #[test]
    fn load_that_becomes_easier_is_no_warm_up() {
        // Random requests, one at a time and four at once; then sequential ones, which take a tenth.
        for queue in [1, 4] {
            let (mut settling, mut stream) = (Settling::new(KEPT, true), Seed(5).stream("requests"));
            for index in 0..20_000_u64 {
                let is_easy = index > 5_000;
                let group = if is_easy { index } else { index / queue * queue };
                let arrival = Instant::ZERO + Duration::from_ms(50 * group);
                let waits = if is_easy { 1 } else { 1 + index % queue };
                let us = waits * if is_easy { 1_000 } else { 10_000 } + stream.below(500);
                let lbn = if is_easy { 8 * index } else { 8 * stream.below(1 << 30) };
                settling.record(&TraceRecord {
                    completion: Some(arrival + Duration::from_us(us)),
                    ..TraceRecord::new(arrival, Operation::Read, lbn, 8)
                });
            }
            assert_eq!(settling.warm_up(ALL), None, "{queue}");
        }
    }

    /// The warm-up of reads and writes in turn, one at a time for 1,000 s, that take 3 ms in the first 100 s and then 0.5 ms. `change` makes
    /// of each what it is, by its number, and `per_second` says how many there are in that time.
    fn slow_at_first(
        per_second: impl Fn(bool) -> u64,
        change: impl Fn(bool, u64, &mut TraceRecord),
    ) -> Option<WarmUp> {
        let (mut settling, mut stream) = (Settling::new(KEPT, true), Seed(7).stream("requests"));
        for second in 0..1_000 {
            let is_first = second < 100;
            for index in 0..per_second(is_first) {
                let number = second * per_second(is_first) + index;
                let arrival =
                    Instant::from_ns(1_000_000_000 * second + 1_000_000_000 * index / per_second(is_first));
                let op = if index % 2 == 0 { Operation::Read } else { Operation::Write };
                let mut record = TraceRecord::new(arrival, op, 8 * stream.below(1 << 30), 8);
                change(is_first, number, &mut record);
                let us = if is_first { 3_000 } else { 500 } + stream.below(200);
                record.completion = Some(arrival + Duration::from_us(us));
                settling.record(&record);
            }
        }
        settling.warm_up(ALL)
    }

    #[test]
    fn slow_start_that_the_requests_explain_is_no_warm_up() {
        let same = |_, _, _: &mut TraceRecord| ();
        // At first and later: one request of so many is a read.
        let reads_of = |[first, later]: [u64; 2]| {
            move |is_first: bool, number: u64, record: &mut TraceRecord| {
                let is_read = number.is_multiple_of(if is_first { first } else { later });
                record.op = if is_read { Operation::Read } else { Operation::Write };
            }
        };
        // Blocks of reads and of writes.
        let lengths = |[first, later]: [(u32, u32); 2]| {
            move |is_first: bool, _: u64, record: &mut TraceRecord| {
                let (reads, writes) = if is_first { first } else { later };
                record.blocks = if record.op == Operation::Read { reads } else { writes };
            }
        };
        // None are random requests.
        let streams = |[first, later]: [u64; 2]| {
            move |is_first, number: u64, record: &mut TraceRecord| match if is_first { first } else { later }
            {
                0 => (),
                count => record.lbn = (number % count) << 27 | (8 * (number / count)),
            }
        };
        assert!(slow_at_first(|_| 20, same).is_some());
        assert!(slow_at_first(|is_first| if is_first { 10 } else { 20 }, same).is_some(), "less at first");
        let fewer_reads = slow_at_first(|is_first| if is_first { 20 } else { 100 }, reads_of([1, 4]));
        assert!(fewer_reads.is_some(), "fewer reads at first");
        let cause = [
            ("a limit", slow_at_first(|is_first| if is_first { 40 } else { 20 }, same)),
            // At first as many reads as later, of which three of four requests are writes.
            ("a limit of reads", slow_at_first(|is_first| if is_first { 20 } else { 40 }, reads_of([1, 4]))),
            ("a limit of bytes", slow_at_first(|_| 20, lengths([(15, 8), (8, 8)]))),
            ("a full buffer", slow_at_first(|_| 20, lengths([(8, 15), (15, 8)]))),
            (
                "a slow place",
                slow_at_first(
                    |_| 20,
                    |is_first, _, record| {
                        record.lbn = record.lbn / 4 + if is_first { 0 } else { 8 << 29 };
                    },
                ),
            ),
            ("force unit access", slow_at_first(|_| 20, |is_first, _, record| record.fua = is_first)),
            ("eight streams", slow_at_first(|_| 20, streams([0, 8]))),
            ("fewer streams", slow_at_first(|_| 20, streams([30, 6]))),
        ];
        for (cause, found) in cause {
            assert_eq!(found, None, "{cause}");
        }
    }

    #[test]
    fn queue_that_is_shorter_by_a_quarter_is_no_warm_up() {
        // One request each millisecond, twelve outstanding and then nine.
        let mut settling = Settling::new(KEPT, true);
        for index in 0..20_000_u64 {
            let arrival = Instant::ZERO + Duration::from_ms(index);
            let us = if index < 2_000 { 12_000 } else { 9_000 } + index % 7 * 100;
            settling.record(&TraceRecord {
                completion: Some(arrival + Duration::from_us(us)),
                ..TraceRecord::new(arrival, Operation::Read, index * 7_919 % (1 << 20) * 8, 8)
            });
        }
        assert_eq!(settling.warm_up(ALL), None);
    }

    #[test]
    fn time_in_the_queue_of_the_host_counts_only_if_it_is_the_devices() {
        for is_from_issue in [true, false] {
            let mut settling = Settling::new(KEPT, is_from_issue);
            for index in 0..20_000_u64 {
                let arrival = Instant::ZERO + Duration::from_ms(50 * index);
                // A free burst of 2,000, then a limit in the host; the device itself is slow while it is busy.
                let (waited_us, us) = if index < 2_000 { (0, 2_000) } else { (8_000, 500) };
                let issue = arrival + Duration::from_us(waited_us);
                settling.record(&TraceRecord {
                    issue: Some(issue),
                    completion: Some(issue + Duration::from_us(us + index % 7)),
                    ..TraceRecord::new(arrival, Operation::Read, index * 7_919 % (1 << 20), 8)
                });
            }
            assert_eq!(settling.warm_up(ALL).is_some(), is_from_issue);
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_trace() {
        let mut settling = Settling::new(KEPT, true);
        for index in 0..2_000_000_u64 {
            let arrival = Instant::from_ns(1_000 * index);
            let completion = Some(arrival + Duration::from_us(50));
            settling.record(&TraceRecord {
                completion,
                ..TraceRecord::new(arrival, Operation::Read, 8 * index, 8)
            });
        }
        let kept: usize = settling.bins.iter().map(|bin| bin.kept.len()).sum();
        assert!((KEPT * BINS / 4..=KEPT * BINS).contains(&kept), "{kept}");
        assert_eq!(settling.bin_ns.count_ones(), 1);
    }

    #[test]
    fn devices_of_a_trace_share_the_memory() {
        assert_eq!([1, 32, 33, 64, 300, 65_536].map(kept_of_each), [1_024, 512, 256, 256, 32, 1]);
        // Ten requests a second for 1,000 s make 80 of a bin.
        let slow = || settling(move |second, factor, _| factor * if second < 100 { 900.0 } else { 300.0 });
        let (whole, mut limited) = (slow(), slow());
        limited.limit(16);
        assert!(limited.bins.iter().all(|bin| bin.kept.len() <= 16 && bin.kept.capacity() <= 16));
        assert_eq!(
            whole.bins.iter().map(|bin| bin.load.requests).sum::<u64>(),
            limited.bins.iter().map(|bin| bin.load.requests).sum::<u64>()
        );
        let end_s = |settling: &Settling| (settling.warm_up(HALF).unwrap().end - Instant::ZERO).as_s();
        assert!((end_s(&whole) - end_s(&limited)).abs() <= 16.0, "{} s", end_s(&limited));
        for index in 0..100_000 {
            let arrival = Instant::ZERO + Duration::from_ms(1_000_000 + 20 * index);
            let completion = Some(arrival + Duration::from_us(300));
            limited.record(&TraceRecord { completion, ..TraceRecord::new(arrival, Operation::Read, 8, 8) });
        }
        assert!(limited.bins.iter().all(|bin| bin.kept.len() <= 16), "it stays limited");
    }
}
