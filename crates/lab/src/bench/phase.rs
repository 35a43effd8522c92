//! The course of a measurement: each repetition, phase by phase.

use seeklab_bench::target::{Target, TargetFacts};
use seeklab_bench::{Lane, Measurement, Plan, Stream, StreamPlan, measure};
use seeklab_core::{Coverage, Duration, Instant, Seed};
use seeklab_emulator::clock::Clock;
use seeklab_traces::TraceWriter;

use super::course::Course;
use super::displaced::Displaced;
use super::fio::FioLogWriter;
use super::load::{Load, MakeWorkload};
use super::options::{BenchOptions, PhaseOptions, StreamOptions, seed_of_stream};
use super::targets::{self, ReadyTarget};
use super::trust::{self, Notes};
use super::verification::VerificationFigures;
use super::verified_run::VerifiedRun;
use super::{plan, ranges};
use crate::failure::Failure;
use crate::fitted_range::outside_sentence;
use crate::session::Session;

/// A phase that was measured.
#[derive(Debug)]
pub(super) struct PhaseRun {
    /// Number of the phase in the options.
    pub(super) phase: usize,
    /// Number of the repetition.
    pub(super) repetition: u64,
    /// Begin of the phase from the begin of the run.
    pub(super) from: Duration,
    pub(super) plan: Plan,
    pub(super) streams: Vec<StreamRun>,
    pub(super) measurement: Measurement,
    pub(super) notes: Notes,
    /// Requests inside and outside of what the clones among the targets were fitted to. `None` without clones.
    pub(super) coverage: Option<Coverage>,
}

/// Circumstances of a stream that was measured.
#[derive(Debug)]
pub(super) struct StreamRun {
    pub(super) plan: StreamPlan,
    pub(super) facts: TargetFacts,
    pub(super) threads: u32,
}

impl StreamRun {
    /// Requests under way at a time, on all threads together.
    pub(super) fn room(&self) -> u32 {
        self.plan.outstanding_max.min(self.facts.outstanding_max.saturating_mul(self.threads))
    }
}

impl PhaseRun {
    /// Its options.
    pub(super) fn options<'a>(&self, options: &'a BenchOptions) -> &'a PhaseOptions {
        &options.phases[self.phase]
    }
}

/// Makes the trace, when the facts of all targets are known.
pub(super) type MakeTrace<'a> =
    dyn Fn(&[Option<TargetFacts>], &[ReadyTarget]) -> Result<Option<Box<dyn TraceWriter>>, Failure> + 'a;

/// A stream whose targets are open.
struct OpenStream {
    targets: Vec<Box<dyn Target>>,
    lanes: Vec<MakeWorkload>,
}

/// All phases and repetitions.
pub(super) struct Run<'a> {
    session: &'a Session,
    options: &'a BenchOptions,
    loads: &'a [Vec<Load>],
    /// Facts of each target, once it was open.
    facts: Vec<Option<TargetFacts>>,
    /// The check of the data, if there is one.
    verified: Option<VerifiedRun>,
    /// Reason for which a later phase or repetition could not begin.
    failure: Option<Failure>,
    /// True if the caller ended it before its last phase was over.
    is_stopped: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(session: &'a Session, options: &'a BenchOptions, loads: &'a [Vec<Load>]) -> Self {
        let facts = vec![None; options.targets.len()];
        Self { session, options, loads, facts, verified: None, failure: None, is_stopped: false }
    }

    /// Opens and closes the targets of all phases but the first, so that mistakes in them end no run halfway.
    ///
    /// # Errors
    /// A target that cannot be opened, or a workload that does not fit it.
    pub(super) fn check(&mut self, targets: &mut [ReadyTarget]) -> Result<(), Failure> {
        targets::begin_repetition(targets, self.options.seed)?;
        for phase in 1..self.options.phases.len() {
            self.open(targets, phase, self.options.seed)?;
        }
        Ok(())
    }

    /// Measures all repetitions of all phases. It ends early if the caller stops it, a target fails as a whole, or a later phase
    /// cannot begin ([`take_failure`](Self::take_failure)).
    ///
    /// # Errors
    /// If nothing was measured: a target that cannot be opened or fails at once, or a trace that cannot be made.
    pub(super) fn measure(
        &mut self,
        targets: &mut [ReadyTarget],
        course: &mut Course<'_>,
        make_trace: &MakeTrace<'_>,
    ) -> Result<Vec<PhaseRun>, Failure> {
        let mut runs = Vec::new();
        match self.measure_into(&mut runs, targets, course, make_trace) {
            Err(failure) if !runs.is_empty() => self.failure = Some(failure.into_check()),
            result => result?,
        }
        let planned =
            self.options.phases.len() * usize::try_from(self.options.repetitions).unwrap_or(usize::MAX);
        let is_broken_off = runs.len() < planned || self.failure.is_some();
        let stopped_before = self.session.stop().is_stopped() && is_broken_off;
        self.is_stopped |= stopped_before || runs.iter().any(|run| run.measurement.is_stopped);
        if let Some(last) = runs.last_mut().filter(|_| self.is_stopped) {
            // A target whose opening ended with the stop has not failed.
            self.failure = None;
            last.notes.add(false, stopped_sentence(last, planned - last_number(last, self.options)));
        }
        Ok(runs)
    }

    /// Returns true if the caller ended it before its last phase was over, be it between two phases.
    pub(super) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The reason for which a later phase or repetition could not begin, if one could not.
    pub(super) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    fn measure_into(
        &mut self,
        runs: &mut Vec<PhaseRun>,
        targets: &mut [ReadyTarget],
        course: &mut Course<'_>,
        make_trace: &MakeTrace<'_>,
    ) -> Result<(), Failure> {
        let is_virtual = targets.iter().any(|target| target.kind.is_virtual);
        let clock = Clock::start();
        // Virtual time of the repetitions before this one.
        let mut before = Duration::ZERO;
        for repetition in 0..self.options.repetitions {
            let seed = self.options.seed.repetition(repetition);
            targets::begin_repetition(targets, seed)?;
            for phase in 0..self.options.phases.len() {
                let open = self.open(targets, phase, seed).map_err(|failure| match repetition {
                    0 => failure,
                    _ => failure.context(format!("repetition {}", repetition + 1)),
                })?;
                if runs.is_empty() {
                    self.verified = VerifiedRun::begin(self.options, self.loads, targets, &self.facts)?;
                    course.begin(
                        make_trace(&self.facts, targets)?,
                        FioLogWriter::begin(&self.options.fio_logs)?,
                    );
                }
                let now = targets.iter().map(ReadyTarget::model_time).max().unwrap_or_default();
                let from = match (is_virtual, runs.is_empty()) {
                    (_, true) => Duration::ZERO,
                    (true, _) => before + now.saturating_since(Instant::ZERO),
                    (false, _) => clock.now().saturating_since(Instant::ZERO),
                };
                let open = self.verify(open, phase, from)?;
                course.begin_phase((phase, repetition), from, &self.facts);
                let counts = || targets.iter().map(ReadyTarget::coverage).collect::<Vec<_>>();
                let earlier = counts();
                let mut run = self.measure_phase(open, (phase, repetition), from, is_virtual, course)?;
                for (now, earlier) in counts().into_iter().zip(earlier) {
                    let Some((now, earlier)) = now.zip(earlier) else { continue };
                    *run.coverage.get_or_insert_default() += now.since(&earlier);
                }
                if let Some(sentence) = run.coverage.as_ref().and_then(outside_sentence) {
                    run.notes.add(true, sentence);
                }
                for target in targets.iter() {
                    let lateness = target.take_lateness();
                    let note = lateness.and_then(|lateness| trust::emulation(&target.address, &lateness));
                    if let Some((limits_trust, sentence)) = note {
                        run.notes.add(limits_trust, sentence);
                    }
                }
                course.end_phase(&run);
                let mut is_over = run.measurement.is_stopped || run.measurement.failure.is_some();
                runs.push(run);
                if !is_over && let Some(verified) = &mut self.verified {
                    let begin = clock.now().saturating_since(Instant::ZERO);
                    let streams = self.options.phases[phase].streams.as_slice();
                    let is_stopped = verified.read_back(self.session, (phase, streams), targets, begin)?;
                    self.is_stopped |= is_stopped;
                    is_over = is_stopped;
                }
                if is_over || self.session.stop().is_stopped() {
                    return Ok(());
                }
            }
            let now = targets.iter().map(ReadyTarget::model_time).max().unwrap_or_default();
            before += now.saturating_since(Instant::ZERO);
        }
        Ok(())
    }

    /// Returns true if the row of every request is wanted.
    fn records(&self) -> bool {
        self.options.record.is_some() || !self.options.fio_logs.is_empty()
    }

    /// Results of the check of the data, if there is one.
    pub(super) fn verification(&self) -> Option<VerificationFigures> {
        self.verified.as_ref().map(VerifiedRun::figures)
    }

    /// The streams of a phase with checks, if the data are checked.
    fn verify(
        &self,
        open: Vec<OpenStream>,
        number: usize,
        begin: Duration,
    ) -> Result<Vec<OpenStream>, Failure> {
        let Some(verified) = &self.verified else { return Ok(open) };
        let streams = self.options.phases[number].streams.iter().zip(&self.loads[number]);
        let verify = |(index, (stream, open)): (usize, ((&StreamOptions, &Load), OpenStream))| {
            let targets = verified.attach(stream, (number, index, begin), open.targets)?;
            Ok(OpenStream { targets, lanes: open.lanes })
        };
        streams.zip(open).enumerate().map(verify).collect()
    }

    /// Opens the targets of a phase, and makes the shares of its workloads.
    fn open(
        &mut self,
        targets: &[ReadyTarget],
        number: usize,
        seed: Seed,
    ) -> Result<Vec<OpenStream>, Failure> {
        let (phase, loads) = (&self.options.phases[number], &self.loads[number]);
        let is_one = self.options.is_one_stream();
        let place = |stream: &StreamOptions, failure: Failure| match is_one {
            true => failure,
            false => failure.context(format!("phase `{}`, stream `{}`", phase.name, stream.name)),
        };
        let mut opened = Vec::new();
        for (index, (stream, load)) in phase.streams.iter().zip(loads).enumerate() {
            let (ready, seed) = (&targets[stream.target], seed_of_stream(seed, number, index));
            let targets = ready.open(stream, load, seed, self.options.pacing, self.session.stop());
            let targets = targets.map_err(|failure| place(stream, failure))?;
            self.facts[stream.target] = Some(targets[0].facts().clone());
            opened.push(targets);
        }
        let parts = match &self.options.verification {
            None => vec![None; opened.len()],
            Some(_) => ranges::parts(phase, loads, |stream| {
                let address = targets[phase.streams[stream].target].address.as_str();
                (address, opened[stream][0].facts().space)
            })?,
        };
        let mut open = Vec::new();
        for (index, (targets_of, part)) in opened.into_iter().zip(parts).enumerate() {
            let (stream, load, seed) =
                (&phase.streams[index], &loads[index], seed_of_stream(seed, number, index));
            let (ready, mut facts) = (&targets[stream.target], targets_of[0].facts().clone());
            if let Some(part) = &part {
                facts.space.capacity_blocks = part.end - part.start;
            }
            let mut lanes = Vec::new();
            for thread in 0..stream.threads {
                let place_of = (ready.address.as_str(), &facts);
                let share = load.share((phase, stream), place_of, ready.device.as_ref(), seed, thread);
                let share = share.map_err(|failure| place(stream, failure))?;
                lanes.push(match &part {
                    None => share,
                    Some(part) => displaced(share, part.start),
                });
            }
            open.push(OpenStream { targets: targets_of, lanes });
        }
        Ok(open)
    }

    fn measure_phase(
        &self,
        open: Vec<OpenStream>,
        (number, repetition): (usize, u64),
        from: Duration,
        is_virtual: bool,
        course: &mut Course<'_>,
    ) -> Result<PhaseRun, Failure> {
        let phase = &self.options.phases[number];
        let plan = plan::phase(phase, self.options.pacing, self.records(), is_virtual);
        let (mut of_streams, mut streams) = (Vec::new(), Vec::new());
        for ((stream, load), open) in phase.streams.iter().zip(&self.loads[number]).zip(open) {
            let plan = plan::stream(stream, load);
            let (facts, threads) = (open.targets[0].facts().clone(), stream.threads);
            of_streams.push(StreamRun { plan: plan.clone(), facts, threads });
            let lanes = open.targets.into_iter().zip(open.lanes);
            let lanes = lanes.map(|(target, workload)| Lane { target, workload });
            streams.push(Stream::new(plan, lanes.collect()));
        }
        // What was prepared is no part of the run.
        let mut measurement = measure(&plan, Clock::start(), streams, course)?;
        let loads = &self.loads[number];
        for (totals, load) in measurement.streams.iter_mut().zip(loads) {
            if !load.is_open {
                // The requests that follow the last completions of a closed load are no arrivals that the target kept
                // waiting.
                (totals.unissued, totals.has_more_unissued) = (0, false);
            }
        }
        measurement.totals.unissued = measurement.streams.iter().map(|totals| totals.unissued).sum();
        let notes = trust::notes(&plan, phase, &of_streams, loads, &measurement);
        let (phase, streams) = (number, of_streams);
        Ok(PhaseRun { phase, repetition, from, plan, streams, measurement, notes, coverage: None })
    }
}

/// Phases and repetitions up to this one.
fn last_number(run: &PhaseRun, options: &BenchOptions) -> usize {
    usize::try_from(run.repetition).unwrap_or(0) * options.phases.len() + run.phase + 1
}

/// Sentence on a run that the caller ended, with so many phases behind this one.
fn stopped_sentence(run: &PhaseRun, left: usize) -> String {
    let after = match run.measurement.is_stopped {
        true => format!("after {:.1} s of this phase", run.measurement.totals.elapsed().as_s()),
        false => "behind this phase".to_owned(),
    };
    let rest = match left {
        0 => String::new(),
        1 => ", and 1 phase was not measured".to_owned(),
        _ => format!(", and {left} phases were not measured"),
    };
    format!("the run was stopped {after}: all figures are those of the time until then{rest}")
}

/// A workload whose block zero is `first`.
fn displaced(workload: MakeWorkload, first: u64) -> MakeWorkload {
    Box::new(move || Box::new(Displaced::new(workload(), first)))
}
