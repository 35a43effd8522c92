//! What a time stamp costs, by the processor's counter and by the system.
//!
//! ```text
//! cargo bench -p seeklab-emulator --bench clock
//! ```
//! Under `cargo test` it runs tiny.

use seeklab_emulator::clock::{Clock, monotonic_ns};

fn main() {
    let tiny = !std::env::args().any(|argument| argument == "--bench");
    let stamps = if tiny { 1_000 } else { 20_000_000 };
    for (name, clock) in
        [("Clock::start", Clock::start()), ("Clock::start_by_system", Clock::start_by_system())]
    {
        clock.settle();
        let ns = |stamp: &dyn Fn() -> u64| {
            let begin = monotonic_ns();
            let mixed = (0..stamps).fold(0, |mixed, _| mixed ^ stamp());
            std::hint::black_box(mixed);
            (monotonic_ns() - begin) as f64 / stamps as f64
        };
        let (now, check) = (ns(&|| clock.now().as_ns()), ns(&|| u64::from(clock.check())));
        println!("{name}: {now:.1} ns a stamp, {check:.1} ns a check; {:?}", clock.report());
    }
}
