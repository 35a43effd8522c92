//! Reading that formats share: lines, columns, numbers, units, records, names and addresses.

pub(crate) mod columns;
pub(crate) mod extent;
pub(crate) mod header;
pub(crate) mod lines;
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod objects;
pub(crate) mod protobuf;
pub(crate) mod records;
pub(crate) mod rounding;
pub(crate) mod skips;
pub(crate) mod text;
pub(crate) mod units;
