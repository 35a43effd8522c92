//! Cost of a time stamp.
//!
//! ```text
//! cargo bench -p seeklab-emulator --bench clock
//! ```
//! Under `cargo test` it runs tiny.

use seeklab_emulator::clock::{Clock, monotonic_ns};

fn main() {
    let tiny = !std::env::args().any(|argument| argument == "--bench");
    let stamps = if tiny { 1_000 } else { 20_000_000 };
    let clock = Clock::start();
    let begin = monotonic_ns();
    let mixed = (0..stamps).fold(0, |mixed, _| mixed ^ clock.now().as_ns());
    std::hint::black_box(mixed);
    println!("{:.1} ns a stamp", (monotonic_ns() - begin) as f64 / f64::from(stamps));
}
