//! Repeated measurements of one system, compared with each other: an alarm is rare.

use seeklab_analysis::{RepetitionChange, ThresholdVerdict};
use seeklab_bench::Plan;
use seeklab_core::Seed;

use crate::harness::{any_number, device, model, options, run, virtual_plan};

/// The 99th percentile of the response times of a run in virtual time, in milliseconds.
fn p99_ms(seed: u64, overrides: &[(&str, &str)]) -> f64 {
    let target = model(device("cheetah-36es", overrides), &options(100_000));
    let plan = Plan { record: false, ..virtual_plan() };
    let line = "random,size=4KiB,read=70%,poisson=60/s,requests=600";
    let (measurement, _) = run((&plan, &any_number()), target, line, seed);
    measurement.totals.part.response().quantile(0.99).unwrap().as_ms()
}

/// Changes in so many comparisons of five runs with five.
fn changes(trials: u64, overrides: &[(&str, &str)]) -> Vec<RepetitionChange> {
    let change = |trial| {
        let of = |first: u64, overrides| -> Vec<f64> {
            (0..5).map(|run| p99_ms(10 * trial + first + run, overrides)).collect()
        };
        RepetitionChange::of(&of(0, &[]), &of(5, overrides), Seed(trial)).unwrap()
    };
    (0..trials).map(change).collect()
}

/// Number of changes that exceed a threshold in percent.
fn alarms(changes: &[RepetitionChange], threshold_pct: f64) -> usize {
    changes.iter().filter(|change| change.verdict(threshold_pct, true) == ThresholdVerdict::Exceeded).count()
}

#[test]
fn system_compared_with_itself_exceeds_a_threshold_at_most_five_times_in_a_hundred() {
    let changes = changes(100, &[]);
    for threshold_pct in [0.0, 5.0] {
        let alarms = alarms(&changes, threshold_pct);
        eprintln!("threshold {threshold_pct} %: {alarms} alarms of 100");
        assert!(alarms <= 5, "{threshold_pct} %: {alarms}");
    }
}

#[test]
fn slower_system_exceeds_the_threshold_nearly_always() {
    let alarms = alarms(&changes(40, &[("rpm", "5400rpm")]), 5.0);
    assert!(alarms >= 38, "{alarms} of 40");
}
