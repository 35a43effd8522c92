//! The streams of jobs that estimates were compared with simulations of.
//!
//! `crates/estimate/tests/estimate/job_slot.rs` makes the comparison. Errors of the validation say nothing about other streams.

use seeklab_estimate::lindsay_ferrari::DriveTimes;
use seeklab_workloads::JobsSpec;
use seeklab_workloads::jobs::Transfers;

/// Active jobs.
const SLOTS: (f64, f64) = (1.0, 4.0);

/// Jobs for each job slot, at least: the last jobs of a stream have the processor and the drives to themselves.
const JOBS_FOR_A_SLOT: f64 = 5.0;

/// Sectors that a job reads, and that it writes, at least.
const JOB_SECTORS: u64 = 1_000;

/// Sectors of a buffer.
const BUFFER: (f64, f64) = (8.0, 32.0);

/// Threshold in percent of the buffer.
const THRESHOLD_PCT: (f64, f64) = (25.0, 100.0);

/// Sectors for which a state lasts.
const RESIDENCE: (f64, f64) = (1.0, 45.0);

/// Sectors of a state in the time of an access, for only the ratio of both times matters: 38.8 to 5000 sectors per second, with
/// accesses of 62 and 150 ms.
const SECTORS_IN_AN_ACCESS: (f64, f64) = (2.4, 750.0);

/// Percent of a limit by which a measured figure may exceed it.
const ROUNDING_PCT: f64 = 0.1;

/// Job slots that ever have a job.
pub(super) fn used_slots(spec: &JobsSpec) -> u32 {
    spec.multiprogramming.min(spec.jobs)
}

/// Parameters of a stream that lie outside of the validation, with the ranges; empty if none does.
pub(super) fn outside_of_the_validation(spec: &JobsSpec, drive: DriveTimes) -> Vec<String> {
    let slots = f64::from(used_slots(spec));
    let states = || spec.input.0.iter().chain(&spec.output.0);
    let range = |name: &str, values: Vec<f64>, (least, greatest): (f64, f64)| {
        let rounding = ROUNDING_PCT / 100.0;
        let is_outside =
            |value: &&f64| **value < least * (1.0 - rounding) || **value > greatest * (1.0 + rounding);
        let value = values.iter().find(is_outside)?;
        Some(format!("{name} of {} ({least} to {greatest} were compared)", shortened(*value)))
    };
    let threshold_pct = 100.0 * f64::from(spec.threshold()) / f64::from(spec.buffer);
    let in_an_access = states().map(|state| state.rate.as_per_s() * drive.access_s).collect();
    let jobs_for_a_slot = f64::from(spec.jobs) / slots;
    let sectors = spec.cycles.min(spec.output_cycles.unwrap_or(spec.cycles));
    [
        range("active jobs", vec![slots], SLOTS),
        (jobs_for_a_slot < JOBS_FOR_A_SLOT).then(|| {
            let found = shortened(jobs_for_a_slot);
            format!("jobs for each slot of {found} (at least {JOBS_FOR_A_SLOT} were compared)")
        }),
        (sectors < JOB_SECTORS)
            .then(|| format!("sectors of a file of {sectors} (at least {JOB_SECTORS} were compared)")),
        range("a buffer", vec![f64::from(spec.buffer)], BUFFER),
        range("a threshold in percent of the buffer", vec![threshold_pct], THRESHOLD_PCT),
        range("a residence", states().map(|state| state.residence).collect(), RESIDENCE),
        range("sectors of a state in the time of an access", in_an_access, SECTORS_IN_AN_ACCESS),
        (spec.transfers != Transfers::Chained)
            .then(|| "requests that are sized at their start (chained ones were compared)".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Three digits, or all of a whole number.
fn shortened(value: f64) -> String {
    let digits =
        if value.fract() == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).max(0) as usize };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use seeklab_workloads::WorkloadSpec;

    use super::*;

    /// The parts of a line that lie outside, on drives with an access time in seconds.
    fn outside(line: &str, access_s: f64) -> String {
        let Ok(WorkloadSpec::Jobs(spec)) = WorkloadSpec::parse(line) else { panic!("{line}") };
        outside_of_the_validation(&spec, DriveTimes { access_s, sector_s: 0.001 }).join("; ")
    }

    #[test]
    fn configurations_of_the_validation_lie_inside() {
        for residence in [1, 45] {
            for (buffer, threshold) in [(8, 2), (32, 32)] {
                for multiprogramming in [1, 4] {
                    for access_s in [0.062, 0.150] {
                        let states = format!("5000/s:50%:{residence}+38.75968992/s:50%:{residence}");
                        let line = format!(
                            "jobs,multiprogramming={multiprogramming},buffer={buffer},threshold={threshold},input={states},output={states}"
                        );
                        assert_eq!(outside(&line, access_s), "", "{line}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_parameter_outside_of_the_validation_is_named() {
        for (line, expected) in [
            ("multiprogramming=6,jobs=60,buffer=8", "active jobs of 6 (1 to 4 were compared)"),
            ("multiprogramming=4,jobs=10,buffer=8", "jobs for each slot of 2.50 (at least 5 were compared)"),
            ("buffer=64", "a buffer of 64 (8 to 32 were compared)"),
            (
                "buffer=32,threshold=1",
                "a threshold in percent of the buffer of 3.12 (25 to 100 were compared)",
            ),
            ("buffer=8,cycles=10", "sectors of a file of 10 (at least 1000 were compared)"),
            (
                "buffer=8,transfers=sized_at_start",
                "requests that are sized at their start (chained ones were compared)",
            ),
        ] {
            assert_eq!(outside(&format!("jobs,{line},input=200/s,output=200/s"), 0.062), expected, "{line}");
        }
        let states = "jobs,buffer=8,input=200/s:50%:5+100/s:50%:300,output=20/s";
        assert_eq!(
            outside(states, 0.062),
            "a residence of 300 (1 to 45 were compared); sectors of a state in the time of an access of 1.24 (2.4 to 750 were compared)"
        );
    }
}
