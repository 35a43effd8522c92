//! Tests of the assumptions of an estimate.
//!
//! | assumption | figure | holds if |
//! | --- | --- | --- |
//! | Poisson arrivals | variance over mean of the arrivals in windows of 16 mean interarrival times | within four deviations of 1 |
//! | stationary arrivals | arrivals of the second half over those of the first, by time | within four Poisson deviations of 1, or 5 % |
//! | independent services | correlation of the service times of consecutive requests | within four deviations of 0, or 0.05 |
//! | services independent of idle times | mean service after an idle time over that without | within 5 % of 1 |

use seeklab_core::Instant;
use seeklab_devices::service_law::ServiceLaw;

/// Deviations of the figure of a random load that an assumption allows.
const DEVIATIONS: f64 = 4.0;

/// Mean interarrival times in a window of the dispersion.
const WINDOW: f64 = 16.0;

/// A tested assumption.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assumption {
    /// The assumption.
    pub kind: AssumptionKind,
    /// Figure of the test.
    pub figure: f64,
    /// Least figure with which the assumption holds.
    pub min: f64,
    /// Greatest figure with which the assumption holds.
    pub max: f64,
}

/// Assumptions that are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssumptionKind {
    /// Arrivals are a Poisson process.
    PoissonArrivals,
    /// The rate of arrivals does not change.
    StationaryArrivals,
    /// Service times do not depend on those before.
    IndependentServices,
    /// Service times do not depend on idle times before.
    ServicesIndependentOfIdle,
}

impl AssumptionKind {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PoissonArrivals => "poisson_arrivals",
            Self::StationaryArrivals => "stationary_arrivals",
            Self::IndependentServices => "independent_services",
            Self::ServicesIndependentOfIdle => "services_independent_of_idle",
        }
    }

    /// The figure of the test, in words.
    pub const fn figure_in_words(self) -> &'static str {
        match self {
            Self::PoissonArrivals => "variance over mean of arrivals in windows",
            Self::StationaryArrivals => "arrivals of the second half over those of the first",
            Self::IndependentServices => "correlation of consecutive service times",
            Self::ServicesIndependentOfIdle => "mean service time after an idle time over that without",
        }
    }
}

impl Assumption {
    fn around(kind: AssumptionKind, figure: f64, centre: f64, allowed: f64) -> Self {
        Self { kind, figure, min: centre - allowed, max: centre + allowed }
    }

    /// Returns true if the assumption holds.
    pub fn holds(&self) -> bool {
        (self.min..=self.max).contains(&self.figure)
    }
}

/// Dispersion of arrivals in windows, for Poisson arrivals near 1.
pub fn poisson_arrivals(arrivals: &[Instant]) -> Option<Assumption> {
    let (first, last) = (*arrivals.first()?, *arrivals.last()?);
    let span_s = last.saturating_since(first).as_s();
    let windows = (arrivals.len() as f64 / WINDOW) as usize;
    if windows < 8 || span_s <= 0.0 {
        return None;
    }
    let mut counts = vec![0_u32; windows];
    for arrival in arrivals {
        let place = arrival.saturating_since(first).as_s() / span_s * windows as f64;
        counts[(place as usize).min(windows - 1)] += 1;
    }
    let mean = arrivals.len() as f64 / windows as f64;
    let variance =
        counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / (windows - 1) as f64;
    // Of a Poisson process the ratio has the deviation sqrt(2 / (k − 1)) over k windows.
    let allowed = DEVIATIONS * (2.0 / (windows - 1) as f64).sqrt();
    Some(Assumption::around(AssumptionKind::PoissonArrivals, variance / mean, 1.0, allowed))
}

/// Arrivals of both halves of the time.
pub fn stationary_arrivals(arrivals: &[Instant]) -> Option<Assumption> {
    let (first, last) = (*arrivals.first()?, *arrivals.last()?);
    let half = last.saturating_since(first).as_s() / 2.0;
    if arrivals.len() < 64 || half <= 0.0 {
        return None;
    }
    let earlier = arrivals.partition_point(|arrival| arrival.saturating_since(first).as_s() < half);
    let later = arrivals.len() - earlier;
    let ratio = later as f64 / earlier.max(1) as f64;
    let allowed = (DEVIATIONS * 2.0 / (arrivals.len() as f64).sqrt()).max(0.05);
    Some(Assumption::around(AssumptionKind::StationaryArrivals, ratio, 1.0, allowed))
}

/// Correlation of the service times of consecutive requests.
pub fn independent_services(services_s: &[f64]) -> Option<Assumption> {
    let count = services_s.len() as f64;
    if services_s.len() < 64 {
        return None;
    }
    let mean = services_s.iter().sum::<f64>() / count;
    let variance = services_s.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
    if variance <= 1e-12 * mean * mean {
        return None;
    }
    let products = services_s.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let correlation = products.sum::<f64>() / (count - 1.0) / variance;
    let allowed = (DEVIATIONS / count.sqrt()).max(0.05);
    Some(Assumption::around(AssumptionKind::IndependentServices, correlation, 0.0, allowed))
}

/// Service times after idle times, of a law that was sampled with and without them.
pub fn services_independent_of_idle(law: &ServiceLaw) -> Option<Assumption> {
    let alone_s = law.mean_s(1.0);
    let ratio = match &law.after_idle {
        Some(times) if alone_s > 0.0 => times.mean_s() / alone_s,
        _ => 1.0,
    };
    Some(Assumption::around(AssumptionKind::ServicesIndependentOfIdle, ratio, 1.0, 0.05))
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, Seed};
    use seeklab_devices::service_law::{LawOrigin, ServiceTimes};

    use super::*;

    fn poisson(count: usize, growth: f64) -> Vec<Instant> {
        let mut stream = Seed(3).stream("test");
        let mut now = Instant::ZERO;
        let step = |index: usize| {
            let mean_ms = 10.0 / (1.0 + growth * index as f64 / count as f64);
            now += stream.exponential(Duration::from_ms_f64(mean_ms));
            now
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn poisson_arrivals_pass_and_bursts_fail() {
        let arrivals = poisson(20_000, 0.0);
        assert!(poisson_arrivals(&arrivals).unwrap().holds());
        assert!(stationary_arrivals(&arrivals).unwrap().holds());
        let bursts: Vec<Instant> =
            (0..20_000_u64).map(|i| Instant::from_ns(i / 32 * 1_000_000_000)).collect();
        let found = poisson_arrivals(&bursts).unwrap();
        assert!(!found.holds() && found.figure > 10.0, "{found:?}");
        let regular: Vec<Instant> = (0..20_000_u64).map(|i| Instant::from_ns(i * 1_000_000)).collect();
        assert!(!poisson_arrivals(&regular).unwrap().holds());
    }

    #[test]
    fn growing_rates_are_a_trend() {
        let found = stationary_arrivals(&poisson(20_000, 1.0)).unwrap();
        assert!(!found.holds() && found.figure > 1.2, "{found:?}");
    }

    #[test]
    fn alternating_services_are_correlated() {
        let mut stream = Seed(4).stream("test");
        let random: Vec<f64> = (0..20_000).map(|_| stream.unit()).collect();
        assert!(independent_services(&random).unwrap().holds());
        let runs: Vec<f64> = (0..20_000).map(|i| f64::from(i / 10 % 2)).collect();
        assert!(!independent_services(&runs).unwrap().holds());
        assert_eq!(independent_services(&[0.5; 100]), None);
    }

    #[test]
    fn idle_services_that_differ_are_named() {
        let law = ServiceLaw::of_server(LawOrigin::Sampled, ServiceTimes::constant(0.01));
        assert!(services_independent_of_idle(&law).unwrap().holds());
        let faster = ServiceLaw { after_idle: Some(ServiceTimes::constant(0.001)), ..law };
        let found = services_independent_of_idle(&faster).unwrap();
        assert!(!found.holds() && (found.figure - 0.1).abs() < 1e-12);
    }
}
