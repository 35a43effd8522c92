//! Rates of arrival.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::{Duration, QuantityError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A rate of events, per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate {
    per_s: f64,
}

impl Rate {
    /// The slowest rate accepted, about once in twelve days.
    pub const MIN: Self = Self { per_s: 1e-6 };
    /// The fastest rate accepted, once in a nanosecond: the resolution of time.
    pub const MAX: Self = Self { per_s: 1e9 };

    /// A rate of `per_s` times per second, `None` outside [`MIN`](Self::MIN) to [`MAX`](Self::MAX).
    pub fn from_per_s(per_s: f64) -> Option<Self> {
        (Self::MIN.per_s..=Self::MAX.per_s).contains(&per_s).then_some(Self { per_s })
    }

    /// Times per second.
    pub const fn as_per_s(self) -> f64 {
        self.per_s
    }

    /// The mean time from one to the next, rounded to the nearest nanosecond.
    pub fn interval(self) -> Duration {
        Duration::from_ns_f64(self.interval_ns())
    }

    /// The mean time from one to the next in nanoseconds, unrounded, for drawing from.
    pub(crate) fn interval_ns(self) -> f64 {
        1e9 / self.per_s
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    /// Reads `"100/s"`, `"2000/min"`, `"5/ms"` and `"90/h"`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let error = |problem: &str, hint: String| QuantityError {
            value: text.to_owned(),
            problem: problem.to_owned(),
            hint,
        };
        let trimmed = text.trim();
        if trimmed.parse::<f64>().is_ok() {
            return Err(error("has no unit", format!("write a rate, for example \"{trimmed}/s\"")));
        }
        let (number, unit) = trimmed.split_once('/').unwrap_or((trimmed, ""));
        let seconds = match unit.trim() {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3_600.0,
            _ => {
                return Err(error("is not a rate", "write for example \"100/s\" or \"2000/min\"".to_owned()));
            }
        };
        let number: f64 = number
            .trim()
            .replace('_', "")
            .parse()
            .map_err(|_| error("is not a rate", "write for example \"100/s\"".to_owned()))?;
        Self::from_per_s(number / seconds).ok_or_else(|| {
            error("is out of range", format!("a rate lies between {} and {}", Self::MIN, Self::MAX))
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&format!("{}/s", self.per_s))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Rate;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a rate as text with its unit, for example \"100/s\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Rate, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl JsonSchema for Rate {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-quantity": "a rate of requests", "examples": ["100/s"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_unit() {
        assert_eq!("100/s".parse::<Rate>().unwrap().interval(), Duration::from_ms(10));
        assert_eq!("3000/min".parse::<Rate>().unwrap().as_per_s(), 50.0);
        assert_eq!("5 / ms".parse::<Rate>().unwrap().as_per_s(), 5_000.0);
        assert_eq!("100".parse::<Rate>().unwrap_err().problem, "has no unit");
        assert_eq!("0/s".parse::<Rate>().unwrap_err().problem, "is out of range");
        assert_eq!("-1/s".parse::<Rate>().unwrap_err().problem, "is out of range");
        assert_eq!("100/day".parse::<Rate>().unwrap_err().problem, "is not a rate");
        assert_eq!("100Hz".parse::<Rate>().unwrap_err().problem, "is not a rate");
    }

    #[test]
    fn printed_rates_round_trip() {
        for text in ["100/s", "2000/min", "0.5/h", "7/us"] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }
}
