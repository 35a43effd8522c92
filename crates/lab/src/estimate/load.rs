//! The load of an estimate: arrivals, and requests in their order, from a workload.

use std::ops::Range;
use std::sync::Arc;

use seeklab_core::{Arrival, Capabilities, Duration, Instant, Operation, Request, Seed, Workload};
use seeklab_devices::service_law::{Addresses, Demand, SizeShare};
use seeklab_estimate::queueing::{Batch, Population};
use seeklab_workloads::replay::{ArrivalMode, Mode, Replay, ReplaySpec, Survey};
use seeklab_workloads::synthetic::{
    AddressDistribution, ArrivalSpec, BurstDistribution, Pace, SizeSpec, SyntheticSpec, TimeDistribution,
};
use seeklab_workloads::{AddressSpace, Synthetic, WorkloadSpec};

use crate::devices::Resolved;
use crate::failure::Failure;
use crate::run::{REPLAYED, Records, SURVEYED, in_blocks_of, in_whole_blocks, supplied};
use crate::workload::ResolvedWorkload;

/// Requests of a synthetic workload with which laws are sampled.
const SAMPLE_REQUESTS: u64 = 20_000;

/// Arrivals that are drawn one by one, of a synthetic workload that has no method without.
const ARRIVALS: u64 = 200_000;

/// Requests of a trace at most. Those behind are left out, with a note.
const TRACE_REQUESTS_MAX: usize = 2_000_000;

/// Times of the requests.
#[derive(Debug, Clone)]
pub(super) enum Times {
    /// A Poisson process.
    Poisson {
        /// Arrivals per second.
        arrivals_per_s: f64,
    },
    /// Batches of requests that arrive as a Poisson process.
    Batches {
        /// Batches per second.
        batches_per_s: f64,
        /// Number of requests in a batch.
        batch: Batch,
    },
    /// A Poisson process of requests of two classes, of which the queue serves one first.
    Prioritised {
        /// Arrivals per second.
        arrivals_per_s: f64,
        /// Share of the arrivals that are time-noncritical.
        noncritical: f64,
    },
    /// A population with one request outstanding or thinking each.
    Closed(Population),
    /// Arrivals in order, one for each request.
    Recorded(Vec<Instant>),
}

/// Load of one device.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) times: Times,
    /// Requests in order: those of the trace, or a draw.
    pub(super) requests: Arc<[Request]>,
    /// The demand, as far as a formula can use it.
    pub(super) demand: Demand,
    /// True if a simulation has the same arrivals; false if it draws its own.
    pub(super) has_same_arrivals: bool,
    /// Batches of the arrivals, which have a method of their own at one server.
    pub(super) batches: Option<Times>,
    /// Share of the requests that are time-noncritical.
    pub(super) noncritical: f64,
    /// Requests of each device, of a closed load over several; empty of one device.
    pub(super) routes: Vec<Route>,
    /// Standard deviation over mean of the think times of several members.
    pub(super) think_variation: Option<f64>,
    /// Assumptions about the load that no test covers, in sentences.
    pub(super) notes: Vec<String>,
}

/// Requests of one of several devices.
#[derive(Debug, Clone)]
pub(super) struct Route {
    /// Number of the device.
    pub(super) device: u16,
    pub(super) requests: Arc<[Request]>,
    pub(super) demand: Demand,
}

/// Checks that a load has a method of estimates.
///
/// # Errors
/// Requests that depend on processes, or arrivals that depend on completions.
pub(crate) fn check_method(workload: &ResolvedWorkload) -> Result<(), Failure> {
    match &workload.spec {
        WorkloadSpec::Replay(spec)
            if matches!(spec.arrivals, ArrivalMode::Think | ArrivalMode::Follow(_)) =>
        {
            Err(completions_without_method())
        }
        WorkloadSpec::Synthetic(_) | WorkloadSpec::Replay(_) | WorkloadSpec::Jobs(_) => Ok(()),
        _ => Err(processes_without_method(workload)),
    }
}

fn processes_without_method(workload: &ResolvedWorkload) -> Failure {
    Failure::new(format!(
        "--workload `{}`: its requests depend on what their processes do, for which no method is there",
        workload.name
    ))
    .hint("simulate it with --out TRACE, then estimate that trace")
}

fn completions_without_method() -> Failure {
    Failure::new("--think and --follow: these arrivals depend on completions, for which no method is there")
        .hint("estimate the trace with --open, --scaled F or --closed N")
}

/// Returns the load of a workload on a device.
pub(super) fn load(device: &Resolved, workload: &ResolvedWorkload, seed: Seed) -> Result<Load, Failure> {
    match &workload.spec {
        WorkloadSpec::Synthetic(spec) => synthetic(device, workload, spec, seed, false),
        WorkloadSpec::Replay(spec) => replay(device, workload, spec),
        _ => Err(processes_without_method(workload)),
    }
}

/// Returns the load of a workload with Poisson arrivals, too, drawn one by one, for devices on which no law says what they meet.
/// `None` of a workload whose arrivals are not drawn.
pub(super) fn with_drawn_arrivals(
    device: &Resolved,
    workload: &ResolvedWorkload,
    seed: Seed,
) -> Result<Option<Load>, Failure> {
    match &workload.spec {
        WorkloadSpec::Synthetic(spec) => synthetic(device, workload, spec, seed, true).map(Some),
        _ => Ok(None),
    }
}

fn synthetic(
    device: &Resolved,
    workload: &ResolvedWorkload,
    spec: &SyntheticSpec,
    seed: Seed,
    draws_poisson: bool,
) -> Result<Load, Failure> {
    let capabilities = device.build(seed, "disk0")?.capabilities().clone();
    let space = AddressSpace::from(&capabilities);
    let supplied = supplied(device, workload, spec)?;
    let (spec, rounded) = in_whole_blocks(spec, capabilities.block_size);
    let draw = |arrivals: ArrivalSpec, requests: u64| {
        let spec = SyntheticSpec { requests, arrivals, ..spec.clone() };
        // Other draws than those of a simulation with the same seed.
        let source = Synthetic::new(&spec, space, seed.repetition(u64::MAX), supplied.clone());
        let mut source = source
            .map_err(|error| Failure::from(error).context(format!("--workload `{}`", workload.name)))?;
        Ok::<_, Failure>(arrivals_of(&mut source, usize::MAX))
    };
    let each_ns = ArrivalSpec::Constant(Pace::Interarrival(Duration::from_ns(1)));
    let notes: Vec<String> = rounded.iter().map(|note| note.text().to_owned()).collect();
    let mut think_variation = None;
    let (times, requests) = match &spec.arrivals {
        ArrivalSpec::Poisson(pace) if !draws_poisson => {
            let arrivals_per_s = match pace {
                Pace::Rate(rate) => rate.as_per_s(),
                Pace::Interarrival(time) => 1.0 / time.as_s(),
            };
            (Times::Poisson { arrivals_per_s }, draw(each_ns, SAMPLE_REQUESTS)?.1)
        }
        ArrivalSpec::Closed { population, think, think_distribution } => {
            if !think.is_zero() && *population > 1 {
                think_variation = Some(match think_distribution {
                    TimeDistribution::Constant => 0.0,
                    TimeDistribution::Exponential => 1.0,
                });
            }
            let population = Population { members: *population, think_mean_s: think.as_s() };
            (Times::Closed(population), draw(each_ns, SAMPLE_REQUESTS)?.1)
        }
        other => {
            // An estimate is one of the rate, however many requests a simulation would have.
            let (arrivals, requests) = draw(other.clone(), ARRIVALS)?;
            (Times::Recorded(arrivals), requests)
        }
    };
    let addresses = addresses(&spec, &capabilities).filter(|_| requests.iter().all(may_be_buffered));
    let mut demand = demand(&capabilities, &requests, addresses);
    // Drawn arrivals have the shares of their draw.
    if !matches!(times, Times::Recorded(_)) {
        take_described_shares(&mut demand, &spec);
    }
    Ok(Load {
        times,
        requests: requests.into(),
        demand,
        has_same_arrivals: false,
        batches: batches(&spec.arrivals),
        noncritical: spec.noncritical.as_f64(),
        routes: Vec::new(),
        think_variation,
        notes,
    })
}

/// Requests of a constant batch at most whose times the method of batches sums up.
const CONSTANT_BATCH_MAX: f64 = 4_096.0;

/// The batches of bursts without time between their requests, with exponential gaps. `None` of other arrivals.
fn batches(arrivals: &ArrivalSpec) -> Option<Times> {
    let ArrivalSpec::Bursty { burst, burst_distribution, within, gap, distribution } = arrivals else {
        return None;
    };
    if !within.is_zero() || gap.is_zero() || *distribution != TimeDistribution::Exponential {
        return None;
    }
    let batch = match burst_distribution {
        BurstDistribution::Geometric => Batch::Geometric(*burst),
        BurstDistribution::Constant if *burst <= CONSTANT_BATCH_MAX => Batch::Constant(*burst as u32),
        BurstDistribution::Constant => return None,
    };
    Some(Times::Batches { batches_per_s: 1.0 / gap.as_s(), batch })
}

/// The uniform addresses of a description, `None` if its addresses are others or depend on the request before.
fn addresses(spec: &SyntheticSpec, capabilities: &Capabilities) -> Option<Addresses> {
    let is_uniform = spec.address.distribution == AddressDistribution::Uniform
        && spec.sequential.as_f64() == 0.0
        && spec.local.as_f64() == 0.0;
    let block_bytes = capabilities.block_size.as_bytes();
    let align_blocks = spec.align.map_or(1, |align| (align.as_bytes() / block_bytes).max(1));
    let Range { start, end } = spec.address.blocks(AddressSpace::from(capabilities));
    let begin = start.next_multiple_of(align_blocks);
    is_uniform.then_some(Addresses { begin, end, align_blocks })
}

/// Returns true of reads, and of writes that a buffer may take before they are on the media. No formula has others.
pub(super) fn may_be_buffered(request: &Request) -> bool {
    match request.op {
        Operation::Read => true,
        Operation::Write => !request.fua,
        _ => false,
    }
}

/// Shares of operations and lengths over requests.
fn demand(capabilities: &Capabilities, requests: &[Request], addresses: Option<Addresses>) -> Demand {
    let mut counts = std::collections::BTreeMap::<u32, u64>::new();
    let mut reads = 0_u64;
    for request in requests {
        reads += u64::from(request.op == Operation::Read);
        *counts.entry(request.blocks).or_default() += 1;
    }
    let total = requests.len().max(1) as f64;
    let share = |(blocks, count)| SizeShare { blocks, share: count as f64 / total };
    Demand {
        block_size: capabilities.block_size,
        reads: reads as f64 / total,
        sizes: counts.into_iter().map(share).collect(),
        addresses,
        order: None,
        one_at_a_time: false,
    }
}

/// Takes the shares of reads and of lengths that a description states. Those of a sample miss them by half a point, which is a
/// sixth of the response time near the rate of a limit of one operation.
fn take_described_shares(demand: &mut Demand, spec: &SyntheticSpec) {
    // Flushes are some of the requests.
    if spec.flush_every.is_some() {
        return;
    }
    demand.reads = spec.read.as_f64();
    if let Some(SizeSpec::Mix(sizes)) = &spec.size {
        let weight_of = |is_counted: &dyn Fn(u64) -> bool| {
            let counted = sizes.iter().filter(|one| is_counted(one.size.as_bytes()));
            counted.map(|one| f64::from(one.weight)).sum::<f64>()
        };
        let block_bytes = demand.block_size.as_bytes();
        let total = weight_of(&|_| true);
        for length in &mut demand.sizes {
            length.share = weight_of(&|bytes| bytes == u64::from(length.blocks) * block_bytes) / total;
        }
    }
}

/// Requests of an open workload with their arrivals, up to a number.
fn arrivals_of<W: Workload>(workload: &mut W, requests_max: usize) -> (Vec<Instant>, Vec<Request>) {
    let (mut arrivals, mut requests) = (Vec::new(), Vec::new());
    let mut now = Instant::ZERO;
    while requests.len() < requests_max {
        match workload.next_arrival(now) {
            Arrival::At(time) => now = time,
            Arrival::Request(request) => {
                arrivals.push(now);
                requests.push(request);
            }
            Arrival::Reclassification(_) => {}
            Arrival::WaitForCompletion | Arrival::Finished => break,
        }
    }
    (arrivals, requests)
}

/// Requests of each device by ascending number.
fn routes(capabilities: &Capabilities, requests: &[Request]) -> Vec<Route> {
    let mut of_device = std::collections::BTreeMap::<u16, Vec<Request>>::new();
    for request in requests {
        of_device.entry(request.device).or_default().push(Request { device: 0, ..*request });
    }
    let route = |(device, requests): (u16, Vec<Request>)| {
        let demand = demand(capabilities, &requests, None);
        Route { device, requests: requests.into(), demand }
    };
    of_device.into_iter().map(route).collect()
}

fn replay(device: &Resolved, workload: &ResolvedWorkload, spec: &ReplaySpec) -> Result<Load, Failure> {
    let capabilities = device.build(Seed(0), "disk0")?.capabilities().clone();
    let convert = |record, from| in_blocks_of(record, from, capabilities.block_size);
    let survey = if spec.needs_survey() {
        let mut trace = workload.open_trace(&SURVEYED)?;
        let block_size = trace.metadata().block_size;
        let records = trace.by_ref().map(|record| record.map(|record| convert(record, block_size)));
        Some(Survey::of(records, spec.device)?)
    } else {
        None
    };
    let mut settings = spec
        .settings(capabilities.capacity_blocks, survey.as_ref())
        .map_err(|error| Failure::from(error).context(format!("--workload `{}`", workload.name)))?;
    let population = match settings.mode {
        Mode::Open | Mode::Scaled { .. } => None,
        Mode::Closed { population } => Some(Population { members: population, think_mean_s: 0.0 }),
        Mode::Think | Mode::Follow { .. } => {
            return Err(completions_without_method());
        }
    };
    if population.is_some() {
        settings.mode = Mode::Open;
    }
    let mut trace = workload.open_trace(&REPLAYED[1..12])?;
    let block_size = trace.metadata().block_size;
    let records = Records::new(&mut trace).map(|record| record.map(|record| convert(record, block_size)));
    let mut source = Replay::new(records, settings);
    let (arrivals, requests) = arrivals_of(&mut source, TRACE_REQUESTS_MAX);
    source.into_result().map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        hint.into_iter().fold(Failure::chain(&error).context(workload.name.clone()), Failure::hint)
    })?;
    if requests.is_empty() {
        return Err(Failure::new(format!("--workload `{}`: has no requests", workload.name)));
    }
    let other = requests.iter().find(|request| request.device != requests[0].device);
    if let Some(other) = other.filter(|_| population.is_none()) {
        let (one, other) = (requests[0].device, other.device);
        return Err(Failure::new(format!(
            "--workload `{}`: has requests for several devices, such as {one} and {other}",
            workload.name
        ))
        .hint(format!(
            "estimate one device: replay,trace={},device={one}; or all of them closed: --closed N",
            workload.name
        )));
    }
    let routes = if other.is_some() { routes(&capabilities, &requests) } else { Vec::new() };
    let mut notes = Vec::from_iter(workload.void.clone());
    if requests.len() == TRACE_REQUESTS_MAX {
        notes.push(format!("the first {TRACE_REQUESTS_MAX} requests of the trace stand for all"));
    }
    let demand = demand(&capabilities, &requests, None);
    let times = population.map_or(Times::Recorded(arrivals), Times::Closed);
    Ok(Load {
        times,
        requests: requests.into(),
        demand,
        // With several devices, service times at each depend on what the others do.
        has_same_arrivals: routes.is_empty(),
        batches: None,
        noncritical: 0.0,
        routes,
        think_variation: None,
        notes,
    })
}
