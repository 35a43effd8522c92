//! The page of a measurement: tables of the figures, and plots over time and of the distribution.

use seeklab_bench::counters::Counters;
use seeklab_core::statistics::Distribution;
use seeklab_report::{Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};

use super::figures::{BenchFigures, CostFigures, CountFigures, IntervalFigures, LoadFigures, total};
use super::options::BenchOptions;
use super::phase::PhaseRun;
use super::phases::PhaseFigures;
use super::rates::{FoundRateFigures, RateLimit};
use super::repeated::RepeatedFigure;
use super::verification;
use super::{counters, curves};
use crate::output::VERSION;

/// Rows of the table over time in a terminal at most.
const ROWS_MAX: usize = 20;
/// Points of a distribution.
const POINTS: u32 = 200;

/// Returns the page: the figures of the whole, then those of each phase if there are several or several streams.
pub(super) fn page(
    options: &BenchOptions,
    figures: &BenchFigures,
    runs: &[PhaseRun],
    counted: Option<&Counters>,
) -> Page {
    let is_one = options.is_one_stream() && runs.len() == 1;
    let mut tables =
        if is_one { tables(&figures.load, &figures.counts, figures.cost.as_ref()) } else { Vec::new() };
    if !is_one {
        tables.push(phase_table(figures));
        tables.extend(steady_table(figures));
        tables.extend(repeated_table(figures));
    }
    tables.extend(figures.verification.iter().flat_map(verification::tables));
    tables.extend(figures.found_rate.as_ref().map(found_table));
    tables.extend(over_time(&figures.intervals));
    tables.extend(figures.counters.as_ref().map(counters::table));
    let mut sections = vec![PageSection { title: "Figures".to_owned(), tables, ..PageSection::default() }];
    sections.push(PageSection {
        title: "Over time".to_owned(),
        plots: saved_plots(&figures.intervals),
        ..PageSection::default()
    });
    let curves = curves::plots(options, &figures.phases, runs);
    if !curves.is_empty() {
        sections.push(PageSection {
            title: "Response curve".to_owned(),
            plots: curves,
            ..PageSection::default()
        });
    }
    let part = total(runs).part;
    sections.push(PageSection {
        title: "Distribution".to_owned(),
        plots: vec![distribution(&part.response(), &part.service())],
        ..PageSection::default()
    });
    sections
        .extend(figures.counters.as_ref().zip(counted).map(|(figures, of)| counters::section(figures, of)));
    if !is_one {
        sections.extend(figures.phases.iter().zip(runs).flat_map(|(phase, run)| of_phase(phase, run)));
    }
    let workload = || match &figures.workload {
        Some(workload) => workload.clone(),
        None => seeklab_core::number_words::counted(options.phases.len(), "phase"),
    };
    let target = || {
        figures
            .target
            .clone()
            .unwrap_or_else(|| seeklab_core::number_words::counted(options.targets.len(), "target"))
    };
    Page {
        title: figures.title.clone().unwrap_or_else(|| format!("{} on {}", workload(), target())),
        subtitle: String::new(),
        generated_by: VERSION.to_owned(),
        command: figures.command.clone(),
        notes: figures.notes.clone(),
        sections,
    }
}

/// Sections of a phase: one for each stream.
fn of_phase<'a>(phase: &'a PhaseFigures, run: &'a PhaseRun) -> impl Iterator<Item = PageSection> + 'a {
    let repetition =
        if run.repetition > 0 { format!(", repetition {}", phase.repetition) } else { String::new() };
    phase.streams.iter().zip(&run.measurement.streams).map(move |(stream, totals)| {
        let part = &totals.part;
        let mut plots = saved_plots(&stream.intervals);
        plots.push(distribution(&part.response(), &part.service()));
        PageSection {
            title: format!("Phase {}, stream {}{repetition}", phase.phase, stream.stream),
            tables: tables(
                &stream.load,
                &stream.counts,
                phase.cost.as_ref().filter(|_| phase.streams.len() == 1),
            ),
            plots,
            ..PageSection::default()
        }
    })
}

/// One row for each stream of each phase, and one for all of several streams.
fn phase_table(figures: &BenchFigures) -> PlainTable {
    let loads = figures.phases.iter().flat_map(|phase| phase.streams.iter().map(|stream| &stream.load));
    let longest = loads.filter_map(|load| load.response.response_max_ms).fold(0.0, f64::max);
    let unit = Unit::of(longest);
    let is_repeated = figures.repetitions > 1;
    let mut rows = Vec::new();
    for phase in &figures.phases {
        let mut row = |stream: &str, target: &str, load: &LoadFigures| {
            let name = if is_repeated {
                format!("{} #{}", phase.phase, phase.repetition)
            } else {
                phase.phase.clone()
            };
            let [_, mean, p50, _, p99, .., max] = load.response.columns_ms();
            let times = [mean, p50, p99, max].map(|ms| unit.number(ms));
            let mut cells = vec![
                name,
                stream.to_owned(),
                target.to_owned(),
                number(load.duration_s),
                load.requests.to_string(),
                number(load.requests_per_second),
                number(load.mib_per_second),
            ];
            cells.extend(times);
            cells.push(load.errors.to_string());
            rows.push(cells);
        };
        phase.streams.iter().for_each(|stream| row(&stream.stream, &stream.target, &stream.load));
        if phase.streams.len() > 1 {
            row("all", "", &phase.load);
        }
    }
    let mean = format!("mean {}", unit.name);
    table(
        &[
            "phase",
            "stream",
            "target",
            "s",
            "requests",
            "IOPS",
            "MiB/s",
            mean.as_str(),
            "p50",
            "p99",
            "max",
            "errors",
        ],
        rows,
        "Requests that were carried out. Times: response times, from the intended start to the completion.",
    )
}

/// The steady states of the phases that were to end in one, or that left one.
fn steady_table(figures: &BenchFigures) -> Option<PlainTable> {
    let of = |round: Option<u64>| round.map_or_else(|| "-".to_owned(), |round| round.to_string());
    let rows: Vec<Vec<String>> = figures
        .phases
        .iter()
        .filter_map(|phase| Some((phase, phase.steady.as_ref()?)))
        .map(|(phase, steady)| {
            vec![
                phase.phase.clone(),
                steady.figure.to_owned(),
                number(steady.round_s),
                steady.rounds.to_string(),
                of(steady.reached_round),
                of(steady.left_round),
                number(steady.mean),
                number(steady.range_pct),
                number(steady.slope_pct),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| {
        table(
            &["phase", "figure", "round s", "rounds", "reached", "left", "mean", "range %", "trend %"],
            rows,
            "Steady state: five rounds with a range of at most 20 % and a trend of at most 10 % of their mean. Reached, left: \
             number of the round.",
        )
    })
}

/// The trials of a search for the highest rate.
fn found_table(found: &FoundRateFigures) -> PlainTable {
    let rows = found.trials.iter().map(|trial| {
        let verdict = if trial.holds { "yes" } else { "no" };
        vec![
            number(trial.arrivals_per_s),
            number(trial.value),
            trial.missing_requests.to_string(),
            verdict.to_owned(),
            trial.limited_by.map_or("-", RateLimit::name).to_owned(),
        ]
    });
    let (bound, rate) = (&found.bound, number(found.arrivals_per_s));
    let caption = match found.complete {
        true => format!(
            "The highest rate at which {bound} held is {rate} requests per second. Above it the {} breaks the bound. All \
             other figures are those at this rate.",
            found.limited_by.name()
        ),
        false => format!(
            "The search for the highest rate at which {bound} holds was broken off behind these trials."
        ),
    };
    let figure = bound.split("<=").next().unwrap_or(bound);
    table(&["arrivals 1/s", figure, "missing", "holds", "broken by"], rows.collect(), &caption)
}

/// Means over the repetitions.
fn repeated_table(figures: &BenchFigures) -> Option<PlainTable> {
    let of = |figure: &Option<RepeatedFigure>| match figure {
        None => "-".to_owned(),
        Some(figure) => match figure.half_width_95 {
            None => number(figure.mean),
            Some(half_width) => format!("{} ±{}", number(figure.mean), number(half_width)),
        },
    };
    let rows: Vec<Vec<String>> = figures
        .repeated
        .iter()
        .map(|row| {
            vec![
                row.phase.clone(),
                row.stream.clone().unwrap_or_else(|| "all".to_owned()),
                of(&row.requests_per_second),
                of(&row.mib_per_second),
                of(&row.response_mean_ms),
                of(&row.response_p99_ms),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| {
        table(
            &["phase", "stream", "IOPS", "MiB/s", "response mean ms", "p99 ms"],
            rows,
            "Means over the repetitions, with the half width of their 95 % confidence interval.",
        )
    })
}

/// A number with as many digits as it needs; a dash without one.
fn number(value: impl Into<Option<f64>>) -> String {
    match value.into() {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 100.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

/// The unit of a table of times: microseconds below 10 ms.
struct Unit {
    name: &'static str,
    per_ms: f64,
}

impl Unit {
    fn of(longest_ms: f64) -> Self {
        if longest_ms < 10.0 { Self { name: "us", per_ms: 1e3 } } else { Self { name: "ms", per_ms: 1.0 } }
    }

    fn number(&self, ms: Option<f64>) -> String {
        number(ms.map(|ms| ms * self.per_ms))
    }
}

fn table(columns: &[&str], rows: Vec<Vec<String>>, caption: &str) -> PlainTable {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    PlainTable { columns, rows, caption: caption.to_owned() }
}

fn tables(load: &LoadFigures, counts: &CountFigures, cost: Option<&CostFigures>) -> Vec<PlainTable> {
    let mut rates = Vec::new();
    for operation in &counts.operations {
        rates.push(vec![
            operation.op.name().to_owned(),
            operation.requests.to_string(),
            number(operation.requests_per_second),
            number(operation.mib_per_second),
        ]);
    }
    if counts.operations.len() != 1 {
        rates.push(vec![
            "all".to_owned(),
            load.requests.to_string(),
            number(load.requests_per_second),
            number(load.mib_per_second),
        ]);
    }
    let longest = load.response.response_max_ms.unwrap_or(0.0);
    let unit = Unit::of(longest);
    let mut times = Vec::new();
    let mut row = |name: String, columns: [Option<f64>; 8]| {
        times.push([name].into_iter().chain(columns.map(|ms| unit.number(ms))).collect());
    };
    row("response".to_owned(), load.response.columns_ms());
    row("service".to_owned(), load.service.columns_ms());
    for operation in counts.operations.iter().filter(|_| counts.operations.len() > 1) {
        row(format!("{} response", operation.op.name()), operation.response.columns_ms());
        row(format!("{} service", operation.op.name()), operation.service.columns_ms());
    }
    let name = format!("time {}", unit.name);
    vec![
        table(
            &["operation", "requests", "IOPS", "MiB/s"],
            rates,
            &format!("Requests that were carried out, in {} s.", number(load.duration_s)),
        ),
        table(
            &[name.as_str(), "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"],
            times,
            "Response: from the intended start to the completion. Service: from the issue to the completion.",
        ),
        table(
            &["figure", "value"],
            count_rows(load, counts, cost),
            "Errors and requests that are missing count in no rate and no time above.",
        ),
    ]
}

fn count_rows(load: &LoadFigures, counts: &CountFigures, cost: Option<&CostFigures>) -> Vec<Vec<String>> {
    let mut rows = vec![
        ("outstanding, mean", number(load.outstanding_mean)),
        ("longest pause", format!("{} ms", number(counts.longest_pause_ms))),
        ("errors", load.errors.to_string()),
    ];
    for (name, count) in load.statuses.by_name() {
        if count > 0 {
            rows.push((name, count.to_string()));
        }
    }
    let optional = [
        ("requests that failed", load.failed_requests),
        ("retries", counts.retries.retries),
        ("requests that a retry carried out", counts.retries.retried_requests),
        ("arrivals that waited for room", counts.delayed_requests),
        ("arrivals left out", counts.dropped_requests),
        ("requests never issued", counts.unissued_requests),
        ("requests never returned", counts.unfinished_requests),
        ("completions after the time limit", counts.late_completions),
        ("connections remade", counts.reconnections),
    ];
    rows.extend(
        optional.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name, count.to_string())),
    );
    if let Some(oldest) = counts.unfinished.first() {
        rows.push(("age of the oldest of them", format!("{} s", number(oldest.age_s))));
    }
    if let Some(cost) = cost {
        rows.push(("processor time per request", format!("{} us", number(cost.cpu_us_per_request))));
        rows.push(("system calls per request", number(cost.system_calls_per_request)));
        rows.push(("context switches per request", number(cost.context_switches_per_request)));
        let [p50, p99, max] = [cost.lateness_p50_us, cost.lateness_p99_us, cost.lateness_max_us].map(number);
        rows.push(("lateness of issue, p50, p99, max", format!("{p50}, {p99}, {max} us")));
        rows.push(("generator busy", format!("{} %", number(cost.generator_busy_pct))));
        rows.push(("issued more than 50 us late", format!("{} %", number(cost.late_pct))));
    }
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}

/// The table over time, of few intervals, or of the first and last of many.
fn over_time(intervals: &[IntervalFigures]) -> Option<PlainTable> {
    if intervals.len() < 2 {
        return None;
    }
    let longest =
        intervals.iter().filter_map(|interval| interval.response.response_max_ms).fold(0.0, f64::max);
    let unit = Unit::of(longest);
    let row = |interval: &IntervalFigures| {
        vec![
            number(interval.from_s + interval.length_s),
            number(interval.requests_per_second),
            number(interval.mib_per_second),
            unit.number(interval.response.response_p50_ms),
            unit.number(interval.response.response_p99_ms),
            unit.number(interval.response.response_max_ms),
            interval.outstanding.to_string(),
            (interval.queued_requests + interval.dropped_requests).to_string(),
            interval.errors.to_string(),
            number(interval.longest_pause_ms),
            interval
                .oldest_ms
                .filter(|_| interval.hung_requests > 0)
                .map_or("-".to_owned(), |ms| number(ms / 1e3)),
        ]
    };
    let rows: Vec<Vec<String>> = match intervals.len() {
        length if length <= ROWS_MAX => intervals.iter().map(row).collect(),
        length => {
            let half = ROWS_MAX / 2;
            let gap = vec!["…".to_owned(); 11];
            let first = intervals[..half].iter().map(row);
            first.chain([gap]).chain(intervals[length - half..].iter().map(row)).collect()
        }
    };
    let (p50, p99, max) = (format!("p50 {}", unit.name), "p99", "max");
    Some(table(
        &[
            "until s",
            "IOPS",
            "MiB/s",
            p50.as_str(),
            p99,
            max,
            "under way",
            "waiting",
            "errors",
            "pause ms",
            "hung s",
        ],
        rows,
        "Response times. Waiting: arrivals without room. Hung: age of the oldest request, if that is a second or more.",
    ))
}

/// The plots over time of a page that is complete. One interval makes no curve.
fn saved_plots(intervals: &[IntervalFigures]) -> Vec<Plot> {
    if intervals.len() < 2 { Vec::new() } else { interval_plots(intervals) }
}

/// The plots over time: rate, throughput, response time, pauses and outstanding requests. Their number and the names of their
/// series do not depend on the intervals, so the points of later intervals can be added to those of earlier ones.
pub fn interval_plots(intervals: &[IntervalFigures]) -> Vec<Plot> {
    let middle = |interval: &IntervalFigures| interval.from_s + interval.length_s / 2.0;
    let of = |name: &str, pick: &dyn Fn(&IntervalFigures) -> Option<f64>| {
        let points = intervals.iter().filter_map(|interval| Some((middle(interval), pick(interval)?)));
        PlotSeries::new(name, PlotMark::LineAndPoints, points.collect::<Vec<_>>())
    };
    let plot = |title: &str, caption: &str, y: PlotAxis, series: Vec<PlotSeries>| Plot {
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: PlotAxis::new("time", "s", PlotScale::Linear),
        y,
        series,
    };
    vec![
        plot(
            "rate",
            "Requests that were carried out, and attempts that failed, per second of each interval.",
            PlotAxis::new("requests", "1/s", PlotScale::Linear).from_zero(),
            vec![
                of("carried out", &|interval| interval.requests_per_second),
                of("failed", &|interval| Some(interval.errors as f64 / interval.length_s.max(1e-9))),
            ],
        ),
        plot(
            "throughput",
            "Bytes of the requests that were carried out, per second of each interval.",
            PlotAxis::new("throughput", "MiB/s", PlotScale::Linear).from_zero(),
            vec![of("read and written", &|interval| interval.mib_per_second)],
        ),
        plot(
            "response time",
            "From the intended start to the completion, of the requests that completed in each interval.",
            PlotAxis::new("response time", "ms", PlotScale::ByValues),
            vec![
                of("p50", &|interval| interval.response.response_p50_ms),
                of("p99", &|interval| interval.response.response_p99_ms),
                of("max", &|interval| interval.response.response_max_ms),
            ],
        ),
        plot(
            "pause",
            "Longest time without a completion, and age of the oldest request at the end of each interval.",
            PlotAxis::new("time", "ms", PlotScale::ByValues),
            vec![
                of("pause", &|interval| Some(interval.longest_pause_ms)),
                of("oldest", &|interval| interval.oldest_ms),
            ],
        ),
        plot(
            "requests",
            "Requests that the target has, and arrivals that wait, at the end of each interval.",
            PlotAxis::new("requests", "", PlotScale::Linear).from_zero(),
            vec![
                of("under way", &|interval| Some(interval.outstanding as f64)),
                of("waiting", &|interval| Some(interval.queued_requests as f64)),
            ],
        ),
    ]
}

/// Share of the requests that took longer than a time.
fn distribution(response: &Distribution, service: &Distribution) -> Plot {
    let of = |name: &str, times: &Distribution| {
        let count = times.moments().count();
        let shares = (0..=POINTS).map(|step| {
            let last = (count.max(2) as f64).log10();
            10_f64.powf(-last * f64::from(step) / f64::from(POINTS))
        });
        let points = shares.filter_map(|share| Some((times.quantile(1.0 - share)?.as_ms(), share)));
        PlotSeries::new(name, PlotMark::Line, points.collect::<Vec<_>>())
    };
    Plot {
        title: "times".to_owned(),
        caption: "Share of the requests that took longer.".to_owned(),
        x: PlotAxis::new("time", "ms", PlotScale::ByValues),
        y: PlotAxis::new("share", "", PlotScale::Log),
        series: vec![of("response", response), of("service", service)],
    }
}
