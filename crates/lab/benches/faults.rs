//! Measures the cost of a layer of faults that do not strike: the same simulation with and without it.
//!
//! `cargo bench -p seeklab-lab --bench faults` runs every case in turn, 11 rounds, and prints the median of the ratios
//! of a round to the simulation without a layer in the same round; `cargo test --benches` runs each case once with few
//! requests and checks that the layer changes no response time.

use seeklab_core::{Limits, Seed};
use seeklab_lab::devices::{Faults, Resolved, Setup, resolve};
use seeklab_lab::run::{Outputs, run};
use seeklab_lab::session::Session;
use seeklab_lab::workload::{ResolvedWorkload, WorkloadOptions, resolve_workload};

/// Greatest ratio of processor times that the layer may cost.
const RATIO_MAX: f64 = 1.10;

/// Name and device, its workload, and a range in which the workload has no request.
const DEVICES: [(&str, &str, &str); 3] = [
    ("atlas10k", "synthetic,size=8KiB,read=66%,poisson=60/s,address.end=90%", "8.9GB..8.95GB"),
    ("hp-c2247a", "synthetic,size=8KiB,read=66%,closed=1,address.end=90%", "1.04GB..1.045GB"),
    ("constant", "synthetic,size=8KiB,read=66%,closed=4,address.end=90%", "1.09TB..1.095TB"),
];

/// Faults that do not strike.
const FAULTS: [(&str, &[&str]); 5] = [
    ("a window far ahead", &["delay,add=1ms,at=8000h"]),
    ("a probability of 1e-12", &["delay,add=1ms,probability=0.0000000001%"]),
    ("other blocks", &["medium_error,blocks=ELSEWHERE"]),
    ("a stall far ahead", &["stall,at=8000h,for=1s"]),
    (
        "all four",
        &[
            "delay,add=1ms,at=8000h",
            "aborted,probability=0.0000000001%",
            "medium_error,blocks=ELSEWHERE",
            "stall,at=8000h,for=1s",
        ],
    ),
];

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (rounds, requests) = if full { (11, 1_000_000) } else { (1, 2_000) };
    let session = Session::default();
    println!(
        "processor time beside that without a layer: median of {rounds} rounds, least and greatest; {requests} requests"
    );
    for (name, workload, elsewhere) in DEVICES {
        let options = WorkloadOptions { requests: Some(requests), ..WorkloadOptions::default() };
        let workload = resolve_workload(workload, &options).expect("a workload that is right");
        let device = |faults: &[&str]| {
            let lines = faults.iter().map(|line| line.replace("ELSEWHERE", elsewhere)).collect();
            let setup = Setup { faults: Faults { file: None, lines }, ..Setup::default() };
            resolve(name, &setup).expect("a device of the catalog")
        };
        let plain = device(&[]);
        let layered = FAULTS.map(|(_, faults)| device(faults));
        let mut ratios = [const { Vec::new() }; FAULTS.len()];
        let mut per_request_ns = Vec::new();
        for _ in 0..rounds {
            let (before, expected) = measure(&plain, &workload, &session);
            per_request_ns.push(1e9 / before);
            for (device, ratios) in layered.iter().zip(&mut ratios) {
                let (speed, found) = measure(device, &workload, &session);
                assert_eq!(found, expected, "faults that do not strike change nothing");
                ratios.push(before / speed);
            }
        }
        println!("{name}, {:.0} ns for a request", median(&mut per_request_ns));
        for ((faults, _), ratios) in FAULTS.iter().zip(&mut ratios) {
            let middle = median(ratios);
            let verdict = if middle <= RATIO_MAX { "met" } else { "MISSED" };
            let (least, greatest) = (ratios[0], ratios[ratios.len() - 1]);
            println!(
                "  {faults:<24} {middle:.3} ({least:.3} to {greatest:.3})   at most {RATIO_MAX} required: {verdict}"
            );
        }
    }
}

/// Requests per CPU-second, and the figures of the response times.
fn measure(device: &Resolved, workload: &ResolvedWorkload, session: &Session) -> (f64, String) {
    let result = run(device, workload, Seed(1), Limits::default(), Outputs::default(), session)
        .expect("the workload fits the device");
    (result.requests_per_cpu_s(), format!("{:?}", result.metrics.summary().response))
}

/// Sorts the values and returns the one in the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
