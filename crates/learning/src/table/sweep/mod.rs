//! Tables from a sweep: response times that a benchmark measured at some request lengths and depths.
//!
//! ```text
//! points (operation, length, queue length, sequential or not, quantiles) ─▶ tables() ─▶ TableParameters
//!
//! response                       ╱ beyond the deepest: throughput constant
//!   time │              ●╱╱╱╱╱╱╱╱
//!        │        ●╌╌╌╌╌  between two: the mean linear in the depth N, so that throughput N/(a + bN) is concave
//!        │  ●╌╌╌╌╌
//!        └──┴─────┴──────┴─────── depth
//! ```
//! # Rules
//! A closed load of depth N finds N - 1 requests at each arrival, which is the queue length of the table.
//! - *Between two depths* of one length, the mean is linear in the depth, and the shape goes over from one to
//!   the other in the logarithm of time.
//! - *Beyond the deepest*, throughput stays constant: times grow with the depth. There are cells up to eight
//!   times the deepest.
//! - *Below the shallowest*, times stay constant.
//! - If another length was measured at both depths, times grow or shrink by the same factor as for that
//!   length (between a shorter and a longer length: interpolated by the logarithm of the length), within
//!   these bounds: times do not fall with the depth, nor grow faster than the depth.
//! - *Between two lengths*, the mean is linear in the length; *beyond the longest*, the data rate stays
//!   constant, up to eight times the longest; *below the shortest*, times are those of the shortest.
//! - Flushes have no length. Beyond the measured depths they take as long as at the nearest depth, because a
//!   constant throughput cannot be assumed for requests of which one waits for others.
//! - Points of one class and of equal precedence are mixed in proportion to their requests. Of points of
//!   unequal precedence, those of the lowest are taken.
//!
//! # Scope and limits
//! The limits of tables apply: draws are independent. Random requests stand for every distance, so distance
//! does not matter; operations were measured separately, so the effect of mixtures is unknown. Cells beyond
//! the measured range are marked, and the device counts the requests that these cells answer.
//!
//! # References
//! Little's law, and the asymptotic bounds of closed queueing networks: E. D. Lazowska et al., Quantitative
//! System Performance, 1984, chapters 3 and 5.

mod quantiles;
mod surface;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use seeklab_core::Operation;
use seeklab_devices::table::parts::{Class, Distance, Place, write_cell};
use seeklab_devices::table::{Classes, TableParameters};

use crate::fit::DeviceInfo;
use surface::Surface;

pub use quantiles::Quantiles;

/// Measurement at one length and depth.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Operation of the requests.
    pub op: Operation,
    /// Their length, at least 1; of flushes nothing.
    pub blocks: u32,
    /// Requests outstanding that each found at its arrival.
    pub queue_length: u32,
    /// True if each request began where the one before ended, false if requests lay anywhere.
    pub is_sequential: bool,
    /// Their number.
    pub requests: u64,
    /// Rank among the points of a class: only points of the lowest rank count.
    pub precedence: u8,
    /// Their response times.
    pub times: Quantiles,
}

/// The tables of a device that was measured at these points; `None` without any.
pub fn tables(points: &[Point], about: DeviceInfo) -> Option<TableParameters> {
    let classes = Classes::default();
    let mut surfaces: BTreeMap<(Operation, bool), Surface> = BTreeMap::new();
    for point in points {
        surfaces.entry((point.op, point.is_sequential)).or_default().add(&classes, point);
    }
    let mut cells = Vec::new();
    for ((op, is_sequential), surface) in &surfaces {
        let distance = if *is_sequential { Distance::Sequential } else { Distance::Blocks(0) };
        let distance = classes.of(1, 0, distance).distance;
        let of_all: Box<dyn Iterator<Item = _>> = match op.addresses_blocks() {
            true => Box::new(surface.cells(&classes)),
            false => Box::new(surface.cells_without_length(&classes)),
        };
        for (length, queue, found) in of_all {
            let place = Place {
                op: *op,
                class: Class { length, queue, distance },
                is_anywhere: !is_sequential,
                is_beyond: found.is_beyond,
            };
            cells.push(write_cell(&classes, place, &found.times.counts().write()));
        }
    }
    let end = points.iter().map(|point| u64::from(point.blocks)).max()?;
    Some(TableParameters {
        capacity_blocks: about.capacity_blocks.max(end),
        block_size: about.block_size,
        // Who asks for flushes gets them.
        volatile_write_cache: surfaces.keys().any(|(op, _)| *op == Operation::Flush),
        rotational: false,
        cells,
        classes,
        // Results of a benchmark have no arrivals.
        region: None,
        fit: about.fit,
    })
}
