//! A plot in characters: 80 columns, legible without colour.
//!
//! ```text
//!    5.1 ┤        ▅█        an area is filled with blocks, eighths of a line high; other series are
//!        ┤       ▄█x▆       marks, one in each column of a line, or one for each point; where
//!    0.0 ┼───────┬──────    marks of several series meet, the first is shown
//!        0.1     1     10
//! ```

use crate::page::{Plot, PlotAxis, PlotMark, PlotScale};
use crate::text::listed;

/// Columns between the axes.
pub const PLOT_COLUMNS: usize = 68;

/// Lines between the axes.
const LINES: usize = 12;

/// Columns of the values at the left.
const LEFT: usize = 8;

/// Marks of the series that are not areas.
const MARKS: [char; 6] = ['•', 'x', '+', 'o', '*', '~'];

/// Eighths of a block.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Beyond this ratio of its values an axis that may choose is logarithmic.
const LINEAR_RATIO_MAX: f64 = 30.0;

/// The plot as text; empty if there is nothing to draw.
pub fn render_plot(plot: &Plot) -> String {
    let (xs, ys) = (plot.values(|point| point.0), plot.values(|point| point.1));
    let Some((x, y)) = Scale::of(&plot.x, &xs).zip(Scale::of(&plot.y, &ys)) else { return String::new() };
    let mut cells = vec![[' '; PLOT_COLUMNS]; LINES];
    let mut legend = Vec::new();
    let mut marks = MARKS.into_iter().cycle();
    // The first is drawn last, over the others.
    let drawn = plot.series.iter().filter(|series| !series.points.is_empty());
    let mut drawn: Vec<_> = drawn
        .map(|series| {
            let mark = match series.mark {
                PlotMark::Area => EIGHTHS[8],
                PlotMark::Guide => '·',
                _ => marks.next().expect("they never end"),
            };
            legend.push(format!("{mark} {}", series.name));
            (series, mark)
        })
        .collect();
    let order = |mark: PlotMark| match mark {
        PlotMark::Area => 2,
        PlotMark::Guide => 1,
        _ => 0,
    };
    drawn.sort_by_key(|(series, _)| order(series.mark));
    for (series, mark) in drawn.into_iter().rev() {
        let places = series.points.iter().filter_map(|(at, value)| x.place(*at).zip(y.place(*value)));
        let places: Vec<(f64, f64)> = places.collect();
        match series.mark {
            PlotMark::Area => {
                for column in 0..PLOT_COLUMNS {
                    fill(&mut cells, column, level(&places, column).unwrap_or_default());
                }
            }
            PlotMark::LineAndPoints | PlotMark::Points => {
                for (at, value) in places.iter().rev() {
                    put(&mut cells, column_of(*at), *value, mark);
                }
            }
            PlotMark::Step => {
                for column in 0..PLOT_COLUMNS {
                    // Where it is nothing, nothing is drawn.
                    if let Some(value) = level(&places, column).filter(|value| *value > 0.0) {
                        put(&mut cells, column, value, mark);
                    }
                }
            }
            PlotMark::Line | PlotMark::Guide => {
                for column in 0..PLOT_COLUMNS {
                    if let Some(value) = between(&places, column) {
                        put(&mut cells, column, value, mark);
                    }
                }
            }
        }
    }
    let mut text = format!("{}\n", plot.title);
    if legend.len() > 1 {
        text += &format!("{}\n", listed(&format!("{:LEFT$}   ", ""), legend));
    }
    text += &format!("{:>LEFT$}\n", plot.y.title().trim_start());
    let labels = y.labels(LINES, 5);
    for (line, cells) in cells.iter().enumerate() {
        let below_top = LINES - 1 - line;
        let label = labels.iter().find(|(place, _)| *place == below_top).map_or("", |(_, label)| label);
        let tick = if label.is_empty() { '│' } else { '┤' };
        let cells: String = cells.iter().collect();
        text += format!("{label:>LEFT$} {tick}{cells}").trim_end();
        text.push('\n');
    }
    text + &bottom(&x, &plot.x)
}

/// The axis below, its values and its title.
fn bottom(x: &Scale, axis: &PlotAxis) -> String {
    let labels = x.labels(PLOT_COLUMNS, 7);
    let mut line = ['─'; PLOT_COLUMNS];
    let mut below: Vec<char> = vec![' '; LEFT + 2 + PLOT_COLUMNS];
    let mut free = 0;
    for (place, label) in labels {
        line[place] = '┬';
        let width = label.chars().count();
        let from = (LEFT + 2 + place).saturating_sub(width / 2).min(below.len() - width);
        if from >= free {
            label.chars().enumerate().for_each(|(index, letter)| below[from + index] = letter);
            free = from + width + 2;
        }
    }
    let line: String = line.iter().collect();
    let below: String = below.iter().collect();
    let log = if x.is_log { ", logarithmic" } else { "" };
    let title = format!("{}{log}", axis.title());
    format!("{:LEFT$} └{line}\n{}\n{:LEFT$}  {title:^PLOT_COLUMNS$}", "", below.trim_end(), "")
        .trim_end()
        .to_owned()
        + "\n"
}

/// An axis with its ends.
struct Scale {
    is_log: bool,
    min: f64,
    max: f64,
}

impl Scale {
    fn of(axis: &PlotAxis, values: &[f64]) -> Option<Self> {
        let usable = |is_log: bool| values.iter().copied().filter(move |value| !is_log || *value > 0.0);
        let low = |is_log| usable(is_log).fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_log = match axis.scale {
            PlotScale::Linear => false,
            PlotScale::Log => true,
            PlotScale::ByValues => low(false) > 0.0 && high > LINEAR_RATIO_MAX * low(false),
        };
        let from_zero = (axis.scale == PlotScale::ByValues && !is_log).then_some(0.0);
        let min = axis.min.or(from_zero).filter(|min| !is_log || *min > 0.0).unwrap_or_else(|| low(is_log));
        let max = axis.max.unwrap_or(high);
        if !min.is_finite() || !max.is_finite() {
            return None;
        }
        let max = match max > min {
            true => max,
            false if is_log => min * 10.0,
            false => min + min.abs().max(1.0),
        };
        Some(Self { is_log, min, max })
    }

    /// Returns the position of a value on the axis, from 0 to 1. `None` for a value without a position.
    fn place(&self, value: f64) -> Option<f64> {
        match self.is_log {
            true if value > 0.0 => Some((value / self.min).ln() / (self.max / self.min).ln()),
            true => None,
            false => Some((value - self.min) / (self.max - self.min)),
        }
    }

    /// Returns about `wanted` labels with round values, each with its cell among `cells`.
    fn labels(&self, cells: usize, wanted: usize) -> Vec<(usize, String)> {
        let cell = |value: f64| {
            let place = self.place(value)? * cells as f64;
            ((-1e-6..=cells as f64 + 1e-6).contains(&place)).then(|| (place.max(0.0) as usize).min(cells - 1))
        };
        let label = |value: f64| Some((cell(value)?, number(value)));
        if self.is_log {
            let decades = (self.max / self.min).log10();
            let digits: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let every = (decades / wanted as f64).ceil().max(1.0) as i32;
            let (first, last) = (self.min.log10().floor() as i32, self.max.log10().ceil() as i32);
            let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
            let values = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
            return values.filter_map(label).collect();
        }
        let rough = (self.max - self.min) / wanted as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|nice| nice * power);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
        let first = (self.min / step - 1e-9).ceil() as i64;
        let last = (self.max / step + 1e-9).floor() as i64;
        (first..=last).filter_map(|index| label(index as f64 * step)).collect()
    }
}

/// A value in few digits.
fn number(value: f64) -> String {
    let size = value.abs();
    for (unit, letter) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")] {
        if size >= unit {
            let scaled = value / if letter == "k" { 1e3 } else { unit };
            return format!("{}{letter}", (scaled * 100.0).round() / 100.0);
        }
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Three significant digits, without the zeros behind.
    let digits = (2 - size.log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn column_of(place: f64) -> usize {
    ((place.clamp(0.0, 1.0) * PLOT_COLUMNS as f64) as usize).min(PLOT_COLUMNS - 1)
}

/// The middle of a column.
fn middle(column: usize) -> f64 {
    (column as f64 + 0.5) / PLOT_COLUMNS as f64
}

/// The level that holds at a column.
fn level(places: &[(f64, f64)], column: usize) -> Option<f64> {
    let after = places.partition_point(|(at, _)| *at <= middle(column));
    (after > 0 && after < places.len()).then(|| places[after - 1].1)
}

/// The value of the line through the places at a column.
fn between(places: &[(f64, f64)], column: usize) -> Option<f64> {
    let at = middle(column);
    let after = places.partition_point(|(place, _)| *place <= at);
    let (before, next) = (places.get(after.checked_sub(1)?)?, places.get(after)?);
    let share = (at - before.0) / (next.0 - before.0);
    Some(before.1 + share * (next.1 - before.1))
}

fn fill(cells: &mut [[char; PLOT_COLUMNS]], column: usize, value: f64) {
    let eighths = (value.clamp(0.0, 1.0) * (LINES * 8) as f64).round() as usize;
    // Every point that exists is visible.
    let eighths = if value > 0.0 { eighths.max(1) } else { eighths };
    for (line, cells) in cells.iter_mut().rev().enumerate() {
        cells[column] = EIGHTHS[eighths.saturating_sub(line * 8).min(8)];
    }
}

fn put(cells: &mut [[char; PLOT_COLUMNS]], column: usize, value: f64, mark: char) {
    if !(-1e-9..=1.0 + 1e-9).contains(&value) {
        return;
    }
    let line = ((value.clamp(0.0, 1.0) * LINES as f64) as usize).min(LINES - 1);
    cells[LINES - 1 - line][column] = mark;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PlotSeries;

    fn plot(x: PlotScale, y: PlotScale, series: Vec<PlotSeries>) -> Plot {
        Plot {
            title: "Something".to_owned(),
            caption: String::new(),
            x: PlotAxis::new("response time", "ms", x),
            y: PlotAxis::new("share", "%", y).from_zero(),
            series,
        }
    }

    #[test]
    fn plot_fits_on_a_terminal_and_shows_every_series() {
        let hill = |shift: f64| {
            (0..=68)
                .map(move |step| (f64::from(step), (-(f64::from(step) - shift).powi(2) / 60.0).exp() * 5.0))
        };
        let series = vec![
            PlotSeries::new("measured", PlotMark::Area, hill(30.0)),
            PlotSeries::new("plain", PlotMark::Step, hill(33.0)),
            PlotSeries::new("other", PlotMark::Line, hill(45.0)),
        ];
        let text = render_plot(&plot(PlotScale::Linear, PlotScale::Linear, series));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for part in ["█ measured  • plain  x other", "share [%]", "response time [ms]", "Something"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let column_of = |mark: char| {
            let top = text.lines().skip(3).find(|line| line.contains(mark)).unwrap();
            top.chars().position(|letter| letter == mark).unwrap() - LEFT - 2
        };
        assert!(column_of('•').abs_diff(33) <= 5 && column_of('x').abs_diff(45) <= 5, "{text}");
        // The area fills the column of its top to the bottom, but where a mark stands.
        for line in text.lines().skip(4).take(LINES - 2) {
            assert!("█•x▇".contains(line.chars().nth(LEFT + 2 + 30).unwrap()), "{text}");
        }
    }

    #[test]
    fn logarithmic_axes_are_labelled_by_powers_of_ten() {
        let points = [(0.01, 1.0), (0.1, 10.0), (1.0, 100.0), (10.0, 1e3), (100.0, 1e4), (0.0, 0.0)];
        let line = PlotSeries::new("line", PlotMark::LineAndPoints, points);
        let text = render_plot(&plot(PlotScale::Log, PlotScale::Log, vec![line]));
        assert!(text.contains("logarithmic"));
        for label in ["0.01", "0.1", "1 ", "10", "100", "10k ┤"] {
            assert!(text.contains(label), "{label}: {text}");
        }
        // Five marks on a diagonal.
        assert_eq!(text.matches('•').count(), 5, "{text}");
    }

    #[test]
    fn empty_plot_is_not_drawn() {
        assert_eq!(render_plot(&plot(PlotScale::Log, PlotScale::Log, Vec::new())), "");
        let single = PlotSeries::new("one", PlotMark::LineAndPoints, [(5.0, 5.0)]);
        assert!(render_plot(&plot(PlotScale::ByValues, PlotScale::ByValues, vec![single])).contains('•'));
    }

    #[test]
    fn values_are_short() {
        let texts = [0.0, 0.012_34, 1.0, 2.5, 123.4, 9_999.0, 25_000.0, 3e6].map(number);
        assert_eq!(texts, ["0", "0.0123", "1", "2.5", "123", "9999", "25k", "3M"]);
    }
}
