//! Passes over a trace: one that looks at it, and one by which models are fitted.

use std::collections::BTreeMap;

use seeklab_analysis::ArrivalGaps;
use seeklab_core::TraceRecord;
use seeklab_learning::survey::Survey;
use seeklab_traces::schema::Column;
use seeklab_traces::{Metadata, OpenTrace, Recorder, Rows};

use super::{FitOptions, TimesFrom};
use crate::failure::Failure;
use crate::session::Session;
use crate::trace_notes::{check_moved, devices, no_device, refuse_outliers};

/// The columns that it needs.
pub(super) const LOOKED_AT: [Column; 10] = [
    Column::ArrivalNs,
    Column::CompletionNs,
    Column::IssueNs,
    Column::Device,
    Column::Initiator,
    Column::Op,
    Column::Fua,
    Column::Lbn,
    Column::Blocks,
    Column::Status,
];

/// Returns the requests that a trace holds, and its metadata, read to its end. `name` is the name of the trace.
///
/// # Errors
/// If rows of a device to be fitted are far from all its others, unless that is allowed, or rows are out of order. The
/// former is the cause of the latter if a clock was wrong for a row, so it is reported first.
pub(super) fn survey(
    session: &Session,
    trace: OpenTrace,
    name: &str,
    options: &FitOptions,
) -> Result<(Survey, Metadata), Failure> {
    let is_from_issue = match options.times_from {
        Some(times_from) => times_from == TimesFrom::Issue,
        None => trace.metadata().is_captured(),
    };
    let mut survey = Survey::new(is_from_issue);
    let mut gaps: BTreeMap<u16, ArrivalGaps> = BTreeMap::new();
    let mut rows = 0;
    let mut disorder = Ok(());
    let trace = each_run(session, trace, "reading the trace", |records, recorder| {
        for run in records.chunk_by(|one, next| one.device == next.device) {
            if disorder.is_ok() {
                disorder = survey.take(run, |record| recorder.is_recorders_own(record), rows);
            }
            if !options.allow_gaps {
                let gaps = gaps.entry(run[0].device).or_default();
                let numbered = (rows + 1..).zip(run).filter(|(_, record)| !recorder.is_recorders_own(record));
                numbered.for_each(|(row, record)| gaps.record(record.arrival, row));
            }
            rows += run.len() as u64;
        }
        Ok(())
    })?;
    let mut fitted = gaps.iter().filter(|(number, _)| options.device.is_none_or(|device| device == **number));
    if let Some(outliers) = fitted.find_map(|(_, gaps)| gaps.outliers()) {
        return Err(refuse_outliers(name, &outliers));
    }
    disorder?;
    check_moved(&trace, rows)?;
    Ok((survey, trace.metadata().clone()))
}

/// The device of a trace that is fitted: the one that is wanted, or the only one.
pub(super) fn choose_device(survey: &Survey, wanted: Option<u16>) -> Result<u16, Failure> {
    let mut numbers = survey.devices();
    match (wanted, numbers.len()) {
        (_, 0) => Err(Failure::new("the trace has no requests")),
        (Some(device), _) if numbers.any(|number| number == device) => Ok(device),
        (Some(device), _) => Err(no_device(device, survey.devices())),
        (None, 1) => Ok(numbers.next().expect("there is one")),
        (None, count) => {
            Err(Failure::new(format!("the trace has {count} devices, and a model is fitted to one"))
                .hint(format!("choose with --device: {}", devices(numbers))))
        }
    }
}

/// Shows all rows to `take`, some at a time, and who recorded them; the trace, read to its end. A stop ends the pass at its beginning, too:
/// fits of many devices make many short passes.
pub(super) fn each_run(
    session: &Session,
    mut trace: OpenTrace,
    what: &str,
    mut take: impl FnMut(&[TraceRecord], Recorder) -> Result<(), Failure>,
) -> Result<OpenTrace, Failure> {
    session.check()?;
    let mut progress = session.progress_of(what, &trace);
    loop {
        let Rows { records, metadata } = trace.next_rows()?;
        if records.is_empty() {
            drop(progress);
            return Ok(trace);
        }
        take(records, metadata.recorder())?;
        progress.steps(records.len() as u64)?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::sync::Arc;

    use seeklab_traces::ReadOptions;

    use super::*;
    use crate::listener::Unheard;
    use crate::stop::Stop;

    #[test]
    fn stop_ends_a_pass_over_few_rows() {
        let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        file.write_all(b"arrival_ns,op,lbn,blocks\n0,read,0,8\n10,read,8,8\n").unwrap();
        let stop = Stop::new();
        let session = Session::new(Arc::new(Unheard), stop.clone());
        let pass = |path: &Path| {
            let trace = seeklab_columnar::open(path, None, &ReadOptions::default()).unwrap();
            let mut rows = 0;
            let result = each_run(&session, trace, "reading", |records, _| {
                rows += records.len();
                Ok(())
            });
            (result.map(drop).map_err(|failure| failure.to_string()), rows)
        };
        assert_eq!(pass(file.path()), (Ok(()), 2));
        stop.stop();
        assert_eq!(pass(file.path()), (Err("interrupted".to_owned()), 0));
    }
}
