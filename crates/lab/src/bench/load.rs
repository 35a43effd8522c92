//! The load of a measurement: what the workload will ask, and the share of each thread.

use std::sync::{Arc, Mutex};

use seeklab_bench::Dealt;
use seeklab_bench::target::TargetFacts;
use seeklab_core::{Arrival, ByteSize, Completion, Instant, Operation, Ratio, Seed, TraceRecord, Workload};
use seeklab_traces::{OpenTrace, TraceError};
use seeklab_workloads::replay::{ArrivalMode, Mode, Population, Replay, ReplaySpec, Survey, ThinkTimes};
use seeklab_workloads::synthetic::{ArrivalSpec, SizeSpec, SyntheticSpec};
use seeklab_workloads::{Host, Synthetic, WorkloadSpec};

use super::fio::FioLoad;
use super::options::{PhaseOptions, StreamLoad, StreamOptions};
use crate::devices::Resolved;
use crate::failure::Failure;
use crate::run::{REPLAYED, SURVEYED, in_blocks_of, in_whole_blocks, supplied_for};
use crate::workload::ResolvedWorkload;

/// Length for which buffers are prepared, of requests whose lengths are not known beforehand.
const PREPARED_BYTES: usize = 128 << 10;
/// Length for which buffers are prepared at most.
const PREPARED_BYTES_MAX: usize = 1 << 20;

/// Properties of the load that target and plan depend on.
#[derive(Debug)]
pub(super) struct Load {
    /// Reads occur.
    pub(super) reads: bool,
    /// Writes, discards or writes of zeroes occur, or may.
    pub(super) writes: bool,
    /// Requests of a closed load that are outstanding at a time; `None` if arrivals ignore completions or a program
    /// makes them.
    pub(super) population: Option<u32>,
    /// Arrivals ignore completions.
    pub(super) is_open: bool,
    /// Length for which buffers are prepared.
    pub(super) prepared_bytes: usize,
    demand: Demand,
    failure: Failed,
}

/// Requests that a load is known to make.
#[derive(Debug, Default)]
struct Demand {
    operations: Vec<Operation>,
    fua: bool,
    /// Length of the longest read or write, in bytes, if it is known.
    longest: Option<u64>,
}

impl Demand {
    fn of(spec: &SyntheticSpec) -> Self {
        let shares = [
            (Operation::Read, spec.read.as_f64()),
            (Operation::Discard, spec.discard.as_f64()),
            (Operation::WriteZeroes, spec.write_zeroes.as_f64()),
        ];
        // Shares are decimal fractions, whose sum may miss 1 by a rounding.
        let writes = shares.iter().map(|(_, share)| share).sum::<f64>() < 1.0 - 1e-9;
        let flushes = writes && spec.flush_every.is_some();
        let occur = shares.iter().filter(|(_, share)| *share > 0.0).map(|(op, _)| *op);
        Self {
            operations: occur.chain(flushes.then_some(Operation::Flush)).collect(),
            fua: writes && spec.fua > Ratio::ZERO,
            longest: spec.size.as_ref().and_then(longest).map(ByteSize::as_bytes),
        }
    }

    fn of_job(job: &FioLoad) -> Self {
        let other = job.other.filter(|_| job.read < 1.0);
        let writes = other == Some(Operation::Write);
        let flushes = writes && (job.flush_every.is_some() || job.flush_at_end);
        Self {
            operations: other.into_iter().chain(flushes.then_some(Operation::Flush)).collect(),
            fua: writes && job.fua,
            longest: (job.read > 0.0 || writes).then(|| job.longest_bytes()),
        }
    }
}

/// Makes the share of a thread, on that thread.
pub(super) type MakeWorkload = Box<dyn FnOnce() -> Box<dyn Workload> + Send>;

/// Place for the failure of a replay, which ends it early.
type Failed = Arc<Mutex<Option<(String, Option<&'static str>)>>>;

impl Load {
    /// The load of a workload.
    ///
    /// # Errors
    /// If the options do not fit the workload.
    pub(super) fn new(options: &StreamOptions) -> Result<Self, Failure> {
        let workload = match &options.workload {
            StreamLoad::Workload(workload) => workload,
            StreamLoad::Job(job, _) => return Ok(Self::of_job(job)),
        };
        let failure = Failed::default();
        let any = Self {
            reads: true,
            writes: true,
            population: None,
            is_open: false,
            prepared_bytes: PREPARED_BYTES,
            demand: Demand::default(),
            failure,
        };
        let load = match &workload.spec {
            WorkloadSpec::Synthetic(spec) => {
                let population = match spec.arrivals {
                    ArrivalSpec::Closed { population, .. } => Some(population),
                    _ => None,
                };
                Self {
                    reads: spec.read > Ratio::ZERO,
                    writes: spec.read.as_f64() < 1.0,
                    population,
                    is_open: population.is_none(),
                    prepared_bytes: spec.size.as_ref().map_or(PREPARED_BYTES, prepared_bytes),
                    demand: Demand::of(spec),
                    ..any
                }
            }
            WorkloadSpec::Replay(spec) => Self {
                population: match spec.arrivals {
                    ArrivalMode::Closed(Population::Count(population)) => Some(population),
                    ArrivalMode::Think => Some(1),
                    _ => None,
                },
                is_open: matches!(spec.arrivals, ArrivalMode::Open | ArrivalMode::Scaled(_)),
                ..any
            },
            WorkloadSpec::Postmark(_)
            | WorkloadSpec::Build(_)
            | WorkloadSpec::Database(_)
            | WorkloadSpec::Host(_) => any,
            WorkloadSpec::System(_) | WorkloadSpec::Jobs(_) => {
                let name = &workload.name;
                return Err(Failure::new(format!(
                    "--workload `{name}`: its requests cannot be sent to a target"
                ))
                .hint("choose a synthetic workload, a trace, an application or a host"));
            }
        };
        load.check(workload, options)?;
        Ok(load)
    }

    /// The load of a job of fio.
    fn of_job(job: &FioLoad) -> Self {
        let longest = usize::try_from(job.longest_bytes()).unwrap_or(PREPARED_BYTES_MAX);
        Self {
            reads: job.read > 0.0,
            writes: job.read < 1.0,
            population: job.population(),
            is_open: job.population().is_none(),
            prepared_bytes: longest.min(PREPARED_BYTES_MAX),
            demand: Demand::of_job(job),
            failure: Failed::default(),
        }
    }

    /// Checks the options that not every load allows.
    fn check(&self, workload: &ResolvedWorkload, options: &StreamOptions) -> Result<(), Failure> {
        let name = &workload.name;
        let is_shared = match &workload.spec {
            WorkloadSpec::Synthetic(_) => true,
            WorkloadSpec::Replay(_) => self.is_open,
            _ => false,
        };
        if options.threads > 1 && !is_shared {
            return Err(Failure::new(format!(
                "--threads {}: each request of `{name}` may follow from any completion, which one thread must see",
                options.threads
            ))
            .hint("leave out --threads, or choose an open load or a synthetic workload"));
        }
        if let Some(population) = self.population.filter(|population| *population < options.threads) {
            return Err(Failure::new(format!(
                "--threads {}: a closed load of {population} has none outstanding for some of them",
                options.threads
            )));
        }
        if options.outstanding_max.is_some_and(|most| most < options.threads) {
            return Err(Failure::new("--outstanding-max: every thread needs one request at least"));
        }
        let not_open = [
            (options.late == seeklab_bench::Late::Drop && !self.is_open, "--late drop"),
            (self.population.is_some() && options.outstanding_max.is_some(), "--outstanding-max"),
        ];
        if let Some((_, option)) = not_open.into_iter().find(|(applies, _)| *applies) {
            return Err(Failure::new(format!(
                "{option}: `{name}` is a closed load, whose arrivals wait for completions"
            ))
            .hint("choose an open load, for example poisson=1000/s"));
        }
        if options.batch > 1 && self.population.is_none_or(|population| population < options.batch) {
            return Err(Failure::new(format!(
                "--batch {}: `{name}` does not keep so many requests outstanding",
                options.batch
            ))
            .hint("it goes with a closed load of at least that population, for example closed=32"));
        }
        Ok(())
    }

    /// Refuses a target that is known not to carry out requests of the load. Those of traces and programs are known only when
    /// they come.
    ///
    /// # Errors
    /// The operation or the length, and the limit of the target.
    pub(super) fn check_limits(&self, address: &str, facts: &TargetFacts) -> Result<(), Failure> {
        let (demand, limits) = (&self.demand, &facts.limits);
        if let Some(op) = demand.operations.iter().find(|op| limits.refused.contains(op)) {
            let key = match op {
                Operation::Flush => "flush_every (of fio, fsync, fdatasync and end_fsync)",
                op => op.name(),
            };
            let problem = format!("`{address}`: carries out no {}, and the workload has them", op.name());
            return Err(Failure::new(problem)
                .hint(format!("leave out {key}, or choose a target that carries them out")));
        }
        if demand.fua && limits.refuses_fua {
            let problem = format!("`{address}`: has no force unit access, and the workload has such writes");
            return Err(Failure::new(problem).hint("leave out fua (of fio, sync), or write flush_every=1"));
        }
        let block = facts.space.block_size.as_bytes();
        let longest = demand.longest.map(|bytes| bytes.next_multiple_of(block));
        if let Some((longest, most)) = longest.zip(limits.request_bytes_max).filter(|(one, most)| one > most)
        {
            let [longest, most] = [longest, most].map(ByteSize::from_bytes);
            let problem = format!(
                "`{address}`: takes requests of at most {most}, and the workload has some of {longest}"
            );
            return Err(Failure::new(problem).hint(format!("choose smaller requests, such as size={most}")));
        }
        Ok(())
    }

    /// The failure of a replay, if it ended early.
    pub(super) fn failure(&self) -> Option<Failure> {
        let failed = self.failure.lock().expect("no holder panics").take()?;
        let failure = Failure::check(failed.0);
        Some(failed.1.into_iter().fold(failure, Failure::hint))
    }

    /// The share of a thread.
    ///
    /// # Errors
    /// A workload that does not fit the target, or a trace that cannot be read.
    pub(super) fn share(
        &self,
        (phase, options): (&PhaseOptions, &StreamOptions),
        (address, facts): (&str, &TargetFacts),
        device: Option<&Resolved>,
        seed: Seed,
        index: u32,
    ) -> Result<MakeWorkload, Failure> {
        let workload = match &options.workload {
            StreamLoad::Workload(workload) => workload,
            StreamLoad::Job(job, _) => {
                let workload = job.workload(facts.space, seed);
                let workload =
                    workload.map_err(|error| Failure::from(error).context(format!("job `{}`", job.name)))?;
                return Ok(Box::new(move || Box::new(workload)));
            }
        };
        let context = |error: seeklab_core::DescriptionError| {
            Failure::from(error).context(format!("--workload `{}`", workload.name))
        };
        let space = facts.space;
        Ok(match &workload.spec {
            WorkloadSpec::Synthetic(spec) => {
                let supplied = supplied_for(address, device, workload, spec)?;
                let (spec, _) = in_whole_blocks(spec, space.block_size);
                let spec = endless(spec, phase, options);
                let synthetic = Synthetic::new(&spec, space, seed, supplied).map_err(context)?;
                let share = synthetic.share(index, options.threads);
                Box::new(move || Box::new(share))
            }
            WorkloadSpec::Replay(spec) => {
                let replay = self.replay(workload, spec, facts)?;
                let threads = options.threads;
                Box::new(move || match threads {
                    1 => replay,
                    _ => Box::new(Dealt::new(replay, index, threads)),
                })
            }
            WorkloadSpec::Postmark(_) | WorkloadSpec::Build(_) | WorkloadSpec::Database(_) => {
                let builtin = workload.spec.builtin().expect("these are the applications");
                let make = move || builtin.host(space, seed);
                // Once here for its mistakes: its processes share state, so it stays on the thread that makes it.
                make().map_err(context)?;
                Box::new(move || Box::new(make().expect("it was made before")))
            }
            WorkloadSpec::Host(spec) => {
                let spec = spec.clone();
                let make = move || Host::new(&spec, space, seed);
                make().map_err(context)?;
                Box::new(move || Box::new(make().expect("it was made before")))
            }
            WorkloadSpec::System(_) | WorkloadSpec::Jobs(_) => unreachable!("such loads are refused"),
        })
    }

    fn replay(
        &self,
        workload: &ResolvedWorkload,
        spec: &ReplaySpec,
        facts: &TargetFacts,
    ) -> Result<Box<dyn Workload + Send>, Failure> {
        let block_size = facts.space.block_size;
        let survey = if spec.needs_survey() {
            let mut trace = workload.open_trace(&SURVEYED)?;
            let from = trace.metadata().block_size;
            let records = trace.by_ref().map(|row| row.map(|row| in_blocks_of(row, from, block_size)));
            Some(Survey::of(records, spec.device)?)
        } else {
            None
        };
        let settings = spec
            .settings(facts.space.capacity_blocks, survey.as_ref())
            .map_err(|error| Failure::from(error).context(format!("--workload `{}`", workload.name)))?;
        let trace = workload.open_trace(match settings.mode {
            Mode::Think => &REPLAYED,
            Mode::Follow { .. } => &REPLAYED[1..],
            Mode::Open | Mode::Scaled { .. } | Mode::Closed { .. } => &REPLAYED[1..12],
        })?;
        let rows = Rows {
            from: trace.metadata().block_size,
            trace,
            to: block_size,
            device: spec.device,
            first: None,
        };
        // How many think times were derived is a note of simulations alone.
        let derives = (settings.mode == Mode::Think).then_some((|_| ()) as fn(bool));
        let replay = Replay::new(ThinkTimes::new(rows, derives), settings);
        Ok(Box::new(Replayed { replay, name: workload.name.clone(), failed: Arc::clone(&self.failure) }))
    }
}

/// With a time, the number of requests has no default.
fn endless(mut spec: SyntheticSpec, phase: &PhaseOptions, options: &StreamOptions) -> SyntheticSpec {
    if phase.is_timed() && !options.is_counted {
        spec.requests = u64::MAX;
    }
    spec
}

/// Longest request of a size, if it has a bound.
fn longest(size: &SizeSpec) -> Option<ByteSize> {
    match size {
        SizeSpec::Fixed(size) => Some(*size),
        SizeSpec::Mix(sizes) => sizes.iter().map(|one| one.size).max(),
        SizeSpec::Uniform { max, .. } => Some(*max),
        SizeSpec::Exponential { max, .. } => *max,
    }
}

/// Length for which buffers are prepared: the longest request of a size, as far as it is bounded.
fn prepared_bytes(size: &SizeSpec) -> usize {
    let longest = longest(size).unwrap_or_else(|| match size {
        SizeSpec::Exponential { mean, .. } => ByteSize::from_bytes(mean.as_bytes().saturating_mul(8)),
        _ => ByteSize::default(),
    });
    usize::try_from(longest.as_bytes()).map_or(PREPARED_BYTES_MAX, |bytes| bytes.min(PREPARED_BYTES_MAX))
}

/// Rows of a trace in blocks of the target, of one device.
struct Rows {
    trace: OpenTrace,
    from: ByteSize,
    to: ByteSize,
    /// Device that was chosen.
    device: Option<u16>,
    /// Device of the first row.
    first: Option<u16>,
}

impl Iterator for Rows {
    type Item = Result<TraceRecord, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.trace.next()?;
        Some(row.and_then(|row| {
            let first = *self.first.get_or_insert(row.device);
            if self.device.is_none() && row.device != first {
                return Err(TraceError::malformed(format!(
                    "its requests go to several devices, {first} and {}, and the target is one; choose one with replay,trace=TRACE,device={first}",
                    row.device
                )));
            }
            Ok(in_blocks_of(row, self.from, self.to))
        }))
    }
}

/// A replay that says why it ended early.
struct Replayed<I> {
    replay: Replay<I, TraceError>,
    name: String,
    failed: Failed,
}

impl<I: Iterator<Item = Result<TraceRecord, TraceError>>> Workload for Replayed<I> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        let arrival = self.replay.next_arrival(now);
        if arrival == Arrival::Finished
            && let Some(error) = self.replay.failure()
        {
            let message = Failure::chain(error).context(&self.name).to_string();
            *self.failed.lock().expect("no holder panics") = Some((message, error.hint()));
        }
        arrival
    }

    fn completed(&mut self, completion: &Completion) {
        self.replay.completed(completion);
    }

    fn heeds_completions(&self) -> bool {
        self.replay.heeds_completions()
    }

    fn announces_requests(&self) -> bool {
        self.replay.announces_requests()
    }
}
