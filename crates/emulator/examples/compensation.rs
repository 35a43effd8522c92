//! Effect of compensation by a fresh calibration on the error at MP1: runs without and with it, side by side.
//!
//! ```text
//! cargo run --release -p seeklab-emulator --example compensation -- [FRONTEND [PAIRS]]
//! ```
//! A device that takes 1 ms serves 4 KiB reads and writes, 200 in a run, a millisecond apart; runs without
//! and with compensation alternate. The error is the response time at MP1 less 1 ms.

use std::error::Error;

use seeklab_core::{Duration, Operation};
use seeklab_emulator::calibration::{Calibration, Effort, FrontendKind, Route, Served, Setting, Stream};
use seeklab_emulator::clock::{Clock, Pacing, Processors};
use seeklab_emulator::pacer::Compensation;

const SERVICE_TIME: Duration = Duration::from_ms(1);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let frontend = arguments.first().map_or(Ok(FrontendKind::NbdUnix), |name| name.parse())?;
    let pairs = arguments.get(1).map_or(Ok(5), |pairs| pairs.parse::<usize>())?;
    let (clock, effort) = (Clock::start(), Effort { sizes: &[4 << 10, 64 << 10], ..Effort::default() });
    let mut calibration = Calibration::begin(&effort, clock)?;
    let route = Route { frontend, processors: Processors::Asleep };
    calibration.measure(route, &effort, clock, &mut |_, _| {})?;
    for row in calibration.rows(route) {
        let us = [row.arrival, row.lateness, row.completion, row.spread].map(Duration::as_us);
        println!(
            "{} {} bytes: arrival {:.1}, lateness {:.1}, completion {:.1}, spread {:.1} us",
            row.op.name(),
            row.bytes,
            us[0],
            us[1],
            us[2],
            us[3]
        );
    }
    let compensation = calibration.compensation(route, 512, Pacing::Balanced).ok_or("not calibrated")?;
    let recheck = calibration.recheck(route, clock)?;
    let rechecked = recheck.as_ref().map_or(compensation, |recheck| recheck.adjust(compensation));
    println!("{}", recheck.map(|recheck| recheck.to_string()).unwrap_or_default());
    println!("op     pair  error without  error with     with, rechecked (p50 us, p90 us)");
    for pair in 1..=pairs {
        for op in [Operation::Read, Operation::Write] {
            let mut line = format!("{:6} {pair:4}", op.name());
            for compensation in [Compensation::default(), compensation, rechecked] {
                let (pacing, margin) = (Pacing::Balanced, calibration.margin());
                let setting = Setting { frontend, service_time: SERVICE_TIME, pacing, margin, compensation };
                let mut served = Served::start(setting, clock)?;
                let stream = Stream { op, bytes: 4096, requests: 200, pause: Duration::from_ms(1) };
                served.run(Stream { requests: 20, ..stream })?;
                let samples = served.run(stream)?;
                served.finish()?;
                let mut errors: Vec<f64> =
                    samples.iter().map(|sample| sample.response.as_us() - SERVICE_TIME.as_us()).collect();
                errors.sort_by(f64::total_cmp);
                line += &format!("  {:6.1} {:6.1}", errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
            }
            println!("{line}");
        }
    }
    Ok(())
}
