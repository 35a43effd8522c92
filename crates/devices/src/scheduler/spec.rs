//! Schedulers by name: the text by which people choose one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::Scheduler;
use serde::{Deserialize, Serialize};

use super::kind::{SchedulerKind, Settings, Value};
use super::{Address, SCHEDULERS, fcfs};
use seeklab_core::names::near_matches;

/// A scheduler as text: `c-look`, `sstf-cylinder`, `vscan(0.2)`, `aged-sptf(6ms)`.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerSpec {
    kind: &'static SchedulerKind,
    address: Address,
    value: Option<Value>,
}

impl SchedulerSpec {
    /// First come, first served.
    pub const FCFS: Self = Self { kind: &fcfs::FCFS, address: Address::Lbn, value: None };

    /// The kind of scheduler.
    pub const fn kind(&self) -> &'static SchedulerKind {
        self.kind
    }

    /// An empty queue of that kind for a device of so many blocks and cylinders.
    pub fn build(&self, blocks: u64, cylinders: u64) -> Box<dyn Scheduler> {
        let range = if self.address == Address::Lbn { blocks } else { cylinders };
        (self.kind.build)(&Settings { address: self.address, value: self.value, range })
    }
}

impl PartialEq for SchedulerSpec {
    fn eq(&self, other: &Self) -> bool {
        (self.kind.name, self.address, self.value) == (other.kind.name, other.address, other.value)
    }
}

impl FromStr for SchedulerSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let (name, argument) = match trimmed.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
            Some((name, argument)) => (name, Some(argument)),
            None => (trimmed, None),
        };
        let find = |name: &str| SCHEDULERS.iter().copied().find(|kind| kind.name == name);
        let (kind, address) = match (find(name), name.strip_suffix("-cylinder").and_then(find)) {
            (Some(kind), _) => (kind, Address::Lbn),
            (None, Some(kind)) if kind.by_cylinder => (kind, Address::Cylinder),
            (None, Some(kind)) => {
                return Err(format!("scheduler `{}` has no form ordered by cylinder", kind.name));
            }
            (None, None) => {
                let names: Vec<&str> = SCHEDULERS.iter().map(|kind| kind.name).collect();
                let near = match near_matches(name, names.iter().copied()) {
                    near if near.is_empty() => format!("; there are {}", names.join(", ")),
                    near => near,
                };
                return Err(format!("there is no scheduler `{name}`{near}"));
            }
        };
        let value = match (&kind.parameter, argument) {
            (None, None) => None,
            (None, Some(_)) => return Err(format!("scheduler `{}` takes no parameter", kind.name)),
            (Some(parameter), None) => Some(parameter.default),
            (Some(parameter), Some(text)) => Some(
                parameter
                    .default
                    .parse_like(text)
                    .map_err(|error| format!("scheduler `{}`: {error}", kind.name))?,
            ),
        };
        Ok(Self { kind, address, value })
    }
}

impl fmt::Display for SchedulerSpec {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.kind.name)?;
        if self.address == Address::Cylinder {
            f.write_str("-cylinder")?;
        }
        match self.value {
            None => Ok(()),
            Some(value) => write!(f, "({value})"),
        }
    }
}

impl JsonSchema for SchedulerSpec {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Scheduler".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = SCHEDULERS.iter().map(|kind| kind.name).collect();
        json_schema!({ "type": "string", "x-quantity": "a scheduler", "examples": names })
    }
}

impl Serialize for SchedulerSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SchedulerSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_names_round_trip() {
        for text in ["fcfs", "sstf", "sstf-cylinder", "vscan(0.2)", "aged-sptf(6ms)", "criticality-c-look"] {
            assert_eq!(text.parse::<SchedulerSpec>().unwrap().to_string(), text);
        }
        assert_eq!("vscan(20%)".parse::<SchedulerSpec>().unwrap().to_string(), "vscan(0.2)");
        assert_eq!("aged-sptf".parse::<SchedulerSpec>().unwrap().to_string(), "aged-sptf(6ms)");
    }

    #[test]
    fn wrong_names_suggest_near_names() {
        let refused = |text: &str| text.parse::<SchedulerSpec>().unwrap_err();
        assert_eq!(refused("clook"), "there is no scheduler `clook`; did you mean `c-look`, `look`?");
        assert_eq!(refused("sptf-cylinder"), "scheduler `sptf` has no form ordered by cylinder");
        assert_eq!(refused("fcfs(3)"), "scheduler `fcfs` takes no parameter");
        assert!(refused("aged-sptf(6)").contains("has no unit"), "{}", refused("aged-sptf(6)"));
    }
}
