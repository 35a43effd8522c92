//! The host's side: what has to be there, and what stops it.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seeklab_stage::{Account, FileSystem, Needs, Output, PhaseResult, StageOptions, Stop, preflight};

use super::{Commands, Series};
use crate::failure::Failure;

/// Tests what commands on a mounted device need.
pub(crate) fn check(commands: &Commands) -> Result<(), Failure> {
    commands.limits.check()?;
    if let Some((what, remedy)) = commands.queue.unavailability() {
        return Err(Failure::new(what).hint(remedy));
    }
    let needs = Needs {
        block_over_fuse: true,
        file_system: commands.file_system,
        mkfs: commands.image.is_none() && commands.file_system != FileSystem::None,
        command: &commands.command,
        shell: commands.setup.is_some() || !commands.phases.is_empty(),
        user: commands.user.as_deref(),
        memory: commands.limits.memory,
        cpus: commands.limits.cpus.as_ref(),
    };
    check_needs(&needs)
}

/// Tests what a run needs, before anything is made.
pub(super) fn check_needs(needs: &Needs<'_>) -> Result<(), Failure> {
    preflight(needs).map_err(|missing| {
        let mut text = "this machine cannot perform the run; nothing was started:".to_owned();
        for missing in &missing {
            let _ = write!(text, "\n  - {}\n    remedy: {}", missing.what, missing.remedy);
        }
        Failure::new(text)
    })
}

/// Ends a series in order, from any thread: first the phase, then the emulation, then the series.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interruption {
    stage: Stop,
    flag: Arc<AtomicBool>,
}

impl Interruption {
    /// Ends the series when the caller stops it. The command gets SIGTERM, and SIGKILL at the second request.
    pub(crate) fn by(stop: &crate::stop::Stop) -> Self {
        let this = Self::default();
        let interrupted = this.clone();
        stop.on_stop(move || {
            interrupted.flag.store(true, Ordering::Release);
            interrupted.stage.stop();
        });
        this
    }

    /// Stops the stage in which commands run.
    pub(crate) const fn stage(&self) -> &Stop {
        &self.stage
    }

    /// True from the first interruption on.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Returns true from the first interruption on.
    pub(crate) fn came(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}

/// The stage of `commands` on the block device at `block`.
pub(crate) fn options(
    series: &Series,
    commands: &Commands,
    block: &Path,
    nbd: Option<String>,
) -> Result<StageOptions, Failure> {
    let account = Account::for_command(commands.user.as_deref())
        .map_err(|missing| Failure::new(missing.what).hint(missing.remedy))?;
    let mut options = StageOptions::new(block);
    options.file_system = commands.file_system;
    options.mount_options = commands.mount_options.clone();
    options.account = account;
    options.drop_caches = commands.drop_caches;
    options.output = if series.output_to_stderr { Output::Stderr } else { Output::Stdout };
    options.nbd = nbd.map(OsString::from);
    Ok(options)
}

/// Converts an error of a stage to a failure.
pub(crate) fn failure(error: seeklab_stage::Error) -> Failure {
    let hint = error.hint().map(str::to_owned);
    let failure = match error {
        seeklab_stage::Error::Stopped => Failure::check("interrupted"),
        error => Failure::chain(&error),
    };
    hint.into_iter().fold(failure, Failure::hint)
}

/// Describes the end of a phase for people.
pub(crate) fn how(result: &PhaseResult) -> String {
    match (&result.flush_error, result.stopped) {
        (_, true) => "interrupted".to_owned(),
        (Some(error), _) => format!("its data could not be written: {error}"),
        (None, _) => result.exit.to_string(),
    }
}
