//! A device that serves as a station.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use seeklab_core::{
    Breakdown, BufferOutcome, Capabilities, Completion, Coverage, Criticality, Device, Duration, Event,
    FaultSet, Instant, Outcome, Reclassification, RegionBounds, Rejected, Request, Seed, Stream,
};

use super::feature::Row;
use super::order::{COMPARED, Key, Line, Order};
use super::parameters::StationParameters;
use super::picks::Picks;
use super::state::{Scale, State, StationRequest};
use super::tree::Tree;
use crate::durability::ByCompletion;
use crate::error::DescriptionError;
use crate::outstanding::Outstanding;
use crate::region::{LoadRequest, Region, RegionCounter};
use crate::table::Times;

/// A device whose service times are drawn by what is known when a service starts.
#[derive(Debug, Clone)]
pub struct Station {
    station: Arc<Parts>,
    times: Stream,
    choices: Stream,
    state: State,
    waiting: VecDeque<Taken>,
    /// Waiting requests, with the fields that the order needs.
    asked: VecDeque<StationRequest>,
    scratch: Vec<(Key, u32)>,
    /// Requests in service, until their end.
    served: Outstanding<Served>,
    counter: RegionCounter,
    durability: ByCompletion,
}

/// Parts of a station that do not change.
#[derive(Debug)]
pub struct Parts {
    /// Capacity, block size and the like.
    pub capabilities: Capabilities,
    /// Requests served at a time.
    pub servers: usize,
    /// Order of the waiting requests.
    pub line: Line,
    /// Choice of the waiting request that is served next.
    pub picks: Picks,
    /// Scale by which features become classes.
    pub scale: Scale,
    /// The distribution of service times by features.
    pub tree: Tree<Times>,
    /// Region of the loads that the station was fitted to.
    pub region: Region,
}

/// A request that was taken in.
#[derive(Debug, Clone, Copy)]
struct Taken {
    request: Request,
    submitted: Instant,
    queue_length: u32,
}

/// A request that is served.
#[derive(Debug, Clone, Copy)]
struct Served {
    taken: Taken,
    started: Instant,
    service: Duration,
}

fn asked(request: &Request) -> StationRequest {
    StationRequest { op: request.op, lbn: request.lbn, blocks: request.blocks, fua: request.fua }
}

impl Station {
    /// A device of these parameters; times are drawn from the stream `NAME.service_time`, the choice among what waits from
    /// `NAME.pick`.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn new(parameters: &StationParameters, seed: Seed, name: &str) -> Result<Self, DescriptionError> {
        Ok(Self::of(Arc::new(parameters.read()?), seed, name))
    }

    /// A device of these parts; its streams as those of [`new`](Self::new).
    pub fn of(station: Arc<Parts>, seed: Seed, name: &str) -> Self {
        Self {
            station,
            times: seed.stream(&format!("{name}.service_time")),
            choices: seed.stream(&format!("{name}.pick")),
            state: State::default(),
            waiting: VecDeque::new(),
            asked: VecDeque::new(),
            scratch: Vec::new(),
            served: Outstanding::default(),
            counter: RegionCounter::default(),
            durability: ByCompletion::new(),
        }
    }

    /// Starts a service that takes a time, if it is drawn already.
    fn start(&mut self, now: Instant, taken: Taken, waited: bool, drawn: Option<Duration>) {
        let station = &*self.station;
        let row = self.state.start(now, &asked(&taken.request), waited, &station.scale);
        let service = drawn.unwrap_or_else(|| station.service(&row, &mut self.times));
        self.served.push(now + service, Served { taken, started: now, service });
    }

    /// The place of the waiting request that is served next, and its service if that decided; at least one waits.
    fn next(&mut self, now: Instant) -> (usize, Option<Duration>) {
        let Parts { line, picks, .. } = &*self.station;
        let first = line.firsts(self.asked.iter());
        if line.order == Order::Sptf {
            let takes_first = picks.takes_first(self.waiting.len(), first, &mut self.choices);
            return self.shortest(now, takes_first);
        }
        let rank = picks.draw(self.waiting.len(), first, &mut self.choices);
        (line.place(self.asked.iter(), rank, self.state.last_end(), &mut self.scratch), None)
    }

    /// The waiting request with the shortest service of those of the operation that stands first, of the others, or of all.
    fn shortest(&mut self, now: Instant, takes_first: Option<bool>) -> (usize, Option<Duration>) {
        let Self { station, asked, state, times, .. } = self;
        let precedence = station.line.first;
        let may_be_taken = |(_, asked): &(usize, &StationRequest)| {
            takes_first.is_none_or(|is_first| precedence.is_of(asked.op) == is_first)
        };
        let compared = asked.iter().enumerate().filter(may_be_taken).take(COMPARED);
        let drawn = compared.map(|(place, asked)| {
            let row = state.row(now, asked, true, &station.scale);
            (station.service(&row, times), place)
        });
        let (service, place) = drawn.min().expect("one waits");
        (place, Some(service))
    }
}

impl Parts {
    /// Draws the time of a service.
    fn service(&self, row: &Row, times: &mut Stream) -> Duration {
        // A service takes time, however short.
        self.tree.leaves[self.tree.leaf(row)].draw(times).max(Duration::from_ns(1))
    }
}

impl Device for Station {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.station.capabilities.check(&request)?;
        let queue_length = u32::try_from(self.state.count()).unwrap_or(u32::MAX);
        let asked = asked(&request);
        let load = LoadRequest::of(&request, queue_length);
        self.counter.arrive(Some(&self.station.region), now, &load, RegionBounds::NONE);
        self.state.arrive();
        let taken = Taken { request, submitted: now, queue_length };
        if self.served.len() < self.station.servers {
            self.start(now, taken, false, None);
        } else {
            self.waiting.push_back(taken);
            self.asked.push_back(asked);
        }
        Ok(())
    }

    /// The order of the station is fitted, so the class has no effect on it.
    fn reclassify(&mut self, _now: Instant, change: &Reclassification) -> Option<Criticality> {
        let taken = match self.waiting.iter_mut().find(|taken| taken.request.id == change.id) {
            Some(taken) => taken,
            None => &mut self.served.find_mut(|served| served.taken.request.id == change.id)?.taken,
        };
        taken.request.reclassify(change.criticality)
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let before = completions.len();
        while let Some((end, Served { taken, started, service })) = self.served.pop(now) {
            self.state.complete(end);
            completions.push(Completion {
                request: taken.request,
                submitted: taken.submitted,
                issued: taken.submitted,
                started,
                completed: end,
                breakdown: Breakdown {
                    queue: started - taken.submitted,
                    internal: service,
                    ..Breakdown::default()
                },
                outcome: Outcome::ok(&taken.request),
                buffer: BufferOutcome::None,
                seek_cylinders: 0,
                queue_length: taken.queue_length,
                faults: FaultSet::NONE,
            });
            if !self.waiting.is_empty() {
                let (place, drawn) = self.next(end);
                self.asked.remove(place);
                let next = self.waiting.remove(place).expect("it waits at that place");
                self.start(end, next, true, drawn);
            }
        }
        self.durability.note(&completions[before..]);
    }

    fn next_event(&self) -> Option<Instant> {
        self.served.next()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.station.capabilities
    }

    fn coverage(&self) -> Option<Coverage> {
        Some(self.counter.coverage())
    }

    fn watch(&mut self) {
        self.durability.watch(&self.station.capabilities);
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
                target.station.clone_from(&self.station);
                target.times.clone_from(&self.times);
                target.choices.clone_from(&self.choices);
                target.state.clone_from(&self.state);
                target.waiting.clone_from(&self.waiting);
                target.asked.clone_from(&self.asked);
                target.served.copy_from(&self.served);
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

    /// Long requests take 2 to 4 times as long as short ones.
    const BY_TIME: &str = r#"
kind = "station"
capacity_blocks = 100000
block_size = "512B"
servers = 1
order = "sptf"
tree = ["length < 16 blocks", ". = 1000", ". = 1100 20 20"]
[[operations]]
op = "read"
requests = 10
typical = "1ms"
blocks_min = 1
blocks_max = 100
queue_max = 10
"#;

    /// Requests in the order in which they complete: one is in service when the others come.
    fn served(precedence: &str) -> Vec<u64> {
        let text = BY_TIME.replace("order", &format!("{precedence}\norder"));
        let mut table: toml::Table = text.parse().unwrap();
        table.remove("kind");
        let parameters: StationParameters = table.try_into().unwrap();
        let mut station = Station::new(&parameters, Seed(1), "disk0").unwrap();
        let read = |id, blocks| Request::new(id, Operation::Read, 0, blocks);
        let requests =
            [read(0, 8), read(1, 64), read(2, 8), Request::new(3, Operation::Write, 0, 64), read(4, 8)];
        requests.into_iter().for_each(|request| station.submit(Instant::ZERO, request).unwrap());
        let mut completions = Vec::new();
        while let Some(next) = station.next_event() {
            station.poll(next, &mut completions);
        }
        completions.iter().map(|completion| completion.request.id.0).collect()
    }

    #[test]
    fn shortest_service_is_first_of_the_operation_that_stands_first() {
        let is_short = |id: &u64| [0, 2, 4].contains(id);
        assert!(served("").iter().take(3).all(is_short), "{:?}", served(""));
        let writes_first = served("first = \"writes\"");
        assert!(writes_first[1] == 3 && writes_first[4] == 1, "{writes_first:?}");
        // Of two choices with both kinds, the trace shows a read each time.
        let broken = served("first = \"writes\"\npicks = [\"first: 0*2\"]");
        assert!(broken[3..] == [1, 3], "{broken:?}");
    }
}
