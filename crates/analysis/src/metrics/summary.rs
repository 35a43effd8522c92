//! The figures of a run, each with its unit in its name.

use schemars::{JsonSchema, Schema};
use seeklab_core::statistics::Distribution;
use seeklab_core::{ByteSize, Operation};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{CriticalitySummaries, Hits, Metrics, StatusCounts};
use crate::rounding::{percent, six_decimals};

/// The figures of a run.
///
/// As JSON it is one flat object, but for `breakdown`: times appear as `response_mean_ms`,
/// `queue_p99_ms` and so on, and what does not apply is null, so the keys are always the same.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(transform = spread_times)]
pub struct MetricsSummary {
    /// Requests that were carried out.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes, discards and write-zeroes among them.
    pub others: u64,
    /// Requests that failed. They count in no other number of requests.
    pub errors: u64,
    /// Requests by status, but for `ok`.
    pub statuses: StatusCounts,
    /// Figures by criticality of the requests when they arrived. `None` if all have the same, and it did not change.
    pub by_criticality: Option<CriticalitySummaries>,
    /// Requests of which no completion is known.
    pub incomplete: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time from the first arrival to the last completion.
    pub duration_s: f64,
    /// Requests per second of that time.
    pub requests_per_second: Option<f64>,
    /// Failed requests per second of that time.
    pub errors_per_second: Option<f64>,
    /// MiB read and written per second of that time.
    pub mib_per_second: Option<f64>,
    /// Arrival to completion.
    pub response: Option<TimeSummary>,
    /// Half width of the 95 % confidence interval of the mean response time, by batch means. `None` for a run too
    /// short for an estimate.
    pub response_mean_half_width_95_ms: Option<f64>,
    /// Arrival to completion, of reads.
    pub read_response: Option<TimeSummary>,
    /// Arrival to completion, of writes.
    pub write_response: Option<TimeSummary>,
    /// Arrival to completion, of failed requests.
    pub error_response: Option<TimeSummary>,
    /// Arrival to start of service.
    pub queue: Option<TimeSummary>,
    /// Start of service to completion.
    pub service: Option<TimeSummary>,
    /// Share of the time in which at least one request was in service.
    pub utilisation_pct: Option<f64>,
    /// Requests outstanding, mean over time.
    pub outstanding_mean: Option<f64>,
    /// Requests ahead of a request when it arrived, mean.
    pub queue_length_mean: Option<f64>,
    /// The most that a request found ahead of it.
    pub queue_length_max: Option<u32>,
    /// Cylinders moved by requests that the buffer did not answer, mean.
    pub seek_cylinders_mean: Option<f64>,
    /// Share of those requests that moved no cylinder.
    pub seek_zero_pct: Option<f64>,
    /// Share of the requests that the buffer answered, of all that looked into it.
    pub buffer_hits_pct: Option<f64>,
    /// Share of the reads that the buffer answered, of all reads that looked into it.
    pub read_buffer_hits_pct: Option<f64>,
    /// Share of the writes that the buffer answered, of all writes that looked into it.
    pub write_buffer_hits_pct: Option<f64>,
    /// Composition of the response time. `None` if no request has a breakdown.
    pub breakdown: Option<BreakdownSummary>,
}

/// A distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema)]
#[schemars(inline)]
pub struct TimeSummary {
    /// Mean.
    pub mean_ms: f64,
    /// Sample standard deviation, zero of one value.
    pub sd_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl TimeSummary {
    /// The names of the figures, in order.
    pub const NAMES: [&'static str; 7] =
        ["mean_ms", "sd_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"];

    /// The figures of `distribution`, `None` of nothing.
    pub fn of(distribution: &Distribution) -> Option<Self> {
        let moments = distribution.moments();
        let (mean, max) = moments.mean().zip(moments.max())?;
        let quantile = |q| distribution.quantile(q).map_or(0.0, |duration| six_decimals(duration.as_ms()));
        Some(Self {
            mean_ms: six_decimals(mean / 1e6),
            sd_ms: six_decimals(moments.standard_deviation().unwrap_or(0.0) / 1e6),
            p50_ms: quantile(0.5),
            p90_ms: quantile(0.9),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            max_ms: six_decimals(max / 1e6),
        })
    }

    /// The figures in the order of [`NAMES`](Self::NAMES).
    pub const fn values_ms(&self) -> [f64; 7] {
        [self.mean_ms, self.sd_ms, self.p50_ms, self.p90_ms, self.p99_ms, self.p999_ms, self.max_ms]
    }
}

/// The mean of each part of the response time; the parts sum to the mean response time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BreakdownSummary {
    /// Waiting for service.
    pub queue_mean_ms: f64,
    /// Command processing.
    pub overhead_mean_ms: f64,
    /// Moving the arm or sled.
    pub seek_mean_ms: f64,
    /// Settling beyond the seek.
    pub settle_mean_ms: f64,
    /// Switching heads beyond the seek.
    pub head_switch_mean_ms: f64,
    /// Rotational latency.
    pub rotation_mean_ms: f64,
    /// Moving data on the media.
    pub transfer_mean_ms: f64,
    /// Moving data to the host beyond the media time.
    pub bus_mean_ms: f64,
    /// Internal work of the device.
    pub internal_mean_ms: f64,
}

impl BreakdownSummary {
    fn of(metrics: &Metrics) -> Option<Self> {
        let parts = &metrics.parts;
        let mean = |index: usize| six_decimals(parts.sums_ns[index] as f64 / parts.requests as f64 / 1e6);
        (parts.requests > 0).then(|| Self {
            queue_mean_ms: mean(0),
            overhead_mean_ms: mean(1),
            seek_mean_ms: mean(2),
            settle_mean_ms: mean(3),
            head_switch_mean_ms: mean(4),
            rotation_mean_ms: mean(5),
            transfer_mean_ms: mean(6),
            bus_mean_ms: mean(7),
            internal_mean_ms: mean(8),
        })
    }

    /// The parts with their names in the trace schema, in order.
    pub const fn parts_ms(&self) -> [(&'static str, f64); 9] {
        [
            ("queue", self.queue_mean_ms),
            ("overhead", self.overhead_mean_ms),
            ("seek", self.seek_mean_ms),
            ("settle", self.settle_mean_ms),
            ("head_switch", self.head_switch_mean_ms),
            ("rotation", self.rotation_mean_ms),
            ("transfer", self.transfer_mean_ms),
            ("bus", self.bus_mean_ms),
            ("internal", self.internal_mean_ms),
        ]
    }

    /// The sum of the parts: the mean response time.
    pub fn total_ms(&self) -> f64 {
        six_decimals(self.parts_ms().iter().map(|(_, ms)| ms).sum())
    }

    /// The share of each part in the response time, all zero of no time.
    pub fn shares_pct(&self) -> [(&'static str, f64); 9] {
        let total = self.total_ms();
        self.parts_ms().map(|(name, ms)| (name, percent(ms, total).unwrap_or(0.0)))
    }
}

impl Hits {
    fn pct(self) -> Option<f64> {
        percent(self.hits as f64, (self.hits + self.misses) as f64)
    }
}

impl MetricsSummary {
    pub(super) fn of(metrics: &Metrics) -> Self {
        let count = |op: Operation| &metrics.counts[op as usize];
        let bytes = |op| count(op).blocks.saturating_mul(metrics.block_size.as_bytes());
        let requests = metrics.counts.iter().map(|count| count.requests).sum::<u64>();
        let (reads, writes) = (count(Operation::Read).requests, count(Operation::Write).requests);
        let (read_bytes, written_bytes) = (bytes(Operation::Read), bytes(Operation::Write));
        let span_s = metrics.span().as_s();
        let per_second = |amount: f64| (span_s > 0.0).then(|| six_decimals(amount / span_s));
        let [read_hits, write_hits, other_hits] = metrics.buffer;
        let hits = Hits {
            hits: read_hits.hits + write_hits.hits + other_hits.hits,
            misses: read_hits.misses + write_hits.misses + other_hits.misses,
        };
        let mib =
            (read_bytes as f64 + written_bytes as f64) / ByteSize::from_bytes(1 << 20).as_bytes() as f64;
        let service = TimeSummary::of(&metrics.service);
        let response = TimeSummary::of(&metrics.response());
        let error_response = TimeSummary::of(metrics.errors.response());
        let mean = |sum: u64, of: u64| (of > 0).then(|| six_decimals(sum as f64 / of as f64));
        Self {
            requests,
            reads,
            writes,
            others: requests - reads - writes,
            errors: metrics.errors.failed(),
            statuses: metrics.errors.summary(),
            by_criticality: metrics.criticalities.summary(),
            incomplete: metrics.incomplete,
            read_bytes,
            written_bytes,
            duration_s: six_decimals(span_s),
            requests_per_second: per_second(requests as f64),
            errors_per_second: per_second(metrics.errors.failed() as f64),
            mib_per_second: per_second(mib),
            outstanding_mean: response
                .or(error_response)
                .and_then(|_| per_second(metrics.outstanding_ns as f64 / 1e9)),
            response,
            response_mean_half_width_95_ms: metrics
                .response_batches
                .interval()
                .and_then(|interval| interval.half_width_95)
                .map(|half_width_ns| six_decimals(half_width_ns / 1e6)),
            read_response: TimeSummary::of(&metrics.response[0]),
            write_response: TimeSummary::of(&metrics.response[1]),
            error_response,
            queue: TimeSummary::of(&metrics.queue),
            utilisation_pct: metrics.busy.total().and_then(|busy| percent(busy.as_s(), span_s)),
            service,
            queue_length_mean: mean(metrics.queue_length.sum, metrics.queue_length.requests),
            queue_length_max: (metrics.queue_length.requests > 0).then_some(metrics.queue_length.max),
            seek_cylinders_mean: mean(metrics.seek.sum_cylinders, metrics.seek.requests),
            seek_zero_pct: percent(metrics.seek.zero as f64, metrics.seek.requests as f64),
            buffer_hits_pct: hits.pct(),
            read_buffer_hits_pct: read_hits.pct(),
            write_buffer_hits_pct: write_hits.pct(),
            breakdown: BreakdownSummary::of(metrics),
        }
    }
}

/// Replaces each distribution in the schema by its figures, as the serializer does: `response` by `response_mean_ms`
/// and so on. Every key is required.
fn spread_times(schema: &mut Schema) {
    let Some(Value::Object(properties)) = schema.remove("properties") else { return };
    let mut spread = Map::new();
    for (key, property) in properties {
        let Some(figures) = property["properties"].as_object() else {
            spread.insert(key, property);
            continue;
        };
        if figures.keys().any(|name| !TimeSummary::NAMES.contains(&name.as_str())) {
            spread.insert(key, property);
            continue;
        }
        let of = property["description"].as_str().unwrap_or_default().trim_end_matches('.');
        for (name, figure) in figures {
            let statistic = figure["description"].as_str().unwrap_or_default();
            let mut figure = figure.clone();
            figure["description"] = format!("{of}. {statistic}").into();
            figure["type"] = serde_json::json!(["number", "null"]);
            spread.insert(format!("{key}_{name}"), figure);
        }
    }
    schema.insert("required".to_owned(), spread.keys().cloned().collect());
    schema.insert("properties".to_owned(), spread.into());
}

impl Serialize for MetricsSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("requests", &self.requests)?;
        map.serialize_entry("reads", &self.reads)?;
        map.serialize_entry("writes", &self.writes)?;
        map.serialize_entry("others", &self.others)?;
        map.serialize_entry("errors", &self.errors)?;
        map.serialize_entry("statuses", &self.statuses)?;
        map.serialize_entry("by_criticality", &self.by_criticality)?;
        map.serialize_entry("incomplete", &self.incomplete)?;
        map.serialize_entry("read_bytes", &self.read_bytes)?;
        map.serialize_entry("written_bytes", &self.written_bytes)?;
        map.serialize_entry("duration_s", &self.duration_s)?;
        map.serialize_entry("requests_per_second", &self.requests_per_second)?;
        map.serialize_entry("errors_per_second", &self.errors_per_second)?;
        map.serialize_entry("mib_per_second", &self.mib_per_second)?;
        for (of, summary) in [
            ("response", &self.response),
            ("read_response", &self.read_response),
            ("write_response", &self.write_response),
            ("error_response", &self.error_response),
            ("queue", &self.queue),
            ("service", &self.service),
        ] {
            let values = summary.map(|summary| summary.values_ms());
            for (index, name) in TimeSummary::NAMES.iter().enumerate() {
                map.serialize_entry(&format!("{of}_{name}"), &values.map(|values| values[index]))?;
            }
        }
        map.serialize_entry("response_mean_half_width_95_ms", &self.response_mean_half_width_95_ms)?;
        map.serialize_entry("utilisation_pct", &self.utilisation_pct)?;
        map.serialize_entry("outstanding_mean", &self.outstanding_mean)?;
        map.serialize_entry("queue_length_mean", &self.queue_length_mean)?;
        map.serialize_entry("queue_length_max", &self.queue_length_max)?;
        map.serialize_entry("seek_cylinders_mean", &self.seek_cylinders_mean)?;
        map.serialize_entry("seek_zero_pct", &self.seek_zero_pct)?;
        map.serialize_entry("buffer_hits_pct", &self.buffer_hits_pct)?;
        map.serialize_entry("read_buffer_hits_pct", &self.read_buffer_hits_pct)?;
        map.serialize_entry("write_buffer_hits_pct", &self.write_buffer_hits_pct)?;
        map.serialize_entry("breakdown", &self.breakdown)?;
        map.end()
    }
}
