//! Compares two traces of the same requests, or two measurement points of one trace.
//!
//! # Scope and limits
//! Response times are held in memory: about 100 bytes per request, 200 between measurement points.

use std::path::{Path, PathBuf};

use seeklab_analysis::{ComparisonSummary, Point, Stamps};
use seeklab_files::check_distinct;
use seeklab_report::{ComparisonSection, Note, PointsSection, Report};
use seeklab_traces::OpenTrace;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::VERSION;
use crate::points::{PointsDocument, evidence, not_measured};
use crate::session::Session;
use crate::trace::{TraceOptions, check_streams};

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// Reference trace: measured, or of another model.
    pub reference: PathBuf,
    /// Options for reading the reference.
    pub reference_reading: TraceOptions,
    /// The other side of the comparison.
    pub other: OtherSide,
    /// Path that the caller writes the report to.
    pub report: Option<PathBuf>,
}

/// The side that is compared with the reference.
#[derive(Debug, Clone)]
pub enum OtherSide {
    /// Another trace of the same requests.
    Trace {
        /// Path of the trace.
        path: PathBuf,
        /// Options for reading the trace.
        reading: TraceOptions,
    },
    /// Another measurement point of the same trace. The point nearer to the model is the reference.
    Between(Point, Point),
}

/// Result of a comparison.
#[derive(Debug)]
pub struct CompareResult {
    /// Figures, as one JSON document.
    pub figures: CompareFigures,
    /// The same, with plots.
    pub report: Report,
}

/// Figures of a comparison.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum CompareFigures {
    /// Of two traces.
    Traces(Box<ComparisonSummary>),
    /// Of two measurement points.
    Points(Box<PointsDocument>),
}

/// Compares the response times of two traces, or at two points of one trace.
///
/// # Errors
/// If a trace cannot be read, the traces do not hold the same requests, or a point was not measured.
pub fn compare(session: &Session, options: &CompareOptions) -> Result<CompareResult, Failure> {
    if let Some(path) = &options.report {
        let other = match &options.other {
            OtherSide::Trace { path, .. } => Some(path),
            OtherSide::Between(..) => None,
        };
        check_distinct(path, std::iter::once(&options.reference).chain(other))?;
    }
    match &options.other {
        OtherSide::Trace { path, reading } => {
            check_streams([options.reference.as_path(), path])?;
            traces(session, options, path, reading)
        }
        OtherSide::Between(one, other) => points(session, options, *one, *other),
    }
}

/// Compares two traces of the same requests.
fn traces(
    session: &Session,
    options: &CompareOptions,
    other_path: &Path,
    other_reading: &TraceOptions,
) -> Result<CompareResult, Failure> {
    let reference_path = &options.reference;
    let mut reference = options.reference_reading.open(session, reference_path)?;
    let mut other = other_reading.open(session, other_path)?;
    let mut progress = session.progress_of("reading", &reference);
    let counted = reference.by_ref().map(|record| -> Result<_, Failure> {
        progress.step()?;
        Ok(record?)
    });
    let comparison = seeklab_analysis::compare(counted, other.by_ref()).map_err(|error| {
        Failure::from(error).context(format!(
            "{} (the reference) and {}",
            reference_path.display(),
            other_path.display()
        ))
    })?;
    let (reference_name, other_name) = (name(reference_path), name(other_path));
    let report = Report {
        title: format!("{other_name} against {reference_name}"),
        comparisons: vec![ComparisonSection::new(reference_name, other_name, &comparison)],
        notes: [notes(reference_path, &reference), notes(other_path, &other)].concat(),
        ..blank_report(session)
    };
    Ok(CompareResult { figures: CompareFigures::Traces(Box::new(comparison.summary())), report })
}

/// Compares two measurement points of one trace.
fn points(
    session: &Session,
    options: &CompareOptions,
    one: Point,
    other: Point,
) -> Result<CompareResult, Failure> {
    let path = &options.reference;
    let mut trace = options.reference_reading.open(session, path)?;
    let mut progress = session.progress_of("reading", &trace);
    let mut stamps = Stamps::default();
    for record in trace.by_ref() {
        stamps.push(&record?);
        progress.step()?;
    }
    let in_trace = |failure: Failure| failure.context(path.display());
    let between = stamps.between(one, other).map_err(|error| in_trace(not_measured(&error)))?;
    let evidence = evidence(&stamps, trace.metadata()).map_err(in_trace)?;
    let [outer, reference] = [between.outer(), between.reference()];
    let report = Report {
        title: format!("{}: {} against {}", name(path), outer.name(), reference.name()),
        subtitle: format!(
            "response times {} against those {}, the reference",
            outer.meaning(),
            reference.meaning()
        ),
        points: vec![PointsSection::new("", &stamps, &between, &evidence)],
        notes: notes(path, &trace),
        ..blank_report(session)
    };
    let figures = CompareFigures::Points(Box::new(PointsDocument::new(&stamps, &between, &evidence)));
    Ok(CompareResult { figures, report })
}

fn blank_report(session: &Session) -> Report {
    Report { command: session.command(), generated_by: VERSION.to_owned(), ..Report::default() }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Returns notes on a trace that was read: the guessed format, assumptions and changes to rows.
fn notes(path: &Path, trace: &OpenTrace) -> Vec<Note> {
    let guess = trace.guess().map(|guess| Note::Remark(format!("{}: read as {guess}", path.display())));
    let found = trace.notes().into_iter().map(|note| Note::Warning(format!("{}: {note}", path.display())));
    guess.into_iter().chain(found).collect()
}
