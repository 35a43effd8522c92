//! Quantities with units: parsed from text that carries its unit, printed with it, exact inside.
//!
//! A bare number is an error with a hint, because a unit that lives in a comment goes stale.

mod angle;
mod angle_step;
mod ratio;
mod rotation;
mod size;
mod time;

pub use angle::Angle;
pub use angle_step::AngleStep;
pub use ratio::Ratio;
pub use rotation::RotationSpeed;
pub use size::{ByteSize, DataRate};
pub use time::{Duration, Instant, SignedDuration};

/// A text that could not be read as a quantity: what was written, what is wrong, what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` {problem} (hint: {hint})")]
pub struct QuantityError {
    /// The text as it was written.
    pub value: String,
    /// The problem, worded to follow the text.
    pub problem: String,
    /// A hint: text that would be valid.
    pub hint: String,
}

impl QuantityError {
    pub(crate) fn new(value: &str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { value: value.to_owned(), problem: problem.into(), hint: hint.into() }
    }
}

/// Returns true if `text` is a number without a unit.
fn is_bare_number(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok()
}

/// Splits `"12.5rpm"` into the number and the unit behind it.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(index, c)| {
            !(c.is_ascii_digit() || *c == '.' || *c == '_' || (*index == 0 && (*c == '-' || *c == '+')))
        })
        .map_or(text.len(), |(index, _)| index);
    let number = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Implements serde for a quantity through its `FromStr` and `Display`, and its JSON schema: text, with the
/// quantity in `x-quantity` and an example.
macro_rules! serde_as_text {
    ($type:ty, $what:literal, $example:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        write!(f, concat!($what, " as text with its unit, for example ", $example))
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "x-quantity": $what,
                    "examples": [$example.trim_matches('"')],
                })
            }
        }
    };
}
use serde_as_text;
