//! Survey of a trace, by one pass over its rows.

use std::collections::BTreeMap;

use seeklab_core::{Duration, Instant, TraceRecord};

use crate::error::{Error, ErrorKind};
use crate::warm_up::{Settling, WarmUp, kept_of_each};

/// Result of one pass over a trace.
#[derive(Debug, Default)]
pub struct Survey {
    /// Counts for each device.
    devices: BTreeMap<u16, DeviceCounts>,
    settling: BTreeMap<u16, Settling>,
    is_from_issue: bool,
    /// Requests that the recorder itself made.
    pub recorder_requests: u64,
}

/// Counts for one device.
#[derive(Debug, Clone, Copy)]
pub struct DeviceCounts {
    /// Requests.
    pub requests: u64,
    /// First and last arrival.
    pub span: (Instant, Instant),
    /// First block that no request went beyond.
    pub end: u64,
    /// Requests with an issue time.
    pub issued: u64,
    /// Sum of their times from arrival to issue.
    waited_ns: u128,
}

impl DeviceCounts {
    fn at(first: Instant) -> Self {
        Self { requests: 0, span: (first, first), end: 0, issued: 0, waited_ns: 0 }
    }

    /// Returns the mean time from arrival to issue, over the requests with an issue time.
    pub fn waited_mean(&self) -> Option<Duration> {
        let mean_ns = self.waited_ns.checked_div(u128::from(self.issued))?;
        Some(Duration::from_ns(u64::try_from(mean_ns).unwrap_or(u64::MAX)))
    }
}

impl Survey {
    /// Nothing so far. Response times are from the issue of a request, if that is wanted and known, or from its arrival.
    pub fn new(is_from_issue: bool) -> Self {
        Self { is_from_issue, ..Self::default() }
    }

    /// Takes requests of one device in, at least one, which come behind so many rows.
    ///
    /// # Errors
    /// If one arrives before one that comes before it.
    pub fn take(
        &mut self,
        run: &[TraceRecord],
        is_recorders_own: impl Fn(&TraceRecord) -> bool,
        rows: u64,
    ) -> Result<(), Error> {
        let device = run[0].device;
        let mut requests = run.iter().filter(|record| !is_recorders_own(record)).peekable();
        let Some(first) = requests.peek() else {
            self.recorder_requests += run.len() as u64;
            return Ok(());
        };
        let before = self.devices.get(&device).map_or(first.arrival, |seen| seen.span.1);
        if first.arrival < before || !run.is_sorted_by_key(|record| record.arrival) {
            return Err(out_of_order(run, before, rows));
        }
        if !self.settling.contains_key(&device) {
            self.begin_settling(device);
        }
        let seen = self.devices.entry(device).or_insert_with(|| DeviceCounts::at(first.arrival));
        let count = seen.requests;
        let settling = self.settling.get_mut(&device).expect("it was begun");
        for record in requests {
            settling.record(record);
            seen.requests += 1;
            seen.span.1 = record.arrival;
            seen.end = seen.end.max(record.lbn.saturating_add(u64::from(record.blocks)));
            if let Some(issue) = record.issue {
                seen.issued += 1;
                seen.waited_ns += u128::from(issue.saturating_since(record.arrival).as_ns());
            }
        }
        self.recorder_requests += run.len() as u64 - (seen.requests - count);
        Ok(())
    }

    /// Begins to look for the warm-up of a device. All devices share the memory for it.
    fn begin_settling(&mut self, device: u16) {
        let before = kept_of_each(self.settling.len());
        let kept = kept_of_each(self.settling.len() + 1);
        if kept < before {
            self.settling.values_mut().for_each(|settling| settling.limit(kept));
        }
        self.settling.insert(device, Settling::new(kept, self.is_from_issue));
    }

    /// Returns the counts for a device.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn counts(&self, device: u16) -> DeviceCounts {
        self.devices[&device]
    }

    /// Returns the warm-up of a device, as the requests show it that arrive before a time. `None` if there is none.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn warm_up(&self, device: u16, until: Instant) -> Option<WarmUp> {
        self.settling[&device].warm_up(until)
    }

    /// The numbers of the devices, ascending.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = u16> {
        self.devices.keys().copied()
    }
}

/// The first request of a run that arrives before one that comes before it, of which the run has one.
fn out_of_order(run: &[TraceRecord], mut latest: Instant, rows: u64) -> Error {
    for (row, record) in (rows + 1..).zip(run) {
        if record.arrival < latest {
            return Error::new(ErrorKind::Invalid, format!(
                "row {row} arrives at {} ns, but an earlier row at {} ns; a model is fitted to requests in order of arrival",
                record.arrival.as_ns(),
                latest.as_ns()
            ))
            .with_hint("sort the rows by `arrival_ns`");
        }
        latest = record.arrival;
    }
    unreachable!("a run that is not in order has such a row")
}
