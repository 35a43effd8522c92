//! Tests that drawn shares and means match the description.

use std::collections::BTreeMap;
use std::sync::Arc;

use seeklab_core::{Operation, Seed};
use seeklab_workloads::synthetic::Extent;
use seeklab_workloads::{Supplied, Synthetic, SyntheticSpec};

use crate::common::{TARGET, arrivals, requests};

/// Checks that the measured share is `expect`, within five standard deviations.
fn check_share(what: &str, seen: usize, of: usize, expect: f64) {
    let share = seen as f64 / of as f64;
    let deviation = (expect * (1.0 - expect) / of as f64).sqrt();
    assert!((share - expect).abs() <= 5.0 * deviation + 1e-12, "{what}: {share}, not {expect}");
}

/// Checks counts against equal expectations by chi-square: within five deviations of its mean.
fn check_even(what: &str, counts: &[u64]) {
    let expect = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let chi_square: f64 = counts.iter().map(|count| (*count as f64 - expect).powi(2) / expect).sum();
    let freedom = (counts.len() - 1) as f64;
    let deviations = (chi_square - freedom) / (2.0 * freedom).sqrt();
    assert!(deviations.abs() < 5.0, "{what}: chi-square lies {deviations} deviations from its mean");
}

#[test]
fn share_of_reads_is_as_described() {
    for (read, expect) in [("0%", 0.0), ("66%", 0.66), ("2/3", 2.0 / 3.0), ("100%", 1.0)] {
        let drawn = requests(&format!("size=8KiB,read={read},poisson=100/s,requests=50000"));
        let reads = drawn.iter().filter(|request| request.op == Operation::Read).count();
        check_share(read, reads, drawn.len(), expect);
        assert!(drawn.iter().enumerate().all(|(id, request)| request.id.0 == id as u64));
    }
}

#[test]
fn uniform_addresses_are_even() {
    let drawn = requests("size=8KiB,align=8KiB,read=66%,poisson=100/s,requests=200000");
    let mut counts = [0; 256];
    for request in &drawn {
        counts[(request.lbn * 256 / TARGET.capacity_blocks) as usize] += 1;
        assert_eq!((request.lbn % 16, request.blocks), (0, 16));
    }
    check_even("256 parts of the disk", &counts);
}

#[test]
fn mixed_sizes_follow_their_weights() {
    let drawn = requests("fileserver,poisson=100/s,requests=100000");
    let mut counts = BTreeMap::<u32, usize>::new();
    drawn.iter().for_each(|request| *counts.entry(request.blocks).or_default() += 1);
    let expect =
        [(1, 0.10), (2, 0.05), (4, 0.05), (8, 0.60), (16, 0.02), (32, 0.04), (64, 0.04), (128, 0.10)];
    assert_eq!(counts.len(), expect.len());
    for (blocks, share) in expect {
        check_share(&format!("{blocks} blocks"), counts[&blocks], drawn.len(), share);
    }
}

#[test]
fn exponential_sizes_have_their_mean_and_shape() {
    let drawn = requests("random,poisson=100/s,requests=200000");
    let count = drawn.len() as f64;
    let mean = drawn.iter().map(|request| f64::from(request.blocks)).sum::<f64>() / count;
    assert!((mean / 16.0 - 1.0).abs() < 0.01, "mean {mean}");
    // The geometric distribution on 1, 2, …: P(1) = 1/16, P(more than 32) = (15/16)^32.
    let of = |test: &dyn Fn(u32) -> bool| drawn.iter().filter(|request| test(request.blocks)).count();
    check_share("one block", of(&|blocks| blocks == 1), drawn.len(), 1.0 / 16.0);
    check_share("more than 32", of(&|blocks| blocks > 32), drawn.len(), (15.0_f64 / 16.0).powi(32));

    let capped = requests(
        "size.distribution=exponential,size.mean=8KiB,size.max=16KiB,read=1/2,poisson=9/s,requests=20000",
    );
    assert_eq!(capped.iter().map(|request| request.blocks).max(), Some(32));
}

#[test]
fn uniform_sizes_are_even_and_inclusive() {
    let drawn =
        requests("size.distribution=uniform,size.min=512B,size.max=8KiB,read=1/2,poisson=9/s,requests=80000");
    let mut counts = [0; 16];
    drawn.iter().for_each(|request| counts[request.blocks as usize - 1] += 1);
    check_even("1 to 16 blocks", &counts);
}

#[test]
fn sequential_and_local_shares_are_as_described() {
    let line = "size=8KiB,align=8KiB,sequential=20%,local=30%,local_distance=1MiB,read=1,poisson=9/s,requests=100000";
    let drawn = requests(line);
    let pairs = drawn.len() - 1;
    let sequential = drawn.windows(2).filter(|pair| pair[1].lbn == pair[0].end()).count();
    let near = drawn.windows(2).filter(|pair| pair[1].lbn.abs_diff(pair[0].lbn) <= 2_048).count();
    // One local start in 257 continues by chance; a uniform one is near by chance once in 4,096.
    check_share("sequential", sequential, pairs, 0.2 + 0.3 / 257.0);
    check_share("near", near, pairs, 0.5 + 0.5 * 257.0 / (1 << 20) as f64);
}

#[test]
fn sequential_workload_reads_the_space_in_order_and_restarts() {
    let drawn = requests("sequential,address.end=1/1024,constant=9/s,requests=600");
    // The space has 16,384 blocks, 128 requests of 128 blocks.
    let start = drawn[0].lbn;
    assert!(
        drawn.windows(2).all(|pair| {
            pair[1].lbn == pair[0].end() || (pair[1].lbn == 0 && pair[0].end() + 128 > 16_384)
        })
    );
    assert!(drawn.iter().filter(|request| request.lbn == 0).count() >= 4, "began at {start}");
}

#[test]
fn zipf_draws_follow_the_law() {
    let regions = 8_192_u64;
    let harmonic: f64 = (1..=regions).map(|rank| (rank as f64).powf(-0.9)).sum();
    for order in ["ascending", "scattered"] {
        let drawn =
            requests(&format!("size=8KiB,read=1,zipf=0.9,address.order={order},poisson=9/s,requests=200000"));
        let mut counts = vec![0_usize; regions as usize];
        drawn.iter().for_each(|request| counts[(request.lbn / 2_048) as usize] += 1);
        if order == "scattered" {
            assert_eq!(counts[0], *counts.iter().max().unwrap(), "rank 1 lies at the start");
            counts.sort_unstable_by(|a, b| b.cmp(a));
        }
        for rank in [1_usize, 2, 3, 10] {
            let expect = (rank as f64).powf(-0.9) / harmonic;
            check_share(&format!("{order}, rank {rank}"), counts[rank - 1], drawn.len(), expect);
        }
    }
}

#[test]
fn hot_zones_get_the_described_share_of_requests() {
    let drawn = requests(
        "size=512B,read=1,address.distribution=hot,address.zones=10%:80%+20%:15%,poisson=9/s,requests=100000",
    );
    let share = |low: f64, high: f64| {
        let block = |share: f64| (share * TARGET.capacity_blocks as f64) as u64;
        drawn.iter().filter(|request| (block(low)..block(high)).contains(&request.lbn)).count()
    };
    check_share("hottest", share(0.0, 0.1), drawn.len(), 0.80);
    check_share("warm", share(0.1, 0.3), drawn.len(), 0.15);
    check_share("the rest", share(0.3, 1.0), drawn.len(), 0.05);
}

#[test]
fn track_aligned_requests_are_whole_tracks() {
    let tracks: Arc<[Extent]> = (0..100)
        .map(|track| Extent { lbn: track * 528 + track / 7, blocks: 528 - (track % 3) as u32 })
        .collect();
    let drawn = |line: &str| {
        let spec = SyntheticSpec::parse(line).unwrap();
        let supplied = Supplied { extents: Some(tracks.clone()), ..Supplied::default() };
        arrivals(&mut Synthetic::new(&spec, TARGET, Seed(1), supplied).unwrap())
    };
    let mut counts = [0; 100];
    for (_, request) in drawn("track-aligned,poisson=9/s,requests=20000") {
        let index = tracks.iter().position(|track| track.lbn == request.lbn).unwrap();
        assert_eq!(request.blocks, tracks[index].blocks);
        counts[index] += 1;
    }
    check_even("tracks", &counts);
    for (_, request) in drawn("track-aligned,size=64KiB,poisson=9/s,requests=1000") {
        assert!(tracks.iter().any(|track| track.lbn == request.lbn));
        assert_eq!(request.blocks, 128);
    }
}
