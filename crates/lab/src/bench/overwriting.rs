//! The targets that a measurement would overwrite, before it begins.

use std::path::Path;

use seeklab_bench::target::TargetKind;
use seeklab_bench::{ClaimOptions, claim};

use super::options::BenchOptions;
use super::targets::is_written;
use crate::failure::Failure;

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
    for (number, choice) in options.targets.iter().enumerate() {
        let (kind, inner) = TargetKind::of(&choice.address);
        if !kind.holds_data || choice.create.is_some() || !is_written(options, &loads, number) {
            continue;
        }
        let path = Some(Path::new(inner)).filter(|path| path.exists());
        let unnamed = ClaimOptions { address: &choice.address, path, destroy: None, is_own: false };
        if let Err(error) = claim(unnamed) {
            found.push(OverwrittenTarget { address: choice.address.clone(), refusal: error.into() });
        }
    }
    Ok(found)
}
