//! Figures of a simulated host, as they are printed.

use seeklab_analysis::{ClassSummary, HostSummary};
use seeklab_core::Duration;
use seeklab_workloads::host::{ClassFigures, HostFigures};

/// Returns the figures of a host in the units of documents and reports.
pub(crate) fn summary(figures: &HostFigures) -> HostSummary {
    HostSummary {
        finished: figures.is_finished,
        cpus: figures.cpus,
        elapsed_s: figures.elapsed.as_s(),
        task_cpu_s: figures.task_cpu.as_s(),
        other_cpu_s: figures.other_cpu.as_s(),
        false_idle_s: figures.false_idle.as_s(),
        idle_s: figures.idle.as_s(),
        io_wait_s: figures.io_wait.as_s(),
        interrupts: figures.interrupts,
        context_switches: figures.context_switches,
        io_waits: figures.io_waits,
        io_wait_mean_ms: (figures.io_waits > 0).then(|| figures.io_wait.as_ms() / figures.io_waits as f64),
        time_critical: class(&figures.time_critical),
        time_limited: class(&figures.time_limited),
        time_noncritical: class(&figures.time_noncritical),
        unneeded_read_ahead_blocks: figures.unneeded_read_ahead_blocks,
        turned_critical_requests: figures.turned_critical,
        failed_processes: figures.failed_processes,
    }
}

fn class(figures: &ClassFigures) -> ClassSummary {
    ClassSummary {
        requests: figures.requests,
        response_mean_ms: figures.response_mean().map(Duration::as_ms),
        response_max_ms: (figures.requests > 0).then(|| figures.response_max.as_ms()),
        limit_mean_ms: figures.limit_mean().map(Duration::as_ms),
        met_pct: figures.met().map(|share| share * 100.0),
    }
}
