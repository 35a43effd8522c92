//! The folder of a run: everything that is measured, as it comes, and in its last form at the end.
//!
//! ```text
//! begin ─▶ run.json (running) ─▶ interval, interval, … ─▶ run.json (complete, stopped, failed)
//!                                 │                        intervals.parquet, response.hlog, service.hlog, events.jsonl
//!                                 └─▶ intervals.parquet.part (CSV), response.hlog, service.hlog, events.jsonl
//! ```
//! # Scope and limits
//! Appended figures outlive `kill -9`. If the disk becomes full, the run goes on, its intervals stay in memory, and a
//! [`Reserve`] keeps space for their last form.

mod events;
mod histograms;
mod intervals;
#[cfg(test)]
mod reference;
mod reserve;
mod unfinished;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use seeklab_bench::counters::Counters;
use seeklab_bench::target::TargetKind;
use seeklab_bench::{Draining, Interval, Part};
use seeklab_columnar::write_table;
use seeklab_core::{Duration, Instant};
use seeklab_files::{PartFile, check_folder, check_writable, write};
use serde_json::json;

use super::counters;
use super::figures::BenchFigures;
use super::options::{BenchOptions, PhaseOptions};
use super::phase::PhaseRun;
use super::run_document::{RUN_FILE, RunFacts, RunState, time_of_day, unix_s};
use super::targets::ReadyTarget;
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;

pub use unfinished::{is_run_under_way, unfinished_run};

use events::EventLog;
use histograms::{HistogramLog, Time};
use intervals::{IntervalColumn, IntervalRow, RowPlace};
use reserve::Reserve;

/// Names of the files that a run may leave, for a run that replaces it.
const FILES: &[&str] = &[
    RUN_FILE,
    "report.html",
    INTERVALS,
    "intervals.parquet.part",
    "response.hlog",
    "service.hlog",
    EVENTS,
    counters::FILE,
    "counters.parquet.part",
    TRACE,
    "trace.parquet.part",
    ".reserve",
];
const INTERVALS: &str = "intervals.parquet";
const EVENTS: &str = "events.jsonl";
/// Name of the trace of a run that is recorded.
pub const TRACE: &str = "trace.parquet";

/// The folder of a run that goes on.
#[derive(Debug)]
pub(super) struct RunFolder {
    path: PathBuf,
    facts: RunFacts,
    begun: Option<SystemTime>,
    reserve: Option<Reserve>,
    part: Option<PartFile>,
    logs: [HistogramLog; Time::ALL.len()],
    events: EventLog,
    phase: CurrentPhase,
    /// Failures to append; those at the end count, too.
    failures: Vec<Failure>,
}

/// The phase that is measured.
#[derive(Debug, Default)]
struct CurrentPhase {
    name: String,
    repetition: u64,
    streams: Vec<String>,
    from: Duration,
}

/// Checks before the work that a run can be kept in `folder`, and makes the folder. Returns true if it was not there.
///
/// # Errors
/// If it holds another run, or cannot be written.
pub(super) fn check(folder: &Path, is_fresh: bool) -> Result<bool, Failure> {
    check_folder(folder)?;
    if let Some(part) = PartFile::existing(&folder.join(INTERVALS))?.filter(|part| part.is_written) {
        return Err(Failure::new(format!("{}: another run writes it", part.path.display()))
            .hint("name another folder, or wait for its end"));
    }
    let held = FILES.iter().find(|file| folder.join(file).exists());
    if let Some(file) = held.filter(|_| !is_fresh) {
        return Err(Failure::new(format!(
            "{}: holds the results of another run, `{file}`",
            folder.display()
        ))
        .hint("name another folder, or add --fresh to replace that run"));
    }
    let is_made = !folder.exists();
    fs::create_dir_all(folder)
        .map_err(|error| Failure::from(error).context(format!("{}: cannot be made", folder.display())))?;
    check_writable(&folder.join(RUN_FILE))?;
    Ok(is_made)
}

impl RunFolder {
    /// A run begins. The files of another run go; [`check`] has allowed that.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(super) fn begin(
        session: &Session,
        options: &BenchOptions,
        targets: &[ReadyTarget],
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = &options.folder else { return Ok(None) };
        for file in FILES {
            match fs::remove_file(path.join(file)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Failure::from(error).context(path.join(file).display()));
                }
                _ => {}
            }
        }
        let is_virtual = options.targets.iter().any(|target| TargetKind::of(&target.address).0.is_virtual);
        let begun = (!is_virtual).then(time_of_day);
        let mut this = Self {
            path: path.clone(),
            facts: RunFacts::new(session, options, targets),
            begun,
            reserve: Some(Reserve::take(path)?),
            part: PartFile::create(&path.join(INTERVALS))?,
            logs: Time::ALL.map(|time| HistogramLog::begin(time, VERSION, begun)),
            events: EventLog::default(),
            phase: CurrentPhase::default(),
            failures: Vec::new(),
        };
        this.write_facts(None)?;
        if let Some(part) = &mut this.part {
            part.append(intervals::csv_heading().as_bytes())?;
        }
        Ok(Some(this))
    }

    /// A phase begins, so long after the run.
    pub(super) fn begin_phase(&mut self, phase: &PhaseOptions, repetition: u64, from: Duration) {
        self.phase = CurrentPhase {
            name: phase.name.clone(),
            repetition: repetition + 1,
            streams: phase.streams.iter().map(|stream| stream.name.clone()).collect(),
            from,
        };
        self.events.phase_begin(from, phase, repetition + 1);
        self.append_events();
    }

    /// The last requests of a phase are waited for.
    pub(super) fn draining(&mut self, draining: &Draining) {
        let at = self.phase.from + draining.at.saturating_since(Instant::ZERO);
        self.events.draining(&self.phase.name, at, draining);
        if !self.is_full() {
            self.append_events();
        }
    }

    /// An interval is over.
    pub(super) fn interval(&mut self, session: &Session, interval: &Interval) {
        let until = self.phase.from + interval.part.until.saturating_since(Instant::ZERO);
        self.events.interval(&self.phase.name, until, interval);
        if self.is_full() {
            return;
        }
        let mut rows = String::new();
        for (stream, part) in self.phase.streams.iter().zip(&interval.streams) {
            let phase = &self.phase;
            let from = phase.from + part.from.saturating_since(Instant::ZERO);
            let (repetition, number) = (phase.repetition, interval.index + 1);
            let place = RowPlace { phase: &phase.name, repetition, stream, interval: number, from };
            IntervalRow::of(place, part).iter().for_each(|row| rows += &intervals::csv_row(row));
            let tag = tag(&phase.name, repetition, stream);
            for log in &mut self.logs {
                self.failures.extend(log.add(&tag, from, part).err());
            }
        }
        let mut written =
            self.part.as_mut().map_or(Ok(()), |part| part.append(rows.as_bytes()).map_err(Failure::from));
        let mut bytes = rows.len();
        for (time, log) in Time::ALL.into_iter().zip(&mut self.logs) {
            let lines = log.take();
            bytes += lines.len();
            written = written.and_then(|()| append(&self.path.join(time.file()), &lines));
        }
        let reserve = self.reserve.as_mut();
        let became_full = match written {
            Ok(()) => reserve.is_some_and(|reserve| reserve.appended(bytes)),
            Err(failure) => {
                session.warn(format!("{failure}; the run goes on, and its intervals are written at the end"));
                self.failures.push(failure);
                reserve.into_iter().for_each(Reserve::set_full);
                false
            }
        };
        if became_full {
            let problem = format!("{}: no space left on its disk", self.path.display());
            session.warn(format!("{problem}; the run goes on, and its intervals are written at the end"));
            self.failures.push(Failure::new(problem));
        }
        if self.is_full() {
            self.events.add(until, "disk_full", json!({}));
        } else {
            self.append_events();
        }
    }

    /// A phase is over.
    pub(super) fn end_phase(&mut self, run: &PhaseRun) {
        self.events.phase_end(&self.phase.name, run);
        if !self.is_full() {
            self.append_events();
        }
    }

    /// The measurement is over: writes the last form of everything but `run.json`.
    pub(super) fn complete(&mut self, options: &BenchOptions, runs: &[PhaseRun], counted: Option<&Counters>) {
        // The results take the space now.
        self.reserve = None;
        let mut written = vec![(INTERVALS, self.write_intervals(options, runs))];
        for time in Time::ALL {
            written.push((time.file(), self.write_log(time, options, runs)));
        }
        if let Some(counted) = counted {
            written.push((counters::FILE, counters::write(&self.path, counted)));
        }
        let events = self.events.take();
        written.push((EVENTS, append(&self.path.join(EVENTS), events.as_bytes())));
        for (file, result) in written {
            match result {
                Ok(()) => self.facts.files.push(file.to_owned()),
                Err(failure) => self.failures.push(failure),
            }
        }
        if self.facts.files.iter().any(|file| file == INTERVALS)
            && let Some(part) = self.part.take()
        {
            self.failures.extend(part.remove().err().map(Failure::from));
        }
    }

    /// The run is over, with these figures and perhaps a failed check.
    ///
    /// # Errors
    /// If something could not be written.
    pub(super) fn finish(mut self, figures: &BenchFigures, failure: Option<&Failure>) -> Result<(), Failure> {
        for target in &mut self.facts.targets {
            let mut streams = figures.phases.iter().flat_map(|phase| &phase.streams);
            let capacity = streams.find(|stream| stream.target == target.target);
            target.capacity_bytes = capacity.map(|stream| stream.capacity_bytes).or(target.capacity_bytes);
        }
        let state = if figures.stopped { RunState::Stopped } else { RunState::Complete };
        self.end(state, failure.or(self.failures.first()).map(ToString::to_string));
        let written = self.write_facts(Some(figures));
        self.failures.extend(written.err());
        Failure::all(self.failures).map_or(Ok(()), Err)
    }

    /// The run failed or was stopped without figures. A folder that cannot be written keeps the state of its begin.
    pub(super) fn fail(mut self, failure: &Failure, is_stopped: bool) {
        self.reserve = None;
        let state = if is_stopped { RunState::Stopped } else { RunState::Failed };
        self.end(state, Some(failure.to_string()));
        let _ = self.write_facts(None);
    }

    fn end(&mut self, state: RunState, failure: Option<String>) {
        self.facts.state = state;
        self.facts.ended_unix_s = Some(unix_s());
        self.facts.failure = failure;
    }

    fn is_full(&self) -> bool {
        self.reserve.as_ref().is_some_and(Reserve::is_full)
    }

    fn write_facts(&self, figures: Option<&BenchFigures>) -> Result<(), Failure> {
        Ok(write(&self.path.join(RUN_FILE), self.facts.document(figures).as_bytes())?)
    }

    fn append_events(&mut self) {
        let lines = self.events.take();
        self.failures.extend(append(&self.path.join(EVENTS), lines.as_bytes()).err());
    }

    fn write_intervals(&self, options: &BenchOptions, runs: &[PhaseRun]) -> Result<(), Failure> {
        let rows = parts(options, runs).flat_map(|(place, part)| IntervalRow::of(place, part));
        let columns = intervals::table(rows);
        let mut metadata = vec![
            ("table".to_owned(), intervals::TABLE.to_owned()),
            ("table_version".to_owned(), intervals::VERSION.to_string()),
            ("version".to_owned(), VERSION.to_owned()),
            ("seed".to_owned(), options.seed.0.to_string()),
        ];
        let meaning =
            |column: &IntervalColumn| (format!("column.{}", column.name), column.meaning.to_owned());
        metadata.extend(intervals::COLUMNS.iter().map(meaning));
        let metadata: Vec<(&str, String)> =
            metadata.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        Ok(write_table(&self.path.join(INTERVALS), &columns, &metadata)?)
    }

    fn write_log(&self, time: Time, options: &BenchOptions, runs: &[PhaseRun]) -> Result<(), Failure> {
        let mut log = HistogramLog::begin(time, VERSION, self.begun);
        for (place, part) in parts(options, runs) {
            log.add(&tag(place.phase, place.repetition, place.stream), place.from, part)?;
        }
        Ok(write(&self.path.join(time.file()), &log.take())?)
    }
}

/// The parts of all intervals and streams, with their places, in the order of time.
fn parts<'a>(
    options: &'a BenchOptions,
    runs: &'a [PhaseRun],
) -> impl Iterator<Item = (RowPlace<'a>, &'a Part)> {
    runs.iter().flat_map(move |run| {
        let phase = run.options(options);
        run.measurement.intervals.iter().flat_map(move |interval| {
            phase.streams.iter().zip(&interval.streams).map(move |(stream, part)| {
                let from = run.from + part.from.saturating_since(Instant::ZERO);
                let (repetition, number) = (run.repetition + 1, interval.index + 1);
                (
                    RowPlace { phase: &phase.name, repetition, stream: &stream.name, interval: number, from },
                    part,
                )
            })
        })
    })
}

/// Begin of the tag of a histogram.
fn tag(phase: &str, repetition: u64, stream: &str) -> String {
    match repetition {
        1 => format!("{phase}/{stream}"),
        _ => format!("{phase}#{repetition}/{stream}"),
    }
}

/// Appends to a file, which is made if it is not there.
fn append(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let append = || OpenOptions::new().append(true).create(true).open(path)?.write_all(bytes);
    append().map_err(|error: std::io::Error| {
        Failure::from(error).context(format!("{}: cannot be written", path.display()))
    })
}
