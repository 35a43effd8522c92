//! The page of an estimate: tables of the figures, and response curves over the rate.

use seeklab_report::{Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};

use super::Estimating;
use super::figures::{DeviceEstimate, EstimateFigures, MethodFigures};
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
    /// Error of the mean, as a share.
    error: Option<f64>,
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
        let at = |pct: &f64| {
            let rate = limit * pct / 100.0;
            let estimate = estimating.at_own_services(rate / current).ok()?;
            let p99_ms = estimate.quantiles_s.map(|quantiles| quantiles[3] * 1e3);
            Some((rate, estimate.steady.response_mean_s * 1e3, p99_ms))
        };
        Self {
            device: row.device.clone(),
            points: STEPS_PCT.iter().filter_map(at).collect(),
            error: row.error_pct.response_mean_pct.map(|pct| pct / 100.0),
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
        if let Some(error) = self.error {
            for (name, factor) in [("mean less error", 1.0 - error), ("mean plus error", 1.0 + error)] {
                let band = mean.iter().map(|(rate, mean)| (*rate, mean * factor));
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
pub(super) fn page(figures: &EstimateFigures, curves: &[Curve]) -> Page {
    let names: Vec<&str> = figures.devices.iter().map(|device| device.device.as_str()).collect();
    let notes = figures
        .devices
        .iter()
        .flat_map(|device| device.notes.iter().map(|note| format!("{}: {note}", device.device)));
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
                plots: curves.iter().map(|curve| curve.plot()).collect(),
                ..PageSection::default()
            },
        ],
    }
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

/// The tables of an estimate, for the page and the terminal.
fn tables(figures: &EstimateFigures) -> Vec<PlainTable> {
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let table = |names: &[&str], rows: Vec<Vec<String>>, caption: &str| PlainTable {
        columns: columns(names),
        rows,
        caption: caption.to_owned(),
    };
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
            device
                .error_pct
                .response_mean_pct
                .map_or_else(|| "unknown".to_owned(), |pct| format!("{pct:.1} %")),
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
            "Limit: highest sustained rate. Error: largest error of the mean of such estimates against simulations.",
        ),
        table(
            &["device", "method", "mean ms", "p50", "p99", "p99.9", "outstanding"],
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
            &["device", "operation", "mean ms", "p99"],
            operations,
            "Response times of reads, and of writes that are complete when the buffer has them.",
        ));
    }
    let bounds = devices.iter().filter_map(|device| {
        let until = device.until.as_ref()?;
        let ends = match (until.growth_min, until.growth_max) {
            (Some(min), Some(max)) => format!("{min:.3} to {max:.3}"),
            (Some(min), None) => format!("{min:.3} or more"),
            (None, _) => "unknown".to_owned(),
        };
        let growth = format!("{:.3}", until.growth);
        Some(vec![device.device.clone(), until.bound.clone(), growth, ends, number(until.arrivals_per_s)])
    });
    let bounds: Vec<Vec<String>> = bounds.collect();
    if !bounds.is_empty() {
        tables.push(table(
            &["device", "until", "growth", "90 % interval", "arrivals 1/s"],
            bounds,
            "Growth: factor by which the load may grow.",
        ));
    }
    tables
}
