//! Start of a request that neither continues the last request nor stays near it.
//!
//! ```toml
//! address = { distribution = "uniform" }                                  # the default
//! address = { distribution = "uniform", start = "10%", end = "50%" }      # of the device; any distribution
//! address = { distribution = "zipf", exponent = 0.9, granularity = "1MiB", order = "scattered" }
//! address = { distribution = "hot", zones = [{ share_of_space = "10%", share_of_requests = "80%" }] }
//! address = { distribution = "hot", zones = "10%:80%+20%:15%" }           # the same as text
//! address = { distribution = "extents" }                                  # the caller supplies a list
//! ```
//! **Zipf**: the space is cut into regions of `granularity`; the region of rank *k* is chosen with
//! probability proportional to *k* to the power of minus `exponent`, a start within it uniformly.
//! `ascending` puts rank 1 first on the device; `scattered` spreads the ranks by a fixed
//! permutation (rank *k* lies *k* × 0.618 of the space from the start, modulo the space).
//! **Hot**: zones lie one behind the other from the start; the rest of the space gets the rest of the
//! requests. **Extents**: one of the extents, each equally likely; the request begins with the extent and has
//! its length, unless `size` is given.

use std::fmt;
use std::str::FromStr;

use seeklab_core::{ByteSize, Ratio};
use serde::de::value::SeqAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::address_space::AddressSpace;
use super::keys::{need, refuse};
use super::space::Space;
use crate::error::{Error, ErrorKind};

/// The distribution of the addresses at which requests begin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "AddressFields", into = "AddressFields")]
pub struct AddressSpec {
    /// Distribution of starts over the space.
    pub distribution: AddressDistribution,
    /// Start of the space, as a share of the device [default: start of the device].
    pub start: Option<Ratio>,
    /// End of the space, as a share of the device [default: end of the device].
    pub end: Option<Ratio>,
}

/// Distribution of starts over the space.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum AddressDistribution {
    /// Every start is equally likely.
    #[default]
    Uniform,
    /// The popularity of regions follows Zipf's law.
    Zipf {
        /// Exponent of the law, above zero: the larger, the faster popularity falls with rank.
        exponent: f64,
        /// Size of a region.
        granularity: ByteSize,
        /// Placement of the popular regions.
        order: RankOrder,
    },
    /// Some zones are more popular than others.
    Hot {
        /// The zones, from the start of the space on.
        zones: Vec<HotZone>,
    },
    /// One of the extents that the caller supplies.
    Extents,
}

/// Placement of the popular regions of a Zipf distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankOrder {
    /// Spread over the space by a fixed permutation.
    #[default]
    Scattered,
    /// The most popular first, then the next.
    Ascending,
}

/// A zone and how popular it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a zone, for example { share_of_space = \"10%\", share_of_requests = \"80%\" }"
)]
pub struct HotZone {
    /// Its share of the space.
    pub share_of_space: Ratio,
    /// Its share of the requests.
    pub share_of_requests: Ratio,
}

/// Consecutive blocks that one request may cover, such as a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First block.
    pub lbn: u64,
    /// Number of blocks, at least one.
    pub blocks: u32,
}

const GRANULARITY: ByteSize = ByteSize::from_bytes(1 << 20);

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DistributionName {
    #[default]
    Uniform,
    Zipf,
    Hot,
    Extents,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, for example { distribution = \"zipf\", exponent = 0.9 }")]
struct AddressFields {
    #[serde(default)]
    distribution: DistributionName,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Ratio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Ratio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exponent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    granularity: Option<ByteSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<RankOrder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<Zones>,
}

impl TryFrom<AddressFields> for AddressSpec {
    type Error = String;

    fn try_from(fields: AddressFields) -> Result<Self, String> {
        let AddressFields { distribution, start, end, exponent, granularity, order, zones } = fields;
        let of_zipf = [
            ("exponent", exponent.is_some()),
            ("granularity", granularity.is_some()),
            ("order", order.is_some()),
        ];
        let of_hot = [("zones", zones.is_some())];
        let range = "`start` and `end`";
        let distribution = match distribution {
            DistributionName::Uniform => {
                refuse(&of_zipf, "uniform", range)?;
                refuse(&of_hot, "uniform", range)?;
                AddressDistribution::Uniform
            }
            DistributionName::Zipf => {
                refuse(&of_hot, "zipf", "`exponent`, `granularity`, `order`, `start` and `end`")?;
                AddressDistribution::Zipf {
                    exponent: need(exponent, "exponent", "zipf")?,
                    granularity: granularity.unwrap_or(GRANULARITY),
                    order: order.unwrap_or_default(),
                }
            }
            DistributionName::Hot => {
                refuse(&of_zipf, "hot", "`zones`, `start` and `end`")?;
                AddressDistribution::Hot { zones: need(zones, "zones", "hot")?.0 }
            }
            DistributionName::Extents => {
                refuse(&of_zipf, "extents", "no other keys")?;
                refuse(&of_hot, "extents", "no other keys")?;
                let ranged = [("start", start.is_some()), ("end", end.is_some())];
                refuse(&ranged, "extents", "no other keys")?;
                AddressDistribution::Extents
            }
        };
        Ok(Self { distribution, start, end })
    }
}

impl From<AddressSpec> for AddressFields {
    fn from(spec: AddressSpec) -> Self {
        let fields = Self { start: spec.start, end: spec.end, ..Self::default() };
        match spec.distribution {
            AddressDistribution::Uniform => fields,
            AddressDistribution::Zipf { exponent, granularity, order } => Self {
                distribution: DistributionName::Zipf,
                exponent: Some(exponent),
                granularity: Some(granularity),
                order: Some(order),
                ..fields
            },
            AddressDistribution::Hot { zones } => {
                Self { distribution: DistributionName::Hot, zones: Some(Zones(zones)), ..fields }
            }
            AddressDistribution::Extents => Self { distribution: DistributionName::Extents, ..fields },
        }
    }
}

/// A list of zones, or their text form.
#[derive(Clone, Serialize)]
#[serde(transparent)]
struct Zones(Vec<HotZone>);

impl FromStr for Zones {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let zone = |zone: &str| {
            let (space, requests) = zone.split_once(':').ok_or_else(|| {
                format!("`{zone}` is not a zone (hint: write its share of the space and of the requests, for example `10%:80%`)")
            })?;
            let ratio = |text: &str| text.parse().map_err(|error| format!("{error}"));
            Ok(HotZone { share_of_space: ratio(space)?, share_of_requests: ratio(requests)? })
        };
        text.split('+').map(zone).collect::<Result<_, _>>().map(Self)
    }
}

impl<'de> Deserialize<'de> for Zones {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> de::Visitor<'de> for Form {
            type Value = Zones;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("zones as a list of shares, or as text, for example \"10%:80%+20%:15%\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Zones, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, zones: A) -> Result<Zones, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(zones)).map(Zones)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl AddressSpec {
    /// The space on that device, with `align` blocks from start to start.
    pub(super) fn space(&self, target: AddressSpace, align: u64) -> Result<Space, Error> {
        let capacity = target.capacity_blocks;
        let block = |share: Option<Ratio>, otherwise: u64, at: &str| match share {
            None => Ok(otherwise),
            Some(share) if share > Ratio::ONE => Err(Error::invalid(at, format!("{share} is more than 1"))
                .with_hint("write a share of the device, at most 100%")),
            Some(share) => Ok(((share.as_f64() * capacity as f64) as u64).min(capacity)),
        };
        let start = block(self.start, 0, "address.start")?.next_multiple_of(align);
        let end = block(self.end, capacity, "address.end")?;
        if start >= end {
            return Err(Error::new(
                ErrorKind::DoesNotFit,
                "address",
                format!("no aligned block lies between start (block {start}) and end (block {end})"),
            ));
        }
        Ok(Space { start, end, align })
    }
}
