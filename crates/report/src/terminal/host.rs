//! Simulated hosts on the terminal: where the elapsed time goes, waits for I/O, and requests by criticality.

use super::{shortened, table};
use crate::document::HostRow;
use crate::number::{count, fixed};
use crate::text::listed;

/// Characters of the longest bar.
const BAR: usize = 42;
const NAME_WIDTH: usize = 22;

/// One character for each part of the time.
const FILLS: [char; 4] = ['█', '▒', '░', '▁'];

pub(super) fn render(rows: &[HostRow]) -> String {
    [times(rows), bars(rows), waits(rows), classes(rows)].join("\n\n")
}

fn name(row: &HostRow) -> String {
    shortened(&row.device, NAME_WIDTH)
}

fn times(rows: &[HostRow]) -> String {
    let header =
        ["device", "elapsed s", "task CPU s", "other CPU s", "false idle s", "idle s"].map(str::to_owned);
    let cells = |row: &HostRow| {
        let parts = row.summary.parts_s().map(|(_, seconds)| fixed(seconds, 3));
        [name(row), fixed(row.summary.elapsed_s, 3)].into_iter().chain(parts).collect()
    };
    table(&header, &rows.iter().map(cells).collect::<Vec<_>>(), 1)
}

fn bars(rows: &[HostRow]) -> String {
    let sum = |row: &HostRow| row.summary.parts_s().iter().map(|(_, seconds)| seconds).sum::<f64>();
    let longest = rows.iter().map(sum).fold(0.0, f64::max);
    let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let mut lines = vec!["where the elapsed time goes".to_owned()];
    for row in rows {
        let mut bar = String::new();
        let mut end_s = 0.0;
        for ((_, seconds), fill) in row.summary.parts_s().iter().zip(FILLS) {
            end_s += seconds;
            // Cells end where the sum up to there ends, so that rounding does not add up.
            let end = if longest > 0.0 { (end_s / longest * BAR as f64).round() as usize } else { 0 };
            bar.extend(std::iter::repeat_n(fill, end.saturating_sub(bar.chars().count())));
        }
        let cpus =
            if row.summary.cpus > 1 { format!(" of {} CPUs", row.summary.cpus) } else { String::new() };
        lines.push(format!("{:width$}  {bar:BAR$}  {} s{cpus}", name(row), fixed(row.summary.elapsed_s, 3)));
    }
    let legend = rows.first().map(|row| row.summary.parts_s()).unwrap_or_default();
    let legend: Vec<String> =
        legend.iter().zip(FILLS).map(|((name, _), fill)| format!("{fill} {name}")).collect();
    lines.push(listed(&format!("{:width$}  ", ""), legend));
    lines.join("\n")
}

fn waits(rows: &[HostRow]) -> String {
    let header =
        ["device", "I/O waits", "mean ms", "I/O wait s", "interrupts", "switches"].map(str::to_owned);
    let cells = |row: &HostRow| {
        let summary = &row.summary;
        vec![
            name(row),
            count(summary.io_waits),
            optional(summary.io_wait_mean_ms),
            fixed(summary.io_wait_s, 3),
            count(summary.interrupts),
            count(summary.context_switches),
        ]
    };
    table(&header, &rows.iter().map(cells).collect::<Vec<_>>(), 1)
}

fn classes(rows: &[HostRow]) -> String {
    let header = ["device", "class", "requests", "mean ms", "max ms", "limit ms", "met %"].map(str::to_owned);
    let of_device = |row: &HostRow| {
        row.summary.classes().map(|(class, summary)| {
            vec![
                name(row),
                class.to_owned(),
                count(summary.requests),
                optional(summary.response_mean_ms),
                optional(summary.response_max_ms),
                optional(summary.limit_mean_ms),
                optional(summary.met_pct),
            ]
        })
    };
    table(&header, &rows.iter().flat_map(of_device).collect::<Vec<_>>(), 2)
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| fixed(value, 2))
}
