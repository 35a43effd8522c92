//! The bracketed solution ends for random parameters, and satisfies the equations.
//!
//! `cargo bench -p seeklab-estimate --bench lindsay_ferrari` runs the same over 100,000 sets.

use seeklab_core::Seed;
use seeklab_estimate::lindsay_ferrari::elapsed::Demand;
use seeklab_estimate::lindsay_ferrari::{Parameters, RateState, Transfers, solve};

use crate::random_jobs::random_jobs;

/// Sets of parameters. The benchmark has 100,000.
const SETS: u32 = 5_000;

#[test]
fn every_random_set_has_a_solution_of_all_equations() {
    let mut stream = Seed(17).stream("random_jobs");
    let (mut several, mut at_a_jump, mut saturated) = (0, 0, 0);
    for number in 0..SETS {
        let parameters = random_jobs(&mut stream);
        let solution = solve(&parameters).unwrap_or_else(|error| panic!("set {number}: {error}"));
        let point = solution.point;
        let demand = Demand {
            job_processor_s: parameters.job_processor_s,
            system_processor_s: point.system_processor_s,
            blocked_s: point.blocked_s,
            multiprogramming: parameters.multiprogramming,
        };
        let (low, high) = demand.bounds_s();
        let context = || format!("set {number}: {parameters:?}\n{solution:?}");
        assert!(
            point.elapsed_s >= low * (1.0 - 1e-9) && point.elapsed_s <= high * (1.0 + 1e-9),
            "{}",
            context()
        );
        assert!(point.processor_share > 0.0 && point.processor_share <= 1.0, "{}", context());
        assert!(point.wait_s >= 0.0 && point.wait_s.is_finite(), "{}", context());
        if let Some(other) = solution.other {
            several += 1;
            assert!(other.elapsed_s.is_finite(), "{}", context());
            assert!(solution.processor_shares.len() > 1, "{}", context());
        }
        if !solution.is_exact {
            at_a_jump += 1;
            continue;
        }
        assert!(point.load <= 1.0 + 1e-9, "{}", context());
        let ready_s = parameters.multiprogramming * (point.elapsed_s - point.blocked_s);
        let share = parameters.job_processor_s / ready_s;
        assert!((share - point.processor_share).abs() < 1e-6, "(12): {}", context());
        if point.load > 1.0 - 1e-6 {
            // The last digits of a load of 1 decide on (20).
            saturated += 1;
            continue;
        }
        // Uses of files agree with Little's law, which (20) and (22) imply together.
        let in_use_s = parameters.files_per_drive * point.file_use * point.elapsed_s;
        let by_requests_s =
            point.requests_per_drive * (parameters.access_s + point.wait_s) + parameters.transfer_s();
        assert!((in_use_s / by_requests_s - 1.0).abs() < 1e-6, "(22): {}", context());
    }
    // Some sets have several solutions, and few lie at a jump of the flowchart.
    assert!(several > 0, "no set of {SETS} had several solutions");
    println!(
        "{several} of {SETS} sets have several solutions, {at_a_jump} lie at a jump, {saturated} are saturated"
    );
    assert!(at_a_jump < SETS / 20, "{at_a_jump} of {SETS} sets lie at a jump");
    assert!(saturated < SETS / 2, "{saturated} of {SETS} sets saturate their drives");
}

#[test]
fn chained_requests_of_one_sector_buffers_are_sized_requests_without_filling() {
    // A buffer that is called when full has B sectors in every request of either extent, and no room meanwhile.
    let mut stream = Seed(3).stream("random_jobs");
    let mut parameters: Parameters = random_jobs(&mut stream);
    parameters.threshold_sectors = parameters.buffer_sectors;
    parameters.reactivation = seeklab_estimate::lindsay_ferrari::Reactivation::AtEnd;
    parameters.states = vec![RateState { rate_per_s: 500.0, share: 1.0, residence_sectors: 90.0 }];
    parameters.transfers = Transfers::Chained;
    let chained = solve(&parameters).unwrap().point;
    parameters.transfers = Transfers::SizedAtStart;
    let sized = solve(&parameters).unwrap().point;
    assert!((chained.elapsed_s / sized.elapsed_s - 1.0).abs() < 1e-9, "{chained:?} {sized:?}");
}
