//! A built-in application over NBD: no privilege, no mount, any container.

use std::sync::mpsc::Sender;

use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{Duration, Instant};
use seeklab_emulator::client::{ClientError, RunnerOptions, run_builtin_with};
use seeklab_workloads::application::{Builtin, Phase};

use super::figures::PhaseFigures;
use super::join::Told;
use super::repetition::{Ran, Repetition};
use crate::emulate::Running;
use crate::failure::Failure;

/// Runs `builtin` on the device that is emulated; `connected` is called once its clients have connected.
pub(super) fn run(
    what: &Repetition<'_>,
    builtin: &Builtin,
    running: &Running,
    host: &Sender<Told>,
    connected: &mut dyn FnMut(),
) -> Result<Ran, Failure> {
    let uri = running.uri().expect("it was asked for");
    let options = RunnerOptions {
        clock: Some(running.clock()),
        pacing: what.series.pacing,
        stop: Some(what.interruption.flag()),
        ..RunnerOptions::default()
    };
    let before = thread_cpu_s();
    let outcome = run_builtin_with(builtin, uri, what.series.seed, &options, &mut |_| connected());
    connected();
    let outcome = outcome.map_err(|error| match &error {
        ClientError::Stopped { .. } => Failure::check("interrupted"),
        ClientError::Workload { source, .. } => {
            let hint = source.hint().map(str::to_owned);
            hint.into_iter().fold(Failure::chain(&error), Failure::hint)
        }
        _ => Failure::chain(&error),
    })?;
    for request in &outcome.requests {
        // Who joins has ended early only if it panicked, which is told there.
        let _ = host.send(Told::Request(*request));
    }
    for mismatch in &outcome.mismatches {
        eprintln!("{}: {mismatch:?}", what.device.label());
    }
    let mut phases: Vec<PhaseFigures> = outcome.phases.iter().map(figures).collect();
    if let Some(last) = phases.last_mut() {
        last.exit_code = i32::from(outcome.mismatch_count > 0 || outcome.is_full);
    }
    if outcome.is_full {
        eprintln!("{}: the device is too small for all files; it ended early", what.device.label());
    }
    // The runner is one thread; what of its time was the kernel's is not told apart.
    if let Some(first) = phases.first_mut() {
        first.user_s = thread_cpu_s() - before;
    }
    Ok(Ran { phases, lost: 0 })
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
    }
}

fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (Duration::from_s(time.tv_sec as u64) + Duration::from_ns(time.tv_nsec as u64)).as_s()
}
