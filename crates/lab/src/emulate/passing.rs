//! A real file or device served to clients, every command recorded on its way.

use std::sync::Arc;

use seeklab_core::{Duration, Instant};
use seeklab_emulator::clock::{Clock, Pacing, Waiter};
use seeklab_emulator::emulation::Observe;
use seeklab_emulator::frontend::loop_device::Settings;
use seeklab_emulator::frontend::nbd::Export;
use seeklab_emulator::frontend::{Frontends, Stop, serve};
use seeklab_emulator::passthrough::{Backing, BackingError, Passed, Passthrough};

use super::frontends::OpenFrontends;
use super::{FrontendOptions, Opened, Running, run_beside};
use crate::failure::Failure;

/// Commands that may be with the backing at a time.
const WORKERS: usize = 64;

impl From<BackingError> for Failure {
    fn from(error: BackingError) -> Self {
        match error {
            BackingError::Store(error) => error.into(),
            BackingError::Blocks { .. } => Self::chain(&error).hint("lengthen it with `truncate --size`"),
            error => Self::chain(&error),
        }
    }
}

/// Commands that passed, and the elapsed time.
#[derive(Debug)]
pub(crate) struct PassthroughResult {
    /// Counts of the commands that passed.
    pub(crate) passed: Passed,
    /// From the start to the end.
    pub(crate) elapsed: Duration,
}

/// Serves `backing` by the frontends `frontends` until `stop` is set. `observe` receives every command.
///
/// # Errors
/// Resources that cannot be opened or bound.
pub(crate) fn start(
    backing: Backing,
    title: String,
    frontends: FrontendOptions,
    read_only: bool,
    observe: Observe,
    stop: &Stop,
) -> Result<Running<PassthroughResult>, Failure> {
    let backing = Arc::new(backing);
    let block_size_bytes = backing.block_bytes();
    let settings = frontends.block.clone().map(|queue| Settings { block_size_bytes, read_only, queue });
    let seen = stop.clone();
    run_beside(stop, settings, move |ready| {
        let clock = Clock::start();
        let export = Export {
            description: title,
            read_only,
            ..Export::new("", backing.size().as_bytes(), block_size_bytes)
        };
        let OpenFrontends { frontends, endpoints, file } = frontends.open(&export, clock)?;
        let mut frontends = Frontends::new(frontends)?;
        let mut passthrough = Passthrough::new(backing, WORKERS, clock, Some(observe))?;
        let mut waiter = Waiter::new(clock, Pacing::Frugal, Duration::ZERO);
        // Whoever started it waits for this.
        let _ = ready.send(Opened {
            endpoints,
            file,
            clock,
            thread_number: rustix::thread::gettid().as_raw_pid().cast_unsigned(),
        });
        let served = serve(&mut frontends, &mut passthrough, &mut waiter, &seen);
        let elapsed = clock.now().saturating_since(Instant::ZERO);
        let passed = passthrough.finish();
        served?;
        Ok(PassthroughResult { passed, elapsed })
    })
}
