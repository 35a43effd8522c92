//! The description of a synthetic workload.

use schemars::JsonSchema;
use seeklab_core::{ByteSize, DescriptionError, Mistake, Ratio};
use serde::{Deserialize, Serialize};

use super::address::AddressSpec;
use super::arrivals::ArrivalSpec;
use super::size::SizeSpec;
use crate::spec::WorkloadSpec;

/// A synthetic workload, as it is described; every quantity is text with its unit.
///
/// ```toml
/// kind = "synthetic"
/// requests = 100000               # how many; 10000 if absent
/// read = "66%"                    # share of reads, the rest are writes
/// discard = "5%"                  # shares of all requests, in place of writes
/// write_zeroes = "1%"
/// fua = "10%"                     # share of the writes with force unit access
/// flush_every = 32                # a flush follows so many writes
/// noncritical = "20%"             # share of the requests that no process waits for
/// size = "8KiB"                   # or a mix or a distribution, see `SizeSpec`
/// align = "8KiB"                  # starts are multiples of it; the block size if absent
/// sequential = "20%"              # share that begins where the last request ended
/// local = "30%"                   # share that begins near the last request's beginning
/// local_distance = "20MiB"        # how near: uniform within this distance on either side
/// address = { distribution = "uniform" }                # of all others, see `AddressSpec`
/// arrivals = { process = "poisson", rate = "100/s" }    # see `ArrivalSpec`
/// ```
/// A sequential request begins at the first aligned block at or behind the end of the last one; at
/// the end of the space it begins anew at the start. The first request is never sequential or local.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyntheticSpec {
    /// Number of requests.
    #[serde(default = "requests")]
    #[schemars(extend("x-unit" = "requests"))]
    pub requests: u64,
    /// Share of reads; the rest are writes.
    #[schemars(extend("x-maximum" = "100%"))]
    pub read: Ratio,
    /// Share of discards among all requests, in place of writes.
    #[serde(default, skip_serializing_if = "is_none")]
    #[schemars(extend("x-maximum" = "100%"))]
    pub discard: Ratio,
    /// Share of writes of zeroes among all requests, in place of writes.
    #[serde(default, skip_serializing_if = "is_none")]
    #[schemars(extend("x-maximum" = "100%"))]
    pub write_zeroes: Ratio,
    /// Share of the writes that are to be durable when they complete (force unit access).
    #[serde(default, skip_serializing_if = "is_none")]
    #[schemars(extend("x-maximum" = "100%"))]
    pub fua: Ratio,
    /// Number of writes after which the next request is a flush [default: no flushes].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-unit" = "writes"))]
    pub flush_every: Option<u64>,
    /// Share of the requests that are time-noncritical: no process waits for them. The rest are time-critical.
    #[serde(default, skip_serializing_if = "is_none")]
    #[schemars(extend("x-maximum" = "100%"))]
    pub noncritical: Ratio,
    /// Size of the requests. Required unless `address` chooses extents, which have sizes of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeSpec>,
    /// Requests begin at multiples of this size [default: the device's block size].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<ByteSize>,
    /// Share of requests that begin where the previous one ended.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "100%"))]
    pub sequential: Ratio,
    /// Share of requests that begin within `local_distance` of the beginning of the previous one.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "100%"))]
    pub local: Ratio,
    /// Largest distance of a local request from the previous one. Required if `local` is above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_distance: Option<ByteSize>,
    /// Distribution of the starts of all other requests.
    #[serde(default)]
    pub address: AddressSpec,
    /// Arrival process.
    pub arrivals: ArrivalSpec,
}

/// A share that does not occur.
fn is_none(share: &Ratio) -> bool {
    *share == Ratio::ZERO
}

const fn requests() -> u64 {
    10_000
}

impl SyntheticSpec {
    /// Reads the one-line form, such as `random,size=8KiB,read=66%,poisson=80/s,requests=10000`;
    /// its grammar is that of [`text`](crate::text).
    ///
    /// # Errors
    /// [`DescriptionError`] names the key, the mistake and what would be right.
    pub fn parse(line: &str) -> Result<Self, DescriptionError> {
        match WorkloadSpec::parse(line)? {
            WorkloadSpec::Synthetic(spec) => Ok(spec),
            _ => {
                let name = line.split(',').next().unwrap_or_default().trim();
                Err(DescriptionError::new(
                    Mistake::UnknownName,
                    "",
                    format!("`{name}` is not a synthetic workload"),
                ))
            }
        }
    }
}
