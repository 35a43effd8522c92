//! Writeback throttling (`wbt`): the flusher has fewer requests outstanding while reads take long.
//!
//! ```text
//! window ──▶ shortest read above the target ──▶ halve the depth    16 ▸ 8 ▸ 4 ▸ 2 ▸ 1
//!        ├─▶ at most the target ──────────────▶ double it, up to three quarters of the tags
//!        ├─▶ writes alone ────────────────────▶ double it
//!        └─▶ nothing ─────────────────────────▶ back to 16 after five windows
//! ```
//! Of the depth, writeback may use a half, and a quarter within 100 ms of other requests. A writer that was throttled within
//! the last second gives it the whole depth.
//!
//! # Scope and limits
//! Synchronisations are not throttled. Linux gives them half of the depth.
//!
//! # References
//! Linux 6.18, `block/blk-wbt.c` and `block/blk-rq-qos.c`: the algorithm, not the code.

use seeklab_core::{Duration, Instant, Operation};

use super::Host;
use crate::host::SYNCER;
use crate::host::criticality::Outstanding;

/// Length of a window while the depth is the first.
const WINDOW: Duration = Duration::from_ms(100);

/// Depth at the start.
const DEPTH: u32 = 16;

/// Time after another request in which writeback has a quarter of the depth.
const NEAR: Duration = Duration::from_ms(100);

/// Time after the wait of a throttled writer in which writeback has the whole depth.
const RECENT: Duration = Duration::from_s(1);

/// Writes in a window from which its reads count.
const WRITES_MIN: u32 = 3;

/// Windows without requests after which the depth approaches the first.
const UNKNOWN_MAX: u32 = 5;

/// State of writeback throttling.
#[derive(Debug, Clone)]
pub(super) struct Throttle {
    /// Time that the shortest read of a window should not exceed. Zero if writeback is not throttled.
    target: Duration,
    tags: u32,
    /// Halvings of the depth; negative if it is doubled.
    step: i32,
    depth: u32,
    /// End of the window, if one is open.
    pub(super) window_end: Option<Instant>,
    /// Requests of the flusher that the device has.
    outstanding: u32,
    /// Time of the last issue or completion of another request.
    last_other: Option<Instant>,
    /// Time at which a writer last waited for fewer dirty blocks.
    pub(super) last_wait: Option<Instant>,
    /// The oldest pending read that is watched, and its issue.
    watched: Option<(u64, Instant)>,
    /// Shortest read of the window.
    shortest_read: Option<Duration>,
    writes: u32,
    unknown_windows: u32,
}

/// Result of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Exceeded,
    Kept,
    WritesAlone,
    Nothing,
}

impl Throttle {
    pub(super) const fn new(target: Duration, tags: u32) -> Self {
        let depth = if DEPTH < tags { DEPTH } else { tags };
        Self {
            target,
            tags,
            step: 0,
            depth,
            window_end: None,
            outstanding: 0,
            last_other: None,
            last_wait: None,
            watched: None,
            shortest_read: None,
            writes: 0,
            unknown_windows: 0,
        }
    }

    /// Requests that the flusher may have outstanding at `now`.
    fn limit(&self, now: Instant) -> u32 {
        let is_within = |time: Option<Instant>, length| time.is_some_and(|time| now < time + length);
        if is_within(self.last_wait, RECENT) {
            self.depth
        } else if is_within(self.last_other, NEAR) {
            self.depth.div_ceil(4)
        } else {
            self.depth.div_ceil(2)
        }
    }

    /// Returns true if the flusher must wait before its next request, with that many in its plug.
    pub(super) fn is_full(&self, now: Instant, plugged: usize) -> bool {
        !self.target.is_zero() && self.outstanding.saturating_add(plugged as u32) >= self.limit(now)
    }

    /// A request goes to the device.
    pub(super) fn issue(&mut self, number: u64, op: Operation, is_writeback: bool, now: Instant) {
        if self.target.is_zero() {
            return;
        }
        if is_writeback {
            self.outstanding += 1;
        } else {
            self.last_other = Some(now);
        }
        if op == Operation::Read && self.watched.is_none() {
            self.watched = Some((number, now));
        }
        if self.window_end.is_none() {
            self.open_window(now);
        }
    }

    /// A request is complete.
    pub(super) fn complete(&mut self, number: u64, request: &Outstanding, now: Instant) {
        if self.target.is_zero() {
            return;
        }
        if request.initiator == SYNCER {
            self.outstanding -= 1;
        } else {
            self.last_other = Some(now);
        }
        if self.watched.is_some_and(|(watched, _)| watched == number) {
            self.watched = None;
        }
        match request.op {
            Operation::Read => {
                let time = now.saturating_since(request.issued);
                self.shortest_read = Some(self.shortest_read.map_or(time, |shortest| shortest.min(time)));
            }
            Operation::Write => self.writes += 1,
            _ => {}
        }
    }

    /// A window is over: changes the depth. Returns true if it grew.
    pub(super) fn end_window(&mut self, now: Instant) -> bool {
        let verdict = self.verdict(now);
        let depth = self.depth;
        match verdict {
            Verdict::Exceeded => self.shrink(),
            Verdict::Kept | Verdict::WritesAlone => self.grow(),
            Verdict::Nothing => {
                self.unknown_windows += 1;
                if self.unknown_windows >= UNKNOWN_MAX && self.step != 0 {
                    if self.step > 0 { self.grow() } else { self.set_step(self.step + 1) }
                }
            }
        }
        (self.shortest_read, self.writes, self.window_end) = (None, 0, None);
        if self.step != 0 || self.outstanding > 0 || self.watched.is_some() {
            self.open_window(now);
        }
        self.depth > depth
    }

    fn verdict(&self, now: Instant) -> Verdict {
        let pending = self.watched.map_or(Duration::ZERO, |(_, issued)| now.saturating_since(issued));
        let is_stuck = pending > self.window() || (pending > self.target && self.shortest_read.is_none());
        match self.shortest_read {
            _ if is_stuck => Verdict::Exceeded,
            Some(shortest) if self.writes >= WRITES_MIN => {
                if shortest > self.target {
                    Verdict::Exceeded
                } else {
                    Verdict::Kept
                }
            }
            _ if self.writes > 0 || self.outstanding > 0 => Verdict::WritesAlone,
            _ => Verdict::Nothing,
        }
    }

    fn shrink(&mut self) {
        if self.depth > 1 {
            self.set_step(if self.step < 0 { 0 } else { self.step + 1 });
        }
        self.unknown_windows = 0;
    }

    fn grow(&mut self) {
        if self.depth < self.largest() {
            self.set_step(self.step - 1);
        }
        self.unknown_windows = 0;
    }

    const fn largest(&self) -> u32 {
        let largest = self.tags - self.tags / 4;
        if largest > 0 { largest } else { 1 }
    }

    fn set_step(&mut self, step: i32) {
        self.step = step;
        let first = DEPTH.min(self.tags);
        self.depth = match step {
            0 => first,
            1.. => 1 + ((first - 1) >> step.min(31)),
            _ => (1 + ((first - 1) << step.unsigned_abs().min(16))).min(self.largest()),
        };
    }

    /// Length of a window: the shorter, the smaller the depth.
    fn window(&self) -> Duration {
        let halvings = u64::from(self.step.max(0).unsigned_abs());
        WINDOW * 16 / ((halvings + 1) << 8).isqrt()
    }

    fn open_window(&mut self, now: Instant) {
        self.window_end = Some(now + self.window());
    }
}

impl Host {
    /// End of the window of writeback throttling, if one is open.
    pub(in crate::host) fn throttle_window(&self) -> Option<Instant> {
        self.linux.as_ref().and_then(|linux| linux.throttle.window_end)
    }

    /// The window of writeback throttling is over.
    pub(in crate::host) fn end_throttle_window(&mut self) {
        let now = self.now;
        if self.linux_mut().throttle.end_window(now) {
            self.wake_throttled_flusher();
        }
    }

    /// A request is complete: writeback throttling takes its time.
    pub(in crate::host) fn observe_completion(&mut self, number: u64, request: &Outstanding) {
        let now = self.now;
        if let Some(linux) = &mut self.linux {
            linux.throttle.complete(number, request, now);
            self.wake_throttled_flusher();
        }
    }

    /// The flusher may have more requests outstanding.
    pub(super) fn wake_throttled_flusher(&mut self) {
        let now = self.now;
        let linux = self.linux_mut();
        if linux.is_flusher_throttled && !linux.throttle.is_full(now, linux.flusher.plugged.len()) {
            linux.is_flusher_throttled = false;
            self.wake_syncer();
        }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Criticality;

    use super::*;
    use crate::host::criticality::Owner;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    /// A request that takes that long.
    fn serve(throttle: &mut Throttle, op: Operation, start_ms: u64, length_ms: u64) {
        let (initiator, class) = match op {
            Operation::Read => (1, Criticality::TimeCritical),
            _ => (SYNCER, Criticality::TimeNoncritical),
        };
        let issued = at(start_ms);
        throttle.issue(1, op, initiator == SYNCER, issued);
        let request = Outstanding::new(Owner::Nobody, class, op, initiator, issued);
        throttle.complete(1, &request, at(start_ms + length_ms));
    }

    /// A window with a read of that length and some writes.
    fn window(throttle: &mut Throttle, start_ms: u64, read_ms: u64, writes: u32) {
        serve(throttle, Operation::Read, start_ms, read_ms);
        (0..writes).for_each(|_| serve(throttle, Operation::Write, start_ms, 9));
        let end = throttle.window_end.expect("a window is open");
        throttle.end_window(end);
    }

    #[test]
    fn long_reads_halve_the_depth_and_short_ones_double_it() {
        let mut throttle = Throttle::new(Duration::from_ms(2), 128);
        let mut depths = vec![throttle.depth];
        for (number, read_ms) in [5, 5, 5, 5, 5, 1, 1, 1, 1, 1, 1, 1, 1].into_iter().enumerate() {
            window(&mut throttle, number as u64 * 200, read_ms, 3);
            depths.push(throttle.depth);
        }
        assert_eq!(depths, [16, 8, 4, 2, 1, 1, 2, 4, 8, 16, 31, 61, 96, 96]);
        assert_eq!(Throttle::new(Duration::from_ms(2), 2).depth, 2, "not more than the tags");
    }

    #[test]
    fn two_writes_say_nothing_about_reads() {
        let mut throttle = Throttle::new(Duration::from_ms(2), 128);
        window(&mut throttle, 0, 50, 2);
        assert_eq!(throttle.depth, 31, "writes alone double the depth");
    }

    #[test]
    fn read_that_does_not_end_halves_the_depth() {
        let mut throttle = Throttle::new(Duration::from_ms(2), 128);
        throttle.issue(1, Operation::Read, false, at(0));
        assert_eq!(throttle.window_end, Some(at(100)));
        throttle.end_window(at(100));
        // The window becomes shorter with the depth.
        assert_eq!((throttle.depth, throttle.window_end), (8, Some(at(100) + WINDOW * 16 / 22)));
    }

    #[test]
    fn share_of_the_depth_depends_on_other_requests_and_waiting_writers() {
        let mut throttle = Throttle::new(Duration::from_ms(2), 128);
        assert_eq!(throttle.limit(at(0)), 8);
        throttle.issue(1, Operation::Read, false, at(0));
        assert_eq!((throttle.limit(at(99)), throttle.limit(at(100))), (4, 8));
        throttle.last_wait = Some(at(50));
        assert_eq!((throttle.limit(at(99)), throttle.limit(at(1049)), throttle.limit(at(1050))), (16, 16, 8));
    }

    #[test]
    fn depth_returns_without_requests() {
        let mut throttle = Throttle::new(Duration::from_ms(2), 128);
        (0..2).for_each(|number| window(&mut throttle, number * 200, 5, 3));
        assert_eq!(throttle.depth, 4);
        let mut windows = 0;
        while let Some(end) = throttle.window_end {
            throttle.end_window(end);
            windows += 1;
        }
        // Five windows for the first step, and none is open afterwards.
        assert_eq!((throttle.depth, windows), (16, 10));
    }
}
