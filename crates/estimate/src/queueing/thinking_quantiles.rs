//! Percentiles of the response time of a population that thinks: the chain of
//! [`finite_departures`](super::finite_departures()) followed over drawn requests.
//!
//! ```text
//! departure leaves n behind ─▶ one of them is chosen, S(n) drawn ─▶ members that think send meanwhile ─▶ departure
//!                 n = 0: the next arrival comes after an exponential time with mean Z / N and takes S(0)
//! ```
//! In order of arrival, the first is chosen. In another order, each waiting request has the probability h that closed runs show
//! for that number waiting and its passes. If each was chosen with that probability independently of the others, and exactly one
//! is chosen, then it is each in proportion to h / (1 − h). The draws are the same for every population, and the
//! percentiles are scaled to the mean of the method, which takes most of the random variation from them.
//!
//! # Assumptions
//! One server, exponential think times and independent services, as for [`finite_departures`](super::finite_departures()).
//!
//! # Scope and limits
//! 262,144 requests, of which 2,621 exceed the 99th percentile: its standard error is some 1 % near saturation and less below.
//! In another order than that of arrival, work grows with the number waiting, so fewer requests are followed with many members.

use std::collections::VecDeque;

use seeklab_core::{Seed, Stream};
use seeklab_devices::service_law::OrderPoint;

use super::reordered::Order;
use crate::queueing::Population;

/// Requests that are followed.
const REQUESTS: usize = 1 << 18;

/// Comparisons of waiting requests at most, over all choices.
const COMPARISONS_MAX: usize = 1 << 23;

/// Share of the requests at the beginning that do not count: the population begins thinking.
const WARM_UP: usize = 16;

/// Probability of the choice at least, and of none.
const PROBABILITY_MIN: f64 = 1e-6;

/// Order in which waiting requests are chosen.
#[derive(Debug, Clone, Copy)]
pub enum ServiceOrder<'a> {
    /// In order of arrival.
    Arrival,
    /// By the passes of each request, as closed runs show.
    Sampled(&'a [OrderPoint]),
}

/// Time that a share of the requests does not exceed, in seconds, for each share, scaled so that the mean is `mean_s`.
/// `service_s(n, share)` is the service time that a share does not exceed of the request chosen while n are outstanding, itself
/// included; those of n = 0 follow an idle period.
pub fn thinking_quantiles_s<const N: usize>(
    population: Population,
    order: ServiceOrder<'_>,
    service_s: impl Fn(u32, f64) -> f64,
    mean_s: f64,
    shares: [f64; N],
) -> [f64; N] {
    let order = match order {
        ServiceOrder::Arrival => None,
        ServiceOrder::Sampled(points) => Some(Order::new(points)),
    };
    let requests = match order {
        None => REQUESTS,
        Some(_) => REQUESTS.min(COMPARISONS_MAX / population.members as usize),
    };
    let mut followed = Followed {
        population,
        order,
        waiting: VecDeque::new(),
        now_s: 0.0,
        stream: Seed(0).stream("estimate.thinking"),
    };
    let mut times_s: Vec<f64> = (0..requests).map(|_| followed.next_response_s(&service_s)).collect();
    times_s.drain(..requests / WARM_UP);
    let scale = mean_s * times_s.len() as f64 / times_s.iter().sum::<f64>();
    times_s.sort_unstable_by(f64::total_cmp);
    shares.map(|share| scale * times_s[((share * times_s.len() as f64) as usize).min(times_s.len() - 1)])
}

/// A request that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    arrival_s: f64,
    /// Passes per request waiting.
    passes: f64,
}

/// A population that is followed from departure to departure.
struct Followed {
    population: Population,
    /// `None` in order of arrival.
    order: Option<Order>,
    waiting: VecDeque<Waiting>,
    now_s: f64,
    stream: Stream,
}

impl Followed {
    /// Goes to the next departure, and returns the response time of the request that departs.
    fn next_response_s(&mut self, service_s: &impl Fn(u32, f64) -> f64) -> f64 {
        let left_behind = self.waiting.len() as u32;
        if left_behind == 0 {
            self.now_s += self.time_to_arrival_s(self.population.members);
            self.waiting.push_back(Waiting { arrival_s: self.now_s, passes: 0.0 });
        }
        let arrival_s = self.choose();
        let end_s = self.now_s + service_s(left_behind, self.stream.unit());
        let mut thinking = self.population.members - left_behind.max(1);
        while thinking > 0 {
            self.now_s += self.time_to_arrival_s(thinking);
            if self.now_s >= end_s {
                break;
            }
            self.waiting.push_back(Waiting { arrival_s: self.now_s, passes: 0.0 });
            thinking -= 1;
        }
        self.now_s = end_s;
        end_s - arrival_s
    }

    /// Time until the first of some thinking members sends its request.
    fn time_to_arrival_s(&mut self, thinking: u32) -> f64 {
        -(1.0 - self.stream.unit()).ln() * self.population.think_mean_s / f64::from(thinking)
    }

    /// Takes the next request out of those waiting, and returns its arrival.
    fn choose(&mut self) -> f64 {
        let waiting = self.waiting.len();
        let place = match &self.order {
            Some(order) if waiting > 1 => {
                let odds = |of: &Waiting| {
                    let chosen =
                        order.probability(waiting, of.passes).clamp(PROBABILITY_MIN, 1.0 - PROBABILITY_MIN);
                    chosen / (1.0 - chosen)
                };
                let sum: f64 = self.waiting.iter().map(odds).sum();
                let mut left = self.stream.unit() * sum;
                let place = self.waiting.iter().position(|of| {
                    left -= odds(of);
                    left < 0.0
                });
                place.unwrap_or(waiting - 1)
            }
            _ => 0,
        };
        let taken = self.waiting.remove(place).expect("a request waits");
        self.waiting.iter_mut().for_each(|of| of.passes += 1.0 / waiting as f64);
        taken.arrival_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::finite_population;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    fn exponential_s(_: u32, share: f64) -> f64 {
        -0.01 * (1.0 - share).ln()
    }

    /// Share of the response times above a time, of exponential services of 10 ms: a request finds n others with the
    /// probability of a population with one member less, and its response time is Erlang with n + 1 stages.
    fn share_above(members: u32, think_mean_s: f64, time_s: f64) -> f64 {
        let mut found = vec![1.0];
        for n in 0..members - 1 {
            found.push(found[n as usize] * f64::from(members - 1 - n) / think_mean_s * 0.01);
        }
        let sum: f64 = found.iter().sum();
        let stages = |count: usize| {
            let (mut term, mut left) = (1.0, 1.0);
            for k in 1..count {
                term *= time_s / 0.01 / k as f64;
                left += term;
            }
            left * (-time_s / 0.01).exp()
        };
        found.iter().enumerate().map(|(n, share)| share / sum * stages(n + 1)).sum()
    }

    #[test]
    fn exponential_services_have_the_distribution_of_the_arrival_theorem() {
        for (members, think_mean_s) in [(1, 0.02), (4, 0.01), (8, 0.05), (24, 0.05)] {
            let population = Population { members, think_mean_s };
            let mean_s = finite_population(population, |_| 100.0).unwrap().response_mean_s;
            let quantiles =
                thinking_quantiles_s(population, ServiceOrder::Arrival, exponential_s, mean_s, [0.5, 0.99]);
            near(1.0 - share_above(members, think_mean_s, quantiles[0]), 0.5, 0.01);
            near(share_above(members, think_mean_s, quantiles[1]), 0.01, 0.08);
        }
    }

    #[test]
    fn random_order_has_a_longer_tail_than_that_of_arrival() {
        // Each waiting request has the same chance: without sampled points, one in those waiting.
        let population = Population { members: 24, think_mean_s: 0.05 };
        let of = |order| thinking_quantiles_s(population, order, |_, _| 0.01, 0.19, [0.5, 0.99]);
        let (arrival, random) = (of(ServiceOrder::Arrival), of(ServiceOrder::Sampled(&[])));
        assert!(random[0] < 0.9 * arrival[0] && random[1] > 2.0 * arrival[1], "{arrival:?} {random:?}");
    }

    #[test]
    fn services_follow_the_number_outstanding() {
        // One member never waits: each of its services follows an idle period.
        let population = Population { members: 1, think_mean_s: 0.1 };
        let service_s = |n: u32, _: f64| if n == 0 { 0.004 } else { 1.0 };
        let [median] = thinking_quantiles_s(population, ServiceOrder::Arrival, service_s, 0.004, [0.5]);
        near(median, 0.004, 1e-9);
    }
}
