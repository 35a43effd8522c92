//! Measures the speed of the simulator: requests per CPU-second of one thread, percentiles on.
//!
//! `cargo bench -p seeklab-lab --bench simulator` runs each case five times, interleaved, and prints the best
//! and the median; `cargo test --benches` runs each case once with few requests, so that it does not break
//! unnoticed. The figures in README.md and docs/models/disk.md are from this program.

use seeklab_core::{Limits, Seed};
use seeklab_lab::devices::{Setup, resolve};
use seeklab_lab::run::{Outputs, run};
use seeklab_lab::session::Session;
use seeklab_lab::workload::{WorkloadOptions, resolve_workload};

/// Name, device, mechanics alone, scheduler, workload, required requests per CPU-second.
const CASES: [(&str, &str, bool, Option<&str>, &str, f64); 5] = [
    (
        "atlas10k as in the catalog, FCFS, 50 % busy",
        "atlas10k",
        false,
        None,
        "synthetic,size=8KiB,read=66%,poisson=60/s",
        2e6,
    ),
    (
        "atlas10k mechanics, SPTF, 32 outstanding",
        "atlas10k",
        true,
        Some("sptf"),
        "synthetic,size=8KiB,read=66%,closed=32",
        2e6,
    ),
    (
        "atlas10k mechanics, SPTF, 256 outstanding",
        "atlas10k",
        true,
        Some("sptf"),
        "synthetic,size=8KiB,read=66%,closed=256",
        1e6,
    ),
    (
        "hp-c2247a as in the catalog, FCFS, 50 % busy",
        "hp-c2247a",
        false,
        None,
        "synthetic,size=8KiB,read=66%,poisson=22/s",
        0.0,
    ),
    (
        "atlas10k mechanics, C-LOOK, 32 outstanding",
        "atlas10k",
        true,
        Some("c-look"),
        "synthetic,size=8KiB,read=66%,closed=32",
        0.0,
    ),
];

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (rounds, requests) = if full { (5, 2_000_000) } else { (1, 2_000) };
    let mut speeds = vec![Vec::new(); CASES.len()];
    for _ in 0..rounds {
        for (case, speeds) in CASES.iter().zip(&mut speeds) {
            speeds.push(measure(case, requests));
        }
    }
    println!("million requests per CPU-second, one thread, best and median of {rounds}, {requests} requests");
    for ((name, .., required), speeds) in CASES.iter().zip(&mut speeds) {
        speeds.sort_by(f64::total_cmp);
        let (best, median) = (speeds[speeds.len() - 1], speeds[speeds.len() / 2]);
        let target = match *required {
            0.0 => String::new(),
            required if best >= required => format!("   at least {} required: met", required / 1e6),
            required => format!("   at least {} required: MISSED", required / 1e6),
        };
        println!("{name:<46} {:6.2} {:6.2}{target}", best / 1e6, median / 1e6);
    }
}

fn measure(case: &(&str, &str, bool, Option<&str>, &str, f64), requests: u64) -> f64 {
    let (_, device, bare, scheduler, workload, _) = *case;
    let queue = scheduler.map(|scheduler| (scheduler.parse().expect("a scheduler of the list"), 1));
    let setup = Setup { bare, queue, ..Setup::default() };
    let device = resolve(device, &setup).expect("a device of the catalog");
    let options = WorkloadOptions { requests: Some(requests), ..WorkloadOptions::default() };
    let workload = resolve_workload(workload, &options).expect("a workload that is right");
    let result = run(&device, &workload, Seed(1), Limits::default(), Outputs::default(), &Session::default())
        .expect("the workload fits the device");
    result.requests_per_cpu_s()
}
