//! Interval of the growth of recorded arrivals, by a bootstrap of the requests.
//!
//! The recorded requests are a sample of a load, and another sample of the same load would give another growth. A bootstrap
//! draws other samples from the recorded one: stretches of consecutive requests, each with the time since the request before
//! and its service, at random places and of random length, until there are as many requests as were recorded (the stationary
//! bootstrap [Politis & Romano 1994]). The recursion runs over each of these samples, so a queue that two stretches build
//! together is counted as well, and no stretch has to be longer than a busy period.
//!
//! ```text
//!   ln g*  growth of a sample of the length of the trace: its 5th and 95th percentile are a and b
//!   ln G   growth of a sample many times as long, which is the growth of the load from which samples are drawn
//!   90 % interval of the growth g of the trace:  ln g ± max(ln G − a, b − ln G)
//! ```
//! The greater distance counts on both sides, because the variance of a sample depends on how many long queues it happens to
//! have: the interval of one side alone is too short for samples that lack such queues.
//!
//! # Scope and limits
//! `benches/growth_coverage.rs` counts how often the interval has the true growth of synthetic loads. It has it less often
//! if the load changes so slowly that the trace has few changes.
//!
//! # References
//! - [Politis & Romano 1994] D. N. Politis, J. P. Romano, *The stationary bootstrap*, Journal of the American Statistical
//!   Association 89(428), 1994.
//! - [Politis & White 2004] D. N. Politis, H. White, *Automatic block-length selection for the dependent bootstrap*,
//!   Econometric Reviews 23(1), 2004; with the correction of A. Patton, D. N. Politis, H. White, Econometric Reviews 28(4), 2009.

use seeklab_core::{Duration, Instant, Seed, Stream};
use seeklab_devices::service_law::ServiceLaw;

use crate::error::EstimateError;
use crate::quantiles::quantile_s;
use crate::recorded::{RecordedLoad, recorded_responses_s};
use crate::recorded_service::RecordedService;

/// Least number of requests.
const REQUESTS_MIN: usize = 1_000;

/// Requests of all samples together.
const REQUESTS_OF_SAMPLES: usize = 20_000_000;

/// Samples at least and at most.
const SAMPLES: (usize, usize) = (39, 199);

/// Length of the long sample in lengths of the trace, and its requests at most unless the trace has more.
const LONG: (usize, usize) = (20, 4_000_000);

/// Mean length of the stretches beyond which requests count as dependent.
const INDEPENDENT_MAX: f64 = 10.0;

/// Resolution of the logarithm of a growth.
const RESOLUTION: f64 = 2e-3;

/// First step of the search for the growth of a sample, and greatest distance from the growth of the trace, both of the
/// logarithm.
const SEARCH: (f64, f64) = (0.05, 9.0);

/// Random error of a growth, of a trace as a sample of its load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowthError {
    /// Distance of the lower end of the 90 % interval in the logarithm of the growth; infinite if samples may exceed the
    /// bound at any load.
    pub down: f64,
    /// Distance of the upper end.
    pub up: f64,
    /// True if the requests depend on those before them.
    pub is_dependent: bool,
}

/// Figure of response times that is bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ResponseFigure {
    /// The mean.
    Mean,
    /// The time that this share of the requests does not exceed, between 0 and 1.
    Quantile(f64),
}

impl ResponseFigure {
    /// The figure of these response times, which it reorders.
    fn of(self, responses_s: &mut [f64]) -> f64 {
        match self {
            Self::Mean => responses_s.iter().sum::<f64>() / responses_s.len() as f64,
            Self::Quantile(share) => quantile_s(responses_s, share),
        }
    }
}

/// A recorded request as samples take it.
#[derive(Debug, Clone, Copy)]
struct Unit {
    /// Time since the arrival before.
    gap: Duration,
    /// Service that is next in the order of the run when this request arrives.
    service: RecordedService,
    /// Places by which its request arrives later than this one.
    ahead: i64,
}

/// Recorded requests from which samples are drawn.
struct Units {
    units: Vec<Unit>,
    /// Mean number of requests of a stretch.
    stretch: f64,
    in_order: bool,
}

/// A sample.
struct Sample {
    arrivals: Vec<Instant>,
    services: Vec<RecordedService>,
}

impl Units {
    fn new(load: RecordedLoad) -> Self {
        let gaps = load.arrivals.windows(2).map(|pair| pair[1].saturating_since(pair[0]));
        let span = load.arrivals[load.arrivals.len() - 1].saturating_since(load.arrivals[0]);
        let mean_gap = Duration::from_ms_f64(span.as_ms() / (load.arrivals.len() - 1) as f64);
        // The time before the first request is unknown.
        let gaps = std::iter::once(mean_gap).chain(gaps);
        let units: Vec<Unit> = gaps
            .zip(load.services)
            .enumerate()
            .map(|(place, (gap, service))| Unit {
                gap,
                service: *service,
                ahead: i64::from(service.request) - place as i64,
            })
            .collect();
        let mean_s = load.service().mean_s;
        // The steps of the recursion: work that a request brings less time that passes, both over their means.
        let step = |unit: &Unit| unit.service.service_s / mean_s - unit.gap.as_s() / mean_gap.as_s();
        let steps: Vec<f64> = units.iter().map(step).collect();
        let in_order = units.iter().all(|unit| unit.ahead == 0);
        Self { units, stretch: stretch_mean(&steps), in_order }
    }

    /// Draws a sample of that many requests.
    fn draw(&self, requests: usize, stream: &mut Stream) -> Sample {
        let mut sample =
            Sample { arrivals: Vec::with_capacity(requests), services: Vec::with_capacity(requests) };
        let mut now = Instant::ZERO;
        let mut place = stream.below(self.units.len() as u64) as usize;
        let mut keys = Vec::new();
        for number in 0..requests {
            let unit = self.units[place];
            now += unit.gap;
            sample.arrivals.push(now);
            sample.services.push(RecordedService { request: number as u32, ..unit.service });
            if !self.in_order {
                keys.push((number as i64 + unit.ahead, number as u32));
            }
            place = if stream.unit() * self.stretch < 1.0 {
                stream.below(self.units.len() as u64) as usize
            } else {
                (place + 1) % self.units.len()
            };
        }
        // Where stretches meet, requests of both are served in the order in which they would have been.
        keys.sort_unstable();
        for (request, (_, served)) in keys.iter().enumerate() {
            sample.services[*served as usize].request = request as u32;
        }
        sample
    }
}

/// A bound of a figure.
#[derive(Debug, Clone, Copy)]
struct Bounded<'a> {
    figure: ResponseFigure,
    bound_s: f64,
    law: &'a ServiceLaw,
    /// Growth of the trace.
    growth: f64,
}

impl Bounded<'_> {
    /// Logarithm of the growth of a sample over that of the trace; infinite if the sample exceeds the bound at any load, or
    /// at none.
    fn growth_of(self, sample: &Sample, start: f64) -> Result<f64, EstimateError> {
        let meets = |logarithm: f64| {
            let growth = self.growth * logarithm.exp();
            let load = RecordedLoad { arrivals: &sample.arrivals, services: &sample.services, growth };
            match recorded_responses_s(load, self.law) {
                Ok(mut responses_s) => Ok(self.figure.of(&mut responses_s) <= self.bound_s),
                // All requests at once.
                Err(EstimateError::WithoutTimes { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        let (mut step, distance_max) = SEARCH;
        let is_met = meets(start)?;
        let direction = if is_met { 1.0 } else { -1.0 };
        let mut near = start;
        let mut far = near + direction * step;
        while meets(far)? == is_met {
            if far.abs() > distance_max {
                return Ok(direction * f64::INFINITY);
            }
            step *= 2.0;
            (near, far) = (far, far + direction * step);
        }
        while (far - near).abs() > RESOLUTION {
            let middle = (near + far) / 2.0;
            *(if meets(middle)? == is_met { &mut near } else { &mut far }) = middle;
        }
        Ok((near + far) / 2.0)
    }
}

/// Random error of the growth at which a recorded load, multiplied by it, meets a bound. The samples are drawn with `seed`.
/// `None` with fewer than 1000 requests, or if the load from which the samples are drawn exceeds the bound at any growth or
/// at none.
///
/// # Errors
/// Requests that all arrive at once.
pub fn growth_error(
    load: RecordedLoad,
    law: &ServiceLaw,
    figure: ResponseFigure,
    bound_s: f64,
    seed: Seed,
) -> Result<Option<GrowthError>, EstimateError> {
    let count = load.arrivals.len();
    if count < REQUESTS_MIN {
        return Ok(None);
    }
    let units = Units::new(load);
    let bounded = Bounded { figure, bound_s, law, growth: load.growth };
    let mut stream = seed.stream("estimate.growth");
    let long = (LONG.0 * count).min(LONG.1).max(count);
    let of_load = bounded.growth_of(&units.draw(long, &mut stream), 0.0)?;
    if of_load.is_infinite() {
        return Ok(None);
    }
    let samples = (REQUESTS_OF_SAMPLES / count).clamp(SAMPLES.0, SAMPLES.1);
    let mut errors = Vec::with_capacity(samples);
    for _ in 0..samples {
        errors.push(bounded.growth_of(&units.draw(count, &mut stream), of_load)? - of_load);
    }
    errors.sort_unstable_by(f64::total_cmp);
    let (down, up) = (-percentile(&errors, 0.05), percentile(&errors, 0.95));
    let finite = [down, up].into_iter().filter(|distance| distance.is_finite());
    let upwards = finite.fold(0.0, f64::max);
    Ok(Some(GrowthError {
        down: if down.is_infinite() { f64::INFINITY } else { upwards },
        up: if up.is_infinite() { f64::INFINITY } else { upwards },
        is_dependent: units.stretch > INDEPENDENT_MAX,
    }))
}

/// Percentile of sorted values, interpolated between finite ones.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    if low.is_infinite() || high.is_infinite() {
        // An infinite end counts if it is nearer.
        return if place.fract() < 0.5 { low } else { high };
    }
    low + (high - low) * place.fract()
}

/// Mean length of the stretches of a stationary bootstrap of this series: that with the least error of the variance of a
/// mean [Politis & White 2004]. Independent values are drawn one by one, dependent ones in stretches.
fn stretch_mean(series: &[f64]) -> f64 {
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let covariance = |lag: usize| {
        let pairs = series.iter().zip(&series[lag..]);
        pairs.map(|(one, other)| (one - mean) * (other - mean)).sum::<f64>() / count
    };
    let variance = covariance(0);
    if variance <= 0.0 {
        return 1.0;
    }
    // Correlations within these of 0 for some lags in a row are those of independent values.
    let negligible = 2.0 * (count.log10() / count).sqrt();
    let in_a_row = (count.log10().sqrt() as usize).max(5);
    let lags_max = (count.sqrt().ceil() as usize + in_a_row).min(series.len() - 1);
    let mut covariances = vec![variance];
    let (mut last, mut run) = (0, 0);
    for lag in 1..=lags_max {
        covariances.push(covariance(lag));
        if (covariances[lag] / variance).abs() < negligible {
            run += 1;
            if run == in_a_row {
                break;
            }
        } else {
            (last, run) = (lag, 0);
        }
    }
    let window = (2 * last.max(1)).min(lags_max);
    let (mut slope, mut spectrum) = (0.0, variance);
    for lag in 1..=window {
        let covariance = covariances.get(lag).copied().unwrap_or_else(|| covariance(lag));
        // The window is flat up to its half [Politis & Romano 1995].
        let weight = (2.0 * (1.0 - lag as f64 / window as f64)).clamp(0.0, 1.0);
        slope += 2.0 * weight * lag as f64 * covariance;
        spectrum += 2.0 * weight * covariance;
    }
    let longest = (3.0 * count.sqrt()).min(count / 3.0);
    let stretch = (slope * slope / (spectrum * spectrum) * count).cbrt();
    if stretch.is_finite() { stretch.clamp(1.0, longest) } else { longest }
}

#[cfg(test)]
mod tests {
    use seeklab_devices::service_law::{LawOrigin, LawPoint, ServiceTimes};

    use super::*;

    fn law() -> ServiceLaw {
        ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.01))
    }

    /// Requests in order with these gaps, in milliseconds.
    fn requests(gaps_ms: &[f64]) -> (Vec<Instant>, Vec<RecordedService>) {
        let mut now = Instant::ZERO;
        let arrive = |gap_ms: &f64| {
            now += Duration::from_ms_f64(*gap_ms);
            now
        };
        let arrivals: Vec<Instant> = gaps_ms.iter().map(arrive).collect();
        let service = |request| RecordedService { request, waiting: 0, service_s: 0.01 };
        (arrivals, (0..gaps_ms.len() as u32).map(service).collect())
    }

    fn error(gaps_ms: &[f64], figure: ResponseFigure, bound_s: f64) -> Option<GrowthError> {
        let (arrivals, services) = requests(gaps_ms);
        let load = RecordedLoad { arrivals: &arrivals, services: &services, growth: 1.0 };
        growth_error(load, &law(), figure, bound_s, Seed(1)).unwrap()
    }

    #[test]
    fn independent_requests_are_drawn_one_by_one_and_dependent_ones_in_stretches() {
        let mut stream = Seed(2).stream("test");
        let independent: Vec<f64> = (0..10_000).map(|_| stream.unit()).collect();
        assert!(stretch_mean(&independent) < 4.0, "{}", stretch_mean(&independent));
        let slow: Vec<f64> = (0..10_000).map(|place| f64::from(place / 200 % 2) + stream.unit()).collect();
        assert!(stretch_mean(&slow) > 50.0, "{}", stretch_mean(&slow));
        assert_eq!(stretch_mean(&[1.0; 100]), 1.0);
    }

    #[test]
    fn samples_have_the_rate_and_the_stretches_of_the_trace() {
        let mut stream = Seed(3).stream("test");
        let gaps_ms: Vec<f64> = (0..5_000).map(|place| if place % 2 == 0 { 1.0 } else { 3.0 }).collect();
        let (arrivals, services) = requests(&gaps_ms);
        let mut units = Units::new(RecordedLoad { arrivals: &arrivals, services: &services, growth: 1.0 });
        units.stretch = 100.0;
        let sample = units.draw(20_000, &mut stream);
        let gaps: Vec<f64> = sample.arrivals.windows(2).map(|pair| (pair[1] - pair[0]).as_ms()).collect();
        assert!((gaps.iter().sum::<f64>() / gaps.len() as f64 - 2.0).abs() < 0.02);
        let changed = gaps.windows(2).filter(|pair| pair[0] == pair[1]).count();
        // Half of some 200 joints repeat a gap.
        assert!((60..150).contains(&changed), "{changed}");
    }

    #[test]
    fn samples_of_reordered_services_serve_every_request_once() {
        let gaps_ms = [5.0; 4_000];
        let (arrivals, mut services) = requests(&gaps_ms);
        services.chunks_mut(5).for_each(|chunk| {
            let first = chunk[0].request;
            chunk
                .iter_mut()
                .enumerate()
                .for_each(|(place, service)| service.request = first + 4 - place as u32);
        });
        let units = Units::new(RecordedLoad { arrivals: &arrivals, services: &services, growth: 1.0 });
        let sample = units.draw(3_000, &mut Seed(4).stream("test"));
        let mut served: Vec<u32> = sample.services.iter().map(|service| service.request).collect();
        assert!(served.windows(2).any(|pair| pair[0] > pair[1]));
        served.sort_unstable();
        assert!(served.iter().copied().eq(0..3_000));
        // The recursion of a device that reorders its queue takes them.
        let point =
            |outstanding| LawPoint { outstanding, service: ServiceTimes::constant(0.004), response: None };
        let law = ServiceLaw { points: vec![point(1), point(2)], ..law() };
        let load = RecordedLoad { arrivals: &arrivals, services: &services, growth: 1.0 };
        let found = growth_error(load, &law, ResponseFigure::Mean, 0.02, Seed(5)).unwrap();
        assert!(found.is_some_and(|error| error.up.is_finite()), "{found:?}");
    }

    #[test]
    fn loads_without_variation_have_a_narrow_interval_and_few_requests_none() {
        let found = error(&[20.0; 2_000], ResponseFigure::Mean, 0.015).unwrap();
        assert!(found.up < 0.01 && found.down == found.up, "{found:?}");
        assert_eq!(error(&[20.0; 999], ResponseFigure::Mean, 0.015), None);
        // No growth meets a bound below the service time.
        assert_eq!(error(&[20.0; 2_000], ResponseFigure::Mean, 0.009), None);
    }

    #[test]
    fn bound_that_some_samples_exceed_at_any_load_has_no_lower_end() {
        // One burst at once, of 1.2 % of the requests: a sample has it twice, once or not at all.
        let mut gaps_ms = vec![100.0; 3_000];
        gaps_ms[1_000..1_036].fill(0.0);
        let (arrivals, services) = requests(&gaps_ms);
        let mut units = Units::new(RecordedLoad { arrivals: &arrivals, services: &services, growth: 1.0 });
        units.stretch = 200.0;
        let law = law();
        let bounded =
            Bounded { figure: ResponseFigure::Quantile(0.99), bound_s: 0.1, law: &law, growth: 1.0 };
        let mut stream = Seed(6).stream("test");
        let growths: Vec<f64> =
            (0..40).map(|_| bounded.growth_of(&units.draw(3_000, &mut stream), 0.0).unwrap()).collect();
        assert!(growths.contains(&f64::NEG_INFINITY), "{growths:?}");
        assert!(growths.iter().any(|growth| growth.is_finite()), "{growths:?}");
        let sorted = [f64::NEG_INFINITY, -1.0, 0.0, 1.0, 2.0];
        assert_eq!((percentile(&sorted, 0.05), percentile(&sorted, 0.75)), (f64::NEG_INFINITY, 1.0));
    }
}
