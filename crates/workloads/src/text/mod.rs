//! The text of a workload: a TOML table, or the same keys on one line.
//!
//! ```text
//! line  = name | [ name "," ] item { "," item }
//! name  = a kind (synthetic, replay) or a preset (random, oltp, …); synthetic if absent
//! item  = key "=" value
//! key   = word { "." word }        the keys of the TOML form, tables joined by dots; or a shorthand
//! value = text without a comma     with its unit, unquoted; lists are joined by "+"
//! ```
//! ```text
//! random,size=8KiB,read=66%,poisson=80/s,requests=10000
//! size=4KiB:3+64KiB:1,read=2/3,sequential=20%,arrivals.process=closed,arrivals.population=8
//! replay,arrivals=closed auto,beyond=wrap
//! ```
//! An item replaces what a preset says under the same key. An item that chooses a process or a
//! distribution replaces the preset's whole table. The shorthands are in [`SHORTHANDS`].

mod line;
mod value;

pub use line::{SHORTHANDS, Shorthand};
pub(crate) use line::{merge, parse};
pub(crate) use value::Reader;
