//! Number of blocks of a request.
//!
//! ```toml
//! size = "8KiB"                                                   # always
//! size = "4KiB:3+64KiB:1"                                         # a weighted mix, as text
//! size = [{ size = "4KiB", weight = 3 }, { size = "64KiB" }]      # the same as a list; default weight: 1
//! size = { distribution = "exponential", mean = "8KiB", max = "128KiB" }
//! size = { distribution = "uniform", min = "4KiB", max = "64KiB" }
//! ```
//! Exponential sizes are whole blocks, at least one: the geometric distribution, which is the
//! exponential's discrete counterpart, with exactly the given mean. Draws above `max` are drawn
//! again, which lowers the mean (by 0.3 % for a `max` of eight times the mean). Uniform sizes are
//! whole blocks from `min` to `max`, both possible.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::{ByteSize, DescriptionError, Mistake, Stream};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::address_space::AddressSpace;
use super::geometric::Geometric;

/// The distribution of request sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizeSpec {
    /// Always the same.
    Fixed(ByteSize),
    /// One of several sizes, drawn in proportion to their weights.
    Mix(Vec<WeightedSize>),
    /// Exponential in whole blocks.
    Exponential {
        /// The mean, before draws above `max` are drawn again.
        mean: ByteSize,
        /// The largest size; `None` leaves it to the device.
        max: Option<ByteSize>,
    },
    /// Every whole number of blocks in a range is equally likely.
    Uniform {
        /// The smallest size.
        min: ByteSize,
        /// The largest size.
        max: ByteSize,
    },
}

/// One size of a mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a size with its weight, for example { size = \"4KiB\", weight = 3 }"
)]
pub struct WeightedSize {
    /// Size of a request.
    pub size: ByteSize,
    /// Frequency of the size, relative to the other weights.
    #[serde(default = "one")]
    pub weight: u32,
}

impl SizeSpec {
    /// The same with fixed sizes and those of a mix rounded up to whole blocks; `None` if all were whole.
    pub fn rounded_up(&self, block_size: ByteSize) -> Option<Self> {
        let block = block_size.as_bytes();
        // What rounds up to no number is refused like other sizes that no device has.
        let largest = u64::MAX / block * block;
        let up = |size: ByteSize| {
            ByteSize::from_bytes(size.as_bytes().checked_next_multiple_of(block).unwrap_or(largest))
        };
        let rounded = match self {
            Self::Fixed(size) => Self::Fixed(up(*size)),
            Self::Mix(sizes) => {
                Self::Mix(sizes.iter().map(|one| WeightedSize { size: up(one.size), ..*one }).collect())
            }
            Self::Exponential { .. } | Self::Uniform { .. } => return None,
        };
        (rounded != *self).then_some(rounded)
    }
}

const fn one() -> u32 {
    1
}

/// Sizes drawn from a distribution, as a table.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "distribution", rename_all = "snake_case", deny_unknown_fields)]
enum SizeForm {
    Exponential {
        /// Mean size, before draws above `max` are drawn again.
        mean: ByteSize,
        /// Largest size [default: what the device has room for].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<ByteSize>,
    },
    Uniform {
        /// Smallest size.
        min: ByteSize,
        /// Largest size.
        max: ByteSize,
    },
}

impl From<SizeForm> for SizeSpec {
    fn from(form: SizeForm) -> Self {
        match form {
            SizeForm::Exponential { mean, max } => Self::Exponential { mean, max },
            SizeForm::Uniform { min, max } => Self::Uniform { min, max },
        }
    }
}

impl JsonSchema for SizeSpec {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "SizeSpec".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            {
                "type": "string",
                "x-quantity": "a size or mix such as `4KiB:3+64KiB:1`",
                "examples": ["8KiB", "4KiB:3+64KiB:1"],
            },
            generator.subschema_for::<Vec<WeightedSize>>(),
            generator.subschema_for::<SizeForm>(),
        ]})
    }
}

impl FromStr for SizeSpec {
    type Err = String;

    /// Reads `"8KiB"` and `"4KiB:3+64KiB:1"`.
    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains([':', '+']) {
            return text.parse().map(Self::Fixed).map_err(|error| format!("{error}"));
        }
        let part = |part: &str| {
            let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight = weight.trim().parse().map_err(|_| {
                format!("`{weight}` is not a weight (hint: write a whole number, for example `4KiB:3`)")
            })?;
            Ok(WeightedSize { size: size.parse().map_err(|error| format!("{error}"))?, weight })
        };
        text.split('+').map(part).collect::<Result<_, _>>().map(Self::Mix)
    }
}

impl Serialize for SizeSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(size) => size.serialize(serializer),
            Self::Mix(sizes) => sizes.serialize(serializer),
            Self::Exponential { mean, max } => {
                SizeForm::Exponential { mean: *mean, max: *max }.serialize(serializer)
            }
            Self::Uniform { min, max } => SizeForm::Uniform { min: *min, max: *max }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SizeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> de::Visitor<'de> for Form {
            type Value = SizeSpec;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a size as text with its unit, for example \"8KiB\", a list of sizes with weights, or a table with a distribution")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<SizeSpec, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, sizes: A) -> Result<SizeSpec, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(sizes)).map(SizeSpec::Mix)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, table: A) -> Result<SizeSpec, A::Error> {
                SizeForm::deserialize(MapAccessDeserializer::new(table)).map(SizeSpec::from)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// Draws sizes in blocks.
#[derive(Debug, Clone)]
pub(super) enum SizeSource {
    Fixed(u32),
    /// Cumulative weight and blocks of each size.
    Mix(Vec<(u64, u32)>),
    Exponential {
        blocks: Geometric,
        max: u32,
    },
    Uniform {
        min: u32,
        max: u32,
    },
}

impl SizeSource {
    /// The source for sizes up to `limit_blocks`, which is what there is room for.
    pub(super) fn new(
        spec: &SizeSpec,
        target: AddressSpace,
        limit_blocks: u64,
    ) -> Result<Self, DescriptionError> {
        let blocks = |size: ByteSize, at: &str| blocks_of(size, target, limit_blocks, at);
        match spec {
            SizeSpec::Fixed(size) => blocks(*size, "size").map(Self::Fixed),
            SizeSpec::Mix(sizes) => {
                let mut cumulative = Vec::with_capacity(sizes.len());
                let mut total = 0;
                for (index, entry) in sizes.iter().enumerate() {
                    total += u64::from(entry.weight);
                    cumulative.push((total, blocks(entry.size, &format!("size[{index}]"))?));
                }
                if total == 0 {
                    return Err(DescriptionError::invalid("size", "the weights of the mix sum to 0")
                        .hint("give at least one size a weight above 0"));
                }
                Ok(Self::Mix(cumulative))
            }
            SizeSpec::Exponential { mean, max } => {
                let mean_blocks = mean.as_bytes() as f64 / target.block_size.as_bytes() as f64;
                if mean_blocks < 1.0 {
                    return Err(DescriptionError::invalid(
                        "size.mean",
                        format!("{mean} is less than a block, which has {}", target.block_size),
                    ));
                }
                if mean_blocks > limit_blocks as f64 {
                    return Err(too_large(*mean, target, limit_blocks, "size.mean"));
                }
                let max = match max {
                    Some(max) if max < mean => {
                        return Err(DescriptionError::invalid(
                            "size.max",
                            format!("{max} is less than the mean, {mean}"),
                        ));
                    }
                    Some(max) => blocks(*max, "size.max")?,
                    None => u32::try_from(limit_blocks).unwrap_or(u32::MAX),
                };
                Ok(Self::Exponential { blocks: Geometric::new(mean_blocks), max })
            }
            SizeSpec::Uniform { min, max } => {
                let (min, max) = (blocks(*min, "size.min")?, blocks(*max, "size.max")?);
                if min > max {
                    return Err(DescriptionError::invalid("size.min", "is larger than `size.max`"));
                }
                Ok(Self::Uniform { min, max })
            }
        }
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> u32 {
        match self {
            Self::Fixed(blocks) => *blocks,
            Self::Mix(sizes) => {
                let (total, largest) = sizes[sizes.len() - 1];
                let draw = stream.below(total);
                sizes.iter().find(|(cumulative, _)| draw < *cumulative).map_or(largest, |(_, blocks)| *blocks)
            }
            Self::Exponential { blocks, max } => loop {
                let blocks = blocks.draw(stream);
                if blocks <= u64::from(*max) {
                    break blocks as u32;
                }
            },
            Self::Uniform { min, max } => min + stream.below(u64::from(max - min) + 1) as u32,
        }
    }
}

fn blocks_of(
    size: ByteSize,
    target: AddressSpace,
    limit_blocks: u64,
    at: &str,
) -> Result<u32, DescriptionError> {
    let blocks = target.blocks(size, at)?;
    if blocks > limit_blocks || blocks > u64::from(u32::MAX) {
        return Err(too_large(size, target, limit_blocks, at));
    }
    Ok(blocks as u32)
}

fn too_large(size: ByteSize, target: AddressSpace, limit_blocks: u64, at: &str) -> DescriptionError {
    let limit = ByteSize::from_bytes(limit_blocks.saturating_mul(target.block_size.as_bytes()));
    DescriptionError::new(
        Mistake::DoesNotFit,
        at,
        format!("{size} is more than the addresses span, which is {limit}"),
    )
}
