//! What a split trace says about models, as tables and plots.

use seeklab_analysis::comparison::Demerit;
use seeklab_analysis::curve::cdf;
use seeklab_analysis::{DensityAxis, ResponseProfile};
use seeklab_core::statistics::Distribution;
use seeklab_report::{PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};

use super::{Evaluation, FitReport, Measured, Times};

/// Shorter times are drawn here on a logarithmic axis: 1 ns.
const TIME_MIN_MS: f64 = 1e-6;

/// What was measured, and what each model said.
struct Compared<'a> {
    rest: &'a Measured,
    evaluations: &'a [Evaluation],
}

/// Whether the part that was predicted is like the part that was fitted, in one sentence; `None` if nothing was predicted.
pub fn alike(report: &FitReport) -> Option<String> {
    let rest = report.rest.as_ref()?;
    let change = amount(&rest.change.to_p99);
    let Some(floor) = &rest.floor_of_stretches else {
        return Some(format!(
            "whether the two parts are alike cannot be told: what was measured changed by {change} to p99, but the second \
             part is too short to see how much it changes by itself"
        ));
    };
    let floor = amount(&floor.to_p99);
    if !rest.is_telling() {
        return Some(format!(
            "whether the two parts are alike cannot be told: what was measured changed by {change} to p99, but stretches \
             of the second part alone differ by {floor}"
        ));
    }
    Some(match rest.is_alike {
        true => format!(
            "the two parts are alike: what was measured changed by {change} to p99, within twice the floor of {floor} or \
             2 %"
        ),
        false => format!(
            "the two parts are not alike: what was measured changed by {change} to p99, beyond twice the floor of \
             {floor} and 2 %, so a model that answers just as the fitted part did is wrong by that much"
        ),
    })
}

/// What the predicted requests waited for, in one sentence; `None` if nothing was predicted.
pub fn arrivals(report: &FitReport) -> Option<String> {
    let rest = report.rest.as_ref()?;
    Some(match (rest.is_open, rest.follows_within_ms) {
        (true, _) => "requests were predicted to arrive when they did (--open)".to_owned(),
        (false, Some(ms)) => format!(
            "requests that had found the device idle waited until it was again, and those that had come within {ms:.3} ms \
             of a completion for that one: more often than by chance they do"
        ),
        (false, None) => {
            "requests that had found the device idle waited until it was again; others follow completions \
                          no more than by chance"
                .to_owned()
        }
    })
}

/// Which model predicted the rest much better than the one that is saved, in one sentence; `None` if none did.
pub fn better(report: &FitReport) -> Option<String> {
    // Less is chance.
    const MUCH: f64 = 1.1;
    let (saved, others) = report.evaluations.split_first()?;
    let to_p99 = |one: &Evaluation| one.prediction.to_p99.ea_rms_ms;
    let best = others.iter().min_by(|one, other| to_p99(one).total_cmp(&to_p99(other)))?;
    (to_p99(saved) > MUCH * to_p99(best)).then(|| {
        format!(
            "`{}` is saved, but `{}` predicted better to p99, {} instead of {}; --model {} saves that",
            saved.model,
            best.model,
            amount(&best.prediction.to_p99),
            amount(&saved.prediction.to_p99),
            best.model
        )
    })
}

/// A demerit in percent, in milliseconds where there is nothing that it could be relative to.
fn amount(demerit: &Demerit) -> String {
    demerit.ea_rms_pct.map_or_else(|| format!("{:.4} ms", demerit.ea_rms_ms), |pct| format!("{pct:.2} %"))
}

/// Densities of what was measured and predicted, laid over each other in `steps` steps; `None` if nothing was predicted.
pub fn density(report: &FitReport, steps: usize) -> Option<Plot> {
    let Compared { rest, evaluations } = compared(report)?;
    let measured = rest.profile.response();
    let said: Vec<Distribution> = evaluations.iter().map(|one| one.profile.response()).collect();
    let axis = DensityAxis::over([&measured].into_iter().chain(&said), steps)?;
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
    let models = evaluations.iter().zip(&said);
    let models = models.map(|(one, said)| series(one.model, PlotMark::Step, said));
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
    let said = report.evaluations.iter().map(|one| (one.model, &one.said));
    let rows = measured.into_iter().chain(said).map(|(name, figures)| {
        let Times { mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, p9999_ms, max_ms } = figures;
        let figures = [mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, p9999_ms, max_ms];
        [name.to_owned()].into_iter().chain(figures.map(|ms| format!("{ms:.3}"))).collect()
    });
    PlainTable { columns: columns.map(str::to_owned).to_vec(), rows: rows.collect(), caption: String::new() }
}

/// Demerits: a row for each model, then what chance alone makes, then how far the two parts are apart.
pub fn demerits(report: &FitReport) -> PlainTable {
    let columns = ["demerit", "all ms", "%", "to p99 ms", "%", "unlike what was seen %"];
    let row = |name: &str, all: &Demerit, to_p99: &Demerit, outside: String| {
        let pct = |pct: Option<f64>| pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2}"));
        let ms = |demerit: &Demerit| format!("{:.4}", demerit.ea_rms_ms);
        vec![name.to_owned(), ms(all), pct(all.ea_rms_pct), ms(to_p99), pct(to_p99.ea_rms_pct), outside]
    };
    let models = report.evaluations.iter().map(|one| {
        row(one.model, &one.prediction.all, &one.prediction.to_p99, format!("{:.2}", one.outside_pct))
    });
    let floor = report.evaluations.first().map(|one| {
        let floor = &one.prediction;
        row("floor: chance alone", &floor.floor_all, &floor.floor_to_p99, String::new())
    });
    let stretches = report.rest.as_ref().and_then(|rest| rest.floor_of_stretches.as_ref());
    let stretches =
        stretches.map(|floor| row("floor: by stretches", &floor.all, &floor.to_p99, String::new()));
    let change = report
        .rest
        .as_ref()
        .map(|rest| row("change between the parts", &rest.change.all, &rest.change.to_p99, String::new()));
    PlainTable {
        columns: columns.map(str::to_owned).to_vec(),
        rows: models.chain(floor).chain(stretches).chain(change).collect(),
        caption: "Floor: the median demerit between the measured times and twenty resamples of themselves, request by \
                  request, and by stretches, for requests are slow together. Change: \
                  the demerit between the times measured in the fitted part and in the rest."
            .to_owned(),
    }
}

/// Runs of slow requests: a row for what was measured, one for each model.
pub fn slow(report: &FitReport) -> PlainTable {
    let columns = ["slow requests", "share %", "runs", "requests a run", "if independent", "longest run"];
    let measured = report.rest.as_ref().map(|rest| ("measured", &rest.figures));
    let said = report.evaluations.iter().map(|one| (one.model, &one.figures));
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let rows = measured.into_iter().chain(said).map(|(name, figures)| {
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
        "floor %",
        "to p99 %",
        "floor to p99 %",
    ];
    let pct =
        |demerit: &Demerit| demerit.ea_rms_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2}"));
    let models = report.evaluations.iter();
    let rows = models.flat_map(|one| one.operations.iter().map(move |of| (one.model, of)));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(_, of)| of.operation);
    let rows = rows.into_iter().map(|(model, of)| {
        let prediction = &of.prediction;
        vec![
            format!("{}, {model}", of.operation.name()),
            of.requests.to_string(),
            format!("{:.3}", of.measured_mean_ms),
            format!("{:.3}", of.said_mean_ms),
            pct(&prediction.all),
            pct(&prediction.floor_all),
            pct(&prediction.to_p99),
            pct(&prediction.floor_to_p99),
        ]
    });
    PlainTable { columns: columns.map(str::to_owned).to_vec(), rows: rows.collect(), caption: String::new() }
}

/// The sections of the report; none if nothing was predicted.
pub fn sections(report: &FitReport) -> Vec<PageSection> {
    let Some(compared) = compared(report) else { return Vec::new() };
    let steps = compared.rest.figures.density.len();
    let section = |title: &str, tables, plots| PageSection { title: title.to_owned(), tables, plots };
    let mut distributions: Vec<Plot> = density(report, steps).into_iter().collect();
    distributions.extend(compared.cumulative());
    let mut dependence = compared.dependence();
    dependence.push(compared.by_queue_length());
    let tails = PlainTable { caption: "Of the part that was predicted.".to_owned(), ..times(report) };
    vec![
        section("How far apart", vec![demerits(report), operations(report)], Vec::new()),
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
        let said = self.evaluations.iter().map(|one| (one.model, &one.profile));
        let all = [measured].into_iter().chain(said);
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
            caption:
                "How many slow requests follow each other: share of the runs that have at least so many."
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
