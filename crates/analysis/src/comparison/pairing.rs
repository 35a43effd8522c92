//! Pairing of the requests of two traces.

use std::error::Error;

use seeklab_core::{Duration, TraceRecord};

use super::error::{Address, ComparisonError, Side};

/// Compact copy of a row: 40 bytes while pairing, 8 of them afterwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    arrival_ns: u64,
    response_ns: u64,
    address: Address,
    is_kept: bool,
    failed: bool,
}

const _: () = assert!(size_of::<Row>() == 40);

/// Reads one trace to its end.
pub(super) fn read<E: Into<Box<dyn Error + Send + Sync>>>(
    side: Side,
    records: impl IntoIterator<Item = Result<TraceRecord, E>>,
    keep: &mut impl FnMut(Side, &TraceRecord) -> bool,
) -> Result<Vec<Row>, ComparisonError> {
    let mut rows = Vec::new();
    for record in records {
        let row = rows.len() as u64 + 1;
        let record = record.map_err(|error| ComparisonError::Read { side, row, source: error.into() })?;
        let failed = !record.status.is_success();
        let response = record.response_time().or(failed.then_some(Duration::ZERO));
        let response = response.ok_or(ComparisonError::NoResponseTime { side, row })?;
        rows.push(Row {
            arrival_ns: record.arrival.as_ns(),
            response_ns: response.as_ns(),
            failed,
            address: Address { device: record.device, lbn: record.lbn, blocks: record.blocks, op: record.op },
            is_kept: keep(side, &record),
        });
    }
    Ok(rows)
}

/// The response times in nanoseconds of equal requests that were carried out in both traces, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Paired {
    pub(super) reference_ns: Vec<u64>,
    pub(super) other_ns: Vec<u64>,
    pub(super) failed: FailedRequests,
}

/// Requests that failed in either trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FailedRequests {
    /// Requests that failed in the reference.
    pub(super) reference: u64,
    /// Requests that failed in the other trace.
    pub(super) other: u64,
    /// Requests that failed in one of the two alone.
    pub(super) in_one: u64,
}

/// Pairs the requests of two traces.
///
/// Requests that arrive together keep the order of their rows. Where that pairs different requests
/// (rows in order of completion, and two devices that completed them in different order), such
/// requests are paired by address instead.
pub(super) fn pair(mut reference: Vec<Row>, mut other: Vec<Row>) -> Result<Paired, ComparisonError> {
    if reference.len() != other.len() {
        return Err(ComparisonError::DifferentLengths {
            reference: reference.len() as u64,
            other: other.len() as u64,
        });
    }
    for rows in [&mut reference, &mut other] {
        rows.sort_by_key(|row| row.arrival_ns);
    }
    if let Err(error) = check(&reference, &other) {
        for rows in [&mut reference, &mut other] {
            rows.sort_by_key(|row| (row.arrival_ns, row.address));
        }
        check(&reference, &other).map_err(|_| error)?;
    }
    let kept = reference.iter().zip(&other).filter(|(reference, other)| reference.is_kept && other.is_kept);
    let mut paired = Paired::default();
    for (reference, other) in kept {
        if reference.failed || other.failed {
            paired.failed.reference += u64::from(reference.failed);
            paired.failed.other += u64::from(other.failed);
            paired.failed.in_one += u64::from(reference.failed != other.failed);
        } else {
            paired.reference_ns.push(reference.response_ns);
            paired.other_ns.push(other.response_ns);
        }
    }
    Ok(paired)
}

fn check(reference: &[Row], other: &[Row]) -> Result<(), ComparisonError> {
    match reference.iter().zip(other).position(|(reference, other)| reference.address != other.address) {
        None => Ok(()),
        Some(index) => Err(ComparisonError::DifferentRequests {
            index: index as u64,
            reference: reference[index].address,
            other: other[index].address,
        }),
    }
}
