//! The text of a workload: a TOML table, or the same keys on one line.
//!
//! [`GRAMMAR`] is the grammar of a line. Examples:
//! ```text
//! random,size=8KiB,read=66%,poisson=80/s,requests=10000
//! size=4KiB:3+64KiB:1,read=2/3,sequential=20%,arrivals.process=closed,arrivals.population=8
//! replay,arrivals=closed auto,beyond=wrap
//! ```
//! An item replaces what a preset says under the same key. An item that chooses a process or a
//! distribution replaces the preset's whole table. The shorthands are in [`SHORTHANDS`].

mod line;

pub use line::{SHORTHANDS, Shorthand};
pub(crate) use line::{items, merge, parse};

/// The grammar of a line.
pub const GRAMMAR: &str = "\
line  = name | [ name \",\" ] item { \",\" item }
name  = a kind or a preset               [default: synthetic]
item  = key \"=\" value
key   = word { \".\" word } | shorthand    the keys of the TOML form, tables joined by dots
value = text without a comma             with its unit and without quotes; lists are joined by \"+\"
";
