//! The published equations against simulations in which one of their assumptions after the other is true.

use seeklab_core::Seed;
use seeklab_estimate::lindsay_ferrari::elapsed::Demand;
use seeklab_estimate::lindsay_ferrari::{Parameters, solve};
use seeklab_workloads::JobsSpec;
use seeklab_workloads::jobs::RateStates;

use crate::job_slot::mixes;
use crate::jobs::Mix;

/// A change of the simulated streams, of which the equations know, that makes an assumption true.
struct Change {
    name: &'static str,
    apply: fn(&mut JobsSpec),
}

/// One mean rate for the two states: `2 / (1/5000 + 0.0258)` sectors per second.
fn one_rate(spec: &mut JobsSpec) {
    let states: RateStates = "76.92307692/s".parse().expect("it is a rate");
    (spec.input, spec.output) = (states.clone(), states);
}

/// A job with one file: twice the cycles of input, none of output. It lies on the only drive.
fn one_file(spec: &mut JobsSpec) {
    spec.drives = 1;
    (spec.cycles, spec.output_cycles) = (2 * spec.cycles, Some(0));
}

fn states_that_last(spec: &mut JobsSpec) {
    for states in [&mut spec.input, &mut spec.output] {
        states.0.iter_mut().for_each(|state| state.residence = 250.0);
    }
}

fn calls_with_room(spec: &mut JobsSpec) {
    spec.threshold = Some(spec.threshold().min(spec.buffer / 2));
}

const CHANGES: [Change; 9] = [
    Change { name: "none", apply: |_| () },
    Change { name: "one_job", apply: |spec| spec.multiprogramming = 1 },
    Change { name: "two_drives", apply: |spec| spec.drives = 2 },
    Change { name: "one_file", apply: one_file },
    Change { name: "states_of_250_sectors", apply: states_that_last },
    Change { name: "one_rate", apply: one_rate },
    Change { name: "calls_at_half_a_buffer", apply: calls_with_room },
    Change { name: "no_system_time", apply: |spec| spec.call_time = seeklab_core::Duration::ZERO },
    Change {
        name: "one_job_one_file_one_rate",
        apply: |spec| {
            spec.multiprogramming = 1;
            one_rate(spec);
            one_file(spec);
        },
    },
];

/// The table: change, configurations where the stream takes at least 1.1 times its processor time; errors of the elapsed time
/// in percent (mean, mean of the absolute values, greatest), of the calls, and of equation (6) alone with the simulated
/// blocked and system time.
const STATED: &str = include_str!("../../../../validation/estimate/jobs-assumptions.csv");

/// Errors of one configuration, as shares.
struct Errors {
    elapsed: f64,
    calls: f64,
    equation_6: f64,
}

/// Errors of the equations in one configuration; `None` if the processor is the bottleneck.
fn errors(mix: Mix, change: &Change, seed: Seed) -> Option<Errors> {
    let mut spec = mix.spec();
    (change.apply)(&mut spec);
    let simulated = mix.simulate_as(&spec, seed);
    let elapsed_s = simulated.elapsed.as_s();
    let processor_s = (simulated.job_processor + simulated.system_processor).as_s();
    if elapsed_s < 1.1 * processor_s {
        return None;
    }
    let parameters = Parameters::of_jobs(&spec, mix.drive(), simulated.job_processor.as_s());
    let point = solve(&parameters).unwrap().point;
    let known = Demand {
        job_processor_s: simulated.job_processor.as_s(),
        system_processor_s: simulated.system_processor.as_s(),
        blocked_s: simulated.blocked.as_s() / f64::from(spec.multiprogramming),
        multiprogramming: f64::from(spec.multiprogramming),
    };
    let calls = simulated.calls.iter().sum::<u64>() as f64;
    Some(Errors {
        elapsed: point.elapsed_s / elapsed_s - 1.0,
        calls: point.requests_per_drive * parameters.drives / calls - 1.0,
        equation_6: known.elapsed_s() / elapsed_s - 1.0,
    })
}

#[test]
fn published_equations_err_by_the_assumptions_of_the_table() {
    let mut table = "change,configurations,elapsed_bias_pct,elapsed_mean_pct,elapsed_max_pct,calls_mean_pct,\
                     equation_6_mean_pct\n"
        .to_owned();
    for change in CHANGES {
        let found: Vec<Errors> =
            mixes(7).into_iter().filter_map(|mix| errors(mix, &change, Seed(1))).collect();
        let mean =
            |of: &dyn Fn(&Errors) -> f64| 100.0 * found.iter().map(of).sum::<f64>() / found.len() as f64;
        table += &format!(
            "{},{},{:.1},{:.1},{:.1},{:.1},{:.1}\n",
            change.name,
            found.len(),
            mean(&|errors| errors.elapsed),
            mean(&|errors| errors.elapsed.abs()),
            100.0 * found.iter().map(|errors| errors.elapsed.abs()).fold(0.0, f64::max),
            mean(&|errors| errors.calls.abs()),
            mean(&|errors| errors.equation_6.abs()),
        );
    }
    assert_eq!(STATED, table, "{table}");
}
