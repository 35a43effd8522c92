//! Fitting tables to a trace, row by row in order of arrival: memory holds the tables and what is outstanding.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use seeklab_core::{Instant, Operation, TraceRecord};
use toml::Table;

use super::classes::{Class, Classes};
use super::grid::Place;
use super::model::distance;
use super::parameters::{TableParameters, write_cell};
use super::times::Counts;
use crate::description::DescriptionError;
use crate::error::ParameterError;
use crate::fit::{About, Fit, FitSummary};

/// Tables being fitted.
#[derive(Debug, Clone)]
pub struct TableFit {
    classes: Classes,
    cells: BTreeMap<(Operation, Class), Counts>,
    before: Option<(u64, u64)>,
    /// When the requests outstanding complete.
    outstanding: BinaryHeap<Reverse<Instant>>,
    summary: FitSummary,
}

impl TableFit {
    /// Empty tables.
    ///
    /// # Errors
    /// Classes that cannot be.
    pub fn new(classes: Classes) -> Result<Self, ParameterError> {
        classes.check()?;
        Ok(Self {
            classes,
            cells: BTreeMap::new(),
            before: None,
            outstanding: BinaryHeap::new(),
            summary: FitSummary::default(),
        })
    }

    /// The device fitted so far.
    pub fn parameters(&self, about: About) -> TableParameters {
        let cells = self.cells.iter();
        TableParameters {
            capacity_blocks: about.capacity_blocks.max(self.summary.end).max(1),
            block_size: about.block_size,
            volatile_write_cache: self.cells.keys().any(|(op, _)| *op == Operation::Flush),
            rotational: false,
            cells: cells
                .map(|((op, class), counts)| {
                    let place = Place { op: *op, class: *class, is_anywhere: false, is_beyond: false };
                    write_cell(&self.classes, place, &counts.write())
                })
                .collect(),
            classes: self.classes,
            fit: about.fit,
        }
    }
}

impl Fit for TableFit {
    fn record(&mut self, record: &TraceRecord) {
        while self.outstanding.peek().is_some_and(|Reverse(completion)| *completion <= record.arrival) {
            self.outstanding.pop();
        }
        let addresses = record.op.addresses_blocks();
        let distance = distance(record.lbn, addresses, self.before);
        if addresses {
            let end = record.lbn.saturating_add(u64::from(record.blocks));
            self.before = Some((record.lbn, end));
            self.summary.end = self.summary.end.max(end);
        }
        let Some((completion, response)) = record.completion.zip(record.response_time()) else {
            self.summary.without_response += 1;
            return;
        };
        let queue_length = u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX);
        self.outstanding.push(Reverse(completion));
        if record.status != seeklab_core::Status::Ok {
            self.summary.failed += 1;
            return;
        }
        self.summary.queue_length_max = self.summary.queue_length_max.max(queue_length);
        self.summary.requests += 1;
        let class = self.classes.of(record.blocks, queue_length, distance);
        self.cells.entry((record.op, class)).or_default().record(response);
    }

    fn summary(&self) -> FitSummary {
        self.summary
    }

    fn cells(&self) -> usize {
        self.cells.len()
    }

    fn description(&self, about: About) -> Result<Table, DescriptionError> {
        self.parameters(about).description()
    }
}
