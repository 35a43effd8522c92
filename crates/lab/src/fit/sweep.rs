//! A device fitted to files of a benchmark's results.

use std::collections::BTreeMap;
use std::path::PathBuf;

use seeklab_core::Seed;
use seeklab_learning::fio::Sweep;
use seeklab_learning::sweep::fit_loads;

use super::fio::read_file;
use crate::failure::Failure;
use crate::session::Session;

pub use seeklab_learning::sweep::{
    Errors, FittedSweep, LeftOut, Medians, PointReport, SweepReport, sentence,
};

/// Fits a device to the results in `files`. `about` becomes part of the description and states their origin.
///
/// # Errors
/// Files that cannot be read, are not fio's, or hold nothing that a model can be fitted to.
pub fn fit_sweep(
    session: &Session,
    files: &[PathBuf],
    seed: Seed,
    about: BTreeMap<String, String>,
) -> Result<FittedSweep, Failure> {
    let mut sweep = Sweep::default();
    for file in files {
        let Sweep { loads, notes } = read_file(file)?;
        sweep.loads.extend(loads);
        sweep.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", file.display())));
    }
    let jobs = sweep.loads.len() as u64;
    let mut progress = session.progress("predicting each job from the others", Some(jobs));
    fit_loads(sweep, seed, about, || progress.big_step())
}
