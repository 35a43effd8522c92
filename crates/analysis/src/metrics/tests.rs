//! Metrics against figures computed the long way.

use proptest::prelude::*;
use seeklab_core::{Breakdown, ClassTimes, Criticality, Seed, Status};

use super::*;

fn ms(ms: f64) -> Duration {
    Duration::from_ms_f64(ms)
}

/// A read that arrives at `arrival`, starts at `start` and completes at `completion`, all in ms.
fn served(arrival: f64, start: f64, completion: f64) -> TraceRecord {
    let at = |time: f64| Instant::ZERO + ms(time);
    TraceRecord {
        start: Some(at(start)),
        completion: Some(at(completion)),
        breakdown: Some(Breakdown {
            queue: ms(start - arrival),
            seek: ms((completion - start) / 2.0),
            transfer: ms((completion - start) / 2.0),
            ..Breakdown::default()
        }),
        queue_length: Some(u32::from(start > arrival)),
        seek_cylinders: Some(100),
        buffer: BufferOutcome::Miss,
        ..TraceRecord::new(at(arrival), Operation::Read, 1_000, 16)
    }
}

fn of(records: &[TraceRecord]) -> Metrics {
    let mut metrics = Metrics::new(ByteSize::from_bytes(512));
    records.iter().for_each(|record| metrics.record(record));
    metrics
}

#[test]
fn figures_of_three_requests_match_manual_calculation() {
    let hit = TraceRecord {
        op: Operation::Write,
        buffer: BufferOutcome::Hit,
        seek_cylinders: Some(0),
        status: Status::Recovered,
        ..served(30.0, 30.0, 40.0)
    };
    let summary = of(&[served(10.0, 10.0, 20.0), served(15.0, 20.0, 24.0), hit]).summary();
    assert_eq!((summary.requests, summary.reads, summary.writes, summary.errors), (3, 2, 1, 0));
    assert_eq!(summary.statuses.recovered, 1);
    assert_eq!((summary.read_bytes, summary.written_bytes), (16_384, 8_192));
    assert_eq!(summary.duration_s, 0.03);
    assert_eq!(summary.requests_per_second, Some(100.0));
    assert_eq!(summary.mib_per_second, Some(0.78125));
    let response = summary.response.unwrap();
    assert_eq!((response.mean_ms, response.max_ms), (9.666667, 10.0));
    assert_eq!(summary.queue.unwrap().mean_ms, 1.666667);
    assert_eq!(summary.service.unwrap().mean_ms, 8.0);
    assert_eq!(summary.utilisation_pct, Some(80.0));
    assert_eq!(summary.outstanding_mean, Some(0.966667));
    assert_eq!((summary.queue_length_mean, summary.queue_length_max), (Some(0.333333), Some(1)));
    assert_eq!((summary.seek_cylinders_mean, summary.seek_zero_pct), (Some(100.0), Some(0.0)));
    assert_eq!(summary.buffer_hits_pct, Some(33.333333));
    assert_eq!(summary.read_buffer_hits_pct, Some(0.0));
    assert_eq!(summary.write_buffer_hits_pct, Some(100.0));
    let breakdown = summary.breakdown.unwrap();
    assert_eq!((breakdown.queue_mean_ms, breakdown.seek_mean_ms), (1.666667, 4.0));
    assert!((breakdown.total_ms() - response.mean_ms).abs() < 1e-5);
}

#[test]
fn classes_count_apart_from_the_second_on() {
    let request = |criticality, became: Option<f64>, arrival: f64, completion: f64| {
        let became = ClassTimes::new(None, became.map(|ms| Instant::from_ns((ms * 1e6) as u64)));
        TraceRecord { criticality, became, ..served(arrival, arrival, completion) }
    };
    let critical = |arrival, completion| request(Criticality::TimeCritical, None, arrival, completion);
    let first = [critical(0.0, 2.0), critical(10.0, 14.0), critical(20.0, 29.0)];
    assert_eq!(of(&first).summary().by_criticality, None, "one class");
    let failed = TraceRecord { status: Status::Aborted, ..critical(30.0, 99.0) };
    let noncritical = request(Criticality::TimeNoncritical, None, 40.0, 60.0);
    let needed = request(Criticality::TimeNoncritical, Some(55.0), 50.0, 58.0);
    let rest = [failed, noncritical, needed, critical(70.0, 71.0)];
    let classes = of(&[&first[..], &rest].concat()).summary().by_criticality.unwrap();
    let CriticalitySummaries { time_critical, time_limited, time_noncritical } = classes;
    assert_eq!((time_critical.requests, time_critical.became_time_critical), (4, 0));
    assert_eq!((time_critical.response_mean_ms, time_critical.response_max_ms), (Some(4.0), Some(9.0)));
    assert_eq!(time_critical.wait_mean_ms, None);
    assert_eq!(time_limited, CriticalitySummary::default());
    assert_eq!((time_noncritical.requests, time_noncritical.became_time_critical), (2, 1));
    assert_eq!((time_noncritical.response_mean_ms, time_noncritical.wait_mean_ms), (Some(14.0), Some(3.0)));
    let p99 = |class: CriticalitySummary| class.response_p99_ms.unwrap();
    assert!((8.9..=9.0).contains(&p99(time_critical)) && (19.9..=20.0).contains(&p99(time_noncritical)));
    // A class that changes is enough.
    let changed = of(&[needed]).summary().by_criticality.unwrap();
    assert_eq!(changed.time_noncritical.wait_max_ms, Some(3.0));
}

#[test]
fn failed_requests_count_apart_from_those_that_were_carried_out() {
    let failed = |status, arrival, start, completion| TraceRecord {
        status,
        good_blocks: Some(3),
        ..served(arrival, start, completion)
    };
    let carried_out = [served(10.0, 10.0, 20.0), served(15.0, 20.0, 24.0)];
    let all = [
        carried_out[0],
        failed(Status::MediumError, 12.0, 20.0, 120.0),
        carried_out[1],
        failed(Status::Timeout, 30.0, 30.0, 60.0),
        failed(Status::Timeout, 200.0, 200.0, 210.0),
    ];
    let (without, with) = (of(&carried_out).summary(), of(&all).summary());
    assert_eq!((with.requests, with.reads, with.read_bytes), (2, 2, 16_384));
    assert_eq!(with.errors, 3);
    assert_eq!((with.statuses.medium_error, with.statuses.timeout, with.statuses.gone), (1, 2, 0));
    assert_eq!((with.response, with.read_response), (without.response, without.read_response));
    assert_eq!(
        (with.queue, with.service, with.breakdown),
        (without.queue, without.service, without.breakdown)
    );
    assert_eq!(with.error_response.unwrap().max_ms, 108.0);
    assert_eq!(
        (with.duration_s, with.requests_per_second, with.errors_per_second),
        (0.2, Some(10.0), Some(15.0))
    );
    // In service from 10 to 120 ms and from 200 to 210 ms.
    assert_eq!(with.utilisation_pct, Some(60.0));
    assert_eq!(with.outstanding_mean, Some((10.0 + 9.0 + 108.0 + 30.0 + 10.0) / 200.0));
    let bins = of(&all).timeline();
    assert_eq!(
        bins.iter().map(|bin| (bin.requests, bin.errors)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
        (2, 3)
    );
}

#[test]
fn trace_of_arrivals_alone_has_rates_and_no_times() {
    let records: Vec<TraceRecord> = (0..11)
        .map(|s| TraceRecord::new(Instant::ZERO + Duration::from_s(s), Operation::Read, s, 8))
        .collect();
    let metrics = of(&records);
    let summary = metrics.summary();
    assert_eq!((summary.requests, summary.incomplete), (11, 11));
    assert_eq!(summary.requests_per_second, Some(1.1));
    assert_eq!((summary.response, summary.utilisation_pct, summary.breakdown), (None, None, None));
    assert_eq!((summary.outstanding_mean, summary.buffer_hits_pct), (None, None));
    assert!(metrics.response_cdf().is_empty());
    assert_eq!(metrics.timeline().iter().map(|bin| bin.requests).sum::<u64>(), 11);
    assert_eq!(Metrics::new(ByteSize::from_bytes(512)).summary().requests_per_second, None);
}

#[test]
fn json_always_has_the_same_keys_with_units() {
    let keys = |summary: &MetricsSummary| -> Vec<String> {
        let value = serde_json::to_value(summary).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    };
    let full = of(&[served(0.0, 0.0, 1.0)]).summary();
    let empty = of(&[]).summary();
    assert_eq!(keys(&full), keys(&empty));
    let value = serde_json::to_value(&full).unwrap();
    assert_eq!(value["response_p999_ms"], 1.0);
    assert_eq!(value["breakdown"]["seek_mean_ms"], 0.5);
    assert!(serde_json::to_value(&empty).unwrap()["response_mean_ms"].is_null());
}

#[test]
fn number_outstanding_equals_that_of_the_events() {
    // Little's law, its left side integrated from arrivals and completions as events.
    let mut stream = Seed(11).stream("little");
    let (mut arrival, mut free, mut records) = (Instant::ZERO, Instant::ZERO, Vec::new());
    for _ in 0..20_000 {
        arrival += stream.exponential(ms(10.0));
        let start = arrival.max(free);
        free = start + stream.exponential(ms(8.0));
        let mut record = TraceRecord::new(arrival, Operation::Read, 0, 1);
        (record.start, record.completion) = (Some(start), Some(free));
        records.push(record);
    }
    let mut events: Vec<(Instant, i64)> =
        records.iter().flat_map(|record| [(record.arrival, 1), (record.completion.unwrap(), -1)]).collect();
    events.sort();
    let (mut outstanding, mut integral_ns, mut last) = (0_i64, 0_i128, events[0].0);
    for (at, change) in &events {
        integral_ns += i128::from(outstanding) * i128::from((*at - last).as_ns());
        (outstanding, last) = (outstanding + change, *at);
    }
    let span_ns = (last - events[0].0).as_ns();
    let summary = of(&records).summary();
    let by_events = integral_ns as f64 / span_ns as f64;
    assert!((summary.outstanding_mean.unwrap() - by_events).abs() < 1e-6);
    let by_rate = summary.requests_per_second.unwrap() * summary.response.unwrap().mean_ms / 1e3;
    assert!((by_rate - by_events).abs() < 1e-5);
    // M/M/1 at a load of 0.8: utilisation 80 %, response time 8 / (1 - 0.8) = 40 ms.
    assert!((summary.utilisation_pct.unwrap() - 80.0).abs() < 2.0, "{:?}", summary.utilisation_pct);
    let response = summary.response.unwrap().mean_ms;
    let half_width = summary.response_mean_half_width_95_ms.unwrap();
    assert!((response - 40.0).abs() < half_width, "{response} ± {half_width}");
}

proptest! {
    #[test]
    fn figures_match_the_naive_computation(
        rows in prop::collection::vec((0_u64..1_000_000, 0_u64..5_000, 1_u64..50_000), 1..200)
    ) {
        let records: Vec<TraceRecord> = rows
            .iter()
            .map(|(arrival, queue, service)| {
                let arrival = *arrival as f64 / 1e3;
                let start = arrival + *queue as f64 / 1e3;
                served(arrival, start, start + *service as f64 / 1e3)
            })
            .collect();
        let summary = of(&records).summary();
        let n = rows.len() as f64;
        let mean = |f: &dyn Fn(&TraceRecord) -> Duration| {
            records.iter().map(|record| f(record).as_ms()).sum::<f64>() / n
        };
        let close = |seen: f64, expected: f64| (seen - expected).abs() <= 1e-6 + expected * 1e-9;
        prop_assert!(close(summary.response.unwrap().mean_ms, mean(&|r| r.response_time().unwrap())));
        prop_assert!(close(summary.queue.unwrap().mean_ms, mean(&|r| r.queue_time().unwrap())));
        prop_assert!(close(summary.service.unwrap().mean_ms, mean(&|r| r.service_time().unwrap())));
        let mut sorted: Vec<f64> = records.iter().map(|r| r.response_time().unwrap().as_ms()).collect();
        sorted.sort_by(f64::total_cmp);
        for (quantile, seen) in [(0.5, summary.response.unwrap().p50_ms), (0.99, summary.response.unwrap().p99_ms)] {
            let exact = sorted[((quantile * n).ceil() as usize).max(1) - 1];
            prop_assert!((seen / exact - 1.0).abs() < 1.1e-3, "{} {} {}", quantile, seen, exact);
        }
        prop_assert_eq!(summary.response.unwrap().max_ms, (sorted[sorted.len() - 1] * 1e6).round() / 1e6);
    }
}
