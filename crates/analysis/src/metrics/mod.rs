//! Figures of one stream of requests, in one pass and bounded memory.
//!
//! | figure | definition |
//! | --- | --- |
//! | response, queue, service time | arrival to completion, arrival to start, start to completion |
//! | span | first arrival to last completion |
//! | rates | requests, or bytes read and written, divided by the span |
//! | utilisation | union of the intervals start..completion, divided by the span |
//! | mean outstanding | sum of the response times divided by the span |
//! | queue length | requests ahead of a request when it arrived, mean over requests |
//! | seek distance | cylinders to the first track, over requests that the buffer did not answer |
//! | buffer hits | share of the requests that looked into the buffer |
//! | by criticality | requests and response times of each class at the arrival, once a second class occurs or a class changes |
//! | breakdown | mean of each part, over requests that carry a breakdown; the parts sum to the response time |
//!
//! A request that failed counts in `errors`, in its status and in the response times of errors, in the span, the
//! utilisation, the number outstanding and the queue lengths, and in nothing else: every other count, rate and time is
//! of requests that were carried out.
//!
//! Over a run that begins and ends empty the sum of the response times *is* the integral of the
//! number outstanding, so the mean outstanding is exact and Little's law (mean outstanding =
//! throughput × mean response time) holds by construction. That the two sides agree when the
//! integral is taken from arrivals and completions as events is a test of this crate.
//!
//! # Scope and limits
//! Percentiles carry three significant digits. A request without a completion counts in `requests`
//! and `incomplete` and in no time. Records in order of completion are expected, as
//! [`simulate`](seeklab_core::simulate()) gives them; other orders change at most the first bin of the
//! timeline (see [`TimeBin`]) and what utilisation sees beyond 1,024 idle gaps.

mod busy;
mod criticalities;
mod errors;
mod fault_spans;
mod sample;
mod summary;
mod timeline;

use seeklab_core::statistics::Distribution;
use seeklab_core::{BufferOutcome, ByteSize, Duration, FaultSet, Instant, Operation, TraceRecord};

use crate::confidence::BatchMeans;
use crate::curve::{self, CdfPoint, HistogramBin};
use busy::BusyTime;
use criticalities::Criticalities;
use errors::Errors;
use fault_spans::FaultSpans;
use sample::Sample;
pub(crate) use sample::{SAMPLE_MAX, is_sampled};
use timeline::{Ended, Timeline};

pub use criticalities::{CriticalitySummaries, CriticalitySummary};
pub use errors::StatusCounts;
pub use fault_spans::FaultSpan;
pub use sample::SamplePoint;
pub use summary::{BreakdownSummary, MetricsSummary, TimeSummary};
pub use timeline::TimeBin;

/// Accumulates records; ask for [`summary`](Self::summary) at any time.
///
/// It holds a few megabytes whatever the number of records.
#[derive(Debug, Clone)]
pub struct Metrics {
    block_size: ByteSize,
    counts: [Count; Operation::ALL.len()],
    errors: Errors,
    criticalities: Criticalities,
    incomplete: u64,
    span: Option<(Instant, Instant)>,
    response: [Distribution; 3],
    outstanding_ns: u128,
    response_batches: BatchMeans,
    queue: Distribution,
    service: Distribution,
    parts: Parts,
    busy: BusyTime,
    queue_length: QueueLength,
    seek: SeekDistance,
    buffer: [Hits; 3],
    timeline: Timeline,
    faults: FaultSpans,
    sample: Sample,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    requests: u64,
    blocks: u64,
}

/// Sums of the parts of the breakdown, in the order of [`Breakdown::parts`](seeklab_core::Breakdown::parts).
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    requests: u64,
    sums_ns: [u128; 9],
}

#[derive(Debug, Clone, Copy, Default)]
struct QueueLength {
    requests: u64,
    sum: u64,
    max: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct SeekDistance {
    requests: u64,
    sum_cylinders: u64,
    zero: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Hits {
    hits: u64,
    misses: u64,
}

/// Returns the index under which reads, writes and all other operations are counted separately.
const fn direction(op: Operation) -> usize {
    match op {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush | Operation::Discard | Operation::WriteZeroes => 2,
    }
}

/// Returns all values of the distributions.
fn all_of(distributions: &[Distribution]) -> Distribution {
    let mut all = Distribution::default();
    distributions.iter().for_each(|one| all.merge(one));
    all
}

impl Metrics {
    /// Nothing yet, of a device with this block size.
    pub fn new(block_size: ByteSize) -> Self {
        Self {
            block_size,
            counts: Default::default(),
            errors: Errors::default(),
            criticalities: Criticalities::default(),
            incomplete: 0,
            span: None,
            response: Default::default(),
            outstanding_ns: 0,
            response_batches: BatchMeans::default(),
            queue: Distribution::default(),
            service: Distribution::default(),
            parts: Parts::default(),
            busy: BusyTime::default(),
            queue_length: QueueLength::default(),
            seek: SeekDistance::default(),
            buffer: Default::default(),
            timeline: Timeline::default(),
            faults: FaultSpans::default(),
            sample: Sample::default(),
        }
    }

    /// Takes one request in.
    pub fn record(&mut self, record: &TraceRecord) {
        self.load(record);
        self.errors.record(record);
        if record.status.is_success() {
            self.carried_out(record);
        }
    }

    /// Takes in a request that was carried out.
    fn carried_out(&mut self, record: &TraceRecord) {
        let response = record.response_time();
        self.criticalities.record(record, || {
            let requests = self.counts.iter().map(|count| count.requests).sum();
            (requests, all_of(&self.response))
        });
        let count = &mut self.counts[record.op as usize];
        count.requests += 1;
        count.blocks += u64::from(record.blocks);
        if let Some(response) = response {
            self.response[direction(record.op)].record(response);
            self.response_batches.record(response.as_ns() as f64);
        }
        if let Some(queue) = record.queue_time() {
            self.queue.record(queue);
        }
        if let Some(service) = record.service_time() {
            self.service.record(service);
        }
        if let Some(breakdown) = &record.breakdown {
            self.parts.requests += 1;
            for (sum_ns, (_, part)) in self.parts.sums_ns.iter_mut().zip(breakdown.parts()) {
                *sum_ns += u128::from(part.as_ns());
            }
        }
        self.device_state(record);
        self.sample.offer(|| SamplePoint {
            arrival: record.arrival,
            lbn: record.lbn,
            blocks: record.blocks,
            op: record.op,
            response,
        });
    }

    /// Takes in the load on the device, whatever became of the request: span, timeline, time in service, number
    /// outstanding and queue length.
    fn load(&mut self, record: &TraceRecord) {
        self.incomplete += u64::from(record.completion.is_none());
        let end = record.completion.unwrap_or(record.arrival);
        let (first, last) = self.span.unwrap_or((record.arrival, end));
        self.span = Some((first.min(record.arrival), last.max(end)));
        let moved = match record.op {
            Operation::Read | Operation::Write => u64::from(record.blocks) * self.block_size.as_bytes(),
            Operation::Flush | Operation::Discard | Operation::WriteZeroes => 0,
        };
        let response = record.response_time();
        let ended = match record.status.is_success() {
            true => Ended::CarriedOut { size: ByteSize::from_bytes(moved), response },
            false => Ended::Failed,
        };
        self.timeline.record(record.arrival, end, ended);
        self.faults.record(record.faults, record.arrival, end);
        if let Some((start, completion)) = record.start.zip(record.completion) {
            self.busy.record(start, completion);
        }
        self.outstanding_ns += response.map_or(0, |response| u128::from(response.as_ns()));
        if let Some(length) = record.queue_length {
            self.queue_length.requests += 1;
            self.queue_length.sum += u64::from(length);
            self.queue_length.max = self.queue_length.max.max(length);
        }
    }

    /// Seek distance and buffer.
    fn device_state(&mut self, record: &TraceRecord) {
        if let Some(cylinders) = record.seek_cylinders
            && record.buffer != BufferOutcome::Hit
        {
            self.seek.requests += 1;
            self.seek.sum_cylinders += u64::from(cylinders);
            self.seek.zero += u64::from(cylinders == 0);
        }
        let buffer = &mut self.buffer[direction(record.op)];
        match record.buffer {
            BufferOutcome::Hit => buffer.hits += 1,
            BufferOutcome::Miss => buffer.misses += 1,
            BufferOutcome::None => {}
        }
    }

    /// The figures so far.
    pub fn summary(&self) -> MetricsSummary {
        MetricsSummary::of(self)
    }

    /// The response times of all requests that were carried out.
    pub fn response(&self) -> Distribution {
        all_of(&self.response)
    }

    /// The cumulative distribution of the response times, in at most 400 points.
    pub fn response_cdf(&self) -> Vec<CdfPoint> {
        curve::cdf(&self.response())
    }

    /// The response times in logarithmic buckets, twelve per decade.
    pub fn response_histogram(&self) -> Vec<HistogramBin> {
        curve::histogram(&self.response())
    }

    /// Requests, bytes and response times over the run, in at most 240 bins.
    pub fn timeline(&self) -> Vec<TimeBin> {
        self.span.map_or_else(Vec::new, |(first, _)| self.timeline.bins(first))
    }

    /// The end of the last request.
    pub fn end(&self) -> Option<Instant> {
        self.span.map(|(_, last)| last)
    }

    /// Takes in that the fault of that number lasted from `start` to `end`, though no request may have arrived then. Times
    /// before the first request and behind the last are left out.
    pub fn note_fault(&mut self, number: usize, start: Instant, end: Instant) {
        let Some((first, last)) = self.span else { return };
        if start < last && end > first {
            self.faults.record(FaultSet::NONE.with(number), start.max(first), end.min(last));
        }
    }

    /// Spans of time in which faults struck requests, or lasted.
    pub fn fault_spans(&self) -> Vec<FaultSpan> {
        self.faults.spans()
    }

    /// At most 4,000 requests in order of arrival, every one equally likely to be among them.
    pub fn sample(&self) -> Vec<SamplePoint> {
        self.sample.points()
    }

    /// Bytes in a block.
    pub const fn block_size(&self) -> ByteSize {
        self.block_size
    }

    /// Returns the arrival of the first request, or `None` if there is no request.
    pub fn first_arrival(&self) -> Option<Instant> {
        self.span.map(|(first, _)| first)
    }

    /// Time from the first arrival to the last completion.
    pub fn span(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(first, last)| last.saturating_since(first))
    }
}

#[cfg(test)]
mod tests;
