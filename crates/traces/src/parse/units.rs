//! Units and codes that several text formats leave open.

use seeklab_core::Operation;

use crate::error::TraceError;
use crate::options::{Allowed, FormatOption};
use crate::trace_format::ReadOptions;

/// Returns the option for the unit of times in a format that does not state it, with the default unit.
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

/// Code that means read; the other code means write. Formats of five numbers differ in this.
pub(crate) const READ_CODE: FormatOption = FormatOption {
    name: "read-code",
    allowed: Allowed::OneOf(&["0", "1"]),
    default: "1",
    meaning: "code of a read; the other code is a write",
};

/// Returns the operations of the codes 0 and 1.
///
/// # Errors
/// If the value given by the user is not allowed.
pub(crate) fn operations(options: &ReadOptions) -> Result<[Operation; 2], TraceError> {
    Ok(match READ_CODE.text(options)? {
        "0" => [Operation::Read, Operation::Write],
        _ => WRITE_READ,
    })
}

/// Default operations of the codes 0 and 1.
pub(crate) const WRITE_READ: [Operation; 2] = [Operation::Write, Operation::Read];

/// `ns` in microseconds, rounded half up.
pub(crate) const fn to_micros(ns: u64) -> u64 {
    ns / 1_000 + (ns % 1_000 >= 500) as u64
}
