//! A comparison on the page, with the four plots of Griffin's figures and the pairs themselves.

use minijinja::{Value, context};
use seeklab_analysis::comparison::ErrorHistogram;

use super::chart::{Axis, Chart, Mark, Series};
use super::devices::cdf;
use crate::document::{ComparisonSection, ErrorsOver};
use crate::number::{TimeUnit, column, count};
use seeklab_core::number_words::in_number;

/// Share of the requests at each end of an error histogram that the axis may cut off.
const CUT_SHARE: f64 = 0.005;

pub(super) fn context(
    index: usize,
    section: &ComparisonSection,
    points: Option<Value>,
    charts: &mut Vec<Chart>,
) -> Value {
    let summary = &section.summary;
    let unit = TimeUnit::of_ms([summary.reference_mean_ms, summary.other_mean_ms].into_iter());
    let mut places = Vec::new();
    let id = |name: &str| format!("comparison{index}-{name}");
    let (histogram, range, cut) =
        histogram(&section.error_histogram, &id("error"), "error", "ms", summary.requests);
    let errors_ms = ("Errors, histogram", format!("Buckets of 0.02 ms.{cut}"), histogram);
    let (relative, _, cut_relative) = self::histogram(
        &section.error_pct_histogram,
        &id("relative"),
        "relative error",
        "%",
        summary.requests,
    );
    let caption = format!("Buckets of 1 % of each request's reference time.{cut_relative}");
    let errors_pct = ("Relative errors, histogram", caption, relative);
    let curves = [(section.reference.as_str(), &section.reference_cdf), (&section.other, &section.other_cdf)];
    let distributions = (
        "Response time, cumulative",
        "EA_rms is the root mean square of the horizontal distance.".to_owned(),
        cdf(&id("cdf"), unit, curves.into_iter().map(|(name, points)| (name, points.as_slice()))),
    );
    let all = if section.errors.len() as u64 == summary.requests {
        match summary.requests {
            1 => "The request.".to_owned(),
            requests => format!("All {} requests.", count(requests)),
        }
    } else {
        format!(
            "Smallest and largest error of each group of consecutive requests, {} requests in all: every outlier is drawn.",
            count(summary.requests)
        )
    };
    let uncut = ("Error of each request, uncut", all, errors(section, None, &id("errors")));
    // Between measurement points as in the dissertation: the errors beside their histogram, then the uncut ones.
    let plots = if points.is_some() {
        let within = errors(section, Some(range), &id("within"));
        let within = ("Error of each request", cut.trim_start().to_owned(), within);
        [within, errors_ms, errors_pct, distributions, uncut]
    } else {
        let sampled = format!(
            "{} of {} {}. On the line both agree.",
            count(section.sample.len() as u64),
            count(summary.requests),
            in_number(summary.requests, "request[|s]")
        );
        [
            distributions,
            ("Request by request", sampled, pairs(section, unit, &id("pairs"))),
            uncut,
            errors_ms,
            errors_pct,
        ]
    };
    for (title, caption, chart) in plots {
        places.push(context! { id => chart.id.as_str(), title, caption });
        charts.push(chart);
    }
    context! {
        title => format!("{} against {}", section.other, section.reference),
        rows => rows(section),
        requests => count(summary.requests),
        failed => section.failed_requests(),
        within => format!("{:.2}", summary.within_5pct_pct),
        charts => places,
        points,
    }
}

fn rows(section: &ComparisonSection) -> Vec<Value> {
    let summary = &section.summary;
    let absolute = column(&[
        Some(summary.reference_mean_ms),
        Some(summary.other_mean_ms),
        Some(summary.ei_avg_ms),
        Some(summary.ei_rms_ms),
        Some(summary.ea_rms_ms),
    ]);
    let names = [
        (format!("mean of {}", section.reference), "the reference", None),
        (format!("mean of {}", section.other), "", None),
        ("EI_avg".to_owned(), "mean of the errors of individual requests", summary.ei_avg_pct),
        ("EI_rms".to_owned(), "root mean square of the errors of individual requests", summary.ei_rms_pct),
        (
            "EA_rms".to_owned(),
            "root mean square distance of the distributions: the demerit",
            summary.ea_rms_pct,
        ),
    ];
    names
        .into_iter()
        .zip(absolute)
        .map(|((name, meaning, relative), ms)| {
            context! { name, meaning, ms, pct => relative.map(|relative| format!("{relative:.2}")) }
        })
        .collect()
}

fn pairs(section: &ComparisonSection, unit: TimeUnit, id: &str) -> Chart {
    let points: Vec<(f64, f64)> = section
        .sample
        .iter()
        .filter(|(_, reference, other)| !reference.is_zero() && !other.is_zero())
        .map(|(_, reference, other)| (unit.scale_ms(reference.as_ms()), unit.scale_ms(other.as_ms())))
        .collect();
    let both: Vec<f64> = points.iter().flat_map(|(reference, other)| [*reference, *other]).collect();
    let axis = |name: &str| Axis::of_values(&format!("response time, {name}"), unit.name, &both);
    let mut series = vec![Series::new("request", Mark::Points, 0, points.iter().copied())];
    if !both.is_empty() {
        let (low, high) =
            (both.iter().copied().fold(f64::INFINITY, f64::min), both.iter().copied().fold(0.0, f64::max));
        series.push(Series::new("equal", Mark::Guide, 1, [(low, low), (high, high)]));
    }
    Chart::plot(id, axis(&section.reference), axis(&section.other), series)
}

/// The errors of individual requests, only those `within` these milliseconds if it is given.
fn errors(section: &ComparisonSection, within: Option<(f64, f64)>, id: &str) -> Chart {
    let shown = |error: f64| within.is_none_or(|(low, high)| (low..=high).contains(&error));
    let shown = section.errors.iter().copied().filter(|(_, error)| shown(*error));
    let unit = match within {
        Some(_) => TimeUnit::MS,
        None => TimeUnit::of_ms(shown.clone().map(|(_, error)| error.abs())),
    };
    let x = match section.errors_over {
        ErrorsOver::Requests => Axis::linear("request, in order of arrival", ""),
        ErrorsOver::Time => Axis::linear("arrival", "s"),
    };
    let end = match section.errors_over {
        ErrorsOver::Requests => section.summary.requests as f64,
        ErrorsOver::Time => section.errors.last().map_or(0.0, |(at, _)| *at),
    };
    let points = shown.map(|(x, error)| (x, unit.scale_ms(error)));
    let series = vec![
        Series::new("request", Mark::Points, 0, points),
        Series::new("no error", Mark::Guide, 1, [(0.0, 0.0), (end, 0.0)]),
    ];
    let y = Axis::linear("error", unit.name);
    let y = match within {
        Some((low, high)) => y.starting_at(low).ending_at(high),
        None => y,
    };
    Chart::plot(id, x.starting_at(0.0).ending_at(end), y, series)
}

/// Buckets on either side of zero that a histogram shows at least.
const AROUND_ZERO: f64 = 5.0;

/// The histogram without its farthest requests, what its axis covers, and a sentence about those outside.
fn histogram(
    histogram: &ErrorHistogram,
    id: &str,
    label: &str,
    unit: &str,
    requests: u64,
) -> (Chart, (f64, f64), String) {
    let allowed = (requests as f64 * CUT_SHARE) as u64;
    let mut buckets: Vec<(f64, u64)> = histogram.buckets().collect();
    let (mut below, mut above) = (histogram.below, histogram.above);
    let cut = buckets.iter().take_while(|(_, count)| {
        let fits = below + count <= allowed;
        below += if fits { *count } else { 0 };
        fits
    });
    let cut = cut.count();
    buckets.drain(..cut);
    while let Some((_, count)) = buckets.last()
        && above + count <= allowed
    {
        above += count;
        buckets.pop();
    }
    let share = |count: u64| count as f64 / requests as f64 * 100.0;
    let end = buckets.last().map(|(low, _)| (low + histogram.width, 0.0));
    let points = buckets.iter().map(|(low, count)| (*low, share(*count))).chain(end);
    let series = vec![Series::new("requests", Mark::Area, 0, points)];
    let text = match below + above {
        0 => String::new(),
        outside => {
            format!(" {} {} outside the axis.", count(outside), in_number(outside, "request[|s] [lies|lie]"))
        }
    };
    let share = Axis::linear("share of requests", "%").starting_at(0.0);
    let around = AROUND_ZERO * histogram.width;
    let low = buckets.first().map_or(-around, |(low, _)| low.min(-around));
    let high = end.map_or(around, |(end, _)| end.max(around));
    let axis = Axis::linear(label, unit).starting_at(low).ending_at(high);
    (Chart::plot(id, axis, share, series), (low, high), text)
}
