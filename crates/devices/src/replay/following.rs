//! Detection of arrivals that follow completions, with the longest time between the two.
//!
//! # Method
//! While the measured device is busy, the age of the last completion is counted at each arrival, and over all
//! of the time. Arrivals that are independent of completions have the distribution of all of the time. At the
//! age where the distribution of arrivals is furthest ahead (the distance of Kolmogorov and Smirnov),
//! arrivals up to that age are assumed to have waited for the completion. If arrivals are never ahead by
//! [`TELLING`], they are assumed to wait for nothing.
//!
//! # Scope and limits
//! The first [`REQUESTS_MAX`] requests are counted. Ages are in classes of a quarter of a doubling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::{Duration, Instant};

use crate::table::{least_of, octave_class};

/// Share of the arrivals by which they have to be ahead of chance.
const TELLING: f64 = 0.1;

/// Requests that are looked at.
const REQUESTS_MAX: u64 = 1 << 18;

/// Classes of a doubling, and all of them.
const PER_OCTAVE: u32 = 4;
const CLASSES: usize = 64 * PER_OCTAVE as usize;

/// Statistics of the arrivals that follow completions, recorded request by request in order of
/// arrival.
#[derive(Debug, Clone)]
pub struct Following {
    /// Requests outstanding, by their completions.
    outstanding: BinaryHeap<Reverse<Instant>>,
    now: Instant,
    last_completion: Option<Instant>,
    requests: u64,
    /// By the age of the last completion: arrivals, and the time at large.
    arrivals: Vec<u64>,
    at_large_ns: Vec<u64>,
}

impl Default for Following {
    fn default() -> Self {
        Self {
            outstanding: BinaryHeap::new(),
            now: Instant::ZERO,
            last_completion: None,
            requests: 0,
            arrivals: vec![0; CLASSES],
            at_large_ns: vec![0; CLASSES],
        }
    }
}

fn class(age: Duration) -> usize {
    (octave_class(age.as_ns().max(1), PER_OCTAVE) as usize).min(CLASSES - 1)
}

impl Following {
    /// A request that was measured.
    pub fn record(&mut self, arrival: Instant, completion: Instant) {
        if self.requests == REQUESTS_MAX {
            return;
        }
        self.requests += 1;
        while let Some(Reverse(next)) = self.outstanding.peek().copied()
            && next <= arrival
        {
            self.outstanding.pop();
            self.pass(next);
            self.last_completion = Some(next);
        }
        if !self.outstanding.is_empty() {
            self.pass(arrival);
            if let Some(last) = self.last_completion {
                self.arrivals[class(arrival - last)] += 1;
            }
        }
        self.now = arrival;
        self.outstanding.push(Reverse(completion.max(arrival)));
    }

    /// The device was busy until then.
    fn pass(&mut self, until: Instant) {
        let from = std::mem::replace(&mut self.now, until);
        let Some(last) = self.last_completion else { return };
        let (mut age_ns, end_ns) = ((from - last).as_ns(), (until - last).as_ns());
        while age_ns < end_ns {
            let class = class(Duration::from_ns(age_ns));
            let next_ns = if class + 1 < CLASSES { least_of(class as u32 + 1, PER_OCTAVE) } else { u64::MAX };
            let next_ns = next_ns.clamp(age_ns + 1, end_ns);
            self.at_large_ns[class] += next_ns - age_ns;
            age_ns = next_ns;
        }
    }

    /// Returns the longest time from a completion to the arrival of a request that waited for it; `None`
    /// if arrivals follow completions no more than by chance.
    pub fn soon(&self) -> Option<Duration> {
        let all: u64 = self.arrivals.iter().sum();
        let all_ns: u64 = self.at_large_ns.iter().sum();
        if all == 0 || all_ns == 0 {
            return None;
        }
        let (mut best, mut soon) = (TELLING, None);
        let (mut arrivals, mut at_large_ns) = (0, 0);
        for class in 0..CLASSES - 1 {
            arrivals += self.arrivals[class];
            at_large_ns += self.at_large_ns[class];
            let ahead = arrivals as f64 / all as f64 - at_large_ns as f64 / all_ns as f64;
            if ahead > best {
                best = ahead;
                soon = Some(Duration::from_ns(least_of(class as u32 + 1, PER_OCTAVE) - 1));
            }
        }
        soon
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Seed, Stream};

    use super::*;

    /// A device that serves one at a time in 100 us, of `clients` that think for 20 to 30 us after each completion.
    fn closed(clients: usize) -> Following {
        let mut stream = Seed(1).stream("think");
        let think = |stream: &mut Stream| Duration::from_us(20 + stream.below(10));
        let mut arrivals: Vec<Instant> = (0..clients).map(|_| Instant::ZERO + think(&mut stream)).collect();
        let (mut following, mut free) = (Following::default(), Instant::ZERO);
        for _ in 0..5_000 {
            arrivals.sort_unstable();
            let arrival = arrivals[0];
            free = free.max(arrival) + Duration::from_us(100);
            following.record(arrival, free);
            arrivals[0] = free + think(&mut stream);
        }
        following
    }

    #[test]
    fn delay_of_clients_after_completions_is_found() {
        let soon = closed(3).soon().unwrap();
        assert!((Duration::from_us(29)..Duration::from_us(38)).contains(&soon), "{soon}");
        assert_eq!(closed(1).soon(), None, "the device is idle before each");
    }

    #[test]
    fn independent_arrivals_follow_nothing() {
        let mut stream = Seed(2).stream("arrivals");
        let (mut following, mut now, mut free) = (Following::default(), Instant::ZERO, Instant::ZERO);
        for _ in 0..20_000 {
            now += stream.exponential(Duration::from_us(120));
            free = free.max(now) + Duration::from_us(100);
            following.record(now, free);
        }
        assert_eq!(following.soon(), None);
        assert_eq!(Following::default().soon(), None);
    }
}
