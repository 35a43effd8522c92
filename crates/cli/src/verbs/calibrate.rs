//! `seeklab calibrate`: measures the time that this machine adds to every emulated request.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use seeklab_core::Duration;
use seeklab_emulator::calibration::{
    Calibration, CalibrationError, Effort, FrontendKind, Machine, NoCalibration, Route, Row,
};
use seeklab_emulator::clock::{Clock, KeptAwake, Processors};
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, print, print_json};
use seeklab_lab::session::Session;
use serde_json::{Value, json};

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
        let path = self.file.clone().map_or_else(Calibration::default_path, Ok).map_err(no_calibration)?;
        let all = self.frontend.is_empty();
        let frontends = if all { FrontendKind::ALL.to_vec() } else { self.frontend.clone() };
        let (clock, effort) = (Clock::start(), Effort::default());
        let mut calibration = Calibration::begin(&effort, clock).map_err(failure)?;
        if !all {
            keep_others(session, &mut calibration, &path);
        }
        let awake = KeptAwake::hold().map(drop);
        if let Err(error) = &awake {
            session.remark(format!("note: processors cannot be kept awake for exact pacing: {error}"));
        }
        let conditions = if awake.is_ok() { &Processors::ALL[..] } else { &[Processors::Asleep] };
        let mut measured = 0;
        'frontends: for frontend in frontends {
            for &processors in conditions {
                session.check()?;
                match measure(session, &mut calibration, Route { frontend, processors }, &effort, clock) {
                    Ok(()) => measured += 1,
                    // What cannot be served here does not keep the rest from being calibrated.
                    Err(error) if all => {
                        session.warn(format!("{frontend} is left out: {}", chain(&error)));
                        continue 'frontends;
                    }
                    Err(error) => return Err(failure(error)),
                }
            }
        }
        if measured == 0 {
            return Err(Failure::new("no frontend could be served, so nothing was calibrated"));
        }
        calibration
            .save_to(&path)
            .map_err(|error| Failure::from(error).context(format!("{}: cannot be kept", path.display())))?;
        if self.json { print_json(&document(&calibration, &path)) } else { print(&page(&calibration, &path)) }
    }
}

/// Keeps the saved results of frontends that are not measured now.
fn keep_others(session: &Session, calibration: &mut Calibration, path: &Path) {
    match Calibration::load_from(path, &Machine::this()) {
        Ok(known) => calibration.frontends = known.frontends,
        Err(NoCalibration::Absent { .. }) => {}
        Err(error) => session.warn(format!("{error}; it is replaced")),
    }
}

fn measure(
    session: &Session,
    calibration: &mut Calibration,
    route: Route,
    effort: &Effort,
    clock: Clock,
) -> Result<(), CalibrationError> {
    let mut bar = None;
    calibration.measure(route, effort, clock, &mut |_, total| {
        let bar = bar.get_or_insert_with(|| session.progress(&route.to_string(), Some(total as u64)));
        // The loop over the frontends ends a calibration that was stopped.
        let _ = bar.big_step();
    })
}

fn failure(error: CalibrationError) -> Failure {
    Failure::chain(&error)
}

fn no_calibration(error: NoCalibration) -> Failure {
    let hint = error.hint();
    Failure::chain(&error).hint(hint)
}

fn chain(error: &dyn std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

fn page(calibration: &Calibration, path: &Path) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "frontend",
        "processors",
        "request",
        "arrival",
        "lateness",
        "completion",
        "spread",
        "floor",
        "floor p99",
    ]);
    for (frontend, row) in rows(calibration) {
        let us = |time: Duration| format!("{:.1}", time.as_us());
        let request = if row.bytes == 0 { row.op.name().to_owned() } else { sized(row) };
        let times = [row.arrival, row.lateness, row.completion, row.spread, row.floor, row.floor_p99].map(us);
        table.add_row(
            [frontend.name().to_owned(), row.processors.name().to_owned(), request].into_iter().chain(times),
        );
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let wakeups = &calibration.wakeups;
    let mut text = format!(
        "Medians in us; floor: the shortest response time that can be emulated; processors awake: as exact pacing\nkeeps them.\n\n{table}\n\n"
    );
    text += &format!(
        "wake-ups  late by p50 {:.1} us, p90 {:.1}, p99 {:.1}, max {:.1} of {}: margin {:.1} us\n",
        wakeups.p50.as_us(),
        wakeups.p90.as_us(),
        wakeups.p99.as_us(),
        wakeups.max.as_us(),
        wakeups.sleeps,
        calibration.margin().as_us()
    );
    text + &format!("kept      {} (for this machine, kernel and boot)\n", path.display())
}

fn sized(row: &Row) -> String {
    let (op, bytes) = (row.op.name(), row.bytes);
    match bytes {
        1024.. if bytes.is_multiple_of(1024) => format!("{op} {} KiB", bytes / 1024),
        _ => format!("{op} {bytes} B"),
    }
}

fn rows(calibration: &Calibration) -> impl Iterator<Item = (FrontendKind, &Row)> {
    calibration.frontends.iter().flat_map(|(frontend, rows)| rows.iter().map(|row| (*frontend, row)))
}

fn document(calibration: &Calibration, path: &Path) -> Value {
    let us = Duration::as_us;
    let rows: Vec<Value> = rows(calibration)
        .map(|(frontend, row)| {
            json!({
                "frontend": frontend.name(),
                "processors": row.processors.name(),
                "op": row.op.name(),
                "bytes": row.bytes,
                "requests": row.requests,
                "arrival_us": us(row.arrival),
                "lateness_us": us(row.lateness),
                "completion_us": us(row.completion),
                "spread_us": us(row.spread),
                "floor_us": us(row.floor),
                "floor_p99_us": us(row.floor_p99),
            })
        })
        .collect();
    let wakeups = &calibration.wakeups;
    json!({
        "version": VERSION,
        "file": path.display().to_string(),
        "measured_at_s": calibration.measured_at_s,
        "machine": calibration.machine,
        "wakeups": {
            "sleeps": wakeups.sleeps,
            "p50_us": us(wakeups.p50),
            "p90_us": us(wakeups.p90),
            "p99_us": us(wakeups.p99),
            "max_us": us(wakeups.max),
        },
        "margin_us": us(calibration.margin()),
        "rows": rows,
    })
}
