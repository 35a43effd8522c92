//! The options of a run that repeats another one, from its folder.
//!
//! ```text
//! FOLDER/run.json ─▶ plan, seed; identities ─▶ BenchOptions ─▶ FOLDER-rerun-1
//! ```

use std::path::{Path, PathBuf};

use seeklab_bench::target::TargetKind;
use seeklab_core::ByteSize;

use super::folder::TRACE;
use super::options::BenchOptions;
use super::run_document::{RUN_FILE, RunFacts, RunTarget};
use super::saved_plan::{SavedPlan, absolute, address_from};
use crate::devices::resolve;
use crate::failure::Failure;
use crate::output::VERSION;

/// Reruns of a run that find a folder by themselves at most.
const RERUNS_MAX: u32 = 10_000;

/// Reads the run in `folder`: its plan with its seed, on the targets that it had. The results go to `output`, or to a new folder
/// beside the first.
///
/// # Errors
/// A folder without a run, or a model that has changed. The serial numbers and sizes of the targets are checked when they are
/// opened.
pub fn rerun(folder: &Path, output: Option<&Path>) -> Result<BenchOptions, Failure> {
    let facts = RunFacts::read(folder)?;
    let label = folder.join(RUN_FILE).display().to_string();
    let plan = SavedPlan::read(&facts.plan).map_err(|failure| failure.context(&label))?;
    let is_recorded = plan.is_recorded();
    let mut options = plan.options().map_err(|failure| failure.context(&label))?;
    let is_elsewhere = facts.working_folder != absolute(Path::new("."));
    for (choice, first) in options.targets.iter_mut().zip(&facts.targets) {
        if is_elsewhere {
            choice.address = address_from(&facts.working_folder, &choice.address);
        }
        if choice.create.is_none() {
            choice.expected.serial = first.serial.clone().or(choice.expected.serial.take());
            choice.expected.capacity =
                first.capacity_bytes.map(ByteSize::from_bytes).or(choice.expected.capacity);
        }
        let (kind, inner) = TargetKind::of(&choice.address);
        if kind.is_model {
            let now = resolve(inner, &choice.setup)?.description.to_toml();
            check_description(first, &now)?;
        }
    }
    if facts.version != VERSION {
        options
            .notes
            .push(format!("the first run was measured with {}, this one with {VERSION}", facts.version));
    }
    let output = match output {
        Some(output) => output.to_owned(),
        None => beside(folder)?,
    };
    options.record = is_recorded.then(|| output.join(TRACE));
    options.folder = Some(output);
    options.rerun_of = Some(folder.to_owned());
    options.inputs = vec![folder.join(RUN_FILE)];
    Ok(options)
}

/// Refuses a model whose description differs from that of the first run, and names the first difference.
fn check_description(first: &RunTarget, now: &str) -> Result<(), Failure> {
    let Some(before) = first.description.as_deref().filter(|before| *before != now) else { return Ok(()) };
    let absent = "no such line";
    let mut lines = before
        .lines()
        .map(Some)
        .chain(std::iter::repeat(None))
        .zip(now.lines().map(Some).chain(std::iter::repeat(None)));
    let differs = lines.find(|(before, now)| before != now).unwrap_or_default();
    let (before, now) = (differs.0.unwrap_or(absent), differs.1.unwrap_or(absent));
    Err(Failure::new(format!(
        "`{}`: its description has `{now}`, and the first run had `{before}`",
        first.target
    ))
    .hint("measure the changed model in a run of its own"))
}

/// A folder beside that of the first run, which is not there yet.
fn beside(folder: &Path) -> Result<PathBuf, Failure> {
    let folder = absolute(folder);
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (1..=RERUNS_MAX)
        .map(|number| folder.with_file_name(format!("{name}-rerun-{number}")))
        .find(|path| !path.exists())
        .ok_or_else(|| {
            Failure::new(format!("{}: has too many reruns beside it", folder.display()))
                .hint("name a folder with --folder")
        })
}
