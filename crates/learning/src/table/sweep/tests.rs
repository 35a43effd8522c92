//! Tests that tables of a sweep hold the measured values, and follow the rules between and beyond them.

use proptest::prelude::*;
use seeklab_core::{ByteSize, Device, Instant, Request, Seed};

use seeklab_devices::table::TableModel;

use super::*;

/// All times between 0.9 and 1.1 of a mean.
fn narrow(mean_us: f64) -> Quantiles {
    let ns = mean_us * 1e3;
    Quantiles::from_percentiles(&[(0.0, 0.9 * ns), (1.0, 1.1 * ns)]).unwrap().with_mean(ns)
}

fn point(blocks: u32, queue_length: u32, is_sequential: bool, mean_us: f64) -> Point {
    Point {
        op: Operation::Read,
        blocks,
        queue_length,
        is_sequential,
        requests: 1000,
        precedence: 1,
        times: narrow(mean_us),
    }
}

fn model(points: &[Point]) -> TableModel {
    let about = DeviceInfo {
        block_size: ByteSize::from_bytes(512),
        capacity_blocks: 1 << 30,
        fit: BTreeMap::from([("sweep".to_owned(), "test".to_owned())]),
    };
    let parameters = tables(points, about).unwrap();
    let text = toml::to_string(&parameters).unwrap();
    assert_eq!(toml::from_str::<TableParameters>(&text).unwrap(), parameters, "it is read as it was written");
    TableModel::new(&parameters, Seed(1), "disk0").unwrap()
}

/// The mean time in us of the requests that find so many outstanding, and the share of them that lies beyond.
fn mean_us(points: &[Point], blocks: u32, queue_length: u32, is_sequential: bool) -> (f64, f64) {
    const ROUNDS: u32 = 400;
    let (mut model, mut sum, mut beyond) = (model(points), 0.0, 0);
    let mut completions = Vec::new();
    model.submit(Instant::ZERO, Request::new(0, Operation::Read, 0, blocks)).unwrap();
    model.poll(model.next_event().unwrap(), &mut completions);
    completions.clear();
    let mut end = u64::from(blocks);
    for round in 1..=ROUNDS {
        let now = Instant::from_ns(u64::from(round) << 40);
        for index in 0..=u64::from(queue_length) {
            let lbn = if is_sequential { end } else { (end + (index + 1) * 7919) % (1 << 29) };
            end = lbn + u64::from(blocks);
            let before = model.coverage().unwrap().outside;
            model.submit(now, Request::new(index, Operation::Read, lbn, blocks)).unwrap();
            if index == u64::from(queue_length) {
                beyond += model.coverage().unwrap().outside - before;
            }
        }
        while let Some(next) = model.next_event() {
            model.poll(next, &mut completions);
        }
        let last = completions.drain(..).find(|done| done.request.id.0 == u64::from(queue_length)).unwrap();
        sum += last.response_time().as_us();
    }
    (sum / f64::from(ROUNDS), beyond as f64 / f64::from(ROUNDS))
}

#[track_caller]
fn check(
    points: &[Point],
    [blocks, queue_length]: [u32; 2],
    is_sequential: bool,
    expected_us: f64,
    beyond: bool,
) {
    let (us, share) = mean_us(points, blocks, queue_length, is_sequential);
    // 400 draws of 6 % deviation, and buckets of 1.6 %.
    assert!((us / expected_us - 1.0).abs() < 0.02, "{us} us, {expected_us} expected");
    assert_eq!(share, f64::from(u8::from(beyond)), "whether it lies beyond what was measured");
}

#[test]
fn measured_points_are_reproduced() {
    let points = [point(8, 0, false, 100.0), point(8, 7, false, 200.0), point(8, 0, true, 10.0)];
    check(&points, [8, 0], false, 100.0, false);
    check(&points, [8, 7], false, 200.0, false);
    check(&points, [8, 0], true, 10.0, false);
    check(&points, [8, 3], true, 40.0, true);
}

#[test]
fn throughput_is_concave_between_two_depths() {
    let points = [point(8, 0, false, 100.0), point(8, 4, false, 200.0)];
    // The mean goes up by 25 us with each of the depths 1 to 5.
    for (queue_length, expected) in [(1, 125.0), (2, 150.0), (3, 175.0)] {
        check(&points, [8, queue_length], false, expected, false);
    }
}

#[test]
fn throughput_stays_beyond_the_deepest() {
    let points = [point(8, 0, false, 100.0), point(8, 3, false, 120.0)];
    check(&points, [8, 7], false, 240.0, true);
    // The class of 28 to 31, its middle: a depth of 30.5.
    check(&points, [8, 31], false, 120.0 * 30.5 / 4.0, true);
}

#[test]
fn time_grows_with_the_length() {
    let points = [point(8, 0, false, 100.0), point(64, 0, false, 380.0)];
    check(&points, [16, 0], false, 140.0, false);
    check(&points, [32, 0], false, 220.0, false);
    check(&points, [256, 0], false, 1520.0, true);
    check(&points, [1, 0], false, 100.0, true);
}

#[test]
fn length_measured_at_one_depth_goes_with_the_others() {
    let depths = [point(8, 0, false, 100.0), point(8, 1, false, 110.0), point(8, 7, false, 400.0)];
    // At a depth of 8 four times as long as at 1.
    check(&[&depths[..], &[point(64, 7, false, 4000.0)]].concat(), [64, 0], false, 1000.0, true);
    check(&[&depths[..], &[point(64, 0, false, 300.0)]].concat(), [64, 7], false, 1200.0, true);
    // Between a length that gains all from depth and one that gains nothing, half the way in its logarithm.
    let both = [
        &depths[..2],
        &[point(8, 7, false, 100.0), point(512, 0, false, 800.0), point(512, 7, false, 6400.0)],
    ];
    let both = [&both.concat()[..], &[point(64, 0, false, 200.0)]].concat();
    check(&both, [64, 7], false, 200.0 * 8.0_f64.sqrt(), true);
    // Others whose times grow faster than the depth count as no more than that.
    let odd = [point(8, 0, false, 100.0), point(8, 7, false, 4000.0), point(64, 0, false, 200.0)];
    check(&odd, [64, 7], false, 1600.0, true);
    // Alone: shallower as there.
    check(&[point(64, 7, false, 500.0)], [64, 2], false, 500.0, true);
}

#[test]
fn flushes_take_as_long_as_at_the_nearest_depth() {
    let flush =
        |queue_length, mean_us| Point { op: Operation::Flush, ..point(1, queue_length, false, mean_us) };
    let points = [point(8, 0, false, 100.0), flush(0, 1000.0), flush(4, 2000.0)];
    let mut clone = model(&points);
    assert!(clone.capabilities().volatile_write_cache, "who asks for flushes gets them");
    let mut done = Vec::new();
    let mut now = Instant::ZERO;
    for (queue_length, expected_us, beyond) in
        [(0, 1000.0, 0), (2, 1500.0, 0), (4, 2000.0, 0), (40, 2000.0, 1)]
    {
        let (mut sum, mut outside) = (0.0, 0);
        for _ in 0..400 {
            for id in 1..=queue_length {
                clone.submit(now, Request::new(id, Operation::Read, 1000 * id, 8)).unwrap();
            }
            let before = clone.coverage().unwrap().outside;
            clone.submit(now, Request::new(0, Operation::Flush, 0, 0)).unwrap();
            outside += clone.coverage().unwrap().outside - before;
            while let Some(next) = clone.next_event() {
                clone.poll(next, &mut done);
                now = next;
            }
            sum += done.drain(..).find(|done| done.request.id.0 == 0).unwrap().response_time().as_us();
        }
        let us = sum / 400.0;
        assert!(
            (us / expected_us - 1.0).abs() < 0.02,
            "{us} us behind {queue_length}, {expected_us} expected"
        );
        assert_eq!(outside, 400 * beyond, "behind {queue_length}");
    }
    let no_flushes = [point(8, 0, false, 100.0)];
    assert!(!model(&no_flushes).capabilities().volatile_write_cache);
}

#[test]
fn points_of_the_first_precedence_alone_count() {
    let later = Point { precedence: 2, requests: 1 << 40, ..point(8, 0, false, 900.0) };
    for points in [[point(8, 0, false, 100.0), later.clone()], [later, point(8, 0, false, 100.0)]] {
        check(&points, [8, 0], false, 100.0, false);
    }
}

#[test]
fn points_of_one_class_are_mixed() {
    let few = Point { requests: 1, ..point(8, 0, false, 900.0) };
    let mixed = narrow(100.0).mixed(999.0, &few.times, 1.0);
    assert!((mixed.mean_ns() / 1e3 - 100.8).abs() < 0.5, "{}", mixed.mean_ns());
    let points = [point(8, 0, false, 100.0), point(9, 0, false, 300.0)];
    let (us, _) = mean_us(&points, 8, 0, false);
    assert!((us - 200.0).abs() < 20.0, "{us}");
}

proptest! {
    #[test]
    fn quantiles_are_in_order_and_of_their_mean(
        times in prop::collection::vec(0.0..1e12_f64, 1..20),
        shares in prop::collection::vec(0.0..1.0_f64, 1..20),
        mean in 1.0..1e12_f64,
    ) {
        let count = times.len().min(shares.len());
        let (mut times, mut shares) = (times[..count].to_vec(), shares[..count].to_vec());
        times.sort_by(f64::total_cmp);
        shares.sort_by(f64::total_cmp);
        let points: Vec<(f64, f64)> = shares.into_iter().zip(times).collect();
        let quantiles = Quantiles::from_percentiles(&points).unwrap();
        let values: Vec<f64> = (0..=100).map(|at| quantiles.at_ns(f64::from(at) / 100.0)).collect();
        prop_assert!(values.windows(2).all(|pair| pair[0] <= pair[1] * 1.000001));
        let (first, last) = (points[0].1.max(1.0), points[count - 1].1.max(1.0));
        prop_assert!(values[0] >= first * 0.999999 && values[100] <= last * 1.000001);
        let scaled = quantiles.with_mean(mean);
        let is_least = scaled.at_ns(0.0) <= 1.000001;
        prop_assert!(is_least || (scaled.mean_ns() / mean - 1.0).abs() < 1e-6, "{} {mean}", scaled.mean_ns());
    }

    #[test]
    fn counts_are_their_own_quantiles(counts in prop::collection::vec((1.0..1e9_f64, 0..1000_u64), 1..50)) {
        match Quantiles::from_counts(&counts) {
            None => prop_assert!(counts.iter().all(|(_, count)| *count == 0)),
            Some(quantiles) => {
                let total: u64 = counts.iter().map(|(_, count)| count).sum();
                let median = quantiles.at_ns(0.5);
                let below: u64 = counts.iter().filter(|(ns, _)| *ns < median * 0.999999).map(|(_, count)| count).sum();
                let upto: u64 = counts.iter().filter(|(ns, _)| *ns <= median * 1.000001).map(|(_, count)| count).sum();
                // The step in whose middle the median lies is half a percent wide.
                prop_assert!(below as f64 <= 0.51 * total as f64 && upto as f64 >= 0.49 * total as f64);
            }
        }
    }
}
