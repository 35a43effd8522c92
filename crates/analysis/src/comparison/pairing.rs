//! Pairing of the requests of two traces.

use std::error::Error;

use seeklab_core::TraceRecord;

use super::error::{Address, ComparisonError, Side};

/// Compact copy of a row: 40 bytes while pairing, 8 of them afterwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    arrival_ns: u64,
    response_ns: u64,
    address: Address,
    is_kept: bool,
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
        let response = record.response_time().ok_or(ComparisonError::NoResponseTime { side, row })?;
        rows.push(Row {
            arrival_ns: record.arrival.as_ns(),
            response_ns: response.as_ns(),
            address: Address { device: record.device, lbn: record.lbn, blocks: record.blocks, op: record.op },
            is_kept: keep(side, &record),
        });
    }
    Ok(rows)
}

/// The response times in nanoseconds of equal requests, both in order of arrival.
///
/// Requests that arrive together keep the order of their rows. Where that pairs different requests
/// (rows in order of completion, and two devices that completed them in different order), such
/// requests are paired by address instead.
pub(super) fn pair(
    mut reference: Vec<Row>,
    mut other: Vec<Row>,
) -> Result<(Vec<u64>, Vec<u64>), ComparisonError> {
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
    Ok(kept.map(|(reference, other)| (reference.response_ns, other.response_ns)).unzip())
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
