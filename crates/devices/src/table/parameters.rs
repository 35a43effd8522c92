//! The tables of a device as its description holds them.
//!
//! ```toml
//! kind = "table"
//! capacity_blocks = 71131721
//! block_size = "512B"
//! cells = ["read 8 0 +1024: 1210 3*7 1*2", …]
//! [classes]
//! distances_per_octave = 1
//! [region]
//! # …
//! [fit]
//! trace = "prod.parquet"
//! ```
//! A cell is an operation; the least length in blocks, queue length and seek distance of its class (signed, or
//! `seq` where the request begins where the one before ended, `any` for all others); `beyond` where it was concluded
//! from others and lies outside what was measured; and its times, see [`times`](super::times). Region:
//! [`region`](crate::region).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Operation};
use serde::{Deserialize, Serialize};

use super::classes::{Class, Classes, Distance};
use super::grid::Place;
use super::times::Times;
use crate::error::{DescriptionError, check, check_size};
use crate::region::RegionParameters;
use crate::registry::described;

/// Parameters of a device given by tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableParameters {
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
    /// Operation, class and times of each cell, as text.
    #[schemars(length(min = 1, max = CELLS_MAX), extend("x-unit" = "cells"))]
    pub cells: Vec<String>,
    /// Fineness of the classes of requests.
    #[serde(default)]
    pub classes: Classes,
    /// Loads that the device was fitted to. Without it, requests of a class without a cell are outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionParameters>,
    /// Origin of the fit, for people.
    #[serde(default)]
    pub fit: BTreeMap<String, String>,
}

/// One cell, read.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) place: Place,
    pub(super) times: Times,
}

/// No more cells: a grid has no more classes.
const CELLS_MAX: usize = 1 << 20;

impl TableParameters {
    /// The description of the device, its kind included.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn description(&self) -> Result<toml::Table, DescriptionError> {
        described("table", self)
    }

    /// Checks everything and reads the cells.
    pub(super) fn read(&self) -> Result<Vec<Cell>, DescriptionError> {
        check_size(self.capacity_blocks, self.block_size)?;
        self.classes.check()?;
        let count = self.cells.len();
        check((1..=CELLS_MAX).contains(&count), "cells", format!("{count} of them"), "1 to 1048576")?;
        let mut cells = Vec::with_capacity(count);
        for (index, text) in self.cells.iter().enumerate() {
            let cell = read_cell(&self.classes, text).map_err(|problem| {
                let seen: String = text.chars().take(60).collect();
                let allowed =
                    "OPERATION BLOCKS QUEUE DISTANCE: TIMES, such as `read 8 0 +1024: 1210 3*7 1*2`";
                DescriptionError::refused(format!("cells[{index}]"), format!("`{seen}`: {problem}"), allowed)
            })?;
            cells.push(cell);
        }
        let places = |cell: &Cell| {
            let op = cell.place.op;
            cell.place.classes(&self.classes).map(move |class| (op, class))
        };
        let mut known: Vec<(Operation, Class)> = cells.iter().flat_map(places).collect();
        known.sort_unstable();
        let twice = known.windows(2).any(|pair| pair[0] == pair[1]);
        check(!twice, "cells", "two have the same operation and class", "one cell for each class")?;
        Ok(cells)
    }
}

/// A cell as text.
pub fn write_cell(classes: &Classes, place: Place, times: &str) -> String {
    let (blocks, queue_length, distance) = classes.least(place.class);
    let distance = match distance {
        _ if place.is_anywhere => "any".to_owned(),
        Distance::Sequential => "seq".to_owned(),
        Distance::Blocks(0) => "0".to_owned(),
        Distance::Blocks(blocks) => format!("{blocks:+}"),
    };
    let beyond = if place.is_beyond { " beyond" } else { "" };
    format!("{} {blocks} {queue_length} {distance}{beyond}: {times}", place.op.name())
}

fn read_cell(classes: &Classes, text: &str) -> Result<Cell, String> {
    let (class, times) = text.split_once(':').ok_or("there is no `:`")?;
    let mut words: Vec<&str> = class.split_ascii_whitespace().collect();
    let is_beyond = words.len() == 5 && words.last() == Some(&"beyond");
    if is_beyond {
        words.pop();
    }
    let [op, blocks, queue_length, distance] = words[..] else {
        return Err(format!("there are {} words before the `:`, not 4", words.len()));
    };
    let op = Operation::from_name(op).ok_or_else(|| format!("`{op}` is no operation"))?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{text}` is no whole number"));
    let is_anywhere = distance == "any";
    let distance = match distance {
        "any" => Distance::Blocks(0),
        "seq" => Distance::Sequential,
        blocks => Distance::Blocks(blocks.parse().map_err(|_| format!("`{blocks}` is no distance"))?),
    };
    let class = classes.of(number(blocks)?, number(queue_length)?, distance);
    Ok(Cell { place: Place { op, class, is_anywhere, is_beyond }, times: Times::read(times)? })
}
