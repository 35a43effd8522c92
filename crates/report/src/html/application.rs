//! An application on the page: a bar for each device, stacked by phase, and a table of what it rests on.

use minijinja::{Value, context};

use super::chart::{Axis, Chart, Mark, Series};
use crate::document::{ApplicationRow, ApplicationSection};
use crate::number::{count, fixed};

pub(super) fn context(section: &ApplicationSection, charts: &mut Vec<Chart>) -> Value {
    let first = section.rows.first().map_or(0.0, |row| row.elapsed_s.mean);
    charts.push(chart(section));
    let rows: Vec<Value> = section.rows.iter().map(|row| self::row(row, first)).collect();
    context! { chart => "application", phases => section.phases.clone(), rows }
}

fn row(row: &ApplicationRow, first: f64) -> Value {
    let ms = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |ms| fixed(ms, 3));
    let elapsed = &row.elapsed_s;
    let spread = match elapsed.n {
        0 | 1 => "–".to_owned(),
        _ => format!(
            "± {} ({} … {})",
            fixed(elapsed.sd, 3),
            fixed(row.range_s[0], 3),
            fixed(row.range_s[1], 3)
        ),
    };
    let share =
        if first > 0.0 { format!("{} %", fixed(100.0 * elapsed.mean / first, 1)) } else { "–".to_owned() };
    context! {
        device => row.device.as_str(),
        n => count(elapsed.n),
        elapsed => fixed(elapsed.mean, 3),
        spread,
        share,
        phases => row.phases_s.iter().map(|s| fixed(*s, 3)).collect::<Vec<_>>(),
        flush => fixed(row.flush_s, 3),
        requests => count(row.requests.round() as u64),
        model => ms(row.mp3_mean_ms),
        host => ms(row.mp1_mean_ms),
        error => ms(row.ei_avg_ms),
        late => fixed(row.lateness_p99_us, 1),
        missed => format!("{} %", fixed(row.missed_pct, 2)),
        trust => row.trust.as_str(),
    }
}

fn chart(section: &ApplicationSection) -> Chart {
    let bars = |value: &dyn Fn(&ApplicationRow) -> f64| {
        section.rows.iter().map(value).enumerate().map(|(bar, value)| (bar as f64, value)).collect::<Vec<_>>()
    };
    let mut series: Vec<Series> = section
        .phases
        .iter()
        .enumerate()
        .map(|(phase, name)| {
            let points = bars(&|row| row.phases_s.get(phase).copied().unwrap_or(0.0));
            Series::new(name, Mark::Part, phase, points)
        })
        .collect();
    series.push(Series::new("sync and unmount", Mark::Part, series.len(), bars(&|row| row.flush_s)));
    let total = |row: &ApplicationRow| format!("{} s", fixed(row.elapsed_s.mean + row.flush_s, 2));
    let bars = section.rows.iter().map(|row| (row.device.clone(), total(row)));
    Chart::stack("application", Axis::linear("time", "s"), bars, series)
}
