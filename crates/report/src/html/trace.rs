//! The page about one trace: its requests, times, places, reuse and initiators.

use minijinja::{Value, context};
use seeklab_analysis::character::{DIRECTIONS, Interval};
use seeklab_analysis::curve::cdf;
use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Operation};

use super::chart::{Axis, Chart, Mark, Series};
use super::{SCRIPT, STYLE, environment, json};
use crate::number::{TimeUnit, column, count, fixed};
use crate::trace::TraceReport;

/// Points of a curve at most.
const POINTS_MAX: usize = 400;
/// Initiators that the table shows.
const HOSTS_MAX: usize = 40;
/// Times below this are drawn here on a logarithmic axis: 1 ns.
const TIME_MIN_MS: f64 = 1e-6;
const MIB: f64 = (1 << 20) as f64;
const GIB: f64 = (1 << 30) as f64;

/// The page about a trace as one self-contained HTML file; the same report gives the same bytes.
pub fn render_trace_html(report: &TraceReport) -> String {
    let has_times = report.metrics.span() > Duration::ZERO;
    let mut page = Page { has_times, charts: Vec::new(), sections: Vec::new() };
    over_time(report, &mut page);
    response(report, &mut page);
    arrivals(report, &mut page);
    places(report, &mut page);
    reuse(report, &mut page);
    let (hosts, more_hosts) = hosts(report);
    let environment = environment();
    let template = environment.get_template("trace.html").expect("the template is part of the program");
    template
        .render(context! {
            title => report.title.as_str(),
            subtitle => report.subtitle.as_str(),
            generated_by => report.generated_by.as_str(),
            command => report.command.as_deref(),
            notes => report.notes.clone(),
            groups => figures(report),
            sections => page.sections,
            hosts,
            more_hosts,
            style => STYLE,
            script => SCRIPT,
            data => json::embedded(&page.charts),
        })
        .expect("every value of the template is given")
}

/// The charts with an axis of time.
const OVER_TIME: [&str; 10] =
    ["iops", "rate", "times", "depth", "working", "interarrival", "variance", "periods", "scatter", "heat"];

struct Page {
    /// True if any time passes from the first request to the end of the last.
    has_times: bool,
    charts: Vec<Chart>,
    sections: Vec<Value>,
}

impl Page {
    /// A section of the charts that have anything to show; where no time passes, none over time has.
    fn section(&mut self, title: &str, charts: Vec<(&str, String, Chart)>) {
        let mut places = Vec::new();
        for (title, caption, chart) in charts {
            let is_over_time = OVER_TIME.contains(&chart.id.as_str());
            if chart.series.iter().any(|series| !series.points.is_empty())
                && (self.has_times || !is_over_time)
            {
                places.push(context! { id => chart.id.as_str(), title, caption });
                self.charts.push(chart);
            }
        }
        if !places.is_empty() {
            self.sections.push(context! { title, charts => places });
        }
    }
}

/// A value for each interval, drawn in its middle. The last interval may have only begun, so rates leave it out.
fn line(
    name: &str,
    style: usize,
    clock: TimeUnit,
    intervals: &[Interval],
    value: impl Fn(&Interval) -> Option<f64>,
) -> Series {
    let points = intervals.iter().filter_map(|interval| {
        value(interval).map(|value| (clock.scale_s(interval.start_s + interval.length_s / 2.0), value))
    });
    let width = intervals.first().map_or(0.0, |interval| clock.scale_s(interval.length_s));
    Series::new(name, Mark::Line, style, points).in_intervals(width)
}

fn over_time(report: &TraceReport, page: &mut Page) {
    let intervals = report.character.over_time.intervals();
    let whole = &intervals[..intervals.len().saturating_sub(1).max(intervals.len().min(1))];
    let seconds = report.metrics.span().as_s();
    let clock = TimeUnit::of_s(seconds);
    let time =
        || Axis::linear("time", clock.name).starting_at(0.0).ending_at(clock.scale_s(seconds.max(1e-9)));
    let asked = |direction: usize| intervals.iter().any(|interval| interval.requests[direction] > 0);
    let by_direction = |value: fn(&Interval, usize) -> f64, directions: usize| -> Vec<Series> {
        (0..directions)
            .filter(|direction| asked(*direction))
            .map(|direction| {
                line(DIRECTIONS[direction], direction, clock, whole, |interval| {
                    Some(value(interval, direction))
                })
            })
            .collect()
    };
    let each = intervals.first().map_or(0.0, |interval| interval.length_s);
    let each = format!("Intervals of {}.", Duration::from_ns((each * 1e9) as u64));
    let iops = by_direction(|interval, at| interval.requests[at] as f64 / interval.length_s, 3);
    let rates = by_direction(|interval, at| interval.bytes[at] as f64 / 1e6 / interval.length_s, 2);
    let names = ["p50", "p90", "p99", "p99.9"];
    let times = (0..4).map(|at| {
        line(names[at], at, clock, &intervals, |interval| {
            interval.response_ms.map(|times| times[at].max(TIME_MIN_MS))
        })
    });
    let outstanding = vec![
        line("mean", 0, clock, &intervals, |interval| interval.outstanding.map(|(mean, _)| mean)),
        line("most", 1, clock, &intervals, |interval| interval.outstanding.map(|(_, most)| f64::from(most))),
    ];
    let working = vec![
        line("in the interval", 0, clock, &intervals, |interval| Some(interval.working_set_bytes / MIB)),
        line("since the start", 1, clock, &intervals, |interval| Some(interval.footprint_bytes / MIB)),
    ];
    page.section(
        "Over time",
        vec![
            (
                "Requests per second",
                each.clone(),
                Chart::plot(
                    "iops",
                    time(),
                    Axis::linear("requests per second", "1/s").starting_at(0.0),
                    iops,
                ),
            ),
            (
                "Throughput",
                each.clone(),
                Chart::plot("rate", time(), Axis::linear("throughput", "MB/s").starting_at(0.0), rates),
            ),
            (
                "Response-time percentiles",
                format!("Of the requests that arrived in each interval. {each}"),
                Chart::plot("times", time(), Axis::log("response time", "ms"), times.collect()),
            ),
            (
                "Queue depth",
                "Requests outstanding when one arrived, over all devices of the trace.".to_owned(),
                Chart::plot("depth", time(), Axis::linear("outstanding", "").starting_at(0.0), outstanding),
            ),
            (
                "Working set",
                format!("Different 4 KiB units read or written, estimated to about 3 %. {each}"),
                Chart::plot("working", time(), Axis::linear("working set", "MiB").starting_at(0.0), working),
            ),
        ],
    );
}

/// Cumulative curves of times on a logarithmic axis.
fn times_cdf<'a>(
    id: &str,
    label: &str,
    curves: impl Iterator<Item = (&'a str, usize, &'a Distribution)>,
) -> Chart {
    let series = curves.map(|(name, style, distribution)| {
        let points = cdf(distribution);
        Series::new(
            name,
            Mark::Step,
            style,
            points.iter().map(|point| (point.ms.max(TIME_MIN_MS), point.share * 100.0)),
        )
    });
    let series = series.filter(|series| !series.points.is_empty()).collect();
    let share = Axis::linear("share", "%").starting_at(0.0).ending_at(100.0);
    Chart::plot(id, Axis::log(label, "ms"), share, series)
}

fn response(report: &TraceReport, page: &mut Page) {
    let character = &report.character;
    let by_direction = || DIRECTIONS.into_iter().zip(0..).zip(&character.response);
    let survival = by_direction().map(|((name, style), distribution)| {
        let points = cdf(distribution);
        let points = points.iter().filter(|point| point.share < 1.0);
        Series::new(
            name,
            Mark::Line,
            style,
            points.map(|point| (point.ms.max(TIME_MIN_MS), (1.0 - point.share) * 100.0)),
        )
    });
    let queue = [("arrival to issue", 0, &character.host_queue)].into_iter();
    let is_known = character.host_queue.moments().max().is_some_and(|longest| longest > 0.0);
    let mut charts = vec![
        (
            "Response time, cumulative",
            "Share of the requests that took no longer.".to_owned(),
            times_cdf(
                "cdf",
                "response time",
                by_direction().map(|((name, style), distribution)| (name, style, distribution)),
            ),
        ),
        (
            "Response time, tail",
            "Share of the requests that took longer, on logarithmic axes: a straight line is a heavy tail."
                .to_owned(),
            Chart::plot(
                "ccdf",
                Axis::log("response time", "ms"),
                Axis::log("share that took longer", "%"),
                survival.filter(|series| !series.points.is_empty()).collect(),
            ),
        ),
    ];
    if is_known {
        charts.push((
            "Time in the host's queues",
            "From the arrival in the block layer to the issue to the driver; part of the response time."
                .to_owned(),
            times_cdf("queue", "time from arrival to issue", queue),
        ));
    }
    page.section("Response times", charts);
}

fn arrivals(report: &TraceReport, page: &mut Page) {
    let character = &report.character;
    let arrivals = &character.arrivals;
    let sentence = |name: &str, value: Option<f64>| {
        value.map_or_else(String::new, |value| format!(" {name} {}.", fixed(value, 2)))
    };
    let variances = arrivals.variances();
    let poisson = variances.first().map(|first| {
        let end = variances.last().unwrap_or(first);
        let at = |interval_s: f64| (interval_s, first.relative * first.interval_s / interval_s);
        Series::new("H = 0.5", Mark::Guide, 7, [at(first.interval_s), at(end.interval_s)])
    });
    let measured = Series::new(
        "variance",
        Mark::LineAndPoints,
        0,
        variances.iter().map(|variance| (variance.interval_s, variance.relative)),
    );
    let periods = &character.periods;
    page.section(
        "Arrivals",
        vec![
            (
                "Interarrival time, cumulative",
                format!("Coefficient of variation is 1 of a Poisson process.{}", sentence("Here it is", arrivals.variation())),
                times_cdf("interarrival", "interarrival time", [("all", 0, arrivals.interarrival())].into_iter()),
            ),
            (
                "Variance over time scales",
                format!(
                    "Variance of the arrivals per interval over their squared mean; grey is without long-range \
                     dependence.{}",
                    sentence("Hurst parameter", arrivals.hurst())
                ),
                Chart::plot(
                    "variance",
                    Axis::log("interval", "s"),
                    Axis::log("relative variance", ""),
                    poisson.into_iter().chain([measured]).collect(),
                ),
            ),
            (
                "Busy and idle periods, cumulative",
                "Busy while at least one request is outstanding, otherwise idle.".to_owned(),
                times_cdf(
                    "periods",
                    "length of a period",
                    [("busy", 0, &periods.busy), ("idle", 1, &periods.idle)].into_iter(),
                ),
            ),
            ("Requests per burst, cumulative", "Of each busy period.".to_owned(), bursts(&periods.burst)),
        ],
    );
}

fn bursts(burst: &Distribution) -> Chart {
    // They are counted as nanoseconds.
    let points = cdf(burst);
    let points = points.iter().map(|point| (point.ms * 1e6, point.share * 100.0));
    Chart::plot(
        "bursts",
        Axis::log("requests", ""),
        Axis::linear("share", "%").starting_at(0.0).ending_at(100.0),
        vec![Series::new("bursts", Mark::Step, 0, points)],
    )
}

fn places(report: &TraceReport, page: &mut Page) {
    let character = &report.character;
    let seconds = report.metrics.span().as_s();
    let clock = TimeUnit::of_s(seconds);
    let block = report.metrics.block_size().as_bytes() as f64;
    let time =
        || Axis::linear("arrival", clock.name).starting_at(0.0).ending_at(clock.scale_s(seconds.max(1e-9)));
    let first = report.metrics.first_arrival().unwrap_or(seeklab_core::Instant::ZERO);
    let sample = report.metrics.sample();
    let kinds = [("read", 0), ("write", 1), ("other", 2)];
    let scatter = kinds.into_iter().map(|(name, kind)| {
        let of = |op: Operation| match op {
            Operation::Read => 0,
            Operation::Write => 1,
            _ => 2,
        };
        let points = sample.iter().filter(|point| point.op.addresses_blocks() && of(point.op) == kind);
        let points = points.map(|point| {
            (clock.scale_s(point.arrival.saturating_since(first).as_s()), point.lbn as f64 * block / GIB)
        });
        Series::new(name, Mark::Points, kind, points)
    });
    let scatter = scatter.filter(|series| !series.points.is_empty()).collect();
    let requests = report.metrics.summary().requests;
    let chosen = match sample.len() as u64 == requests {
        true => "Every request.".to_owned(),
        false => format!("{} of {} requests, evenly chosen.", count(sample.len() as u64), count(requests)),
    };
    let (cell_s, cell_bytes) = character.map.cell();
    let cells = character.map.cells();
    let fullest = cells.iter().map(|cell| f64::from(cell.2)).fold(1.0, f64::max);
    let mut heat = Series::new("requests", Mark::Cells, 1, []);
    heat.cell = Some([clock.scale_s(cell_s), cell_bytes / GIB]);
    // By the logarithm, or a single hot cell would leave all others white.
    let share = |requests: u32| (f64::from(requests) + 1.0).ln() / (fullest + 1.0).ln();
    heat.points = cells
        .iter()
        .map(|(at_s, bytes, requests)| {
            vec![clock.scale_s(*at_s), bytes / GIB, (share(*requests) * 1e3).round() / 1e3]
        })
        .collect();
    let end = cells.iter().map(|cell| cell.1 + cell_bytes).fold(0.0, f64::max) / GIB;
    let address = || Axis::linear("first byte", "GiB").starting_at(0.0);
    page.section(
        "Places",
        vec![
            ("Blocks over time", chosen, Chart::plot("scatter", time(), address(), scatter)),
            (
                "Heat map",
                format!(
                    "Requests in cells of {} and {} MiB, the darker the more (by the logarithm); the fullest has {}.",
                    Duration::from_ns((cell_s * 1e9) as u64),
                    count((cell_bytes / MIB).round() as u64),
                    count(fullest as u64)
                ),
                Chart::plot("heat", time(), address().ending_at(end.max(1e-9)), vec![heat]),
            ),
            seek_distances(report),
            runs(report),
            sizes(report),
        ],
    );
}

fn seek_distances(report: &TraceReport) -> (&'static str, String, Chart) {
    let seeks = &report.character.seeks;
    let all = seeks.distances().max(1) as f64;
    let share = |count: u64| count as f64 / all * 100.0;
    let histogram = seeks.histogram();
    let series = |name, style, forward: bool| {
        let bars = histogram.iter().filter(|(bytes, _)| if forward { *bytes > 0.0 } else { *bytes < 0.0 });
        let mut points: Vec<(f64, f64)> = bars
            .map(|(bytes, count)| (bytes.abs() / MIB * std::f64::consts::SQRT_2, share(*count)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series::new(name, Mark::LineAndPoints, style, points)
    };
    let caption = format!(
        "From start to start on a device, in order of arrival, in powers of two. {} % start where the one before \
         did, {} % where it ended.",
        fixed(seeks.zero_pct().unwrap_or(0.0), 1),
        fixed(seeks.sequential_pct().unwrap_or(0.0), 1),
    );
    let chart = Chart::plot(
        "seeks",
        Axis::log("seek distance", "MiB"),
        Axis::linear("share of requests", "%").starting_at(0.0),
        vec![series("forward", 0, true), series("backward", 1, false)],
    );
    ("Seek distance", caption, chart)
}

fn runs(report: &TraceReport) -> (&'static str, String, Chart) {
    let runs = report.character.seeks.runs();
    let all = runs.iter().map(|run| run.1).sum::<u64>().max(1) as f64;
    let points = runs.iter().map(|(length, count)| (*length as f64, *count as f64 / all * 100.0));
    let chart = Chart::plot(
        "runs",
        Axis::log("requests in a run, at least", ""),
        Axis::linear("share of runs", "%").starting_at(0.0),
        vec![Series::new("runs", Mark::LineAndPoints, 0, points)],
    );
    ("Sequential runs", "Requests that each start where the one before ended.".to_owned(), chart)
}

fn sizes(report: &TraceReport) -> (&'static str, String, Chart) {
    let sizes = report.character.sizes();
    let all = sizes.iter().flat_map(|(_, counts)| counts).sum::<u64>().max(1) as f64;
    let series = DIRECTIONS.into_iter().enumerate().map(|(style, name)| {
        let filled = sizes.iter().filter(|(_, counts)| counts[style] > 0);
        let points = filled
            .map(|(bytes_min, counts)| (*bytes_min as f64 / 1024.0, counts[style] as f64 / all * 100.0));
        Series::new(name, Mark::LineAndPoints, style, points)
    });
    let chart = Chart::plot(
        "sizes",
        Axis::log("request size, at least", "KiB"),
        Axis::linear("share of requests", "%").starting_at(0.0),
        series.filter(|series| !series.points.is_empty()).collect(),
    );
    ("Request sizes", "In powers of two.".to_owned(), chart)
}

/// At most so many of the points, ends kept.
fn thinned(points: Vec<(f64, f64)>, by_logarithm: bool) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points;
    }
    let last = points.len() - 1;
    let mut indices: Vec<usize> = (0..POINTS_MAX)
        .map(|step| {
            let share = step as f64 / (POINTS_MAX - 1) as f64;
            match by_logarithm {
                true => ((last as f64 + 1.0).powf(share) - 1.0).round() as usize,
                false => (last as f64 * share).round() as usize,
            }
        })
        .collect();
    indices.dedup();
    indices.into_iter().map(|index| points[index.min(last)]).collect()
}

fn reuse(report: &TraceReport, page: &mut Page) {
    let reuse = &report.character.reuse;
    let mib = |points: Vec<(f64, f64)>| points.into_iter().map(|(bytes, share)| (bytes / MIB, share * 100.0));
    let sampled = format!(
        "Units of 4 KiB, from a sample; about {} units were requested in all.",
        count(reuse.units() as u64)
    );
    let zipf =
        reuse.zipf().map_or_else(String::new, |zipf| format!(" Exponent of Zipf's law: {}.", fixed(zipf, 2)));
    let share = || Axis::linear("share of accesses", "%").starting_at(0.0);
    page.section(
        "Reuse",
        vec![
            (
                "Miss ratio",
                format!("Of a least-recently-used cache over its size. {sampled}"),
                Chart::plot(
                    "misses",
                    Axis::log("cache", "MiB"),
                    Axis::linear("misses", "%").starting_at(0.0).ending_at(100.0),
                    vec![Series::new("misses", Mark::Line, 0, mib(thinned(reuse.miss_ratios(), false)))],
                ),
            ),
            (
                "Reuse distance",
                format!("Different units requested since a unit was last requested. {sampled}"),
                Chart::plot(
                    "reuse",
                    Axis::log("reuse distance", "MiB"),
                    share(),
                    vec![Series::new("accesses", Mark::Line, 0, mib(reuse.distances()))],
                ),
            ),
            (
                "Popularity",
                format!("Accesses of a unit over its rank.{zipf}"),
                Chart::plot(
                    "popularity",
                    Axis::log("rank", ""),
                    Axis::log("accesses", ""),
                    vec![Series::new("units", Mark::Line, 0, thinned(reuse.popularity(), true))],
                ),
            ),
            (
                "From a write to the next access",
                "Time until the same unit is written again, and until it is read.".to_owned(),
                times_cdf(
                    "rewrites",
                    "time since the write",
                    [("write again", 1, &reuse.rewrite), ("read", 0, &reuse.read_after_write)].into_iter(),
                ),
            ),
        ],
    );
}

/// The figures in groups of rows: all, read, write, other.
fn figures(report: &TraceReport) -> Vec<Value> {
    let summary = report.metrics.summary();
    let character = &report.character;
    let whole = |values: [Option<u64>; 4]| values.map(|value| value.map_or_else(dash, count)).to_vec();
    let near = |values: [Option<f64>; 4]| column(&values);
    let row = |name: &str, unit: &str, values: Vec<String>| context! { name, unit, values };
    let one = |name: &str, unit: &str, value: Option<f64>| {
        let mut values = vec![value.map_or_else(dash, |value| column(&[Some(value)]).concat())];
        values.extend((0..3).map(|_| String::new()));
        context! { name, unit, values }
    };
    // A rate over no time is none.
    let per_second = |n: u64| (summary.duration_s > 0.0).then(|| n as f64 / summary.duration_s);
    let mut load = vec![
        row(
            "requests",
            "",
            whole([Some(summary.requests), Some(summary.reads), Some(summary.writes), Some(summary.others)]),
        ),
        row(
            "requests per second",
            "1/s",
            near([summary.requests, summary.reads, summary.writes, summary.others].map(per_second)),
        ),
        row(
            "data",
            "MiB",
            near([
                Some((summary.read_bytes + summary.written_bytes) as f64 / MIB),
                Some(summary.read_bytes as f64 / MIB),
                Some(summary.written_bytes as f64 / MIB),
                None,
            ]),
        ),
        one("duration", "s", Some(summary.duration_s)),
    ];
    if summary.errors > 0 {
        load.push(one("failed requests", "", Some(summary.errors as f64)));
    }
    if summary.incomplete > 0 {
        load.push(one("without completion", "", Some(summary.incomplete as f64)));
    }
    let all = report.metrics.response();
    let times =
        [Some(&all), character.response.first(), character.response.get(1), character.response.get(2)];
    let of = |value: &dyn Fn(&Distribution) -> Option<f64>| times.map(|times| times.and_then(value));
    let quantile = |share: f64| move |times: &Distribution| times.quantile(share).map(Duration::as_ms);
    let mut response = vec![row("mean", "ms", near(of(&|times| times.moments().mean().map(|ns| ns / 1e6))))];
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        response.push(row(name, "ms", near(of(&quantile(share)))));
    }
    response.push(row("longest", "ms", near(of(&|times| times.moments().max().map(|ns| ns / 1e6)))));
    let overlap = character.reuse.overlap();
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    let shape = vec![
        one("coefficient of variation of interarrival times", "", character.arrivals.variation()),
        one("Hurst parameter", "", character.arrivals.hurst()),
        one("mean seek distance", "MiB", character.seeks.mean_bytes().map(|bytes| bytes / MIB)),
        one("at seek distance zero", "%", character.seeks.zero_pct()),
        one("sequential", "%", character.seeks.sequential_pct()),
        one("requested, about", "MiB", Some(character.reuse.units() * 4096.0 / MIB)),
        one("of that read only", "%", percent(overlap.map(|shares| shares[0]))),
        one("of that written only", "%", percent(overlap.map(|shares| shares[1]))),
        one("of that read and written", "%", percent(overlap.map(|shares| shares[2]))),
    ];
    let mut groups = vec![context! { title => "Load", rows => load }];
    if all.moments().count() > 0 {
        groups.push(context! { title => "Response time", rows => response });
    }
    groups.push(context! { title => "Shape", rows => shape });
    groups
}

fn dash() -> String {
    "–".to_owned()
}

/// The table of devices and initiators, and how many it leaves out.
fn hosts(report: &TraceReport) -> (Vec<Value>, usize) {
    let busiest = report.character.hosts.busiest();
    let rows = busiest.iter().take(HOSTS_MAX).map(|((device, initiator), host)| {
        let device = match report.labels.get(usize::from(*device)).filter(|label| !label.is_empty()) {
            Some(label) => format!("{device} ({label})"),
            None => device.to_string(),
        };
        let initiator = match report.names.get(initiator) {
            Some(name) => format!("{initiator} ({name})"),
            None => initiator.to_string(),
        };
        let ms = |ns: Option<f64>| ns.map_or_else(dash, |ns| fixed(ns / 1e6, 3));
        let values = vec![
            count(host.requests()),
            count(host.reads),
            count(host.writes),
            count(host.others),
            fixed(host.read_bytes as f64 / MIB, 1),
            fixed(host.written_bytes as f64 / MIB, 1),
            ms(host.response.mean()),
            ms(host.response.max()),
        ];
        context! { device, initiator, values }
    });
    let rows: Vec<Value> = rows.collect();
    let more = busiest.len() - rows.len();
    (rows, more)
}
