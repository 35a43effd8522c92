//! The job slot that is followed exactly, against simulation.

use seeklab_core::{DescriptionError, Seed};
use seeklab_estimate::job_slot::{self, JobsEstimate};
use seeklab_estimate::lindsay_ferrari::{DriveTimes, Parameters, solve};
use seeklab_workloads::{JobsSpec, WorkloadSpec};

use crate::jobs::{DRIVE, Mix};

/// An estimate that nobody stops.
pub(crate) fn estimate(spec: &JobsSpec, drive: DriveTimes, seed: Seed) -> JobsEstimate {
    job_slot::estimate(spec, drive, seed, &mut |_| Ok::<(), DescriptionError>(())).unwrap()
}

fn stream(line: &str) -> JobsSpec {
    match WorkloadSpec::parse(line) {
        Ok(WorkloadSpec::Jobs(spec)) => *spec,
        other => panic!("{line}: {other:?}"),
    }
}

/// Configurations of the notes: residence 1, 5 and 45, M 1 to 4, B 8, 16 and 32, C 25 to 100 %, D 1 and 2, A 62 and
/// 150 ms, both policies. One in `every` of them.
pub(crate) fn mixes(every: usize) -> Vec<Mix> {
    let mut mixes = Vec::new();
    for residence in [1, 5, 45] {
        for drives in [1, 2] {
            for access in ["62ms", "150ms"] {
                for reactivation in ["end", "sector"] {
                    for multiprogramming in 1..=4 {
                        for buffer in [8, 16, 32] {
                            for quarter in [1, 2, 4] {
                                let threshold = buffer * quarter / 4;
                                mixes.push(Mix {
                                    drives,
                                    residence,
                                    multiprogramming,
                                    buffer,
                                    threshold,
                                    reactivation,
                                    access,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    mixes.into_iter().step_by(every).collect()
}

/// Errors of elapsed time and calls by method, on average and at worst.
const STATED: &str = include_str!("../../../../validation/estimate/jobs.csv");

#[test]
fn job_slot_meets_simulation_where_the_equations_do_not() {
    let (mut errors, mut published, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let (mut calls, mut published_calls) = (Vec::new(), Vec::new());
    for mix in mixes(7) {
        let seed = Seed(1);
        let simulated = mix.simulate(seed);
        let elapsed_s = simulated.elapsed.as_s();
        let processor_s = (simulated.job_processor + simulated.system_processor).as_s();
        if elapsed_s < 1.1 * processor_s {
            continue;
        }
        let better = estimate(&mix.spec(), mix.drive(), seed);
        let parameters = Parameters::of_jobs(&mix.spec(), mix.drive(), simulated.job_processor.as_s());
        let equations = solve(&parameters).unwrap().point;
        let simulated_calls = simulated.calls.iter().sum::<u64>() as f64;
        let error = better.elapsed_s / elapsed_s - 1.0;
        let of_equations = equations.elapsed_s / elapsed_s - 1.0;
        let of_calls = better.calls / simulated_calls - 1.0;
        let of_published_calls = equations.requests_per_drive * parameters.drives / simulated_calls - 1.0;
        println!(
            "D {} res {:2} A {:5} {:6} M {} B {:2} C {:2}: R {elapsed_s:6.1} = {:.2} C, slot {:+5.1} %, equations {:+5.1} %, calls {:+5.1} % {:+5.1} %",
            mix.drives,
            mix.residence,
            mix.access,
            mix.reactivation,
            mix.multiprogramming,
            mix.buffer,
            mix.threshold,
            elapsed_s / processor_s,
            error * 100.0,
            of_equations * 100.0,
            of_calls * 100.0,
            of_published_calls * 100.0,
        );
        errors.push(error.abs());
        published.push(of_equations.abs());
        alone.push(((better.job_processor_s + better.system_processor_s) / elapsed_s - 1.0).abs());
        calls.push(of_calls.abs());
        published_calls.push(of_published_calls.abs());
    }
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
    let worst = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
    println!(
        "{} configurations: slot {:.2} % on average, {:.2} % at worst; equations {:.2} %, {:.2} %; calls {:.2} %, {:.2} %",
        errors.len(),
        mean(&errors) * 100.0,
        worst(&errors) * 100.0,
        mean(&published) * 100.0,
        worst(&published) * 100.0,
        mean(&calls) * 100.0,
        worst(&calls) * 100.0
    );
    assert!(errors.len() >= 40, "{} configurations", errors.len());
    assert!(mean(&errors) <= 0.035);
    assert!(worst(&errors) <= 0.10);
    assert!(worst(&calls) <= 0.20);
    assert!(mean(&published) >= 0.06, "the equations are off where the drive is the bottleneck");
    // The errors that `seeklab estimate` states.
    // The processor alone has the calls of the job slot.
    let rows = [
        ("job_slot", &errors, &calls),
        ("lindsay_ferrari", &published, &published_calls),
        ("processor_alone", &alone, &calls),
    ];
    let both = |errors: &[f64]| format!("{:.1},{:.1}", mean(errors) * 100.0, worst(errors) * 100.0);
    let found: String =
        rows.map(|(name, elapsed, calls)| format!("{name},{},{}\n", both(elapsed), both(calls))).concat();
    assert_eq!(STATED.split_once('\n').unwrap().1, found);
}

#[test]
fn work_does_not_grow_with_the_computing_times() {
    // Other files call every 0.1 s or so, and each job computes for 10^9 s: 10^10 calls if no time was skipped.
    let slow = "5000/s:50%:1+0.000001/s:50%:1";
    let spec = stream(&format!("jobs,multiprogramming=4,buffer=8,input=5000/s:100%:45,output={slow}"));
    let mut checks = 0;
    let found = job_slot::estimate(&spec, DRIVE, Seed(1), &mut |_| {
        checks += 1;
        Ok::<(), DescriptionError>(())
    });
    let JobsEstimate { elapsed_s, job_processor_s, .. } = found.unwrap();
    // One call for each 65,536 events.
    assert!(checks < 1_000, "{checks}");
    assert!(job_processor_s > 1e9 && (elapsed_s / job_processor_s - 1.0).abs() < 0.01, "{elapsed_s}");
}

#[test]
fn estimate_ends_when_it_is_stopped() {
    let states = "5000/s:100%:45";
    let spec = stream(&format!("jobs,cycles=100000,buffer=8,input={states},output={states}"));
    let stopped = || DescriptionError::invalid("test", "stopped".to_owned());
    let mut checks = 0;
    let found = job_slot::estimate(&spec, DRIVE, Seed(1), &mut |iterations| {
        assert_eq!(iterations, 0, "the first iteration has more events than one check covers");
        checks += 1;
        if checks > 21 { Err(stopped()) } else { Ok(()) }
    });
    assert_eq!((found.unwrap_err().to_string(), checks), (stopped().to_string(), 22));
}

#[test]
fn streams_beyond_the_memory_of_an_estimate_are_refused() {
    let states = "5000/s:100%:45";
    let spec = stream(&format!("jobs,jobs=1000000,cycles=1000000,buffer=8,input={states},output={states}"));
    let found = job_slot::estimate(&spec, DRIVE, Seed(1), &mut |_| Ok::<(), DescriptionError>(()));
    let error = found.unwrap_err();
    assert!(error.to_string().contains("2000000000000 sectors"), "{error}");
}
