//! Units and codes that several text formats leave open.

use seeklab_core::Operation;

use crate::error::TraceError;
use crate::options::{Allowed, FormatOption};
use crate::trace_format::ReadOptions;

/// Unit of the times of a format that does not say it, with the unit that holds unless the user says otherwise.
pub(crate) const fn time_unit(default: &'static str) -> FormatOption {
    FormatOption {
        name: "time-unit",
        allowed: Allowed::OneOf(&["s", "ms", "us", "ns"]),
        default,
        meaning: "unit of the times",
    }
}

/// Nanoseconds in the unit that [`time_unit`] settles.
///
/// # Errors
/// If it is not allowed.
pub(crate) fn unit_ns(option: &FormatOption, options: &ReadOptions) -> Result<u64, TraceError> {
    Ok(match option.text(options)? {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        _ => 1,
    })
}

/// Which code reads, where the other writes: formats of five numbers disagree about it.
pub(crate) const READ_CODE: FormatOption = FormatOption {
    name: "read-code",
    allowed: Allowed::OneOf(&["0", "1"]),
    default: "1",
    meaning: "which of 0 and 1 is a read; the other is a write",
};

/// The operations of the codes 0 and 1.
///
/// # Errors
/// If what the user says is not allowed.
pub(crate) fn operations(options: &ReadOptions) -> Result<[Operation; 2], TraceError> {
    Ok(match READ_CODE.text(options)? {
        "0" => [Operation::Read, Operation::Write],
        _ => WRITE_READ,
    })
}

/// The operations of the codes 0 and 1 unless the user says otherwise.
pub(crate) const WRITE_READ: [Operation; 2] = [Operation::Write, Operation::Read];

/// `ns` in microseconds, rounded half up.
pub(crate) const fn to_micros(ns: u64) -> u64 {
    ns / 1_000 + (ns % 1_000 >= 500) as u64
}
