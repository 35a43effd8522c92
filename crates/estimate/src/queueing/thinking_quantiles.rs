//! A population that thinks, followed over drawn requests: percentiles beside the mean of exponential think times, of which
//! [`finite_departures`](super::finite_departures()) has the chain, and mean and percentiles of constant think times.
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
//! Constant think times keep the distances of the departures. If service times S are constant, too, nothing varies, and the response
//! time is `max(S, N S − Z)`, the asymptotic bound of operational analysis [Denning & Buzen 1978]. All members send their first
//! request at the same time, as in a simulation.
//!
//! # Assumptions
//! One server and independent services, as for [`finite_departures`](super::finite_departures()). Think times are exponential, or
//! constant.
//!
//! # Scope and limits
//! 262,144 requests, of which 2,621 exceed the 99th percentile: its standard error is some 1 % near saturation and less below.
//! In another order than that of arrival, work grows with the number waiting, so fewer requests are followed with many members.
//! As many requests as wait, or as members begin with at the same time, are no steady state: of queues, or of populations with
//! constant think times, that are not short beside the requests that do not count, there is no result.

use std::collections::VecDeque;

use seeklab_core::{Seed, Stream};
use seeklab_devices::service_law::OrderPoint;

use super::reordered::Order;
use crate::moments::ServiceMoments;
use crate::quantiles::quantiles_s;
use crate::queueing::{Population, Steady};

/// Requests that are followed.
const REQUESTS: usize = 1 << 18;

/// Comparisons of waiting requests at most, over all choices.
const COMPARISONS_MAX: usize = 1 << 23;

/// Share of the requests at the beginning that do not count: the population begins thinking.
const WARM_UP: usize = 16;

/// Times that a queue must have passed before requests count.
const QUEUES: usize = 2;

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

/// Time that a share of the requests does not exceed, in seconds, for each share, scaled so that the mean is that of `steady`.
/// `service_s(n, share)` is the service time that a share does not exceed of the request chosen while n are outstanding, itself
/// included; those of n = 0 follow an idle period. `None` if the queue is too long.
pub fn thinking_quantiles_s<const N: usize>(
    population: Population,
    order: ServiceOrder<'_>,
    service_s: impl Fn(u32, f64) -> f64,
    steady: &Steady,
    shares: [f64; N],
) -> Option<[f64; N]> {
    let requests = requests(population, order);
    if steady.outstanding_mean * QUEUES as f64 > (requests / WARM_UP) as f64 {
        return None;
    }
    let mut followed = Followed::new(population, order, Thinking::Exponential(population.members));
    let mut times_s: Vec<f64> = followed.run(requests, &service_s).iter().map(|of| of.response_s).collect();
    let scale = steady.response_mean_s * times_s.len() as f64 / times_s.iter().sum::<f64>();
    Some(quantiles_s(&mut times_s, shares).map(|time_s| scale * time_s))
}

/// Steady state of a population with constant think times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThinkingSteady<const N: usize> {
    /// Means.
    pub steady: Steady,
    /// Service times.
    pub service: ServiceMoments,
    /// Response times that shares of the requests do not exceed, in seconds.
    pub quantiles_s: [f64; N],
}

/// Steady state of a population with constant think times; the order and `service_s` as in [`thinking_quantiles_s`]. `None` of
/// a population that is too large.
pub fn constant_think_times<const N: usize>(
    population: Population,
    order: ServiceOrder<'_>,
    service_s: impl Fn(u32, f64) -> f64,
    shares: [f64; N],
) -> Option<ThinkingSteady<N>> {
    let Population { members, think_mean_s } = population;
    let requests = requests(population, order);
    if members as usize * QUEUES > requests / WARM_UP {
        return None;
    }
    let at_once = Thinking::Constant(std::iter::repeat_n(0.0, members as usize).collect());
    let served = Followed::new(population, order, at_once).run(requests, &service_s);
    let mean = |of: fn(&Served) -> f64| served.iter().map(of).sum::<f64>() / served.len() as f64;
    let (response_mean_s, mean_s) = (mean(|of| of.response_s), mean(|of| of.service_s));
    let variance_s2 = (mean(|of| of.service_s * of.service_s) - mean_s * mean_s).max(0.0);
    let throughput_per_s = f64::from(members) / (think_mean_s + response_mean_s);
    let mut times_s: Vec<f64> = served.iter().map(|of| of.response_s).collect();
    Some(ThinkingSteady {
        steady: Steady {
            throughput_per_s,
            utilisation: (throughput_per_s * mean_s).min(1.0),
            queue_time_mean_s: response_mean_s - mean_s,
            response_mean_s,
            outstanding_mean: throughput_per_s * response_mean_s,
        },
        service: ServiceMoments { mean_s, variance_s2 },
        quantiles_s: quantiles_s(&mut times_s, shares),
    })
}

/// Requests that are followed of a population.
fn requests(population: Population, order: ServiceOrder<'_>) -> usize {
    match order {
        ServiceOrder::Arrival => REQUESTS,
        ServiceOrder::Sampled(_) => REQUESTS.min(COMPARISONS_MAX / population.members as usize),
    }
}

/// A request that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    arrival_s: f64,
    /// Passes per request waiting.
    passes: f64,
}

/// A request that was served.
#[derive(Debug, Clone, Copy)]
struct Served {
    response_s: f64,
    service_s: f64,
}

/// Members that think.
#[derive(Debug)]
enum Thinking {
    /// Number of those with exponential think times, which are memoryless.
    Exponential(u32),
    /// Ends of constant think times, in ascending order.
    Constant(VecDeque<f64>),
}

/// A population that is followed from departure to departure.
struct Followed {
    think_mean_s: f64,
    thinking: Thinking,
    /// `None` in order of arrival.
    order: Option<Order>,
    waiting: VecDeque<Waiting>,
    now_s: f64,
    stream: Stream,
}

impl Followed {
    fn new(population: Population, order: ServiceOrder<'_>, thinking: Thinking) -> Self {
        Self {
            think_mean_s: population.think_mean_s,
            thinking,
            order: match order {
                ServiceOrder::Arrival => None,
                ServiceOrder::Sampled(points) => Some(Order::new(points)),
            },
            waiting: VecDeque::new(),
            now_s: 0.0,
            stream: Seed(0).stream("estimate.thinking"),
        }
    }

    /// Follows so many requests, and returns those that count.
    fn run(&mut self, requests: usize, service_s: &impl Fn(u32, f64) -> f64) -> Vec<Served> {
        let mut served: Vec<Served> = (0..requests).map(|_| self.next_departure(service_s)).collect();
        served.drain(..requests / WARM_UP);
        served
    }

    /// Goes to the next departure, and returns the request that departs.
    fn next_departure(&mut self, service_s: &impl Fn(u32, f64) -> f64) -> Served {
        let left_behind = self.waiting.len() as u32;
        if left_behind == 0 {
            self.now_s = self.next_arrival_s();
            self.arrive();
        }
        let arrival_s = self.choose();
        let service_s = service_s(left_behind, self.stream.unit());
        let end_s = self.now_s + service_s;
        while self.has_thinking() {
            self.now_s = self.next_arrival_s();
            if self.now_s >= end_s {
                break;
            }
            self.arrive();
        }
        self.now_s = end_s;
        match &mut self.thinking {
            Thinking::Exponential(members) => *members += 1,
            Thinking::Constant(ends_s) => ends_s.push_back(end_s + self.think_mean_s),
        }
        Served { response_s: end_s - arrival_s, service_s }
    }

    fn has_thinking(&self) -> bool {
        match &self.thinking {
            Thinking::Exponential(members) => *members > 0,
            Thinking::Constant(ends_s) => !ends_s.is_empty(),
        }
    }

    /// Time at which the next of the members that think sends its request.
    fn next_arrival_s(&mut self) -> f64 {
        match &self.thinking {
            Thinking::Exponential(members) => {
                let mean_s = self.think_mean_s / f64::from(*members);
                self.now_s - (1.0 - self.stream.unit()).ln() * mean_s
            }
            Thinking::Constant(ends_s) => ends_s.front().copied().expect("a member thinks"),
        }
    }

    /// A member sends its request now.
    fn arrive(&mut self) {
        match &mut self.thinking {
            Thinking::Exponential(members) => *members -= 1,
            Thinking::Constant(ends_s) => drop(ends_s.pop_front()),
        }
        self.waiting.push_back(Waiting { arrival_s: self.now_s, passes: 0.0 });
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
        // In order of arrival nobody looks at passes, and a million members may wait.
        if self.order.is_some() {
            self.waiting.iter_mut().for_each(|of| of.passes += 1.0 / waiting as f64);
        }
        taken.arrival_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::finite_population;

    /// Means of which only the response time counts.
    fn steady(response_mean_s: f64) -> Steady {
        Steady::of_queue_time(1.0, 0.5, 0.0, response_mean_s)
    }

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
            let steady = finite_population(population, |_| 100.0).unwrap();
            let quantiles =
                thinking_quantiles_s(population, ServiceOrder::Arrival, exponential_s, &steady, [0.5, 0.99]);
            let quantiles = quantiles.unwrap();
            near(1.0 - share_above(members, think_mean_s, quantiles[0]), 0.5, 0.01);
            near(share_above(members, think_mean_s, quantiles[1]), 0.01, 0.08);
        }
    }

    #[test]
    fn random_order_has_a_longer_tail_than_that_of_arrival() {
        // Each waiting request has the same chance: without sampled points, one in those waiting.
        let population = Population { members: 24, think_mean_s: 0.05 };
        let of =
            |order| thinking_quantiles_s(population, order, |_, _| 0.01, &steady(0.19), [0.5, 0.99]).unwrap();
        let (arrival, random) = (of(ServiceOrder::Arrival), of(ServiceOrder::Sampled(&[])));
        assert!(random[0] < 0.9 * arrival[0] && random[1] > 2.0 * arrival[1], "{arrival:?} {random:?}");
    }

    #[test]
    fn services_follow_the_number_outstanding() {
        // One member never waits: each of its services follows an idle period.
        let population = Population { members: 1, think_mean_s: 0.1 };
        let service_s = |n: u32, _: f64| if n == 0 { 0.004 } else { 1.0 };
        let steady = steady(0.004);
        let median = thinking_quantiles_s(population, ServiceOrder::Arrival, service_s, &steady, [0.5]);
        near(median.unwrap()[0], 0.004, 1e-9);
    }

    #[test]
    fn queue_that_the_requests_do_not_pass_has_no_percentiles() {
        // The followed requests are a quarter of those that wait.
        let population = Population { members: 1_000_000, think_mean_s: 0.001 };
        let steady = finite_population(population, |_| 100.0).unwrap();
        let found =
            thinking_quantiles_s(population, ServiceOrder::Arrival, exponential_s, &steady, [0.5, 0.99]);
        assert_eq!(found, None);
        let many = constant_think_times(population, ServiceOrder::Arrival, exponential_s, [0.5]);
        assert_eq!(many, None);
    }

    #[test]
    fn constant_services_and_think_times_meet_the_asymptotic_bound() {
        for (members, think_mean_s) in [(1, 0.2), (2, 0.005), (8, 0.3), (20, 0.2), (24, 0.2), (1_000, 0.5)] {
            let population = Population { members, think_mean_s };
            let found =
                constant_think_times(population, ServiceOrder::Arrival, |_, _| 0.01, [0.5, 0.99]).unwrap();
            let bound_s = (0.01 * f64::from(members) - think_mean_s).max(0.01);
            near(found.steady.response_mean_s, bound_s, 1e-6);
            near(found.quantiles_s[1], bound_s, 1e-6);
            near(found.steady.throughput_per_s, f64::from(members) / (think_mean_s + bound_s), 1e-6);
        }
    }

    #[test]
    fn varying_services_wait_between_the_bound_and_exponential_think_times() {
        for (members, think_mean_s) in [(4, 0.05), (8, 0.1), (24, 0.2)] {
            let population = Population { members, think_mean_s };
            let found =
                constant_think_times(population, ServiceOrder::Arrival, exponential_s, [0.5]).unwrap();
            let exponential = finite_population(population, |_| 100.0).unwrap();
            let bound_s = (0.01 * f64::from(members) - think_mean_s).max(0.01);
            let mean_s = found.steady.response_mean_s;
            assert!(1.01 * bound_s < mean_s && mean_s < exponential.response_mean_s, "{found:?}");
        }
    }
}
