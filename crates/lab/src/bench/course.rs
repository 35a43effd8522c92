//! The caller's side of a measurement while it goes on: lines of figures, the trace, and the request to stop.

use std::sync::mpsc::Receiver;

use seeklab_bench::counters::Counters;
use seeklab_bench::target::TargetFacts;
use seeklab_bench::{Draining, Interval, Listener};
use seeklab_core::{Duration, Instant, TraceRecord};
use seeklab_files::PartFile;
use seeklab_traces::{TraceError, TraceWriter};

use super::BenchOptions;
use super::figures::IntervalFigures;
use super::fio::FioLogWriter;
use super::folder::RunFolder;
use super::listener::{BenchListener, DrainingFigures, PhaseStart};
use super::phase::PhaseRun;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::session::Session;

/// Shows and writes what happens.
pub(super) struct Course<'a> {
    session: &'a Session,
    options: &'a BenchOptions,
    folder: Option<&'a mut RunFolder>,
    listener: &'a mut dyn BenchListener,
    progress: Progress,
    trace: Option<Box<dyn TraceWriter>>,
    logs: FioLogWriter,
    /// Reason for which the trace is incomplete.
    trace_failure: Option<Failure>,
    /// Begin of the phase from the begin of the run.
    from: Duration,
    /// Samples of the counters, as they come.
    counters: Receiver<Counters>,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        session: &'a Session,
        options: &'a BenchOptions,
        folder: Option<&'a mut RunFolder>,
        listener: &'a mut dyn BenchListener,
        counters: Receiver<Counters>,
    ) -> Self {
        let addresses: Vec<&str> = options.targets.iter().map(|target| target.address.as_str()).collect();
        let progress = session.figures(&addresses.join(", "));
        let from = Duration::ZERO;
        Self {
            session,
            options,
            folder,
            listener,
            progress,
            trace: None,
            logs: FioLogWriter::default(),
            trace_failure: None,
            from,
            counters,
        }
    }

    /// The run begins, with this trace and these logs.
    pub(super) fn begin(&mut self, trace: Option<Box<dyn TraceWriter>>, logs: FioLogWriter) {
        (self.trace, self.logs) = (trace, logs);
    }

    /// A phase begins in a repetition, so long after the run.
    pub(super) fn begin_phase(
        &mut self,
        (number, repetition): (usize, u64),
        from: Duration,
        facts: &[Option<TargetFacts>],
    ) {
        let phase = &self.options.phases[number];
        self.from = from;
        let block_bytes = phase
            .streams
            .iter()
            .map(|stream| facts[stream.target].as_ref().map_or(0, |facts| facts.space.block_size.as_bytes()));
        self.logs.begin_phase(number, &block_bytes.collect::<Vec<_>>());
        self.listener.phase(&PhaseStart { name: &phase.name, repetition: repetition + 1, from });
        if self.options.live && self.options.phases.len() > 1 {
            self.session.remark(format!("phase `{}`, repetition {}", phase.name, repetition + 1));
        }
        if let Some(folder) = &mut self.folder {
            folder.begin_phase(phase, repetition, from);
        }
    }

    /// A phase is over.
    pub(super) fn end_phase(&mut self, run: &PhaseRun) {
        let ends: Vec<Instant> = run.measurement.streams.iter().map(|totals| totals.end).collect();
        let is_cut = run.measurement.is_stopped || run.measurement.failure.is_some();
        self.logs.end_phase(&ends, is_cut);
        if let Some(folder) = &mut self.folder {
            folder.end_phase(run);
        }
    }

    /// Completes the trace and the logs; returns why they are incomplete.
    pub(super) fn finish(mut self) -> Option<Failure> {
        if let Some(trace) = self.trace.take() {
            self.trace_failure = trace.finish().err().map(|error| self.incomplete(error));
        }
        Failure::all(self.trace_failure.into_iter().chain(self.logs.finish()).collect())
    }

    /// Does something with the trace. The run goes on if that fails, without the trace.
    fn with_trace(&mut self, act: impl FnOnce(&mut dyn TraceWriter) -> Result<(), TraceError>) {
        let Some(error) = self.trace.as_mut().and_then(|trace| act(&mut **trace).err()) else { return };
        // Its space is free for the results of the run.
        self.trace = None;
        let failure = self.incomplete(error);
        self.session.warn(format!("{failure}; the run goes on, and its trace ends here"));
        self.trace_failure = Some(failure);
    }

    /// Failure of the trace, with the way to the rows that it has.
    fn incomplete(&self, error: TraceError) -> Failure {
        let failure = Failure::from(error);
        let part = self.options.record.as_deref().and_then(|path| PartFile::existing(path).ok().flatten());
        match part {
            Some(part) => failure.hint(format!(
                "`seeklab trace convert {} OUTPUT` makes a trace of the requests until then",
                part.path.display()
            )),
            None => failure,
        }
    }
}

impl Listener for Course<'_> {
    fn interval(&mut self, interval: &Interval) {
        let figures = IntervalFigures::of(interval).behind(self.from);
        self.listener.interval(&figures, interval.part.bytes());
        let line = line(interval);
        self.progress.figures(&line);
        if self.options.live {
            self.session.remark(line);
        }
        if let Some(folder) = &mut self.folder {
            folder.interval(self.session, interval);
        }
    }

    fn draining(&mut self, draining: &Draining) {
        let figures = DrainingFigures::of(draining, self.from);
        self.listener.draining(&figures);
        let line = format!(
            "{:>7.1} s  no more arrivals, {} out, the oldest {:.1} s",
            draining.at.as_ns() as f64 / 1e9,
            draining.outstanding,
            draining.oldest.unwrap_or_default().as_s()
        );
        self.progress.figures(&line);
        if self.options.live {
            self.session.remark(line);
        }
        if let Some(folder) = &mut self.folder {
            folder.draining(draining);
        }
    }

    fn row(&mut self, record: &TraceRecord) {
        let from = self.from;
        self.with_trace(|trace| {
            let moved = |time: Option<Instant>| time.map(|time| time + from);
            trace.write(&TraceRecord {
                arrival: record.arrival + from,
                issue: moved(record.issue),
                start: moved(record.start),
                completion: moved(record.completion),
                ..*record
            })
        });
    }

    fn stream_rows(&mut self, stream: usize, records: &[TraceRecord]) {
        if let Some(failure) = self.logs.rows(stream, records) {
            self.session.warn(format!("{failure}; the run goes on, and this log ends here"));
        }
    }

    fn look(&mut self) {
        // However long an interval is.
        self.with_trace(|trace| trace.save());
        for sample in self.counters.try_iter() {
            self.listener.counters(&sample);
        }
    }

    fn is_stopped(&self) -> bool {
        self.session.stop().is_stopped()
    }
}

/// Figures of an interval on one line.
fn line(interval: &Interval) -> String {
    let part = &interval.part;
    let length_s = part.until.saturating_since(part.from).as_s().max(1e-9);
    let response = part.response();
    let time = |quantile| {
        response.quantile(quantile).map_or_else(|| "-".to_owned(), |time| format!("{:.3}", time.as_ms()))
    };
    // Ends of short intervals differ by less than a tenth.
    let decimals = if length_s < 0.1 { 3 } else { 1 };
    let mut line = format!(
        "{:>7.decimals$} s {:>9.0}/s {:>8.1} MiB/s  p50 {} p99 {} max {} ms  {} out",
        part.until.as_ns() as f64 / 1e9,
        part.requests() as f64 / length_s,
        part.bytes() as f64 / f64::from(1 << 20) / length_s,
        time(0.5),
        time(0.99),
        time(1.0),
        part.outstanding,
    );
    for (count, what) in [(part.queued, "queued"), (part.dropped, "dropped"), (part.errors(), "errors")] {
        if count > 0 {
            line += &format!("  {count} {what}");
        }
    }
    if let Some(oldest) = part.oldest.filter(|_| part.hung > 0) {
        line += &format!("  {} hung, {:.1} s", part.hung, oldest.as_s());
    }
    line
}
