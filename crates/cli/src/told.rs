//! What verbs tell of a trace beside their results: how it was read, which devices it has.
//!
//! Scope and limits: notes are those up to the row that was read last, so ask at the end of a pass.

use seeklab_traces::{Note, OpenTrace};

use crate::failure::Failure;

/// What was assumed where the format leaves something open, then what was done to the rows.
pub fn notes(trace: &OpenTrace) -> Vec<String> {
    let assumed = trace.applied().iter().filter(|option| !option.is_said);
    assumed
        .map(|option| format!("assumed {}={} ({})", option.name, option.value, option.meaning))
        .chain(trace.notes().iter().map(ToString::to_string))
        .collect()
}

/// The same, behind what the trace was taken for unless the user said it.
pub fn reading(trace: &OpenTrace) -> Vec<String> {
    trace.guess().map(|guess| format!("read as {guess}")).into_iter().chain(notes(trace)).collect()
}

/// Share of the rows, in percent, that may be moved in time before nothing is learnt from them.
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
                "{rows} of {of} rows lie further out of order than the {window} rows within which the trace is sorted, \
                 and would be moved to the arrival of the row before; at most {MOVED_MAX_PCT} % may be, for a model \
                 learns from when requests arrive"
            ))
            .hint("sort the lines of the file by their times first; converted as it is, they would be moved too"));
        }
    }
    Ok(())
}
