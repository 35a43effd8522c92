//! The host's side: what has to be there, and signals.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use seeklab_emulator::frontend;
use seeklab_stage::{FileSystem, Needs, Stop, preflight};

use super::Commands;
use crate::failure::Failure;

/// Tests what commands on a mounted device need.
pub(super) fn check(commands: &Commands) -> Result<(), Failure> {
    let needs = Needs {
        block_over_fuse: true,
        file_system: commands.file_system,
        mkfs: commands.image.is_none() && commands.file_system != FileSystem::None,
        command: &commands.command,
        shell: commands.setup.is_some() || !commands.phases.is_empty(),
        user: commands.user.as_deref(),
    };
    preflight(&needs).map_err(|missing| {
        let mut text = "this run cannot be made here; nothing was started:".to_owned();
        for missing in &missing {
            let _ = write!(text, "\n  - {}\n    remedy: {}", missing.what, missing.remedy);
        }
        Failure::new(text)
    })
}

/// Interrupt, termination and hang-up: the phase ends, then the emulation, then the series.
#[derive(Debug, Clone)]
pub(super) struct Interruption {
    stage: Stop,
    emulation: Arc<Mutex<Option<frontend::Stop>>>,
}

impl Interruption {
    /// Catches them from now on.
    pub(super) fn catch() -> Result<Self, Failure> {
        let this = Self { stage: Stop::new(), emulation: Arc::default() };
        let seen = this.clone();
        ctrlc::set_handler(move || seen.interrupt())
            .map_err(|error| Failure::new(format!("signals cannot be handled: {error}")))?;
        Ok(this)
    }

    fn interrupt(&self) {
        self.stage.stop();
        if let Some(stop) = &*self.emulation.lock().unwrap_or_else(PoisonError::into_inner) {
            stop.stop();
        }
    }

    /// What stops a stage.
    pub(super) const fn stage(&self) -> &Stop {
        &self.stage
    }

    /// Whether one came.
    pub(super) fn came(&self) -> bool {
        self.stage.is_asked()
    }

    /// Lets it stop an emulation whose clients need no orderly end of their own.
    pub(super) fn stops(&self, emulation: Option<&frontend::Stop>) {
        *self.emulation.lock().unwrap_or_else(PoisonError::into_inner) = emulation.cloned();
    }
}
