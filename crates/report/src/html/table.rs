//! Tables of the page.

use std::collections::BTreeSet;

use minijinja::{Value, context};
use seeklab_analysis::{CriticalitySummary, MetricsSummary, TimeSummary};
use seeklab_core::Criticality;

use crate::document::{DeviceSection, Parameter};
use crate::number::{TimeUnit, column, count, fixed};

/// Names, values and sources.
pub(super) fn parameters(parameters: &[Parameter]) -> Value {
    let rows: Vec<Value> = parameters
        .iter()
        .map(|parameter| {
            context! { name => parameter.name.as_str(), value => parameter.value.as_str(), source => parameter.source.as_deref() }
        })
        .collect();
    let has_sources = parameters.iter().any(|parameter| parameter.source.is_some());
    context! { rows, has_sources }
}

/// A row of the figures: its name, unit and a value per device.
struct Row {
    name: String,
    unit: &'static str,
    values: Vec<Option<f64>>,
    /// Decimals, chosen by the values if `None`.
    decimals: Option<usize>,
}

/// All figures, a row each, with a column per device; rows that no device has are left out.
pub(super) fn figures(devices: &[DeviceSection]) -> Value {
    let times = devices.iter().filter_map(|device| device.summary.response);
    let unit = TimeUnit::of_ms(times.map(|response| response.mean_ms));
    let groups = [
        ("Load", load(devices)),
        ("Response time", times_of(devices, unit, |summary| summary.response, Some(half_width))),
        ("Response time of reads", times_of(devices, unit, |summary| summary.read_response, None)),
        ("Response time of writes", times_of(devices, unit, |summary| summary.write_response, None)),
        ("Response time of failed requests", times_of(devices, unit, |summary| summary.error_response, None)),
        ("Response time by criticality", criticalities(devices, unit)),
        ("Queue time", times_of(devices, unit, |summary| summary.queue, None)),
        ("Service time", times_of(devices, unit, |summary| summary.service, None)),
        ("Device", device(devices)),
    ];
    let groups: Vec<Value> = groups
        .into_iter()
        .map(|(title, rows)| {
            let rows: Vec<Value> = rows
                .into_iter()
                .filter(|row| row.values.iter().any(Option::is_some))
                .map(|row| {
                    let values = match row.decimals {
                        None => column(&row.values),
                        Some(0) => {
                            row.values.iter().map(|v| v.map_or_else(dash, |v| count(v as u64))).collect()
                        }
                        Some(decimals) => {
                            row.values.iter().map(|v| v.map_or_else(dash, |v| fixed(v, decimals))).collect()
                        }
                    };
                    context! { name => row.name, unit => row.unit, values }
                })
                .collect();
            let is_main = matches!(title, "Load" | "Response time" | "Device");
            context! { title, rows, is_main }
        })
        .collect();
    context! { groups, names => devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>() }
}

fn dash() -> String {
    "–".to_owned()
}

fn row(
    devices: &[DeviceSection],
    name: &str,
    unit: &'static str,
    decimals: Option<usize>,
    value: impl Fn(&MetricsSummary) -> Option<f64>,
) -> Row {
    let values = devices.iter().map(|device| value(&device.summary)).collect();
    Row { name: name.to_owned(), unit, values, decimals }
}

/// A count that is only worth a row where it is not zero.
fn unless_zero(value: u64) -> Option<f64> {
    (value > 0).then_some(value as f64)
}

fn load(devices: &[DeviceSection]) -> Vec<Row> {
    let row = |name, unit, decimals, value: fn(&MetricsSummary) -> Option<f64>| {
        row(devices, name, unit, decimals, value)
    };
    let mut rows = vec![
        row("requests", "", Some(0), |s| Some(s.requests as f64)),
        row("reads", "", Some(0), |s| Some(s.reads as f64)),
        row("writes", "", Some(0), |s| Some(s.writes as f64)),
        row("flushes, discards, write-zeroes", "", Some(0), |s| unless_zero(s.others)),
        row("failed requests", "", Some(0), |s| unless_zero(s.errors)),
        row("without completion", "", Some(0), |s| unless_zero(s.incomplete)),
        row("duration", "s", None, |s| Some(s.duration_s)),
        row("requests per second", "1/s", None, |s| s.requests_per_second),
        row("throughput", "MiB/s", None, |s| s.mib_per_second),
    ];
    let all = devices.iter().flat_map(|device| device.summary.statuses.by_name());
    let names: BTreeSet<&str> = all.filter(|(_, requests)| *requests > 0).map(|(name, _)| name).collect();
    for name in names {
        let of = |summary: &MetricsSummary| {
            let counts = summary.statuses.by_name().into_iter();
            counts.filter(|(status, _)| *status == name).map(|(_, requests)| requests).sum()
        };
        rows.push(self::row(devices, &format!("status {name}"), "", Some(0), |s| unless_zero(of(s))));
    }
    rows
}

/// Requests and times of each class that occurs.
fn criticalities(devices: &[DeviceSection], unit: TimeUnit) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, criticality) in Criticality::ALL.into_iter().enumerate() {
        let class = |summary: &MetricsSummary| {
            let classes = summary.by_criticality.as_ref()?;
            Some(*classes.by_class()[index].1).filter(|class| class.requests > 0)
        };
        let name = criticality.name().replace('_', "-");
        let mut counts = |what: &str, value: fn(&CriticalitySummary) -> u64| {
            let value = |s: &MetricsSummary| class(s).and_then(|class| unless_zero(value(&class)));
            rows.push(row(devices, &format!("{name}, {what}"), "", Some(0), value));
        };
        counts("requests", |class| class.requests);
        counts("became time-critical", |class| class.became_time_critical);
        let mut times = |what: &str, value: fn(&CriticalitySummary) -> Option<f64>| {
            let value =
                |s: &MetricsSummary| class(s).and_then(|class| value(&class)).map(|ms| unit.scale_ms(ms));
            rows.push(row(devices, &format!("{name}, {what}"), unit.name, None, value));
        };
        times("mean", |class| class.response_mean_ms);
        times("p99", |class| class.response_p99_ms);
        times("longest", |class| class.response_max_ms);
        times("mean wait of a process since then", |class| class.wait_mean_ms);
        times("longest wait of a process since then", |class| class.wait_max_ms);
    }
    rows
}

fn half_width(summary: &MetricsSummary) -> Option<f64> {
    summary.response_mean_half_width_95_ms
}

fn times_of(
    devices: &[DeviceSection],
    unit: TimeUnit,
    of: fn(&MetricsSummary) -> Option<TimeSummary>,
    half_width: Option<fn(&MetricsSummary) -> Option<f64>>,
) -> Vec<Row> {
    const NAMES: [&str; 7] = ["mean", "standard deviation", "p50", "p90", "p99", "p99.9", "longest"];
    let mut rows: Vec<Row> = NAMES
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let value = |s: &MetricsSummary| of(s).map(|times| unit.scale_ms(times.values_ms()[index]));
            row(devices, name, unit.name, None, value)
        })
        .collect();
    if let Some(half_width) = half_width {
        let value = |s: &MetricsSummary| half_width(s).map(|ms| unit.scale_ms(ms));
        rows.insert(1, row(devices, "± of the mean (95 % confidence)", unit.name, None, value));
    }
    rows
}

fn device(devices: &[DeviceSection]) -> Vec<Row> {
    let row = |name, unit, decimals, value: fn(&MetricsSummary) -> Option<f64>| {
        row(devices, name, unit, decimals, value)
    };
    vec![
        row("utilisation", "%", Some(1), |s| s.utilisation_pct),
        row("outstanding, mean", "", None, |s| s.outstanding_mean),
        row("queue length at arrival, mean", "", None, |s| s.queue_length_mean),
        row("queue length at arrival, most", "", Some(0), |s| s.queue_length_max.map(f64::from)),
        row("seek distance, mean", "cylinders", Some(1), |s| s.seek_cylinders_mean),
        row("seeks of zero cylinders", "%", Some(1), |s| s.seek_zero_pct),
        row("buffer hits", "%", Some(1), |s| s.buffer_hits_pct),
        row("buffer hits of reads", "%", Some(1), |s| s.read_buffer_hits_pct),
        row("buffer hits of writes", "%", Some(1), |s| s.write_buffer_hits_pct),
    ]
}
