//! `seeklab compare`: compares two traces of the same requests, or two measurement points of one trace.

use std::path::{Path, PathBuf};

use clap::Args;
use seeklab_analysis::{Point, Stamps, compare};
use seeklab_files::check_distinct;
use seeklab_lab::failure::Failure;
use seeklab_lab::output::{VERSION, command_line, print, print_json};
use seeklab_lab::points::{PointsDocument, evidence, not_measured, parse_pair};
use seeklab_lab::session::Session;
use seeklab_report::{ComparisonSection, Note, PointsSection, Report, render_html, render_terminal};
use seeklab_traces::{OpenTrace, ReadOptions, Setting};
use serde::Serialize;

use crate::delivery::Delivery;

const EXAMPLES: &str = "\
Examples:
  seeklab compare measured.csv simulated.parquet
  seeklab compare disk.trace model.csv --reference-format disksim-validate --report diff.html
  seeklab compare a.parquet b.parquet --json
  seeklab compare emulated.parquet --between mp1,mp3 --report accuracy.html";

/// Compares response times: errors per request (EI), between the distributions (EA, the demerit), and plots
/// of both.
///
/// Response times are held in memory: about 100 bytes per request, 200 with --between.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Reference trace: measured, or of another model. With --between, the only trace
    reference: PathBuf,
    /// Trace of the same requests to compare with the reference. Omit with --between
    other: Option<PathBuf>,
    /// Compare two measurement points of one trace of an emulated device: mp1 (host), mp2 (emulator), due
    /// (deadline of the reply at mp2), mp3 (model). The point nearer to the model is the reference
    #[arg(long, value_name = "POINT,POINT", value_parser = parse_pair)]
    between: Option<(Point, Point)>,
    /// Format of the reference [default: guessed]
    #[arg(long, value_name = "FORMAT")]
    reference_format: Option<String>,
    /// Format of the other trace [default: guessed]
    #[arg(long, value_name = "FORMAT", requires = "other")]
    other_format: Option<String>,
    /// Set an option of the format of the reference. `seeklab trace formats` lists the options
    #[arg(long, value_name = "NAME=VALUE")]
    reference_format_option: Vec<Setting>,
    /// Set an option of the format of the other trace
    #[arg(long, value_name = "NAME=VALUE", requires = "other")]
    other_format_option: Vec<Setting>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        if let Some(path) = &self.report {
            check_distinct(path, std::iter::once(&self.reference).chain(&self.other))?;
        }
        match (self.between, &self.other) {
            (None, Some(other)) => self.two(session, other),
            (Some(pair), None) => self.between(session, pair),
            (Some(_), Some(other)) => Err(Failure::new(format!(
                "--between compares measurement points of one trace, but `{}` is a second one",
                other.display()
            ))
            .hint("leave out one of the traces, or --between")),
            (None, None) => {
                Err(Failure::new(format!("`{}` is compared with nothing", self.reference.display()))
                    .hint("name a second trace, or two measurement points of this one: --between mp1,mp3"))
            }
        }
    }

    /// Compares two traces of the same requests.
    fn two(&self, session: &Session, other_path: &Path) -> Result<(), Failure> {
        let mut reference =
            open(&self.reference, self.reference_format.as_deref(), &self.reference_format_option)?;
        let mut progress = session.progress_of("reading", &reference);
        let mut other = open(other_path, self.other_format.as_deref(), &self.other_format_option)?;
        let counted = reference.by_ref().map(|record| -> Result<_, Failure> {
            progress.step()?;
            Ok(record?)
        });
        let comparison = compare(counted, other.by_ref()).map_err(|error| {
            Failure::from(error).context(format!(
                "{} (the reference) and {}",
                self.reference.display(),
                other_path.display()
            ))
        })?;
        drop(progress);
        let report = Report {
            title: format!("{} against {}", name(other_path), name(&self.reference)),
            comparisons: vec![ComparisonSection::new(name(&self.reference), name(other_path), &comparison)],
            notes: [notes(&self.reference, &reference), notes(other_path, &other)].concat(),
            ..Report::default()
        };
        self.tell(report, &comparison.summary())
    }

    /// Compares two measurement points of one trace.
    fn between(&self, session: &Session, (one, other): (Point, Point)) -> Result<(), Failure> {
        let mut trace =
            open(&self.reference, self.reference_format.as_deref(), &self.reference_format_option)?;
        let mut progress = session.progress_of("reading", &trace);
        let mut stamps = Stamps::default();
        for record in trace.by_ref() {
            stamps.push(&record?);
            progress.step()?;
        }
        drop(progress);
        let in_trace = |failure: Failure| failure.context(self.reference.display());
        let between = stamps.between(one, other).map_err(|error| in_trace(not_measured(&error)))?;
        let evidence = evidence(&stamps, trace.metadata()).map_err(in_trace)?;
        let [outer, reference] = [between.outer(), between.reference()];
        let report = Report {
            title: format!("{}: {} against {}", name(&self.reference), outer.name(), reference.name()),
            subtitle: format!(
                "response times {} against those {}, the reference",
                outer.meaning(),
                reference.meaning()
            ),
            points: vec![PointsSection::new("", &stamps, &between, &evidence)],
            notes: notes(&self.reference, &trace),
            ..Report::default()
        };
        self.tell(report, &PointsDocument::new(&stamps, &between, &evidence))
    }

    fn tell(&self, report: Report, document: &impl Serialize) -> Result<(), Failure> {
        let report = Report { command: Some(command_line()), generated_by: VERSION.to_owned(), ..report };
        let printed = if self.json { print_json(document) } else { print(&render_terminal(&report)) };
        Delivery::of(printed).file(self.report.as_deref(), || render_html(&report)).finish()
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Returns notes on how a trace was read: the guessed format, assumptions and changes to rows.
fn notes(path: &Path, trace: &OpenTrace) -> Vec<Note> {
    let guess = trace.guess().map(|guess| Note::Remark(format!("{}: read as {guess}", path.display())));
    let found = trace.notes().into_iter().map(|note| Note::Warning(format!("{}: {note}", path.display())));
    guess.into_iter().chain(found).collect()
}

fn open(path: &Path, format: Option<&str>, settings: &[Setting]) -> Result<OpenTrace, Failure> {
    let options = ReadOptions { settings: settings.to_vec(), ..ReadOptions::default() };
    Ok(seeklab_columnar::open(path, format, &options)?)
}
