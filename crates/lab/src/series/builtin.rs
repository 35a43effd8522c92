//! A built-in application over NBD: no privilege, no mount, any container.

use std::sync::mpsc::Sender;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use seeklab_core::{Duration, Instant};
use seeklab_emulator::client::{ClientError, RunnerOptions, run_builtin_with};
use seeklab_emulator::frontend::nbd::Uri;
use seeklab_workloads::Retries;
use seeklab_workloads::application::Builtin;
use seeklab_workloads::host::Phase;

use super::figures::PhaseFigures;
use super::repetition::{Ran, Repetition};
use crate::emulate::HostMessage;
use crate::emulate::Running;
use crate::failure::Failure;

/// Treatment of requests that fail.
#[derive(Debug, Clone, Copy)]
pub struct Persistence {
    /// Attempts after a request failed.
    pub retries: Retries,
    /// Time within which a connection that the device closed must be open again.
    pub reconnect_within: Duration,
}

impl Default for Persistence {
    fn default() -> Self {
        Self { retries: Retries::default(), reconnect_within: RECONNECT_WITHIN }
    }
}

/// Default time within which a connection that the device closed must be open again.
pub const RECONNECT_WITHIN: Duration = Duration::from_s(60);

/// Runs `builtin` on the device that is emulated at `uri`; `connected` is called once its clients have connected.
pub(super) fn run(
    what: &Repetition<'_>,
    builtin: &Builtin,
    persistence: Persistence,
    (running, uri): (&Running, &Uri),
    host: &Sender<HostMessage>,
    connected: &mut dyn FnMut(),
) -> Result<Ran, Failure> {
    let options = RunnerOptions {
        clock: Some(running.clock()),
        pacing: what.series.pace.pacing,
        retries: persistence.retries,
        reconnect_within: persistence.reconnect_within,
        stop: Some(what.interruption.flag()),
        ..RunnerOptions::default()
    };
    let before = thread_cpu_s()?;
    let result = run_builtin_with(builtin, uri, what.series.seed, &options, &mut |_| connected());
    connected();
    let result = result.map_err(|error| match &error {
        ClientError::Stopped { .. } => Failure::check("interrupted"),
        ClientError::Workload { source, .. } => {
            let hint = source.advice().map(str::to_owned);
            hint.into_iter().fold(Failure::chain(&error), Failure::hint)
        }
        ClientError::Away { .. } => Failure::chain(&error)
            .hint("give the fault an end with `for` or `back_after`, or wait longer with --reconnect"),
        _ => Failure::chain(&error),
    })?;
    for request in &result.requests {
        // The joining thread has ended early only if it panicked, which is reported there.
        let _ = host.send(HostMessage::Request(*request));
    }
    for mismatch in &result.mismatches {
        what.session.warn(format!("{}: {mismatch:?}", what.device.label()));
    }
    let mut phases: Vec<PhaseFigures> = result.phases.iter().map(figures).collect();
    if let Some(last) = phases.last_mut() {
        last.exit_code = i32::from(result.mismatch_count > 0 || result.is_full);
    }
    if result.is_full {
        what.session
            .warn(format!("{}: the device is too small for all files; it ended early", what.device.label()));
    }
    // The runner is one thread, this one.
    let after = thread_cpu_s()?;
    if let Some(first) = phases.first_mut() {
        (first.user_s, first.system_s) = (after.0 - before.0, after.1 - before.1);
    }
    let reconnections = Some(result.reconnections);
    Ok(Ran { phases, retries: Some(result.retries.into()), reconnections, ..Ran::default() })
}

fn figures(phase: &Phase) -> PhaseFigures {
    let end = phase.end.unwrap_or(phase.start);
    let seconds = |from: Instant, to: Instant| to.saturating_since(from).as_s();
    PhaseFigures {
        name: phase.name.to_owned(),
        elapsed_s: seconds(phase.start, end),
        flush_s: phase.unmounted.map_or(0.0, |unmounted| seconds(end, unmounted)),
        user_s: 0.0,
        system_s: 0.0,
        exit_code: 0,
        system_trace: None,
    }
}

/// Processor time of this thread, in user mode and in the kernel.
fn thread_cpu_s() -> Result<(f64, f64), Failure> {
    let usage =
        getrusage(UsageWho::RUSAGE_THREAD).map_err(|error| Failure::from(std::io::Error::from(error)))?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}
