//! The figures of a measurement, as one JSON document.

use schemars::JsonSchema;
use seeklab_analysis::{StatusCounts, TimeSummary};
use seeklab_bench::target::TargetKind;
use seeklab_bench::{Interval, Part, Totals};
use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Operation};
use seeklab_emulator::clock::Processors;
use serde::{Deserialize, Serialize};

use super::BenchOptions;
use super::counters::CounterFigures;
use super::phase::PhaseRun;
use super::phases::PhaseFigures;
use super::rates::FoundRateFigures;
use super::repeated::RepeatedFigures;
use super::verification::VerificationFigures;
use crate::output::VERSION;
use crate::retries::RetryFigures;
use crate::session::Session;

/// Lateness of an issue above which it counts as late.
pub(super) const LATE: Duration = Duration::from_us(50);

/// Declares the figures of a distribution of times, whose keys begin with its name.
macro_rules! times {
    ($(#[$doc:meta])* $name:ident: $min:ident $mean:ident $sd:ident $p50:ident $p90:ident $p95:ident $p99:ident $p999:ident $p9999:ident $max:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct $name {
            /// Shortest time.
            pub $min: Option<f64>,
            /// Mean time.
            pub $mean: Option<f64>,
            /// Sample standard deviation, zero of one value.
            pub $sd: Option<f64>,
            /// Median.
            pub $p50: Option<f64>,
            /// 90th percentile.
            pub $p90: Option<f64>,
            /// 95th percentile.
            pub $p95: Option<f64>,
            /// 99th percentile.
            pub $p99: Option<f64>,
            /// 99.9th percentile.
            pub $p999: Option<f64>,
            /// 99.99th percentile.
            pub $p9999: Option<f64>,
            /// Longest time.
            pub $max: Option<f64>,
        }

        impl From<&Distribution> for $name {
            fn from(times: &Distribution) -> Self {
                let Some(summary) = TimeSummary::of(times) else { return Self::default() };
                let quantile = |quantile| times.quantile(quantile).map(Duration::as_ms);
                Self {
                    $min: times.moments().min().map(|ns| ns / 1e6),
                    $mean: Some(summary.mean_ms),
                    $sd: Some(summary.sd_ms),
                    $p50: Some(summary.p50_ms),
                    $p90: Some(summary.p90_ms),
                    $p95: quantile(0.95),
                    $p99: Some(summary.p99_ms),
                    $p999: Some(summary.p999_ms),
                    $p9999: quantile(0.9999),
                    $max: Some(summary.max_ms),
                }
            }
        }

        impl $name {
            /// Returns the shortest time, the mean, the percentiles 50, 90, 99, 99.9 and 99.99, and the longest time.
            pub(super) const fn columns_ms(&self) -> [Option<f64>; 8] {
                [self.$min, self.$mean, self.$p50, self.$p90, self.$p99, self.$p999, self.$p9999, self.$max]
            }
        }
    };
}

times! {
    /// Times from the intended start to the completion, of requests that were carried out.
    ResponseTimes: response_min_ms response_mean_ms response_sd_ms response_p50_ms response_p90_ms response_p95_ms
        response_p99_ms response_p999_ms response_p9999_ms response_max_ms
}
times! {
    /// Times from the issue to the completion, of requests that were carried out.
    ServiceTimes: service_min_ms service_mean_ms service_sd_ms service_p50_ms service_p90_ms service_p95_ms
        service_p99_ms service_p999_ms service_p9999_ms service_max_ms
}

/// Figures of a measurement. Those of several phases are sums over them; `phases` has each.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BenchFigures {
    /// Title of the plan; null without one.
    pub title: Option<String>,
    /// Target as named by the user; null of several.
    pub target: Option<String>,
    /// Kind of the target; null of several.
    pub target_kind: Option<&'static str>,
    /// Size of the target; null of several.
    pub capacity_bytes: Option<u64>,
    /// Size of its blocks; null of several.
    pub block_size_bytes: Option<u64>,
    /// Name of the workload; null of several streams.
    pub workload: Option<String>,
    /// Seed of all random draws.
    pub seed: u64,
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the figures again.
    pub command: Option<String>,
    /// True if the times are those of a model in virtual time.
    pub virtual_time: bool,
    /// State of idle processors during the measurement.
    pub processors: Processors,
    /// Threads; of several phases, those of the phase with most.
    pub threads: u32,
    /// Requests that may be under way at a time; of several phases, those of the phase with most.
    pub outstanding_max: u32,
    /// Runs of all phases.
    pub repetitions: u64,
    /// True if the caller stopped the run.
    pub stopped: bool,
    /// Figures of all requests that count.
    #[serde(flatten)]
    pub load: LoadFigures,
    /// Counts of all requests that count.
    #[serde(flatten)]
    pub counts: CountFigures,
    /// Contents of the blocks that were read; null without `--verify`.
    pub verification: Option<VerificationFigures>,
    /// Cost of measuring; null in virtual time.
    pub cost: Option<CostFigures>,
    /// Counters of the machine and of processes; null without `--counters`.
    pub counters: Option<CounterFigures>,
    /// True if nothing is known that distorts the figures; otherwise `notes` name it.
    pub trusted: bool,
    /// Figures over time, of all phases in order.
    pub intervals: Vec<IntervalFigures>,
    /// Figures of each phase, in order.
    pub phases: Vec<PhaseFigures>,
    /// Highest rate at which the bound of `--find-rate` holds; null without it. All other figures are those at this rate.
    pub found_rate: Option<FoundRateFigures>,
    /// Means over the repetitions, if there are several.
    pub repeated: Vec<RepeatedFigures>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Counts of the requests of a load, and what happened to those that were not carried out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CountFigures {
    /// Figures of each operation that occurred.
    pub operations: Vec<OperationFigures>,
    /// Failed requests that were sent again.
    pub retries: RetryFigures,
    /// Arrivals that found no room and waited. Their response times include the wait.
    pub delayed_requests: u64,
    /// Arrivals that found no room and were left out (`--late drop`).
    pub dropped_requests: u64,
    /// Requests that arrived within the duration and were never issued. No time includes them.
    pub unissued_requests: u64,
    /// Requests that the target never returned, the oldest first; at most 16.
    pub unfinished: Vec<HungFigures>,
    /// Requests that the target never returned.
    pub unfinished_requests: u64,
    /// Requests that ended after their time limit (`--timeout`).
    pub late_completions: u64,
    /// Threads that did not come back from a system call.
    pub silent_threads: u32,
    /// Connections that were remade.
    pub reconnections: u64,
    /// Longest time without a completion while requests were under way or waited, on a thread.
    pub longest_pause_ms: f64,
}

/// Figures of the requests of a load.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LoadFigures {
    /// Requests that were carried out.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes, discards and write-zeroes among them.
    pub others: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time that counts: to the end of the duration or to the last completion, the later one.
    pub duration_s: f64,
    /// Requests that were carried out per second of that time.
    pub requests_per_second: Option<f64>,
    /// MiB read and written per second of that time.
    pub mib_per_second: Option<f64>,
    /// Attempts at requests that were issued.
    pub attempts: u64,
    /// Attempts that failed. They count in no number of requests.
    pub errors: u64,
    /// Requests that were not carried out by any attempt.
    pub failed_requests: u64,
    /// Attempts by status, but for `ok`. `timeout` includes those beyond `--timeout`.
    pub statuses: StatusCounts,
    /// Mean time from the intended start to the end of the last attempt, of requests that failed.
    pub failed_response_mean_ms: Option<f64>,
    /// Requests that were issued and outstanding, mean over time: the sum of their times from the intended start to the end of
    /// the last attempt, or to the end of the run if the target never returned them, over `duration_s`. Arrivals that were
    /// left out or never issued are in no part of it. Null of no time.
    pub outstanding_mean: Option<f64>,
    /// Response times.
    #[serde(flatten)]
    pub response: ResponseTimes,
    /// Service times.
    #[serde(flatten)]
    pub service: ServiceTimes,
}

/// Figures of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperationFigures {
    /// Operation.
    pub op: Operation,
    /// Requests that were carried out.
    pub requests: u64,
    /// Requests per second.
    pub requests_per_second: Option<f64>,
    /// MiB of this operation per second, also of discards and writes of zeroes.
    pub mib_per_second: Option<f64>,
    /// Response times.
    #[serde(flatten)]
    pub response: ResponseTimes,
    /// Service times.
    #[serde(flatten)]
    pub service: ServiceTimes,
}

/// A request that the target never returned.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HungFigures {
    /// Operation; null of a request of a thread that did not come back.
    pub op: Option<Operation>,
    /// First logical block.
    pub lbn: Option<u64>,
    /// Number of blocks.
    pub blocks: Option<u32>,
    /// Time from its issue to the end of the run.
    pub age_s: f64,
}

/// Cost of measuring, of this process.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CostFigures {
    /// Processor time in user space and in the kernel.
    pub cpu_s: f64,
    /// Processor time per attempt.
    pub cpu_us_per_request: Option<f64>,
    /// System calls to submit, take and wait per attempt.
    pub system_calls_per_request: Option<f64>,
    /// Context switches per attempt.
    pub context_switches_per_request: Option<f64>,
    /// Context switches because the kernel took the processor away.
    pub preemptions: u64,
    /// Share of the time of the threads in which they worked or waited for a processor, and not for an arrival or the target.
    /// From 95 % on this program, not the target, limits the rate. Null if no thread came to its end.
    pub generator_busy_pct: Option<f64>,
    /// Median time from the intended start to the issue, of attempts that found room at once.
    pub lateness_p50_us: Option<f64>,
    /// 99th percentile of that time.
    pub lateness_p99_us: Option<f64>,
    /// Longest such time.
    pub lateness_max_us: Option<f64>,
    /// Share of those attempts that were issued more than 50 us late.
    pub late_pct: Option<f64>,
}

/// Figures of an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalFigures {
    /// Begin of the interval, from the begin of the run.
    pub from_s: f64,
    /// Length of the interval.
    pub length_s: f64,
    /// Requests that were carried out.
    pub requests: u64,
    /// Requests per second.
    pub requests_per_second: Option<f64>,
    /// MiB read and written per second.
    pub mib_per_second: Option<f64>,
    /// Attempts that failed.
    pub errors: u64,
    /// Attempts by status, but for `ok`.
    pub statuses: StatusCounts,
    /// Attempts after the first of a request.
    pub retries: u64,
    /// Arrivals that found no room and waited.
    pub delayed_requests: u64,
    /// Arrivals that found no room and were left out.
    pub dropped_requests: u64,
    /// Attempts that the target has at the end of the interval.
    pub outstanding: u64,
    /// Arrivals that wait at the end of the interval.
    pub queued_requests: u64,
    /// Age of the oldest attempt that the target has at the end of the interval.
    pub oldest_ms: Option<f64>,
    /// Attempts of at least a second of age at the end of the interval.
    pub hung_requests: u64,
    /// Longest time without a completion while requests were under way or waited, on a thread.
    pub longest_pause_ms: f64,
    /// Threads that did not hand over their figures in time.
    pub silent_threads: u32,
    /// Response times.
    #[serde(flatten)]
    pub response: ResponseTimes,
    /// Service times.
    #[serde(flatten)]
    pub service: ServiceTimes,
}

/// Requests that the target never returned, which are listed at most.
const LISTED_MAX: usize = 16;

pub(super) fn six_decimals(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// An amount per second of a time, unless that is none.
fn per_second(amount: f64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| six_decimals(amount / time.as_s()))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Attempts of a part by status.
pub(super) fn statuses(part: &Part) -> StatusCounts {
    let [_, recovered, medium_error, aborted, timeout, write_protected, no_space, gone] = part.statuses;
    StatusCounts { recovered, medium_error, aborted, timeout, write_protected, no_space, gone }
}

impl BenchFigures {
    pub(super) fn new(
        session: &Session,
        options: &BenchOptions,
        runs: &[PhaseRun],
        found_rate: Option<FoundRateFigures>,
    ) -> Self {
        let totals = total(runs);
        let streams = || runs.iter().flat_map(|run| run.options(options).streams.iter().zip(&run.streams));
        let (first, of_first) = streams().next().expect("a run has a stream");
        let is_one_target = streams().all(|(stream, _)| stream.target == first.target);
        let choice = &options.targets[first.target];
        let is_one_stream = options.is_one_stream();
        let space = &of_first.facts.space;
        let one = |value: u64| is_one_target.then_some(value);
        let most = |of: &dyn Fn(&PhaseRun) -> u32| runs.iter().map(of).max().unwrap_or(0);
        let phases: Vec<PhaseFigures> = runs.iter().map(|run| PhaseFigures::of(options, run)).collect();
        let mut notes = options.notes.clone();
        let mut loads = options.phases.iter().flat_map(|phase| &phase.streams);
        notes.extend(loads.find_map(|stream| stream.workload.note()).map(str::to_owned));
        for run in runs {
            for note in &run.notes.sentences {
                let note = match options.phases.len() {
                    1 => note.clone(),
                    _ => format!("phase `{}`: {note}", run.options(options).name),
                };
                // Repetitions have many in common.
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        Self {
            title: options.title.clone(),
            target: is_one_target.then(|| choice.address.clone()),
            target_kind: is_one_target.then(|| TargetKind::of(&choice.address).0.name),
            capacity_bytes: one(space.capacity_blocks.saturating_mul(space.block_size.as_bytes())),
            block_size_bytes: one(space.block_size.as_bytes()),
            workload: is_one_stream.then(|| first.workload.name().to_owned()),
            seed: options.seed.0,
            version: VERSION,
            command: session.command(),
            virtual_time: runs[0].plan.is_virtual,
            processors: Processors::Asleep,
            threads: most(&|run| run.options(options).streams.iter().map(|stream| stream.threads).sum()),
            outstanding_max: most(&|run| run.streams.iter().map(|stream| stream.room()).sum()),
            repetitions: options.repetitions,
            stopped: false,
            load: LoadFigures::of(&totals),
            counts: CountFigures::of(&totals),
            verification: None,
            cost: CostFigures::of(&totals),
            counters: None,
            trusted: runs.iter().all(|run| run.notes.is_trusted),
            intervals: runs
                .iter()
                .flat_map(|run| {
                    let of = |interval| IntervalFigures::of(interval).behind(run.from);
                    run.measurement.intervals.iter().map(of)
                })
                .collect(),
            found_rate,
            repeated: {
                let is_whole = |(_, run): &(&PhaseFigures, &PhaseRun)| !run.measurement.is_stopped;
                let whole = phases.iter().zip(runs).filter(is_whole).map(|(phase, _)| phase);
                RepeatedFigures::of(&whole.collect::<Vec<_>>())
            },
            phases,
            notes,
        }
    }
}

/// Totals of all phases: those of one phase as they are, of several their sums.
pub(super) fn total(runs: &[PhaseRun]) -> Totals {
    if let [run] = runs {
        return run.measurement.totals.clone();
    }
    let mut sum = Totals::default();
    for run in runs {
        let totals = &run.measurement.totals;
        sum.end += totals.elapsed();
        sum.part.merge_counts(&totals.part);
        sum.unissued += totals.unissued;
        sum.has_more_unissued |= totals.has_more_unissued;
        sum.unfinished.extend(&totals.unfinished);
        sum.unfinished_time += totals.unfinished_time;
        sum.silent_threads += totals.silent_threads;
        sum.reconnections += totals.reconnections;
        if let Some(cost) = totals.cost {
            *sum.cost.get_or_insert_default() += cost;
        }
    }
    sum
}

impl CountFigures {
    pub(super) fn of(totals: &Totals) -> Self {
        let part = &totals.part;
        let elapsed = totals.elapsed();
        let operations = Operation::ALL.into_iter().zip(&part.operations);
        let operations = operations.filter(|(_, direction)| direction.requests > 0);
        let mut unfinished: Vec<HungFigures> = totals
            .unfinished
            .iter()
            .map(|request| HungFigures {
                op: (request.blocks > 0).then_some(request.op),
                lbn: (request.blocks > 0).then_some(request.lbn),
                blocks: (request.blocks > 0).then_some(request.blocks),
                age_s: six_decimals(request.age.as_s()),
            })
            .collect();
        unfinished.sort_by(|one, other| other.age_s.total_cmp(&one.age_s));
        unfinished.truncate(LISTED_MAX);
        Self {
            operations: operations
                .map(|(op, direction)| OperationFigures {
                    op,
                    requests: direction.requests,
                    requests_per_second: per_second(direction.requests as f64, elapsed),
                    mib_per_second: per_second(mib(direction.bytes), elapsed),
                    response: ResponseTimes::from(&direction.response),
                    service: ServiceTimes::from(&direction.service),
                })
                .collect(),
            retries: RetryFigures {
                retries: part.retries,
                retried_requests: part.retried,
                abandoned_requests: part.failed,
            },
            delayed_requests: part.delayed,
            dropped_requests: part.dropped,
            unissued_requests: totals.unissued,
            unfinished,
            unfinished_requests: totals.unfinished.len() as u64,
            late_completions: part.late_ends,
            silent_threads: totals.silent_threads,
            reconnections: totals.reconnections,
            longest_pause_ms: six_decimals(part.pause.as_ms()),
        }
    }
}

impl LoadFigures {
    pub(super) fn of(totals: &Totals) -> Self {
        let (part, elapsed) = (&totals.part, totals.elapsed());
        let of = |op: Operation| &part.operations[op as usize];
        let (reads, writes) = (of(Operation::Read), of(Operation::Write));
        let requests = part.requests();
        let response = part.response();
        let failed = part.failed_response.moments();
        Self {
            requests,
            reads: reads.requests,
            writes: writes.requests,
            others: requests - reads.requests - writes.requests,
            read_bytes: reads.bytes,
            written_bytes: writes.bytes,
            duration_s: six_decimals(elapsed.as_s()),
            requests_per_second: per_second(requests as f64, elapsed),
            mib_per_second: per_second(mib(part.bytes()), elapsed),
            attempts: part.attempts,
            errors: part.errors(),
            failed_requests: part.failed,
            statuses: statuses(part),
            failed_response_mean_ms: failed.mean().map(|ns| six_decimals(ns / 1e6)),
            outstanding_mean: totals.outstanding_mean().map(six_decimals),
            response: ResponseTimes::from(&response),
            service: ServiceTimes::from(&part.service()),
        }
    }
}

impl CostFigures {
    pub(super) fn of(totals: &Totals) -> Option<Self> {
        let cost = totals.cost?;
        let attempts = totals.part.attempts as f64;
        let per_attempt = |amount: f64| (attempts > 0.0).then(|| six_decimals(amount / attempts));
        let lateness = &totals.part.lateness;
        let late_us = |quantile| lateness.quantile(quantile).map(Duration::as_us);
        Some(Self {
            cpu_s: six_decimals(cost.processor().as_s()),
            cpu_us_per_request: per_attempt(cost.processor().as_us()),
            // Those of a thread that its target holds are unknown.
            system_calls_per_request: per_attempt(cost.system_calls as f64)
                .filter(|_| totals.silent_threads == 0),
            context_switches_per_request: per_attempt((cost.waits + cost.preemptions) as f64),
            preemptions: cost.preemptions,
            generator_busy_pct: cost.busy_pct().map(six_decimals),
            lateness_p50_us: late_us(0.5),
            lateness_p99_us: late_us(0.99),
            lateness_max_us: late_us(1.0),
            late_pct: totals.late_pct(LATE).map(six_decimals),
        })
    }
}

impl IntervalFigures {
    pub(super) fn of(interval: &Interval) -> Self {
        Self { silent_threads: interval.silent_threads, ..Self::of_part(&interval.part) }
    }

    /// The same figures, of an interval of a phase that began so long after the run.
    pub(super) fn behind(self, from: Duration) -> Self {
        Self { from_s: six_decimals(self.from_s + from.as_s()), ..self }
    }

    /// Figures of a part of an interval.
    pub(super) fn of_part(part: &Part) -> Self {
        let length = part.until.saturating_since(part.from);
        let requests = part.requests();
        Self {
            from_s: six_decimals(part.from.as_ns() as f64 / 1e9),
            length_s: six_decimals(length.as_s()),
            requests,
            requests_per_second: per_second(requests as f64, length),
            mib_per_second: per_second(mib(part.bytes()), length),
            errors: part.errors(),
            statuses: statuses(part),
            retries: part.retries,
            delayed_requests: part.delayed,
            dropped_requests: part.dropped,
            outstanding: part.outstanding,
            queued_requests: part.queued,
            oldest_ms: part.oldest.map(|age| six_decimals(age.as_ms())),
            hung_requests: part.hung,
            longest_pause_ms: six_decimals(part.pause.as_ms()),
            silent_threads: 0,
            response: ResponseTimes::from(&part.response()),
            service: ServiceTimes::from(&part.service()),
        }
    }
}
