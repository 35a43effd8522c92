//! Simulated hosts on the terminal: where the elapsed time goes, the figures of tables 4 and 6 of Ganger and Patt (1998), and
//! the times of processes.

use super::{shortened, table};
use crate::document::HostRow;
use crate::host::{figures, incomplete, parts};
use crate::number::{count, fixed};
use crate::text::listed;

/// Characters of the longest bar.
const BAR: usize = 42;
const NAME_WIDTH: usize = 22;

/// One character for each part of the time.
const FILLS: [char; 4] = ['█', '▒', '░', '▁'];

pub(super) fn render(rows: &[HostRow]) -> String {
    let mut blocks = vec![bars(rows), summary(rows)];
    blocks.extend(processes(rows));
    blocks.join("\n\n")
}

fn name(row: &HostRow) -> String {
    shortened(&row.device, NAME_WIDTH)
}

fn bars(rows: &[HostRow]) -> String {
    let sum = |row: &HostRow| row.summary.parts_s().iter().map(|(_, seconds)| seconds).sum::<f64>();
    let longest = rows.iter().filter(|row| row.summary.is_complete()).map(sum).fold(0.0, f64::max);
    let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let mut lines = vec!["where the elapsed time goes".to_owned()];
    for row in rows {
        if !row.summary.is_complete() {
            lines.push(format!("{:width$}  {}", name(row), incomplete(row)));
            continue;
        }
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

/// A table of all figures, a column for each device. The rows of a class follow the number of its requests.
fn summary(rows: &[HostRow]) -> String {
    let header: Vec<String> = ["host".to_owned()].into_iter().chain(rows.iter().map(name)).collect();
    let mut lines: Vec<Vec<String>> = Vec::new();
    for group in figures(rows) {
        for row in group.rows {
            let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
            let name = match (group.title, row.name) {
                ("Task", name) => format!("{name}{unit}"),
                (title, "requests") => title.to_lowercase(),
                (_, name) => format!("· {name}{unit}"),
            };
            lines.push([name].into_iter().chain(row.values).collect());
        }
    }
    table(&header, &lines, 1)
}

/// Tables of the processes of each device, if they are reported.
fn processes(rows: &[HostRow]) -> Option<String> {
    let all = rows.iter().flat_map(|row| &row.processes);
    all.clone().next()?;
    let parts = parts(all);
    let names = ["device", "process", "n", "elapsed s"].map(str::to_owned).into_iter();
    let header: Vec<String> = names.chain(parts.iter().map(|(name, _)| format!("{name} s"))).collect();
    let cells = |row: &HostRow| {
        let device = name(row);
        let cells = |process: &seeklab_analysis::HostProcess| {
            let times = process.parts_s();
            let seconds = [process.elapsed_s].into_iter().chain(parts.iter().map(|(_, part)| times[*part].1));
            [device.clone(), shortened(&process.name, NAME_WIDTH), count(process.processes)]
                .into_iter()
                .chain(seconds.map(|seconds| fixed(seconds, 3)))
                .collect::<Vec<String>>()
        };
        row.processes.iter().map(cells).collect::<Vec<_>>()
    };
    Some(table(&header, &rows.iter().flat_map(cells).collect::<Vec<_>>(), 2))
}
