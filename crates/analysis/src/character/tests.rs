//! The characteristics of traces with known properties are correct.

use proptest::prelude::*;
use seeklab_core::{ByteSize, Duration, Instant};

use super::*;

fn request(arrival_us: u64, op: Operation, lbn: u64, blocks: u32) -> TraceRecord {
    let arrival = Instant::from_ns(arrival_us * 1000);
    TraceRecord {
        completion: Some(arrival + Duration::from_us(100)),
        ..TraceRecord::new(arrival, op, lbn, blocks)
    }
}

fn character(requests: impl IntoIterator<Item = TraceRecord>) -> Character {
    let mut character = Character::new(ByteSize::from_bytes(4096));
    requests.into_iter().for_each(|request| character.record(&request));
    character
}

/// A pseudorandom number by its index.
fn draw(index: u64) -> u64 {
    reuse::hash(7, index)
}

#[test]
fn miss_ratios_equal_those_of_a_cache_of_each_size() {
    // A loop over 100 units: a cache of 100 units misses the first round only, a smaller one always.
    let character = character((0..1000).map(|index| request(index, Operation::Read, index % 100, 1)));
    let ratio = |units: f64| {
        let ratios = character.reuse.miss_ratios();
        ratios.iter().rfind(|(bytes, _)| *bytes <= units * 4096.0).map_or(1.0, |(_, ratio)| *ratio)
    };
    assert_eq!(ratio(64.0), 1.0);
    assert!((ratio(128.0) - 0.1).abs() < 1e-9, "{}", ratio(128.0));
    assert_eq!(character.reuse.units(), 100.0);
    assert_eq!(character.reuse.zipf().map(|zipf| zipf.abs() < 1e-9), Some(true));
}

#[test]
fn sampling_preserves_miss_ratios_and_units() {
    // Uniform over a million units: a cache of half of them hits half of the accesses in the steady state.
    let units = 1_000_000_u64;
    let requests = (0..4_000_000).map(|index| request(index, Operation::Read, draw(index) % units, 1));
    let character = character(requests);
    let found = character.reuse.units();
    assert!((found / 981_684.0 - 1.0).abs() < 0.03, "{found} units, expected {units} (1 - e^-4)");
    // Misses: cold ones, and of the others those that reach back further than half of the units.
    let expected = {
        let cold = 0.981_684 / 4.0;
        cold + (1.0 - cold) * 0.4
    };
    let ratios = character.reuse.miss_ratios();
    let (_, half) = ratios.iter().rfind(|(bytes, _)| *bytes <= 0.55 * units as f64 * 4096.0).unwrap();
    assert!((half - expected).abs() < 0.1, "{half}, about {expected}");
    let footprint = character.over_time.intervals().last().unwrap().footprint_bytes / 4096.0;
    assert!((footprint / 981_684.0 - 1.0).abs() < 0.15, "{footprint}");
}

#[test]
fn regular_random_and_dependent_arrivals_are_distinguished() {
    let at = |us: u64| request(us, Operation::Read, 0, 1);
    let regular = character((0..100_000).map(|index| at(index * 1000)));
    assert!(regular.arrivals.variation().unwrap() < 1e-6);
    // Exponential interarrival times of 1 ms on average.
    let mut now = 0.0;
    let poisson = character((0..200_000).map(|index| {
        now += -((draw(index) as f64 + 1.0) / u64::MAX as f64).ln() * 1000.0;
        at(now as u64)
    }));
    assert!((poisson.arrivals.variation().unwrap() - 1.0).abs() < 0.02);
    let hurst = poisson.arrivals.hurst().unwrap();
    assert!((hurst - 0.5).abs() < 0.08, "{hurst}");
    // Bursts whose lengths have a heavy tail: long-range dependent.
    let mut now = 0.0;
    let mut left = 0_u64;
    let bursty = character((0..200_000).map(|index| {
        if left == 0 {
            left = (1.0 / (draw(index) as f64 / u64::MAX as f64).powf(1.0 / 1.2)).min(1e5) as u64;
            now += 1000.0 / (draw(index + 1_000_000) as f64 / u64::MAX as f64).powf(1.0 / 1.2).max(1e-4);
        }
        left -= 1;
        now += 1000.0;
        at(now as u64)
    }));
    assert!(bursty.arrivals.hurst().unwrap() > 0.65, "{:?}", bursty.arrivals.hurst());
}

#[test]
fn busy_and_idle_periods_are_distinguished() {
    let character = character([
        request(0, Operation::Read, 0, 1),
        request(50, Operation::Write, 0, 1),
        request(1150, Operation::Read, 8, 1),
        request(5000, Operation::Read, 8, 1),
    ]);
    let periods = &character.periods;
    let near = |distribution: &Distribution, quantile: f64, us: f64| {
        let found = distribution.quantile(quantile).unwrap().as_us();
        assert!((found / us - 1.0).abs() < 0.01, "{found} us, expected {us}");
    };
    near(&periods.busy, 1.0, 150.0);
    near(&periods.idle, 0.5, 1000.0);
    near(&periods.idle, 1.0, 3750.0);
    assert_eq!(periods.burst.moments().max(), Some(2.0));
    // A write, then a read and a read: 1.1 ms after it is unit 0 not read again.
    assert_eq!(character.reuse.rewrite.moments().count(), 0);
    assert_eq!(character.reuse.overlap(), Some([0.5, 0.0, 0.5]));
}

#[test]
fn intervals_and_cells_widen_without_loss() {
    let count = 50_000_u64;
    let character = character((0..count).map(|index| {
        let op = if index % 4 == 0 { Operation::Write } else { Operation::Read };
        request(index * 10_000, op, draw(index) % 1_000_000, 2)
    }));
    let intervals = character.over_time.intervals();
    assert!(intervals.len() <= 256);
    let sum = |of: fn(&Interval) -> u64| intervals.iter().map(of).sum::<u64>();
    assert_eq!(sum(|interval| interval.requests[0]), count * 3 / 4);
    assert_eq!(sum(|interval| interval.bytes[1]), count / 4 * 8192);
    assert_eq!(character.map.cells().iter().map(|cell| u64::from(cell.2)).sum::<u64>(), count);
    for interval in &intervals {
        let [p50, .., p999] = interval.response_ms.unwrap();
        assert!((p50 / 0.1 - 1.0).abs() < 0.09 && (p999 / 0.1 - 1.0).abs() < 0.09, "{p50}");
        assert_eq!(interval.outstanding, Some((0.0, 0)));
    }
    assert!(intervals.windows(2).all(|pair| pair[0].footprint_bytes <= pair[1].footprint_bytes));
    assert_eq!(character.sizes(), [(8192, [count * 3 / 4, count / 4, 0])]);
    let hosts = character.hosts.busiest();
    assert_eq!((hosts.len(), hosts[0].1.requests()), (1, count));
}

#[test]
fn different_items_are_counted_within_a_few_percent() {
    for count in [10_u64, 1_000, 100_000] {
        let mut unique = Unique::default();
        (0..count * 3).for_each(|index| unique.record(draw(index % count)));
        let error = unique.estimate() / count as f64 - 1.0;
        assert!(error.abs() < 0.1, "{count}: {error}");
    }
}

proptest! {
    #[test]
    fn distances_equal_those_of_the_stack(units in prop::collection::vec(0_u64..40, 1..300)) {
        let character = character(units.iter().map(|unit| request(0, Operation::Read, *unit, 1)));
        // The plain way: a list, the latest first.
        let mut stack: Vec<u64> = Vec::new();
        let mut hits_below = [0_u64; 64];
        for unit in &units {
            if let Some(depth) = stack.iter().position(|other| other == unit) {
                stack.remove(depth);
                (depth + 1..64).for_each(|size| hits_below[size] += 1);
            }
            stack.insert(0, *unit);
        }
        for (bytes, ratio) in character.reuse.miss_ratios() {
            let size = (bytes / 4096.0).ceil() as usize;
            if size < 64 && bytes % 4096.0 == 0.0 {
                let expected = 1.0 - hits_below[size] as f64 / units.len() as f64;
                prop_assert!((ratio - expected).abs() < 1e-9, "{} units: {} for {}", size, ratio, expected);
            }
        }
    }
}
