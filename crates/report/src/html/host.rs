//! Simulated hosts on the page: a bar for each device, and tables of times, waits and requests by criticality.

use minijinja::{Value, context};

use super::chart::{Axis, Chart, Mark, Series};
use crate::document::HostRow;
use crate::number::{count, fixed};

pub(super) fn context(rows: &[HostRow], charts: &mut Vec<Chart>) -> Value {
    charts.push(chart(rows));
    let devices: Vec<Value> = rows.iter().map(device).collect();
    context! { chart => "host", devices }
}

fn device(row: &HostRow) -> Value {
    let summary = &row.summary;
    let optional = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| fixed(value, 2));
    let times = [summary.elapsed_s].into_iter().chain(summary.parts_s().map(|(_, seconds)| seconds));
    let classes: Vec<Value> = summary
        .classes()
        .into_iter()
        .map(|(name, class)| {
            let times = [class.response_mean_ms, class.response_max_ms, class.limit_mean_ms, class.met_pct];
            context! { name, requests => count(class.requests), times => times.map(optional).to_vec() }
        })
        .collect();
    context! {
        name => row.device.as_str(),
        times => times.map(|seconds| fixed(seconds, 3)).collect::<Vec<_>>(),
        waits => vec![
            count(summary.io_waits),
            optional(summary.io_wait_mean_ms),
            fixed(summary.io_wait_s, 3),
            count(summary.interrupts),
            count(summary.context_switches),
            count(summary.unneeded_read_ahead_blocks),
            count(summary.turned_critical_requests),
        ],
        classes,
    }
}

fn chart(rows: &[HostRow]) -> Chart {
    let names = rows.first().map(|row| row.summary.parts_s()).unwrap_or_default();
    let series = names.iter().enumerate().map(|(part, (name, _))| {
        let seconds = rows.iter().enumerate().map(|(bar, row)| (bar as f64, row.summary.parts_s()[part].1));
        Series::new(name, Mark::Part, part, seconds)
    });
    let bars = rows.iter().map(|row| (row.device.clone(), format!("{} s", fixed(row.summary.elapsed_s, 2))));
    Chart::stack("host", Axis::linear("time of all CPUs", "s"), bars, series.collect())
}
