//! Histograms of rates, and the rate states of a stream of jobs that has them.

use std::collections::BTreeMap;

use seeklab_core::Ratio;
use seeklab_workloads::Rate;
use seeklab_workloads::jobs::{RateState, RateStates};

use super::intervals::Interval;

/// Classes of rates per doubling, before neighbours are joined.
const CLASSES_PER_OCTAVE: f64 = 8.0;

/// A class of rates.
#[derive(Debug, Clone, Copy, Default)]
struct Class {
    sectors: f64,
    processor_s: f64,
    /// Number of the fastest class that was joined here.
    last: i64,
}

impl Class {
    fn rate_per_s(&self) -> f64 {
        self.sectors / self.processor_s.max(1e-9)
    }

    /// Increase of the sum of squares of the logarithms if both are one state.
    fn cost(&self, other: &Self) -> f64 {
        let distance = (self.rate_per_s() / other.rate_per_s()).ln();
        self.sectors * other.sectors / (self.sectors + other.sectors) * distance * distance
    }

    fn join(&mut self, other: &Self) {
        self.sectors += other.sectors;
        self.processor_s += other.processor_s;
        self.last = other.last;
    }
}

fn class_of(interval: &Interval) -> i64 {
    (interval.rate_per_s().log2() * CLASSES_PER_OCTAVE).floor() as i64
}

/// The states of the intervals of each job, at most `states_max`. Neighbouring classes of rates are joined where that moves
/// the rates least. The rate of a state is its sectors per its processor time, so processor times are kept.
pub(super) fn rate_states(jobs: &[Vec<Interval>], states_max: usize) -> RateStates {
    let mut classes: BTreeMap<i64, Class> = BTreeMap::new();
    for interval in jobs.iter().flatten() {
        let number = class_of(interval);
        let class = classes.entry(number).or_default();
        class.sectors += interval.sectors;
        class.processor_s += interval.processor.as_s();
        class.last = number;
    }
    let mut states: Vec<Class> = classes.into_values().collect();
    while states.len() > states_max.max(1) {
        let costs = states.windows(2).map(|pair| pair[0].cost(&pair[1]));
        let cheapest = costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index);
        let next = states.remove(cheapest + 1);
        states[cheapest].join(&next);
    }
    let runs = runs(jobs, &states);
    let total: f64 = states.iter().map(|state| state.sectors).sum();
    let shares: Vec<f64> = states.iter().map(|state| state.sectors / total).collect();
    let residences = residences(&shares, &runs);
    let state = |((class, share), residence): ((&Class, &f64), f64)| {
        let rate_per_s = class.rate_per_s().clamp(Rate::MIN.as_per_s(), Rate::MAX.as_per_s());
        RateState {
            rate: Rate::from_per_s(rate_per_s).expect("the rate is within its bounds"),
            share: Ratio::new(*share).expect("a share of a total is a ratio"),
            residence,
        }
    };
    RateStates(states.iter().zip(&shares).zip(residences).map(state).collect())
}

/// Mean sectors for which each state lasts.
fn runs(jobs: &[Vec<Interval>], states: &[Class]) -> Vec<f64> {
    let mut sectors = vec![0.0; states.len()];
    let mut count = vec![0.0; states.len()];
    for job in jobs {
        let mut current = None;
        for interval in job {
            let class = class_of(interval);
            let state = states.partition_point(|state| state.last < class);
            if current.replace(state) != Some(state) {
                count[state] += 1.0;
            }
            sectors[state] += interval.sectors;
        }
    }
    sectors.iter().zip(&count).map(|(sectors, count): (&f64, &f64)| sectors / count.max(1.0)).collect()
}

/// Residences with which drawn states last as long as `runs`: a state that is drawn again goes on. With `w` as its part of
/// the draws, a state lasts for `residence / (1 - w)` sectors. Of two states only the sum of the residences shows, for each lasts until
/// the other is drawn: both have the same residence then, which makes the same stream.
fn residences(shares: &[f64], runs: &[f64]) -> Vec<f64> {
    const STEPS: usize = 200;
    let mut residences: Vec<f64> = runs.iter().map(|run| run.max(1.0)).collect();
    if residences.len() < 2 {
        return vec![1.0; residences.len()];
    }
    if let ([run, _], [_, other]) = (runs, shares) {
        return vec![(run * other).max(1.0); 2];
    }
    for _ in 0..STEPS {
        let draws: Vec<f64> =
            shares.iter().zip(&residences).map(|(share, residence)| share / residence).collect();
        let total: f64 = draws.iter().sum();
        for ((residence, run), draw) in residences.iter_mut().zip(runs).zip(&draws) {
            let wanted = (run * (1.0 - draw / total)).clamp(1.0, 1e9);
            *residence += (wanted - *residence) / 2.0;
        }
    }
    residences
}

/// The median of the rates, by sectors: half of the sectors have at most this rate. `None` without intervals.
pub fn median_rate_per_s(intervals: &[Interval]) -> Option<f64> {
    let mut rates: Vec<(f64, f64)> =
        intervals.iter().map(|interval| (interval.rate_per_s(), interval.sectors)).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut rest = rates.iter().map(|(_, sectors)| sectors).sum::<f64>() / 2.0;
    rates.into_iter().find_map(|(rate, sectors)| {
        rest -= sectors;
        (rest <= 0.0).then_some(rate)
    })
}

/// The largest difference of the distributions of the rates of two programs, by sectors. The rates of `other` are divided by
/// `speed` before. `None` without intervals.
pub fn kolmogorov_distance(one: &[Interval], other: &[Interval], speed: f64) -> Option<f64> {
    let total = |all: &[Interval]| all.iter().map(|interval| interval.sectors).sum::<f64>();
    let (one_total, other_total) = (total(one), total(other));
    if one_total <= 0.0 || other_total <= 0.0 {
        return None;
    }
    let steps = |all: &[Interval], speed: f64, weight: f64| -> Vec<(f64, f64)> {
        all.iter().map(|interval| (interval.rate_per_s() / speed, weight * interval.sectors)).collect()
    };
    let mut steps = [steps(one, 1.0, 1.0 / one_total), steps(other, speed, -1.0 / other_total)].concat();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut difference, mut largest) = (0.0_f64, 0.0_f64);
    for (index, (rate, step)) in steps.iter().enumerate() {
        difference += step;
        if steps.get(index + 1).is_none_or(|(next, _)| next > rate) {
            largest = largest.max(difference.abs());
        }
    }
    Some(largest)
}
