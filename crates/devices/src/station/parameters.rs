//! Description of a station.
//!
//! ```toml
//! kind = "station"
//! capacity_blocks = 71131721
//! block_size = "512B"
//! servers = 4
//! order = "nearest"
//! band_blocks = 1024
//! picks = ["2: 0*90 -1*10"]
//! tree = ["op < write", ". = 1210 3*7", ". = 1800"]
//! [[operations]]
//! op = "read"
//! requests = 4021
//! typical = "112us"
//! blocks_min = 8
//! blocks_max = 256
//! queue_max = 31
//! sequential = 210
//! [region]
//! # …
//! [fit]
//! trace = "prod.parquet"
//! ```
//! `servers = 0` stands for one server for each request. Picks: [`picks`](super::picks); tree:
//! [`tree`](super::tree); region: [`region`](crate::region).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{ByteSize, Capabilities, Duration, Operation};
use serde::{Deserialize, Serialize};

use super::feature::{Feature, Row};
use super::model::Parts;
use super::order::{First, Line, Order};
use super::picks::PickCounts;
use super::state::Scale;
use super::tree::Tree;
use crate::error::{DescriptionError, check, check_size};
use crate::region::{OperationBounds, Region, RegionParameters};
use crate::registry::described;

/// Parameters of a station.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StationParameters {
    /// Blocks that can be addressed.
    #[schemars(range(min = 1), extend("x-unit" = "blocks"))]
    pub capacity_blocks: u64,
    /// Bytes in a block.
    #[schemars(extend("x-minimum" = "1B"))]
    pub block_size: ByteSize,
    /// True if completed writes can be lost before a flush.
    #[serde(default)]
    pub volatile_write_cache: bool,
    /// True if the device has moving media, so that hosts schedule for it.
    #[serde(default)]
    pub rotational: bool,
    /// Requests that are served at a time; 0 for one server for each request.
    pub servers: u32,
    /// The order in which it looks at requests that wait.
    #[serde(default = "fcfs")]
    pub order: Order,
    /// Blocks of a band within which requests are taken in order of arrival.
    #[serde(default = "one")]
    #[schemars(range(min = 1), extend("x-unit" = "blocks"))]
    pub band_blocks: u64,
    /// Operation whose requests stand before all others.
    #[serde(default, skip_serializing_if = "First::is_none")]
    pub first: First,
    /// Ranks in that order of the requests that are taken next, by the number of waiting requests, as
    /// text.
    #[serde(default)]
    pub picks: Vec<String>,
    /// The questions that lead to a distribution of service times, as text.
    pub tree: Vec<String>,
    /// Properties of the requests of each operation.
    #[schemars(length(min = 1), extend("x-unit" = "operations"))]
    pub operations: Vec<OperationSeen>,
    /// Loads that the device was fitted to [default: single requests as in `operations`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionParameters>,
    /// Origin of the fit, for people.
    #[serde(default)]
    pub fit: BTreeMap<String, String>,
}

const fn fcfs() -> Order {
    Order::Fcfs
}

const fn one() -> u64 {
    1
}

/// Fitted range of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationSeen {
    /// The operation.
    pub op: Operation,
    /// Number of fitted requests.
    pub requests: u64,
    /// Median service time. That of reads is taken for the time of a destage; without reads, that of writes.
    pub typical: Duration,
    /// Shortest request, in blocks.
    pub blocks_min: u32,
    /// Longest request, in blocks.
    pub blocks_max: u32,
    /// Most other requests in the device at an arrival.
    pub queue_max: u32,
    /// Requests that began where one of the last served ended, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential: Option<u64>,
}

impl OperationSeen {
    /// The bounds of single requests.
    fn bounds(&self) -> OperationBounds {
        let Self { op, requests, typical: _, blocks_min, blocks_max, queue_max, sequential } = *self;
        OperationBounds {
            op,
            requests,
            blocks_min,
            blocks_max,
            queue_min: 0,
            queue_max,
            sequential,
            fua: None,
        }
    }
}

/// Returns true if a request begins where one of the last served ended.
pub fn is_sequential(row: &Row) -> bool {
    row[Feature::Stream as usize] == 0
}

impl StationParameters {
    /// The description of the device, its kind included.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn description(&self) -> Result<toml::Table, DescriptionError> {
        described("station", self)
    }

    /// Returns the order of the waiting requests.
    pub(super) const fn line(&self) -> Line {
        Line { order: self.order, band_blocks: self.band_blocks, first: self.first }
    }

    fn destage(&self) -> Duration {
        let of = |op| self.operations.iter().find(|seen| seen.op == op).map(|seen| seen.typical);
        of(Operation::Read).or_else(|| of(Operation::Write)).unwrap_or_default()
    }

    /// Checks everything and reads what is text.
    pub(crate) fn read(&self) -> Result<Parts, DescriptionError> {
        check_ranges(self)?;
        check_size(self.capacity_blocks, self.block_size)?;
        let picks = PickCounts::read(&self.picks).map_err(|(index, allowed)| {
            DescriptionError::refused(format!("picks[{index}]"), shortened(&self.picks[index]), allowed)
        })?;
        let tree = Tree::read(&self.tree).map_err(|(index, problem)| {
            let seen = self.tree.get(index).map_or_else(|| "the end".to_owned(), |line| shortened(line));
            let allowed = "FEATURE < VALUE, followed by what answers yes and what answers no, or = TIMES";
            DescriptionError::refused(format!("tree[{index}]"), format!("{seen}: {problem}"), allowed)
        })?;
        for (index, seen) in self.operations.iter().enumerate() {
            let is_new = self.operations[..index].iter().all(|before| before.op != seen.op);
            check(is_new, format!("operations[{index}].op"), seen.op.name(), "each operation once")?;
        }
        let region = match &self.region {
            Some(region) => region.read()?,
            None => Region::of_operations(self.operations.iter().map(OperationSeen::bounds)),
        };
        Ok(Parts {
            capabilities: Capabilities {
                capacity_blocks: self.capacity_blocks,
                block_size: self.block_size,
                queue_depth: u32::MAX,
                volatile_write_cache: self.volatile_write_cache,
                rotational: self.rotational,
            },
            servers: if self.servers == 0 { usize::MAX } else { self.servers as usize },
            line: self.line(),
            picks: picks.picks(),
            scale: Scale { capacity_blocks: self.capacity_blocks, destage: self.destage() },
            tree,
            region,
        })
    }
}

fn shortened(text: &str) -> String {
    format!("`{}`", text.chars().take(60).collect::<String>())
}
