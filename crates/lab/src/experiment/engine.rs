//! Runs on all cores: workers take the next run from a counter, the caller's thread keeps the journal.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use seeklab_core::Limits;
use seeklab_report::Note;
use serde::{Deserialize, Serialize};

use super::cells::{self, Cell, Run};
use super::figures::{self, Figures};
use super::spec::Spec;
use crate::failure::Failure;
use crate::journal::{Entry, Journal};
use crate::session::Session;

/// Reproducible result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RunResult {
    /// Reason why the run stopped early, if the device could not sustain the load.
    pub(super) saturated: Option<String>,
    /// Figures that apply; none if it saturated.
    pub(super) figures: Figures,
    /// Notes that a reader needs.
    pub(super) notes: Vec<Note>,
}

/// The results of all runs in their order, and how many of them were in the journal.
pub(super) fn run_all(
    session: &Session,
    spec: &Spec,
    cells: &[Cell],
    runs: &[Run],
    journal: &mut Journal<RunResult>,
    jobs: NonZero<usize>,
) -> Result<(Vec<RunResult>, usize), Failure> {
    let mut results: Vec<Option<RunResult>> = runs.iter().map(|run| journal.get(run.key).cloned()).collect();
    let pending: Vec<usize> = (0..runs.len()).filter(|index| results[*index].is_none()).collect();
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
    session.check()?;
    match failure {
        Some((_, failure)) => Err(failure),
        None => Ok((results.into_iter().map(|result| result.expect("every run was made")).collect(), reused)),
    }
}

fn execute(session: &Session, cell: &Cell, run: &Run, limits: Limits) -> Result<RunResult, Failure> {
    let result = crate::run::run(
        &cell.device,
        &cell.workload,
        run.seed,
        limits,
        crate::run::Outputs::default(),
        session,
    )?;
    let figures = match result.saturated {
        Some(_) => Figures::new(),
        None => figures::of(&result.metrics.summary(), result.host.as_ref().map(|host| &host.summary)),
    };
    Ok(RunResult { saturated: result.saturated, figures, notes: result.notes })
}
