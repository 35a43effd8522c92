//! Charts of the devices of a run, overlaid where they share an axis.

use minijinja::{Value, context};
use seeklab_analysis::{CdfPoint, TimeBin};
use seeklab_core::Operation;

use super::chart::{Axis, Chart, Mark, Series};
use crate::document::{DeviceSection, FaultBand};
use crate::number::{TimeUnit, column, count};

/// Times below this are drawn here on a logarithmic axis: 1 ns.
const TIME_MIN_MS: f64 = 1e-6;

/// The charts that show all devices together, in the order of the page.
pub(super) fn charts(devices: &[DeviceSection], charts: &mut Vec<Chart>) -> Vec<Value> {
    let mut places = Vec::new();
    let mut add = |title: &str, caption: &str, chart: Chart| {
        if chart.series.iter().any(|series| !series.points.is_empty()) {
            places.push(context! { id => chart.id.as_str(), title, caption });
            charts.push(chart);
        }
    };
    let times = devices.iter().filter_map(|device| device.summary.response);
    let unit = TimeUnit::of_ms(times.map(|response| response.mean_ms));
    add(
        "Response time, cumulative",
        "Share of the requests that took no longer.",
        cdf("cdf", unit, devices.iter().map(|device| (device.name.as_str(), device.cdf.as_slice()))),
    );
    add(
        "Response time, histogram",
        "Buckets widen with the time, twelve per decade.",
        histogram(devices, unit),
    );
    add(
        "Where the time goes",
        "Mean of each part of the response time; the parts sum to its mean.",
        breakdown(devices, unit),
    );
    let seconds = devices.iter().map(|device| device.summary.duration_s).fold(0.0, f64::max);
    let clock = TimeUnit::of_s(seconds);
    add(
        "Throughput over time",
        "Completions per second of the run.",
        over_time(
            devices,
            "throughput",
            clock,
            Axis::linear("requests per second", "1/s").starting_at(0.0),
            |bin| (bin.width_s > 0.0).then(|| bin.requests as f64 / bin.width_s),
        ),
    );
    if devices.iter().any(|device| device.summary.errors > 0) {
        add(
            "Errors over time",
            "Failed requests per second of the run.",
            over_time(
                devices,
                "errors",
                clock,
                Axis::linear("failed requests per second", "1/s").starting_at(0.0),
                |bin| (bin.width_s > 0.0).then(|| bin.errors as f64 / bin.width_s),
            ),
        );
    }
    let means: Vec<f64> = devices
        .iter()
        .flat_map(|device| device.timeline.iter().filter_map(|bin| bin.response_mean_ms))
        .collect();
    add(
        "Response time over time",
        "Mean of the requests that completed in each interval.",
        over_time(
            devices,
            "response",
            clock,
            Axis::of_values("mean response time", unit.name, &means),
            |bin| bin.response_mean_ms.map(|ms| unit.scale_ms(ms.max(TIME_MIN_MS))),
        ),
    );
    add(
        "Longest response over time",
        "The slowest request of each interval.",
        over_time(devices, "longest", clock, Axis::log("longest response time", unit.name), |bin| {
            bin.response_max_ms.map(|ms| unit.scale_ms(ms.max(TIME_MIN_MS)))
        }),
    );
    places
}

/// Cumulative distributions on one logarithmic axis.
pub(super) fn cdf<'a>(
    id: &str,
    unit: TimeUnit,
    curves: impl Iterator<Item = (&'a str, &'a [CdfPoint])>,
) -> Chart {
    let series = curves.enumerate().map(|(style, (name, points))| {
        let points =
            points.iter().map(|point| (unit.scale_ms(point.ms.max(TIME_MIN_MS)), point.share * 100.0));
        Series::new(name, Mark::Step, style, points)
    });
    let series = series.collect();
    let share = Axis::linear("share of requests", "%").starting_at(0.0).ending_at(100.0);
    Chart::plot(id, Axis::log("response time", unit.name), share, series)
}

fn histogram(devices: &[DeviceSection], unit: TimeUnit) -> Chart {
    let mark = if devices.len() == 1 { Mark::Area } else { Mark::Step };
    let series = devices.iter().enumerate().map(|(style, device)| {
        let total = device.histogram.iter().map(|bin| bin.count).sum::<u64>() as f64;
        let first = device.histogram.first().map(|bin| (unit.scale_ms(bin.low_ms), 0.0));
        let last = device.histogram.last().map(|bin| (unit.scale_ms(bin.high_ms), 0.0));
        let bins =
            device.histogram.iter().map(|bin| (unit.scale_ms(bin.low_ms), bin.count as f64 / total * 100.0));
        Series::new(&device.name, mark, style, first.into_iter().chain(bins).chain(last))
    });
    let series = series.collect();
    let share = Axis::linear("share of requests", "%").starting_at(0.0);
    Chart::plot("histogram", Axis::log("response time", unit.name), share, series)
}

/// Devices whose mean times lie further apart than this are drawn as shares, or the short would vanish.
const ABSOLUTE_RATIO_MAX: f64 = 20.0;

fn breakdown(devices: &[DeviceSection], unit: TimeUnit) -> Chart {
    let known: Vec<_> = devices
        .iter()
        .filter_map(|device| device.summary.breakdown.map(|breakdown| (&device.name, breakdown)))
        .filter(|(_, breakdown)| breakdown.total_ms() > 0.0)
        .collect();
    let totals = || known.iter().map(|(_, breakdown)| breakdown.total_ms());
    let is_relative =
        totals().fold(0.0, f64::max) > ABSOLUTE_RATIO_MAX * totals().fold(f64::INFINITY, f64::min);
    let totals = column(&totals().map(|total| Some(unit.scale_ms(total))).collect::<Vec<_>>());
    let totals = totals.into_iter().map(|total| format!("{total} {}", unit.name));
    let names = known.first().map_or([""; 9], |(_, first)| first.parts_ms().map(|(name, _)| name));
    let series = (0..names.len()).filter_map(|part| {
        let values: Vec<f64> = known
            .iter()
            .map(|(_, breakdown)| {
                if is_relative {
                    breakdown.shares_pct()[part].1
                } else {
                    unit.scale_ms(breakdown.parts_ms()[part].1)
                }
            })
            .collect();
        values.iter().any(|value| *value > 0.0).then(|| {
            let points = values.iter().enumerate().map(|(bar, value)| (bar as f64, *value));
            Series::new(&names[part].replace('_', " "), Mark::Part, part, points)
        })
    });
    let axis = if is_relative {
        Axis::linear("share of the mean response time", "%").ending_at(100.0)
    } else {
        Axis::linear("mean response time", unit.name)
    };
    let bars = known.iter().map(|(name, _)| (*name).clone()).zip(totals);
    Chart::stack("breakdown", axis, bars, series.collect())
}

fn over_time(
    devices: &[DeviceSection],
    id: &str,
    clock: TimeUnit,
    y: Axis,
    value: impl Fn(&TimeBin) -> Option<f64>,
) -> Chart {
    let series = devices.iter().enumerate().map(|(style, device)| {
        let bins = coarsened(&device.timeline);
        // The last bin is seldom full, so its rate would seem to drop.
        let whole = bins.len().saturating_sub(1);
        let points = bins[..whole].iter().filter_map(|bin| {
            value(bin).map(|value| (clock.scale_s(bin.start_s + bin.width_s / 2.0), value))
        });
        let width = bins.first().map_or(0.0, |bin| clock.scale_s(bin.width_s));
        Series::new(&device.name, Mark::Line, style, points).in_intervals(width)
    });
    let series = series.collect();
    let seconds = devices.iter().map(|device| device.summary.duration_s).fold(0.0, f64::max);
    Chart::plot(
        id,
        Axis::linear("time", clock.name).starting_at(0.0).ending_at(clock.scale_s(seconds)),
        y,
        series,
    )
    .with_bands(devices.iter().flat_map(|device| bands(device, devices.len() > 1, clock)))
}

/// The faults of a device on an axis of time, each with the name of the device if there are several.
fn bands(
    device: &DeviceSection,
    is_one_of_several: bool,
    clock: TimeUnit,
) -> impl Iterator<Item = (String, f64, f64)> {
    device.faults.iter().map(move |FaultBand { name, start_s, end_s }| {
        let name = if is_one_of_several { format!("{}: {name}", device.name) } else { name.clone() };
        (name, clock.scale_s(*start_s), clock.scale_s(*end_s))
    })
}

/// Requests that a bin holds on average at least, so that its rate is not that of chance.
const BIN_REQUESTS_MIN: u64 = 8;

/// The timeline with neighbours joined until bins hold enough requests.
fn coarsened(bins: &[TimeBin]) -> Vec<TimeBin> {
    let requests = bins.iter().map(|bin| bin.requests).sum::<u64>().max(1);
    let factor = (bins.len() as u64 * BIN_REQUESTS_MIN).div_ceil(requests).max(1);
    bins.chunks(usize::try_from(factor).unwrap_or(usize::MAX)).map(joined).collect()
}

fn joined(bins: &[TimeBin]) -> TimeBin {
    let timed = || bins.iter().filter_map(|bin| bin.response_mean_ms.map(|mean| (mean, bin.requests as f64)));
    let weight = timed().map(|(_, requests)| requests).sum::<f64>();
    TimeBin {
        start_s: bins[0].start_s,
        width_s: bins.iter().map(|bin| bin.width_s).sum(),
        requests: bins.iter().map(|bin| bin.requests).sum(),
        errors: bins.iter().map(|bin| bin.errors).sum(),
        bytes: bins.iter().map(|bin| bin.bytes).sum(),
        response_mean_ms: (weight > 0.0)
            .then(|| timed().map(|(mean, requests)| mean * requests).sum::<f64>() / weight),
        response_max_ms: bins.iter().filter_map(|bin| bin.response_max_ms).reduce(f64::max),
    }
}

/// A map of the blocks over time for each device.
pub(super) fn maps(devices: &[DeviceSection], charts: &mut Vec<Chart>) -> Vec<Value> {
    let mut places = Vec::new();
    for (index, device) in devices.iter().enumerate().filter(|(_, device)| !device.sample.is_empty()) {
        let clock = TimeUnit::of_s(device.summary.duration_s);
        let kinds = [("read", 0), ("write", 1), ("other", 2)];
        let series = kinds.into_iter().filter_map(|(name, kind)| {
            let points = device.sample.iter().filter(|point| kind_of(point.op) == Some(kind)).map(|point| {
                let at = point.arrival.saturating_since(device.first_arrival).as_s();
                (clock.scale_s(at), point.lbn as f64)
            });
            let series = Series::new(name, Mark::Points, kind, points);
            (!series.points.is_empty()).then_some(series)
        });
        let id = format!("map{index}");
        let time = Axis::linear("arrival", clock.name)
            .starting_at(0.0)
            .ending_at(clock.scale_s(device.summary.duration_s));
        let blocks = Axis::linear("first block", "lbn").starting_at(0.0);
        charts.push(Chart::plot(&id, time, blocks, series.collect()).with_bands(bands(device, false, clock)));
        places.push(context! {
            id,
            title => device.name.as_str(),
            caption => if device.sample.len() as u64 == device.summary.requests {
                "Every request.".to_owned()
            } else {
                format!("{} of {} requests, evenly chosen.", count(device.sample.len() as u64),
                    count(device.summary.requests))
            },
        });
    }
    places
}

/// Returns the index of an operation's symbol on a map. A flush has no place on a map.
const fn kind_of(op: Operation) -> Option<usize> {
    match op {
        Operation::Read => Some(0),
        Operation::Write => Some(1),
        Operation::Discard | Operation::WriteZeroes => Some(2),
        Operation::Flush => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_bins_are_joined_and_dense_bins_kept() {
        let bin = |index: u32, requests| TimeBin {
            start_s: f64::from(index),
            width_s: 1.0,
            requests,
            errors: u64::from(index % 2),
            bytes: 512 * requests,
            response_mean_ms: (requests > 0).then_some(f64::from(index)),
            response_max_ms: (requests > 0).then_some(f64::from(index)),
        };
        let dense: Vec<TimeBin> = (0..10).map(|index| bin(index, 8)).collect();
        assert_eq!(coarsened(&dense), dense);
        let sparse: Vec<TimeBin> = (0..8).map(|index| bin(index, u64::from(index % 2) * 4)).collect();
        let seen = coarsened(&sparse);
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[1].start_s, seen[1].width_s, seen[1].requests), (4.0, 4.0, 8));
        assert_eq!(seen[1].errors, 2);
        assert_eq!((seen[1].response_mean_ms, seen[1].response_max_ms), (Some(6.0), Some(7.0)));
        assert!(coarsened(&[]).is_empty());
    }
}
