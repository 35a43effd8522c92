//! Rate states: sectors per second of processor time, and how long a state lasts.
//!
//! ```toml
//! input = "5000/s:50%:45 + 38.76/s:50%:45"                                    # rate : share : residence
//! input = [{ rate = "5000/s", share = "50%", residence = 45.0 }, { … }]       # the same as a list
//! ```

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::{DescriptionError, Duration, Ratio, Stream};
use serde::de::value::SeqAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::rate::Rate;

/// The states of an input or output rate.
#[derive(Debug, Clone, PartialEq)]
pub struct RateStates(pub Vec<RateState>);

/// A state of an input or output rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a rate state, for example { rate = \"5000/s\", share = \"50%\", residence = 45.0 }"
)]
pub struct RateState {
    /// Sectors per second of processor time.
    #[schemars(extend("x-quantity" = "a rate of sectors"))]
    pub rate: Rate,
    /// Share of the sectors that have this rate. The shares of all states sum to 100 %.
    #[serde(default = "whole")]
    #[schemars(extend("x-maximum" = "100%"))]
    pub share: Ratio,
    /// Mean number of sectors for which a drawn state lasts. The number is geometric. The next state may be the same.
    #[serde(default = "one")]
    #[schemars(range(min = 1.0, max = 1e9), extend("x-unit" = "sectors"))]
    pub residence: f64,
}

const fn whole() -> Ratio {
    Ratio::from_const(1.0)
}

const fn one() -> f64 {
    1.0
}

/// Deviation of a sum of shares from 100 % that rounding explains.
const SHARE_TOLERANCE: f64 = 1e-6;

impl RateStates {
    /// Checks rates, shares and residences; `key` is the key of the states.
    pub(super) fn check(&self, key: &str) -> Result<(), DescriptionError> {
        let invalid = |index: usize, name: &str, value: String, hint: &str| {
            Err(DescriptionError::invalid(format!("{key}[{index}].{name}"), value).hint(hint.to_owned()))
        };
        for (index, state) in self.0.iter().enumerate() {
            if !(1.0..=1e9).contains(&state.residence) {
                let value = format!("{} is out of range", state.residence);
                return invalid(index, "residence", value, "a state lasts for 1 to 1000000000 sectors");
            }
            if state.share.as_f64() > 1.0 {
                return invalid(
                    index,
                    "share",
                    format!("{} is out of range", state.share),
                    "a share is at most 100%",
                );
            }
        }
        let total: f64 = self.0.iter().map(|state| state.share.as_f64()).sum();
        if (total - 1.0).abs() > SHARE_TOLERANCE {
            let sum = format!("the shares of the states sum to {:.6} %", total * 100.0);
            return Err(DescriptionError::invalid(key, sum).hint("shares of all states sum to 100%"));
        }
        Ok(())
    }

    /// Mean processor time of a sector, in seconds.
    pub fn sector_time_mean_s(&self) -> f64 {
        self.0.iter().map(|state| state.share.as_f64() / state.rate.as_per_s()).sum()
    }
}

impl FromStr for RateStates {
    type Err = String;

    /// Reads `"5000/s:50%:45 + 38.76/s:50%:45"`.
    fn from_str(text: &str) -> Result<Self, String> {
        let state = |text: &str| {
            let mut parts = text.split(':').map(str::trim);
            let rate = parts.next().unwrap_or_default();
            let mut state = RateState {
                rate: rate.parse().map_err(|error| format!("{error}"))?,
                share: whole(),
                residence: one(),
            };
            if let Some(share) = parts.next() {
                state.share = share.parse().map_err(|error| format!("{error}"))?;
            }
            if let Some(residence) = parts.next() {
                state.residence = residence.parse().map_err(|_| {
                    format!("`{residence}` is not a number of sectors (hint: write for example `45`)")
                })?;
            }
            match parts.next() {
                Some(more) => {
                    Err(format!("`{more}` is one part too many (hint: write `RATE:SHARE:RESIDENCE`)"))
                }
                None => Ok(state),
            }
        };
        text.split('+').map(state).collect::<Result<_, _>>().map(Self)
    }
}

impl Serialize for RateStates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RateStates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> de::Visitor<'de> for Form {
            type Value = RateStates;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(
                    "rate states as text, for example \"5000/s:50%:45+38.76/s:50%:45\", or a list of tables",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RateStates, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, states: A) -> Result<RateStates, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(states)).map(RateStates)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for RateStates {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "RateStates".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            {
                "type": "string",
                "x-quantity": "rate states such as `5000/s:50%:45+38.76/s:50%:45`",
                "examples": ["5000/s:50%:45+38.76/s:50%:45"],
            },
            generator.subschema_for::<Vec<RateState>>(),
        ]})
    }
}

impl fmt::Display for RateStates {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (index, state) in self.0.iter().enumerate() {
            let plus = if index == 0 { "" } else { "+" };
            write!(f, "{plus}{}:{}:{}", state.rate, state.share, state.residence)?;
        }
        Ok(())
    }
}

/// Draws the processor time of each sector of a file.
#[derive(Debug, Clone)]
pub struct SectorTimes {
    /// Processor time of a sector, chance that the state ends after a sector, cumulative share of the sectors, and
    /// cumulative weight of a draw, of each state.
    states: Vec<(Duration, f64, f64, f64)>,
    state: usize,
    stream: Stream,
}

impl SectorTimes {
    /// The times of checked states. The first state has the shares of the sectors, as if the file had gone on before.
    pub(super) fn new(states: &RateStates, mut stream: Stream) -> Self {
        let (mut share, mut weight) = (0.0, 0.0);
        let weights = states.0.iter().map(|state| state.share.as_f64() / state.residence);
        let total: f64 = weights.clone().sum();
        let rows: Vec<_> = states
            .0
            .iter()
            .zip(weights)
            .map(|(state, of_state)| {
                share += state.share.as_f64();
                weight += of_state / total;
                (state.rate.interval(), 1.0 / state.residence, share, weight)
            })
            .collect();
        let draw = stream.unit();
        let state = rows.iter().position(|row| draw < row.2).unwrap_or(rows.len() - 1);
        Self { states: rows, state, stream }
    }

    /// Draws the processor time of the next sector.
    pub fn next_time(&mut self) -> Duration {
        let (time, ends, ..) = self.states[self.state];
        if self.stream.chance(ends) {
            let draw = self.stream.unit();
            self.state = self.states.iter().position(|row| draw < row.3).unwrap_or(self.states.len() - 1);
        }
        time
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;

    fn states(text: &str) -> RateStates {
        text.parse().unwrap()
    }

    #[test]
    fn text_and_list_are_the_same() {
        let text = states("5000/s:25%:45 + 40/s:75%");
        assert_eq!(text.0[0].residence, 45.0);
        assert_eq!(
            text.0[1],
            RateState { rate: "40/s".parse().unwrap(), share: Ratio::from_const(0.75), residence: 1.0 }
        );
        assert_eq!(states(&text.to_string()), text);
        assert!((text.sector_time_mean_s() - 0.0188).abs() < 1e-12);
    }

    #[test]
    fn mistakes_name_the_state() {
        for (text, part) in [
            ("5000:50%", "has no unit"),
            ("5000/s:half", "half"),
            ("5000/s:50%:long", "`long` is not a number of sectors"),
            ("5000/s:50%:4:5", "`5` is one part too many"),
        ] {
            let error = text.parse::<RateStates>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, part) in [
            ("5000/s:50%+40/s:40%", "sum to 90.000000 %"),
            ("5000/s:50%:0.5+40/s:50%", "input[0].residence"),
            ("5000/s:0%+40/s:100%:2e9", "input[1].residence"),
        ] {
            let error = states(text).check("input").unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        states("5000/s:50%:45+38.76/s:50%:45").check("input").unwrap();
    }

    #[test]
    fn drawn_sectors_have_their_shares_and_residences() {
        let states = states("1000/s:20%:40 + 100/s:80%:10");
        let mut times = SectorTimes::new(&states, Seed(1).stream("test"));
        let drawn: Vec<bool> = (0..400_000).map(|_| times.next_time() == Duration::from_ms(1)).collect();
        let fast = drawn.iter().filter(|is_fast| **is_fast).count() as f64;
        assert!((fast / 400_000.0 - 0.2).abs() < 0.01, "{fast}");
        // A draw has 0.2/40 against 0.8/10 of a chance, so the fast state comes again in 1 of 17 draws.
        let runs = drawn.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
        assert!((fast / runs / (40.0 * 17.0 / 16.0) - 1.0).abs() < 0.1, "{}", fast / runs);
    }
}
