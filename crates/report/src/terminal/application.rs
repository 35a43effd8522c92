//! An application on several devices, on the terminal: how long it took where, and why to believe it.

use super::{shortened, table, wrapped};
use crate::document::{ApplicationRow, ApplicationSection};
use crate::number::{count, fixed};
use crate::text::listed;

/// Characters of the longest bar.
const BAR: usize = 42;

/// One character for each phase, in turn.
const FILLS: [char; 6] = ['█', '▒', '░', '▚', '═', '▁'];

pub(super) fn render(section: &ApplicationSection) -> String {
    let mut blocks = vec![times(section)];
    if section.phases.len() > 1 || section.rows.iter().any(|row| row.flush_s > 0.0) {
        blocks.push(bars(section));
    }
    blocks.push(exactness(section));
    let trust = section.rows.iter().map(|row| wrapped(&row.device, &row.trust));
    blocks.push(trust.collect::<Vec<_>>().join("\n"));
    blocks.join("\n\n")
}

fn name(row: &ApplicationRow) -> String {
    shortened(&row.device, 22)
}

fn times(section: &ApplicationSection) -> String {
    let header = ["device", "n", "elapsed s", "±sd", "min", "max", "of first", "flush s"].map(str::to_owned);
    let first = section.rows.first().map_or(0.0, |row| row.elapsed_s.mean);
    let rows: Vec<Vec<String>> = section
        .rows
        .iter()
        .map(|row| {
            let elapsed = &row.elapsed_s;
            let sd = if elapsed.n > 1 { fixed(elapsed.sd, 3) } else { "–".to_owned() };
            let share = if first > 0.0 {
                format!("{} %", fixed(100.0 * elapsed.mean / first, 1))
            } else {
                "–".to_owned()
            };
            let [min, max] = row.range_s.map(|s| fixed(s, 3));
            vec![
                name(row),
                count(elapsed.n),
                fixed(elapsed.mean, 3),
                sd,
                min,
                max,
                share,
                fixed(row.flush_s, 3),
            ]
        })
        .collect();
    table(&header, &rows, 1)
}

fn bars(section: &ApplicationSection) -> String {
    let longest = section.rows.iter().map(|row| row.elapsed_s.mean + row.flush_s).fold(0.0, f64::max);
    let width = section.rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let mut lines = vec!["where the time goes".to_owned()];
    for row in &section.rows {
        let mut bar = String::new();
        // Cells end where the sum up to there ends, so that rounding does not add up.
        let mut sum = 0.0;
        let parts = row.phases_s.iter().copied().chain([row.flush_s]);
        for (part, fill) in parts.zip(fills(section)) {
            sum += part;
            let end = if longest > 0.0 { (sum / longest * BAR as f64).round() as usize } else { 0 };
            let missing = end.saturating_sub(bar.chars().count());
            bar.extend(std::iter::repeat_n(fill, missing));
        }
        lines.push(format!("{:width$}  {bar:BAR$}  {} s", name(row), fixed(sum, 3)));
    }
    let names = section.phases.iter().map(String::as_str).chain(["flush"]);
    let legend: Vec<String> =
        names.zip(fills(section)).map(|(name, fill)| format!("{fill} {name}")).collect();
    lines.push(listed(&format!("{:width$}  ", ""), legend));
    lines.join("\n")
}

/// Returns the fill characters of the phases, and of the flush at the end.
fn fills(section: &ApplicationSection) -> impl Iterator<Item = char> {
    FILLS.into_iter().cycle().take(section.phases.len()).chain(['╳'])
}

fn exactness(section: &ApplicationSection) -> String {
    let header =
        ["device", "requests", "model ms", "host ms", "error ms", "late p99 us", "missed"].map(str::to_owned);
    let ms = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |ms| fixed(ms, 3));
    let rows: Vec<Vec<String>> = section
        .rows
        .iter()
        .map(|row| {
            vec![
                name(row),
                count(row.requests.round() as u64),
                ms(row.mp3_mean_ms),
                ms(row.mp1_mean_ms),
                ms(row.ei_avg_ms),
                fixed(row.lateness_p99_us, 1),
                format!("{} %", fixed(row.missed_pct, 2)),
            ]
        })
        .collect();
    table(&header, &rows, 1)
}
