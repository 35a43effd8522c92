//! Description of a layer of limits.
//!
//! ```toml
//! kind = "limit"
//! of = "all"                 # reads and writes, or "reads", or "writes"
//! [[requests]]               # token buckets of requests …
//! rate = "100/s"
//! burst = 5400000            # requests
//! [[requests]]
//! rate = "3000/s"
//! burst = 300
//! interval = "100ms"         # what the rate gives in it comes back at once [default: 0s, evenly]
//! [[bytes]]                  # … and of bytes
//! rate = "125MB/s"
//! burst = "12.5MB"
//! used = "4MB"               # part of the burst used when the first request arrives [default: 0B]
//! [device]
//! kind = "station"
//! ```

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seeklab_core::{ByteSize, DataRate, Duration, Operation};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::bucket::{RequestRate, TokenBucket};
use crate::error::{DescriptionError, check};
use crate::registry::described;

/// The operations that a limit is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limited {
    /// All that address blocks. Flushes go on.
    #[default]
    All,
    /// Reads.
    Reads,
    /// Writes, discards and write-zeroes.
    Writes,
}

impl Limited {
    /// Returns true if the limit applies to an operation.
    pub const fn holds(self, op: Operation) -> bool {
        match self {
            Self::All => op.addresses_blocks(),
            Self::Reads => matches!(op, Operation::Read),
            Self::Writes => op.addresses_blocks() && !matches!(op, Operation::Read),
        }
    }

    /// Name of the operations in messages.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Reads => "reads",
            Self::Writes => "writes",
        }
    }
}

/// A bucket of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestBucket {
    /// Requests that come back in a second.
    pub rate: RequestRate,
    /// Requests that can go at once.
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    pub burst: u64,
    /// Time after which requests come back, all that the rate gives in it at once, as Linux' cgroups do; 0s if they come back evenly. The burst has
    /// room for them.
    #[serde(default, skip_serializing_if = "is_even")]
    pub interval: Duration,
    /// Part of the burst that is used when the first request arrives.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub used: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A bucket of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByteBucket {
    /// Bytes that come back in a second.
    pub rate: DataRate,
    /// Bytes that can go at once.
    #[schemars(extend("x-minimum" = "1B"))]
    pub burst: ByteSize,
    /// Time after which bytes come back, all that the rate gives in it at once, as Linux' cgroups do; 0s if they come back evenly. The burst has
    /// room for them.
    #[serde(default, skip_serializing_if = "is_even")]
    pub interval: Duration,
    /// Part of the burst that is used when the first request arrives.
    #[serde(default, skip_serializing_if = "is_none")]
    pub used: ByteSize,
}

fn is_none(size: &ByteSize) -> bool {
    size.as_bytes() == 0
}

fn is_even(interval: &Duration) -> bool {
    interval.is_zero()
}

/// A layer of limits: a request goes when all of its buckets have room.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitParameters {
    /// The operations that are limited.
    #[serde(default)]
    pub of: Limited,
    /// Limits of requests.
    #[serde(default)]
    pub requests: Vec<RequestBucket>,
    /// Limits of bytes; only reads and writes move any.
    #[serde(default)]
    pub bytes: Vec<ByteBucket>,
    /// Evidence for the limits in a trace, for people.
    #[serde(default)]
    pub fit: BTreeMap<String, String>,
}

impl LimitParameters {
    /// The description of the layer around a described device, its kind included.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn description(&self, device: Table) -> Result<Table, DescriptionError> {
        let mut table = described("limit", self)?;
        table.insert("device".to_owned(), device.into());
        Ok(table)
    }

    /// Its buckets, those of requests and those of bytes.
    ///
    /// # Errors
    /// None at all, one that holds nothing, or one that holds less than comes back at once.
    pub fn buckets(&self) -> Result<Buckets, DescriptionError> {
        let some = !(self.requests.is_empty() && self.bytes.is_empty());
        check(some, "requests", "no limit", "at least one bucket in `requests` or `bytes`")?;
        for (index, bucket) in self.requests.iter().enumerate() {
            check(bucket.burst > 0, format!("requests[{index}].burst"), "0", "at least 1 request")?;
            let portion = (bucket.rate.as_per_s() * bucket.interval.as_s()) as u64;
            check(
                bucket.burst >= portion,
                format!("requests[{index}].burst"),
                bucket.burst.to_string(),
                format!(
                    "at least {portion}, which {} gives in the interval of {}",
                    bucket.rate, bucket.interval
                ),
            )?;
        }
        for (index, bucket) in self.bytes.iter().enumerate() {
            let burst = bucket.burst.as_bytes();
            check(burst > 0, format!("bytes[{index}].burst"), "0B", "at least 1B")?;
            let portion = (bucket.rate.as_bytes_per_s() as f64 * bucket.interval.as_s()) as u64;
            check(
                burst >= portion,
                format!("bytes[{index}].burst"),
                bucket.burst.to_string(),
                format!(
                    "at least {}, which {} gives in the interval of {}",
                    ByteSize::from_bytes(portion),
                    bucket.rate,
                    bucket.interval
                ),
            )?;
        }
        Ok(Buckets {
            requests: self
                .requests
                .iter()
                .map(|of| {
                    TokenBucket::of_requests(of.rate, of.burst).in_portions(of.interval).with_used(of.used)
                })
                .collect(),
            bytes: self
                .bytes
                .iter()
                .map(|of| {
                    TokenBucket::of_bytes(of.rate, of.burst.as_bytes())
                        .in_portions(of.interval)
                        .with_used(of.used.as_bytes())
                })
                .collect(),
        })
    }
}

/// Buckets that a request passes together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Buckets {
    /// Of requests.
    pub requests: Vec<TokenBucket>,
    /// Of bytes.
    pub bytes: Vec<TokenBucket>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_without_room_for_what_returns_at_once_is_refused() {
        let refused = |text: &str| {
            let parameters: LimitParameters = toml::from_str(text).unwrap();
            parameters.buckets().err().map(|error| format!("{error:?}"))
        };
        let requests =
            |burst| format!("[[requests]]\nrate = \"600/s\"\nburst = {burst}\ninterval = \"100ms\"\n");
        assert_eq!(refused(&requests(60)), None);
        let error = refused(&requests(59)).unwrap();
        assert!(
            error.contains("requests[0].burst") && error.contains("at least 60, which 600/s gives"),
            "{error}"
        );
        let bytes =
            |burst| format!("[[bytes]]\nrate = \"40MB/s\"\nburst = \"{burst}\"\ninterval = \"100ms\"\n");
        assert_eq!(refused(&bytes("4MB")), None);
        let error = refused(&bytes("3MB")).unwrap();
        assert!(error.contains("3MB") && error.contains("at least 4MB, which 40MB/s gives"), "{error}");
    }
}
