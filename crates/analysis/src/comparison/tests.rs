//! Comparisons against the formulas.

use std::convert::Infallible;

use proptest::prelude::*;
use seeklab_core::{BufferOutcome, Instant, Operation};

use super::*;

fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

fn row(arrival_us: u64, lbn: u64, response_us: u64) -> TraceRecord {
    let arrival = Instant::ZERO + us(arrival_us);
    TraceRecord {
        completion: Some(arrival + us(response_us)),
        ..TraceRecord::new(arrival, Operation::Read, lbn, 8)
    }
}

fn trace(rows: &[TraceRecord]) -> Vec<Result<TraceRecord, Infallible>> {
    rows.iter().copied().map(Ok).collect()
}

#[test]
fn figures_equal_those_of_the_equations() {
    let reference = [row(0, 1, 1_000), row(5_000, 2, 2_000), row(9_000, 3, 3_000)];
    let other = [row(0, 1, 1_300), row(5_000, 2, 2_000), row(9_000, 3, 2_900)];
    let seen = compare(trace(&reference), trace(&other)).unwrap().summary();
    assert_eq!((seen.requests, seen.reference_mean_ms), (3, 2.0));
    assert_eq!((seen.ei_avg_ms, seen.ei_avg_pct), (0.066667, Some(3.333333)));
    assert_eq!(seen.ei_rms_ms, 0.182574);
    assert_eq!(seen.ea_rms_ms, 0.182574);
    assert_eq!(seen.within_5pct_pct, 66.666667);
}

#[test]
fn rows_in_completion_order_pair_by_arrival() {
    let reference = [row(0, 1, 1_000), row(100, 2, 5_000), row(200, 3, 1_000)];
    let other = [reference[2], reference[0], reference[1]];
    assert_eq!(compare(trace(&reference), trace(&other)).unwrap().summary().ei_rms_ms, 0.0);
    // Together at zero, completed in different order: paired by address.
    let burst = [row(0, 9, 1_000), row(0, 4, 2_000)];
    let other = [row(0, 4, 700), row(0, 9, 1_700)];
    let seen = compare(trace(&burst), trace(&other)).unwrap();
    assert_eq!(seen.errors_ms().collect::<Vec<_>>(), [-1.3, 0.7]);
}

#[test]
fn different_requests_are_refused_with_both_values() {
    let check = |other: &[TraceRecord], message: &str| {
        let error = compare(trace(&[row(0, 1, 10), row(5, 2, 10)]), trace(other)).unwrap_err();
        assert_eq!(error.to_string(), message);
    };
    check(
        &[row(0, 1, 10), row(5, 7, 10)],
        "request 1 in order of arrival is a read of 8 blocks at 2 of device 0 in the reference, \
         but a read of 8 blocks at 7 of device 0 in the other trace",
    );
    check(
        &[row(0, 1, 10)],
        "the reference has 2 requests, the other trace 1: per-request errors need the same requests in both",
    );
    let unfinished = TraceRecord { completion: None, ..row(5, 2, 10) };
    check(
        &[row(0, 1, 10), unfinished],
        "row 2 of the other trace has no completion, so its response time is unknown",
    );
    let empty = compare(trace(&[]), trace(&[])).unwrap_err();
    assert!(matches!(empty, ComparisonError::Empty));
    let unreadable: [Result<TraceRecord, std::io::Error>; 1] = [Err(std::io::Error::other("torn"))];
    let error = compare(unreadable, trace(&[])).unwrap_err();
    assert_eq!(error.to_string(), "row 1 of the reference cannot be read");
    assert_eq!(error.source().unwrap().to_string(), "torn");
}

#[test]
fn subset_can_be_compared() {
    let hit = TraceRecord { buffer: BufferOutcome::Hit, ..row(5, 2, 100) };
    let reference = [row(0, 1, 1_000), hit];
    let other = [row(0, 1, 9_000), row(5, 2, 150)];
    let hits = |side, record: &TraceRecord| side == Side::Other || record.buffer == BufferOutcome::Hit;
    let seen = compare_where(trace(&reference), trace(&other), hits).unwrap().summary();
    assert_eq!((seen.requests, seen.ei_avg_ms), (1, 0.05));
}

#[test]
fn error_histograms_have_griffins_buckets() {
    let pairs = [(1_000, 1_060), (1_000, 1_079), (1_000, 999), (1_000, 1_000), (1_000, 90_000)];
    let comparison = Comparison::from_pairs(pairs.map(|(r, o)| (us(r), us(o)))).unwrap();
    let histogram = comparison.error_histogram();
    assert_eq!((histogram.width, histogram.above, histogram.below), (0.02, 1, 0));
    let buckets: Vec<(f64, u64)> = histogram.buckets().collect();
    assert_eq!(buckets, [(-0.02, 1), (0.0, 1), (0.02, 0), (0.04, 0), (0.06, 2)]);
    let relative: Vec<(f64, u64)> =
        comparison.error_pct_histogram().buckets().filter(|(_, count)| *count > 0).collect();
    assert_eq!(relative, [(-1.0, 1), (0.0, 1), (6.0, 1), (7.0, 1)]);
}

fn durations(values: &[u64]) -> Vec<Duration> {
    values.iter().map(|value| us(*value)).collect()
}

#[test]
fn unequal_numbers_compare_by_quantiles() {
    // D_R = 1 ms everywhere; D_C = 1 ms up to 2/3, then 4 ms: the square root of 9/3.
    let seen = demerit(&durations(&[1_000, 1_000]), &durations(&[4_000, 1_000, 1_000])).unwrap();
    assert_eq!((seen.ea_rms_ms, seen.ea_rms_pct), (1.732051, Some(173.205081)));
    assert_eq!(demerit(&[], &durations(&[1])), None);
}

#[test]
fn demerit_of_every_pair_of_lengths_equals_that_of_equal_lengths() {
    // Steps of both end together at every common divisor of the lengths, and inside of each other elsewhere.
    for (n, m) in (1..=12_u64).flat_map(|n| (1..=12_u64).map(move |m| (n, m))) {
        let reference: Vec<Duration> = (0..n).map(|index| us(1_000 + 700 * index * index)).collect();
        let other: Vec<Duration> = (0..m).map(|index| us(900 + 1_300 * index)).collect();
        // Each value of one as often as the other has values, in ascending order.
        let widened = |values: &[Duration], times: u64| -> Vec<u64> {
            values.iter().flat_map(|value| std::iter::repeat_n(value.as_ns(), times as usize)).collect()
        };
        let (a, b) = (widened(&reference, m), widened(&other, n));
        let squares: f64 = a.iter().zip(&b).map(|(a, b)| (a.abs_diff(*b) as f64 / 1e6).powi(2)).sum();
        let expected = (squares / (n * m) as f64).sqrt();
        let seen = demerit(&reference, &other).unwrap().ea_rms_ms;
        assert!((seen - expected).abs() < 1e-6, "{n} and {m} values: {seen}, expected {expected}");
    }
}

proptest! {
    #[test]
    fn demerit_is_a_distance(
        a in prop::collection::vec(1_u64..100_000, 1..60),
        b in prop::collection::vec(1_u64..100_000, 1..60),
        shift in 0_u64..10_000,
        times in 2_usize..5,
    ) {
        let (x, y) = (durations(&a), durations(&b));
        let d = |x: &[Duration], y: &[Duration]| demerit(x, y).unwrap().ea_rms_ms;
        prop_assert_eq!(d(&x, &y), d(&y, &x));
        let mut reversed = x.clone();
        reversed.reverse();
        prop_assert_eq!(d(&x, &reversed), 0.0);
        let (mut sorted_a, mut sorted_b) = (a.clone(), b.clone());
        sorted_a.sort_unstable();
        sorted_b.sort_unstable();
        if a.len() == b.len() {
            prop_assert_eq!(d(&x, &y) == 0.0, sorted_a == sorted_b);
        }
        let shifted: Vec<Duration> = x.iter().map(|value| *value + us(shift)).collect();
        prop_assert!((d(&x, &shifted) - shift as f64 / 1e3).abs() < 1e-6);
        // The same distribution with each value several times over is no distance away,
        let repeated = |values: &[Duration]| values.repeat(times);
        prop_assert_eq!(d(&x, &repeated(&x)), 0.0);
        // and by quantiles gives what equal numbers of values give.
        let level = d(&x.repeat(b.len()), &y.repeat(a.len()));
        prop_assert!((d(&x, &y) - level).abs() <= 1e-6 + level * 1e-9);
    }

    #[test]
    fn figures_match_the_naive_computation(
        pairs in prop::collection::vec((1_u64..100_000, 1_u64..100_000), 1..200)
    ) {
        let n = pairs.len() as f64;
        let errors: Vec<f64> = pairs.iter().map(|(r, o)| (*o as f64 - *r as f64) / 1e3).collect();
        let avg = errors.iter().sum::<f64>() / n;
        let rms = (errors.iter().map(|error| error * error).sum::<f64>() / n).sqrt();
        let mean = pairs.iter().map(|(r, _)| *r as f64 / 1e3).sum::<f64>() / n;
        let seen = Comparison::from_pairs(pairs.iter().map(|(r, o)| (us(*r), us(*o)))).unwrap().summary();
        prop_assert!((seen.ei_avg_ms - avg).abs() < 2e-6);
        prop_assert!((seen.ei_rms_ms - rms).abs() < 2e-6);
        prop_assert!((seen.ei_rms_pct.unwrap() - rms / mean * 100.0).abs() < 1e-4);
        prop_assert!(seen.ei_rms_ms + 1e-6 >= seen.ei_avg_ms.abs());
        // Sorting both sides brings them as near as they can come.
        prop_assert!(seen.ea_rms_ms <= seen.ei_rms_ms + 1e-6);
        let within = pairs.iter().filter(|(r, o)| r.abs_diff(*o) * 20 <= *r).count() as f64;
        prop_assert!((seen.within_5pct_pct - within / n * 100.0).abs() < 1e-5);
    }
}
