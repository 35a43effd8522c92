//! Tables and plots of a split trace and the models fitted to it.

use schemars::JsonSchema;
use seeklab_analysis::comparison::Demerit;
use seeklab_analysis::curve::cdf;
use seeklab_analysis::prediction::ALIKE_PCT;
use seeklab_analysis::verdict::Bounds;
use seeklab_analysis::{Change, ClassError, DensityAxis, ResponseProfile};
use seeklab_core::statistics::Distribution;
use seeklab_learning::fit::has_waits;
use seeklab_report::{PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};
use serde::Serialize;

use super::{
    Evaluation, FitReport, Likeness, Measured, OperationEvaluation, PredictedPart, SavedBecause,
    SeveralFitResult, Times, choice,
};

/// Shorter times are drawn here on a logarithmic axis: 1 ns.
const TIME_MIN_MS: f64 = 1e-6;

/// Measured times and those of each model.
struct Compared<'a> {
    rest: &'a Measured,
    evaluations: &'a [Evaluation],
}

/// States whether the trace is stationary; `None` if nothing was predicted.
pub fn stationarity(report: &FitReport) -> Option<String> {
    let rest = report.rest.as_ref()?;
    let change = format!(
        "the predicted part differs from the fitted part by {} (demerit up to p99)",
        amount(&rest.change.demerit_to_p99)
    );
    let Some(variation) = &rest.variation_between_parts else {
        return Some(format!(
            "It is unknown whether the trace is stationary: {change}, and the predicted part is too short to estimate \
             random variation."
        ));
    };
    let variation = &variation.demerit_to_p99;
    let explained = match variation.ea_rms_pct {
        Some(pct) => format!("{:.2} %", ALIKE_PCT.max(2.0 * pct)),
        None => format!("{:.4} ms", 2.0 * variation.ea_rms_ms),
    };
    Some(match rest.likeness() {
        Likeness::Alike => {
            format!("The trace is stationary: {change}. Random variation explains up to {explained}.")
        }
        Likeness::Unknown => format!(
            "It is unknown whether the trace is stationary: {change}, and parts of the predicted part alone differ by {}.",
            amount(variation)
        ),
        Likeness::Different => format!(
            "The trace is not stationary: {change}. Random variation explains only {explained}, so a model that answers \
             exactly as the fitted part did is wrong by the difference."
        ),
    })
}

/// Arrival times of the requests that were predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalModel {
    /// As recorded, as requested.
    Recorded,
    /// As recorded, because they are independent of the device.
    Independent,
    /// A request that arrived at an idle device waits until the simulated device is idle.
    FollowsIdle,
    /// Also, a request that arrived soon after a completion waits for that completion.
    FollowsCompletions,
}

impl ArrivalModel {
    /// Returns the arrival model of a report; `None` if nothing was predicted.
    pub fn of(report: &FitReport) -> Option<Self> {
        let rest = report.rest.as_ref()?;
        Some(match (rest.is_open, rest.follows_within_ms) {
            (true, _) if rest.arrivals_independent => Self::Independent,
            (true, _) => Self::Recorded,
            (false, None) => Self::FollowsIdle,
            (false, Some(_)) => Self::FollowsCompletions,
        })
    }
}

/// Describes the arrival times of the prediction; `None` if nothing was predicted.
pub fn arrivals(report: &FitReport) -> Option<String> {
    const IDLE: &str = "Prediction: a request that arrived at an idle device is sent when the simulated device is idle, and one \
                        of clients that the device holds up when one of theirs completes.";
    let rest = report.rest.as_ref()?;
    Some(match (ArrivalModel::of(report)?, rest.follows_within_ms) {
        (ArrivalModel::Recorded, _) => {
            "Prediction: requests keep their recorded arrival times (--open).".to_owned()
        }
        (ArrivalModel::Independent, _) => {
            "Prediction: requests keep their recorded arrival times, because they arrive independently of the device, \
             as Poisson arrivals do."
                .to_owned()
        }
        (ArrivalModel::FollowsCompletions, Some(ms)) => format!(
            "{IDLE} A request that arrived within {ms:.3} ms of a completion follows that completion, because more \
             requests do so than chance explains."
        ),
        _ => format!("{IDLE} Other requests keep their recorded interarrival times."),
    })
}

/// Explains a prediction of the whole trace; `None` if the rest was predicted, or nothing.
pub fn protocol(report: &FitReport) -> Option<String> {
    (report.rest.is_some() && report.predicted_part == PredictedPart::All).then(|| {
        "All requests were predicted, those of the fitted part among them. The demerit of all times is the absolute error of \
         Thornock et al. (1997, 3.2), in ms and in percent of the measured mean."
            .to_owned()
    })
}

/// Returns the evaluation of the model that predicted best; `None` if nothing was predicted.
pub fn best_model(report: &FitReport) -> Option<&Evaluation> {
    choice::best(&report.evaluations, has_waits(report.queue_length_max))
        .map(|best| &report.evaluations[best])
}

/// Predictions of several devices together: a row for all operations, one for each, then one for each device.
pub fn several(result: &SeveralFitResult) -> PlainTable {
    let columns =
        ["prediction", "model", "requests", "measured", "predicted", "mean %", "demerit %", "to p99 %"];
    let together = result.together.iter().map(|of| {
        let name = of.operation.map_or("all devices", |operation| operation.name());
        vec![
            name.to_owned(),
            String::new(),
            of.requests.to_string(),
            format!("{:.3}", of.measured_mean_ms),
            format!("{:.3}", of.predicted_mean_ms),
            format!("{:+.1}", of.mean_error_pct),
            pct(&of.prediction.demerit_all),
            pct(&of.prediction.demerit_to_p99),
        ]
    });
    let devices = result.devices.iter().filter_map(|device| {
        let saved = device.saved()?;
        let (measured, predicted) = (saved.measured.mean_ms, saved.predicted.mean_ms);
        Some(vec![
            format!("device {}", device.device),
            saved.model.to_owned(),
            saved.predicted_requests.to_string(),
            format!("{measured:.3}"),
            format!("{predicted:.3}"),
            format!("{:+.1}", 100.0 * (predicted / measured - 1.0)),
            pct(&saved.prediction.demerit_all),
            pct(&saved.prediction.demerit_to_p99),
        ])
    });
    PlainTable {
        columns: columns.map(str::to_owned).to_vec(),
        rows: together.chain(devices).collect(),
        caption: "Mean response times in ms, and the error of the predicted one. Demerit: the root-mean-square horizontal \
                  distance between the distributions of measured and predicted response times, of all times and up to p99, in \
                  percent of the measured mean."
            .to_owned(),
    }
}

/// States the choice among several models; `None` if there was none.
pub fn choice(report: &FitReport) -> Option<String> {
    let saved = report.saved()?;
    let errors: Vec<String> = report
        .evaluations
        .iter()
        .map(|one| match one.operation_means {
            Some(means) => format!("`{}` {:.2} %", one.model, means.demerit_to_p99_pct),
            None => format!("`{}` {:.4} ms", one.model, choice::compared_error(one)),
        })
        .collect();
    let errors = format!("Demerit up to p99, mean of the operations: {}.", errors.join(", "));
    let name = saved.model;
    let is_undercut =
        report.evaluations.iter().any(|one| choice::compared_error(one) < choice::compared_error(saved));
    Some(match report.saved_because {
        SavedBecause::OnlyModel => return None,
        SavedBecause::NothingToCompare => {
            format!(
                "`{name}`, the first model, is saved: too few requests were predicted to compare the models."
            )
        }
        SavedBecause::HasLimits => format!(
            "`{name}` is saved because it has rate and burst limits. {errors} Save another model with --model."
        ),
        SavedBecause::PredictedBest if name == "trivial" => format!(
            "`{name}` is saved because it predicted best. {errors} No model found a dependence that held in the predicted \
             part: this clone repeats the times of the trace by operation and length, under any load."
        ),
        SavedBecause::PredictedBest if is_undercut => {
            format!("`{name}` is saved because no later model predicted better by more than chance. {errors}")
        }
        SavedBecause::BetterVerdicts => format!(
            "`{name}` is saved because it is usable for more operations, or with less care: another model comes closer to all \
             response times together, but not at each queue length. {errors}"
        ),
        SavedBecause::KnowsMore => format!(
            "`{name}` is saved because no later model predicted so much better that it makes up for the loads of which it knows less. {errors}"
        ),
        SavedBecause::PredictedBest => format!("`{name}` is saved because it predicted best. {errors}"),
    })
}

/// Names the class that the saved model predicts worst; `None` if nothing was predicted.
pub fn worst_class(report: &FitReport) -> Option<String> {
    let class = report.saved()?.worst_class?;
    Some(format!(
        "Worst class: {} at {} ({:.1} % of the requests). Their mean is {:.3} ms as measured and {:.3} ms as predicted \
         ({:+.1} %{}).",
        class.operation.name(),
        queue_length(&class),
        class.requests_pct,
        class.measured_mean_ms,
        class.predicted_mean_ms,
        class.mean_error_pct,
        if class.exceeds(0.0) { "" } else { ", which chance explains" }
    ))
}

fn queue_length(class: &ClassError) -> String {
    match (class.queue_length_min, class.queue_length_max) {
        (min, max) if min == max => format!("queue length {min}"),
        (min, max) => format!("queue lengths {min} to {max}"),
    }
}

/// The verdict on each operation: a row for each model; at the end the means of the operations.
pub fn verdicts(report: &FitReport) -> PlainTable {
    let columns = ["operation, model", "requests", "mean %", "p99 %", "demerit %", "class %", "verdict"];
    let rows = by_operation(report).into_iter().map(|(model, of)| {
        vec![
            format!("{}, {model}", of.operation.name()),
            of.requests.to_string(),
            format!("{:+.1}", of.mean_error_pct),
            format!("{:+.1}", of.p99_error_pct),
            pct(&of.prediction.demerit_to_p99),
            of.worst_class.map_or_else(|| "-".to_owned(), |class| format!("{:+.1}", class.mean_error_pct)),
            of.verdict.text().to_owned(),
        ]
    });
    let means = report.evaluations.iter().filter_map(|one| {
        let means = one.operation_means?;
        let none = String::new;
        let (mean, demerit) = (means.mean_error_pct, means.demerit_to_p99_pct);
        let name = format!("average, {}", one.model);
        Some(vec![name, none(), format!("{mean:.1}"), none(), format!("{demerit:.2}"), none(), none()])
    });
    let bounds = |bounds: Bounds| {
        [bounds.mean_error_pct, bounds.demerit_to_p99_pct, bounds.class_error_pct]
            .map(|pct| format!("{pct:.0}"))
            .join(", ")
    };
    PlainTable {
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.chain(means).collect(),
        caption: format!(
            "Errors of the mean, of p99 and of the mean of the worst class; demerit up to p99. A class is an operation at a \
             queue length, with 1 % of the requests or more. Usable: mean, demerit and class within {} %. With care: within \
             {} %. Average: of the operations with 1 % of the requests or of the response time; models are compared by its \
             demerit.",
            bounds(Bounds::USABLE),
            bounds(Bounds::WITH_CARE)
        ),
    }
}

/// Demerits up to p99 of each operation that no model has caused.
pub fn floors(report: &FitReport) -> PlainTable {
    let columns = ["demerit up to p99", "random variation %", "between parts %", "fitted part %"];
    let changes = report.rest.iter().flat_map(|rest| &rest.operations);
    let rows = changes.filter_map(|change| {
        let operations = report.evaluations.first()?.operations.iter();
        let of = operations.into_iter().find(|of| of.operation == change.operation)?;
        let cell = |demerit: Option<Demerit>| demerit.map_or_else(|| "-".to_owned(), |demerit| pct(&demerit));
        Some(vec![
            change.operation.name().to_owned(),
            pct(&of.prediction.resampled_demerit_to_p99),
            cell(change.variation_between_parts.map(|variation| variation.demerit_to_p99)),
            cell(change.change.map(|change| change.demerit_to_p99)),
        ])
    });
    PlainTable {
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        caption: "Random variation, between parts: as below, of one operation. Fitted part: of the times measured in the \
                  fitted part."
            .to_owned(),
    }
}

/// The evaluations by operation, then by model.
fn by_operation(report: &FitReport) -> Vec<(&'static str, &OperationEvaluation)> {
    let models = report.evaluations.iter();
    let mut rows: Vec<_> =
        models.flat_map(|one| one.operations.iter().map(move |of| (one.model, of))).collect();
    rows.sort_by_key(|(_, of)| of.operation);
    rows
}

fn pct(demerit: &Demerit) -> String {
    demerit.ea_rms_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2}"))
}

/// A demerit in percent, in milliseconds where there is nothing that it could be relative to.
fn amount(demerit: &Demerit) -> String {
    demerit.ea_rms_pct.map_or_else(|| format!("{:.4} ms", demerit.ea_rms_ms), |pct| format!("{pct:.2} %"))
}

/// Densities of what was measured and predicted, laid over each other in `steps` steps; `None` if nothing was predicted.
pub fn density(report: &FitReport, steps: usize) -> Option<Plot> {
    let Compared { rest, evaluations } = compared(report)?;
    let measured = rest.profile.response();
    let predicted: Vec<Distribution> = evaluations.iter().map(|one| one.profile.response()).collect();
    let axis = DensityAxis::over([&measured].into_iter().chain(&predicted), steps)?;
    let width = match axis.is_log() {
        true => format!("{:.1} %", axis.step_width()),
        false => format!("{:.3} ms", axis.step_width()),
    };
    let series = |name: &str, mark, distribution| {
        let steps = axis.density(distribution);
        let end = steps.last().map(|step| (step.high_ms.max(TIME_MIN_MS), 0.0));
        let points = steps.iter().map(|step| (step.low_ms.max(TIME_MIN_MS), step.requests_pct));
        PlotSeries::new(name, mark, points.chain(end))
    };
    let models = evaluations.iter().zip(&predicted);
    let models = models.map(|(one, predicted)| series(one.model, PlotMark::Step, predicted));
    let scale = if axis.is_log() { PlotScale::Log } else { PlotScale::Linear };
    Some(Plot {
        title: "Density of response times".to_owned(),
        caption: format!("Share of the requests in each step of {width}; equal areas are equal shares."),
        x: PlotAxis::new("response time", "ms", scale),
        y: PlotAxis::new(format!("requests in each step of {width}"), "%", PlotScale::Linear).from_zero(),
        series: [series("measured", PlotMark::Area, &measured)].into_iter().chain(models).collect(),
    })
}

fn compared(report: &FitReport) -> Option<Compared<'_>> {
    let rest = report.rest.as_ref()?;
    (!report.evaluations.is_empty()).then_some(Compared { rest, evaluations: &report.evaluations })
}

/// Response times in figures: a row for what was measured, one for each model.
pub fn times(report: &FitReport) -> PlainTable {
    let columns = ["response time ms", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let measured = report.evaluations.first().map(|one| ("measured", &one.measured));
    let predicted = report.evaluations.iter().map(|one| (one.model, &one.predicted));
    let rows = measured.into_iter().chain(predicted).map(|(name, figures)| {
        let Times { mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, p9999_ms, max_ms } = figures;
        let figures = [mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, p9999_ms, max_ms];
        [name.to_owned()].into_iter().chain(figures.map(|ms| format!("{ms:.3}"))).collect()
    });
    PlainTable { columns: columns.map(str::to_owned).to_vec(), rows: rows.collect(), caption: String::new() }
}

/// Demerits: a row for each model, for random variation, and for the difference between the two parts.
pub fn demerits(report: &FitReport) -> PlainTable {
    let columns = ["demerit", "all ms", "%", "to p99 ms", "%", "out of fitted range %"];
    let row = |name: &str, all: &Demerit, up_to_p99: &Demerit, outside: String| {
        let ms = |demerit: &Demerit| format!("{:.4}", demerit.ea_rms_ms);
        vec![name.to_owned(), ms(all), pct(all), ms(up_to_p99), pct(up_to_p99), outside]
    };
    let change =
        |name: &str, change: &Change| row(name, &change.demerit_all, &change.demerit_to_p99, String::new());
    let models = report.evaluations.iter().map(|one| {
        let prediction = &one.prediction;
        let outside = format!("{:.2}", one.out_of_fitted_range_pct);
        row(one.model, &prediction.demerit_all, &prediction.demerit_to_p99, outside)
    });
    let resampled = report.evaluations.first().map(|one| {
        let prediction = &one.prediction;
        let (all, up_to_p99) = (&prediction.resampled_demerit_all, &prediction.resampled_demerit_to_p99);
        row("random variation", all, up_to_p99, String::new())
    });
    let rest = report.rest.as_ref();
    let variation = rest.and_then(|rest| rest.variation_between_parts.as_ref());
    let variation = variation.map(|variation| change("between parts", variation));
    let fitted = rest.map(|rest| change("fitted part", &rest.change));
    PlainTable {
        columns: columns.map(str::to_owned).to_vec(),
        rows: models.chain(resampled).chain(variation).chain(fitted).collect(),
        caption: "Demerit: the root-mean-square horizontal distance between the distributions of measured and predicted \
                  response times. Random variation: the median demerit of twenty resamples of the measured times, \
                  request by request; between parts: the same of whole parts of the trace, which keep slow requests \
                  together. Fitted part: the demerit of the times that were measured in the fitted part."
            .to_owned(),
    }
}

/// Runs of slow requests: a row for what was measured, one for each model.
pub fn slow(report: &FitReport) -> PlainTable {
    let columns = ["slow requests", "share %", "runs", "requests a run", "if independent", "longest run"];
    let measured = report.rest.as_ref().map(|rest| ("measured", &rest.figures));
    let predicted = report.evaluations.iter().map(|one| (one.model, &one.figures));
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let rows = measured.into_iter().chain(predicted).map(|(name, figures)| {
        let slow = &figures.slow;
        vec![
            name.to_owned(),
            format!("{:.2}", slow.requests_pct),
            slow.runs.to_string(),
            figure(slow.run_mean_requests),
            figure(slow.independent_mean_requests),
            slow.run_max_requests.to_string(),
        ]
    });
    let beyond_ms = report.rest.as_ref().map_or(0.0, |rest| rest.figures.slow.beyond_ms);
    PlainTable {
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        caption: format!(
            "Slow: beyond {beyond_ms:.3} ms, the 95th percentile that was measured in the fitted part."
        ),
    }
}

fn operations(report: &FitReport) -> PlainTable {
    let columns = [
        "operation, model",
        "requests",
        "measured mean ms",
        "predicted mean ms",
        "demerit %",
        "random variation %",
        "to p99 %",
        "random variation to p99 %",
    ];
    let rows = by_operation(report).into_iter().map(|(model, of)| {
        let prediction = &of.prediction;
        vec![
            format!("{}, {model}", of.operation.name()),
            of.requests.to_string(),
            format!("{:.3}", of.measured_mean_ms),
            format!("{:.3}", of.predicted_mean_ms),
            pct(&prediction.demerit_all),
            pct(&prediction.resampled_demerit_all),
            pct(&prediction.demerit_to_p99),
            pct(&prediction.resampled_demerit_to_p99),
        ]
    });
    PlainTable { columns: columns.map(str::to_owned).to_vec(), rows: rows.collect(), caption: String::new() }
}

/// The sections of the report; none if nothing was predicted.
pub fn sections(report: &FitReport) -> Vec<PageSection> {
    let Some(compared) = compared(report) else { return Vec::new() };
    let steps = compared.rest.figures.density.len();
    let section = |title: &str, tables, plots| PageSection {
        title: title.to_owned(),
        tables,
        plots,
        ..PageSection::default()
    };
    let mut distributions: Vec<Plot> = density(report, steps).into_iter().collect();
    distributions.extend(compared.cumulative());
    let mut dependence = compared.dependence();
    dependence.push(compared.by_queue_length());
    let tails = PlainTable { caption: "Response times of the predicted part.".to_owned(), ..times(report) };
    vec![
        section(
            "Errors",
            vec![verdicts(report), floors(report), demerits(report), operations(report)],
            Vec::new(),
        ),
        section("Response times", vec![tails], distributions),
        section("Dependence and queueing", vec![slow(report)], dependence),
    ]
}

impl Compared<'_> {
    /// A series of what was measured and one of each model.
    fn series(
        &self,
        mark: PlotMark,
        points: impl Fn(&ResponseProfile) -> Vec<(f64, f64)>,
    ) -> Vec<PlotSeries> {
        let measured = ("measured", &self.rest.profile);
        let predicted = self.evaluations.iter().map(|one| (one.model, &one.profile));
        let all = [measured].into_iter().chain(predicted);
        all.map(|(name, profile)| PlotSeries::new(name, mark, points(profile))).collect()
    }

    fn cumulative(&self) -> [Plot; 2] {
        let points = |profile: &ResponseProfile| cdf(&profile.response());
        [
            Plot {
                title: "Response time, cumulative".to_owned(),
                caption: "Share of the requests that took no longer.".to_owned(),
                x: PlotAxis::new("response time", "ms", PlotScale::Log),
                y: PlotAxis::new("share", "%", PlotScale::Linear).between(0.0, 100.0),
                series: self.series(PlotMark::Step, |profile| {
                    let points = points(profile).into_iter();
                    points.map(|point| (point.ms.max(TIME_MIN_MS), 100.0 * point.share)).collect()
                }),
            },
            Plot {
                title: "Response time, tail".to_owned(),
                caption: "Share of the requests that took longer, on logarithmic axes: a straight line is a heavy tail."
                    .to_owned(),
                x: PlotAxis::new("response time", "ms", PlotScale::Log),
                y: PlotAxis::new("share that took longer", "%", PlotScale::Log),
                series: self.series(PlotMark::Line, |profile| {
                    let points = points(profile).into_iter().filter(|point| point.share < 1.0);
                    points.map(|point| (point.ms.max(TIME_MIN_MS), 100.0 * (1.0 - point.share))).collect()
                }),
            },
        ]
    }

    fn dependence(&self) -> Vec<Plot> {
        let requests = self.rest.profile.response().moments().count();
        let chance = 2.0 / (requests.max(1) as f64).sqrt();
        let of = |title: &str, value: fn(&seeklab_analysis::profile::AtLag) -> f64| {
            let mut series = self.series(PlotMark::LineAndPoints, |profile| {
                let lags = profile.autocorrelation();
                lags.iter().map(|at| (f64::from(at.lag), value(at))).collect()
            });
            let last =
                series.iter().flat_map(|one| one.points.last()).map(|point| point.0).fold(0.0, f64::max);
            if last > 1.0 {
                for level in [chance, -chance] {
                    series.push(PlotSeries::new("chance", PlotMark::Guide, [(1.0, level), (last, level)]));
                }
            }
            Plot {
                title: title.to_owned(),
                caption:
                    "Between requests so many apart, in order of arrival; of independent ones, 95 % of the \
                          points lie between the thin lines."
                        .to_owned(),
                x: PlotAxis::new("lag, requests", "", PlotScale::Log),
                y: PlotAxis::new("autocorrelation", "", PlotScale::Linear),
                series,
            }
        };
        let runs = Plot {
            title: "Runs of slow requests".to_owned(),
            caption: "Consecutive slow requests: share of the runs with at least this many requests."
                .to_owned(),
            x: PlotAxis::new("requests in a run, at least", "", PlotScale::Log),
            y: PlotAxis::new("share of the runs", "%", PlotScale::Log),
            series: self.series(PlotMark::LineAndPoints, |profile| {
                let slow = profile.slow();
                let all = slow.runs().max(1) as f64;
                let runs = slow.at_least().into_iter();
                runs.map(|(requests, runs)| (f64::from(requests), 100.0 * runs as f64 / all)).collect()
            }),
        };
        vec![
            of("Autocorrelation of response times", |at| at.times),
            of("Autocorrelation of their logarithms", |at| at.logarithms),
            runs,
        ]
    }

    fn by_queue_length(&self) -> Plot {
        Plot {
            title: "Mean response time by queue length at arrival".to_owned(),
            caption: "Requests that were outstanding when one arrived: as measured, and the model's own."
                .to_owned(),
            x: PlotAxis::new("queue length", "", PlotScale::Linear).from_zero(),
            y: PlotAxis::new("mean response time", "ms", PlotScale::ByValues),
            series: self.series(PlotMark::LineAndPoints, |profile| {
                profile.by_queue_length().iter().map(|at| (f64::from(at.least), at.mean_ms)).collect()
            }),
        }
    }
}
