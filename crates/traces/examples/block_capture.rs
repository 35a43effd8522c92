//! Captures a block device while a command runs, and prints a summary of the captured requests.
//!
//! ```console
//! # cargo run --release -p seeklab-traces --example block_capture -- /dev/loop0 -- fio job.fio
//! ```
//! The command's own output goes where this program's goes; the summary goes to the standard error.

use std::error::Error;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    use std::path::Path;
    use std::process::Command;
    use std::sync::{Arc, Mutex};

    use seeklab_traces::capture::{Capture, Observed, Options};

    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().ok_or("usage: block_capture DEVICE [--no-queue-times] -- COMMAND...")?;
    let mut options = Options::default();
    let mut next = arguments.next();
    if next.as_deref() == Some("--no-queue-times") {
        options.queue_times = false;
        next = arguments.next();
    }
    let (Some("--"), Some(command)) = (next.as_deref(), arguments.next()) else {
        return Err("usage: block_capture DEVICE [--no-queue-times] -- COMMAND...".into());
    };

    let totals = Arc::new(Mutex::new((0_u64, 0_u64)));
    let sink = {
        let totals = Arc::clone(&totals);
        move |observed| {
            if let Observed::Request(request) = observed {
                let mut totals = totals.lock().expect("nobody panics with it");
                totals.0 += request.length_bytes;
                totals.1 += request.completion.saturating_since(request.issue).as_ns();
            }
        }
    };
    let capture = Capture::start(Path::new(&device), &options, sink)
        .map_err(|error| format!("{error}\nhint: {}", error.hint().unwrap_or_default()))?;
    let status = Command::new(command).args(arguments).status()?;
    let captured = capture.finish()?;
    let (bytes, busy_ns) = *totals.lock().expect("nobody panics with it");
    eprintln!("{captured:#?}");
    let mean_us = busy_ns as f64 / 1e3 / captured.completed.max(1) as f64;
    eprintln!("{bytes} bytes, {mean_us:.1} us from issue to completion in the mean");
    eprintln!("{:.2} s of processor used by the capture", processor_s()?);
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Processor time of this process so far, without its children, in seconds.
#[cfg(target_os = "linux")]
fn processor_s() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Fields 14 and 15, in hundredths of a second; the name before them may have spaces.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has no `)`")?;
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    Err("block devices are captured on Linux only".into())
}
