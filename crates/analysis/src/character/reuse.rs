//! Reuse of blocks: reuse distances, miss ratios, popularity, rewrites.
//!
//! The *reuse distance* of a unit of 4 KiB is the number of different units accessed since the last access to
//! this unit. A least-recently-used cache of `C` units misses every access with a reuse distance above `C`,
//! so the distances give the miss ratio of every cache size at once (Mattson's stack). To compute the
//! distances in bounded memory, only units whose hash falls below a threshold are followed (SHARDS). The
//! number of followed units is fixed: when more units appear, the threshold sinks and units above it are
//! dropped. A distance among the followed units stands for a distance `1/rate` times as large.
//!
//! # Scope and limits
//! 32,768 units are followed. Waldspurger et al. find a mean error of the miss ratio of about 0.01 with
//! 8,192. Of requests longer than 4 MiB the first 4 MiB count.
//!
//! # References
//! Waldspurger, Park, Garthwaite and Ahmad, FAST 2015 (SHARDS, fixed size, with its correction SHARDS-adj);
//! Mattson, Gecsei, Slutz and Traiger, IBM Systems Journal 9(2), 1970.

use std::collections::{BTreeMap, BTreeSet};

use seeklab_core::statistics::{Distribution, LogHistogram};
use seeklab_core::{Instant, Operation, TraceRecord};

use super::arrivals::slope;

/// Bytes of a unit.
pub const UNIT_BYTES: u64 = 4096;
/// Units that are followed.
const FOLLOWED_MAX: usize = 1 << 15;
/// Places in the tree of last accesses; when they are used up, it is packed.
const STAMPS: usize = FOLLOWED_MAX * 4;
/// Buckets of distances in quarters of a unit, four for each doubling.
type Quarters = LogHistogram<2>;
/// The bucket of a distance of one unit, the shortest.
const UNIT: usize = Quarters::bucket(4);
/// Units of a request that are looked at.
const UNITS_MAX: u64 = 1024;

/// The hash of a unit of a device: the finalizer of SplitMix64.
pub(crate) fn hash(device: u16, unit: u64) -> u64 {
    let mut z = (unit ^ (u64::from(device) << 48)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Debug, Clone, Copy)]
struct Followed {
    stamp: usize,
    count: u64,
    was_read: bool,
    written: Option<Instant>,
}

/// Accumulates reuse.
#[derive(Debug, Clone)]
pub struct Reuse {
    /// Units with hashes up to this are followed.
    threshold: u64,
    followed: BTreeMap<u64, Followed>,
    /// Hashes of the followed, the highest goes first; a hash is a unit: collisions are one in 2^64.
    tree: Vec<u32>,
    next: usize,
    /// Accesses by bucket of their distance, weighted by 1/rate at their time.
    distances: Vec<f64>,
    first: f64,
    accesses: u64,
    /// Time from a write to the next write of the same unit.
    pub rewrite: Distribution,
    /// Time from a write to the next read of the same unit.
    pub read_after_write: Distribution,
}

impl Default for Reuse {
    fn default() -> Self {
        Self {
            threshold: u64::MAX,
            followed: BTreeMap::new(),
            tree: vec![0; STAMPS + 1],
            next: 1,
            distances: vec![0.0; Quarters::BUCKETS - UNIT],
            first: 0.0,
            accesses: 0,
            rewrite: Distribution::default(),
            read_after_write: Distribution::default(),
        }
    }
}

impl Reuse {
    pub(super) fn record(&mut self, record: &TraceRecord, block_bytes: u64) {
        let is_write = match record.op {
            Operation::Read => false,
            Operation::Write => true,
            _ => return,
        };
        let start = record.lbn.saturating_mul(block_bytes);
        let bytes = u64::from(record.blocks) * block_bytes;
        if bytes == 0 {
            return;
        }
        let end = (start.saturating_add(bytes) - 1) / UNIT_BYTES + 1;
        let start = start / UNIT_BYTES;
        for unit in start..end.min(start + UNITS_MAX) {
            self.accesses += 1;
            let hash = hash(record.device, unit);
            if hash <= self.threshold {
                self.access(hash, record.arrival, is_write);
            }
        }
    }

    fn access(&mut self, hash: u64, arrival: Instant, is_write: bool) {
        if self.next > STAMPS {
            self.pack();
        }
        let weight = 1.0 / self.rate();
        let stamp = self.next;
        self.next += 1;
        let before = self.followed.get(&hash).copied();
        match before {
            Some(before) => {
                let distance = self.sum(stamp) - self.sum(before.stamp);
                self.distances[bucket(f64::from(distance) * weight)] += weight;
                self.add(before.stamp, u32::MAX);
                if let Some(written) = before.written {
                    let since = arrival.saturating_since(written);
                    if is_write { self.rewrite.record(since) } else { self.read_after_write.record(since) }
                }
            }
            None => self.first += weight,
        }
        self.add(stamp, 1);
        self.followed.insert(
            hash,
            Followed {
                stamp,
                count: before.map_or(0, |before| before.count) + 1,
                was_read: before.is_some_and(|before| before.was_read) || !is_write,
                written: if is_write { Some(arrival) } else { before.and_then(|before| before.written) },
            },
        );
        if self.followed.len() > FOLLOWED_MAX {
            let (highest, gone) = self.followed.pop_last().expect("there are many");
            self.threshold = highest - 1;
            self.add(gone.stamp, u32::MAX);
        }
    }

    /// The share of all units that is followed.
    fn rate(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    /// Adds to a stamp of the tree; `u32::MAX` takes one away.
    fn add(&mut self, stamp: usize, value: u32) {
        let mut at = stamp;
        while at <= STAMPS {
            self.tree[at] = self.tree[at].wrapping_add(value);
            at += at & at.wrapping_neg();
        }
    }

    /// The sum up to a stamp.
    fn sum(&self, stamp: usize) -> u32 {
        let (mut at, mut sum) = (stamp.min(STAMPS), 0_u32);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at -= at & at.wrapping_neg();
        }
        sum
    }

    /// Numbers the last accesses anew, in their order.
    fn pack(&mut self) {
        let order: BTreeSet<(usize, u64)> =
            self.followed.iter().map(|(hash, followed)| (followed.stamp, *hash)).collect();
        self.tree.fill(0);
        self.next = 1;
        for (_, hash) in order {
            let stamp = self.next;
            self.followed.get_mut(&hash).expect("it is followed").stamp = stamp;
            self.add(stamp, 1);
            self.next += 1;
        }
    }

    /// Different units, about.
    pub fn units(&self) -> f64 {
        self.followed.len() as f64 / self.rate()
    }

    /// The share of accesses that a least-recently-used cache of so many bytes misses, over its size: the size at
    /// the end of each bucket. What the sample lacks against all accesses is taken to be near hits (SHARDS-adj).
    pub fn miss_ratios(&self) -> Vec<(f64, f64)> {
        let sampled: f64 = self.distances.iter().sum::<f64>() + self.first;
        let all = self.accesses as f64;
        if self.accesses == 0 {
            return Vec::new();
        }
        let mut hits = all - sampled;
        let last = self.distances.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
        let points = self.distances[..=last].iter().enumerate().map(|(bucket, weight)| {
            hits += weight;
            (upper(bucket) * UNIT_BYTES as f64, (1.0 - hits / all).clamp(0.0, 1.0))
        });
        points.collect()
    }

    /// Reuse distances in bytes: the end of each bucket and the share of all accesses in it.
    pub fn distances(&self) -> Vec<(f64, f64)> {
        let all = self.distances.iter().sum::<f64>() + self.first;
        let filled = self.distances.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        filled.map(|(bucket, weight)| (upper(bucket) * UNIT_BYTES as f64, weight / all)).collect()
    }

    /// Accesses of a unit over its rank, of the followed; ranks are those among all units.
    pub fn popularity(&self) -> Vec<(f64, f64)> {
        let mut counts: Vec<u64> = self.followed.values().map(|followed| followed.count).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let weight = 1.0 / self.rate();
        counts.iter().zip(1_u64..).map(|(count, rank)| (rank as f64 * weight, *count as f64)).collect()
    }

    /// The exponent of Zipf's law by least squares over ranks spread evenly by their logarithm; `None` of fewer
    /// than 16 units.
    pub fn zipf(&self) -> Option<f64> {
        let ranked = self.popularity();
        if ranked.len() < 16 {
            return None;
        }
        let steps = 64.min(ranked.len());
        let length = (ranked.len() as f64).ln();
        let points: Vec<(f64, f64)> = (0..steps)
            .map(|step| {
                let index = (length * step as f64 / steps as f64).exp() as usize - 1;
                (ranked[index].0.ln(), ranked[index].1.ln())
            })
            .collect();
        Some(-slope(&points)?)
    }

    /// Shares of the units that were read only, written only, and both.
    pub fn overlap(&self) -> Option<[f64; 3]> {
        if self.followed.is_empty() {
            return None;
        }
        let mut counts = [0_u64; 3];
        for followed in self.followed.values() {
            let index = match (followed.was_read, followed.written.is_some()) {
                (true, true) => 2,
                (false, _) => 1,
                (true, false) => 0,
            };
            counts[index] += 1;
        }
        Some(counts.map(|count| count as f64 / self.followed.len() as f64))
    }
}

fn bucket(distance: f64) -> usize {
    Quarters::bucket((distance * 4.0).max(4.0) as u64) - UNIT
}

/// The end of a bucket.
fn upper(bucket: usize) -> f64 {
    Quarters::values(bucket + UNIT).end as f64 / 4.0
}
