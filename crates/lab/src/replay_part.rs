//! Parts of a trace that a replay names: one device, or the requests from a time on.

use std::collections::BTreeSet;

use seeklab_core::Instant;
use seeklab_traces::schema::Column;
use seeklab_workloads::ReplaySpec;

use crate::failure::Failure;
use crate::trace_notes::devices;
use crate::workload::ResolvedWorkload;

/// Checks a part of a trace of which no request was replayed.
///
/// # Errors
/// If the trace lacks the device, or ends before the time.
pub(crate) fn check_part(workload: &ResolvedWorkload, spec: &ReplaySpec) -> Result<(), Failure> {
    if spec.device.is_none() && spec.from.is_none() {
        return Ok(());
    }
    let mut numbers = BTreeSet::new();
    let mut last = None;
    for record in workload.open_trace(&[Column::ArrivalNs, Column::Device])? {
        let record = record?;
        numbers.insert(record.device);
        if spec.device.is_none_or(|device| device == record.device) {
            last = last.max(Some(record.arrival));
        }
    }
    if let Some(device) = spec.device.filter(|device| !numbers.contains(device)) {
        let failure = Failure::new(format!("--replay-device {device}: there is no such device"));
        return Err(match devices(numbers) {
            none if none.is_empty() => failure.hint("the trace has no requests"),
            devices => failure.hint(format!("devices of the trace: {devices}")),
        });
    }
    match (spec.from, last) {
        (Some(from), Some(last)) if last - Instant::ZERO < from => {
            Err(Failure::new(format!("--replay-from {from}: no request arrives at this time or later"))
                .hint(format!("the last request arrives at {last}")))
        }
        _ => Ok(()),
    }
}
