//! Rate and burst limits: what they are, and how they are found in a trace.
//!
//! ```text
//! TokenBucket ◀─ LimitParameters (TOML) ─▶ layer::Limit ▸ device
//!                       ▲
//! trace ─▶ Passed, History ─▶ Traffic ─▶ ceilings: rates that it returns to, bursts ─▶ trial: does a bucket explain the waiting?
//! ```
//! # Scope and limits
//! A limit is a token bucket of requests or of bytes; two of them make a volume whose burst has a rate of its own.

mod bucket;
mod find;
mod history;
mod parameters;
mod rates;
mod traffic;
mod trial;

#[cfg(test)]
mod tests;

pub use bucket::{RequestRate, TokenBucket};
pub use parameters::{Buckets, ByteBucket, LimitParameters, Limited, RequestBucket};

pub(crate) use find::{Limits, Wait, find};
pub(crate) use history::History;
pub(crate) use traffic::Passed;

use std::fmt;

use serde::Serialize;
use toml::{Table, Value};

use crate::learnt::{Learnt, LearntTable};

/// Summary of a limit of a described device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    /// The operations that are held to it.
    pub of: Limited,
    /// Unit that the limit counts: `requests` or `bytes`.
    pub counts: &'static str,
    /// Units per second.
    pub rate_per_s: f64,
    /// Units that can go at once.
    pub burst: u64,
    /// Evidence for the limit in a trace; empty if the limit was not found in a trace.
    pub evidence: String,
}

/// The limits of a described device, the outermost first.
pub fn told(description: &Table) -> Vec<Told> {
    let mut told = Vec::new();
    let mut table = description;
    while table.get("kind").and_then(Value::as_str) == Some("limit") {
        let mut layer = table.clone();
        layer.remove("kind");
        for key in ["title", "validated", "sources"] {
            layer.remove(key);
        }
        layer.remove("device");
        let Ok(layer) = layer.try_into::<LimitParameters>() else { break };
        told.extend(layer.told());
        let Some(Value::Table(device)) = table.get("device") else { break };
        table = device;
    }
    told
}

impl LimitParameters {
    fn told(&self) -> Vec<Told> {
        let evidence = |key: String| self.fit.get(&key).cloned().unwrap_or_default();
        let requests = self.requests.iter().enumerate().map(|(index, bucket)| Told {
            of: self.of,
            counts: "requests",
            rate_per_s: bucket.rate.as_per_s(),
            burst: bucket.burst,
            evidence: evidence(format!("requests[{index}]")),
        });
        let bytes = self.bytes.iter().enumerate().map(|(index, bucket)| Told {
            of: self.of,
            counts: "bytes",
            rate_per_s: bucket.rate.as_bytes_per_s() as f64,
            burst: bucket.burst.as_bytes(),
            evidence: evidence(format!("bytes[{index}]")),
        });
        requests.chain(bytes).collect()
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { of, counts, rate_per_s, burst, evidence } = self;
        let of = match of {
            Limited::All => "",
            Limited::Reads => " of reads",
            Limited::Writes => " of writes",
        };
        match *counts {
            "bytes" => write!(f, "{:.2} MB/s{of}, {:.2} MB at once", rate_per_s / 1e6, *burst as f64 / 1e6)?,
            _ => write!(f, "{rate_per_s} requests/s{of}, {burst} at once")?,
        }
        if evidence.is_empty() { Ok(()) } else { write!(f, "; {evidence}") }
    }
}

/// Returns the fitted model of the device beneath, preceded by a table of the limits.
pub(crate) fn learnt(layer: &LimitParameters, device: Learnt) -> Learnt {
    let rows = layer.told().into_iter().map(|told| {
        (format!("{} of {}", told.counts, told.of.describe()), vec![told.rate_per_s, told.burst as f64])
    });
    let table = LearntTable {
        key: "limits",
        rows_are: "limit of",
        columns: vec!["rate_per_s", "burst"],
        rows: rows.collect(),
    };
    Learnt { tables: [table].into_iter().chain(device.tables).collect(), ..device }
}
