//! `seeklab fit`: clones a device from its trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use seeklab_lab::crates::core::{ByteSize, Ratio, Seed};
use seeklab_lab::crates::devices::description::SCHEMA;
use seeklab_lab::crates::devices::station::Feature;
use seeklab_lab::crates::devices::table::Classes;
use seeklab_lab::crates::files::{check_distinct, check_rereadable};
use seeklab_lab::crates::learning::MODELS;
use seeklab_lab::crates::learning::fit::{LeftOut, Model, find};
use seeklab_lab::crates::report::{PLOT_COLUMNS, Page, folded, render_page_html, render_plot};
use seeklab_lab::failure::Failure;
use seeklab_lab::fit::{FitOptions, FitReport, Fitted, TimesFrom, fit, report, sentence};
use seeklab_lab::fitted::aligned;
use seeklab_lab::output::VERSION;
use seeklab_lab::session::Session;
use serde_json::{Value, json};

use super::reading::Reading;

use crate::delivery::Delivery;
use crate::output::{command_line, print, print_json};

const EXAMPLES: &str = "\
Examples:
  seeklab fit prod.parquet -o prod.toml --report prod.html
  seeklab simulate prod.toml --workload random,poisson=200/s
  seeklab run prod.toml --builtin postmark
  seeklab fit week.srt --device 0 --split 29% -o clone.toml
  seeklab fit depths.json sizes.json -o clone.toml         results of fio, where there is no trace

The saved device is fitted to the whole trace; before that, one that is fitted to the first part predicts the rest.";

/// Fits a device to a trace with response times, and reports how well it predicts the rest of the trace.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Trace with response times, or results of fio as JSON
    trace: PathBuf,
    /// More results of fio
    more: Vec<PathBuf>,
    /// File to write the device description to
    #[arg(long, short = 'o', value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Models to fit and compare. The first is saved
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "station", value_parser = model)]
    model: Vec<&'static Model>,
    /// Number of the device in the trace [default: the only device]
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// Size of the device, for example 500GB [default: as the trace states, otherwise the highest block addressed]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<ByteSize>,
    /// Share of the trace's time to fit before the rest is predicted
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = parse_split)]
    split: Ratio,
    /// Predict with the recorded arrival times. By default, a request that followed a completion in the trace, or
    /// arrived at an idle device, does so in the prediction
    #[arg(long)]
    open: bool,
    /// Start of the response times to fit: when the request arrived at the host's queue, or when the driver
    /// received it [default: issue if seeklab captured the trace, otherwise arrival]
    #[arg(long, value_name = "WHEN")]
    times_from: Option<TimesFromName>,
    /// Do not fit rate and burst limits
    #[arg(long)]
    no_limits: bool,
    /// Fit without these features, for example `pace` or `idle,before`, to see what they contribute
    #[arg(long, value_name = "FEATURE", value_delimiter = ',', value_parser = feature)]
    without: Vec<Feature>,
    /// Classes of request lengths per doubling: 1, 2 or 4
    #[arg(long, value_name = "N", default_value_t = Classes::default().lengths_per_octave)]
    length_classes: u32,
    /// Classes of queue lengths per doubling: 1, 2 or 4
    #[arg(long, value_name = "N", default_value_t = Classes::default().queues_per_octave)]
    queue_classes: u32,
    /// Classes of seek distances per doubling: 1, 2 or 4
    #[arg(long, value_name = "N", default_value_t = Classes::default().distances_per_octave)]
    distance_classes: u32,
    /// Seed of the random draws of the prediction
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Write a report with plots of the measured times and the predictions of each model
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TimesFromName {
    /// Arrival at the host's queue. Queue time in the host belongs to the device
    Arrival,
    /// Issue to the driver. Queue time in the host is excluded
    Issue,
}

impl From<TimesFromName> for TimesFrom {
    fn from(name: TimesFromName) -> Self {
        match name {
            TimesFromName::Arrival => Self::Arrival,
            TimesFromName::Issue => Self::Issue,
        }
    }
}

impl Arguments {
    fn traces(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.trace).chain(&self.more)
    }

    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        for path in [&self.output].into_iter().chain(&self.report) {
            check_distinct(path, self.traces())?;
        }
        self.traces().try_for_each(|trace| check_rereadable(trace))?;
        if super::fit_sweep::run(session, &self.trace, &self.more, &self.output, self.seed, self.json)? {
            return Ok(());
        }
        let options = FitOptions {
            models: self.model.clone(),
            device: self.device,
            capacity: self.capacity,
            split: self.split,
            is_open: self.open,
            times_from: self.times_from.map(TimesFrom::from),
            classes: Classes {
                lengths_per_octave: self.length_classes,
                queues_per_octave: self.queue_classes,
                distances_per_octave: self.distance_classes,
            },
            left_out: LeftOut { limits: self.no_limits, features: self.without.clone() },
            seed: self.seed,
        };
        let mut about = BTreeMap::from([
            ("trace".to_owned(), file_name(&self.trace)),
            ("model".to_owned(), self.model[0].name.to_owned()),
            ("seed".to_owned(), self.seed.to_string()),
            ("version".to_owned(), VERSION.to_owned()),
        ]);
        if !self.without.is_empty() {
            let names: Vec<&str> = self.without.iter().map(|feature| feature.name()).collect();
            about.insert("without".to_owned(), names.join(", "));
        }
        let Fitted { description, report } = fit(
            session,
            &|columns| self.reading.open_columns(session, &self.trace, columns),
            &options,
            about,
        )?;
        let mut table = description;
        table.insert("schema".to_owned(), SCHEMA.into());
        table.insert("title".to_owned(), format!("clone of {}", file_name(&self.trace)).into());
        let validated = report.evaluations.first().map_or_else(
            || "not measured: there was nothing to predict".to_owned(),
            |evaluation| sentence(evaluation, self.split),
        );
        table.insert("validated".to_owned(), validated.into());
        let printed =
            if self.json { print_json(&document(&self, &report)) } else { print(&page(&self, &report)) };
        Delivery::of(printed)
            .file(Some(&self.output), || table.to_string())
            .file(self.report.as_deref(), || render_page_html(&plotted(&self, &report)))
            .finish()
    }
}

/// Returns the model of that name.
fn model(name: &str) -> Result<&'static Model, String> {
    let names = || MODELS.iter().map(|model| model.name).collect::<Vec<_>>().join(", ");
    find(name).ok_or_else(|| format!("there is no such model; there are {}", names()))
}

fn feature(name: &str) -> Result<Feature, String> {
    let names = || Feature::ALL.map(Feature::name).join(", ");
    Feature::from_name(name).ok_or_else(|| format!("there is no such feature; there are {}", names()))
}

/// Parses the share of the time to fit: more than 0 % and at most 100 %.
fn parse_split(text: &str) -> Result<Ratio, String> {
    let split: Ratio = text.parse().map_err(|error| format!("{error}"))?;
    match split.as_f64() {
        share if share > 0.0 && share <= 1.0 => Ok(split),
        _ => Err("more than 0 % of the time, and at most 100 %, is allowed".to_owned()),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn document(arguments: &Arguments, report: &FitReport) -> Value {
    json!({
        "version": VERSION,
        "command": command_line(),
        "seed": arguments.seed.0,
        "trace": arguments.trace,
        "output": arguments.output,
        "report": arguments.report,
        "split": arguments.split.to_string(),
        "parts_alike": report.rest.as_ref().filter(|rest| rest.is_telling()).map(|rest| rest.parts_alike),
        "arrival_model": report::ArrivalModel::of(report),
        "best_model": report::best_model(report).map(|best| best.model),
        "notes": sentences(report).chain(notes(report)).collect::<Vec<_>>(),
        "fit": report,
    })
}

fn page(arguments: &Arguments, report: &FitReport) -> String {
    let heading = format!("{}: {}", arguments.trace.display(), about(report));
    let limits = report.limits.iter().map(|limit| format!("limit: {limit}"));
    let notes = notes(report).into_iter().map(|note| format!("note: {note}"));
    let lines = std::iter::once(heading).chain(limits).chain(notes);
    let mut text: String = lines.map(|line| folded(&line, 2) + "\n").collect();
    if report.evaluations.is_empty() {
        text += "no requests are left to predict: choose another --split\n";
    } else {
        text += &evaluated(arguments, report);
    }
    text += &format!("\nwritten   {} (fitted to all of it)\n", arguments.output.display());
    if let Some(path) = &arguments.report {
        text += &format!("report    {}\n", path.display());
    }
    text
}

/// Describes the fitted requests in one line.
fn about(report: &FitReport) -> String {
    format!(
        "device {}, {} requests with response times over {:.1} s",
        report.device, report.requests, report.span_s
    )
}

/// Returns notes on the fit: how the trace was read, how many requests were omitted, and the start of the
/// response times if requests waited in the host.
fn notes(report: &FitReport) -> Vec<String> {
    let without_issue = if report.times_from == TimesFrom::Issue { report.requests_without_issue } else { 0 };
    let counts = [
        (without_issue, "requests have no issue time; their times start at the arrival"),
        (report.requests_without_response, "requests have no response time and were left out"),
        (report.failed_requests, "requests failed and were left out"),
        (report.recorder_requests, "requests were the recorder's own and were left out"),
    ];
    let left_out =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    report.notes.iter().cloned().chain(left_out).chain(times_from(report)).collect()
}

/// Returns a note on the start of the response times, if requests waited in the host before their issue.
fn times_from(report: &FitReport) -> Option<String> {
    let waited = report.host_queue_mean_ms.filter(|ms| *ms > 0.0)?;
    Some(match report.times_from {
        TimesFrom::Issue => format!(
            "times start at the issue to the driver. The mean time of {waited:.3} ms in the queue of the host before is \
             omitted: a host in front of the clone has a queue of its own (--times-from arrival includes it)"
        ),
        TimesFrom::Arrival => format!(
            "times start at the arrival. They include a mean time of {waited:.3} ms in the queue of the host before the \
             issue (--times-from issue omits it)"
        ),
    })
}

fn parts(arguments: &Arguments, report: &FitReport) -> Option<String> {
    let first = report.evaluations.first()?;
    Some(format!(
        "fitted to {} requests in the first {:.0} % of the time, the {} others predicted",
        first.fitted_requests,
        100.0 * arguments.split.as_f64(),
        first.predicted_requests
    ))
}

fn evaluated(arguments: &Arguments, report: &FitReport) -> String {
    let [times, demerits, verdicts, slow] =
        [report::times(report), report::demerits(report), report::verdicts(report), report::slow(report)]
            .map(|table| aligned(&table));
    let density = report::density(report, PLOT_COLUMNS).map_or_else(String::new, |plot| render_plot(&plot));
    let caption = folded(&report::slow(report).caption, 0);
    let sentences: Vec<String> = sentences(report).map(|text| folded(&text, 0)).collect();
    let bounds = folded(&report::verdicts(report).caption, 0);
    format!(
        "\n{}:\n\n{times}\n{demerits}\n{verdicts}{bounds}\n\n{}\n\n{slow}{caption}\n\n{density}",
        folded(&parts(arguments, report).unwrap_or_default(), 2),
        sentences.join("\n"),
    )
}

/// Statements on the prediction, the most important first.
fn sentences(report: &FitReport) -> impl Iterator<Item = String> {
    let all = [
        report::worst_class(report),
        report::better(report),
        report::stationarity(report),
        report::arrivals(report),
    ];
    all.into_iter().flatten()
}

/// Returns the report with plots.
fn plotted(arguments: &Arguments, report: &FitReport) -> Page {
    let limits = report.limits.iter().map(|limit| format!("limit: {limit}"));
    let notes = sentences(report).chain(limits).chain(notes(report));
    Page {
        title: format!("{}, predicted", file_name(&arguments.trace)),
        subtitle: parts(arguments, report)
            .map_or_else(|| about(report), |parts| format!("{}; {parts}", about(report))),
        generated_by: VERSION.to_owned(),
        command: Some(command_line()),
        notes: notes.collect(),
        sections: report::sections(report),
    }
}
