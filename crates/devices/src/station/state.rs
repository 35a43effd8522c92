//! Memory of a device: the features of the next service follow from the requests so far.
//!
//! A fit to a trace and a clone that serves requests use the same code.

use seeklab_core::{Duration, Instant, Operation};

use super::feature::{self, FEATURES, Feature, Row};
use crate::table::bucket;

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
    /// The bucket of the typical service time of each operation.
    pub typical: [u32; Operation::ALL.len()],
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
    dirty_blocks: u64,
    /// The window of a little more than a second to which `load` belongs, and the blocks of the one before.
    window: u64,
    load: [u64; 2],
    /// Mean of the buckets by which services exceeded the typical one, times 16.
    pace: i64,
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
    pub fn arrive(&mut self, now: Instant, asked: &StationRequest) {
        self.count += 1;
        self.turn(now);
        self.load[0] += u64::from(asked.blocks);
    }

    /// Its service starts, at once or after it had waited; what is known of it.
    pub fn start(&mut self, now: Instant, asked: &StationRequest, waited: bool, scale: &Scale) -> Row {
        self.turn(now);
        let mut row = [0; FEATURES];
        let mut set = |feature: Feature, class: u8| row[feature as usize] = class;
        set(Feature::Op, asked.op as u8);
        set(Feature::Queue, feature::counted(self.count.saturating_sub(1), 4));
        set(Feature::Before, self.before_op.map_or(Operation::ALL.len() as u8, |op| op as u8));
        set(Feature::Waited, u8::from(waited));
        let was_idle = self.count == 1 && !waited;
        let idle = if was_idle { now - self.idle_since } else { Duration::ZERO };
        set(Feature::Idle, feature::counted(idle.as_ns() / 1_000, 1));
        set(Feature::Dirty, feature::counted(self.dirty_blocks, 1));
        set(Feature::Load, feature::counted(self.load[0] + self.load[1], 1));
        set(Feature::Pace, feature::pace(self.pace / 16));
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
            self.before = Some((asked.lbn, asked.end()));
            self.ends[self.next_end] = asked.end();
            self.next_end = (self.next_end + 1) % STREAMS;
        }
        set(Feature::Distance, distance);
        self.before_op = Some(asked.op);
        match asked.op {
            Operation::Write => self.dirty_blocks = self.dirty_blocks.saturating_add(u64::from(asked.blocks)),
            Operation::Flush => self.dirty_blocks = 0,
            _ => {}
        }
        row
    }

    /// Its service has ended.
    pub fn complete(&mut self, now: Instant, op: Operation, service: Duration, scale: &Scale) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.idle_since = now;
        }
        let beyond = i64::from(bucket(service.as_ns())) - i64::from(scale.typical[op as usize]);
        self.pace += (16 * beyond - self.pace) / 4;
    }

    /// Turns the windows of the load to `now`.
    fn turn(&mut self, now: Instant) {
        let window = now.as_ns() >> 30;
        match window - self.window {
            0 => return,
            1 => self.load = [0, self.load[0]],
            _ => self.load = [0, 0],
        }
        self.window = window;
    }
}
