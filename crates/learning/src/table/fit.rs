//! Fitting tables to a trace, row by row in order of arrival: memory holds the tables and what is outstanding.
//!
//! A class is found by its place in the grid of all, which holds the number of its cell: 600 KiB for each operation
//! that occurs, unless classes are finer.

use seeklab_core::{Operation, TraceRecord};
use seeklab_devices::DescriptionError;
use seeklab_devices::table::parts::{Class, Counts, Place, distance, place, write_cell};
use seeklab_devices::table::{Classes, TableParameters};
use toml::Table;

use crate::counts::FitCounts;
use crate::error::Error;
use crate::fit::{DeviceInfo, Fit, FitSummary, has_waits};

/// Tables being fitted.
#[derive(Debug, Clone)]
pub struct TableFit {
    classes: Classes,
    /// For each operation and place in the grid, one more than the number of the cell, or 0 where there
    /// is no cell. Empty for an operation without requests.
    numbers: [Vec<u32>; Operation::ALL.len()],
    cells: Vec<Counts>,
    /// Operation and class of each cell.
    keys: Vec<(Operation, Class)>,
    before: Option<(u64, u64)>,
    counts: FitCounts,
}

impl TableFit {
    /// Empty tables.
    ///
    /// # Errors
    /// Classes that cannot be.
    pub fn new(classes: Classes) -> Result<Self, DescriptionError> {
        classes.check()?;
        Ok(Self {
            classes,
            numbers: Default::default(),
            cells: Vec::new(),
            keys: Vec::new(),
            before: None,
            counts: FitCounts::default(),
        })
    }

    /// The device fitted so far.
    pub fn parameters(&self, about: DeviceInfo) -> TableParameters {
        let mut cells: Vec<_> = self.keys.iter().zip(&self.cells).collect();
        cells.sort_unstable_by_key(|(key, _)| **key);
        let seen = |op: Operation| !self.numbers[op as usize].is_empty();
        TableParameters {
            capacity_blocks: about.capacity_blocks.max(self.counts.summary().end).max(1),
            block_size: about.block_size,
            volatile_write_cache: seen(Operation::Flush),
            rotational: false,
            cells: cells
                .into_iter()
                .map(|((op, class), counts)| {
                    let place = Place { op: *op, class: *class, is_anywhere: false, is_beyond: false };
                    write_cell(&self.classes, place, &counts.write())
                })
                .collect(),
            classes: self.classes,
            // Where requests wait for each other, the times contain the waits of this load.
            region: match self.classes.queues_per_octave == 0
                || has_waits(self.counts.summary().queue_length_max)
            {
                true => self.counts.region_of_one_load(),
                false => self.counts.region(),
            },
            fit: about.fit,
        }
    }

    /// The times of a class.
    fn cell(&mut self, op: Operation, class: Class) -> &mut Counts {
        let numbers = &mut self.numbers[op as usize];
        if numbers.is_empty() {
            *numbers = vec![0; self.classes.counts().iter().map(|count| *count as usize).product()];
        }
        let number = &mut numbers[place(self.classes.counts(), class)];
        if *number == 0 {
            self.cells.push(Counts::default());
            self.keys.push((op, class));
            *number = self.cells.len() as u32;
        }
        &mut self.cells[*number as usize - 1]
    }
}

impl Fit for TableFit {
    fn record(&mut self, record: &TraceRecord) {
        let addresses = record.op.addresses_blocks();
        let distance = distance(record.lbn, addresses, self.before);
        if addresses {
            self.before = Some((record.lbn, record.lbn.saturating_add(u64::from(record.blocks))));
        }
        let Some((response, queue_length)) = self.counts.record(record) else { return };
        let class = self.classes.of(record.blocks, queue_length, distance);
        self.cell(record.op, class).record(response);
    }

    fn summary(&self) -> FitSummary {
        self.counts.summary()
    }

    fn description(&self, about: DeviceInfo) -> Result<Table, Error> {
        Ok(self.parameters(about).description()?)
    }
}
