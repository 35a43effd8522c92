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

pub(crate) use find::{Limits, find};
pub(crate) use history::History;
pub(crate) use traffic::Passed;

use crate::learnt::{Learnt, LearntTable};

/// What the device beneath learnt, and before it the limits.
pub(crate) fn learnt(layer: &LimitParameters, device: Learnt) -> Learnt {
    let of = layer.of.describe();
    let requests = layer.requests.iter();
    let requests =
        requests.map(|bucket| (format!("{of}, requests"), vec![bucket.rate.as_per_s(), bucket.burst as f64]));
    let bytes = layer.bytes.iter().map(|bucket| {
        (format!("{of}, bytes"), vec![bucket.rate.as_bytes_per_s() as f64, bucket.burst.as_bytes() as f64])
    });
    let rows: Vec<(String, Vec<f64>)> = requests.chain(bytes).collect();
    let table =
        LearntTable { key: "limits", rows_are: "limit of", columns: vec!["rate_per_s", "burst"], rows };
    Learnt { tables: [table].into_iter().chain(device.tables).collect(), ..device }
}
