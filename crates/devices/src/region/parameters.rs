//! The region of a fitted model, as its description holds it.
//!
//! ```toml
//! [region]
//! gap_max = "18.2ms"
//! [[region.operations]]
//! op = "read"
//! requests = 4021
//! blocks_min = 8
//! blocks_max = 256
//! queue_min = 0
//! queue_max = 31
//! sequential = 210
//! [[region.windows]]
//! requests = 8
//! windows = 502
//! time_min = "3.1ms"
//! queue_min = 2
//! queue_max = 118
//! # …
//! ```

use schemars::JsonSchema;
use seeklab_core::{Duration, Operation, RegionBound, RegionBounds};
use serde::{Deserialize, Serialize};

use super::meter::{Arrived, LoadRequest, WINDOWS, Window};
use crate::error::{DescriptionError, check};

/// The loads that a model was fitted to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegionParameters {
    /// Longest interarrival time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_max: Option<Duration>,
    /// Bounds of the single requests of each operation.
    #[schemars(length(min = 1), extend("x-unit" = "operations"))]
    pub operations: Vec<OperationBounds>,
    /// Bounds of windows of consecutive requests. Windows of a length that the trace has too few of are absent.
    #[serde(default)]
    pub windows: Vec<WindowBounds>,
}

/// Bounds of single requests of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationBounds {
    /// The operation.
    pub op: Operation,
    /// Number of fitted requests.
    pub requests: u64,
    /// Shortest request, in blocks.
    pub blocks_min: u32,
    /// Longest request, in blocks.
    pub blocks_max: u32,
    /// Fewest other requests in the device at an arrival.
    #[serde(default)]
    pub queue_min: u32,
    /// Most other requests in the device at an arrival.
    pub queue_max: u32,
    /// Requests that began where one of the last 16 ended, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential: Option<u64>,
    /// Requests with force unit access, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fua: Option<u64>,
}

/// Bounds of windows of consecutive requests: of sums over the requests of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowBounds {
    /// Requests of a window: 8, 64 or 512.
    pub requests: u32,
    /// Number of fitted windows.
    pub windows: u64,
    /// Shortest time from the first arrival to the last.
    pub time_min: Duration,
    /// Longest time from the first arrival to the last, of a model whose times do not depend on the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_max: Option<Duration>,
    /// Smallest sum of the other requests in the device at the arrivals.
    #[serde(default)]
    pub queue_min: u64,
    /// Greatest sum of the other requests in the device at the arrivals.
    pub queue_max: u64,
    /// Fewest blocks of all requests.
    pub blocks_min: u64,
    /// Most blocks of all requests.
    pub blocks_max: u64,
    /// Fewest sequential requests.
    pub sequential_min: u32,
    /// Most sequential requests.
    pub sequential_max: u32,
    /// Fewest sequential reads, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_reads_min: Option<u32>,
    /// Most sequential reads, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_reads_max: Option<u32>,
    /// Fewest sequential writes, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_writes_min: Option<u32>,
    /// Most sequential writes, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_writes_max: Option<u32>,
    /// Fewest requests with force unit access, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fua_min: Option<u32>,
    /// Most requests with force unit access, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fua_max: Option<u32>,
    /// Most reads.
    pub reads_max: u32,
    /// Most writes.
    pub writes_max: u32,
    /// Most flushes.
    pub flushes_max: u32,
    /// Most discards.
    pub discards_max: u32,
    /// Most write-zeroes.
    pub write_zeroes_max: u32,
}

/// Number of fitted requests from which on a kind of request is known.
const KNOWN_LEAST: u64 = 16;

/// The region of a model, ready to judge requests.
#[derive(Debug, Clone, Default)]
pub struct Region {
    gap_max: Option<Duration>,
    operations: [Option<OperationBounds>; Operation::ALL.len()],
    windows: [Option<WindowBounds>; WINDOWS.len()],
}

impl RegionParameters {
    /// Checks that each operation and each length of windows occurs once.
    ///
    /// # Errors
    /// The first entry that does not fit; its path begins with `region`.
    pub(crate) fn read(&self) -> Result<Region, DescriptionError> {
        let mut region = Region { gap_max: self.gap_max, ..Region::default() };
        for (index, bounds) in self.operations.iter().enumerate() {
            let place = &mut region.operations[bounds.op as usize];
            let path = format!("region.operations[{index}].op");
            check(place.is_none(), path, bounds.op.name(), "each operation once")?;
            *place = Some(*bounds);
        }
        for (index, bounds) in self.windows.iter().enumerate() {
            let path = format!("region.windows[{index}].requests");
            let scale = WINDOWS.iter().position(|length| *length == bounds.requests);
            let is_new = scale.is_some_and(|scale| region.windows[scale].is_none());
            check(is_new, path, bounds.requests.to_string(), "8, 64 and 512, each once")?;
            region.windows[scale.unwrap_or_default()] = Some(*bounds);
        }
        Ok(region)
    }
}

impl Region {
    /// The region of single requests alone, of a model whose description has no other.
    pub(crate) fn of_operations(operations: impl IntoIterator<Item = OperationBounds>) -> Self {
        let mut region = Self::default();
        operations.into_iter().for_each(|bounds| region.operations[bounds.op as usize] = Some(bounds));
        region
    }

    /// The bounds that a request lies beyond.
    pub(super) fn beyond(&self, request: &LoadRequest, arrived: Arrived) -> RegionBounds {
        use RegionBound::{
            FuaAbove, FuaBelow, LengthAbove, LengthBelow, QueueAbove, QueueBelow, RateBelow, SequentialAbove,
            SequentialBelow,
        };
        let Some(bounds) = &self.operations[request.op as usize] else {
            return RegionBounds::NONE.with(RegionBound::Operation, true);
        };
        let known = KNOWN_LEAST.min(bounds.requests);
        let is_unknown = |alike: Option<u64>| alike.is_some_and(|alike| alike < known);
        let others = |alike: Option<u64>| alike.map(|alike| bounds.requests.saturating_sub(alike));
        let addresses = request.op.addresses_blocks();
        let is_sequential = arrived.is_sequential;
        RegionBounds::NONE
            .with(LengthBelow, addresses && request.blocks < bounds.blocks_min)
            .with(LengthAbove, addresses && request.blocks > bounds.blocks_max)
            .with(QueueBelow, request.queue_length < bounds.queue_min)
            .with(QueueAbove, request.queue_length > bounds.queue_max)
            .with(SequentialBelow, addresses && !is_sequential && is_unknown(others(bounds.sequential)))
            .with(SequentialAbove, addresses && is_sequential && is_unknown(bounds.sequential))
            .with(FuaBelow, !request.fua && is_unknown(others(bounds.fua)))
            .with(FuaAbove, request.fua && is_unknown(bounds.fua))
            .with(RateBelow, self.gap_max.is_some_and(|gap_max| arrived.gap > gap_max))
    }

    /// The bounds that a window lies beyond.
    pub(super) fn beyond_windows(&self, index: usize, window: &Window) -> RegionBounds {
        use RegionBound::{
            FuaAbove, FuaBelow, LengthAbove, LengthBelow, QueueAbove, QueueBelow, RateAbove, RateBelow,
            SequentialAbove, SequentialBelow, SequentialReadsAbove, SequentialReadsBelow,
            SequentialWritesAbove, SequentialWritesBelow,
        };
        let Some(bounds) = &self.windows[index] else { return RegionBounds::NONE };
        let shares = [
            bounds.reads_max,
            bounds.writes_max,
            bounds.flushes_max,
            bounds.discards_max,
            bounds.write_zeroes_max,
        ];
        let sequential = window.sequential.iter().sum::<u32>();
        let [reads, writes] = [Operation::Read, Operation::Write].map(|op| window.sequential[op as usize]);
        let is_below = |bound: Option<u32>, count: u32| bound.is_some_and(|least| count < least);
        let is_above = |bound: Option<u32>, count: u32| bound.is_some_and(|most| count > most);
        let beyond = RegionBounds::NONE
            .with(LengthBelow, window.blocks < bounds.blocks_min)
            .with(LengthAbove, window.blocks > bounds.blocks_max)
            .with(QueueBelow, window.queue < bounds.queue_min)
            .with(QueueAbove, window.queue > bounds.queue_max)
            .with(SequentialBelow, sequential < bounds.sequential_min)
            .with(SequentialAbove, sequential > bounds.sequential_max)
            .with(SequentialReadsBelow, is_below(bounds.sequential_reads_min, reads))
            .with(SequentialReadsAbove, is_above(bounds.sequential_reads_max, reads))
            .with(SequentialWritesBelow, is_below(bounds.sequential_writes_min, writes))
            .with(SequentialWritesAbove, is_above(bounds.sequential_writes_max, writes))
            .with(FuaBelow, is_below(bounds.fua_min, window.fua))
            .with(FuaAbove, is_above(bounds.fua_max, window.fua))
            .with(RateBelow, bounds.time_max.is_some_and(|longest| window.time > longest))
            .with(RateAbove, window.time < bounds.time_min);
        let all = Operation::ALL.into_iter().zip(window.operations).zip(shares);
        all.fold(beyond, |beyond, ((op, count), most)| beyond.with(RegionBound::share_of(op), count > most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Region {
        let bounds = OperationBounds {
            op: Operation::Read,
            requests: 1_000,
            blocks_min: 4,
            blocks_max: 16,
            queue_min: 1,
            queue_max: 3,
            sequential: Some(2),
            fua: Some(3),
        };
        let windows = WindowBounds {
            requests: 8,
            windows: 125,
            time_min: Duration::from_ms(4),
            time_max: Some(Duration::from_ms(60)),
            queue_min: 10,
            queue_max: 22,
            blocks_min: 40,
            blocks_max: 120,
            sequential_min: 1,
            sequential_max: 5,
            sequential_reads_min: Some(1),
            sequential_reads_max: Some(4),
            sequential_writes_min: Some(0),
            sequential_writes_max: Some(1),
            fua_min: Some(1),
            fua_max: Some(2),
            reads_max: 7,
            writes_max: 2,
            flushes_max: 0,
            discards_max: 0,
            write_zeroes_max: 0,
        };
        let gap_max = Some(Duration::from_ms(9));
        RegionParameters { gap_max, operations: vec![bounds], windows: vec![windows] }.read().unwrap()
    }

    #[test]
    fn request_lies_beyond_each_bound_on_either_side() {
        let region = region();
        let inside = LoadRequest { op: Operation::Read, lbn: 0, blocks: 8, fua: false, queue_length: 2 };
        let random = Arrived { gap: Duration::from_ms(9), is_sequential: false };
        let beyond =
            |request: LoadRequest, arrived| region.beyond(&request, arrived).iter().collect::<Vec<_>>();
        for (blocks, queue_length) in [(4, 1), (16, 3)] {
            assert_eq!(beyond(LoadRequest { blocks, queue_length, ..inside }, random), []);
        }
        use RegionBound::{
            FuaAbove, LengthAbove, LengthBelow, QueueAbove, QueueBelow, RateBelow, SequentialAbove,
        };
        assert_eq!(beyond(LoadRequest { blocks: 3, ..inside }, random), [LengthBelow]);
        assert_eq!(beyond(LoadRequest { blocks: 17, ..inside }, random), [LengthAbove]);
        assert_eq!(beyond(LoadRequest { queue_length: 0, ..inside }, random), [QueueBelow]);
        assert_eq!(beyond(LoadRequest { queue_length: 4, ..inside }, random), [QueueAbove]);
        assert_eq!(beyond(LoadRequest { op: Operation::Write, ..inside }, random), [RegionBound::Operation]);
        assert_eq!(beyond(inside, Arrived { is_sequential: true, ..random }), [SequentialAbove]);
        assert_eq!(beyond(LoadRequest { fua: true, ..inside }, random), [FuaAbove]);
        assert_eq!(beyond(inside, Arrived { gap: Duration::from_ms(10), ..random }), [RateBelow]);
    }

    #[test]
    fn window_lies_beyond_each_bound_on_either_side() {
        let region = region();
        let inside = Window {
            time: Duration::from_ms(4),
            queue: 10,
            blocks: 120,
            sequential: [4, 1, 0, 0, 0],
            fua: 1,
            operations: [7, 1, 0, 0, 0],
        };
        let beyond = |window: Window| region.beyond_windows(0, &window).iter().collect::<Vec<_>>();
        assert_eq!(beyond(inside), []);
        use RegionBound::{
            Flushes, FuaAbove, FuaBelow, LengthAbove, LengthBelow, QueueAbove, QueueBelow, RateAbove,
            RateBelow, Reads, SequentialAbove, SequentialBelow, SequentialReadsAbove, SequentialReadsBelow,
            SequentialWritesAbove, Writes,
        };
        assert_eq!(beyond(Window { time: Duration::from_ms(3), ..inside }), [RateAbove]);
        assert_eq!(beyond(Window { time: Duration::from_ms(61), ..inside }), [RateBelow]);
        assert_eq!(beyond(Window { fua: 0, ..inside }), [FuaBelow]);
        assert_eq!(beyond(Window { fua: 3, ..inside }), [FuaAbove]);
        assert_eq!(beyond(Window { queue: 9, ..inside }), [QueueBelow]);
        assert_eq!(beyond(Window { queue: 23, ..inside }), [QueueAbove]);
        assert_eq!(beyond(Window { blocks: 39, ..inside }), [LengthBelow]);
        assert_eq!(beyond(Window { blocks: 121, ..inside }), [LengthAbove]);
        let sequential = |counts| {
            let mut window = inside;
            window.sequential = counts;
            beyond(window)
        };
        assert_eq!(sequential([0; 5]), [SequentialBelow, SequentialReadsBelow]);
        assert_eq!(sequential([4, 1, 0, 1, 0]), [SequentialAbove]);
        assert_eq!(sequential([5, 0, 0, 0, 0]), [SequentialReadsAbove], "as many as fitted, but other ones");
        assert_eq!(sequential([1, 2, 0, 0, 0]), [SequentialWritesAbove]);
        assert_eq!(beyond(Window { operations: [8, 0, 0, 0, 0], ..inside }), [Reads]);
        assert_eq!(beyond(Window { operations: [4, 3, 1, 0, 0], ..inside }), [Writes, Flushes]);
        assert!(region.beyond_windows(1, &Window::default()).is_empty(), "no such windows were fitted");
    }

    #[test]
    fn each_operation_and_window_stands_once() {
        let bounds = region().operations[0].unwrap();
        let windows = region().windows[0].unwrap();
        let parameters = RegionParameters { gap_max: None, operations: vec![bounds; 2], windows: vec![] };
        assert!(parameters.read().unwrap_err().to_string().contains("region.operations[1].op"));
        for of in [vec![windows; 2], vec![windows, WindowBounds { requests: 9, ..windows }]] {
            let parameters = RegionParameters { gap_max: None, operations: vec![bounds], windows: of };
            assert!(parameters.read().unwrap_err().to_string().contains("region.windows[1].requests"));
        }
    }
}
