//! `seeklab compare`: two traces of the same requests.

use std::path::{Path, PathBuf};

use clap::Args;
use seeklab::failure::Failure;
use seeklab::output::{VERSION, check_place, command_line, print, print_json, write_file};
use seeklab::progress::Progress;
use seeklab_analysis::compare;
use seeklab_report::{ComparisonSection, Note, Report, render_html, render_terminal};
use seeklab_traces::{OpenTrace, ReadOptions};

const EXAMPLES: &str = "\
Examples:
  seeklab compare measured.csv simulated.parquet
  seeklab compare disk.trace model.csv --reference-format disksim-validate --report diff.html
  seeklab compare a.parquet b.parquet --json";

/// Errors per request (EI), between the distributions (EA, the demerit), and plots of both.
///
/// Response times are held in memory: about 100 bytes per request.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The trace to be matched: measured, or of another model
    reference: PathBuf,
    /// The trace of the same requests that is judged
    other: PathBuf,
    /// Format of the reference; guessed if absent
    #[arg(long, value_name = "FORMAT")]
    reference_format: Option<String>,
    /// Format of the other trace; guessed if absent
    #[arg(long, value_name = "FORMAT")]
    other_format: Option<String>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(path) = &self.report {
            check_place(path)?;
        }
        let mut progress = Progress::new("reading", None);
        let mut reference = open(&self.reference, self.reference_format.as_deref())?;
        let mut other = open(&self.other, self.other_format.as_deref())?;
        let comparison =
            compare(reference.by_ref().inspect(|_| progress.step()), other.by_ref()).map_err(|error| {
                Failure::from(error).context(format!(
                    "{} (the reference) and {}",
                    self.reference.display(),
                    self.other.display()
                ))
            })?;
        drop(progress);
        let name = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let notes = [(&self.reference, &reference), (&self.other, &other)]
            .into_iter()
            .flat_map(|(path, trace)| {
                let guess =
                    trace.guess().map(|guess| Note::Remark(format!("{}: read as {guess}", path.display())));
                let found = trace
                    .notes()
                    .into_iter()
                    .map(|note| Note::Warning(format!("{}: {note}", path.display())));
                guess.into_iter().chain(found).collect::<Vec<_>>()
            })
            .collect();
        let report = Report {
            title: format!("{} against {}", name(&self.other), name(&self.reference)),
            command: Some(command_line()),
            generated_by: VERSION.to_owned(),
            comparisons: vec![ComparisonSection::new(name(&self.reference), name(&self.other), &comparison)],
            notes,
            ..Report::default()
        };
        if let Some(path) = &self.report {
            write_file(path, render_html(&report).as_bytes())?;
        }
        if self.json {
            return print_json(&comparison.summary());
        }
        print(&render_terminal(&report))
    }
}

fn open(path: &Path, format: Option<&str>) -> Result<OpenTrace, Failure> {
    Ok(seeklab_columnar::open(path, format, &ReadOptions::default())?)
}
