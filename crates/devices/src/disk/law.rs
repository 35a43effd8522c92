//! The service law of a disk: the integral of its access times over addresses and rotation.
//!
//! The model computes a command in closed form: overheads, seek over the distance, head switch, settle, rotation, transfer
//! with the skews of the tracks that it crosses, spared sectors, bus. The law is the integral of that over independent,
//! uniformly distributed addresses and the angle of the platters, so nothing is left out and nothing is approximated but
//! the integral itself. Its points are consecutive ones of a small multiplicative generator, whose pairs (address before,
//! address now) form a good lattice [L'Ecuyer 1999, tables for m = 65521 and 8191]; the error falls faster than that of as
//! many random draws. The generator also draws operations and lengths, some steps ahead, for drives have overheads that depend
//! on the operation before: the six numbers of a pair of requests are consecutive ones and form a lattice, too, so each pair of
//! operations is as often as their shares say, at all distances.
//!
//! | order | next address |
//! | --- | --- |
//! | of arrival | anywhere |
//! | C-LOOK, n waiting | ahead by a share g of the blocks, circularly, with `P(> g) = (1 − g)^(2n − 1)` |
//!
//! # Scope and limits
//! Uniform addresses; writes only where they go through to the media, for written data that waits in a buffer has a law of
//! its own ([`buffer_law`](super::buffer_law)). A drive with a command queue of its own has no formula unless the queue is
//! in order of arrival, or for one request at a time. The speed is the nominal one.
//!
//! # References
//! - [L'Ecuyer 1999] P. L'Ecuyer, *Tables of linear congruential generators of different sizes and good lattice
//!   structure*, Mathematics of Computation 68(225), 1999.

use seeklab_core::{Duration, Instant, Operation, Request};

use super::device::DiskBlueprint;
use super::electronics::{ElectronicsParameters, Served};
use crate::scheduler::SchedulerSpec;
use crate::service_law::{Addresses, Demand, LawOrigin, LawPoint, ServiceLaw, ServiceTimes};

/// A multiplicative generator whose consecutive pairs form a good lattice, and the number of its points that are used. Other
/// steps than one through the period would form another lattice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lattice {
    modulus: u64,
    multiplier: u64,
    pub(super) points: usize,
}

impl Lattice {
    const fn step(self, state: u64) -> u64 {
        state * self.multiplier % self.modulus
    }

    /// The middle of the part of 0 to 1 that belongs to a state.
    fn share(self, state: u64) -> f64 {
        (state as f64 - 0.5) / (self.modulus - 1) as f64
    }
}

/// Steps ahead of the address, from which operation and length are drawn. Addresses of a pair of requests are one step apart, so
/// these are the next pairs.
const OPERATION_AHEAD: usize = 2;
const LENGTH_AHEAD: usize = 4;

/// Points of the integral in order of arrival: a whole period.
const ANYWHERE: Lattice = Lattice { modulus: 65_521, multiplier: 17_364, points: 65_520 };

/// Points of shorter integrals: a whole period.
pub(super) const SHORT: Lattice = Lattice { modulus: 8_191, multiplier: 884, points: 8_190 };

/// Points that tell if idle times change service times.
const PAIRS: Lattice = Lattice { points: 1_024, ..SHORT };

/// Turns of an idle time.
const IDLE_TURNS: f64 = 64.0;

/// Numbers waiting, beside 1, for which the law of C-LOOK is integrated.
const WAITING: [u32; 10] = [2, 3, 4, 6, 8, 12, 16, 32, 64, 128];

/// Relative difference of mean service times that counts as none: the error of the integral.
const EQUAL: f64 = 0.002;

/// Commands before the integral, which fill the buffer.
pub(super) const WARM_UP: usize = 64;

/// Fractional parts of multiples of this number are equidistributed: the angles after idle times.
const STEP: f64 = 0.569_840_290_998_053;

/// The law of a disk for a demand; `None` if it has no integral.
pub(super) fn service_law(blueprint: &DiskBlueprint, demand: &Demand) -> Option<ServiceLaw> {
    let addresses = demand.addresses?;
    let is_direct = matches!(blueprint.electronics_parameters(), ElectronicsParameters::Direct(_));
    let is_buffered = demand.reads < 1.0 && blueprint.electronics_parameters().buffer_rules().is_some();
    if is_reordered(blueprint, demand) || is_buffered {
        return None;
    }
    let integral = Integral { blueprint, demand, addresses };
    match &demand.order {
        None => Some(integral.in_order(is_direct)),
        Some(order) if order.to_string() == "c-look" => Some(integral.c_look()),
        Some(_) => None,
    }
}

/// Returns true if the drive chooses among the commands that it holds.
pub(super) fn is_reordered(blueprint: &DiskBlueprint, demand: &Demand) -> bool {
    let holds_several = !demand.one_at_a_time && blueprint.capabilities().queue_depth > 1;
    holds_several && blueprint.scheduler != SchedulerSpec::FCFS
}

/// Integral over the addresses of a demand on a disk.
struct Integral<'a> {
    blueprint: &'a DiskBlueprint,
    demand: &'a Demand,
    addresses: Addresses,
}

/// Times of the points of an integral, in seconds.
#[derive(Default)]
struct Times {
    /// From the begin of a command to its completion.
    service_s: Vec<f64>,
    /// From the begin of a command to the time from which the next may begin.
    occupied_s: Vec<f64>,
    /// True if a command may begin before the one before has completed.
    overlap: bool,
}

impl Integral<'_> {
    fn in_order(&self, is_direct: bool) -> ServiceLaw {
        let anywhere = |_, next| next;
        if is_direct {
            // Without a buffer nothing depends on what happened before.
            let alone = self.times(ANYWHERE, anywhere, Gap::Idle).service_s;
            return ServiceLaw::of_server(LawOrigin::Integrated, ServiceTimes::sample(alone));
        }
        let Times { service_s: alone_s, occupied_s, overlap } =
            self.times(ANYWHERE, anywhere, Gap::Completion);
        let idle_s = self.idle_may_differ().then(|| self.times(ANYWHERE, anywhere, Gap::Idle).service_s);
        // A drive that holds one command gets the next when this one has completed.
        let holds_several = self.blueprint.capabilities().queue_depth > 1;
        let queued_s = match (holds_several, overlap) {
            (false, _) => None,
            // Without overlap, a command that waits begins when one that arrives at the completion does.
            (true, false) => Some(occupied_s),
            (true, true) => Some(self.times(ANYWHERE, anywhere, Gap::None).occupied_s),
        };
        // Only the times that the law keeps are sorted.
        let differs = |times_s: &Vec<f64>| (mean(times_s) / mean(&alone_s) - 1.0).abs() >= EQUAL;
        let after_idle = idle_s.filter(differs).map(ServiceTimes::sample);
        let queued = queued_s.filter(|queued_s| after_idle.is_some() || differs(queued_s));
        let alone = ServiceTimes::sample(alone_s);
        if queued.is_none() && after_idle.is_none() {
            return ServiceLaw::of_server(LawOrigin::Integrated, alone);
        }
        let queued = queued.map_or_else(|| alone.clone(), ServiceTimes::sample);
        let point = |outstanding, service| LawPoint { outstanding, service, response: None };
        ServiceLaw {
            points: vec![point(1, alone.clone()), point(2, queued)],
            after_idle,
            ..ServiceLaw::of_server(LawOrigin::Integrated, alone)
        }
    }

    /// True if service times after idle times may differ from those after completions. Idle times of whole turns leave the
    /// platters at the same angle, so without an effect of idle times each service time is the same.
    fn idle_may_differ(&self) -> bool {
        let mean_of = |gap| mean(&self.times(PAIRS, |_, next| next, gap).service_s);
        (mean_of(Gap::IdleTurns) / mean_of(Gap::Completion) - 1.0).abs() >= EQUAL / 2.0
    }

    fn c_look(&self) -> ServiceLaw {
        let point = |waiting: u32| {
            let exponent = 1.0 / (2.0 * f64::from(waiting) - 1.0);
            let ahead = |before: f64, draw: f64| (before + 1.0 - (1.0 - draw).powf(exponent)).fract();
            // The queue above hands over one command at a time.
            let times = self.times(SHORT, ahead, Gap::Completion);
            let service = ServiceTimes::sample(times.service_s);
            // The one that is served is outstanding beside those that wait.
            LawPoint { outstanding: waiting + 1, service, response: None }
        };
        // Of one that waits there is no choice, as without a queue.
        let without_choice = point(1);
        let alone = LawPoint { outstanding: 1, ..without_choice.clone() };
        ServiceLaw {
            points: [alone, without_choice].into_iter().chain(WAITING.into_iter().map(point)).collect(),
            in_order: false,
            ..ServiceLaw::of_server(LawOrigin::Integrated, ServiceTimes::constant(0.0))
        }
    }

    /// Serves a command for each point. `next` gives the address from the one before and a draw, as shares of the space.
    fn times(&self, lattice: Lattice, next: impl Fn(f64, f64) -> f64, gap: Gap) -> Times {
        let (mut electronics, mechanism) = self.blueprint.idle();
        let period = mechanism.spindle().period();
        let mut requests = Points::new(self.demand, self.addresses, lattice);
        let mut now = Instant::ZERO;
        let mut times = Times::default();
        for number in 0..lattice.points + WARM_UP {
            let request = requests.next(&next);
            let Served { completed, free, .. } = electronics.serve(mechanism, now, &request);
            if number >= WARM_UP {
                times.service_s.push((completed - now).as_s());
                times.occupied_s.push((free.max(now) - now).as_s());
            }
            times.overlap |= free < completed;
            now = match gap {
                Gap::None => free.max(now),
                Gap::Completion => completed.max(free),
                Gap::Idle => completed.max(free) + requests.idle_time(period),
                Gap::IdleTurns => completed.max(free) + period * IDLE_TURNS as u64,
            };
        }
        times
    }
}

fn mean(times_s: &[f64]) -> f64 {
    times_s.iter().sum::<f64>() / times_s.len() as f64
}

/// Requests at the points of an integral.
pub(super) struct Points<'a> {
    demand: &'a Demand,
    addresses: Addresses,
    lattice: Lattice,
    /// The state of the next address, and those that follow.
    states: [u64; LENGTH_AHEAD + 1],
    /// Place of the last request, as a share of the space.
    place: f64,
    /// Number of the next request.
    number: usize,
}

impl<'a> Points<'a> {
    /// Requests at the points of a lattice, then at those from its beginning again.
    pub(super) fn new(demand: &'a Demand, addresses: Addresses, lattice: Lattice) -> Self {
        let mut state = 1;
        let states = std::array::from_fn(|_| {
            state = lattice.step(state);
            state
        });
        Self { demand, addresses, lattice, states, place: 0.5, number: 0 }
    }

    /// The next request. `next` gives its place from the one before and a draw, as shares of the space.
    pub(super) fn next(&mut self, next: &impl Fn(f64, f64) -> f64) -> Request {
        let share = |ahead: usize| self.lattice.share(self.states[ahead]);
        self.place = next(self.place, share(0));
        let is_read = share(OPERATION_AHEAD) < self.demand.reads;
        let op = if is_read { Operation::Read } else { Operation::Write };
        let blocks = self.blocks(share(LENGTH_AHEAD));
        let last = self.lattice.step(self.states[LENGTH_AHEAD]);
        self.states.rotate_left(1);
        self.states[LENGTH_AHEAD] = last;
        let slots = self.slots(blocks);
        let slot = ((self.place * slots as f64) as u64).min(slots - 1);
        let lbn = self.addresses.begin + slot * self.addresses.align_blocks;
        self.number += 1;
        Request::new(self.number as u64, op, lbn, blocks)
    }

    /// An idle time in which read-ahead and destaging end, before the next request at any angle of the platters.
    pub(super) fn idle_time(&self, period: Duration) -> Duration {
        let turns = IDLE_TURNS + (self.number as f64 * STEP).fract();
        Duration::from_ns_f64(turns * period.as_ns() as f64)
    }

    /// The length to which a share of the requests belongs.
    fn blocks(&self, share: f64) -> u32 {
        let mut left = share;
        let sizes = &self.demand.sizes;
        let size = sizes.iter().find(|size| {
            left -= size.share;
            left < 0.0
        });
        size.or(sizes.last()).map_or(1, |size| size.blocks)
    }

    /// Places at which a request of that length may begin.
    fn slots(&self, blocks: u32) -> u64 {
        let Addresses { begin, end, align_blocks } = self.addresses;
        end.saturating_sub(u64::from(blocks)).saturating_sub(begin) / align_blocks.max(1) + 1
    }
}

/// Begin of a command after the one before.
#[derive(Clone, Copy)]
enum Gap {
    /// As soon as the drive takes it: a command waited.
    None,
    /// At the completion of the request before.
    Completion,
    /// After an idle time in which read-ahead has ended, at any angle of the platters.
    Idle,
    /// After such an idle time, at the angle of the completion.
    IdleTurns,
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Limits, Seed, Stream};

    use super::*;
    use crate::catalog;
    use crate::service_law::SizeShare;

    #[test]
    fn generators_have_their_whole_period() {
        for lattice in [ANYWHERE, SHORT] {
            let mut state = lattice.step(1);
            let mut period = 1;
            while state != 1 {
                state = lattice.step(state);
                period += 1;
            }
            assert_eq!(period, lattice.modulus - 1);
        }
    }

    #[test]
    fn distances_of_consecutive_points_are_those_of_independent_ones() {
        // Every second point of the generator with the modulus 65,521 is 0.9 % too far from the one before.
        for lattice in [ANYWHERE, SHORT] {
            let (mut state, mut before) = (1, 0.5);
            let (mut distances, mut roots) = (0.0, 0.0);
            for _ in 0..lattice.points {
                state = lattice.step(state);
                let place = lattice.share(state);
                let distance = (place - std::mem::replace(&mut before, place)).abs();
                distances += distance;
                roots += distance.sqrt();
            }
            let (modulus, count) = (lattice.modulus, lattice.points as f64);
            assert!((distances / count * 3.0 - 1.0).abs() < 5e-4, "{modulus} {}", distances / count);
            assert!((roots / count * 15.0 / 8.0 - 1.0).abs() < 5e-4, "{modulus} {}", roots / count);
        }
    }

    #[test]
    fn consecutive_operations_and_lengths_are_independent() {
        let mut demand = Demand::random_reads(&catalog::find("dec-rz26").unwrap().capabilities().unwrap(), 8);
        for (reads, short) in [(0.3, 0.7), (0.5, 0.6), (0.6, 0.5), (0.67, 0.3)] {
            demand.reads = reads;
            demand.sizes =
                [(16, short), (128, 1.0 - short)].map(|(blocks, share)| SizeShare { blocks, share }).into();
            for lattice in [ANYWHERE, SHORT] {
                let mut points = Points::new(&demand, demand.addresses.unwrap(), lattice);
                let requests: Vec<Request> =
                    (0..=lattice.points).map(|_| points.next(&|_, next| next)).collect();
                let is_read = |request: &Request| request.op == Operation::Read;
                let is_short = |request: &Request| request.blocks == 16;
                let share = |holds: &dyn Fn(&Request, &Request) -> bool| {
                    let count = requests.windows(2).filter(|pair| holds(&pair[0], &pair[1])).count();
                    count as f64 / lattice.points as f64
                };
                // Of as many independent requests, the shares would have standard deviations of up to 0.5 and 0.2 %.
                let close = |found: f64, expected: f64| {
                    assert!(
                        (found - expected).abs() < 0.002,
                        "{lattice:?} {reads}: {found}, expected {expected}"
                    );
                };
                close(share(&|before, now| is_read(before) && is_read(now)), reads * reads);
                close(share(&|before, now| is_short(before) && is_short(now)), short * short);
                close(share(&|before, now| is_short(before) && is_read(now)), short * reads);
                close(share(&|_, now| is_short(now) && is_read(now)), short * reads);
                // Seeks of writes after reads are as long as others.
                let (mut seeks, mut of_writes, mut writes) = (0.0, 0.0, 0);
                for pair in requests.windows(2) {
                    let seek = (pair[1].lbn as f64 - pair[0].lbn as f64).abs().sqrt();
                    seeks += seek / lattice.points as f64;
                    if is_read(&pair[0]) && !is_read(&pair[1]) {
                        of_writes += seek;
                        writes += 1;
                    }
                }
                let longer = of_writes / f64::from(writes) / seeks - 1.0;
                assert!(longer.abs() < 0.004, "{lattice:?} {reads}: {longer}");
            }
        }
    }

    #[test]
    fn disks_without_an_integral_are_sampled() {
        let law = |name: &str, demand: &dyn Fn(&mut Demand)| {
            let disk = catalog::find(name).unwrap();
            let mut wanted = Demand::random_reads(&disk.capabilities().unwrap(), 8);
            demand(&mut wanted);
            disk.service_law(&wanted, &|_| None)
        };
        assert!(law("hp-c2247a", &|_| ()).is_some());
        // Writes go through to the media of this disk, and into a buffer of that one.
        assert!(law("hp-c2247a", &|demand| demand.reads = 0.5).is_some());
        assert!(law("cheetah-36es", &|demand| demand.reads = 0.5).is_none());
        assert!(law("hp-c2247a", &|demand| demand.addresses = None).is_none());
        assert!(law("hp-c2247a", &|demand| demand.order = "sptf".parse().ok()).is_none());
    }

    /// Mean and deviation of the service time of a closed simulation with one request outstanding, in seconds.
    fn simulated(name: &str, blocks: u32, reads: f64, requests: u64) -> (f64, f64) {
        use seeklab_core::{Arrival, Completion, Workload, simulate, statistics::Moments};
        struct Random {
            stream: Stream,
            slots: u64,
            blocks: u32,
            reads: f64,
            left: u64,
            busy: bool,
        }
        impl Workload for Random {
            fn next_arrival(&mut self, _now: Instant) -> Arrival {
                if self.left == 0 {
                    return Arrival::Finished;
                }
                if std::mem::replace(&mut self.busy, true) {
                    return Arrival::WaitForCompletion;
                }
                self.left -= 1;
                let lbn = self.stream.below(self.slots);
                let is_read = self.stream.unit() < self.reads;
                let op = if is_read { Operation::Read } else { Operation::Write };
                Arrival::Request(Request::new(self.left, op, lbn, self.blocks))
            }
            fn completed(&mut self, _completion: &Completion) {
                self.busy = false;
            }
        }
        let disk = catalog::find(name).unwrap();
        let slots = disk.capabilities().unwrap().capacity_blocks - u64::from(blocks) + 1;
        let stream = Seed(5).stream("test");
        let mut workload = Random { stream, slots, blocks, reads, left: requests, busy: false };
        let mut moments = Moments::default();
        let mut device = disk.build(Seed(1), "disk0").unwrap();
        simulate(&mut workload, &mut *device, Limits::default(), |completion| {
            moments.record((completion.completed - completion.started).as_s());
        })
        .unwrap();
        (moments.mean().unwrap(), moments.standard_deviation().unwrap())
    }

    #[test]
    fn integral_meets_the_simulation() {
        // The overhead of a write on `dec-rz26` is 2.1 ms longer after a read than after a write.
        let mixed = [("dec-rz26", 0.6), ("dec-rz26", 0.3), ("hp-c2247a", 0.5)];
        for (name, reads) in
            [("hp-c2247a", 1.0), ("cheetah-36es", 1.0), ("atlas10k", 1.0)].into_iter().chain(mixed)
        {
            let disk = catalog::find(name).unwrap();
            for blocks in [8, 64] {
                let mut demand = Demand::random_reads(&disk.capabilities().unwrap(), blocks);
                demand.reads = reads;
                let law = disk.service_law(&demand, &|_| None).unwrap();
                let (mean_s, deviation_s) = simulated(name, blocks, reads, 200_000);
                let mean = law.points[0].service.mean_s() / mean_s - 1.0;
                let deviation = law.points[0].service.deviation_s() / deviation_s - 1.0;
                let case = format!("{name} {reads} {blocks}: {mean} {deviation}");
                assert!(mean.abs() < 0.003 && deviation.abs() < 0.01, "{case}");
            }
        }
    }
}
