//! The host's times of an emulated block device, beside the emulator's times of the same requests.
//!
//! ```text
//!  Emulation ── completed request ─▶ Observer ─▶ Joining ─▶ requests with both sides' stamps
//!  kernel ── issue, completion ─▶ watch ── HostMessage ──▲             ├─▶ Follower ─▶ the emulation's compensation
//!                                                               └─▶ trace, HostFigures
//! ```
//! # Scope and limits
//! Memory does not grow with the run. A request of the host that stands for several requests of the emulator,
//! or the other way round, is compared as one request if its parts follow each other.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use schemars::JsonSchema;
use seeklab_analysis::{HostKnown, MatchCounts, Matcher};
use seeklab_core::{HostRequest, Instant, TraceRecord};
use seeklab_traces::TraceError;
use seeklab_traces::capture::{Capture, Observed, Options};
use serde::Serialize;

use super::feedback::{Feedback, Follower, feedback};
use super::observer::{Observer, Recorder, Sink};
use super::{Measurements, Running};
use crate::failure::Failure;

/// Message from the host's side.
#[derive(Debug, Clone, Copy)]
pub enum HostMessage {
    /// A request of the host is complete.
    Request(HostRequest),
    /// Times up to which all requests have been sent.
    Until(HostKnown),
}

/// Sends the requests of `block` to `host` from now on. Time zero is `origin_ns` of CLOCK_MONOTONIC.
///
/// # Errors
/// Requirements for observing the block layer that are missing, and their remedy.
pub fn watch(block: &Path, origin_ns: u64, host: Sender<HostMessage>) -> Result<Capture, Failure> {
    let options = Options { origin_ns, queue_times: false, ..Options::default() };
    let sink = move |observed| {
        let message = match observed {
            Observed::Request(request) => HostMessage::Request(request),
            Observed::Settled { arrived, happened } => {
                HostMessage::Until(HostKnown { issued: arrived, happened })
            }
        };
        // The joining thread has ended early only if it panicked, which is reported there.
        let _ = host.send(message);
    };
    Capture::start(block, &options, sink).map_err(|error| {
        let hint = error.hint();
        hint.into_iter().fold(Failure::chain(&error), Failure::hint)
    })
}

/// Joins the host's messages with the emulator's records as they arrive.
pub struct Joining {
    matcher: Matcher,
    host: Receiver<HostMessage>,
    host_known: HostKnown,
    emulator_until: Instant,
}

impl Joining {
    /// Joins records in blocks of that many bytes with the messages from `host`.
    pub fn new(block_bytes: u32, host: Receiver<HostMessage>) -> Self {
        let (host_known, emulator_until) = (HostKnown::default(), Instant::ZERO);
        Self { matcher: Matcher::new(block_bytes), host, host_known, emulator_until }
    }

    fn listen(&mut self) {
        loop {
            match self.host.try_recv() {
                Ok(HostMessage::Request(request)) => self.matcher.host(&request),
                Ok(HostMessage::Until(known)) => self.host_known = known,
                Err(TryRecvError::Empty) => return,
                // It tells nothing more, so nothing waits for it.
                Err(TryRecvError::Disconnected) => return self.host_known = HostKnown::ALL,
            }
        }
    }

    /// Takes a record in; `emit` is given those that are settled, in order of arrival.
    pub fn take(&mut self, record: &TraceRecord, emit: impl FnMut(&TraceRecord)) {
        self.emulator_until = record.points.mp2_arrival.unwrap_or(record.arrival);
        self.matcher.record(*record);
        self.listen();
        self.matcher.advance(self.host_known, self.emulator_until, emit);
    }

    /// Settles all requests, once the host's side has ended and sent its last messages.
    pub fn finish(mut self, emit: impl FnMut(&TraceRecord)) -> MatchCounts {
        self.listen();
        self.matcher.finish(emit)
    }
}

/// Response times in the host, and their difference from the model.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct HostFigures {
    /// Requests that both sides recorded. Requests that stand for one request of the host count as one.
    pub requests: u64,
    /// Mean response time in the host (MP1).
    pub mean_ms: f64,
    /// Mean response time of the same requests in the model (MP3).
    pub model_mean_ms: f64,
    /// EI_avg: `mean_ms` less `model_mean_ms`.
    pub ei_avg_ms: f64,
    /// Requests that only one side recorded.
    pub unmatched: u64,
    /// Events of the host that were lost, and requests given up for that.
    pub lost: u64,
}

/// Sums up both sides' response times.
#[derive(Debug, Default)]
struct Sums {
    requests: u64,
    host_ns: u128,
    model_ns: u128,
    /// The request of the host that the last records stand for, and when the model began and completed them.
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    host: (Instant, Instant),
    model: (Instant, Instant),
}

impl Sums {
    fn take(&mut self, record: &TraceRecord) {
        let points = &record.points;
        let (Some(issue), Some(done), Some(completion)) =
            (points.mp1_arrival, points.mp1_completion, record.completion)
        else {
            return;
        };
        match &mut self.open {
            Some(open) if open.host == (issue, done) => {
                open.model = (open.model.0.min(record.arrival), open.model.1.max(completion));
            }
            _ => {
                self.close();
                self.open = Some(Open { host: (issue, done), model: (record.arrival, completion) });
            }
        }
    }

    fn close(&mut self) {
        let Some(Open { host, model }) = self.open.take() else { return };
        self.requests += 1;
        self.host_ns += u128::from(host.1.saturating_since(host.0).as_ns());
        self.model_ns += u128::from(model.1.saturating_since(model.0).as_ns());
    }

    fn figures(mut self, matched: &MatchCounts) -> HostFigures {
        self.close();
        let mean_ms = |ns: u128| ns as f64 / self.requests.max(1) as f64 / 1e6;
        let unmatched = matched.unmatched_host + matched.unmatched_emulated;
        let (mean_ms, model_mean_ms) = (mean_ms(self.host_ns), mean_ms(self.model_ns));
        let ei_avg_ms = mean_ms - model_mean_ms;
        HostFigures { requests: self.requests, mean_ms, model_mean_ms, ei_avg_ms, unmatched, lost: 0 }
    }
}

/// Takes what was joined in: follows it, sums it up, records it.
struct Following {
    joining: Joining,
    taken: Taken,
}

struct Taken {
    follower: Follower,
    sums: Sums,
    recorder: Option<Recorder>,
}

impl Taken {
    fn take(&mut self, record: &TraceRecord) {
        self.follower.see(record);
        self.sums.take(record);
        if let Some(recorder) = &mut self.recorder {
            recorder.take(record);
        }
    }
}

impl Sink for Following {
    type Output = (HostFigures, Result<(), TraceError>);

    fn take(&mut self, record: &TraceRecord) {
        let taken = &mut self.taken;
        self.joining.take(record, |record| taken.take(record));
    }

    fn save(&mut self) {
        if let Some(recorder) = &mut self.taken.recorder {
            recorder.save();
        }
    }

    fn finish(self) -> Self::Output {
        let Self { joining, mut taken } = self;
        let matched = joining.finish(|record| taken.take(record));
        (taken.sums.figures(&matched), taken.recorder.map_or(Ok(()), Sink::finish))
    }
}

/// Keeps an emulated block device to its model's times by the host's own stamps.
pub struct HostFollowed {
    observer: Observer<Following>,
    host: Option<Sender<HostMessage>>,
    capture: Option<Capture>,
}

impl HostFollowed {
    /// Prepares the observation of an emulation in blocks of that many bytes. Before the emulation starts, the
    /// returned feedback must be set as its [`feedback`](super::StartOptions::feedback), and the callback of
    /// [`Self::observe`] as its [`observe`](super::StartOptions::observe). `recorder` writes the joined requests.
    pub fn prepare(block_bytes: u32, recorder: Option<Recorder>) -> (Self, Feedback) {
        let (host, messages) = channel();
        let (follower, feedback) = feedback();
        let taken = Taken { follower, sums: Sums::default(), recorder };
        let observer = Observer::start(Following { joining: Joining::new(block_bytes, messages), taken });
        (Self { observer, host: Some(host), capture: None }, feedback)
    }

    /// Returns the callback that receives the emulation's requests.
    pub fn observe(&self) -> seeklab_emulator::emulation::Observe {
        self.observer.observe()
    }

    /// Begins to watch the host's side of `running`.
    ///
    /// # Errors
    /// As [`watch`].
    ///
    /// # Panics
    /// If it is no block device, or watched already.
    pub fn watch(&mut self, running: &Running<Measurements>) -> Result<(), Failure> {
        let host = self.host.take().expect("it is watched once");
        let block = running.block().expect("a block device is watched");
        self.capture = Some(watch(block.path(), running.clock().origin_ns(), host)?);
        Ok(())
    }

    /// Returns the joined figures once the emulation has ended, and the number of its requests that arrived
    /// faster than they could be taken.
    ///
    /// # Errors
    /// Errors of observing the host, or of writing.
    pub fn finish(self) -> Result<(HostFigures, u64), Failure> {
        let Self { observer, host, capture } = self;
        drop(host);
        let captured = capture.map(Capture::finish).transpose().map_err(|error| Failure::chain(&error));
        let ((mut figures, written), unrecorded) = observer.finish();
        figures.lost = captured?.map_or(0, |captured| captured.lost_events + captured.given_up);
        written?;
        Ok((figures, unrecorded))
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, MeasurementPoints, Operation};

    use super::*;

    /// A write of the model from one time to another, in us, that a request of the host stands for.
    fn write(model_us: (u64, u64), host_us: Option<(u64, u64)>) -> TraceRecord {
        let us = |time: u64| Instant::ZERO + Duration::from_us(time);
        let points = MeasurementPoints {
            mp1_arrival: host_us.map(|(from, _)| us(from)),
            mp1_completion: host_us.map(|(_, to)| us(to)),
            mp2_arrival: Some(us(model_us.0)),
            ..MeasurementPoints::NONE
        };
        let record = TraceRecord::new(us(model_us.0), Operation::Write, 8, 8);
        TraceRecord { completion: Some(us(model_us.1)), points, ..record }
    }

    #[test]
    fn requests_that_stand_for_one_are_summed_up_as_one() {
        let mut sums = Sums::default();
        for record in [
            write((10, 110), Some((5, 115))),
            write((210, 310), Some((205, 420))),
            write((212, 400), Some((205, 420))),
            write((500, 900), None),
        ] {
            sums.take(&record);
        }
        let matched = MatchCounts::default();
        let figures = sums.figures(&matched);
        assert_eq!((figures.requests, figures.unmatched), (2, 0));
        assert!((figures.mean_ms - 0.1625).abs() < 1e-9, "{figures:?}");
        assert!((figures.model_mean_ms - 0.145).abs() < 1e-9, "{figures:?}");
        assert!((figures.ei_avg_ms - 0.0175).abs() < 1e-9, "{figures:?}");
        assert_eq!(Sums::default().figures(&matched), HostFigures::default());
    }

    #[test]
    fn host_that_has_ended_delays_nothing() {
        let (host, messages) = channel();
        let mut joining = Joining::new(512, messages);
        let mut seen = Vec::new();
        let us = |time: u64| Instant::ZERO + Duration::from_us(time);
        let request = HostRequest::new(us(1_000), us(1_300), Operation::Write, 4096, 4096);
        host.send(HostMessage::Request(request)).unwrap();
        joining.take(&write((1_005, 1_290), None), |record| seen.push(*record));
        joining.take(&write((5_000, 5_100), None), |record| seen.push(*record));
        assert!(seen.is_empty(), "the host may have more to tell");
        drop(host);
        joining.take(&write((900_000, 900_100), None), |record| seen.push(*record));
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].points.mp1_arrival, Some(us(1_000)));
        let matched = joining.finish(|record| seen.push(*record));
        assert_eq!((seen.len(), matched.matched, matched.unmatched_emulated), (3, 1, 2));
    }
}
