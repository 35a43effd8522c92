//! Measures the time of a host per request, the device apart: `cargo bench -p seeklab-workloads --bench host`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock and its arguments"
)]

use std::time;

use seeklab_core::{
    Arrival, Breakdown, BufferOutcome, ByteSize, Completion, FaultSet, Instant, Outcome, Request, Seed,
    Workload,
};
use seeklab_workloads::{AddressSpace, Host, WorkloadSpec};

/// Programs by name; `N` is replaced by the number of repetitions.
const PROGRAMS: &[(&str, &str)] = &[
    ("sequential reads", "repeat N { read data 4KiB; compute 1ms }"),
    ("reads that hit the page cache", "repeat N { read data 4KiB at 0B }"),
    ("delayed writes", "repeat N { write data 4KiB; compute 1ms }"),
    ("reads past the page cache", "repeat N { read data 4KiB random direct }"),
];

fn main() {
    // `cargo test --benches` runs the small size, so that the benchmark never rots.
    let large = std::env::args().any(|argument| argument == "--bench");
    let repetitions: u64 = if large { 2_000_000 } else { 1_000 };
    for (name, program) in PROGRAMS {
        let program = program.replace('N', &repetitions.to_string());
        let line = format!("host,files.data.size=4GiB,processes.p.program={program}");
        let Ok(WorkloadSpec::Host(spec)) = WorkloadSpec::parse(&line) else { panic!("the line is right") };
        let target = AddressSpace { capacity_blocks: 1 << 26, block_size: ByteSize::from_bytes(512) };
        let mut host = Host::new(&spec, target, Seed(1)).expect("the line fits the device");
        let start = time::Instant::now();
        let requests = answer_at_once(&mut host);
        let ns = start.elapsed().as_nanos() as f64 / repetitions as f64;
        println!("{ns:6.1} ns per repetition, {requests} requests: {name}");
    }
}

/// Completes each request at its arrival. Returns the number of requests.
fn answer_at_once(host: &mut Host) -> u64 {
    let (mut now, mut requests) = (Instant::ZERO, 0);
    loop {
        match host.next_arrival(now) {
            Arrival::Request(request) => {
                requests += 1;
                host.completed(&completion(request, now));
            }
            Arrival::Reclassification(_) => {}
            Arrival::At(time) => now = time,
            Arrival::WaitForCompletion | Arrival::Finished => return requests,
        }
    }
}

fn completion(request: Request, now: Instant) -> Completion {
    Completion {
        request,
        submitted: now,
        issued: now,
        started: now,
        completed: now,
        breakdown: Breakdown::default(),
        outcome: Outcome::ok(&request),
        buffer: BufferOutcome::None,
        seek_cylinders: 0,
        queue_length: 0,
        faults: FaultSet::NONE,
    }
}
