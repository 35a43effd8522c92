//! Measures the time to draw a request: `cargo bench -p seeklab-workloads`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock and its arguments"
)]

use std::hint::black_box;
use std::time;

use seeklab_core::{Arrival, ByteSize, Instant, Seed, Workload};
use seeklab_workloads::{AddressSpace, Supplied, Synthetic, SyntheticSpec};

const LINES: &[&str] = &[
    "size=8KiB,align=8KiB,read=66%,poisson=100/s",
    "random,poisson=100/s",
    "size=4KiB:3+64KiB:1,sequential=20%,local=30%,local_distance=20MiB,read=66%,poisson=100/s",
    "size=8KiB,align=8KiB,zipf=0.9,read=66%,poisson=100/s",
    "size=8KiB,address.distribution=hot,address.zones=10%:80%,read=66%,constant=100/s",
];

fn main() {
    // `cargo test --benches` runs the small size, so that the benchmark never rots.
    let large = std::env::args().any(|argument| argument == "--bench");
    let requests: u64 = if large { 20_000_000 } else { 1_000 };
    for line in LINES {
        let spec = SyntheticSpec::parse(&format!("{line},requests={requests}")).expect("the line is right");
        let target = AddressSpace { capacity_blocks: 1 << 26, block_size: ByteSize::from_bytes(512) };
        let mut workload =
            Synthetic::new(&spec, target, Seed(1), Supplied::default()).expect("the line fits the device");
        let start = time::Instant::now();
        let mut now = Instant::ZERO;
        let mut sum = 0_u64;
        loop {
            match workload.next_arrival(now) {
                Arrival::Request(request) => sum = sum.wrapping_add(request.lbn),
                Arrival::Reclassification(_) => {}
                Arrival::At(time) => now = time,
                Arrival::WaitForCompletion | Arrival::Finished => break,
            }
        }
        black_box(sum);
        println!("{:6.1} ns per request: {line}", start.elapsed().as_nanos() as f64 / requests as f64);
    }
}
