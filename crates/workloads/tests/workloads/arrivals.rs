//! Tests that open arrivals have the described pace and shape.

use std::sync::Arc;

use seeklab_core::statistics::Moments;
use seeklab_core::{Duration, Instant, Seed};
use seeklab_workloads::{Supplied, Synthetic, SyntheticSpec};

use crate::common::{TARGET, arrivals, workload};

fn interarrivals(line: &str) -> Vec<Duration> {
    between(&arrivals(&mut workload(line)).into_iter().map(|(time, _)| time).collect::<Vec<_>>())
}

fn between(times: &[Instant]) -> Vec<Duration> {
    let starts = std::iter::once(&Instant::ZERO).chain(times);
    starts.zip(times).map(|(last, next)| *next - *last).collect()
}

fn moments(times: &[Duration]) -> Moments {
    let mut moments = Moments::default();
    times.iter().for_each(|time| moments.record(time.as_ms()));
    moments
}

#[test]
fn poisson_interarrival_times_are_exponential_with_the_given_mean() {
    for pace in ["poisson=100/s", "poisson=6000/min", "arrivals.process=poisson,arrivals.interarrival=10ms"] {
        let times = interarrivals(&format!("size=8KiB,read=1,{pace},requests=200000"));
        let moments = moments(&times);
        let mean = moments.mean().unwrap();
        let cv = moments.standard_deviation().unwrap() / mean;
        assert!((mean / 10.0 - 1.0).abs() < 0.01, "{pace}: mean {mean}");
        assert!((cv - 1.0).abs() < 0.015, "{pace}: coefficient of variation {cv}");
    }
}

#[test]
fn constant_arrivals_never_drift() {
    let times: Vec<Instant> = arrivals(&mut workload("size=8KiB,read=1,constant=3/s,requests=3000"))
        .into_iter()
        .map(|(time, _)| time)
        .collect();
    assert_eq!(times[0], Instant::from_ns(333_333_333));
    assert_eq!(times[2_999], Instant::ZERO + Duration::from_s(1_000));
}

#[test]
fn bursts_have_the_described_length_and_gap() {
    let line = "size=8KiB,read=1,arrivals.process=bursty,arrivals.burst=20,arrivals.within=1ms,arrivals.gap=500ms,arrivals.distribution=constant,requests=100000";
    let times = interarrivals(line);
    let gaps = times.iter().filter(|time| **time == Duration::from_ms(500)).count();
    let within = times.iter().filter(|time| **time == Duration::from_ms(1)).count();
    assert_eq!(gaps + within, times.len());
    let length = times.len() as f64 / gaps as f64;
    assert!((length / 20.0 - 1.0).abs() < 0.06, "mean burst {length}");

    let exact = interarrivals(&format!("{line},arrivals.burst_distribution=constant"));
    assert!(exact.iter().enumerate().all(|(index, time)| {
        *time == if index % 20 == 0 { Duration::from_ms(500) } else { Duration::from_ms(1) }
    }));
}

#[test]
fn exponential_bursts_are_burstier_than_poisson() {
    let times = interarrivals(
        "size=8KiB,read=1,arrivals.process=bursty,arrivals.burst=20,arrivals.within=1ms,arrivals.gap=481ms,requests=200000",
    );
    let moments = moments(&times);
    let mean = moments.mean().unwrap();
    // (481 + 19 × 1) / 20 = 25 ms.
    assert!((mean / 25.0 - 1.0).abs() < 0.03, "mean {mean}");
    assert!(moments.standard_deviation().unwrap() / mean > 4.0);
}

#[test]
fn shaped_arrivals_repeat_the_list() {
    let list: Arc<[Duration]> = [5, 0, 7].map(Duration::from_ms).into();
    let supplied = Supplied { interarrival_times: Some(list), ..Supplied::default() };
    let spec = SyntheticSpec::parse("size=8KiB,read=1,arrivals.process=shaped,requests=7").unwrap();
    let mut workload = Synthetic::new(&spec, TARGET, Seed(1), supplied).unwrap();
    let times: Vec<u64> = arrivals(&mut workload).iter().map(|(time, _)| time.as_ns() / 1_000_000).collect();
    assert_eq!(times, [5, 5, 12, 17, 17, 24, 29]);
}
