//! Converts the columns of a batch to records, column by column: for callers that need few columns of many
//! rows.
//!
//! # Scope and limits
//! Only valid batches are converted. If a required value is absent or two values contradict each other,
//! [`Row`](seeklab_traces::row::Row) interprets the batch instead.

use std::ops::Range;

use seeklab_core::{Criticality, Duration, Instant, Operation, Status, TraceRecord};
use seeklab_traces::schema::Column;

use crate::batch::Values;

/// The columns that can be put into records so.
const DIRECT: [Column; 14] = [
    Column::ArrivalNs,
    Column::CompletionNs,
    Column::ThinkNs,
    Column::Device,
    Column::Initiator,
    Column::Op,
    Column::Fua,
    Column::Lbn,
    Column::Blocks,
    Column::Criticality,
    Column::BecameTimeLimitedNs,
    Column::BecameTimeCriticalNs,
    Column::Priority,
    Column::Status,
];

/// Returns true if rows of these columns can be filled in this way.
pub(crate) fn is_direct(columns: impl IntoIterator<Item = Column>) -> bool {
    columns.into_iter().all(|column| DIRECT.contains(&column))
}

/// Fills `records` with those rows of the columns; `false` if some row is not plainly right, and then the
/// records are of no use. They must be as new, but for what was filled in so from the same columns.
pub(crate) fn fill(columns: &[Values], rows: Range<usize>, records: &mut [TraceRecord]) -> bool {
    columns.iter().all(|values| fill_column(values, rows.clone(), records)) && are_right(records)
}

fn fill_column(values: &Values, rows: Range<usize>, records: &mut [TraceRecord]) -> bool {
    if values.is_null() {
        return fill_nulls(values.column, records);
    }
    let numbers = &values.numbers[rows.clone()];
    match values.column {
        Column::CompletionNs | Column::ThinkNs if !values.all_valid => {
            let valid = &values.valid[rows];
            let times = numbers.iter().zip(valid).map(|(ns, valid)| valid.then_some(*ns));
            if values.column == Column::CompletionNs {
                set(records, times, |record, ns| record.completion = ns.map(Instant::from_ns))
            } else {
                set(records, times, |record, ns| record.think = ns.map(Duration::from_ns))
            }
        }
        _ if !values.all_valid => false,
        Column::ArrivalNs => set(records, numbers, |record, ns| record.arrival = Instant::from_ns(*ns)),
        Column::CompletionNs => {
            set(records, numbers, |record, ns| record.completion = Some(Instant::from_ns(*ns)))
        }
        Column::ThinkNs => set(records, numbers, |record, ns| record.think = Some(Duration::from_ns(*ns))),
        Column::Lbn => set(records, numbers, |record, lbn| record.lbn = *lbn),
        Column::Blocks => narrow(records, numbers, |record, blocks: u32| record.blocks = blocks),
        Column::Device => narrow(records, numbers, |record, device: u16| record.device = device),
        Column::Initiator => narrow(records, numbers, |record, initiator: u32| record.initiator = initiator),
        Column::Priority => narrow(records, numbers, |record, priority: u8| record.priority = priority),
        Column::Fua => set(records, numbers, |record, fua| record.fua = *fua == 1),
        Column::Op => code(records, numbers, &Operation::ALL, |record, op| record.op = op),
        Column::Status => code(records, numbers, &Status::ALL, |record, status| record.status = status),
        Column::Criticality => code(records, numbers, &Criticality::ALL, |record, criticality| {
            record.criticality = criticality;
        }),
        _ => false,
    }
}

/// A column of nulls: the fields are as new, unless every row needs them.
fn fill_nulls(column: Column, records: &mut [TraceRecord]) -> bool {
    const NEW: TraceRecord = TraceRecord::new(Instant::ZERO, Operation::Read, 0, 0);
    if Column::REQUIRED.contains(&column) {
        return false;
    }
    for record in records {
        match column {
            Column::CompletionNs => record.completion = NEW.completion,
            Column::ThinkNs => record.think = NEW.think,
            Column::Device => record.device = NEW.device,
            Column::Initiator => record.initiator = NEW.initiator,
            Column::Fua => record.fua = NEW.fua,
            Column::Criticality => record.criticality = NEW.criticality,
            // A batch with a change of class is left to `Row`, which checks it.
            Column::BecameTimeLimitedNs | Column::BecameTimeCriticalNs => record.became = NEW.became,
            Column::Priority => record.priority = NEW.priority,
            Column::Status => record.status = NEW.status,
            _ => return false,
        }
    }
    true
}

fn set<T>(
    records: &mut [TraceRecord],
    values: impl IntoIterator<Item = T>,
    mut set: impl FnMut(&mut TraceRecord, T),
) -> bool {
    records.iter_mut().zip(values).for_each(|(record, value)| set(record, value));
    true
}

/// Numbers that have to fit into fewer bits.
fn narrow<T: TryFrom<u64> + Default>(
    records: &mut [TraceRecord],
    numbers: &[u64],
    mut set: impl FnMut(&mut TraceRecord, T),
) -> bool {
    let mut fits = true;
    for (record, number) in records.iter_mut().zip(numbers) {
        let narrowed = T::try_from(*number);
        fits &= narrowed.is_ok();
        set(record, narrowed.unwrap_or_default());
    }
    fits
}

/// Codes of a list.
fn code<T: Copy>(
    records: &mut [TraceRecord],
    codes: &[u64],
    all: &[T],
    mut set: impl FnMut(&mut TraceRecord, T),
) -> bool {
    let mut known = true;
    for (record, code) in records.iter_mut().zip(codes) {
        match all.get(*code as usize) {
            Some(value) => set(record, *value),
            None => known = false,
        }
    }
    known
}

/// Returns true if no completion lies before its arrival, and every extent is valid.
fn are_right(records: &[TraceRecord]) -> bool {
    let mut right = true;
    for record in records {
        right &= record.completion.is_none_or(|completion| completion >= record.arrival);
        right &= record.blocks > 0 || !record.op.addresses_blocks();
        right &= record.lbn.checked_add(u64::from(record.blocks)).is_some();
    }
    right
}
