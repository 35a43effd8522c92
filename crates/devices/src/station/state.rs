//! Memory of a device: the features of the next service follow from the requests so far.
//!
//! A fit to a trace and a clone that serves requests use the same code.

use seeklab_core::{Duration, Instant, Operation};

use super::feature::{self, FEATURES, Feature, Row};

/// Ends that are remembered, so that streams which interleave are known.
const STREAMS: usize = 16;

/// A request, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StationRequest {
    /// Operation of the request.
    pub op: Operation,
    /// Its first block.
    pub lbn: u64,
    /// Its blocks.
    pub blocks: u32,
    /// Force unit access: it completes when its data are on the media.
    pub fua: bool,
}

impl StationRequest {
    const fn end(&self) -> u64 {
        self.lbn.saturating_add(self.blocks as u64)
    }
}

/// Values that are the same for all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Blocks of the device.
    pub capacity_blocks: u64,
    /// Time that the media take for a write of the buffer, about that of a read; of a write, if there are no reads.
    pub destage: Duration,
}

/// The past of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// Requests in the device.
    count: u64,
    /// Start and end of the request whose service started last.
    before: Option<(u64, u64)>,
    before_op: Option<Operation>,
    ends: [u64; STREAMS],
    next_end: usize,
    idle_since: Instant,
    /// Writes served one after the other just before.
    writes_in_row: u64,
    /// Writes served since the device was last idle, or since the last flush.
    writes_since_idle: u64,
    debt: Debt,
}

/// Writes that a buffer has taken and that are not on the media: one after the other is written while no request needs the
/// media, and one that was begun is finished before a request that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Debt {
    owed_ns: u64,
    /// Time up to which it is known.
    known_at: Instant,
    /// True while a request needs the media.
    is_held: bool,
}

impl Debt {
    fn pass(&mut self, now: Instant) {
        let passed = now.saturating_since(std::mem::replace(&mut self.known_at, now));
        if !self.is_held {
            self.owed_ns = self.owed_ns.saturating_sub(passed.as_ns());
        }
    }

    /// A service starts.
    fn start(&mut self, asked: &StationRequest, destage: Duration) {
        let destage_ns = destage.as_ns().max(1);
        self.is_held = match asked.op {
            Operation::Read | Operation::Flush | Operation::WriteZeroes => true,
            Operation::Write => asked.fua,
            Operation::Discard => false,
        };
        self.owed_ns = match asked.op {
            Operation::Flush => 0,
            _ if self.is_held => self.owed_ns.saturating_sub(1) / destage_ns * destage_ns,
            Operation::Write => self.owed_ns.saturating_add(destage_ns),
            _ => self.owed_ns,
        };
    }

    /// A service has ended.
    fn complete(&mut self, now: Instant) {
        self.pass(now);
        self.is_held = false;
    }
}

impl State {
    /// Requests in the device.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the end of the request served before.
    pub fn last_end(&self) -> u64 {
        self.before.map_or(0, |(_, end)| end)
    }

    /// A request arrives.
    pub const fn arrive(&mut self) {
        self.count += 1;
    }

    /// Returns the features of a service that starts now, at once or after the request had waited.
    pub fn row(&mut self, now: Instant, asked: &StationRequest, waited: bool, scale: &Scale) -> Row {
        let mut row = [0; FEATURES];
        let mut set = |feature: Feature, class: u8| row[feature as usize] = class;
        set(Feature::Op, asked.op as u8);
        set(Feature::Fua, u8::from(asked.fua));
        set(Feature::Queue, feature::counted(self.count.saturating_sub(1), 4));
        set(Feature::Before, self.before_op.map_or(Operation::ALL.len() as u8, |op| op as u8));
        set(Feature::Waited, u8::from(waited));
        let was_idle = self.count == 1 && !waited;
        let idle = if was_idle { now - self.idle_since } else { Duration::ZERO };
        set(Feature::Idle, feature::counted(idle.as_ns() / 1_000, 1));
        if was_idle {
            self.writes_since_idle = 0;
        }
        // A buffer has to write them before it has room, or before a read that waits for them.
        set(Feature::WritesInRow, feature::counted(self.writes_in_row, 4));
        set(Feature::WritesSinceIdle, feature::counted(self.writes_since_idle, 4));
        self.debt.pass(now);
        set(Feature::Owed, feature::counted(self.debt.owed_ns / 1_000, 4));
        let mut distance = feature::distance(0, false);
        if asked.op.addresses_blocks() {
            set(Feature::Length, feature::counted(u64::from(asked.blocks), 2));
            if let Some((start, end)) = self.before {
                distance = feature::distance(asked.lbn.wrapping_sub(start) as i64, end == asked.lbn);
            }
            let nearest = self.ends.iter().map(|end| end.abs_diff(asked.lbn)).min().unwrap_or(0);
            set(Feature::Stream, feature::counted(nearest, 1));
            let place = u128::from(asked.lbn) * 64 / u128::from(scale.capacity_blocks.max(1));
            set(Feature::Place, place.min(63) as u8);
        }
        set(Feature::Distance, distance);
        row
    }

    /// Its service starts; the features are those of [`row`](Self::row).
    pub fn start(&mut self, now: Instant, asked: &StationRequest, waited: bool, scale: &Scale) -> Row {
        let row = self.row(now, asked, waited, scale);
        self.debt.start(asked, scale.destage);
        if asked.op.addresses_blocks() {
            self.before = Some((asked.lbn, asked.end()));
            self.ends[self.next_end] = asked.end();
            self.next_end = (self.next_end + 1) % STREAMS;
        }
        self.before_op = Some(asked.op);
        match asked.op {
            Operation::Write => {
                (self.writes_in_row, self.writes_since_idle) =
                    (self.writes_in_row + 1, self.writes_since_idle + 1)
            }
            Operation::Flush => (self.writes_in_row, self.writes_since_idle) = (0, 0),
            _ => self.writes_in_row = 0,
        }
        row
    }

    /// Its service has ended.
    pub fn complete(&mut self, now: Instant) {
        self.debt.complete(now);
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.idle_since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_in_a_row_and_since_the_device_was_idle() {
        let scale = Scale { capacity_blocks: 1_000, destage: Duration::from_ms(4) };
        let mut state = State::default();
        let mut now = Instant::ZERO;
        let mut serve = |op: Operation, waited: bool, is_last: bool| {
            // Another request is in the device unless the device is idle afterwards.
            state.arrive();
            if !waited {
                state.arrive();
            }
            now += Duration::from_ms(1);
            let row = state.start(now, &StationRequest { op, lbn: 8, blocks: 8, fua: false }, waited, &scale);
            state.complete(now);
            if is_last {
                state.complete(now);
            }
            [row[Feature::WritesInRow as usize], row[Feature::WritesSinceIdle as usize]]
        };
        let (read, write, flush) = (Operation::Read, Operation::Write, Operation::Flush);
        let counts = |counts: [u64; 2]| counts.map(|count| feature::counted(count, 4));
        assert_eq!(serve(write, false, false), counts([0, 0]));
        assert_eq!(serve(write, true, false), counts([1, 1]));
        assert_eq!(serve(read, true, false), counts([2, 2]));
        // The read ended the row, and nothing of what was written since the device was idle.
        assert_eq!(serve(write, true, false), counts([0, 2]));
        assert_eq!(serve(flush, true, false), counts([1, 3]));
        assert_eq!(serve(read, true, true), counts([0, 0]));
    }

    #[test]
    fn buffer_writes_while_nothing_needs_the_media() {
        let ms = |ms| Instant::ZERO + Duration::from_ms(ms);
        let asked = |op, fua| StationRequest { op, lbn: 8, blocks: 8, fua };
        let (read, write) = (asked(Operation::Read, false), asked(Operation::Write, false));
        let destage = Duration::from_ms(4);
        let mut debt = Debt::default();
        let mut owed_ms = |from, asked: &StationRequest, until| {
            debt.pass(ms(from));
            let before = debt.owed_ns as f64 / 1e6;
            debt.start(asked, destage);
            debt.complete(ms(until));
            before
        };
        assert_eq!(owed_ms(0, &write, 0), 0.0);
        assert_eq!(owed_ms(0, &write, 0), 4.0);
        assert_eq!(owed_ms(0, &write, 1), 8.0);
        // The read waits for the one that has begun; the others wait for the read.
        assert_eq!(owed_ms(1, &read, 9), 11.0);
        assert_eq!(owed_ms(9, &read, 20), 8.0);
        assert_eq!(owed_ms(22, &asked(Operation::Write, true), 23), 2.0, "two of four while idle");
        assert_eq!(owed_ms(23, &write, 23), 0.0, "force unit access leaves nothing behind");
        assert_eq!(owed_ms(24, &asked(Operation::Flush, false), 40), 3.0);
        assert_eq!(owed_ms(40, &read, 41), 0.0);
    }

    #[test]
    fn idle_device_owes_no_writes() {
        let scale = Scale { capacity_blocks: 1_000, destage: Duration::from_ms(4) };
        let mut state = State::default();
        let write = StationRequest { op: Operation::Write, lbn: 8, blocks: 8, fua: false };
        let mut at = |now: Instant| {
            state.arrive();
            let row = state.start(now, &write, false, &scale);
            state.complete(now + Duration::from_ms(1));
            [row[Feature::WritesInRow as usize], row[Feature::WritesSinceIdle as usize]]
        };
        assert_eq!(at(Instant::ZERO), [0, 0]);
        assert_eq!(at(Instant::ZERO + Duration::from_ms(5)), [1, 0]);
    }
}
