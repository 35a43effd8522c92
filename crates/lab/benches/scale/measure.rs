//! Speed and peak memory of a step, and how it is printed.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use seeklab_lab::failure::Failure;

/// Resident memory that no step may pass.
const MEMORY_MIB: u64 = 256;

/// Prints a line for each step.
#[derive(Debug)]
pub(crate) struct Report {
    rounds: usize,
}

impl Report {
    /// Steps are run so often.
    pub(crate) const fn new(rounds: usize) -> Self {
        Self { rounds }
    }

    /// Measures a step over `requests` requests. The step should process at least `required` of them per second.
    pub(crate) fn row(
        &mut self,
        name: &str,
        requests: u64,
        required: Option<f64>,
        step: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        measure(self.rounds, name, requests, required, step)
    }

    /// A step that is run once.
    pub(crate) fn once(
        &mut self,
        name: &str,
        requests: u64,
        step: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        measure(1, name, requests, None, step)
    }
}

fn measure(
    rounds: usize,
    name: &str,
    requests: u64,
    required: Option<f64>,
    mut step: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    forget_peak();
    let mut speeds = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begin = thread_cpu_s();
        step()?;
        speeds.push(requests as f64 / (thread_cpu_s() - begin).max(1e-9));
    }
    speeds.sort_by(f64::total_cmp);
    let (best, median) = (speeds[speeds.len() - 1], speeds[speeds.len() / 2]);
    let target = match required {
        None => String::new(),
        Some(required) if best >= required => format!("   at least {} required: met", required / 1e6),
        Some(required) => format!("   at least {} required: MISSED", required / 1e6),
    };
    let peak = peak_mib();
    let shown = peak.map_or_else(|| "-".to_owned(), |mib| mib.to_string());
    let beyond = if peak.is_some_and(|mib| mib > MEMORY_MIB) { "   beyond 256 MiB: MISSED" } else { "" };
    println!("{name:<58} {:6.2} {:6.2} {shown:>8}{target}{beyond}", best / 1e6, median / 1e6);
    Ok(())
}

/// CPU time of this thread.
fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Lets the kernel begin anew with the peak of the resident memory; Linux only, else the peak is the process's.
fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The peak of the resident memory; Linux only.
fn peak_mib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1_024)
}
