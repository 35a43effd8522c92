//! Notes of verbs on a trace beside their results: reading options, and devices.
//!
//! Scope and limits: notes cover the rows read so far, so request them at the end of a pass.

use std::collections::BTreeSet;

use seeklab_analysis::ArrivalOutliers;
use seeklab_analysis::arrival_gaps::{GAP_TIMES, YEAR_GAP_TIMES};
use seeklab_core::Duration;
use seeklab_core::number_words::{counted, in_number};
use seeklab_traces::{Note, OpenTrace};

use crate::failure::Failure;

/// Returns the values that were assumed for open options of the format, followed by the changes to the rows.
pub fn notes(trace: &OpenTrace) -> Vec<String> {
    let assumed = trace.applied().iter().filter(|option| !option.is_explicit);
    assumed
        .map(|option| format!("assumed {}={} ({})", option.name, option.value, option.meaning))
        .chain(trace.notes().iter().map(ToString::to_string))
        .collect()
}

/// Returns the same notes, preceded by the guessed format of the trace if the user did not name it.
pub fn reading(trace: &OpenTrace) -> Vec<String> {
    trace.guess().map(|guess| format!("read as {guess}")).into_iter().chain(notes(trace)).collect()
}

/// Devices that a message names.
const DEVICES_NAMED: usize = 16;

/// Lists the numbers of devices, up to the maximum of a message.
pub(crate) fn devices(numbers: impl IntoIterator<Item = u16>) -> String {
    let mut numbers = numbers.into_iter();
    let named: Vec<String> = numbers.by_ref().take(DEVICES_NAMED).map(|number| number.to_string()).collect();
    match numbers.count() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Checks that the requested device is one of the devices in the trace.
///
/// # Errors
/// If the trace does not contain the device.
pub fn check_device(wanted: Option<u16>, seen: &BTreeSet<u16>) -> Result<(), Failure> {
    match wanted {
        Some(device) if !seen.contains(&device) => Err(no_device(device, seen.iter().copied())),
        _ => Ok(()),
    }
}

pub(crate) fn no_device(device: u16, seen: impl IntoIterator<Item = u16>) -> Failure {
    let failure = Failure::new(format!("--device {device}: there is no such device"));
    match devices(seen) {
        none if none.is_empty() => failure.hint("the trace has no requests"),
        devices => failure.hint(format!("the trace has {devices}")),
    }
}

/// Maximum share of rows, in percent, whose arrivals may be moved before fitting is refused.
const MOVED_MAX_PCT: u64 = 1;

/// Checks that arrivals are, but for a few, those of the trace: of so many rows.
///
/// # Errors
/// If more than 1 % were moved to the arrival of the row before.
pub(crate) fn check_moved(trace: &OpenTrace, of: u64) -> Result<(), Failure> {
    for note in trace.notes() {
        if let Note::ArrivalsClamped { rows, window } = note
            && u128::from(rows) * 100 > u128::from(of) * u128::from(MOVED_MAX_PCT)
        {
            return Err(Failure::new(format!(
                "{rows} of {} {} further out of order than the {window} rows within which the trace is sorted, and would be \
                 moved to the arrival of the row before; at most {MOVED_MAX_PCT} % are allowed, because a model depends on \
                 the arrival times",
                counted(of, "row"),
                in_number(rows, "[lies|lie]")
            ))
            .hint("sort the lines of the file by their times first; a conversion without sorting moves them too"));
        }
    }
    Ok(())
}

/// Names the first row far from all others, with its arrival and the gap.
pub(crate) fn outliers_sentence(found: &ArrivalOutliers) -> String {
    let (first, gap) = found.outliers[0];
    let rows: u64 = found.outliers.iter().map(|(span, _)| span.rows).sum();
    let others = match rows {
        1 => String::new(),
        rows => format!(", one of {rows} rows far from the others"),
    };
    format!(
        "row {} arrives at {:.3} s, {:.3} s ({:.1} days) {} the rest of the trace{others}",
        first.row,
        first.row_arrival.as_ns() as f64 / 1e9,
        gap.as_s(),
        gap.as_s() / 86_400.0,
        if first.first < found.main.first { "before" } else { "after" },
    )
}

/// Returns the command that copies the rows of the main part of the trace.
pub(crate) fn slice_command(trace: &str, found: &ArrivalOutliers) -> String {
    let (first, last) = (found.main.first, found.main.last);
    let length = last.saturating_since(first) + Duration::from_ns(1); // The end is exclusive.
    format!("seeklab trace slice {trace} -o part.parquet --start {first} --length {length}")
}

/// Refuses a trace with rows far from all others.
pub(crate) fn refuse_outliers(trace: &str, found: &ArrivalOutliers) -> Failure {
    Failure::new(format!(
        "{trace}: {}, so the clock was probably wrong; allowed are gaps of at most {GAP_TIMES} times the time of all \
         other rows, or {YEAR_GAP_TIMES} times if they are longer than a year",
        outliers_sentence(found)
    ))
    .hint(format!(
        "`{}` copies the other rows; --allow-gaps fits to all rows, if the device was idle so long",
        slice_command(trace, found)
    ))
}
