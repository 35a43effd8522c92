//! Runs on all cores: workers take the next run from a counter, the caller's thread keeps the journal. Measurements have one
//! worker, and take turns: each cell once, then each a second time.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use seeklab_core::Limits;
use seeklab_report::Note;
use serde::{Deserialize, Serialize};

use super::cells::{self, Cell, Run, Work};
use super::figures::{self, Figures};
use super::spec::Spec;
use crate::failure::Failure;
use crate::journal::{Entry, Journal};
use crate::session::Session;

/// Result of a run. That of a simulation is reproducible.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunResult {
    /// Reason why the run stopped early, if the device could not sustain the load.
    pub(super) saturated: Option<String>,
    /// Reason for which a measurement failed, or the prediction from a trace is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
    /// Figures that apply; none if it saturated or is void.
    pub(super) figures: Figures,
    /// Notes that a reader needs.
    pub(super) notes: Vec<Note>,
}

/// Results of an experiment.
#[derive(Debug)]
pub(super) struct Results {
    /// Results of each cell, in the order of its repetitions. Measurements that were not made are left out.
    pub(super) of_cells: Vec<Vec<RunResult>>,
    /// Runs whose result was in the journal.
    pub(super) reused: usize,
    /// The caller stopped it before all measurements were made.
    pub(super) is_interrupted: bool,
}

/// The result of a run in the journal. A run that failed is made again.
pub(super) fn kept<'a>(journal: &'a Journal<RunResult>, run: &Run) -> Option<&'a RunResult> {
    journal.get(run.key).filter(|result| result.failed.is_none())
}

/// Makes all runs that are not in the journal.
pub(super) fn run_all(
    session: &Session,
    spec: &Spec,
    cells: &[Cell],
    runs: &[Run],
    journal: &mut Journal<RunResult>,
    jobs: NonZero<usize>,
) -> Result<Results, Failure> {
    let mut results: Vec<Option<RunResult>> = runs.iter().map(|run| kept(journal, run).cloned()).collect();
    let mut pending: Vec<usize> = (0..runs.len()).filter(|index| results[*index].is_none()).collect();
    if spec.is_measured() {
        // What changes with time then changes all cells.
        pending.sort_by_key(|index| runs[*index].repetition);
    }
    let reused = runs.len() - pending.len();
    let shown = cells::varied(spec);
    let mut progress = session.progress("runs", Some(pending.len() as u64));
    let mut failure: Option<(usize, Failure)> = None;
    let unheard = session.unheard();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs.get().min(pending.len()) {
            let (sender, next, stop, pending) = (sender.clone(), &next, &stop, &pending);
            let session = &unheard;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed)
                    && !session.stop().is_stopped()
                    && let Some(index) = pending.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let run = &runs[*index];
                    if sender.send((*index, execute(session, &cells[run.cell], run, spec.limits))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (index, result) in receiver {
            // A measurement that was cut short is none.
            if result.is_err() && spec.is_measured() && session.stop().is_stopped() {
                continue;
            }
            let run = &runs[index];
            let name = cells[run.cell].describe(&shown);
            let entry = Entry { key: run.key, cell: &name, repetition: run.repetition, seed: run.seed.0 };
            let kept = result
                .map_err(|failure| failure.context(format!("{}: {name}", spec.label)))
                .and_then(|result| journal.append(&entry, &result).map(|()| result));
            match kept {
                Ok(result) => results[index] = Some(result),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    if failure.as_ref().is_none_or(|(first, _)| index < *first) {
                        failure = Some((index, error));
                    }
                }
            }
            if progress.big_step().is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    drop(progress);
    let is_interrupted = results.iter().any(Option::is_none) && failure.is_none();
    if !spec.is_measured() || results.iter().all(Option::is_none) {
        session.check()?;
    }
    if let Some((_, failure)) = failure {
        return Err(failure);
    }
    let mut of_cells: Vec<Vec<RunResult>> = cells.iter().map(|_| Vec::new()).collect();
    for (run, result) in runs.iter().zip(results) {
        of_cells[run.cell].extend(result);
    }
    Ok(Results { of_cells, reused, is_interrupted })
}

fn execute(session: &Session, cell: &Cell, run: &Run, limits: Limits) -> Result<RunResult, Failure> {
    let (device, workload) = match &cell.work {
        Work::Simulation { device, workload } => (device, workload),
        Work::Measurement(measurement) => return measurement.run(session, run.seed),
    };
    let outputs = crate::run::Outputs::default();
    let result = crate::run::run(device, workload, run.seed, limits, outputs, session)?;
    let figures = if result.saturated.is_some() || result.void.is_some() {
        Figures::new()
    } else {
        figures::of(&result.metrics.summary(), result.host.as_ref().map(|host| &host.summary))
    };
    let failed = result.void.map(|void| void.reason);
    Ok(RunResult { saturated: result.saturated, failed, figures, notes: result.notes })
}
