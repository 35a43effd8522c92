//! Measures the prediction of a recorded application: `cargo bench -p seeklab-lab --bench prediction`.
//!
//! It predicts a recorded `cp -r` (`examples/copy.sys`) on a disk, from the files of the trace to the figures, and prints
//! the CPU time and the recorded events per CPU-second. `cargo test --benches` predicts once, so that the
//! benchmark never rots.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{Limits, Seed};
use seeklab_lab::devices::{Setup, customise};
use seeklab_lab::failure::Failure;
use seeklab_lab::run::{Outputs, run};
use seeklab_lab::session::Session;
use seeklab_lab::workload::{WorkloadOptions, resolve_workload};

/// Events of the recording, as `seeklab trace info` counts them.
const EVENTS: u32 = 23_692;

fn main() {
    let repetitions = if std::env::args().any(|argument| argument == "--bench") { 100 } else { 1 };
    match median_s(repetitions) {
        Ok(median_s) => println!(
            "{:6.1} ms of CPU time, {:.2} M events per CPU-second, median of {repetitions}: a recorded copy of {EVENTS} events",
            1e3 * median_s,
            f64::from(EVENTS) / median_s / 1e6
        ),
        Err(error) => panic!("{error}"),
    }
}

/// Returns the median CPU time of a prediction.
fn median_s(repetitions: usize) -> Result<f64, Failure> {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/copy.sys");
    let description = seeklab_devices::catalog::find("cheetah-36es").expect("it is in the catalog");
    let mut seconds = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        let begin_s = process_cpu_s();
        let device = customise("cheetah-36es", description.clone(), &Setup::default())?;
        let workload = resolve_workload(&trace.to_string_lossy(), &WorkloadOptions::default())?;
        let result =
            run(&device, &workload, Seed(1), Limits::default(), Outputs::default(), &Session::default())?;
        assert!(result.metrics.summary().requests > 200, "the copy reads and writes");
        seconds.push(process_cpu_s() - begin_s);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// CPU time of all threads so far: a part of the trace may be decoded by others.
fn process_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
