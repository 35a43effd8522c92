//! Balance of writers: the pauses that keep the amount of dirty data between the limits.
//!
//! ```text
//!        background                     limit
//! 0 ─────────┼──────────┼─────────────────┤   dirty or being written
//!   writers run freely  ╎ pauses grow     ╎ no writer goes on
//!                       free run ends, the middle between the two
//! ```
//! A writer that has dirtied some blocks looks at the amount. Above the middle it pauses, so that it goes on at a rate: the
//! *rate limit* of the device, times a factor that falls from 2 to 0 towards the limit. The rate limit of a new device begins at
//! 100 MiB/s and follows what the device writes, in steps of a fifth of a second. So a short burst on a slow disk comes up to the
//! limit, and a long one settles where its rate is the disk's.
//!
//! # Scope and limits
//! Times are in ticks of 4 ms (`CONFIG_HZ=250`), as the kernel's are. There is one device, and all data is its own. Limits of
//! memory cgroups do not count.
//!
//! # References
//! Linux 6.18, `mm/page-writeback.c` (`balance_dirty_pages`, `wb_position_ratio`, `wb_update_dirty_ratelimit`): the algorithm,
//! not the code.

use seeklab_core::{Duration, Instant};

use super::Host;
use crate::host::process::{Next, Wait};
use crate::host::profile::Settings;

/// Ticks of the kernel's clock in a second.
const TICKS_PER_S: u64 = 250;
/// Length of a tick.
const TICK: Duration = Duration::from_us(1_000_000 / TICKS_PER_S);
/// Ticks between two estimates of the bandwidth.
const INTERVAL: u64 = TICKS_PER_S / 5;
/// Ticks without a write after which a device counts as idle.
const IDLE: u64 = TICKS_PER_S;
/// Longest pause.
const PAUSE_MAX: u64 = TICKS_PER_S / 5;
/// Ticks over which the bandwidth is averaged.
const PERIOD: u64 = (3 * TICKS_PER_S).next_power_of_two();
/// Blocks that a process dirties before it first looks at the amount, and below which its looks are not made rarer.
const POLL: u64 = 32;
/// Blocks between two looks while the limit is exceeded.
const POLL_EXCEEDED: u64 = 8;
/// Blocks of which the flusher writes a multiple of one file at a time.
const CHUNK: u64 = 1024;

/// A factor of rates, in 1/1024.
const ONE: i64 = 1 << 10;

/// The pages that a process has dirtied since its last look at the balance, and the pace that it was given then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::host) struct Writer {
    /// Blocks since its last pause.
    dirtied: u64,
    /// Blocks after which it looks at the amount.
    poll: u64,
    /// Tick at which its last pause ended, or would have ended. Zero if there was none.
    paused_until: u64,
    /// Blocks for which it paused without being let on, if it must look again.
    held_for: Option<u64>,
}

impl Writer {
    pub(in crate::host) const fn new() -> Self {
        Self { dirtied: 0, poll: POLL, paused_until: 0, held_for: None }
    }
}

/// Estimates of a device's bandwidth, and of the rate of each of its writers.
#[derive(Debug, Clone)]
pub(super) struct Balance {
    /// Blocks that may be dirty or being written.
    limit: u64,
    /// End of the free run.
    free_run: u64,
    /// True if the limits are strict ones of the device.
    is_strict: bool,
    /// Bandwidth, and its mean, in blocks per second.
    bandwidth: u64,
    mean_bandwidth: u64,
    /// Rate of a writer, and the last estimate of it.
    rate: u64,
    balanced_rate: u64,
    /// Ticks from the first estimate, or the making of the device, to the start.
    age: u64,
    /// Blocks that became dirty, and that were written.
    dirtied: u64,
    written: u64,
    /// Tick and counts of the last estimate.
    stamp: Stamp,
    /// Tick of the estimate after the end of all writes, if one is due.
    update_due: Option<u64>,
    /// True if a writer found the limit exceeded.
    is_exceeded: bool,
    /// Blocks that processes had dirtied since their last pause, and ended.
    left_behind: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stamp {
    tick: u64,
    dirtied: u64,
    written: u64,
}

impl Balance {
    pub(super) fn new(settings: &Settings) -> Self {
        let first = settings.write_bandwidth;
        Self {
            limit: settings.dirty_frames.into(),
            free_run: settings.free_run_frames.into(),
            is_strict: settings.has_strict_limit,
            bandwidth: first,
            mean_bandwidth: first,
            rate: first,
            balanced_rate: first,
            age: settings.device_age.as_ns() / TICK.as_ns(),
            dirtied: 0,
            written: 0,
            stamp: Stamp::default(),
            update_due: None,
            is_exceeded: false,
            left_behind: 0,
        }
    }

    /// Blocks of one file that the flusher writes before it goes on with the next: what half a second writes, and 4 MiB.
    pub(super) fn chunk_pages(&self) -> u64 {
        let half_a_second = self.mean_bandwidth / 2;
        // A strict limit is the device's. The kernel takes a share of the limit of all, which is much larger.
        let pages = if self.is_strict { half_a_second } else { half_a_second.min(self.limit / 8) };
        (pages + CHUNK) / CHUNK * CHUNK
    }

    /// A process has made a clean block dirty.
    pub(super) const fn dirty(&mut self, writer: &mut Writer) {
        writer.dirtied += 1;
        self.dirtied += 1;
    }

    /// A block has been written. `is_last` if no other is being written.
    pub(super) fn complete(&mut self, is_last: bool, now: Instant) {
        self.settle(self.tick(now));
        self.written += 1;
        if is_last && self.update_due.is_none() {
            self.update_due = Some(self.tick(now) + INTERVAL);
        }
    }

    /// A process ends.
    pub(super) const fn leave(&mut self, writer: Writer) {
        self.left_behind += writer.dirtied;
    }

    /// The flusher begins with a file. `is_writing` if blocks are being written.
    pub(super) fn begin_file(&mut self, is_writing: bool, now: Instant) {
        let now = self.tick(now);
        self.settle(now);
        if now - self.stamp.tick > IDLE && !is_writing {
            // Time without writes tells nothing of the bandwidth.
            self.stamp(now);
        }
    }

    /// The flusher ends its turn of a file.
    pub(super) fn end_file(&mut self, now: Instant) {
        let now = self.tick(now);
        self.settle(now);
        if now > self.stamp.tick + INTERVAL {
            self.estimate(now, None);
        }
    }

    /// Blocks for which a process must look at the amount now. `None` if it has dirtied too few.
    pub(super) fn due(&mut self, writer: &mut Writer) -> Option<u64> {
        if let Some(pages) = writer.held_for.take() {
            return Some(pages);
        }
        let poll = if self.is_exceeded { writer.poll.min(POLL_EXCEEDED) } else { writer.poll };
        let taken = self.left_behind.min(poll.saturating_sub(writer.dirtied));
        self.left_behind -= taken;
        writer.dirtied += taken;
        (writer.dirtied >= poll).then_some(writer.dirtied)
    }

    /// Time that a process must pause which has dirtied so many blocks, `dirty` of all being dirty or written. `None` if it may go on.
    pub(super) fn pause(
        &mut self,
        writer: &mut Writer,
        pages: u64,
        dirty: u64,
        now: Instant,
    ) -> Option<Duration> {
        let ticks = self.balance(writer, pages, dirty, self.tick(now))?;
        let end = Instant::ZERO + TICK * (tick(now) + ticks + 1);
        Some(end - now)
    }

    /// Ticks that a process must pause for blocks that it has dirtied.
    fn balance(&mut self, writer: &mut Writer, pages: u64, dirty: u64, now: u64) -> Option<u64> {
        self.settle(now);
        if dirty <= self.free_run {
            let room = self.limit.saturating_sub(dirty);
            *writer = Writer { dirtied: 0, poll: 1 << (log2(room) / 2), paused_until: now, held_for: None };
            self.is_exceeded = false;
            return None;
        }
        self.is_exceeded = dirty > self.limit;
        let factor = self.factor(dirty);
        if now > self.stamp.tick + INTERVAL {
            self.estimate(now, Some((dirty, factor)));
        }
        let rate = scale(self.rate, factor);
        let longest = self.longest_pause(dirty);
        let (shortest, poll) = self.shortest_pause(longest, rate);
        let pause = if let Some(period) = (TICKS_PER_S * pages).checked_div(rate) {
            let period = period as i64;
            let mut pause = period;
            if writer.paused_until > 0 {
                pause -= now as i64 - writer.paused_until as i64;
            }
            if pause < shortest as i64 {
                // The time that the process computed is taken off, and what is left is kept for later.
                if pause < -(TICKS_PER_S as i64) {
                    (writer.paused_until, writer.dirtied) = (now, 0);
                } else if period > 0 {
                    writer.paused_until += period as u64;
                    writer.dirtied = 0;
                } else if writer.poll <= pages {
                    writer.poll += pages;
                }
                return None;
            }
            pause as u64
        } else {
            writer.held_for = Some(pages);
            longest
        };
        let excess = pause.saturating_sub(longest).min(longest);
        let pause = pause.min(longest);
        *writer = Writer { dirtied: 0, poll, paused_until: now + excess + pause, ..*writer };
        Some(pause)
    }

    /// Factor of the rate limit at an amount of dirty blocks.
    fn factor(&self, dirty: u64) -> i64 {
        if dirty >= self.limit {
            return 0;
        }
        let (dirty, limit) = (dirty as i64, self.limit as i64);
        if self.is_strict {
            return position(self.free_run as i64, dirty, limit);
        }
        let setpoint = (self.free_run as i64 + limit) / 2;
        let factor = position(setpoint, dirty, limit);
        // A line through the setpoint that ends eight seconds of writing above it.
        let span = 8 * self.mean_bandwidth as i64;
        let end = setpoint + span;
        let factor = if dirty < end - span / 4 { factor * (end - dirty) / (span | 1) } else { factor / 4 };
        // A device that would soon be idle.
        match limit / 2 {
            half if dirty >= half => factor,
            half if dirty > half / 8 => factor * half / dirty,
            _ => factor * 8,
        }
    }

    fn longest_pause(&self, dirty: u64) -> u64 {
        let ticks = dirty / (1 + self.mean_bandwidth / (1 + TICKS_PER_S / 8).next_power_of_two());
        (ticks + 1).min(PAUSE_MAX)
    }

    /// The shortest pause worth a sleep, and the blocks until the next look.
    fn shortest_pause(&self, longest: u64, rate: u64) -> (u64, u64) {
        let second = TICKS_PER_S.next_power_of_two();
        let (high, low) = (log2(self.mean_bandwidth), log2(self.rate));
        // 10 ms, and more if there are several writers.
        let mut ticks = TICKS_PER_S / 100 + high.saturating_sub(low) * (10 * TICKS_PER_S) / 1024;
        ticks = ticks.min(1 + longest / 2);
        let mut pages = self.rate * ticks / second;
        if pages < POLL {
            ticks = longest;
            pages = self.rate * ticks / second;
            if pages > POLL {
                pages = POLL;
                ticks = TICKS_PER_S * POLL / self.rate;
            }
        }
        if TICKS_PER_S * pages / (rate + 1) > longest {
            ticks = longest;
            pages = rate * ticks / second;
        }
        (if pages >= POLL { 1 + ticks / 2 } else { ticks }, pages)
    }

    /// Makes the estimate that is due after the end of all writes.
    fn settle(&mut self, now: u64) {
        if let Some(due) = self.update_due.filter(|due| *due <= now) {
            self.update_due = None;
            self.estimate(due.max(self.stamp.tick), None);
        }
    }

    /// The tick of a time.
    const fn tick(&self, now: Instant) -> u64 {
        self.age + tick(now)
    }

    fn stamp(&mut self, now: u64) {
        self.stamp = Stamp { tick: now, dirtied: self.dirtied, written: self.written };
    }

    /// Estimates the bandwidth, and the rate of each writer at an amount and its factor.
    fn estimate(&mut self, now: u64, at: Option<(u64, i64)>) {
        let elapsed = (now - self.stamp.tick).max(1);
        if let Some((dirty, factor)) = at {
            let dirtied_per_s = (self.dirtied - self.stamp.dirtied) * TICKS_PER_S / elapsed;
            self.estimate_rate(dirty, scale(self.rate, factor) + 1, dirtied_per_s);
        }
        self.estimate_bandwidth(elapsed);
        self.stamp(now);
    }

    fn estimate_bandwidth(&mut self, elapsed: u64) {
        let written = (self.written - self.stamp.written) * TICKS_PER_S;
        let old = self.bandwidth;
        if elapsed > PERIOD {
            self.bandwidth = written / elapsed;
            self.mean_bandwidth = self.bandwidth.max(1);
        } else {
            self.bandwidth = (written + old * (PERIOD - elapsed)) / PERIOD;
            self.mean_bandwidth = smoothed(self.mean_bandwidth, old, self.bandwidth).max(1);
        }
    }

    /// Estimates the rate of each writer, if they went on at `rate` and dirtied that many blocks a second together.
    fn estimate_rate(&mut self, dirty: u64, rate: u64, dirtied_per_s: u64) {
        let balanced = (rate * self.mean_bandwidth / (dirtied_per_s | 1)).min(self.mean_bandwidth);
        let setpoint = if self.is_strict { self.free_run } else { (self.free_run + self.limit) / 2 };
        // All estimates must agree on the direction.
        let step = if dirty < setpoint {
            self.balanced_rate.min(balanced).min(rate).saturating_sub(self.rate)
        } else {
            self.rate.saturating_sub(self.balanced_rate.max(balanced).max(rate))
        };
        // Slower where it is nearly right.
        let shift = self.rate / (2 * step + 1);
        let step = if shift < 64 { (step >> shift).div_ceil(8) } else { 0 };
        self.rate =
            if self.rate < balanced { self.rate + step } else { self.rate.saturating_sub(step) }.max(1);
        self.balanced_rate = balanced;
    }
}

/// 1 at the setpoint, 0 at the limit, 2 as far below: a cubic curve, flat in the middle.
fn position(setpoint: i64, dirty: i64, limit: i64) -> i64 {
    let x = ((setpoint - dirty) * ONE / ((limit - setpoint) | 1)).clamp(-ONE, ONE);
    (ONE + x * x / ONE * x / ONE).clamp(0, 2 * ONE)
}

/// The mean after an estimate: it follows the estimates where they go on in the same direction.
const fn smoothed(mean: u64, old: u64, new: u64) -> u64 {
    if mean > old && old >= new {
        mean - ((mean - old) >> 3)
    } else if mean < old && old <= new {
        mean + ((old - mean) >> 3)
    } else {
        mean
    }
}

fn scale(rate: u64, factor: i64) -> u64 {
    (rate * factor.unsigned_abs()) >> 10
}

const fn tick(now: Instant) -> u64 {
    now.as_ns() / TICK.as_ns()
}

const fn log2(number: u64) -> u64 {
    match number.checked_ilog2() {
        Some(log) => log as u64,
        None => 0,
    }
}

impl Host {
    /// A process makes a block dirty.
    pub(super) fn dirty_by(&mut self, pid: u32, frame: u32) {
        if self.dirty(frame) {
            let linux = self.linux.as_deref_mut().expect("a host that has dirty blocks of Linux runs it");
            linux.balance.dirty(&mut self.processes[pid as usize].writer);
        }
    }

    /// A block has been written.
    pub(in crate::host) fn count_written(&mut self) {
        let is_last = self.cache.dirty_count() == self.cache.to_write_count();
        if let Some(linux) = &mut self.linux {
            linux.balance.complete(is_last, self.now);
        }
    }

    /// A process ends: others pause for what it has dirtied.
    pub(in crate::host) fn leave_behind(&mut self, pid: u32) {
        if let Some(linux) = &mut self.linux {
            linux.balance.leave(self.processes[pid as usize].writer);
        }
    }

    /// A process that is about to write pauses while much is dirty of what was written before. If more is dirty than the background
    /// limit, it wakes the flusher.
    pub(super) fn balance(&mut self, pid: u32) -> Next {
        let (now, dirty) = (self.now, self.cache.dirty_count());
        let linux = self.linux.as_deref_mut().expect("a host that balances runs Linux");
        let Some(pages) = linux.balance.due(&mut self.processes[pid as usize].writer) else {
            return Next::Continue;
        };
        let is_over =
            !self.settings.has_strict_limit && self.cache.to_write_count() > self.settings.background_frames;
        if is_over || dirty > self.settings.free_run_frames {
            self.wake_syncer();
        }
        let linux = self.linux.as_deref_mut().expect("it was just there");
        let writer = &mut self.processes[pid as usize].writer;
        match linux.balance.pause(writer, pages, dirty.into(), now) {
            None => Next::Continue,
            Some(pause) => {
                linux.throttle.last_wait = Some(now);
                self.set_timer(pause, pid);
                Next::Wait(Wait::DirtyLimit)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{HostSettings, Profile};

    /// Limits of 4 and 8 MiB.
    fn balance(is_strict: bool) -> Balance {
        let given = HostSettings {
            profile: Some(Profile::Linux),
            dirty_bytes: Some("8MiB".parse().unwrap()),
            dirty_background_bytes: Some("4MiB".parse().unwrap()),
            strict_dirty_limit: Some(is_strict),
            ..HostSettings::default()
        };
        Balance::new(&Settings::new(&given))
    }

    /// The pause of a writer, if it looks at the amount and has to.
    fn look(balance: &mut Balance, writer: &mut Writer, dirty: u64, now: Instant) -> Option<Duration> {
        let pages = balance.due(writer)?;
        balance.pause(writer, pages, dirty, now)
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    /// Writers that dirty 100 blocks a millisecond, and a disk of that many blocks a second. For each second, the blocks that were
    /// dirtied in it and those that are dirty at its end.
    fn seconds(balance: &mut Balance, writers: usize, disk: u64, seconds: u64) -> Vec<(u64, u64)> {
        let mut writers = vec![(Writer::new(), 0); writers];
        let (mut dirty, mut owed, mut result) = (0, 0, Vec::new());
        for second in 0..seconds {
            let before = balance.dirtied;
            for at in second * 1000..(second + 1) * 1000 {
                owed += disk;
                while owed >= 1000 {
                    owed -= 1000;
                    if dirty > 0 {
                        dirty -= 1;
                        balance.complete(dirty == 0, ms(at));
                    }
                }
                for (writer, until) in writers.iter_mut().filter(|(_, until)| *until <= at) {
                    for _ in 0..100 {
                        if writer.held_for.is_none() {
                            balance.dirty(writer);
                            dirty += 1;
                        }
                        if let Some(pause) = look(balance, writer, dirty, ms(at)) {
                            *until = at + pause.as_ns() / 1_000_000;
                            break;
                        }
                    }
                }
            }
            result.push((balance.dirtied - before, dirty));
        }
        result
    }

    #[test]
    fn writer_runs_freely_up_to_the_middle_of_the_limits() {
        let mut balance = balance(true);
        let mut writer = Writer::new();
        for dirty in 1..=1536 {
            balance.dirty(&mut writer);
            assert_eq!(look(&mut balance, &mut writer, dirty, ms(1)), None);
        }
        assert_eq!(writer.poll, 16, "the root of what is left to the limit, as a power of two");
        balance.dirty(&mut writer);
        assert_eq!(balance.factor(1537), ONE, "1 at the setpoint of a strict limit");
        assert_eq!(
            (balance.factor(1792), balance.factor(2048), balance.factor(0)),
            (ONE * 7 / 8 + 1, 0, 2 * ONE)
        );
    }

    #[test]
    fn burst_on_a_slow_disk_comes_up_to_the_limit_and_a_long_run_settles_below_it() {
        let mut balance = balance(true);
        // 4 MB/s.
        let seconds = seconds(&mut balance, 1, 1000, 120);
        assert!((1900..=2048).contains(&seconds[0].1), "the rate limit begins at 100 MiB/s: {seconds:?}");
        let later = &seconds[60..];
        assert!(later.iter().all(|(_, dirty)| (1400..1990).contains(dirty)), "{later:?}");
        let dirtied: u64 = later.iter().map(|(dirtied, _)| dirtied).sum();
        assert!((58_000..=62_000).contains(&dirtied), "as much as the disk writes: {dirtied}");
        assert!((900..=1100).contains(&balance.mean_bandwidth), "{}", balance.mean_bandwidth);
        assert_eq!(balance.chunk_pages(), 1024);
    }

    #[test]
    fn writers_share_what_the_disk_writes() {
        let mut balance = balance(true);
        let seconds = seconds(&mut balance, 4, 4000, 120);
        let dirtied: u64 = seconds[60..].iter().map(|(dirtied, _)| dirtied).sum();
        assert!((232_000..=248_000).contains(&dirtied), "{dirtied}");
        assert!((800..=1300).contains(&balance.rate), "a quarter of the bandwidth: {}", balance.rate);
    }

    #[test]
    fn writer_that_computes_as_long_as_the_disk_writes_is_not_held_up() {
        let mut balance = balance(false);
        let mut writer = Writer::new();
        // 8 MB/s, on a disk that writes as much, between the end of the free run and the setpoint.
        for at in 0..80_000 {
            let now = Instant::ZERO + Duration::from_us(500 * at);
            balance.dirty(&mut writer);
            assert_eq!(look(&mut balance, &mut writer, 1700, now), None, "{at}");
            balance.complete(false, now);
        }
        assert!((1900..=2100).contains(&balance.mean_bandwidth), "{}", balance.mean_bandwidth);
    }

    /// Events of Linux 6.18 while `dd` wrote 20 MiB to an emulated HP C2247A with a strict limit of 8 MiB, of which a kernel with 4 GiB gave it
    /// 2044 pages: `writeback:balance_dirty_pages`. Pages that were dirty or being written, and `dirty_ratelimit` and `task_ratelimit` in
    /// pages per second.
    const POSITIONS: [(u64, u64, u64); 24] = [
        (1644, 590, 583),
        (1676, 590, 576),
        (1708, 590, 565),
        (1740, 590, 550),
        (1772, 590, 529),
        (1804, 590, 502),
        (1836, 590, 467),
        (1868, 590, 424),
        (1900, 590, 372),
        (1932, 590, 311),
        (2012, 586, 105),
        (2044, 574, 0),
        (1553, 574, 573),
        (1621, 574, 570),
        (1685, 574, 558),
        (1749, 574, 530),
        (1824, 495, 404),
        (1856, 495, 370),
        (1888, 494, 329),
        (1920, 494, 280),
        (1952, 493, 222),
        (1984, 493, 155),
        (2016, 490, 78),
        (2032, 475, 35),
    ];

    #[test]
    fn rate_at_an_amount_is_the_kernels() {
        let mut balance = balance(true);
        (balance.limit, balance.free_run) = (2044, 1533);
        for (dirty, rate, expected) in POSITIONS {
            let rate = scale(rate, balance.factor(dirty));
            assert!(rate.abs_diff(expected) <= 5, "{dirty} pages: {rate} for {expected}");
        }
    }

    /// Estimates of the same run, one after another: `writeback:bdi_dirty_ratelimit`. Bandwidth and its mean before the estimate, rate at
    /// which pages were dirtied, pages dirty or being written, and `task_ratelimit`; then the new `dirty_ratelimit` and
    /// `balanced_dirty_ratelimit`.
    const ESTIMATES: [(u64, u64, u64, u64, u64, u64, u64); 26] = [
        (544, 835, 5175, 1542, 591, 590, 95),
        (504, 799, 685, 1610, 588, 590, 685),
        (502, 763, 701, 1610, 588, 590, 640),
        (505, 763, 603, 1738, 552, 590, 698),
        (478, 731, 558, 1612, 588, 590, 731),
        (512, 731, 603, 1740, 551, 590, 667),
        (485, 704, 524, 1868, 425, 590, 569),
        (456, 677, 750, 1548, 591, 590, 532),
        (552, 677, 692, 1692, 573, 590, 559),
        (523, 662, 571, 1820, 487, 590, 564),
        (494, 645, 452, 1916, 343, 590, 488),
        (468, 627, 307, 1980, 198, 586, 404),
        (444, 608, 175, 2044, 1, 574, 3),
        (404, 588, 0, 2044, 1, 574, 588),
        (383, 565, 2514, 1533, 575, 574, 129),
        (595, 565, 581, 1749, 531, 574, 516),
        (563, 565, 500, 1877, 400, 573, 451),
        (527, 565, 338, 1973, 210, 569, 350),
        (490, 561, 179, 2037, 27, 555, 84),
        (447, 553, 78, 2053, 1, 496, 7),
        (424, 540, 2598, 1548, 497, 496, 103),
        (623, 540, 597, 1792, 432, 495, 390),
        (582, 540, 413, 1888, 330, 494, 431),
        (549, 540, 307, 1952, 224, 493, 394),
        (521, 540, 183, 2016, 79, 490, 233),
        (476, 538, 78, 2032, 37, 475, 251),
    ];

    #[test]
    fn estimates_are_the_kernels() {
        let mut balance = balance(true);
        (balance.limit, balance.free_run) = (2044, 1533);
        (balance.rate, balance.balanced_rate) = (590, 590);
        for (number, (bandwidth, mean, dirtied, dirty, rate, expected, balanced)) in
            ESTIMATES.into_iter().enumerate()
        {
            (balance.bandwidth, balance.mean_bandwidth) = (bandwidth, mean);
            balance.estimate_rate(dirty, rate, dirtied);
            let found = (balance.rate, balance.balanced_rate);
            // The printed rates are rounded down to pages.
            assert!(found.0.abs_diff(expected) <= 1, "{number}: {found:?} for {expected}");
            assert!(found.1.abs_diff(balanced) * 50 <= balanced + 50, "{number}: {found:?} for {balanced}");
            (balance.rate, balance.balanced_rate) = (expected, balanced);
            if let Some((next, next_mean, ..)) = ESTIMATES.get(number + 1) {
                assert_eq!(smoothed(mean, bandwidth, *next), *next_mean, "{number}");
            }
        }
        // The pages until the next look, after looks at 105, 25 and 0 pages per second.
        let polls = [(586, 608, 2012, 105), (555, 561, 2037, 25), (574, 588, 2044, 0)].map(
            |(rate, mean, dirty, at)| {
                (balance.rate, balance.mean_bandwidth) = (rate, mean);
                balance.shortest_pause(balance.longest_pause(dirty), at).1
            },
        );
        assert_eq!(polls, [20, 4, 0]);
    }

    #[test]
    fn process_that_ends_leaves_what_it_has_dirtied_to_others() {
        let mut balance = balance(true);
        let mut first = Writer::new();
        (0..POLL - 1).for_each(|_| balance.dirty(&mut first));
        assert_eq!(balance.due(&mut first), None, "it has not dirtied enough");
        balance.leave(first);
        let mut second = Writer::new();
        balance.dirty(&mut second);
        assert_eq!(balance.due(&mut second), Some(POLL));
        assert_eq!(balance.left_behind, 0);
    }
}
