//! A device that answers by table look-up.

use std::any::Any;
use std::sync::Arc;

use seeklab_core::{
    Breakdown, BufferOutcome, Capabilities, Completion, Coverage, Criticality, Device, Event, FaultSet,
    Instant, Outcome, Reclassification, RegionBound, RegionBounds, Rejected, Request, Seed, Stream,
};

use super::classes::{Classes, Distance};
use super::grid::Grid;
use super::parameters::TableParameters;
use super::times::Times;
use crate::durability::ByCompletion;
use crate::error::DescriptionError;
use crate::outstanding::Outstanding;
use crate::region::{LoadRequest, Region, RegionCounter, RegionParameters};

/// A device whose response times are drawn from tables.
#[derive(Debug, Clone)]
pub struct TableModel {
    tables: Arc<Tables>,
    stream: Stream,
    /// Start and end of the request before.
    before: Option<(u64, u64)>,
    outstanding: Outstanding<Pending>,
    counter: RegionCounter,
    durability: ByCompletion,
}

/// The tables of a device, which do not change.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) capabilities: Capabilities,
    classes: Classes,
    grid: Grid,
    times: Vec<Times>,
    /// Region of the loads that the tables were fitted to, if the description has it.
    region: Option<Region>,
}

/// A request that will complete.
#[derive(Debug, Clone, Copy)]
struct Pending {
    request: Request,
    submitted: Instant,
    queue_length: u32,
}

impl TableModel {
    /// A device of these tables; times are drawn from the stream `NAME.response_time`.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn new(parameters: &TableParameters, seed: Seed, name: &str) -> Result<Self, DescriptionError> {
        Ok(Self::of(Arc::new(Tables::new(parameters)?), seed, name))
    }

    /// A device of tables that several devices may share.
    pub(crate) fn of(tables: Arc<Tables>, seed: Seed, name: &str) -> Self {
        Self {
            tables,
            stream: seed.stream(&format!("{name}.response_time")),
            before: None,
            outstanding: Outstanding::default(),
            counter: RegionCounter::default(),
            durability: ByCompletion::new(),
        }
    }
}

impl Tables {
    /// Reads the tables of a device.
    pub(crate) fn new(parameters: &TableParameters) -> Result<Self, DescriptionError> {
        let cells = parameters.read()?;
        let places: Vec<_> = cells.iter().map(|cell| cell.place).collect();
        Ok(Self {
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
            region: parameters.region.as_ref().map(RegionParameters::read).transpose()?,
        })
    }
}

/// Returns the distance of a request from the one before it, given by its start and end. A flush has
/// no place.
pub fn distance(request_lbn: u64, addresses: bool, before: Option<(u64, u64)>) -> Distance {
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
        let load = LoadRequest::of(&request, queue_length);
        let own = RegionBounds::NONE.with(RegionBound::Combination, found.borrowed);
        self.counter.arrive(tables.region.as_ref(), now, &load, own);
        self.outstanding.push(now + time, Pending { request, submitted: now, queue_length });
        Ok(())
    }

    fn reclassify(&mut self, _now: Instant, change: &Reclassification) -> Option<Criticality> {
        let pending = self.outstanding.find_mut(|pending| pending.request.id == change.id)?;
        pending.request.reclassify(change.criticality)
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let before = completions.len();
        while let Some((completed, Pending { request, submitted, queue_length })) = self.outstanding.pop(now)
        {
            completions.push(Completion {
                request,
                submitted,
                issued: submitted,
                started: submitted,
                completed,
                // Which part of it was what, the tables do not know.
                breakdown: Breakdown { internal: completed - submitted, ..Breakdown::default() },
                outcome: Outcome::ok(&request),
                buffer: BufferOutcome::None,
                seek_cylinders: 0,
                queue_length,
                faults: FaultSet::NONE,
            });
        }
        self.durability.note(&completions[before..]);
    }

    fn next_event(&self) -> Option<Instant> {
        self.outstanding.next()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.tables.capabilities
    }

    fn coverage(&self) -> Option<Coverage> {
        Some(self.counter.coverage())
    }

    fn watch(&mut self) {
        self.durability.watch(&self.tables.capabilities);
    }

    fn events(&mut self, now: Instant, events: &mut Vec<Event>) {
        self.durability.hand_out(now, events);
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
                target.outstanding.copy_from(&self.outstanding);
                target.counter = self.counter;
                target.durability.clone_from(&self.durability);
            }
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Operation;

    use super::*;

    #[test]
    fn distance_is_counted_from_the_start_of_the_request_before() {
        let text = "capacity_blocks = 10000\nblock_size = \"512B\"\n\
                    cells = [\"read 8 0 +1024: 1000*9\", \"read 8 0 +512: 1100*9\", \"read 8 0 0: 1200*9\"]\n";
        let parameters: TableParameters = toml::from_str(text).unwrap();
        let mut model = TableModel::new(&parameters, Seed(1), "disk0").unwrap();
        let mut response = |id, lbn| {
            let now = Instant::from_ns(id * 1_000_000_000);
            model.submit(now, Request::new(id, Operation::Read, lbn, 8)).unwrap();
            let mut completions = Vec::new();
            model.poll(model.next_event().unwrap(), &mut completions);
            crate::table::parts::bucket(completions[0].response_time().as_ns())
        };
        response(0, 0);
        // From end to start there are 1,016 blocks, which are of the class of +512.
        assert_eq!(response(1, 1024), 1000);
        assert_eq!(response(2, 1024 + 1023), 1100);
    }
}
