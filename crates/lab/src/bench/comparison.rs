//! Compares the results of repeated measurements: changes with their intervals, and thresholds that they must not exceed.

use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_analysis::{RepetitionChange, ThresholdVerdict};
use seeklab_core::Seed;
use seeklab_core::names::near_matches;
use seeklab_report::{Page, PageSection, PlainTable};
use serde::Serialize;

use super::compared_runs::{ComparedRun, ComparedRuns, read_runs};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;
use seeklab_core::number_words::counted;

/// Figures of a measurement, a phase or a stream that are compared without being named.
const FIGURES: [&str; 8] = [
    "requests_per_second",
    "mib_per_second",
    "response_mean_ms",
    "response_p50_ms",
    "response_p99_ms",
    "response_p999_ms",
    "service_mean_ms",
    "service_p99_ms",
];

/// A threshold of the change of a figure, such as `response_p99_ms +5%`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeThreshold {
    /// Name of the figure: `response_p99_ms`, `read.response_p99_ms`, `phases.burst.response_p99_ms`.
    pub figure: String,
    /// Threshold in percent.
    pub threshold_pct: f64,
    /// True if an increase exceeds it, false if a decrease does.
    pub is_upper: bool,
}

impl FromStr for ChangeThreshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            "write a figure and a change, such as 'response_p99_ms +5%' or 'requests_per_second -3%'"
                .to_owned()
        };
        let (figure, change) = text.trim().rsplit_once(char::is_whitespace).ok_or_else(form)?;
        let figure = figure.trim_end();
        let is_upper = match change.chars().next() {
            Some('+') => true,
            Some('-') => false,
            _ => return Err(form()),
        };
        let number = change.strip_suffix('%').ok_or_else(form)?;
        let threshold_pct: f64 = number.parse().map_err(|_| form())?;
        let is_possible = threshold_pct.is_finite() && threshold_pct > -100.0;
        if !is_possible {
            return Err(format!("{change}: a change is above -100%"));
        }
        Ok(Self { figure: figure.to_owned(), threshold_pct, is_upper })
    }
}

impl std::fmt::Display for ChangeThreshold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.is_upper { "+" } else { "-" };
        write!(formatter, "{} {sign}{}%", self.figure, self.threshold_pct.abs())
    }
}

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct RunComparisonOptions {
    /// Folder or document of the runs before.
    pub before: PathBuf,
    /// Folder or document of the runs after.
    pub after: PathBuf,
    /// Thresholds.
    pub thresholds: Vec<ChangeThreshold>,
    /// Seed of the drawn sets.
    pub seed: Seed,
}

/// Changes from one set of runs to another.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunComparisonFigures {
    /// Folder or document of the runs before.
    pub before: String,
    /// Their number.
    pub before_runs: usize,
    /// Folder or document of the runs after.
    pub after: String,
    /// Their number.
    pub after_runs: usize,
    /// The figures.
    pub figures: Vec<FigureChange>,
    /// The thresholds.
    pub thresholds: Vec<ThresholdFigures>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Change of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FigureChange {
    /// Name of the figure. Runs of one phase have the keys of `bench --json`; runs of several phases have
    /// `phases.PHASE.KEY` only. Streams have `phases.PHASE.streams.STREAM.KEY`.
    pub figure: String,
    /// Mean over the runs before.
    pub before_mean: f64,
    /// Mean over the runs after.
    pub after_mean: f64,
    /// Change of the geometric mean, in percent.
    pub change_pct: Option<f64>,
    /// Lower end of its 95 % interval; null with one run.
    pub change_low_pct: Option<f64>,
    /// Upper end of its 95 % interval.
    pub change_high_pct: Option<f64>,
    /// Runs of each side after which the interval is expected to leave out zero; null of more than a million, or if unknown.
    pub runs_needed: Option<u64>,
}

/// Position of a change to a threshold.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ThresholdFigures {
    /// The threshold as text.
    pub threshold: String,
    /// Figure.
    pub figure: String,
    /// Threshold in percent.
    pub threshold_pct: f64,
    /// Change in percent.
    pub change_pct: f64,
    /// `exceeded` if the whole interval is beyond the threshold, `kept` if it is within, otherwise `undecided`.
    pub verdict: &'static str,
    /// Runs of each side after which a verdict is expected; null of more than a million.
    pub runs_needed: Option<u64>,
}

/// Result of a comparison.
#[derive(Debug)]
pub struct RunComparisonResult {
    /// Figures, as one JSON document.
    pub figures: RunComparisonFigures,
    /// The same as a page.
    pub page: Page,
    /// The failed check, if a threshold is exceeded.
    pub failure: Option<Failure>,
}

/// Compares the runs.
///
/// # Errors
/// If there are no runs, a figure is missing, or a threshold has fewer than two runs of each side.
pub fn compare_runs(
    session: &Session,
    options: &RunComparisonOptions,
) -> Result<RunComparisonResult, Failure> {
    let (before, after) = (read_runs(&options.before)?, read_runs(&options.after)?);
    let thresholds = options.thresholds.iter().map(|threshold| threshold.figure.clone());
    let mut names: Vec<String> = thresholds.collect();
    let prefixes = &before.runs[0].prefixes;
    names.extend(prefixes.iter().flat_map(|prefix| FIGURES.map(|figure| format!("{prefix}{figure}"))));
    let mut changes: Vec<FigureChange> = Vec::new();
    let mut known = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if changes.iter().any(|change| change.figure == *name) {
            continue;
        }
        let is_threshold = index < options.thresholds.len();
        let values = (values(&before.runs, name), values(&after.runs, name));
        let (Some(of_before), Some(of_after)) = values else {
            if is_threshold {
                return Err(missing_figure(name, &before.runs, &after.runs));
            }
            continue;
        };
        let change = RepetitionChange::of(&of_before, &of_after, options.seed);
        if is_threshold && change.is_none() {
            return Err(Failure::new(format!(
                "--fail-if: `{name}` has no interval: {} before and {} after, all above zero, are needed",
                counted(2, "run"),
                counted(2, "run")
            ))
            .hint("repeat each measurement five times, for example"));
        }
        changes.push(figure_change(name, &of_before, &of_after, change.as_ref()));
        known.extend(change.map(|change| (name.clone(), change)));
    }
    let thresholds: Vec<ThresholdFigures> = options
        .thresholds
        .iter()
        .filter_map(|threshold| {
            let (_, change) = known.iter().find(|(name, _)| *name == threshold.figure)?;
            Some(threshold_figures(threshold, change))
        })
        .collect();
    let exceeded: Vec<&str> = thresholds
        .iter()
        .filter(|threshold| threshold.verdict == "exceeded")
        .map(|threshold| threshold.threshold.as_str())
        .collect();
    let failure = (!exceeded.is_empty())
        .then(|| Failure::check(format!("the change exceeds {}", exceeded.join(" and "))));
    let figures = RunComparisonFigures {
        before: options.before.display().to_string(),
        before_runs: before.runs.len(),
        after: options.after.display().to_string(),
        after_runs: after.runs.len(),
        notes: notes([&before, &after], &thresholds),
        figures: changes,
        thresholds,
    };
    let page = page(&figures, session);
    Ok(RunComparisonResult { figures, page, failure })
}

fn figure_change(
    name: &str,
    before: &[f64],
    after: &[f64],
    change: Option<&RepetitionChange>,
) -> FigureChange {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (before_mean, after_mean) = (mean(before), mean(after));
    let of_means = (before_mean > 0.0).then(|| 100.0 * (after_mean / before_mean - 1.0));
    let rounded = |pct: f64| (pct * 1e6).round() / 1e6;
    FigureChange {
        figure: name.to_owned(),
        before_mean,
        after_mean,
        change_pct: change.map(|change| change.change_pct).or(of_means).map(rounded),
        change_low_pct: change.map(|change| rounded(change.low_pct)),
        change_high_pct: change.map(|change| rounded(change.high_pct)),
        runs_needed: change.and_then(|change| change.runs_needed(0.0)),
    }
}

fn threshold_figures(threshold: &ChangeThreshold, change: &RepetitionChange) -> ThresholdFigures {
    ThresholdFigures {
        threshold: threshold.to_string(),
        figure: threshold.figure.clone(),
        threshold_pct: threshold.threshold_pct,
        change_pct: (change.change_pct * 1e6).round() / 1e6,
        verdict: match change.verdict(threshold.threshold_pct, threshold.is_upper) {
            ThresholdVerdict::Exceeded => "exceeded",
            ThresholdVerdict::Kept => "kept",
            ThresholdVerdict::Undecided => "undecided",
        },
        runs_needed: change.runs_needed(threshold.threshold_pct),
    }
}

/// Values of a figure in all runs; `None` if a run has none.
fn values(runs: &[ComparedRun], name: &str) -> Option<Vec<f64>> {
    runs.iter().map(|run| run.figures.get(name).copied()).collect()
}

fn missing_figure(name: &str, before: &[ComparedRun], after: &[ComparedRun]) -> Failure {
    let first = &before[0];
    let in_all = |of: &&str| before.iter().chain(after).all(|run| run.figures.contains_key(*of));
    let near = near_matches(name, first.figures.keys().map(String::as_str).filter(in_all));
    let failure = Failure::new(format!("--fail-if: not every run has a figure `{name}`{near}"));
    match first.prefixes.iter().find(|prefix| first.figures.contains_key(&format!("{prefix}{name}"))) {
        Some(prefix) => failure.hint(format!(
            "runs of several phases have figures of each phase, such as `{prefix}{name}`, and none of all phases together"
        )),
        None => failure.hint(
            "`seeklab schema bench` lists the figures; those of an operation are read.KEY and write.KEY, those of a phase and \
             its streams phases.PHASE.KEY and phases.PHASE.streams.STREAM.KEY",
        ),
    }
}

fn notes(sides: [&ComparedRuns; 2], thresholds: &[ThresholdFigures]) -> Vec<String> {
    let mut notes = Vec::new();
    let runs = || sides.iter().flat_map(|side| &side.runs);
    let first = &sides[0].runs[0];
    for (key, pick) in
        [("target", ComparedRun::target as fn(&ComparedRun) -> &str), ("workload", ComparedRun::workload)]
    {
        if let Some(other) = runs().map(pick).find(|other| *other != pick(first)) {
            notes.push(format!(
                "the runs have different values of `{key}`: \"{}\" and \"{other}\"",
                pick(first)
            ));
        }
    }
    let mut parts: Vec<&str> = runs().flat_map(|run| &run.prefixes).map(String::as_str).collect();
    parts.sort_unstable();
    parts.dedup();
    for part in parts {
        let is_in = |run: &&ComparedRun| run.prefixes.iter().any(|prefix| prefix == part);
        if !part.is_empty() && !runs().all(|run| is_in(&run)) {
            let name = part.trim_end_matches('.');
            notes.push(format!("`{name}` is not in every run, so its figures are not compared"));
        }
    }
    let stopped: usize = sides.iter().map(|side| side.stopped_repetitions).sum();
    if stopped > 0 {
        let stopped = counted(stopped, "repetition");
        notes.push(format!("left out: {stopped} that the caller stopped"));
    }
    let distrusted = runs().filter(|run| !run.is_trusted).count();
    if distrusted > 0 {
        notes.push(format!("{} of the runs did not trust their own figures: see their notes", distrusted));
    }
    for threshold in thresholds.iter().filter(|threshold| threshold.verdict == "undecided") {
        notes.push(match threshold.runs_needed {
            Some(runs) => {
                format!("{}: undecided; about {runs} runs of each side would decide it", threshold.threshold)
            }
            None => format!(
                "{}: undecided; no number of runs up to a million would decide it",
                threshold.threshold
            ),
        });
    }
    notes
}

fn number(value: f64) -> String {
    match value.abs() {
        of if of >= 1000.0 => format!("{value:.0}"),
        of if of >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn page(figures: &RunComparisonFigures, session: &Session) -> Page {
    let pct = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:+.2}"));
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let row = |change: &FigureChange| {
        vec![
            change.figure.clone(),
            number(change.before_mean),
            number(change.after_mean),
            pct(change.change_pct),
            pct(change.change_low_pct),
            pct(change.change_high_pct),
            change.runs_needed.map_or_else(|| "-".to_owned(), |runs| runs.to_string()),
        ]
    };
    let mut tables = vec![PlainTable {
        columns: columns(&["figure", "before", "after", "change %", "from %", "to %", "runs needed"]),
        rows: figures.figures.iter().map(row).collect(),
        caption: format!(
            "Means of {} before and {} after. The change has a 95 % interval by the bootstrap. Runs needed: of each side, for an \
             interval without zero.",
            counted(figures.before_runs, "run"),
            counted(figures.after_runs, "run")
        ),
    }];
    if !figures.thresholds.is_empty() {
        let row = |threshold: &ThresholdFigures| {
            let runs = threshold.runs_needed.map_or_else(|| "-".to_owned(), |runs| runs.to_string());
            vec![
                threshold.threshold.clone(),
                format!("{:+.2}", threshold.change_pct),
                threshold.verdict.to_owned(),
                runs,
            ]
        };
        tables.push(PlainTable {
            columns: columns(&["threshold", "change %", "verdict", "runs needed"]),
            rows: figures.thresholds.iter().map(row).collect(),
            caption:
                "Exceeded: the whole interval is beyond the threshold. Kept: the whole interval is within it."
                    .to_owned(),
        });
    }
    Page {
        title: format!("{} against {}", figures.after, figures.before),
        subtitle: String::new(),
        generated_by: VERSION.to_owned(),
        command: session.command(),
        notes: figures.notes.clone(),
        sections: vec![PageSection { title: "Changes".to_owned(), tables, ..PageSection::default() }],
    }
}
