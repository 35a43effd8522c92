//! Distribution of times of which some are known only to be longer than another: those of requests that were passed over for one whose
//! service was shorter.
//!
//! # Method
//! Where a device serves the request with the shortest service, the time of each that it passed over is longer than that of the one it took. The
//! product-limit estimate (Kaplan and Meier 1958) gives the distribution before the choice from both: at each time that was served, the
//! share of those that lasted as long which ended then.
//!
//! # References
//! E. L. Kaplan, P. Meier, Nonparametric estimation from incomplete observations, Journal of the American Statistical Association
//! 53(282), 1958.

use seeklab_core::Duration;
use seeklab_devices::table::parts::Counts;

use super::grow::Service;

/// Times, ascending, each with how many there are up to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Survival {
    times: Vec<Duration>,
    until: Vec<f64>,
}

impl Survival {
    /// The distribution of times, each with how many requests of that time were passed over: 0 for one that was served. It has as
    /// many times as were served.
    pub(super) fn of(mut times: Vec<(Duration, u16)>) -> Self {
        times.sort_unstable();
        let served = times.iter().filter(|(_, passed)| *passed == 0).count();
        let mut at_risk: f64 = times.iter().map(|(_, passed)| f64::from((*passed).max(1))).sum();
        let mut survival = Self { times: Vec::with_capacity(served), until: Vec::with_capacity(served) };
        if served == times.len() {
            survival.times.extend(times.iter().map(|(time, _)| *time));
            survival.until.extend((1..=served).map(|count| count as f64));
            return survival;
        }
        let (mut left, mut ended) = (1.0, 0.0);
        for (time, passed) in &times {
            if *passed == 0 {
                ended += left / at_risk;
                left -= left / at_risk;
                survival.times.push(*time);
                survival.until.push(ended * served as f64);
            }
            at_risk -= f64::from((*passed).max(1));
        }
        survival
    }

    /// Number of times.
    pub(super) fn total(&self) -> f64 {
        self.times.len() as f64
    }

    /// Number of those that are at most as long.
    pub(super) fn until(&self, time: Duration) -> f64 {
        self.up_to(self.times.partition_point(|one| *one <= time))
    }

    /// Number of those that are as near to a time as that, or nearer.
    pub(super) fn near(&self, time: Duration, near: Duration) -> f64 {
        let from = self.times.partition_point(|one| *one + near < time);
        let to = self.times.partition_point(|one| *one <= time + near);
        self.up_to(to) - self.up_to(from)
    }

    fn up_to(&self, place: usize) -> f64 {
        place.checked_sub(1).map_or(0.0, |last| self.until[last])
    }

    /// The same distribution, counted `per_time` times as finely. What lasts longer than every time that was served has the longest one.
    pub(super) fn counts(&self, per_time: f64) -> Counts {
        let mut counts = Counts::default();
        let mut before = 0.0;
        for (place, (time, until)) in self.times.iter().zip(&self.until).enumerate() {
            let until = if place + 1 == self.times.len() { self.total() } else { *until };
            let until = (until * per_time).round();
            counts.record_many(*time, (until - before) as u32);
            before = until;
        }
        counts
    }
}

/// Counts for each service that a distribution has: shares of times that requests were passed over for are no whole numbers.
pub(super) fn resolution(services: &[(u32, Service)]) -> f64 {
    if services.iter().all(|(_, service)| service.is_served()) { 1.0 } else { 16.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_which_none_was_passed_over_count_once() {
        let times = [3, 1, 2, 2].map(|us| (Duration::from_us(us), 0));
        let survival = Survival::of(times.to_vec());
        let until = [0, 1, 2, 3, 4].map(|us| survival.until(Duration::from_us(us)).round());
        assert_eq!(until, [0.0, 1.0, 3.0, 4.0, 4.0]);
        assert_eq!(survival.near(Duration::from_us(2), Duration::from_us(1)).round(), 4.0);
        assert_eq!(survival.total(), 4.0);
    }

    /// Example: of four, the first ends among 4, the second among 2 (one was passed over meanwhile).
    #[test]
    fn requests_that_were_passed_over_last_longer() {
        let us = Duration::from_us;
        let survival = Survival::of(vec![(us(1), 0), (us(1), 1), (us(5), 0), (us(5), 1)]);
        let shares = [1, 4, 5].map(|time| survival.until(us(time)) / survival.total());
        assert_eq!(shares, [0.25, 0.25, 0.625]);
        let counts = survival.counts(8.0);
        assert_eq!(counts.write().split('*').next_back(), Some("12"), "{}", counts.write());
    }
}
