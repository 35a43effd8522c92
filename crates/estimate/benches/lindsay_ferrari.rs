//! Measures the time to solve the equations of Lindsay and Ferrari, and solves 100,000 random sets:
//! `cargo bench -p seeklab-estimate --bench lindsay_ferrari`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock and its arguments"
)]

use std::hint::black_box;
use std::time;

use seeklab_core::Seed;
use seeklab_estimate::lindsay_ferrari::{
    Parameters, RateState, Reactivation, SystemCalls, SystemTime, Transfers, iterate, solve,
};

#[path = "../tests/estimate/random_jobs.rs"]
mod random_jobs;

/// The parameters of figure 7 of the paper, with the two rate states of its notes.
fn figure_7() -> Parameters {
    let state = |rate_per_s| RateState { rate_per_s, share: 0.5, residence_sectors: 90.0 };
    Parameters {
        access_s: 62e-3,
        job_processor_s: 260.0,
        system: SystemTime { base_s: 33.6, per_call_s: 7e-3, calls: SystemCalls::OfOneDrive },
        multiprogramming: 3.0,
        drives: 1.6,
        files_per_drive: 4.0,
        sectors: 40_300.0,
        drive_rate_per_s: 1000.0,
        buffer_sectors: 8.0,
        threshold_sectors: 4.0,
        reactivation: Reactivation::AtEnd,
        transfers: Transfers::Chained,
        states: vec![state(5000.0), state(1.0 / 0.0258)],
    }
}

fn main() {
    // `cargo test --benches` runs the small size, so that the benchmark never rots.
    let large = std::env::args().any(|argument| argument == "--bench");
    let repetitions = if large { 20_000 } else { 10 };
    let parameters = figure_7();
    let start = time::Instant::now();
    for _ in 0..repetitions {
        black_box(solve(black_box(&parameters)).expect("the parameters are right"));
    }
    println!(
        "{:8.2} us per bracketed solution",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(repetitions)
    );
    let start = time::Instant::now();
    for _ in 0..repetitions {
        black_box(iterate(black_box(&parameters), 1000, 1e-9).expect("the parameters are right"));
    }
    println!(
        "{:8.2} us per published iteration",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(repetitions)
    );

    let sets = if large { 100_000 } else { 100 };
    let mut stream = Seed(17).stream("random_jobs");
    let (mut several, mut at_a_jump, mut evaluations) = (0_u32, 0_u32, 0);
    let start = time::Instant::now();
    for _ in 0..sets {
        let solution = solve(&random_jobs::random_jobs(&mut stream)).expect("random parameters are in range");
        several += u32::from(solution.other.is_some());
        at_a_jump += u32::from(!solution.is_exact);
        evaluations = solution.evaluations.max(evaluations);
    }
    println!(
        "{sets} random sets end in {:.2} s, the longest after {evaluations} evaluations; {several} have several \
         solutions, {at_a_jump} lie at a jump",
        start.elapsed().as_secs_f64()
    );
}
