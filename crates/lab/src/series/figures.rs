//! Figures of one repetition.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seeklab_analysis::points::DEADLINE_LIMIT;
use seeklab_analysis::{Evidence, MatchCounts, MissCounts, Point, Stamps, TrustLevel};
use seeklab_core::{Duration, MissCause};
use seeklab_emulator::clock::Processors;
use seeklab_emulator::frontend::loop_device::Queue;
use seeklab_report::PointsSection;
use seeklab_stage::MemoryFigures;
use serde::{Deserialize, Serialize};

use super::exactness::Exactness;
use super::jobs::JobsRunFigures;
use crate::devices::Resolved;
use crate::emulate::{CriticalityFigures, Measurements};
use crate::fitted_range::FittedRangeFigures;
use crate::retries::RetryFigures;

/// The figures of one repetition. What was not measured is `None`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// From exec to exit, all phases together.
    pub elapsed_s: f64,
    /// Time for syncing and unmounting, all phases together.
    pub flush_s: f64,
    /// Processor time of the commands in user mode.
    pub user_s: f64,
    /// Processor time of the commands in the kernel.
    pub system_s: f64,
    /// Processor time of the emulator's thread.
    pub emulator_cpu_s: f64,
    /// State of the idle processors during the repetition.
    #[serde(default)]
    pub processors: Processors,
    /// Settings of the host's queue, read back from the kernel. `None` without a block device.
    #[serde(default)]
    pub host_queue: Option<Queue>,
    /// Memory of the commands. `None` if it was not limited.
    #[serde(default)]
    pub memory: Option<MemoryFigures>,
    /// Requests that the model answered.
    pub requests: u64,
    /// Requests that the model failed, among these.
    #[serde(default)]
    pub failed_requests: u64,
    /// Failed requests that a built-in application sent again. `None` for commands of the host.
    #[serde(default)]
    pub retries: Option<RetryFigures>,
    /// Connections that a built-in application opened again after the device had closed them. `None` for commands of the
    /// host.
    #[serde(default)]
    pub reconnections: Option<u64>,
    /// Response times in the host and in the model, of the same requests.
    #[serde(flatten)]
    pub exactness: Exactness,
    /// Figures of the stream of jobs. `None` for other applications.
    #[serde(default)]
    pub jobs: Option<JobsRunFigures>,
    /// Figures of the classes of requests. `None` without `--criticality`.
    #[serde(default)]
    pub criticality: Option<CriticalityFigures>,
    /// Median lateness of replies.
    pub lateness_p50_us: f64,
    /// 99th percentile of the lateness of replies.
    pub lateness_p99_us: f64,
    /// Deadlines missed, by cause.
    #[schemars(with = "MissCounts")]
    pub deadline_misses: BTreeMap<MissCause, u64>,
    /// Share of the requests that waited for their data beyond their due.
    pub stall_pct: f64,
    /// Requests of a kind with which the device's model was not compared with a measurement; of a clone, those outside
    /// the fitted range.
    pub out_of_validated_range: u64,
    /// Requests outside of the loads that a clone was fitted to, by what they lie outside of. `None` of other devices.
    #[serde(default)]
    pub fitted_range: Option<FittedRangeFigures>,
    /// Requests whose response time in the model is below what can be emulated.
    pub below_floor: u64,
    /// Arrivals that the model received later than they came.
    pub clamped: u64,
    /// Answers that this changed.
    pub changed_by_clamping: u64,
    /// Requests of the host that were not found in the emulator, and the other way round.
    pub unmatched: Option<u64>,
    /// Events of the host that were lost.
    pub lost: u64,
    /// Exit code of the first command that failed; 0 if none failed.
    pub exit_code: i32,
    /// Figures of each phase.
    pub phases: Vec<PhaseFigures>,
    /// Trustworthiness of the repetition. Journals of earlier versions lack it.
    #[serde(default)]
    pub trust_level: TrustLevel,
    /// Trustworthiness of the repetition, in a sentence.
    pub trust: String,
    /// Host and model request by request, of a repetition that was run just now.
    #[serde(skip)]
    pub points: Option<Box<PointsSection>>,
}

/// Figures of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseFigures {
    /// Its name.
    pub name: String,
    /// From exec to exit.
    pub elapsed_s: f64,
    /// Time for syncing and unmounting.
    pub flush_s: f64,
    /// Processor time in user mode.
    pub user_s: f64,
    /// Processor time in the kernel.
    pub system_s: f64,
    /// Exit code; 0 is success.
    pub exit_code: i32,
    /// Folder of its system-level trace. `None` if there is none.
    #[serde(default)]
    pub system_trace: Option<String>,
}

/// Measurements of a repetition.
pub(super) struct Observation<'a> {
    pub(super) label: &'a str,
    pub(super) host_queue: Option<Queue>,
    pub(super) result: &'a Measurements,
    pub(super) stamps: &'a Stamps,
    pub(super) matched: Option<&'a MatchCounts>,
    pub(super) lost: u64,
    pub(super) floor: Option<Duration>,
    pub(super) device: &'a Resolved,
    /// Reads and writes among the requests.
    pub(super) transfers: u64,
}

impl Figures {
    /// Computes the figures from the measurements made while these phases ran.
    pub(super) fn of(phases: Vec<PhaseFigures>, seen: &Observation<'_>) -> Self {
        let statistics = &seen.result.statistics;
        let sum = |figure: fn(&PhaseFigures) -> f64| phases.iter().map(figure).sum();
        let evidence = seen.stamps.evidence(DEADLINE_LIMIT, seen.floor);
        let evidence = Evidence { coverage: statistics.coverage, ..evidence };
        let between = seen.stamps.between(Point::Mp1, Point::Mp3).ok();
        let trust = evidence.trust();
        let points = between
            .as_ref()
            .map(|between| Box::new(PointsSection::new(seen.label, seen.stamps, between, &evidence)));
        let us = |quantile| statistics.deadlines.lateness().quantile(quantile).unwrap_or_default().as_us();
        let misses = MissCause::ALL.map(|cause| (cause, statistics.deadlines.missed(cause)));
        let stalled = statistics.deadlines.missed(MissCause::DataNotThere);
        let share = |count: u64| 100.0 * count as f64 / statistics.requests.max(1) as f64;
        Self {
            elapsed_s: sum(|phase| phase.elapsed_s),
            flush_s: sum(|phase| phase.flush_s),
            user_s: sum(|phase| phase.user_s),
            system_s: sum(|phase| phase.system_s),
            emulator_cpu_s: seen.result.cpu.as_s(),
            processors: seen.result.processors,
            host_queue: seen.host_queue.clone(),
            memory: None,
            requests: statistics.requests,
            failed_requests: statistics.failed_requests,
            retries: None,
            reconnections: None,
            jobs: None,
            exactness: Exactness::of(between.as_ref()),
            criticality: seen.result.criticality.clone(),
            lateness_p50_us: us(0.5),
            lateness_p99_us: us(0.99),
            deadline_misses: misses.into_iter().collect(),
            stall_pct: share(stalled),
            out_of_validated_range: seen.device.out_of_validated_range(
                statistics.coverage,
                statistics.requests,
                seen.transfers,
            ),
            fitted_range: statistics.coverage.as_ref().map(FittedRangeFigures::of),
            below_floor: statistics.deadlines.below_floor(),
            clamped: statistics.clamped.by_completion
                + statistics.clamped.by_arrival
                + statistics.clamped.by_model_clock,
            changed_by_clamping: statistics.changed.map_or(0, |changed| changed.changed),
            unmatched: seen.matched.map(|counts| counts.unmatched_host + counts.unmatched_emulated),
            lost: seen.lost,
            exit_code: phases.iter().map(|phase| phase.exit_code).find(|code| *code != 0).unwrap_or(0),
            trust_level: trust.level,
            trust: trust.sentence,
            phases,
            points,
        }
    }

    /// Returns true if every command succeeded.
    pub(super) fn succeeded(&self) -> bool {
        self.exit_code == 0
    }
}
