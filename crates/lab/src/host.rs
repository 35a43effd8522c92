//! Figures of a simulated host, as they are printed.

use seeklab_analysis::{ClassSummary, HostProcess, HostSummary, HostTimeline};
use seeklab_core::{Duration, Instant};
use seeklab_workloads::host::{ClassFigures, Host, HostFigures, HostInterval, ProcessTimes, Profile};

/// Figures of a run of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostResult {
    /// The task and its requests.
    pub summary: HostSummary,
    /// Course of the run.
    pub timeline: HostTimeline,
    /// Times of each process, the system's own behind them.
    pub processes: Vec<HostProcess>,
}

impl HostResult {
    /// Figures of a host whose processes have these names.
    pub(crate) fn new(host: &Host, names: Vec<String>) -> Self {
        let own = match host.profile() {
            Profile::Svr4 => "(syncer)",
            Profile::Linux => "(flusher)",
        };
        let names = names.into_iter().chain([own.to_owned()]);
        let times = host.process_times().into_iter().chain([host.system_times()]);
        let processes = names.zip(times).map(|(name, times)| process(name, &times));
        Self {
            summary: summary(&host.figures()),
            timeline: timeline(host),
            processes: processes.filter(|process| process.processes > 0).collect(),
        }
    }
}

fn process(name: String, times: &ProcessTimes) -> HostProcess {
    HostProcess {
        name,
        processes: times.processes,
        elapsed_s: times.elapsed.as_s(),
        computing_s: times.computing.as_s(),
        ready_s: times.ready.as_s(),
        read_wait_s: times.waits.read.as_s(),
        write_wait_s: times.waits.write.as_s(),
        memory_wait_s: times.waits.memory.as_s(),
        dirty_limit_wait_s: times.waits.dirty_limit.as_s(),
        process_wait_s: times.waits.process.as_s(),
        children_wait_s: times.waits.children.as_s(),
        timer_wait_s: times.waits.timer.as_s(),
    }
}

fn timeline(host: &Host) -> HostTimeline {
    let intervals = host.timeline();
    let rounded = |value: f64| (value * 1e3).round() / 1e3;
    let column =
        |value: fn(&HostInterval) -> f64| intervals.iter().map(|one| rounded(value(one))).collect::<Vec<_>>();
    let cpus = f64::from(host.figures().cpus);
    let shares = |value: fn(&HostInterval) -> f64| {
        intervals.iter().map(|one| rounded(value(one) / cpus * 100.0)).collect::<Vec<_>>()
    };
    let seconds = |time: Option<Instant>| time.map(|time| (time - Instant::ZERO).as_s());
    let (start, end) = host.task_span();
    HostTimeline {
        stretch_s: intervals.first().map_or(0.0, |one| one.width.as_s()),
        task_start_s: seconds(start),
        task_end_s: seconds(end),
        task_cpu_pct: shares(|one| one.task_cpus),
        other_cpu_pct: shares(|one| one.other_cpus),
        false_idle_pct: shares(|one| one.false_idle_cpus),
        idle_pct: shares(|one| one.idle_cpus),
        io_waiting_processes: column(|one| one.io_waiting_processes),
        outstanding_requests: column(|one| one.outstanding_requests),
    }
}

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
        cpu_utilisation_pct: (!figures.elapsed.is_zero()).then(|| {
            let busy_s = (figures.task_cpu + figures.other_cpu).as_s();
            busy_s / (figures.elapsed.as_s() * f64::from(figures.cpus)) * 100.0
        }),
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
