//! `seeklab fit`: clones a device from its trace.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use seeklab_lab::crates::core::number_words::{counted, numbered};
use seeklab_lab::crates::core::{ByteSize, Seed};
use seeklab_lab::crates::devices::station::Feature;
use seeklab_lab::crates::devices::table::Classes;
use seeklab_lab::crates::learning::MODELS;
use seeklab_lab::crates::learning::fit::{LeftOut, Model, find};
use seeklab_lab::crates::report::{PLOT_COLUMNS, Page, folded, render_page_html, render_plot};
use seeklab_lab::failure::Failure;
use seeklab_lab::fit::fio::is_fio;
use seeklab_lab::fit::notes::{details, notes, statements, verdict};
use seeklab_lab::fit::{
    FitFiles, FitOptions, FitReport, FitResult, JobsFitFiles, PredictedPart, Requirement, SeveralFitFiles,
    SeveralFitResult, Split, SweepFiles, TimesFrom, WarmUpChoice, fit_file, fit_several, input_name, report,
};
use seeklab_lab::fitted::aligned;
use seeklab_lab::output::VERSION;
use seeklab_lab::session::Session;

use super::reading::{Reading, TimesFromName, input_path};

use crate::delivery::Delivery;
use crate::output::{print, print_json};
use crate::standard_input::make_rereadable;

const EXAMPLES: &str = "\
Examples:
  seeklab fit prod.parquet -o prod.toml --report prod.html
  seeklab simulate prod.toml --workload random,poisson=200/s
  seeklab run prod.toml --builtin postmark
  seeklab fit week.srt --device 0 --split 29% -o clone.toml
  seeklab fit month.csv --device all --days 7 --predict all -o disks.toml     the protocol of Thornock et al. (1997)
  seeklab fit db.sys --as jobs -o mix.toml                 a recorded program as a stream of jobs
  seeklab fit depths.json sizes.json -o clone.toml         results of fio, where there is no trace

The saved device is fitted to the whole trace; before that, one that is fitted to the first part predicts the rest.";

/// Fits a device to a trace with response times, and reports how well it predicts the rest of the trace.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Trace with response times, or results of fio as JSON. `-` is standard input
    #[arg(value_parser = input_path())]
    trace: PathBuf,
    /// More results of fio. With --as jobs, more system-level traces, whose rates are compared with those of the first
    #[arg(value_parser = input_path())]
    more: Vec<PathBuf>,
    /// File to write the device description to
    #[arg(long, short = 'o', value_name = "FILE")]
    output: PathBuf,
    /// Fit a workload instead of a device. `jobs` makes a stream of jobs of the programs of a system-level trace
    #[arg(
        long = "as",
        value_name = "KIND",
        value_enum,
        conflicts_with_all = [
            "model", "device", "capacity", "split", "days", "predict", "open", "allow_gaps", "warm_up", "times_from", "no_limits", "without", "length_classes",
            "queue_classes", "distance_classes", "seed", "report", "require", "evaluated",
        ]
    )]
    kind: Option<WorkloadKind>,
    /// Size of a sector of the jobs
    #[arg(long, value_name = "SIZE", default_value = "4KiB", requires = "kind")]
    sector: ByteSize,
    /// Rate states of the input, and of the output, at most
    #[arg(long, value_name = "N", default_value_t = 8, requires = "kind", value_parser = clap::value_parser!(u8).range(1..=64))]
    states: u8,
    #[command(flatten)]
    reading: Reading,
    /// Models to fit and compare. The one that predicts best is saved; of models that predict alike, the first
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "station,plain,trivial", value_parser = model)]
    model: Vec<&'static Model>,
    /// Exit with status 1 if an error of the saved model exceeds a bound in percent, for example read_p99_pct<=20. Figures:
    /// mean_pct, p99_pct, demerit_pct and class_pct, of the worst operation or behind the name of one, and out_of_range_pct
    #[arg(long, value_name = "FIGURE<=VALUE", value_delimiter = ',')]
    require: Vec<Requirement>,
    /// Number of the device in the trace, or `all` to fit all devices into one description [default: the only device]
    #[arg(long, value_name = "N|all", value_parser = parse_device)]
    device: Option<DeviceChoice>,
    /// Size of the device, for example 500GB [default: as the trace states, otherwise the highest block addressed]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<ByteSize>,
    /// Share of the trace's time to fit before the prediction, or that time, for example 36h. With 100%, nothing is predicted
    #[arg(long, value_name = "SHARE|TIME", default_value = "50%", conflicts_with = "days")]
    split: Split,
    /// Days of the trace to fit before the prediction
    #[arg(long, value_name = "N", value_parser = parse_days)]
    days: Option<Split>,
    /// Part of the trace to predict by models of the first part
    #[arg(long, value_name = "PART", value_enum, default_value_t = PredictedName::Rest)]
    predict: PredictedName,
    /// Predict with the recorded arrival times. By default, a request that followed a completion in the trace, or
    /// arrived at an idle device, does so in the prediction
    #[arg(long)]
    open: bool,
    /// Fit to all rows, even if some arrive so far from all others that the clock was probably wrong
    #[arg(long)]
    allow_gaps: bool,
    /// Start of the trace to leave out: `none`, a time such as 30s, or `auto`: a slow start of the device, if the fitted part
    /// shows one that nothing else explains (`trivial` keeps it). A note says if it does
    #[arg(long, value_name = "none|auto|TIME", default_value = "auto")]
    warm_up: WarmUpChoice,
    /// Start of the response times to fit: when the request arrived at the host's queue, or when the driver
    /// received it [default: issue if seeklab captured the trace, otherwise arrival]
    #[arg(long, value_name = "WHEN")]
    times_from: Option<TimesFromName>,
    /// Do not fit rate and burst limits
    #[arg(long)]
    no_limits: bool,
    /// Fit without these features, for example `queue` or `idle,before`, to see what they contribute
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
    /// Write the device of the prediction, which was fitted to the first part, and print the command that repeats the
    /// prediction by it
    #[arg(long, value_name = "FILE.toml")]
    evaluated: Option<PathBuf>,
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
enum WorkloadKind {
    /// A stream of jobs that compute while their buffers are written and read
    Jobs,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        if let Some(WorkloadKind::Jobs) = self.kind {
            let traces = std::iter::once(self.trace).chain(self.more).collect();
            let files = JobsFitFiles {
                traces,
                output: self.output,
                sector: self.sector,
                states: usize::from(self.states),
            };
            return super::fit_jobs::run(session, &files, self.json);
        }
        make_rereadable(session, std::iter::once(&self.trace).chain(&self.more).map(PathBuf::as_path))?;
        if is_fio(&self.trace)? {
            refuse_given(
                &[
                    ("--require", !self.require.is_empty()),
                    ("--device", self.device.is_some()),
                    ("--capacity", self.capacity.is_some()),
                    ("--days", self.days.is_some()),
                    ("--open", self.open),
                    ("--allow-gaps", self.allow_gaps),
                    ("--warm-up", self.warm_up != WarmUpChoice::default()),
                    ("--times-from", self.times_from.is_some()),
                    ("--no-limits", self.no_limits),
                    ("--without", !self.without.is_empty()),
                    ("--evaluated", self.evaluated.is_some()),
                    ("--report", self.report.is_some()),
                ],
                "is of a trace, and these are results of fio",
                "leave it out, or fit a trace of requests (fio's --write_lat_log with log_offset=1)",
            )?;
            let results = std::iter::once(self.trace).chain(self.more).collect();
            return super::fit_sweep::run(
                session,
                &SweepFiles { results, output: self.output },
                self.seed,
                self.json,
            );
        }
        if let Some(more) = self.more.first() {
            return Err(Failure::new(format!(
                "{}: a second file, but a model is fitted to one trace",
                more.display()
            ))
            .hint("only results of fio (`--output-format=json`) may lie in several files"));
        }
        let options = FitOptions {
            models: self.model.clone(),
            device: match self.device {
                Some(DeviceChoice::Number(number)) => Some(number),
                Some(DeviceChoice::All) | None => None,
            },
            capacity: self.capacity,
            split: self.days.unwrap_or(self.split),
            predicted: match self.predict {
                PredictedName::Rest => PredictedPart::Rest,
                PredictedName::All => PredictedPart::All,
            },
            is_open: self.open,
            allow_gaps: self.allow_gaps,
            warm_up: self.warm_up,
            times_from: self.times_from.map(TimesFrom::from),
            classes: Classes {
                lengths_per_octave: self.length_classes,
                queues_per_octave: self.queue_classes,
                distances_per_octave: self.distance_classes,
            },
            left_out: LeftOut { limits: self.no_limits, features: self.without.clone() },
            seed: self.seed,
        };
        if let Some(DeviceChoice::All) = self.device {
            let of_one = [
                ("--capacity", self.capacity.is_some()),
                ("--report", self.report.is_some()),
                ("--require", !self.require.is_empty()),
            ];
            refuse_given(
                &of_one,
                "is of one device, and --device all fits all of them",
                "choose one with --device N",
            )?;
            let files = SeveralFitFiles {
                trace: self.trace,
                reading: self.reading.options(),
                output: self.output,
                evaluated: self.evaluated,
            };
            return several(session, &files, &options, self.json);
        }
        let files = FitFiles {
            trace: self.trace,
            reading: self.reading.options(),
            output: self.output,
            report: self.report,
            evaluated: self.evaluated,
            requirements: self.require,
        };
        let result = fit_file(session, &files, &options)?;
        let printed = if self.json { print_json(&result) } else { print(&page(&result)) };
        let delivery = Delivery::of(session, printed)
            .file(Some(&result.output), || result.description.to_string())
            .file(result.evaluated.as_deref(), || description_text(result.evaluated_description.as_ref()))
            .file(result.report.as_deref(), || render_page_html(&plotted(&result)));
        result.unmet().fold(delivery, |delivery, unmet| delivery.and(Err(Failure::check(unmet)))).finish()
    }
}

/// Refuses the first of the options that is given.
fn refuse_given(options: &[(&str, bool)], reason: &str, hint: &str) -> Result<(), Failure> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::new(format!("{option}: {reason}")).hint(hint)),
        None => Ok(()),
    }
}

/// Devices of the trace that are fitted.
#[derive(Debug, Clone, Copy)]
enum DeviceChoice {
    Number(u16),
    All,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PredictedName {
    /// The requests behind the fitted part
    Rest,
    /// All requests, those of the fitted part among them
    All,
}

/// Fits all devices of a trace.
fn several(
    session: &Session,
    files: &SeveralFitFiles,
    options: &FitOptions,
    json: bool,
) -> Result<(), Failure> {
    let result = fit_several(session, files, options)?;
    let printed = if json { print_json(&result) } else { print(&several_page(&result)) };
    Delivery::of(session, printed)
        .file(Some(&result.output), || result.description.to_string())
        .file(result.evaluated.as_deref(), || description_text(result.evaluated_description.as_ref()))
        .finish()
}

fn several_page(result: &SeveralFitResult) -> String {
    let requests: u64 = result.devices.iter().map(|device| device.requests).sum();
    let heading = format!(
        "{}: {}, {} with response times; fitted to the first {:.0} % of the time, {} predicted",
        result.trace.display(),
        counted(result.devices.len(), "device"),
        counted(requests, "request"),
        100.0 * result.split.as_f64(),
        match result.predicted_part {
            PredictedPart::Rest => "the others",
            PredictedPart::All => "all",
        }
    );
    let notes = result.devices.iter().flat_map(|device| {
        let of_device = move |note: String| format!("note: device {}: {note}", device.device);
        notes(device).into_iter().map(of_device)
    });
    let verdicts = result.devices.iter().flat_map(|device| {
        let of_device = move |statement: String| format!("device {}: {statement}", device.device);
        verdict(device).into_iter().map(of_device)
    });
    if result.together.is_empty() {
        let lines: String =
            std::iter::once(heading).chain(notes).map(|line| folded(&line, 2) + "\n").collect();
        return format!(
            "{lines}no requests are left to predict: choose fewer --days, another --split, or --predict all\n\n\
             written   {} (each device fitted to all of it)\n",
            result.output.display()
        );
    }
    let table = report::several(result);
    let lines = std::iter::once(heading).chain(verdicts).chain(notes);
    let lines: String = lines.map(|line| folded(&line, 2) + "\n").collect();
    let reproduced = match &result.evaluated {
        None => "\nadd --evaluated FILE.toml for commands that repeat the predictions\n".to_owned(),
        Some(path) => format!(
            "evaluated {} (each device fitted to the first part)\n\nthese commands repeat the predictions:\n  {}\n",
            path.display(),
            result.reproductions.join("\n  ")
        ),
    };
    format!(
        "{lines}\n{}{}\n\nwritten   {} (each device fitted to all of it)\n{reproduced}",
        aligned(&table),
        folded(&table.caption, 0),
        result.output.display()
    )
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

fn parse_device(text: &str) -> Result<DeviceChoice, String> {
    match text {
        "all" => Ok(DeviceChoice::All),
        number => {
            number.parse::<u16>().map(DeviceChoice::Number).map_err(|error| format!("{error}; or `all`"))
        }
    }
}

fn parse_days(text: &str) -> Result<Split, String> {
    text.parse::<f64>().map_err(|error| format!("{error}")).and_then(Split::days)
}

fn page(result: &FitResult) -> String {
    let report = &result.fit;
    let heading = format!("{}: {}", result.trace.display(), about(report));
    let limits = report.limits.iter().map(|limit| format!("limit: {limit}"));
    let notes = notes(report).into_iter().map(|note| format!("note: {note}"));
    let lines = std::iter::once(heading).chain(limits).chain(notes);
    let mut text: String = lines.map(|line| folded(&line, 2) + "\n").collect();
    if report.evaluations.is_empty() {
        text += "no requests are left to predict: choose fewer --days, another --split, or --predict all\n";
    } else {
        text += &evaluated(result);
    }
    text += &format!("\nwritten   {} (fitted to all of it)\n", result.output.display());
    if let Some(path) = &result.report {
        text += &format!("report    {}\n", path.display());
    }
    match (&result.evaluated, &result.reproduction) {
        (Some(path), Some(command)) => {
            text += &format!("evaluated {} (fitted to the first part)\n", path.display());
            text +=
                &format!("\nthis command repeats the prediction of `{}`:\n  {command}\n", report.saved_model);
        }
        _ if report.evaluations.is_empty() => {}
        _ => text += "\nadd --evaluated FILE.toml for a command that repeats the prediction\n",
    }
    text
}

/// The text of a description; empty if there is none.
fn description_text(description: Option<&impl ToString>) -> String {
    description.map_or_else(String::new, ToString::to_string)
}

/// Describes the fitted requests in one line.
fn about(report: &FitReport) -> String {
    format!(
        "device {}, {} with response times over {:.1} s",
        report.device,
        counted(report.requests, "request"),
        report.span_s
    )
}

fn parts(result: &FitResult) -> Option<String> {
    let first = result.fit.evaluations.first()?;
    let predicted = match result.fit.predicted_part {
        PredictedPart::Rest => format!("the {} predicted", numbered(first.predicted_requests, "other[|s]")),
        PredictedPart::All => format!("all {} predicted", first.predicted_requests),
    };
    Some(format!(
        "fitted to {} in the first {:.0} % of the time, {predicted}",
        counted(first.fitted_requests, "request"),
        100.0 * result.split.as_f64(),
    ))
}

fn evaluated(result: &FitResult) -> String {
    let report = &result.fit;
    let [times, demerits, verdicts, floors, slow] = [
        report::times(report),
        report::demerits(report),
        report::verdicts(report),
        report::floors(report),
        report::slow(report),
    ]
    .map(|table| aligned(&table));
    let density = report::density(report, PLOT_COLUMNS).map_or_else(String::new, |plot| render_plot(&plot));
    let caption = folded(&report::slow(report).caption, 0);
    let [verdict, details] = [verdict(report), details(report)]
        .map(|texts| texts.iter().map(|text| folded(text, 0)).collect::<Vec<_>>().join("\n"));
    let bounds = folded(&report::verdicts(report).caption, 0);
    format!(
        "\n{}\n\n{verdict}\n\n{verdicts}{bounds}\n\n{floors}\nall operations together:\n\n{times}\n{demerits}\n{details}\n\n{slow}{caption}\n\n\
         {density}",
        folded(&(parts(result).unwrap_or_default() + ":"), 2),
    )
}

/// Returns the report with plots.
fn plotted(result: &FitResult) -> Page {
    let report = &result.fit;
    let limits = report.limits.iter().map(|limit| format!("limit: {limit}"));
    Page {
        title: format!("{}, predicted", input_name(&result.trace)),
        subtitle: parts(result).map_or_else(|| about(report), |parts| format!("{}; {parts}", about(report))),
        generated_by: VERSION.to_owned(),
        command: result.command.clone(),
        notes: statements(report).into_iter().chain(limits).chain(notes(report)).collect(),
        sections: report::sections(report),
    }
}
