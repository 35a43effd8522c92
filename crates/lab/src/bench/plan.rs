//! The plan of a measurement, from its options and its load.

use seeklab_bench::target::TargetKind;
use seeklab_bench::{Late, Plan};

use super::BenchOptions;
use super::load::Load;

/// Requests under way at a time, of an open load.
const OUTSTANDING_MAX: u32 = 1024;
/// Memory of the buffers of an open load at most.
const BUFFER_BYTES_MAX: usize = 256 << 20;

/// Requests under way at a time at most, on all threads together.
pub(super) fn outstanding_max(options: &BenchOptions, load: &Load) -> u32 {
    let by_memory = u32::try_from(BUFFER_BYTES_MAX / load.prepared_bytes.max(1)).unwrap_or(u32::MAX);
    let default = load.population.unwrap_or_else(|| OUTSTANDING_MAX.min(by_memory));
    options.outstanding_max.unwrap_or(default).max(options.threads)
}

/// The plan.
pub(super) fn plan(options: &BenchOptions, kind: &TargetKind, load: &Load) -> Plan {
    Plan {
        outstanding_max: outstanding_max(options, load),
        late: if load.population.is_some() { Late::Queue } else { options.late },
        retries: options.workload_options.retries,
        duration: options.duration,
        ramp: options.ramp,
        interval: Some(options.interval).filter(|interval| !interval.is_zero()),
        timeout: options.timeout,
        batch: options.batch,
        pacing: options.pacing,
        record: options.record.is_some(),
        is_virtual: kind.is_virtual,
    }
}
