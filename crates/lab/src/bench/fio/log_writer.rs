//! Writes the logs of fio jobs while they run.
//!
//! ```text
//! rows of a stream (in order of arrival) ─▶ heap (in order of completion) ─▶ windows ─▶ lines ─▶ files
//! ```
//! # Scope and limits
//! A log is there when the run has ended. Until then its lines are on the disk without a name.
//!
//! # References
//! fio 3.33. stat.c: add_log_sample, add_bw_sample, calc_log_samples. iolog.c: flush_samples.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use seeklab_core::{Duration, Instant, Operation, TraceRecord};
use seeklab_files::{FileError, OutputFile};

use super::logs::{FioLog, FioLogFigure};
use crate::failure::Failure;

/// Class of real-time requests in the number of a priority.
const REAL_TIME: u16 = 1;
/// Bits of the level and the hints in the number of a priority.
const CLASS_SHIFT: u16 = 13;
/// Reads, writes and trims, in the order of fio's numbers.
const DIRECTIONS: usize = 3;
/// Time by which fio may end a window of rates early.
const SLACK_MS: u64 = 1;

/// A request that was carried out. Their order is that of their completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sample {
    completed: Instant,
    /// Breaks ties: the order of the rows.
    number: u64,
    direction: usize,
    offset: u64,
    bytes: u64,
    response_ns: u64,
    service_ns: u64,
}

/// Sums of a direction since the begin of its window.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    count: u64,
    sum: f64,
    greatest: u64,
    bytes: u64,
}

impl Window {
    fn add(&mut self, value: u64, bytes: u64) {
        self.count += 1;
        self.sum += value as f64;
        self.greatest = self.greatest.max(value);
        self.bytes += bytes;
    }
}

/// A log whose job runs.
#[derive(Debug)]
struct OpenLog {
    log: FioLog,
    /// Number of its file.
    file: usize,
    windows: [Window; DIRECTIONS],
    /// Begin of the window of each direction in ms, of times.
    begins: [u64; DIRECTIONS],
    /// End of the window of all directions in ms, of rates.
    end_ms: u64,
}

/// A file of logs.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// `None` if it cannot be written any more.
    writer: Option<BufWriter<OutputFile>>,
}

/// Requests of a stream in order of completion, as far as it is known.
#[derive(Debug, Default)]
struct Order {
    waiting: BinaryHeap<Reverse<Sample>>,
    rows: u64,
}

/// The logs of a run.
#[derive(Debug, Default)]
pub(in crate::bench) struct FioLogWriter {
    logs: Vec<FioLog>,
    files: Vec<LogFile>,
    /// By stream of the phase that is measured: order of its rows, size of its blocks, logs.
    open: Vec<(Order, u64, Vec<OpenLog>)>,
    failures: Vec<Failure>,
}

impl FioLogWriter {
    /// Opens the files of these logs.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(in crate::bench) fn begin(logs: &[FioLog]) -> Result<Self, FileError> {
        let mut files: Vec<LogFile> = Vec::new();
        for log in logs {
            if files.iter().all(|file| file.path != log.path) {
                let writer = BufWriter::with_capacity(1 << 16, OutputFile::create(&log.path)?);
                files.push(LogFile { path: log.path.clone(), writer: Some(writer) });
            }
        }
        Ok(Self { logs: logs.to_vec(), files, ..Self::default() })
    }

    /// A phase begins, whose streams have targets with blocks of these sizes.
    pub(in crate::bench) fn begin_phase(&mut self, phase: usize, block_bytes: &[u64]) {
        let files = &self.files;
        let open = |log: &FioLog| OpenLog {
            file: files.iter().position(|file| file.path == log.path).unwrap_or_default(),
            windows: [Window::default(); DIRECTIONS],
            begins: [0; DIRECTIONS],
            end_ms: log.window_ms.unwrap_or(0),
            log: log.clone(),
        };
        let of_stream =
            |stream| self.logs.iter().filter(move |log| (log.phase, log.stream) == (phase, stream));
        let streams = block_bytes.iter().enumerate();
        self.open = streams
            .map(|(stream, bytes)| (Order::default(), *bytes, of_stream(stream).map(open).collect()))
            .collect();
    }

    /// Rows of a stream, in order of arrival. Returns a failure to write them, once for each file.
    pub(in crate::bench) fn rows(&mut self, stream: usize, rows: &[TraceRecord]) -> Option<String> {
        let failures = self.failures.len();
        let of_stream = self.open.get_mut(stream).filter(|of| !of.2.is_empty());
        let (order, block_bytes, logs) = of_stream?;
        for row in rows {
            // Later rows arrive later, and so end later.
            while order.waiting.peek().is_some_and(|Reverse(first)| first.completed < row.arrival) {
                let Some(Reverse(sample)) = order.waiting.pop() else { break };
                logs.iter_mut().for_each(|log| log.take(&sample, &mut self.files, &mut self.failures));
            }
            order.waiting.extend(Sample::of(row, order.rows, *block_bytes).map(Reverse));
            order.rows += 1;
        }
        self.failures.get(failures).map(ToString::to_string)
    }

    /// The phase is over. `ends` are those of its streams, which no time that was planned follows if it was cut short.
    pub(in crate::bench) fn end_phase(&mut self, ends: &[Instant], is_cut: bool) {
        for ((mut order, _, mut logs), end) in std::mem::take(&mut self.open).into_iter().zip(ends) {
            while let Some(Reverse(sample)) = order.waiting.pop() {
                logs.iter_mut().for_each(|log| log.take(&sample, &mut self.files, &mut self.failures));
            }
            for log in &mut logs {
                let planned =
                    log.log.length.filter(|_| !is_cut).map(|length| Instant::ZERO + log.log.from + length);
                log.finish(
                    planned.map_or(*end, |planned| planned.max(*end)),
                    &mut self.files,
                    &mut self.failures,
                );
            }
        }
    }

    /// Gives the files their names. Returns why some are incomplete.
    pub(in crate::bench) fn finish(mut self) -> Option<Failure> {
        for file in &mut self.files {
            let Some(writer) = file.writer.take() else { continue };
            let written = writer.into_inner().map_err(|error| file.failure(&error.into_error()));
            let finished = written.and_then(|output| output.finish().map_err(Failure::from));
            self.failures.extend(finished.err());
        }
        Failure::all(self.failures)
    }
}

impl LogFile {
    fn failure(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("{}: cannot be written: {error}", self.path.display()))
    }
}

impl Sample {
    /// A row of a request that fio logs: one that was carried out, and no flush.
    fn of(row: &TraceRecord, number: u64, block_bytes: u64) -> Option<Self> {
        let direction = match row.op {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Discard => 2,
            _ => return None,
        };
        let completed = row.completion.filter(|_| row.status.is_success())?;
        let since = |begin: Instant| completed.saturating_since(begin).as_ns();
        Some(Self {
            completed,
            number,
            direction,
            offset: row.lbn * block_bytes,
            bytes: u64::from(row.blocks) * block_bytes,
            response_ns: since(row.arrival),
            service_ns: since(row.issue.unwrap_or(row.arrival)),
        })
    }
}

impl OpenLog {
    fn take(&mut self, sample: &Sample, files: &mut [LogFile], failures: &mut Vec<Failure>) {
        let from = Instant::ZERO + self.log.from;
        if self.log.figure == FioLogFigure::Submission || sample.completed < from {
            return;
        }
        let now_ms = ms(sample.completed.saturating_since(from));
        let value = match self.log.figure {
            FioLogFigure::Response => sample.response_ns,
            FioLogFigure::Service => sample.service_ns,
            FioLogFigure::Iops => 1,
            _ => (sample.bytes * 1_000_000).checked_div(sample.service_ns).unwrap_or(0),
        };
        let Some(length) = self.log.window_ms else {
            let row = Row { ms: now_ms, value, bytes: sample.bytes, offset: sample.offset, of_request: true };
            return self.write(sample.direction, &row, files, failures);
        };
        let window = sample.direction;
        if self.is_of_rates() {
            if now_ms >= self.end_ms {
                self.end_windows(length, files, failures);
                self.end_ms = now_ms - now_ms % length + length;
            }
            return self.windows[window].add(value, sample.bytes);
        }
        self.windows[window].add(value, sample.bytes);
        if now_ms >= self.begins[window] + length {
            self.end_window(window, now_ms, files, failures);
            self.begins[window] = now_ms - now_ms % length;
        }
    }

    /// The job has ended.
    fn finish(&mut self, end: Instant, files: &mut [LogFile], failures: &mut Vec<Failure>) {
        let Some(length) = self.log.window_ms else { return };
        let end_ms = ms(end.saturating_since(Instant::ZERO + self.log.from));
        if self.is_of_rates() {
            // As in fio, a window that the job does not fill has no row.
            if end_ms + SLACK_MS >= self.end_ms {
                self.end_windows(length, files, failures);
            }
            return;
        }
        (0..DIRECTIONS).for_each(|direction| self.end_window(direction, end_ms, files, failures));
    }

    const fn is_of_rates(&self) -> bool {
        matches!(self.log.figure, FioLogFigure::Bandwidth | FioLogFigure::Iops)
    }

    /// Writes the rates of the window of all directions.
    fn end_windows(&mut self, length: u64, files: &mut [LogFile], failures: &mut Vec<Failure>) {
        for direction in 0..DIRECTIONS {
            let window = std::mem::take(&mut self.windows[direction]);
            let value = match self.log.figure {
                FioLogFigure::Iops => window.count * 1_000 / length,
                _ => window.bytes * 1_000 / length / 1_024,
            };
            if window.count > 0 {
                let row = Row { ms: self.end_ms, value, bytes: 0, offset: 0, of_request: false };
                self.write(direction, &row, files, failures);
            }
        }
    }

    /// Writes the time of the window of a direction.
    fn end_window(&mut self, of: usize, now_ms: u64, files: &mut [LogFile], failures: &mut Vec<Failure>) {
        let window = std::mem::take(&mut self.windows[of]);
        if window.count == 0 {
            return;
        }
        let value = match self.log.takes_greatest {
            true => window.greatest,
            false => (window.sum / window.count as f64 + 0.5) as u64,
        };
        let row = Row { ms: now_ms, value, bytes: 0, offset: 0, of_request: false };
        self.write(of, &row, files, failures);
    }

    fn write(&self, direction: usize, row: &Row, files: &mut [LogFile], failures: &mut Vec<Failure>) {
        let file = &mut files[self.file];
        let Some(writer) = &mut file.writer else { return };
        // Rows of windows have none.
        let priority = if row.of_request { self.log.priority } else { 0 };
        let line = |out: &mut BufWriter<OutputFile>| {
            write!(out, "{}, {}, {direction}, {}", row.ms, row.value, row.bytes)?;
            if self.log.has_offsets {
                write!(out, ", {}", row.offset)?;
            }
            match self.log.has_priorities {
                true => writeln!(out, ", {priority:#06x}"),
                false => writeln!(out, ", {}", u8::from(priority >> CLASS_SHIFT == REAL_TIME)),
            }
        };
        if let Err(error) = line(writer) {
            failures.push(file.failure(&error));
            // Its space is free for the results of the run.
            file.writer = None;
        }
    }
}

/// A row of a log.
struct Row {
    ms: u64,
    value: u64,
    bytes: u64,
    offset: u64,
    /// It is of a request, and not of a window.
    of_request: bool,
}

const fn ms(time: Duration) -> u64 {
    time.as_ns() / 1_000_000
}

#[cfg(test)]
mod tests {
    use seeklab_core::Status;

    use super::*;

    /// A row that arrives and completes at these microseconds.
    fn row(op: Operation, arrival_us: u64, completion_us: u64, lbn: u64) -> TraceRecord {
        let at = |us: u64| Instant::from_ns(us * 1_000);
        TraceRecord {
            issue: Some(at(arrival_us + 1)),
            completion: Some(at(completion_us)),
            ..TraceRecord::new(at(arrival_us), op, lbn, 8)
        }
    }

    /// The text of a log of these rows, whose job ends at this time.
    fn text(log: &FioLog, rows: &[TraceRecord], end_us: u64) -> String {
        let folder = tempfile::tempdir().unwrap();
        let log = FioLog { path: folder.path().join("a.log"), ..log.clone() };
        let mut writer = FioLogWriter::begin(std::slice::from_ref(&log)).unwrap();
        writer.begin_phase(0, &[512]);
        rows.chunks(2).for_each(|rows| assert_eq!(writer.rows(0, rows), None));
        writer.end_phase(&[Instant::from_ns(end_us * 1_000)], false);
        assert!(writer.finish().is_none());
        std::fs::read_to_string(&log.path).unwrap()
    }

    fn log(figure: FioLogFigure) -> FioLog {
        FioLog {
            path: PathBuf::new(),
            phase: 0,
            stream: 0,
            figure,
            window_ms: None,
            takes_greatest: false,
            has_offsets: false,
            has_priorities: false,
            priority: 0,
            from: Duration::ZERO,
            length: None,
        }
    }

    #[test]
    fn rows_are_in_order_of_completion_without_flushes_and_failures() {
        let failed = TraceRecord { status: Status::MediumError, ..row(Operation::Write, 30, 4_000, 0) };
        let rows = [
            row(Operation::Read, 0, 9_000, 16),
            row(Operation::Write, 10, 2_000, 8),
            row(Operation::Flush, 20, 2_500, 0),
            failed,
            row(Operation::Discard, 3_000, 3_500, 24),
            row(Operation::WriteZeroes, 3_100, 3_600, 24),
        ];
        let offsets = FioLog {
            has_offsets: true,
            has_priorities: true,
            priority: 0x4003,
            ..log(FioLogFigure::Response)
        };
        let lines = "2, 1990000, 1, 4096, 4096, 0x4003\n3, 500000, 2, 4096, 12288, 0x4003\n9, 9000000, 0, 4096, 8192, 0x4003\n";
        assert_eq!(text(&offsets, &rows, 9_000), lines);
        let real_time = FioLog { priority: 0x2000, ..log(FioLogFigure::Service) };
        let lines = "2, 1989000, 1, 4096, 1\n3, 499000, 2, 4096, 1\n9, 8999000, 0, 4096, 1\n";
        assert_eq!(text(&real_time, &rows, 9_000), lines);
        // 4,096 bytes in 1,989 microseconds.
        assert!(text(&log(FioLogFigure::Bandwidth), &rows, 9_000).starts_with("2, 2059, 1, 4096, 0\n"));
        assert_eq!(text(&log(FioLogFigure::Submission), &rows, 9_000), "");
    }

    #[test]
    fn windows_have_means_or_greatest_values_and_a_short_one_no_rate() {
        let rows: Vec<TraceRecord> =
            (0..25).map(|at| row(Operation::Read, at * 1_000, at * 1_000 + 500 + at % 2, 0)).collect();
        let windows = |figure| FioLog { window_ms: Some(10), ..log(figure) };
        // 10 requests of 4 KiB in 10 ms.
        assert_eq!(
            text(&windows(FioLogFigure::Iops), &rows, 24_500),
            "10, 1000, 0, 0, 0\n20, 1000, 0, 0, 0\n"
        );
        assert_eq!(
            text(&windows(FioLogFigure::Bandwidth), &rows, 24_500),
            "10, 4000, 0, 0, 0\n20, 4000, 0, 0, 0\n"
        );
        let full = "10, 4000, 0, 0, 0\n20, 4000, 0, 0, 0\n30, 2000, 0, 0, 0\n";
        assert_eq!(text(&windows(FioLogFigure::Bandwidth), &rows, 30_000), full);
        // As in fio, the first completion behind a window belongs to it, and the rest has a row.
        let means = "10, 500455, 0, 0, 0\n20, 500500, 0, 0, 0\n24, 500500, 0, 0, 0\n";
        assert_eq!(text(&windows(FioLogFigure::Response), &rows, 24_500), means);
        let greatest = FioLog { takes_greatest: true, ..windows(FioLogFigure::Response) };
        let lines = "10, 501000, 0, 0, 0\n20, 501000, 0, 0, 0\n24, 501000, 0, 0, 0\n";
        assert_eq!(text(&greatest, &rows, 24_500), lines);
        // A job that ends by time fills its last window.
        let timed = FioLog { length: Some(Duration::from_ms(30)), ..windows(FioLogFigure::Bandwidth) };
        assert_eq!(text(&timed, &rows, 24_500), full);
        let later = FioLog { from: Duration::from_ms(20), ..windows(FioLogFigure::Response) };
        assert_eq!(text(&later, &rows, 24_500), "4, 500400, 0, 0, 0\n");
    }
}
