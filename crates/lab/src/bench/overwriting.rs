//! The targets that a measurement would overwrite, before it begins.

use std::path::Path;

use seeklab_bench::target::{TargetError, TargetKind};
use seeklab_bench::{Claim, ClaimOptions, claim};

use super::load::Load;
use super::options::{BenchOptions, TargetChoice};
use super::targets::{answered, is_expendable, is_name_of, is_written};
use crate::failure::Failure;
use crate::stop::Stop;

/// A target whose contents a measurement would overwrite. Its name must be typed again, as in
/// [`BenchOptions::destroy`](super::BenchOptions).
#[derive(Debug)]
pub struct OverwrittenTarget {
    /// Address of the target.
    pub address: String,
    /// The refusal without the name: the contents that would be lost, or the program that uses it, so that nothing is written at all.
    pub refusal: Failure,
}

/// Returns the targets that a measurement would overwrite, in the order of the options. Nothing is opened for writing.
///
/// # Errors
/// If the workloads do not fit their options.
pub fn overwritten(options: &BenchOptions) -> Result<Vec<OverwrittenTarget>, Failure> {
    let loads = super::loads(options)?;
    let mut found = Vec::new();
    for choice in written(options, &loads) {
        // No server is reached while a plan is composed: a device of `seeklab serve` counts as any other.
        if let Err(error) = claim_others(&choice.address, None, false) {
            found.push(OverwrittenTarget { address: choice.address.clone(), refusal: error.into() });
        }
    }
    Ok(found)
}

/// Returns true if a measurement overwrites the target of that name.
///
/// # Errors
/// If the workloads do not fit their options.
pub(crate) fn is_overwritten(options: &BenchOptions, name: &str) -> Result<bool, Failure> {
    let loads = super::loads(options)?;
    Ok(written(options, &loads).any(|choice| is_name_of(name, &choice.address)))
}

/// Returns the names among `typed` of the targets that a measurement overwrites, once all of them may be written to.
///
/// # Errors
/// A target without its name, one that is in use or does not answer, and workloads that do not fit their options.
pub(crate) fn names_typed_again(
    stop: &Stop,
    options: &BenchOptions,
    typed: &[String],
) -> Result<Vec<String>, Failure> {
    let loads = super::loads(options)?;
    let mut names = Vec::new();
    for choice in written(options, &loads) {
        let name = typed.iter().find(|name| is_name_of(name, &choice.address)).cloned();
        let (address, destroy) = (choice.address.clone(), name.clone());
        let claimed = answered(stop, &choice.address, move || {
            let is_expendable = destroy.is_none() && is_expendable(&address);
            claim_others(&address, destroy.as_deref(), is_expendable).map(drop)
        });
        claimed??;
        names.extend(name);
    }
    Ok(names)
}

/// Asks for leave to write to a target that this run does not make.
fn claim_others(address: &str, destroy: Option<&str>, is_expendable: bool) -> Result<Claim, TargetError> {
    let path = Some(Path::new(TargetKind::of(address).1)).filter(|path| path.exists());
    claim(ClaimOptions { address, path, destroy, is_own: false, is_expendable })
}

/// The targets with contents of others that streams write to. `loads` are those of the streams of each phase.
fn written<'a>(
    options: &'a BenchOptions,
    loads: &'a [Vec<Load>],
) -> impl Iterator<Item = &'a TargetChoice> + 'a {
    let of_number = options.targets.iter().enumerate().filter(move |(number, choice)| {
        TargetKind::of(&choice.address).0.holds_data
            && choice.create.is_none()
            && is_written(options, loads, *number)
    });
    of_number.map(|(_, choice)| choice)
}
