//! A cell of an experiment that measures: a workload or a plan on targets.

use std::path::PathBuf;
use std::time;

use seeklab_bench::target::TargetKind;
use seeklab_bench::{Late, Ramp, WriteData};
use seeklab_core::{Duration, Seed};
use seeklab_report::Note;

use super::cells::{Cell, Work, workload_identity};
use super::engine::RunResult;
use super::spec::Spec;
use super::targets::NamedPlan;
use crate::bench::{
    BenchOptions, BenchResult, PhaseOptions, StreamLoad, StreamOptions, TargetChoice, bench, check_options,
    identity, inputs, is_overwritten, named_figures, names_typed_again,
};
use crate::devices::resolve;
use crate::failure::Failure;
use crate::session::Session;
use crate::workload::ResolvedWorkload;

/// Interval of the figures over time, that of `seeklab bench`.
const INTERVAL: Duration = Duration::from_s(1);
/// Time for the targets of a run to be closed, before the next run begins.
const CLOSING: time::Duration = time::Duration::from_secs(30);

/// A workload or a plan on targets.
#[derive(Debug)]
pub(super) struct Measurement {
    options: BenchOptions,
    /// It is a plan, whose phases have figures of their own.
    is_plan: bool,
}

impl Measurement {
    /// A workload on a target.
    pub(super) fn of_workload(spec: &Spec, choice: TargetChoice, workload: &ResolvedWorkload) -> Self {
        let stream = StreamOptions {
            name: "1".to_owned(),
            target: 0,
            workload: StreamLoad::Workload(Box::new(workload.clone())),
            is_counted: spec.requests.is_some(),
            outstanding_max: None,
            late: Late::Queue,
            timeout: None,
            batch: 1,
            threads: 1,
            data: WriteData::default(),
            read_back: false,
            priority: None,
        };
        let phase = PhaseOptions {
            name: "1".to_owned(),
            duration: spec.duration,
            steady: None,
            ramp: spec.ramp.filter(|time| !time.is_zero()).map_or(Ramp::None, Ramp::Time),
            interval: INTERVAL,
            streams: vec![stream],
        };
        let options = BenchOptions { targets: vec![choice], phases: vec![phase], ..BenchOptions::default() };
        Self { options, is_plan: false }
    }

    /// A plan, on a target in place of its own ones if there is a choice.
    pub(super) fn of_plan(plan: &NamedPlan, choice: Option<TargetChoice>) -> Self {
        let mut options = plan.options.clone();
        // A plan that was read for a target has no other.
        options.targets = choice.map_or(options.targets, |choice| vec![choice]);
        Self { options, is_plan: true }
    }

    /// Addresses of the targets.
    pub(super) fn addresses(&self) -> String {
        let addresses: Vec<&str> =
            self.options.targets.iter().map(|target| target.address.as_str()).collect();
        addresses.join(", ")
    }

    /// Everything that determines its results but the seed and what is behind the addresses.
    ///
    /// # Errors
    /// Options that do not go together, a model that is none, and a trace that cannot be read.
    pub(super) fn identity(&self) -> Result<String, Failure> {
        check_options(&self.options)?;
        let mut text = format!("measurement\n{}", identity(&self.options));
        for workload in self.streams().filter_map(|stream| stream.workload.workload()) {
            text += &format!("\n{}", workload_identity(workload, None)?);
        }
        for choice in &self.options.targets {
            let (kind, inner) = TargetKind::of(&choice.address);
            if kind.is_model {
                text += &format!("\n{}", resolve(inner, &choice.setup)?.description.to_toml());
            }
        }
        Ok(text)
    }

    fn streams(&self) -> impl Iterator<Item = &StreamOptions> {
        self.options.phases.iter().flat_map(|phase| &phase.streams)
    }

    /// Files that it reads or writes and that are no results.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        inputs(&self.options).collect()
    }

    /// Measures once. A measurement that fails has a result, too.
    ///
    /// # Errors
    /// A stop by the caller.
    pub(super) fn run(&self, session: &Session, seed: Seed) -> Result<RunResult, Failure> {
        let measured = bench(session, &BenchOptions { seed, ..self.options.clone() });
        if let Err(interrupted) = session.check() {
            // Closing a target can wait for it, and must not keep the results back.
            measured.into_iter().for_each(|result| session.keep_to_end(result.targets));
            return Err(interrupted);
        }
        let BenchResult { figures, failure, targets, .. } = match measured {
            Ok(result) => result,
            Err(failure) => {
                return Ok(RunResult { failed: Some(failure.to_string()), ..RunResult::default() });
            }
        };
        let note: fn(String) -> Note = if figures.trusted { Note::Remark } else { Note::Warning };
        let mut notes: Vec<Note> = figures.notes.iter().cloned().map(note).collect();
        if !targets.close(CLOSING) {
            let text = format!("{}: not closed within {} s", self.addresses(), CLOSING.as_secs());
            notes.push(Note::Warning(text));
        }
        Ok(RunResult {
            saturated: None,
            failed: failure.map(|failure| failure.to_string()),
            figures: named_figures(&figures, self.is_plan),
            notes,
        })
    }
}

/// Takes leave to overwrite the targets of cells with runs that are to be made, whose names were typed again.
///
/// # Errors
/// A target without its name or in use, and a name of no target that is overwritten.
pub(super) fn take_leave(
    session: &Session,
    (cells, is_pending): (&mut [Cell], &[bool]),
    typed: &[String],
) -> Result<(), Failure> {
    let mut is_used = vec![false; typed.len()];
    for (cell, is_pending) in cells.iter_mut().zip(is_pending) {
        let Work::Measurement(measurement) = &mut cell.work else { continue };
        if *is_pending {
            measurement.options.destroy = names_typed_again(session.stop(), &measurement.options, typed)?;
        }
        for (name, is_used) in typed.iter().zip(&mut is_used) {
            *is_used |= is_overwritten(&measurement.options, name)?;
        }
    }
    match typed.iter().zip(is_used).find(|(_, is_used)| !is_used) {
        None => Ok(()),
        Some((name, _)) => {
            Err(Failure::new(format!("--destroy {name}: no target of that name is overwritten"))
                .hint("it goes with a workload that writes to a device, a file or an export"))
        }
    }
}
