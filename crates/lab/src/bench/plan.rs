//! The plans of a phase and of its streams, from their options and loads.

use seeklab_bench::{Late, Plan, StreamPlan};
use seeklab_emulator::clock::Pacing;

use super::load::Load;
use super::options::{PhaseOptions, StreamOptions};

/// Requests under way at a time, of an open load.
const OUTSTANDING_MAX: u32 = 1024;
/// Memory of the buffers of an open load at most.
const BUFFER_BYTES_MAX: usize = 256 << 20;

/// Requests under way at a time at most, on all threads of a stream together.
pub(super) fn outstanding_max(options: &StreamOptions, load: &Load) -> u32 {
    let by_memory = u32::try_from(BUFFER_BYTES_MAX / load.prepared_bytes.max(1)).unwrap_or(u32::MAX);
    let default = load.population.unwrap_or_else(|| OUTSTANDING_MAX.min(by_memory));
    options.outstanding_max.unwrap_or(default).max(options.threads)
}

/// The plan of a phase.
pub(super) fn phase(options: &PhaseOptions, pacing: Pacing, record: bool, is_virtual: bool) -> Plan {
    let steady = options.steady;
    Plan {
        duration: steady.map_or(options.duration, |rule| Some(rule.duration_max())),
        steady,
        ramp: options.ramp,
        interval: match steady {
            Some(rule) => Some(rule.round),
            None => Some(options.interval).filter(|interval| !interval.is_zero()),
        },
        pacing,
        record,
        is_virtual,
        ..Plan::default()
    }
}

/// The plan of a stream.
pub(super) fn stream(options: &StreamOptions, load: &Load) -> StreamPlan {
    StreamPlan {
        outstanding_max: outstanding_max(options, load),
        late: if load.population.is_some() { Late::Queue } else { options.late },
        retries: options.workload.retries(),
        timeout: options.timeout,
        batch: options.batch,
        device: options.target as u16,
    }
}
