//! Survey of a trace, by one pass over its rows.

use std::collections::BTreeMap;

use seeklab_core::{ByteSize, Duration, Instant, TraceRecord};
use seeklab_traces::schema::Column;
use seeklab_traces::{Metadata, OpenTrace, Recorder, Rows};

use crate::failure::Failure;
use crate::session::Session;
use crate::told::{check_moved, devices, no_device};

/// Result of one pass over a trace.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Counts for each device.
    devices: BTreeMap<u16, Seen>,
    /// Requests that the recorder itself made.
    pub(super) recorders_own: u64,
    /// True if seeklab recorded the trace from a real device.
    pub(super) is_captured: bool,
    /// The metadata, read to the end of the trace.
    metadata: Metadata,
}

/// Counts for one device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Requests.
    pub(super) requests: u64,
    /// First and last arrival.
    pub(super) span: (Instant, Instant),
    /// First block that no request went beyond.
    pub(super) end: u64,
    /// Requests with an issue time.
    pub(super) issued: u64,
    /// Sum of their times from arrival to issue.
    waited_ns: u128,
}

impl Seen {
    fn at(first: Instant) -> Self {
        Self { requests: 0, span: (first, first), end: 0, issued: 0, waited_ns: 0 }
    }

    /// Returns the mean time from arrival to issue, over the requests with an issue time.
    pub(super) fn waited_mean(&self) -> Option<Duration> {
        let mean_ns = self.waited_ns.checked_div(u128::from(self.issued))?;
        Some(Duration::from_ns(u64::try_from(mean_ns).unwrap_or(u64::MAX)))
    }
}

/// The columns that it needs.
pub(super) const LOOKED_AT: [Column; 7] = [
    Column::ArrivalNs,
    Column::IssueNs,
    Column::Device,
    Column::Initiator,
    Column::Op,
    Column::Lbn,
    Column::Blocks,
];

impl Survey {
    pub(super) fn of(session: &Session, trace: OpenTrace) -> Result<Self, Failure> {
        let mut survey = Self { is_captured: trace.metadata().is_captured(), ..Self::default() };
        let mut rows = 0;
        let trace = each_run(session, trace, "looking at the trace", |records, recorder| {
            for run in records.chunk_by(|one, next| one.device == next.device) {
                survey.take(run, recorder, rows)?;
                rows += run.len() as u64;
            }
            Ok(())
        })?;
        check_moved(&trace, rows)?;
        survey.metadata = trace.metadata().clone();
        Ok(survey)
    }

    /// Takes requests of one device in, which come behind so many rows.
    ///
    /// # Errors
    /// If one arrives before one that comes before it.
    fn take(&mut self, run: &[TraceRecord], recorder: Recorder, rows: u64) -> Result<(), Failure> {
        let device = run[0].device;
        let mut requests = run.iter().filter(|record| !recorder.is_recorders_own(record)).peekable();
        let Some(first) = requests.peek() else {
            self.recorders_own += run.len() as u64;
            return Ok(());
        };
        let before = self.devices.get(&device).map_or(first.arrival, |seen| seen.span.1);
        if first.arrival < before || !run.is_sorted_by_key(|record| record.arrival) {
            return Err(out_of_order(run, before, rows));
        }
        let seen = self.devices.entry(device).or_insert_with(|| Seen::at(first.arrival));
        let count = seen.requests;
        for record in requests {
            seen.requests += 1;
            seen.span.1 = record.arrival;
            seen.end = seen.end.max(record.lbn.saturating_add(u64::from(record.blocks)));
            if let Some(issue) = record.issue {
                seen.issued += 1;
                seen.waited_ns += u128::from(issue.saturating_since(record.arrival).as_ns());
            }
        }
        self.recorders_own += run.len() as u64 - (seen.requests - count);
        Ok(())
    }

    /// Returns the size of a device as the trace states it.
    pub(super) fn capacity(&self, device: u16) -> Option<ByteSize> {
        self.metadata.capacity(device)
    }

    /// Returns the counts for a device.
    ///
    /// # Panics
    /// If there is no such device.
    pub(super) fn seen(&self, device: u16) -> Seen {
        self.devices[&device]
    }

    pub(super) fn device(&self, wanted: Option<u16>) -> Result<u16, Failure> {
        let numbers = || self.devices.keys().copied();
        match (wanted, self.devices.len()) {
            (_, 0) => Err(Failure::new("the trace has no requests")),
            (Some(device), _) if self.devices.contains_key(&device) => Ok(device),
            (Some(device), _) => Err(no_device(device, numbers())),
            (None, 1) => Ok(*self.devices.keys().next().expect("there is one")),
            (None, count) => {
                Err(Failure::new(format!("the trace has {count} devices, and a model is of one"))
                    .hint(format!("choose with --device: {}", devices(numbers()))))
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

/// Shows all rows to `take`, some at a time, and who recorded them; the trace, read to its end.
pub(super) fn each_run(
    session: &Session,
    mut trace: OpenTrace,
    what: &str,
    mut take: impl FnMut(&[TraceRecord], Recorder) -> Result<(), Failure>,
) -> Result<OpenTrace, Failure> {
    let mut progress = session.progress_of(what, &trace);
    loop {
        let Rows { records, metadata } = trace.next_rows()?;
        if records.is_empty() {
            drop(progress);
            return Ok(trace);
        }
        take(records, metadata.recorder())?;
        progress.steps(records.len() as u64)?;
    }
}
