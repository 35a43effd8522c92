//! A measurement as fio 3 writes it with `--output-format=json+`, for programs that read fio's results.
//!
//! ```text
//! clat_ns: service time    lat_ns: response time    bins: { upper bound of a bucket: requests }
//! ```
//! # Scope and limits
//! A stream of a phase is a job, with all its threads, and each run of a phase is a group (`groupid`), as behind fio's
//! `stonewall`. Depths, submissions and completions are those of each thread. Keys without a true value here are left out:
//! `disk_util`, which would include requests of others, and `time`, which is `timestamp` in a time zone. Discards are `trim`,
//! flushes are `sync`. fio has no place for writes of zeroes. Percentiles are those of our own figures: the upper bound of a
//! bucket of 0.1 %, where fio's buckets are 1.6 % wide.
//!
//! # References
//! fio's HOWTO, sections *Interpreting the output* and *JSON+ output*, and `stat.c`, version 3.33.

use std::ops::Range;

use seeklab_bench::target::TargetKind;
use seeklab_bench::{Depths, Interval, Part, Ramp, Totals};
use seeklab_core::statistics::{Distribution, Moments};
use seeklab_core::{ByteSize, Duration, Operation, Ratio};
use seeklab_workloads::WorkloadSpec;
use seeklab_workloads::synthetic::{ArrivalSpec, SizeSpec, SyntheticSpec, TimeDistribution};
use serde_json::{Map, Value, json};

use super::figures::LoadFigures;
use super::phase::PhaseRun;
use super::{BenchOptions, StreamLoad, StreamOptions};
use crate::output::VERSION;
use crate::workload::ResolvedWorkload;

/// Percentiles that fio prints unless others are requested.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// Upper bounds of fio's classes of times in nanoseconds and in microseconds. A class ends before its bound.
const CLASSES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// fio's classes of requests under way, with the classes of [`Depths`] that they have.
const LEVELS: [(&str, Range<usize>); 7] =
    [("1", 0..2), ("2", 2..3), ("4", 3..4), ("8", 4..5), ("16", 5..6), ("32", 6..7), (">=64", 7..8)];

/// fio's classes of requests that are submitted or completed together, with the classes of [`Depths`] less one.
const GROUPS: [(&str, Range<usize>); 7] =
    [("0", 0..0), ("4", 0..3), ("8", 3..4), ("16", 4..5), ("32", 5..6), ("64", 6..7), (">=64", 7..8)];

/// Error number of a job with failed requests: `EIO`.
const FAILED: i32 = 5;

/// A stream of a phase, which is a job of fio.
struct Job<'a> {
    options: &'a BenchOptions,
    run: &'a PhaseRun,
    /// Number of the stream in its phase.
    index: usize,
}

/// The document of a measurement.
pub(super) fn document(options: &BenchOptions, runs: &[PhaseRun]) -> Value {
    #[expect(clippy::disallowed_methods, reason = "the document has the date")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let jobs = runs.iter().enumerate().flat_map(|(group, run)| {
        (0..run.streams.len()).map(move |index| Job { options, run, index }.document(group))
    });
    json!({
        "fio version": format!("fio-3.33, written by {VERSION}"),
        "timestamp": now.as_secs(),
        "timestamp_ms": now.as_millis() as u64,
        "jobs": jobs.collect::<Vec<Value>>(),
    })
}

impl Job<'_> {
    fn document(&self, group: usize) -> Value {
        let totals = self.totals();
        let part = &totals.part;
        let elapsed = totals.elapsed();
        let elapsed_ms = (elapsed.as_ns() + 500_000) / 1_000_000;
        let mut job = json!({
            "jobname": self.name(),
            "groupid": group,
            "error": if part.failed > 0 { FAILED } else { 0 },
            "eta": 0,
            "elapsed": elapsed_ms.div_ceil(1000),
            "job options": self.job_options(),
        });
        let fields = job.as_object_mut().expect("it was made as one");
        let directions =
            [("read", Operation::Read), ("write", Operation::Write), ("trim", Operation::Discard)];
        for (name, op) in directions {
            fields.insert(name.to_owned(), self.direction(op));
        }
        let flushes = &part.operations[Operation::Flush as usize];
        let sync = json!({ "total_ios": flushes.requests, "lat_ns": times(&flushes.response, true) });
        fields.insert("sync".to_owned(), sync);
        fields.insert("job_runtime".to_owned(), json!(elapsed_ms));
        if let Some(cost) = &totals.cost {
            let pct = |time: Duration| 100.0 * time.as_s() / elapsed.as_s().max(1e-9);
            fields.insert("usr_cpu".to_owned(), json!(pct(cost.user)));
            fields.insert("sys_cpu".to_owned(), json!(pct(cost.kernel)));
            fields.insert("ctx".to_owned(), json!(cost.waits + cost.preemptions));
            fields.insert("majf".to_owned(), json!(cost.major_faults));
            fields.insert("minf".to_owned(), json!(cost.minor_faults));
        } else {
            // Virtual time takes none of the processor.
            fields.insert("usr_cpu".to_owned(), json!(0.0));
            fields.insert("sys_cpu".to_owned(), json!(0.0));
        }
        fields.insert("iodepth_level".to_owned(), depth_shares(&part.depths, &LEVELS));
        fields.insert("iodepth_submit".to_owned(), depth_shares(&part.submissions, &GROUPS));
        fields.insert("iodepth_complete".to_owned(), depth_shares(&part.completions, &GROUPS));
        classes(&part.response()).into_iter().for_each(|(name, shares)| {
            fields.insert(name.to_owned(), Value::Object(shares));
        });
        // Nothing looks for a depth, as in fio without latency_target.
        let unused = [
            ("latency_target", json!(0)),
            ("latency_percentile", json!(100.0)),
            ("latency_window", json!(0)),
        ];
        fields.extend(unused.map(|(key, value)| (key.to_owned(), value)));
        fields.insert("latency_depth".to_owned(), json!(self.depth()));
        if part.errors() > 0 {
            fields.insert("total_err".to_owned(), json!(part.errors()));
            fields.insert("first_error".to_owned(), json!(FAILED));
        }
        job
    }

    fn stream(&self) -> &StreamOptions {
        &self.run.options(self.options).streams[self.index]
    }

    /// Requests of a thread under way at a time at most.
    fn depth(&self) -> u32 {
        self.run.streams[self.index].room().div_ceil(self.stream().threads)
    }

    fn totals(&self) -> &Totals {
        &self.run.measurement.streams[self.index]
    }

    /// Its workload if it is the only job and no job of fio, or the name of its stream, which the phase tells apart from others.
    fn name(&self) -> String {
        let stream = self.stream();
        if self.options.is_one_stream() && stream.workload.workload().is_some() {
            return stream.workload.name().to_owned();
        }
        let all = self.options.phases.iter().flat_map(|phase| &phase.streams);
        let phase = self.run.options(self.options);
        match all.filter(|other| other.name == stream.name).count() {
            1 => stream.name.clone(),
            _ if phase.streams.len() == 1 => phase.name.clone(),
            _ => format!("{}/{}", phase.name, stream.name),
        }
    }

    /// First byte in which its requests may lie, and bytes from there on.
    fn addressed_bytes(&self) -> (u64, u64) {
        let space = self.run.streams[self.index].facts.space;
        let block_bytes = space.block_size.as_bytes();
        let capacity_bytes = space.capacity_blocks.saturating_mul(block_bytes);
        match &self.stream().workload {
            StreamLoad::Job(job, _) => {
                let left_bytes = capacity_bytes.saturating_sub(job.offset);
                (job.offset, job.size.unwrap_or(left_bytes).min(left_bytes))
            }
            StreamLoad::Workload(workload) => match &workload.spec {
                WorkloadSpec::Synthetic(spec) => {
                    let Range { start, end } = spec.address.blocks(space);
                    (start * block_bytes, (end - start) * block_bytes)
                }
                _ => (0, capacity_bytes),
            },
        }
    }

    /// The options with which fio would make the load, as far as it has them.
    fn job_options(&self) -> Map<String, Value> {
        let stream = self.stream();
        let target = &self.options.targets[stream.target];
        let mut job = Map::new();
        let mut set = |name: &str, value: String| job.insert(name.to_owned(), Value::String(value));
        set("name", self.name());
        set("ioengine", TargetKind::of(&target.address).0.name.to_owned());
        set("filename", target.address.clone());
        set("iodepth", self.depth().to_string());
        set("numjobs", stream.threads.to_string());
        set("direct", if target.buffered { "0" } else { "1" }.to_owned());
        let (offset, size) = self.addressed_bytes();
        if offset > 0 {
            set("offset", offset.to_string());
        }
        set("size", size.to_string());
        let phase = self.run.options(self.options);
        if let Some(duration) = phase.duration {
            set("runtime", format!("{}us", duration.as_ns() / 1000));
        }
        if let Ramp::Time(ramp) = phase.ramp {
            set("ramp_time", format!("{}us", ramp.as_ns() / 1000));
        }
        if stream.batch > 1 {
            set("iodepth_batch_complete_min", stream.batch.to_string());
        }
        let polled = [("sqthread_poll", target.polling.submission), ("hipri", target.polling.completion)];
        for (name, _) in polled.into_iter().filter(|(_, is_on)| *is_on) {
            set(name, "1".to_owned());
        }
        let load = LoadFigures::of(self.totals());
        if let Some(ResolvedWorkload { spec: WorkloadSpec::Synthetic(spec), .. }) = stream.workload.workload()
        {
            set("rw", pattern(spec).to_owned());
            set("rwmixread", format!("{:.0}", spec.read.as_f64() * 100.0));
            set("rwmixwrite", format!("{:.0}", 100.0 - spec.read.as_f64() * 100.0));
            if let Some(writes) = spec.flush_every {
                set("fdatasync", writes.to_string());
            }
            if spec.fua == Ratio::ONE && spec.read < Ratio::ONE {
                set("sync", "dsync".to_owned());
            }
            if let ArrivalSpec::Closed { think, think_distribution: TimeDistribution::Constant, .. } =
                spec.arrivals
                && !think.is_zero()
            {
                set("thinktime", format!("{}us", think.as_ns() / 1000));
            }
            match &spec.size {
                Some(SizeSpec::Fixed(size)) => {
                    set("bs", in_units(*size));
                }
                Some(SizeSpec::Mix(sizes)) => {
                    let sum: f64 = sizes.iter().map(|one| f64::from(one.weight)).sum();
                    let part = |size, weight: f64| format!("{}/{:.0}", in_units(size), 100.0 * weight / sum);
                    let parts: Vec<String> =
                        sizes.iter().map(|one| part(one.size, f64::from(one.weight))).collect();
                    set("bssplit", parts.join(":"));
                    set("bs", mean_size(&load));
                }
                _ => {
                    set("bs", mean_size(&load));
                }
            }
        } else {
            let rw = match (load.reads > 0, load.writes > 0) {
                (_, false) => "randread",
                (false, true) => "randwrite",
                (true, true) => "randrw",
            };
            set("rw", rw.to_owned());
            set("bs", mean_size(&load));
        }
        job
    }

    /// Figures of one direction.
    fn direction(&self, op: Operation) -> Value {
        let of = |part: &Part| {
            let direction = &part.operations[op as usize];
            (direction.requests, direction.bytes)
        };
        let (part, elapsed) = (&self.totals().part, self.totals().elapsed());
        let (requests, bytes) = of(part);
        let seconds = elapsed.as_s().max(1e-9);
        let times_of = &part.operations[op as usize];
        let (mut rates, mut amounts) = (Moments::default(), Moments::default());
        let intervals = &self.run.measurement.intervals;
        // The last interval may be cut.
        let whole = intervals.len().saturating_sub(1);
        for Interval { streams, .. } in intervals.iter().take(whole).filter(|_| requests > 0) {
            let part = &streams[self.index];
            let length_s = part.until.saturating_since(part.from).as_s().max(1e-9);
            let (requests, bytes) = of(part);
            rates.record(requests as f64 / length_s);
            amounts.record(bytes as f64 / 1024.0 / length_s);
        }
        let whole_of = |value: Option<f64>| value.unwrap_or(0.0) as u64;
        let bytes_per_second = bytes as f64 / seconds;
        json!({
            "io_bytes": bytes,
            "io_kbytes": bytes / 1024,
            "bw_bytes": bytes_per_second as u64,
            "bw": (bytes_per_second / 1024.0) as u64,
            "iops": requests as f64 / seconds,
            "runtime": if requests > 0 { (elapsed.as_ns() + 500_000) / 1_000_000 } else { 0 },
            "total_ios": requests,
            "short_ios": 0,
            "drop_ios": 0,
            "slat_ns": times(&Distribution::default(), false),
            "clat_ns": times(&times_of.service, true),
            "lat_ns": times(&times_of.response, true),
            "bw_min": whole_of(amounts.min()),
            "bw_max": whole_of(amounts.max()),
            "bw_agg": if requests > 0 { self.share_of_group(op) } else { 0.0 },
            "bw_mean": amounts.mean().unwrap_or(0.0),
            "bw_dev": amounts.standard_deviation().unwrap_or(0.0),
            "bw_samples": amounts.count(),
            "iops_min": whole_of(rates.min()),
            "iops_max": whole_of(rates.max()),
            "iops_mean": rates.mean().unwrap_or(0.0),
            "iops_stddev": rates.standard_deviation().unwrap_or(0.0),
            "iops_samples": rates.count(),
        })
    }

    /// Share of the bytes of the group, in percent.
    fn share_of_group(&self, op: Operation) -> f64 {
        let bytes = |part: &Part| part.operations[op as usize].bytes as f64;
        100.0 * bytes(&self.totals().part) / bytes(&self.run.measurement.totals.part).max(1.0)
    }
}

/// fio's name of the pattern of a synthetic load.
fn pattern(spec: &SyntheticSpec) -> &'static str {
    let is_sequential = spec.sequential == Ratio::ONE;
    let share = spec.read.as_f64();
    match (is_sequential, share >= 1.0, share <= 0.0) {
        (true, true, _) => "read",
        (true, _, true) => "write",
        (true, ..) => "rw",
        (false, true, _) => "randread",
        (false, _, true) => "randwrite",
        (false, ..) => "randrw",
    }
}

/// A size as fio writes it: `k` is 1024.
fn in_units(size: ByteSize) -> String {
    let bytes = size.as_bytes();
    match bytes {
        bytes if bytes > 0 && bytes % (1 << 20) == 0 => format!("{}m", bytes >> 20),
        bytes if bytes > 0 && bytes % 1024 == 0 => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// Mean size of the requests, in whole bytes.
fn mean_size(load: &LoadFigures) -> String {
    let bytes = (load.read_bytes + load.written_bytes) / (load.reads + load.writes).max(1);
    in_units(ByteSize::from_bytes(bytes))
}

/// Figures of times, with percentiles and bins if there are any times.
fn times(times: &Distribution, with_bins: bool) -> Value {
    let moments = times.moments();
    let (min, max) = (moments.min().unwrap_or(0.0) as u64, moments.max().unwrap_or(0.0) as u64);
    let mut figures = json!({
        "min": min,
        "max": max,
        "mean": moments.mean().unwrap_or(0.0),
        "stddev": moments.standard_deviation().unwrap_or(0.0),
        "N": moments.count(),
    });
    if with_bins && moments.count() > 0 {
        let percentile = PERCENTILES
            .into_iter()
            .filter_map(|pct| Some((format!("{pct:.6}"), json!(times.quantile(pct / 100.0)?.as_ns()))));
        figures["percentile"] = Value::Object(percentile.collect());
        let bins =
            times.buckets().map(|(upper, count)| (upper.as_ns().clamp(min, max).to_string(), json!(count)));
        figures["bins"] = Value::Object(bins.collect());
    }
    figures
}

/// Shares of the counts by class, in percent.
fn depth_shares(depths: &Depths, classes: &[(&str, Range<usize>)]) -> Value {
    let all = depths.counts().iter().sum::<u64>().max(1) as f64;
    let share = |(name, of): &(&str, Range<usize>)| {
        let count: u64 = depths.counts()[of.clone()].iter().sum();
        ((*name).to_owned(), json!(100.0 * count as f64 / all))
    };
    Value::Object(classes.iter().map(share).collect())
}

/// Shares of the requests by class of response time, in percent.
fn classes(response: &Distribution) -> [(&'static str, Map<String, Value>); 3] {
    let mut bounds: Vec<(&'static str, String, u64)> = Vec::new();
    for (name, unit_ns) in [("latency_ns", 1), ("latency_us", 1_000), ("latency_ms", 1_000_000)] {
        bounds.extend(CLASSES.iter().map(|bound| (name, bound.to_string(), bound * unit_ns)));
    }
    bounds.push(("latency_ms", "2000".to_owned(), 2_000_000_000));
    bounds.push(("latency_ms", ">=2000".to_owned(), u64::MAX));
    let mut counts = vec![0_u64; bounds.len()];
    for (upper, count) in response.buckets() {
        let class = bounds.iter().position(|(.., bound)| upper.as_ns() < *bound).unwrap_or(bounds.len() - 1);
        counts[class] += count;
    }
    let all = response.moments().count().max(1) as f64;
    let of = |wanted: &str| {
        let named = bounds.iter().zip(&counts).filter(|((name, ..), _)| *name == wanted);
        named.map(|((_, key, _), count)| (key.clone(), json!(100.0 * *count as f64 / all))).collect()
    };
    ["latency_ns", "latency_us", "latency_ms"].map(|name| (name, of(name)))
}
