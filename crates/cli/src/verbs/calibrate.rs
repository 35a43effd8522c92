//! `seeklab calibrate`: measures the time that this machine adds to every emulated request.

use std::path::PathBuf;

use clap::Args;
use seeklab_lab::calibrate::{CalibrationOptions, CalibrationResult, CalibrationRow, calibrate};
use seeklab_lab::crates::emulator::calibration::FrontendKind;
use seeklab_lab::crates::report::TextTable;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Examples:
  seeklab calibrate
  seeklab calibrate --frontend nbd
  seeklab calibrate --json > calibration.json";

/// Measures the time that this machine adds to every emulated request, and saves it for `serve` and `run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Calibrate only this frontend and keep the results of the others: nbd (over a unix socket), nbd-tcp, fuse,
    /// block [default: all]
    #[arg(long, value_name = "NAME")]
    frontend: Vec<FrontendKind>,
    /// File to save the calibration in [default: calibration.json in the user's state directory]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let options = CalibrationOptions { frontends: self.frontend, file: self.file };
        let result = calibrate(session, &options)?;
        if self.json { print_json(&result) } else { print(&page(&result)) }
    }
}

fn page(result: &CalibrationResult) -> String {
    let mut table = TextTable::new([
        "frontend",
        "processors",
        "request",
        "arrival",
        "lateness",
        "completion",
        "spread",
        "floor",
        "floor p99",
    ])
    .with_keys(3)
    .with_texts(3);
    for row in &result.rows {
        let times = [
            row.arrival_us,
            row.lateness_us,
            row.completion_us,
            row.spread_us,
            row.floor_us,
            row.floor_p99_us,
        ];
        let cells = [row.frontend.to_owned(), row.processors.name().to_owned(), request(row)];
        table.push(cells.into_iter().chain(times.map(|us| format!("{us:.1}"))));
    }
    let wakeups = &result.wakeups;
    format!(
        "Medians in us. floor: the shortest response time that can be emulated.\n\
         processors awake: as exact pacing keeps them.\n\n{}\n\n\
         wake-ups  late by p50 {:.1} us, p90 {:.1}, p99 {:.1}, max {:.1} of {} sleeps\n\
         margin    {:.1} us\n\
         saved     {} (for this machine, kernel and boot)\n",
        table.render(),
        wakeups.p50_us,
        wakeups.p90_us,
        wakeups.p99_us,
        wakeups.max_us,
        wakeups.sleeps,
        result.margin_us,
        result.file.display()
    )
}

/// Returns the operation with its size.
fn request(row: &CalibrationRow) -> String {
    let (op, bytes) = (row.op.name(), row.bytes);
    match bytes {
        0 => op.to_owned(),
        1024.. if bytes.is_multiple_of(1024) => format!("{op} {} KiB", bytes / 1024),
        _ => format!("{op} {bytes} B"),
    }
}
