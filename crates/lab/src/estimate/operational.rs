//! Operational laws of a trace alone: utilisation, demands, bottleneck and bounds of its devices, without a model.
//!
//! ```text
//! TRACE with completions ─▶ OperationalPass of each device ─▶ demands ─▶ bounds ─▶ TraceEstimateFigures, page
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use seeklab_core::number_words::numbered;
use seeklab_estimate::queueing::{
    OperationalLaws, OperationalPass, Population, Stay, ThroughputBounds, asymptotic_bounds, balanced_bounds,
};
use seeklab_files::check_distinct;
use seeklab_report::{Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};
use seeklab_traces::schema::Column;
use serde::Serialize;

use super::figures::{AssumptionFigures, ms, rounded};
use super::law;
use super::page::{assumptions_that_hold, number};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::run::Records;
use crate::session::Session;
use crate::workload::{WorkloadOptions, resolve_workload};

/// Columns from which the laws follow.
const COLUMNS: [Column; 3] = [Column::ArrivalNs, Column::CompletionNs, Column::Device];

/// Numbers outstanding for which bounds are given.
const POPULATIONS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Requests between two looks at the stop token.
const STEP: u64 = 1 << 16;

/// Options of the operational laws of a trace.
#[derive(Debug, Clone)]
pub struct TraceEstimateOptions {
    /// A trace with completion times, or a line or TOML file that names one.
    pub workload: String,
    /// Options for reading it.
    pub workload_options: WorkloadOptions,
    /// Path that the caller writes the page to.
    pub report: Option<PathBuf>,
}

/// Result of the operational laws of a trace.
#[derive(Debug)]
pub struct TraceEstimateResult {
    /// Figures, as one JSON document.
    pub figures: TraceEstimateFigures,
    /// The same, with a plot of the bounds.
    pub page: Page,
}

/// Operational laws of a trace: figures that follow from arrivals and completions alone.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceEstimateFigures {
    /// Name of the trace.
    pub workload: String,
    /// Program and version.
    pub version: &'static str,
    /// Command that makes the figures again.
    pub command: Option<String>,
    /// Method of the figures: always `operational`.
    pub method: &'static str,
    /// Requests with a completion.
    pub requests: u64,
    /// Requests without a completion, which are left out.
    pub requests_without_completion: u64,
    /// Time from the first arrival to the last completion.
    pub elapsed_s: f64,
    /// Requests per second, over all devices.
    pub throughput_per_s: f64,
    /// Mean response time.
    pub response_mean_ms: f64,
    /// Mean number outstanding, by Little's law.
    pub outstanding_mean: f64,
    /// Number of the device with the greatest utilisation.
    pub bottleneck: u16,
    /// Factor by which the rate may grow at most: until the bottleneck is busy all the time.
    pub growth_max: f64,
    /// Requests per second with which the bottleneck is busy all the time.
    pub saturation_per_s: f64,
    /// Figures of each device.
    pub devices: Vec<TraceDeviceEstimate>,
    /// Bounds with a constant number of requests outstanding, divided over the devices as in the trace.
    pub bounds: Vec<BoundsFigures>,
    /// Error of the limit, the growth and the bounds: null, for none is known.
    pub error_pct: Option<f64>,
    /// Reason for which no error is known.
    pub error_unknown_because: &'static str,
    /// Tested assumptions of the limit, the growth and the bounds. All other figures are identities of the trace.
    pub assumptions: Vec<AssumptionFigures>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Operational laws of one device of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceDeviceEstimate {
    /// Number of the device.
    pub device: u16,
    /// Name of the device in the trace.
    pub name: String,
    /// Requests with a completion.
    pub requests: u64,
    /// Requests per second of the trace.
    pub throughput_per_s: f64,
    /// Share of the time of the trace in which a request is outstanding.
    pub utilisation_pct: f64,
    /// Mean response time.
    pub response_mean_ms: f64,
    /// Mean number outstanding, by Little's law.
    pub outstanding_mean: f64,
    /// Requests that were alone from arrival to completion, so that they did not wait.
    pub requests_alone: u64,
    /// Mean response time of the requests that were alone: a service time; null if none was.
    pub service_mean_ms: Option<f64>,
    /// Time in which a request is outstanding, for each request of the device.
    pub busy_time_mean_ms: f64,
    /// Service demand: the busy time for each request of the trace.
    pub demand_mean_ms: f64,
    /// Requests per second while a request is outstanding: the device sustains at least these.
    pub busy_throughput_per_s: f64,
}

/// Bounds with a constant number of requests outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BoundsFigures {
    /// Requests outstanding.
    pub outstanding: u32,
    /// Least throughput by asymptotic bounds.
    pub throughput_min_per_s: f64,
    /// Greatest throughput by asymptotic bounds.
    pub throughput_max_per_s: f64,
    /// Least throughput by balanced bounds.
    pub balanced_throughput_min_per_s: f64,
    /// Greatest throughput by balanced bounds.
    pub balanced_throughput_max_per_s: f64,
    /// Least mean response time by balanced bounds.
    pub balanced_response_min_ms: f64,
    /// Greatest mean response time by balanced bounds.
    pub balanced_response_max_ms: f64,
}

/// Passes over the devices of a trace.
#[derive(Default)]
struct Passes {
    devices: BTreeMap<u16, OperationalPass>,
    without_completion: u64,
}

/// Estimates a trace alone, by operational laws.
///
/// # Errors
/// A workload that is no trace, a trace that cannot be read or has no completions, or a completion before its arrival.
pub fn estimate_trace(
    session: &Session,
    options: &TraceEstimateOptions,
) -> Result<TraceEstimateResult, Failure> {
    let workload = resolve_workload(&options.workload, &options.workload_options)?;
    let named = || format!("--workload `{}`", workload.name);
    let Some(trace) = workload.trace() else {
        return Err(Failure::new(format!("{}: is no trace, and no device is named", named()))
            .hint("name a device, for example `seeklab estimate cheetah-36es -w W`, or a trace with completion times"));
    };
    if let Some(path) = &options.report {
        check_distinct(path, [PathBuf::from(&options.workload), PathBuf::from(trace)])?;
    }
    let mut trace = workload.open_trace(&COLUMNS)?;
    let (labels, requests_max) = (trace.metadata().labels.clone(), workload.requests().unwrap_or(u64::MAX));
    let mut passes = Passes::default();
    let mut rows = 0;
    for record in Records::new(&mut trace) {
        let record = record?;
        if rows % STEP == 0 {
            session.check()?;
        }
        if rows == requests_max {
            break;
        }
        rows += 1;
        let Some(completion) = record.completion else {
            passes.without_completion += 1;
            continue;
        };
        let stay = Stay { arrival_ns: record.arrival.as_ns(), completion_ns: completion.as_ns() };
        let pushed = passes.devices.entry(record.device).or_default().push(stay);
        pushed.map_err(|error| law::failure(error).context(format!("{}: request {rows}", named())))?;
    }
    if passes.devices.is_empty() {
        let problem = match rows {
            0 => "has no requests".to_owned(),
            1 => "its request has no completion time".to_owned(),
            _ => format!("none of its {rows} requests has a completion time"),
        };
        let failure = Failure::new(format!("{}: {problem}", named()));
        return Err(match rows {
            0 => failure,
            _ => failure.hint("without completions, name a device to estimate the trace on"),
        });
    }
    let mut figures = passes.figures(&labels).map_err(|failure| failure.context(named()))?;
    figures.workload.clone_from(&workload.name);
    figures.command = session.command();
    let page = page(&figures);
    Ok(TraceEstimateResult { figures, page })
}

impl Passes {
    fn figures(self, labels: &[String]) -> Result<TraceEstimateFigures, Failure> {
        let spans = || self.devices.values().map(OperationalPass::span_ns);
        let first_ns = spans().map(|span| span.0).min().unwrap_or_default();
        let last_ns = spans().map(|span| span.1).max().unwrap_or_default();
        let elapsed_s = (last_ns - first_ns) as f64 / 1e9;
        let requests: u64 = self.devices.values().map(OperationalPass::requests).sum();
        let mut devices = Vec::new();
        let mut response_sum_s = 0.0;
        for (number, pass) in self.devices {
            let laws = pass.finish().map_err(law::failure)?;
            response_sum_s += laws.response_mean_s * laws.requests as f64;
            let name = labels.get(usize::from(number)).filter(|name| !name.is_empty());
            let name = name.cloned().unwrap_or_else(|| number.to_string());
            devices.push(TraceDeviceEstimate::of(number, name, &laws, elapsed_s, requests));
        }
        let throughput_per_s = requests as f64 / elapsed_s;
        let by_use = |one: &&TraceDeviceEstimate, other: &&TraceDeviceEstimate| {
            one.utilisation_pct.total_cmp(&other.utilisation_pct)
        };
        let bottleneck = devices.iter().max_by(by_use).expect("the trace has a device");
        let demands_s: Vec<f64> = devices.iter().map(|device| device.demand_mean_ms / 1e3).collect();
        let growth_max = 100.0 / bottleneck.utilisation_pct;
        let bounds = POPULATIONS.iter().map(|members| {
            let population = Population { members: *members, think_mean_s: 0.0 };
            let asymptotic = asymptotic_bounds(population, &demands_s).map_err(law::failure)?;
            let balanced = balanced_bounds(population, &demands_s).map_err(law::failure)?;
            Ok(BoundsFigures::of(*members, asymptotic, balanced))
        });
        Ok(TraceEstimateFigures {
            workload: String::new(),
            version: VERSION,
            command: None,
            method: "operational",
            requests,
            requests_without_completion: self.without_completion,
            elapsed_s,
            throughput_per_s: rounded(throughput_per_s),
            response_mean_ms: ms(response_sum_s / requests as f64),
            outstanding_mean: rounded(response_sum_s / elapsed_s),
            bottleneck: bottleneck.device,
            growth_max: rounded(growth_max),
            saturation_per_s: rounded(throughput_per_s * growth_max),
            bounds: bounds.collect::<Result<_, Failure>>()?,
            notes: notes(&devices, self.without_completion),
            error_pct: None,
            error_unknown_because: ERROR_UNKNOWN_BECAUSE,
            assumptions: assumptions(bottleneck, requests, self.without_completion),
            devices,
        })
    }
}

/// Reason for which the limit, the growth and the bounds have no error. All other figures are identities of the trace.
const ERROR_UNKNOWN_BECAUSE: &str = "on disks that serve in order of arrival the limit was within 0.2 % of the simulated one, on a disk that reorders its queue up \
     to 62 % below, and a trace does not show what kind of device it is of";

/// Share of the requests that a trace may lack the completions of: those under way at its end.
const INCOMPLETE_MAX: f64 = 0.01;

/// Change of the service times with the load that the limit may ignore.
const SERVICE_CHANGE_MAX: f64 = 0.1;

/// Assumptions of the limit, the growth and the bounds.
fn assumptions(
    bottleneck: &TraceDeviceEstimate,
    requests: u64,
    without_completion: u64,
) -> Vec<AssumptionFigures> {
    let test = |name, meaning, figure: f64, figure_min: f64, figure_max: f64| AssumptionFigures {
        name,
        needed: true,
        holds: (figure_min..=figure_max).contains(&figure),
        figure: rounded(figure),
        meaning,
        figure_min,
        figure_max,
    };
    let completed = requests as f64 / (requests + without_completion) as f64;
    let of_service = bottleneck.service_mean_ms.filter(|alone_ms| *alone_ms > 0.0).map(|alone_ms| {
        test(
            "services_independent_of_load",
            "busy time for each request of the bottleneck over the response time of a request alone",
            bottleneck.busy_time_mean_ms / alone_ms,
            1.0 - SERVICE_CHANGE_MAX,
            1.0 + SERVICE_CHANGE_MAX,
        )
    });
    let of_completions = test(
        "requests_complete",
        "share of the requests that have a completion",
        completed,
        1.0 - INCOMPLETE_MAX,
        1.0,
    );
    [of_completions].into_iter().chain(of_service).collect()
}

/// Notes on figures that need care.
fn notes(devices: &[TraceDeviceEstimate], without_completion: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if without_completion > 0 {
        notes.push(numbered(without_completion, "request[|s] without a completion [was|were] left out"));
    }
    for device in devices {
        let Some(alone_ms) = device.service_mean_ms else {
            notes.push(format!("{}: no request was alone, so no service time is known", device.name));
            continue;
        };
        if device.busy_time_mean_ms < 0.9 * alone_ms {
            notes.push(format!(
                "{}: the busy time for each request is shorter than the service time of a request alone ({:.3} and {:.3} \
                 ms): the device serves several together, reorders them, or was given shorter ones in its busy \
                 periods. It may sustain more than the bounds say",
                device.name, device.busy_time_mean_ms, alone_ms
            ));
        }
    }
    notes
}

impl TraceDeviceEstimate {
    /// Figures of a device, over the time and the requests of the whole trace.
    fn of(device: u16, name: String, laws: &OperationalLaws, elapsed_s: f64, requests: u64) -> Self {
        let own = laws.requests as f64;
        let busy_s = laws.busy_time_mean_s * own;
        Self {
            device,
            name,
            requests: laws.requests,
            throughput_per_s: rounded(own / elapsed_s),
            utilisation_pct: rounded(100.0 * busy_s / elapsed_s),
            response_mean_ms: ms(laws.response_mean_s),
            outstanding_mean: rounded(laws.response_mean_s * own / elapsed_s),
            requests_alone: laws.alone_requests,
            service_mean_ms: laws.alone_mean_s.map(ms),
            busy_time_mean_ms: ms(laws.busy_time_mean_s),
            demand_mean_ms: ms(busy_s / requests as f64),
            busy_throughput_per_s: rounded(laws.busy_throughput_per_s),
        }
    }
}

impl BoundsFigures {
    pub(super) fn of(outstanding: u32, asymptotic: ThroughputBounds, balanced: ThroughputBounds) -> Self {
        Self {
            outstanding,
            throughput_min_per_s: rounded(asymptotic.throughput_min_per_s),
            throughput_max_per_s: rounded(asymptotic.throughput_max_per_s),
            balanced_throughput_min_per_s: rounded(balanced.throughput_min_per_s),
            balanced_throughput_max_per_s: rounded(balanced.throughput_max_per_s),
            balanced_response_min_ms: ms(balanced.response_min_s),
            balanced_response_max_ms: ms(balanced.response_max_s),
        }
    }
}

/// The page: tables for the terminal, and a plot of the bounds.
fn page(figures: &TraceEstimateFigures) -> Page {
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let devices = figures.devices.iter().map(|device| {
        vec![
            device.name.clone(),
            number(device.throughput_per_s),
            format!("{:.1} %", device.utilisation_pct),
            number(device.response_mean_ms),
            number(device.outstanding_mean),
            number(device.service_mean_ms),
            number(device.busy_time_mean_ms),
            number(device.demand_mean_ms),
        ]
    });
    let bottleneck = figures.devices.iter().find(|device| device.device == figures.bottleneck);
    let whole = vec![vec![
        number(figures.throughput_per_s),
        number(figures.response_mean_ms),
        number(figures.outstanding_mean),
        bottleneck.map_or_else(String::new, |device| device.name.clone()),
        number(figures.saturation_per_s),
        number(figures.growth_max),
    ]];
    let bounds = figures.bounds.iter().map(|bound| {
        vec![
            bound.outstanding.to_string(),
            number(bound.throughput_min_per_s),
            number(bound.balanced_throughput_min_per_s),
            number(bound.balanced_throughput_max_per_s),
            number(bound.throughput_max_per_s),
        ]
    });
    let mut tables = vec![
        PlainTable {
            columns: columns(&["device", "1/s", "busy", "mean ms", "outstanding", "alone ms", "busy ms", "demand ms"]),
            rows: devices.collect(),
            caption: "Busy: share of the time with a request outstanding. Alone: mean response time of requests that met no \
                      other, a service time. Busy ms: busy time for each request of the device. Demand: for each \
                      request of the trace."
                .to_owned(),
        },
        PlainTable {
            columns: columns(&["1/s", "mean ms", "outstanding", "bottleneck", "limit 1/s", "growth"]),
            rows: whole,
            caption: "The whole trace. Limit: rate with which the bottleneck is busy all the time. Growth: the limit over \
                      the rate of the trace."
                .to_owned(),
        },
    ];
    // The bounds of one device meet.
    if figures.devices.len() > 1 {
        tables.push(PlainTable {
            columns: columns(&["outstanding", "least 1/s", "least balanced", "most balanced", "most 1/s"]),
            rows: bounds.collect(),
            caption: "Asymptotic and balanced bounds of the throughput with a constant number outstanding."
                .to_owned(),
        });
    }
    let assumptions = &figures.assumptions;
    let broken =
        assumptions.iter().filter(|assumption| assumption.is_broken()).map(AssumptionFigures::sentence);
    let error =
        format!("the error of limit, growth and bounds is unknown: {}", figures.error_unknown_because);
    Page {
        title: format!("{}: operational laws of the trace alone", figures.workload),
        subtitle: String::new(),
        generated_by: VERSION.to_owned(),
        command: figures.command.clone(),
        notes: [
            vec![error],
            figures.notes.clone(),
            broken.collect(),
            Vec::from_iter(assumptions_that_hold(assumptions)),
        ]
        .concat(),
        sections: vec![PageSection {
            title: "Operational laws".to_owned(),
            tables,
            plots: vec![plot(figures)],
            ..PageSection::default()
        }],
    }
}

/// Bounds of the throughput over the number outstanding, and the trace itself.
fn plot(figures: &TraceEstimateFigures) -> Plot {
    let of = |pick: fn(&BoundsFigures) -> f64| {
        figures.bounds.iter().map(|bound| (f64::from(bound.outstanding), pick(bound))).collect::<Vec<_>>()
    };
    let series = |name: &str, mark, points: Vec<(f64, f64)>| PlotSeries::new(name, mark, points);
    Plot {
        title: "bounds of the throughput".to_owned(),
        caption: "Throughput with a constant number of requests outstanding lies between the bounds. The trace lies below \
                  where its devices were idle at times."
            .to_owned(),
        x: PlotAxis::new("outstanding", "requests", PlotScale::Log),
        y: PlotAxis::new("throughput", "1/s", PlotScale::Linear).from_zero(),
        series: vec![
            series("least", PlotMark::Guide, of(|bound| bound.throughput_min_per_s)),
            series("least, balanced", PlotMark::LineAndPoints, of(|bound| bound.balanced_throughput_min_per_s)),
            series("most, balanced", PlotMark::LineAndPoints, of(|bound| bound.balanced_throughput_max_per_s)),
            series("most", PlotMark::Guide, of(|bound| bound.throughput_max_per_s)),
            series("trace", PlotMark::Points, vec![(figures.outstanding_mean, figures.throughput_per_s)]),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_and_bottleneck_are_those_counted_by_hand() {
        // Over 10 s, device 0 is busy for 2 s with 4 requests, device 3 for 5 s with one.
        let mut passes = Passes::default();
        let mut push = |device, arrival_ms: u64, completion_ms: u64| {
            let stay = Stay { arrival_ns: arrival_ms * 1_000_000, completion_ns: completion_ms * 1_000_000 };
            passes.devices.entry(device).or_default().push(stay).unwrap();
        };
        [0, 1_000, 2_000, 3_000].iter().for_each(|begin| push(0, *begin, begin + 500));
        push(3, 5_000, 10_000);
        let figures = passes.figures(&["sda".to_owned()]).unwrap();
        let [first, second] = &figures.devices[..] else { panic!("{figures:?}") };
        assert_eq!((first.name.as_str(), second.name.as_str()), ("sda", "3"));
        assert_eq!((first.utilisation_pct, second.utilisation_pct), (20.0, 50.0));
        assert_eq!((first.demand_mean_ms, second.demand_mean_ms), (400.0, 1_000.0));
        assert_eq!((first.service_mean_ms, first.requests_alone), (Some(500.0), 4));
        assert_eq!((figures.bottleneck, figures.growth_max), (3, 2.0));
        assert_eq!((figures.throughput_per_s, figures.saturation_per_s), (0.5, 1.0));
        assert_eq!((figures.response_mean_ms, figures.outstanding_mean), (1_400.0, 0.7));
        // No request of device 0 met another, and all have completions.
        assert!(figures.assumptions.iter().all(|assumption| assumption.holds), "{:?}", figures.assumptions);
        // Two outstanding: at most 1 / 1 s; at least 2 / (1.4 s + 1.0 s) balanced.
        let two = figures.bounds[1];
        assert_eq!((two.outstanding, two.throughput_max_per_s), (2, 1.0));
        assert!((two.balanced_throughput_min_per_s - 2.0 / 2.4).abs() < 1e-6);
        assert!((two.balanced_throughput_max_per_s - 2.0 / 2.1).abs() < 1e-6);
    }
}
