//! Rate and burst limits.
//!
//! ```text
//! TokenBucket ◀─ LimitParameters (TOML) ─▶ layer::Limit ▸ device
//! ```
//! # Scope and limits
//! A limit is a token bucket of requests or of bytes, which come back evenly or in portions; two of them make a volume whose burst has a rate of its own.

mod bucket;
mod parameters;

pub use bucket::{RequestRate, TokenBucket};
pub use parameters::{Buckets, ByteBucket, LimitParameters, Limited, RequestBucket};

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use toml::{Table, Value};

use crate::fitted::{FittedModel, FittedTable};

/// A limit of a described device, for reports.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LimitSummary {
    /// The operations that are held to it.
    pub of: Limited,
    /// Unit that the limit counts: `requests` or `bytes`.
    pub counts: &'static str,
    /// Units per second.
    pub rate_per_s: f64,
    /// Units that can go at once.
    pub burst: u64,
    /// Interval after which units come back, all that the rate gives in it at once; 0 if they come back evenly.
    pub interval_ms: f64,
    /// Evidence for the limit in a trace; empty if the limit was not found in a trace.
    pub evidence: String,
}

/// The limits of a described device, the outermost first.
pub fn limit_summaries(description: &Table) -> Vec<LimitSummary> {
    let mut summaries = Vec::new();
    let mut table = description;
    while table.get("kind").and_then(Value::as_str) == Some("limit") {
        let mut layer = table.clone();
        layer.remove("kind");
        for key in ["schema", "title", "validated", "sources"] {
            layer.remove(key);
        }
        layer.remove("device");
        let Ok(layer) = layer.try_into::<LimitParameters>() else { break };
        summaries.extend(layer.limit_summaries());
        let Some(Value::Table(device)) = table.get("device") else { break };
        table = device;
    }
    summaries
}

impl LimitParameters {
    fn limit_summaries(&self) -> Vec<LimitSummary> {
        let evidence = |key: String| self.fit.get(&key).cloned().unwrap_or_default();
        let requests = self.requests.iter().enumerate().map(|(index, bucket)| LimitSummary {
            of: self.of,
            counts: "requests",
            rate_per_s: bucket.rate.as_per_s(),
            burst: bucket.burst,
            interval_ms: bucket.interval.as_ms(),
            evidence: evidence(format!("requests[{index}]")),
        });
        let bytes = self.bytes.iter().enumerate().map(|(index, bucket)| LimitSummary {
            of: self.of,
            counts: "bytes",
            rate_per_s: bucket.rate.as_bytes_per_s() as f64,
            burst: bucket.burst.as_bytes(),
            interval_ms: bucket.interval.as_ms(),
            evidence: evidence(format!("bytes[{index}]")),
        });
        requests.chain(bytes).collect()
    }
}

impl fmt::Display for LimitSummary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { of, counts, rate_per_s, burst, interval_ms, evidence } = self;
        let of = match of {
            Limited::All => "",
            Limited::Reads => " of reads",
            Limited::Writes => " of writes",
        };
        match *counts {
            "bytes" => write!(f, "{:.2} MB/s{of}, {:.2} MB at once", rate_per_s / 1e6, *burst as f64 / 1e6)?,
            _ => write!(f, "{rate_per_s} requests/s{of}, {burst} at once")?,
        }
        if *interval_ms > 0.0 {
            write!(f, ", back every {interval_ms} ms")?;
        }
        if evidence.is_empty() { Ok(()) } else { write!(f, "; {evidence}") }
    }
}

/// Returns the fitted model of the device beneath, preceded by a table of the limits.
pub(crate) fn fitted_model(layer: &LimitParameters, device: FittedModel) -> FittedModel {
    let rows = layer.limit_summaries().into_iter().map(|limit| {
        let figures = vec![limit.rate_per_s, limit.burst as f64, limit.interval_ms];
        (format!("{} of {}", limit.counts, limit.of.describe()), figures)
    });
    let table = FittedTable {
        key: "limits",
        rows_are: "limit of",
        columns: vec!["rate_per_s", "burst", "interval_ms"],
        rows: rows.collect(),
    };
    FittedModel { tables: [table].into_iter().chain(device.tables).collect(), ..device }
}
