//! A device that answers by table look-up.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use seeklab_core::{
    Breakdown, BufferOutcome, Capabilities, Completion, Coverage, Device, Instant, Rejected, Request, Seed,
    Status, Stream,
};

use super::classes::{Classes, Distance};
use super::grid::Grid;
use super::parameters::TableParameters;
use super::times::Times;
use crate::error::ParameterError;

/// A device whose response times are drawn from tables.
#[derive(Debug, Clone)]
pub struct TableModel {
    tables: Arc<Tables>,
    stream: Stream,
    /// Start and end of the request before.
    before: Option<(u64, u64)>,
    outstanding: BinaryHeap<Reverse<Pending>>,
    submitted: u64,
    coverage: Coverage,
}

/// What does not change.
#[derive(Debug)]
struct Tables {
    capabilities: Capabilities,
    classes: Classes,
    grid: Grid,
    times: Vec<Times>,
}

/// A request and when it completes; of two at once the first submitted completes first.
#[derive(Debug, Clone, Copy)]
struct Pending {
    number: u64,
    completion: Completion,
}

impl Pending {
    const fn key(&self) -> (Instant, u64) {
        (self.completion.completed, self.number)
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl TableModel {
    /// A device of these tables; times are drawn from the stream `NAME.response_time`.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn new(parameters: &TableParameters, seed: Seed, name: &str) -> Result<Self, ParameterError> {
        let cells = parameters.read()?;
        let places: Vec<_> = cells.iter().map(|cell| cell.place).collect();
        let tables = Tables {
            capabilities: Capabilities {
                capacity_blocks: parameters.capacity_blocks,
                block_size: parameters.block_size,
                queue_depth: u32::MAX,
                volatile_write_cache: parameters.volatile_write_cache,
                rotational: parameters.rotational,
            },
            classes: parameters.classes,
            grid: Grid::of(&parameters.classes, &places),
            times: cells.into_iter().map(|cell| cell.times).collect(),
        };
        Ok(Self {
            tables: Arc::new(tables),
            stream: seed.stream(&format!("{name}.response_time")),
            before: None,
            outstanding: BinaryHeap::new(),
            submitted: 0,
            coverage: Coverage::default(),
        })
    }
}

/// How `request` relates to the one before it, which began and ended there. A flush has no place.
pub(super) fn distance(request_lbn: u64, addresses: bool, before: Option<(u64, u64)>) -> Distance {
    match before {
        Some((_, end)) if addresses && end == request_lbn => Distance::Sequential,
        Some((start, _)) if addresses => Distance::Blocks(request_lbn.wrapping_sub(start) as i64),
        _ => Distance::Blocks(0),
    }
}

impl Device for TableModel {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        let tables = &*self.tables;
        tables.capabilities.check(&request)?;
        let addresses = request.op.addresses_blocks();
        let queue_length = u32::try_from(self.outstanding.len()).unwrap_or(u32::MAX);
        let distance = distance(request.lbn, addresses, self.before);
        let class = tables.classes.of(request.blocks, queue_length, distance);
        if addresses {
            self.before = Some((request.lbn, request.end()));
        }
        let found = tables.grid.find(request.op, class);
        let time = tables.times[found.cell].draw(&mut self.stream);
        self.coverage += Coverage { requests: 1, outside: u64::from(found.borrowed) };
        let completion = Completion {
            request,
            submitted: now,
            issued: now,
            started: now,
            completed: now + time,
            // Which part of it was what, the tables do not know.
            breakdown: Breakdown { internal: time, ..Breakdown::default() },
            status: Status::Ok,
            buffer: BufferOutcome::None,
            seek_cylinders: 0,
            queue_length,
        };
        self.outstanding.push(Reverse(Pending { number: self.submitted, completion }));
        self.submitted += 1;
        Ok(())
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        while let Some(Reverse(next)) = self.outstanding.peek() {
            if next.completion.completed > now {
                return;
            }
            completions.push(next.completion);
            self.outstanding.pop();
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.outstanding.peek().map(|Reverse(next)| next.completion.completed)
    }

    fn capabilities(&self) -> &Capabilities {
        &self.tables.capabilities
    }

    fn coverage(&self) -> Option<Coverage> {
        Some(self.coverage)
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) => {
                target.tables.clone_from(&self.tables);
                target.stream.clone_from(&self.stream);
                target.before = self.before;
                target.outstanding.clone_from(&self.outstanding);
                target.submitted = self.submitted;
                target.coverage = self.coverage;
            }
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
