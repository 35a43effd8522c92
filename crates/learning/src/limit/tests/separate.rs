//! Limits of reads and of writes beside each other, and limits of both together, under loads that reach each of them.

use seeklab_devices::layer::Limit;
use seeklab_devices::limit::{Buckets, Limited};

use super::{LOADS, Mix, fast, found, near, of_bytes, of_requests, record};

const LENGTHS: &[u32] = &[8, 16, 64];

#[test]
fn separate_limits_are_found_without_a_joint_one() {
    // Rates in the proportion of the operations, so that the load reaches both at once and their sum looks like one bucket.
    for (rates, reads) in [([1_000.0, 1_000.0], 0.5), ([700.0, 300.0], 0.7)] {
        let of = |rate: f64| Buckets { requests: vec![of_requests(rate, rate as u64)], bytes: Vec::new() };
        let writes = Limit::new(fast(), Limited::Writes, of(rates[1]));
        let mut both = Limit::new(Box::new(writes), Limited::Reads, of(rates[0]));
        let found = found(&record(&mut both, LOADS, Mix { reads, blocks: LENGTHS }, 3));
        let operations: Vec<Limited> = found.iter().map(|layer| layer.of).collect();
        assert_eq!(operations, [Limited::Reads, Limited::Writes], "{rates:?}");
        for (layer, rate) in found.iter().zip(rates) {
            let [bucket] = &layer.requests[..] else { panic!("{layer:?}") };
            near(bucket.rate.as_per_s(), rate, 0.005, "rate");
            near(bucket.burst as f64, rate, 0.02, "burst");
        }
    }
}

#[test]
fn joint_limit_is_found_without_separate_ones() {
    let requests = || Buckets { requests: vec![of_requests(1_000.0, 500)], bytes: Vec::new() };
    let bytes = || Buckets { requests: Vec::new(), bytes: vec![of_bytes("20MB/s", 2_000_000)] };
    for reads in [0.2, 0.5, 0.7] {
        for (buckets, counts) in [(requests(), [1, 0]), (bytes(), [0, 1])] {
            let mut joint = Limit::new(fast(), Limited::All, buckets);
            let found = found(&record(&mut joint, LOADS, Mix { reads, blocks: LENGTHS }, 3));
            let [layer] = &found[..] else { panic!("{} layers, {reads}", found.len()) };
            assert_eq!(
                (layer.of, [layer.requests.len(), layer.bytes.len()]),
                (Limited::All, counts),
                "{reads}"
            );
        }
    }
}
