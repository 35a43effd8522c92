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

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::{ByteSize, DescriptionError, Mistake, Ratio};
use serde::de::value::SeqAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::address_space::AddressSpace;
use super::space::Space;

/// The distribution of the addresses at which requests begin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "AddressForm", into = "AddressForm")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RankOrder {
    /// Spread over the space by a fixed permutation.
    #[default]
    Scattered,
    /// The most popular first, then the next.
    Ascending,
}

/// A zone and how popular it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a zone, for example { share_of_space = \"10%\", share_of_requests = \"80%\" }"
)]
pub struct HotZone {
    /// Share of the space that the zone takes.
    pub share_of_space: Ratio,
    /// Share of the requests that begin in the zone.
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

const fn granularity() -> ByteSize {
    ByteSize::from_bytes(1 << 20)
}

/// Distribution of the starts of all other requests.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "distribution",
    rename_all = "snake_case",
    deny_unknown_fields,
    expecting = "a table, for example { distribution = \"zipf\", exponent = 0.9 }"
)]
enum AddressForm {
    Uniform {
        /// Start of the addresses, as a share of the device [default: 0].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-maximum" = "100%"))]
        start: Option<Ratio>,
        /// End of the addresses, as a share of the device [default: 100%].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-maximum" = "100%"))]
        end: Option<Ratio>,
    },
    Zipf {
        /// Exponent of Zipf's law, above 0. Popularity falls faster with rank for a larger exponent.
        exponent: f64,
        /// Size of a region.
        #[serde(default = "granularity")]
        granularity: ByteSize,
        /// Placement of the popular regions.
        #[serde(default)]
        order: RankOrder,
        /// Start of the addresses, as a share of the device [default: 0].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-maximum" = "100%"))]
        start: Option<Ratio>,
        /// End of the addresses, as a share of the device [default: 100%].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-maximum" = "100%"))]
        end: Option<Ratio>,
    },
    Hot {
        /// Zones from the start of the addresses on. The rest of the space gets the rest of the requests.
        zones: Zones,
        /// Start of the addresses, as a share of the device [default: 0].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-maximum" = "100%"))]
        start: Option<Ratio>,
        /// End of the addresses, as a share of the device [default: 100%].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-maximum" = "100%"))]
        end: Option<Ratio>,
    },
    Extents {},
}

impl From<AddressForm> for AddressSpec {
    fn from(form: AddressForm) -> Self {
        let (distribution, start, end) = match form {
            AddressForm::Uniform { start, end } => (AddressDistribution::Uniform, start, end),
            AddressForm::Zipf { exponent, granularity, order, start, end } => {
                (AddressDistribution::Zipf { exponent, granularity, order }, start, end)
            }
            AddressForm::Hot { zones, start, end } => {
                (AddressDistribution::Hot { zones: zones.0 }, start, end)
            }
            AddressForm::Extents {} => (AddressDistribution::Extents, None, None),
        };
        Self { distribution, start, end }
    }
}

impl From<AddressSpec> for AddressForm {
    fn from(spec: AddressSpec) -> Self {
        let AddressSpec { distribution, start, end } = spec;
        match distribution {
            AddressDistribution::Uniform => Self::Uniform { start, end },
            AddressDistribution::Zipf { exponent, granularity, order } => {
                Self::Zipf { exponent, granularity, order, start, end }
            }
            AddressDistribution::Hot { zones } => Self::Hot { zones: Zones(zones), start, end },
            AddressDistribution::Extents => Self::Extents {},
        }
    }
}

impl JsonSchema for AddressSpec {
    fn inline_schema() -> bool {
        AddressForm::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        AddressForm::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        AddressForm::json_schema(generator)
    }
}

impl JsonSchema for Zones {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Zones".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            {
                "type": "string",
                "x-quantity": "zones such as `10%:80%+20%:15%`",
                "examples": ["10%:80%+20%:15%"],
            },
            generator.subschema_for::<Vec<HotZone>>(),
        ]})
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
    /// Blocks of the device that `start` and `end` limit requests to. `None` without these keys.
    pub fn stated_blocks(&self, target: AddressSpace) -> Option<Range<u64>> {
        (self.start.is_some() || self.end.is_some()).then(|| self.blocks(target))
    }

    /// Blocks of the device from `start` to `end`.
    pub fn blocks(&self, target: AddressSpace) -> Range<u64> {
        let capacity = target.capacity_blocks;
        let block = |share: Option<Ratio>, otherwise: u64| {
            share.map_or(otherwise, |share| ((share.as_f64() * capacity as f64) as u64).min(capacity))
        };
        block(self.start, 0)..block(self.end, capacity)
    }

    /// The space on that device, with `align` blocks from start to start.
    pub(super) fn space(&self, target: AddressSpace, align: u64) -> Result<Space, DescriptionError> {
        let Range { start, end } = self.blocks(target);
        let start = start.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        if start >= end {
            return Err(DescriptionError::new(
                Mistake::DoesNotFit,
                "address",
                format!("no aligned block lies between start (block {start}) and end (block {end})"),
            ));
        }
        Ok(Space { start, end, align })
    }
}
