//! Intervals of growths of synthetic loads, beside the growths of much longer samples.
//!
//! `benches/growth_coverage.rs` counts over more samples, and `validation/estimate/coverage.csv` has its table.

use seeklab_core::{Duration, Instant, Seed, Stream};
use seeklab_devices::service_law::{LawOrigin, ServiceLaw, ServiceTimes};
use seeklab_estimate::{
    RecordedLoad, RecordedService, ResponseFigure, growth_error, growth_until, recorded_responses_s,
};

/// Arrivals of a load at a rate of some 10 per second, on a server with a mean service time of 10 ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// Poisson arrivals, a service time of 10 ms.
    Poisson,
    /// Poisson arrivals, exponential service times.
    Exponential,
    /// Bursts of 20 requests at once on average, with exponential times between them.
    Bursts,
    /// Bursts of 20 requests with 2 ms between them on average, and service times of 2 ms and an exponential part.
    SpreadBursts,
    /// Rates of 33 and 6 per second by turns, each for 50 requests on average.
    Changing,
    /// The same, each for 300 requests on average.
    ChangingSlowly,
}

/// Name of each load, growth at which the bound of a figure is taken, and whether its requests depend on those before.
pub(crate) const LOADS: [(Load, &str, f64, bool); 6] = [
    (Load::Poisson, "poisson", 7.5, false),
    (Load::Exponential, "poisson_exponential_services", 7.0, false),
    (Load::Bursts, "bursts", 5.0, false),
    (Load::SpreadBursts, "spread_bursts", 5.0, false),
    (Load::Changing, "rate_for_50_requests", 7.0, true),
    (Load::ChangingSlowly, "rate_for_300_requests", 7.0, true),
];

pub(crate) const FIGURES: [(&str, ResponseFigure); 3] = [
    ("response_mean_ms", ResponseFigure::Mean),
    ("response_p50_ms", ResponseFigure::Quantile(0.5)),
    ("response_p99_ms", ResponseFigure::Quantile(0.99)),
];

/// Requests of the sample that gives the true figures.
const KNOWN: usize = 8_000_000;

/// A sample of a load.
struct Sample {
    arrivals: Vec<Instant>,
    services: Vec<RecordedService>,
}

fn exponential(stream: &mut Stream, mean_s: f64) -> f64 {
    -(1.0 - stream.unit()).ln() * mean_s
}

impl Load {
    fn sample(self, seed: Seed, requests: usize) -> Sample {
        let mut stream = seed.stream("test.growth");
        let (mut now, mut is_fast, mut left) = (Instant::ZERO, false, 0);
        let mut sample = Sample { arrivals: Vec::new(), services: Vec::new() };
        for request in 0..requests as u32 {
            let begins = stream.unit() * 20.0 < 1.0;
            let (gap_s, service_s) = match self {
                Self::Poisson => (exponential(&mut stream, 0.1), 0.01),
                Self::Exponential => (exponential(&mut stream, 0.1), exponential(&mut stream, 0.01)),
                Self::Bursts => (if begins { exponential(&mut stream, 2.0) } else { 0.0 }, 0.01),
                Self::SpreadBursts => (
                    exponential(&mut stream, if begins { 2.0 } else { 0.002 }),
                    0.002 + exponential(&mut stream, 0.008),
                ),
                Self::Changing | Self::ChangingSlowly => {
                    if left == 0 {
                        let mean = if self == Self::Changing { 50.0 } else { 300.0 };
                        (is_fast, left) = (!is_fast, 1 + exponential(&mut stream, mean) as u32);
                    }
                    left -= 1;
                    (exponential(&mut stream, if is_fast { 0.03 } else { 0.17 }), 0.01)
                }
            };
            now += Duration::from_ms_f64(gap_s * 1e3);
            sample.arrivals.push(now);
            sample.services.push(RecordedService { request, waiting: 0, service_s });
        }
        sample
    }
}

/// Samples whose interval has the true growth, and those whose interval lies above and below it.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) inside: u32,
    pub(crate) above: u32,
    pub(crate) below: u32,
}

/// Counts over samples of `requests` requests, with seeds from 1 on. The bound of each figure is that of 8 million requests
/// of another seed at the known growth.
pub(crate) fn coverage(load: Load, growth: f64, requests: usize, samples: u64) -> [Coverage; 3] {
    let law = ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.01));
    let responses_s = |sample: &Sample, growth: f64| {
        let load = RecordedLoad { arrivals: &sample.arrivals, services: &sample.services, growth };
        recorded_responses_s(load, &law)
    };
    let mut known_s = responses_s(&load.sample(Seed(1_000_000), KNOWN), growth).unwrap();
    known_s.sort_unstable_by(f64::total_cmp);
    FIGURES.map(|(_, figure)| {
        let of = |sorted_s: &[f64]| match figure {
            ResponseFigure::Mean => sorted_s.iter().sum::<f64>() / sorted_s.len() as f64,
            ResponseFigure::Quantile(share) => sorted_s[(share * sorted_s.len() as f64) as usize],
        };
        let bound_s = of(&known_s);
        let mut found = Coverage::default();
        for seed in 1..=samples {
            let sample = load.sample(Seed(seed), requests);
            let at = |factor: f64| {
                let mut times_s = responses_s(&sample, growth * factor)?;
                times_s.sort_unstable_by(f64::total_cmp);
                Ok(of(&times_s))
            };
            let Ok(factor) = growth_until(bound_s, 1.0, at) else {
                // Without a growth there is no interval: the sample lies below.
                found.below += 1;
                continue;
            };
            let load = RecordedLoad {
                arrivals: &sample.arrivals,
                services: &sample.services,
                growth: growth * factor,
            };
            match growth_error(load, &law, figure, bound_s, Seed(seed)).unwrap() {
                Some(error) if factor.ln() > error.down => found.above += 1,
                Some(error) if -factor.ln() > error.up => found.below += 1,
                Some(_) => found.inside += 1,
                None => found.below += 1,
            }
        }
        found
    })
}

#[test]
fn intervals_have_the_true_growth_of_poisson_arrivals_and_bursts() {
    for (load, name, growth, _) in [LOADS[0], LOADS[2]] {
        for ((figure, _), found) in FIGURES.iter().zip(coverage(load, growth, 2_000, 40)) {
            // 36 of 40 on average.
            assert!(found.inside >= 30, "{name}, {figure}: {found:?}");
        }
    }
}
