//! Meets deadlines and does nothing else: what this machine allows, to be set beside an emulation.
//!
//! ```text
//! cargo run --release -p seeklab-emulator --example empty_loop -- COUNT SERVICE_US PAUSE_US
//! cargo run --release -p seeklab-emulator --example empty_loop -- - < DEADLINES
//! ```
//! Waits as the emulator does under `--pacing exact`: each deadline is SERVICE_US after the loop begins to
//! wait for it, with PAUSE_US asleep before. With `-`, deadlines are lines of standard input, in ns from the begin of the
//! loop and ascending, and it waits as `bench` does. Prints how late it was as one JSON document.

use std::error::Error;

use seeklab_core::{Duration, Instant};
use seeklab_emulator::calibration::Calibration;
use seeklab_emulator::clock::{Clock, DEFAULT_MARGIN, Pacing, Waiter, wake_this_thread_exactly};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let late_ns = if arguments == ["-"] { of_schedule()? } else { of_services(&arguments)? };
    println!("{}", json!({ "lateness_ns": late_ns }));
    Ok(())
}

/// Lateness at each deadline of standard input, in their order.
fn of_schedule() -> Result<Vec<u64>, Box<dyn Error>> {
    let deadlines_ns: Vec<u64> =
        std::io::read_to_string(std::io::stdin())?.lines().map(str::parse).collect::<Result<_, _>>()?;
    wake_this_thread_exactly();
    let clock = Clock::start();
    let mut waiter = Waiter::new(clock, Pacing::default(), DEFAULT_MARGIN);
    let late = deadlines_ns.into_iter().map(|ns| {
        let deadline = Instant::from_ns(ns);
        waiter.wait_until(deadline).saturating_since(deadline).as_ns()
    });
    Ok(late.collect())
}

/// Lateness at `COUNT` deadlines of their own, ascending.
fn of_services(arguments: &[String]) -> Result<Vec<u64>, Box<dyn Error>> {
    let numbers: Vec<u64> = arguments.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let &[count, service_us, pause_us] = numbers.as_slice() else {
        return Err(
            "give COUNT, SERVICE_US and PAUSE_US, for example 1000 5000 10000, or - and deadlines".into()
        );
    };
    let margin = Calibration::load().map_or(DEFAULT_MARGIN, |calibration| calibration.margin());
    wake_this_thread_exactly();
    let clock = Clock::start();
    let mut waiter = Waiter::new(clock, Pacing::Exact, margin);
    let mut idle = Waiter::new(clock, Pacing::Frugal, margin);
    let mut late_ns: Vec<u64> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let now = idle.wait_until(clock.now() + Duration::from_us(pause_us));
        let deadline = now + Duration::from_us(service_us);
        late_ns.push(waiter.wait_until(deadline).saturating_since(deadline).as_ns());
    }
    late_ns.sort_unstable();
    Ok(late_ns)
}
