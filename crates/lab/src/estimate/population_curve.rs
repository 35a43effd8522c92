//! Throughput and response time of a closed load over the population, with asymptotic bounds.
//!
//! With one member outstanding, the response time is `R(1)`, and the device completes at most `μ` requests per second. So a
//! population of N with think time Z has at most the throughput `min(N / (Z + R(1)), μ)`, and at least the response time
//! `max(R(1), N / μ − Z)`. Devices that serve requests faster the more they have, such as those that reorder them, keep the
//! first bound and may have more than one of `R(1)`.

use seeklab_report::{Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};

use super::Estimating;
use super::figures::DeviceEstimate;
use super::load::Times;

/// Points of a curve at most.
const POINTS_MAX: u32 = 16;

/// Figures of one population.
#[derive(Debug, Clone, Copy)]
struct Point {
    members: u32,
    throughput_per_s: f64,
    mean_ms: f64,
    p99_ms: Option<f64>,
}

/// Throughput and response time of one device over the population.
#[derive(Debug, Clone)]
pub(super) struct PopulationCurve {
    device: String,
    members: u32,
    think_mean_s: f64,
    saturation_per_s: Option<f64>,
    /// From one member to twice those of the load, in ascending order.
    points: Vec<Point>,
}

impl PopulationCurve {
    /// The curve of a closed load; `None` of an open one.
    pub(super) fn of(estimating: &Estimating, row: &DeviceEstimate) -> Option<Self> {
        let Times::Closed(population) = &estimating.load.times else { return None };
        let last = population.members.saturating_mul(2);
        let steps = (last - 1).min(POINTS_MAX - 1);
        let members =
            (0..=steps).map(|step| 1 + (u64::from(step) * u64::from(last - 1) / u64::from(steps)) as u32);
        let point = |members: u32| {
            let estimate = estimating.at(f64::from(members) / f64::from(population.members)).ok()?;
            Some(Point {
                members,
                throughput_per_s: estimate.steady.throughput_per_s,
                mean_ms: estimate.steady.response_mean_s * 1e3,
                p99_ms: estimate.quantiles_s.map(|quantiles| quantiles[3] * 1e3),
            })
        };
        Some(Self {
            device: row.device.clone(),
            members: population.members,
            think_mean_s: population.think_mean_s,
            saturation_per_s: row.estimate.saturation_per_s,
            points: members.filter_map(point).collect(),
        })
    }

    /// The plots of throughput and response time.
    pub(super) fn plots(&self) -> Vec<Plot> {
        let Some(first) = self.points.first().filter(|point| point.members == 1) else { return Vec::new() };
        let alone_s = first.mean_ms / 1e3;
        let rate_max = self.saturation_per_s.unwrap_or(f64::INFINITY);
        let throughput_max =
            |members: u32| (f64::from(members) / (self.think_mean_s + alone_s)).min(rate_max);
        let response_min_ms =
            |members: u32| 1e3 * (f64::from(members) / rate_max - self.think_mean_s).max(alone_s);
        let over = |pick: &dyn Fn(&Point) -> Option<f64>| {
            let points =
                self.points.iter().filter_map(|point| Some((f64::from(point.members), pick(point)?)));
            points.collect::<Vec<_>>()
        };
        let plot = |title: &str, caption: &str, y: PlotAxis, mut series: Vec<PlotSeries>| {
            let values = || series.iter().flat_map(|series| &series.points).map(|point| point.1);
            let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
            let members = f64::from(self.members);
            series.push(PlotSeries::new("this load", PlotMark::Guide, [(members, least), (members, most)]));
            Plot {
                title: format!("{title} of {}", self.device),
                caption: caption.to_owned(),
                x: PlotAxis::new("population", "requests", PlotScale::Linear).from_zero(),
                y,
                series,
            }
        };
        let line = |name: &str, points| PlotSeries::new(name, PlotMark::LineAndPoints, points);
        let guide = |name: &str, points| PlotSeries::new(name, PlotMark::Guide, points);
        vec![
            plot(
                "throughput",
                "Throughput by estimate. Thin curve: the greatest one by asymptotic bounds. Thin vertical line: this load.",
                PlotAxis::new("throughput", "1/s", PlotScale::Linear).from_zero(),
                vec![
                    line("throughput", over(&|point| Some(point.throughput_per_s))),
                    guide("bound", over(&|point| Some(throughput_max(point.members)))),
                ],
            ),
            plot(
                "response time",
                "Mean and 99th percentile by estimate. Thin curve: the least mean by asymptotic bounds. Thin vertical line: \
                 this load.",
                PlotAxis::new("response time", "ms", PlotScale::Linear).from_zero(),
                vec![
                    line("mean", over(&|point| Some(point.mean_ms))),
                    line("p99", over(&|point| point.p99_ms)),
                    guide("bound", over(&|point| Some(response_min_ms(point.members)))),
                ],
            ),
        ]
    }
}
