//! Reasons for which options of fio that have no counterpart here are refused, with what to use in their place.

/// Options, and the reason.
const REASONS: &[(&[&str], &str)] = &[
    (&["write_hist_log"], "fio's log of histograms is not written; --folder keeps histograms"),
    (
        &["log_compression", "log_compression_cpus", "log_store_compressed"],
        "logs are written as text while the run goes on",
    ),
    (&["write_iolog"], "fio's log is not written; --record writes a trace"),
    (
        &[
            "read_iolog",
            "read_iolog_chunked",
            "replay_no_stall",
            "replay_redirect",
            "replay_scale",
            "replay_time_scale",
        ],
        "a log is a workload of its own: seeklab bench TARGET -w LOG",
    ),
    (
        &["ss", "ss_dur", "ss_ramp", "steadystate", "steadystate_duration", "steadystate_ramp_time"],
        "fio's limits on a window are another test than SNIA's, with which the phase of a plan ends (until = \"steady\")",
    ),
    (
        &["latency_percentile", "latency_run", "latency_target", "latency_window"],
        "no depth is searched for; --find-rate finds the highest rate that keeps a bound",
    ),
    (&["max_latency"], "no response time ends a job"),
    (&["rate_iops_min", "rate_min", "ratemin"], "no job ends because its rate is low"),
    (&["max_open_zones", "job_max_open_zones", "read_beyond_wp"], "zones of zoned devices are not honoured"),
    (
        &["fill_device", "fill_fs"],
        "a job ends with its bytes and not with the space; size=100% is all of a file or device",
    ),
    (&["opendir"], "a folder is no target; filename names one file"),
    (&["wait_for"], "a job begins with its group; stonewall begins a group behind the jobs above"),
    (&["exec_postrun", "exec_prerun"], "a job file runs no commands"),
    (
        &["cpumask", "cpus_allowed", "cpus_allowed_policy", "numa_cpu_nodes", "numa_mem_policy"],
        "seeklab chooses the processor of each thread",
    ),
    (&["sqthread_poll_cpu"], "the kernel chooses the processor of its thread"),
    (
        &["iodepth_batch_complete_max", "iodepth_low"],
        "requests are handed over as soon as they arrive, and all completions are taken that are there",
    ),
];

/// The reason for which an option is refused, if one is known.
pub(super) fn of(option: &str) -> Option<&'static str> {
    REASONS.iter().find_map(|(options, reason)| options.contains(&option).then_some(*reason))
}
