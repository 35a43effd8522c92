//! What a trace holds, by one pass over it.

use std::collections::BTreeMap;

use seeklab_core::{Instant, TraceRecord};
use seeklab_traces::schema::Column;
use seeklab_traces::{OpenTrace, Recorder, Rows};

use crate::failure::Failure;
use crate::progress::Progress;

/// What one pass tells.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Requests of each device.
    pub(super) devices: BTreeMap<u16, u64>,
    /// First and last arrival of each device.
    pub(super) span: BTreeMap<u16, (Instant, Instant)>,
    /// First block of each device that no request went beyond.
    pub(super) end: BTreeMap<u16, u64>,
    /// Requests that the recorder itself made.
    pub(super) recorders_own: u64,
}

/// The columns that it needs.
pub(super) const LOOKED_AT: [Column; 6] =
    [Column::ArrivalNs, Column::Device, Column::Initiator, Column::Op, Column::Lbn, Column::Blocks];

impl Survey {
    pub(super) fn of(trace: OpenTrace) -> Result<Self, Failure> {
        let mut survey = Self::default();
        let mut rows = 0;
        each_run(trace, "looking at the trace", |records, recorder| {
            for run in records.chunk_by(|one, next| one.device == next.device) {
                survey.take(run, recorder, rows)?;
                rows += run.len() as u64;
            }
            Ok(())
        })?;
        Ok(survey)
    }

    /// Takes requests of one device in, which come behind so many rows.
    ///
    /// # Errors
    /// If one arrives before one that comes before it.
    fn take(&mut self, run: &[TraceRecord], recorder: Recorder, rows: u64) -> Result<(), Failure> {
        let device = run[0].device;
        let mut requests = run.iter().filter(|record| !recorder.is_recorders_own(record));
        let Some(first) = requests.next() else {
            self.recorders_own += run.len() as u64;
            return Ok(());
        };
        let before = self.span.get(&device).map_or(first.arrival, |(_, last)| *last);
        if first.arrival < before || !run.is_sorted_by_key(|record| record.arrival) {
            return Err(out_of_order(run, before, rows));
        }
        let end_of = |record: &TraceRecord| record.lbn.saturating_add(u64::from(record.blocks));
        let (mut count, mut last, mut end) = (1, first.arrival, end_of(first));
        for record in requests {
            count += 1;
            last = last.max(record.arrival);
            end = end.max(end_of(record));
        }
        self.recorders_own += run.len() as u64 - count;
        *self.devices.entry(device).or_default() += count;
        let span = self.span.entry(device).or_insert((first.arrival, last));
        span.1 = span.1.max(last);
        let known = self.end.entry(device).or_default();
        *known = end.max(*known);
        Ok(())
    }

    pub(super) fn device(&self, wanted: Option<u16>) -> Result<u16, Failure> {
        let names = || self.devices.keys().map(u16::to_string).collect::<Vec<_>>().join(", ");
        match (wanted, self.devices.len()) {
            (_, 0) => Err(Failure::new("the trace has no requests")),
            (Some(device), _) if self.devices.contains_key(&device) => Ok(device),
            (Some(device), _) => Err(Failure::new(format!("--device {device}: there is no such device"))
                .hint(format!("the trace has {}", names()))),
            (None, 1) => Ok(*self.devices.keys().next().expect("there is one")),
            (None, count) => {
                Err(Failure::new(format!("the trace has {count} devices, and a model is of one"))
                    .hint(format!("choose with --device: {}", names())))
            }
        }
    }
}

/// The first request of a run that arrives before one that comes before it, of which the run has one.
fn out_of_order(run: &[TraceRecord], mut latest: Instant, rows: u64) -> Failure {
    for (row, record) in (rows + 1..).zip(run) {
        if record.arrival < latest {
            return Failure::new(format!(
                "row {row} arrives at {} ns, before one that comes before it, at {} ns; a model learns from requests in order \
                 of arrival",
                record.arrival.as_ns(),
                latest.as_ns()
            ))
            .hint("sort the rows by `arrival_ns`");
        }
        latest = record.arrival;
    }
    unreachable!("a run that is not in order has such a row")
}

/// Shows all rows to `take`, some at a time, and who recorded them.
pub(super) fn each_run(
    mut trace: OpenTrace,
    what: &str,
    mut take: impl FnMut(&[TraceRecord], Recorder) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut progress = Progress::of_trace(what, &trace);
    loop {
        let Rows { records, metadata } = trace.next_rows()?;
        if records.is_empty() {
            return Ok(());
        }
        take(records, metadata.recorder())?;
        progress.steps(records.len() as u64);
    }
}
