//! The page of an estimate: tables of the figures, and response curves over the rate.

use seeklab_report::{Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};

use super::Estimating;
use super::figures::{AssumptionFigures, DeviceEstimate, ErrorFigures, EstimateFigures, MethodFigures};
use super::network::NetworkFigures;
use super::population_curve::PopulationCurve;
use crate::output::VERSION;

/// Utilisations of a curve, in percent of the highest sustained rate.
const STEPS_PCT: [f64; 16] =
    [5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 65.0, 70.0, 75.0, 80.0, 85.0, 88.0, 91.0, 94.0, 97.0];

/// Response times of one device over the rate.
#[derive(Debug, Clone, Default)]
pub(super) struct Curve {
    device: String,
    /// Arrivals per second, mean and 99th percentile in milliseconds.
    points: Vec<(f64, f64, Option<f64>)>,
    /// Rates, and the mean less and plus the error of estimates at that rate, in milliseconds; where it is known.
    band: Vec<(f64, [f64; 2])>,
    limit_per_s: Option<f64>,
    current_per_s: Option<f64>,
}

impl Curve {
    /// The curve of an open load; empty if it is not `wanted`.
    pub(super) fn of(estimating: &Estimating, row: &DeviceEstimate, wanted: bool) -> Self {
        let (Some(current), Some(limit), true) = (row.arrivals_per_s, row.estimate.saturation_per_s, wanted)
        else {
            return Self::default();
        };
        let (mut points, mut band) = (Vec::new(), Vec::new());
        for pct in STEPS_PCT {
            let rate = limit * pct / 100.0;
            let Ok(estimate) = estimating.at_own_services(rate / current) else { continue };
            let p99_ms = estimate.quantiles_s.map(|quantiles| quantiles[3] * 1e3);
            let mean_ms = estimate.steady.response_mean_s * 1e3;
            points.push((rate, mean_ms, p99_ms));
            if let Some(error_pct) = estimating.errors_of(&estimate).response_mean_pct {
                band.push((rate, [-1.0, 1.0].map(|sign| mean_ms * (1.0 + sign * error_pct / 100.0))));
            }
        }
        Self {
            device: row.device.clone(),
            points,
            band,
            limit_per_s: Some(limit),
            current_per_s: Some(current),
        }
    }

    /// The knee: the rate with the greatest ratio of throughput to mean response time [Kleinrock 1979].
    fn knee(&self) -> Option<&(f64, f64, Option<f64>)> {
        let power = |point: &(f64, f64, Option<f64>)| point.0 / point.1;
        self.points.iter().max_by(|one, other| power(one).total_cmp(&power(other)))
    }

    fn plot(&self) -> Plot {
        let rate_per_s = || PlotAxis::new("arrivals", "1/s", PlotScale::Linear).from_zero();
        let of = |pick: &dyn Fn(&(f64, f64, Option<f64>)) -> Option<f64>| {
            self.points.iter().filter_map(|point| Some((point.0, pick(point)?))).collect::<Vec<_>>()
        };
        let mean = of(&|point| Some(point.1));
        let times = || self.points.iter().flat_map(|point| [Some(point.1), point.2].into_iter().flatten());
        let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        let mut series = vec![
            PlotSeries::new("mean", PlotMark::LineAndPoints, mean.clone()),
            PlotSeries::new("p99", PlotMark::LineAndPoints, of(&|point| point.2)),
        ];
        if !self.band.is_empty() {
            for (side, name) in ["mean less error", "mean plus error"].into_iter().enumerate() {
                let band = self.band.iter().map(|(rate, means_ms)| (*rate, means_ms[side]));
                series.push(PlotSeries::new(name, PlotMark::Guide, band));
            }
        }
        let marks = [("this load", self.current_per_s), ("limit", self.limit_per_s)];
        for (name, rate) in marks {
            if let Some(rate) = rate {
                series.push(PlotSeries::new(name, PlotMark::Guide, [(rate, least), (rate, most)]));
            }
        }
        Plot {
            title: format!("response time of {}", self.device),
            caption: "Mean and 99th percentile by estimate, up to 97 % of the highest sustained rate. Thin vertical lines: \
                      this load, and the limit. Thin curves: the error band of the mean."
                .to_owned(),
            x: rate_per_s(),
            y: PlotAxis::new("response time", "ms", PlotScale::Log),
            series,
        }
    }
}

/// Returns the page of an estimate.
pub(super) fn page(
    figures: &EstimateFigures,
    curves: &[Curve],
    population_curves: &[PopulationCurve],
) -> Page {
    let names: Vec<&str> = figures.devices.iter().map(|device| device.device.as_str()).collect();
    let notes = figures.devices.iter().flat_map(|device| {
        let notes = device.notes.iter().cloned().chain(assumptions_that_hold(&device.assumptions));
        notes.map(|note| format!("{}: {note}", device.device))
    });
    let curves: Vec<&Curve> = curves.iter().filter(|curve| !curve.points.is_empty()).collect();
    let knees = curves.iter().filter_map(|curve| {
        let (rate, mean_ms, _) = curve.knee()?;
        let pct = 100.0 * rate / curve.limit_per_s?;
        Some(vec![curve.device.clone(), number(*rate), format!("{pct:.0} %"), number(*mean_ms)])
    });
    let knees: Vec<Vec<String>> = knees.collect();
    let curve_tables = if knees.is_empty() {
        Vec::new()
    } else {
        vec![PlainTable {
            columns: ["device", "knee 1/s", "of the limit", "mean ms"].map(str::to_owned).into(),
            rows: knees,
            caption: "The knee is the rate with the greatest ratio of throughput to mean response time."
                .to_owned(),
        }]
    };
    Page {
        title: format!("{}: estimate for {}", figures.workload, names.join(", ")),
        subtitle: String::new(),
        generated_by: VERSION.to_owned(),
        command: figures.command.clone(),
        notes: notes.collect(),
        sections: vec![
            PageSection { title: "Estimate".to_owned(), tables: tables(figures), ..PageSection::default() },
            PageSection {
                title: "Response curve".to_owned(),
                tables: curve_tables,
                plots: curves
                    .iter()
                    .map(|curve| curve.plot())
                    .chain(population_curves.iter().flat_map(PopulationCurve::plots))
                    .collect(),
                ..PageSection::default()
            },
        ],
    }
}

/// The tested assumptions that the method needs and that hold, in a sentence; `None` if there are none.
pub(super) fn assumptions_that_hold(assumptions: &[AssumptionFigures]) -> Option<String> {
    let held = assumptions.iter().filter(|assumption| assumption.needed && assumption.holds);
    let names: Vec<String> = held.map(|assumption| format!("`{}`", assumption.name)).collect();
    (!names.is_empty()).then(|| format!("tested assumptions that hold: {}", names.join(", ")))
}

/// A number with as many digits as it needs; a dash without one.
pub(super) fn number(value: impl Into<Option<f64>>) -> String {
    match value.into() {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 1.0 => format!("{value:.3}"),
        Some(value) => format!("{value:.4}"),
    }
}

fn pct(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} %"))
}

/// Errors of the mean and of the 99th percentile.
fn errors(errors: &ErrorFigures) -> String {
    match (errors.response_mean_pct, errors.response_p99_pct) {
        (Some(mean), Some(p99)) => format!("{mean:.1}, {p99:.1} %"),
        (Some(mean), None) => format!("{mean:.1} %"),
        (None, _) => "unknown".to_owned(),
    }
}

fn table(names: &[&str], rows: Vec<Vec<String>>, caption: &str) -> PlainTable {
    let columns = names.iter().map(|name| (*name).to_owned()).collect();
    PlainTable { columns, rows, caption: caption.to_owned() }
}

/// The tables of an estimate, for the page and the terminal.
fn tables(figures: &EstimateFigures) -> Vec<PlainTable> {
    let devices = &figures.devices;
    let loads = devices.iter().map(|device| {
        let MethodFigures { service_mean_ms, service_sd_ms, utilisation_pct, .. } = device.estimate;
        vec![
            device.device.clone(),
            device.law.origin.to_owned(),
            number(service_mean_ms),
            number(service_sd_ms),
            pct(utilisation_pct),
            number(device.estimate.saturation_per_s),
            errors(&device.error_pct),
        ]
    });
    let mut responses = Vec::new();
    for device in devices {
        for estimate in [&device.estimate].into_iter().chain(&device.beside) {
            responses.push(vec![
                device.device.clone(),
                estimate.method.unwrap_or("overloaded").to_owned(),
                number(estimate.response_mean_ms),
                number(estimate.response_p50_ms),
                number(estimate.response_p99_ms),
                number(estimate.response_p999_ms),
                number(estimate.outstanding_mean),
            ]);
        }
    }
    let mut tables = vec![
        table(
            &["device", "law", "service ms", "sd ms", "busy", "limit 1/s", "error"],
            loads.collect(),
            "Limit: highest sustained rate. Error: largest errors of mean and p99 of such estimates against simulations.",
        ),
        table(
            &["device", "method", "mean ms", "p50 ms", "p99 ms", "p99.9 ms", "outstanding"],
            responses,
            "Response times by the method that fits the load, then by simpler ones.",
        ),
    ];
    let mut operations = Vec::new();
    for device in devices {
        let MethodFigures {
            read_response_mean_ms,
            read_response_p99_ms,
            write_response_mean_ms,
            write_response_p99_ms,
            ..
        } = device.estimate;
        let times = [
            ("reads", read_response_mean_ms, read_response_p99_ms),
            ("writes", write_response_mean_ms, write_response_p99_ms),
        ];
        for (name, mean_ms, p99_ms) in times.into_iter().filter(|(_, mean_ms, _)| mean_ms.is_some()) {
            operations.push(vec![device.device.clone(), name.to_owned(), number(mean_ms), number(p99_ms)]);
        }
    }
    if !operations.is_empty() {
        tables.push(table(
            &["device", "operation", "mean ms", "p99 ms"],
            operations,
            "Response times of reads and of writes. A write into a buffer is complete when the buffer has it.",
        ));
    }
    tables.extend(networks(devices));
    let mut classes = Vec::new();
    for device in devices {
        let MethodFigures { time_critical_response_mean_ms, time_noncritical_response_mean_ms, .. } =
            device.estimate;
        let times = [
            ("time-critical", time_critical_response_mean_ms),
            ("time-noncritical", time_noncritical_response_mean_ms),
        ];
        for (name, mean_ms) in times.into_iter().filter(|(_, mean_ms)| mean_ms.is_some()) {
            classes.push(vec![device.device.clone(), name.to_owned(), number(mean_ms)]);
        }
    }
    if !classes.is_empty() {
        tables.push(table(
            &["device", "class", "mean ms"],
            classes,
            "Response times by class: the queue serves time-noncritical requests only while no other waits.",
        ));
    }
    let bounds = devices.iter().filter_map(|device| {
        let until = device.until.as_ref()?;
        let ends = match (until.growth_min, until.growth_max) {
            (Some(min), Some(max)) => format!("{min:.3} to {max:.3}"),
            (Some(min), None) => format!("{min:.3} or more"),
            (None, _) => "unknown".to_owned(),
        };
        let growth = until.growth.map_or_else(|| "none".to_owned(), |growth| format!("{growth:.3}"));
        let rates = |end: Option<f64>| Some(until.arrivals_per_s? * end? / until.growth?);
        let interval = match (rates(until.growth_min), rates(until.growth_max)) {
            (Some(min), Some(max)) => format!(" ({min:.1} to {max:.1})"),
            _ => String::new(),
        };
        let rate = format!("{}{interval}", number(until.arrivals_per_s));
        // A population has members in place of a rate.
        let load = until.members.map_or(rate, |members| members.to_string());
        Some(vec![device.device.clone(), until.bound.clone(), growth, ends, load])
    });
    let bounds: Vec<Vec<String>> = bounds.collect();
    let is_closed = devices.iter().any(|device| device.arrivals_per_s.is_none());
    let load = if is_closed { "population" } else { "arrivals 1/s" };
    if !bounds.is_empty() {
        tables.push(table(
            &["device", "until", "growth", "90 % interval", load],
            bounds,
            "Growth: factor by which the load may grow. Of the rate, the interval is in brackets.",
        ));
    }
    tables
}

/// Tables of the devices of closed loads over several, and of the bounds of their throughput.
fn networks(devices: &[DeviceEstimate]) -> Vec<PlainTable> {
    let (mut each, mut bounds) = (Vec::new(), Vec::new());
    for device in devices {
        let Some(NetworkFigures { devices: numbered, bounds: of }) = &device.network else { continue };
        for own in numbered {
            each.push(vec![
                device.device.clone(),
                own.device.to_string(),
                pct(Some(own.requests_pct)),
                number(own.service_mean_ms),
                number(own.demand_mean_ms),
                number(own.response_mean_ms),
                number(own.outstanding_mean),
                pct(Some(own.utilisation_pct)),
            ]);
        }
        bounds.extend(of.map(|of| {
            vec![
                device.device.clone(),
                of.outstanding.to_string(),
                number(of.throughput_min_per_s),
                number(of.balanced_throughput_min_per_s),
                number(device.estimate.throughput_per_s),
                number(of.balanced_throughput_max_per_s),
                number(of.throughput_max_per_s),
            ]
        }));
    }
    if each.is_empty() {
        return Vec::new();
    }
    let mut tables = vec![table(
        &["device", "number", "requests", "service ms", "demand ms", "mean ms", "outstanding", "busy"],
        each,
        "Each device of the trace. Demand: the share of the service time that each request of the load has.",
    )];
    if !bounds.is_empty() {
        tables.push(table(
            &["device", "population", "least 1/s", "least balanced", "estimate", "most balanced", "most 1/s"],
            bounds,
            "Throughput between its asymptotic and its balanced bounds.",
        ));
    }
    tables
}
