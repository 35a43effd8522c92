//! Schedulers by name: the list of kinds, and the text by which people choose one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::{Duration, Ratio, Scheduler};
use serde::{Deserialize, Serialize};

use super::{
    Address, CriticalityLook, Fcfs, Nearest, ShortestPositioning, Sweep, SweepEnd, WeighedPositioning,
    Weighing,
};
use crate::names::near_matches;

/// One kind of scheduler: its name, what it takes, what it does and how it is built.
#[derive(Debug)]
pub struct SchedulerKind {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// The parameter in brackets, with its default, if it takes one.
    pub parameter: Option<Parameter>,
    /// True if the scheduler may order by cylinder (`NAME-cylinder`) instead of by logical block.
    pub by_cylinder: bool,
    /// Description of the scheduler, in one line.
    pub description: &'static str,
    build: fn(Settings) -> Box<dyn Scheduler>,
}

/// A scheduler's parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Meaning of the parameter, with unit and default.
    pub description: &'static str,
    default: Value,
    parse: fn(&str) -> Result<Value, String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Ratio(Ratio),
    Duration(Duration),
}

struct Settings {
    address: Address,
    value: Option<Value>,
    /// Logical blocks or cylinders of the device.
    range: u64,
}

impl Settings {
    fn ratio(&self) -> Ratio {
        match self.value {
            Some(Value::Ratio(ratio)) => ratio,
            _ => unreachable!("the table gives this kind a ratio"),
        }
    }

    fn duration(&self) -> Duration {
        match self.value {
            Some(Value::Duration(duration)) => duration,
            _ => unreachable!("the table gives this kind a duration"),
        }
    }
}

fn parse_ratio(text: &str) -> Result<Value, String> {
    text.parse().map(Value::Ratio).map_err(|error: seeklab_core::QuantityError| error.to_string())
}

fn parse_duration(text: &str) -> Result<Value, String> {
    text.parse().map(Value::Duration).map_err(|error: seeklab_core::QuantityError| error.to_string())
}

const fn kind(
    name: &'static str,
    by_cylinder: bool,
    description: &'static str,
    build: fn(Settings) -> Box<dyn Scheduler>,
) -> SchedulerKind {
    SchedulerKind { name, parameter: None, by_cylinder, description, build }
}

/// THE list of schedulers.
pub const SCHEDULERS: &[SchedulerKind] = &[
    kind("fcfs", false, "first come, first served", |_| Box::new(Fcfs::default())),
    kind("sstf", true, "the request nearest to the one before", |s| Box::new(Nearest::sstf(s.address))),
    kind("look", true, "sweeps up and down between the outermost pending requests", |s| {
        Box::new(Sweep::new(s.address, SweepEnd::Turn))
    }),
    kind("c-look", true, "sweeps upwards, then begins again at the lowest pending request", |s| {
        Box::new(Sweep::new(s.address, SweepEnd::Restart))
    }),
    kind("scan", true, "sweeps up and down between the edges", |s| {
        Box::new(Sweep::new(s.address, SweepEnd::TurnAtEdge))
    }),
    kind("c-scan", true, "sweeps upwards from edge to edge", |s| {
        Box::new(Sweep::new(s.address, SweepEnd::RestartAtEdge))
    }),
    SchedulerKind {
        name: "vscan",
        parameter: Some(Parameter {
            description: "penalty for turning round as a share of the device [default: 0.2]",
            default: Value::Ratio(Ratio::from_const(0.2)),
            parse: parse_ratio,
        }),
        by_cylinder: true,
        description: "nearest first, requests against the direction of travel penalised",
        build: |s| Box::new(Nearest::vscan(s.address, s.ratio(), s.range)),
    },
    kind("sptf", false, "shortest positioning time first", |_| Box::new(ShortestPositioning::new())),
    SchedulerKind {
        name: "aged-sptf",
        parameter: Some(Parameter {
            description: "credit for each second of waiting [default: 6ms]",
            default: Value::Duration(Duration::from_ms(6)),
            parse: parse_duration,
        }),
        by_cylinder: false,
        description: "shortest positioning time first, less a credit for age",
        build: |s| Box::new(WeighedPositioning::new(Weighing::Age { credit_per_s: s.duration() })),
    },
    kind("spctf", false, "shortest positioning time first, what the buffer holds before all", |_| {
        Box::new(WeighedPositioning::new(Weighing::Buffer))
    }),
    kind(
        "criticality-c-look",
        true,
        "C-LOOK over time-critical and -limited requests, then over the rest",
        |s| Box::new(CriticalityLook::new(s.address)),
    ),
];

/// A scheduler as text: `c-look`, `sstf-cylinder`, `vscan(0.2)`, `aged-sptf(6ms)`.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerSpec {
    kind: &'static SchedulerKind,
    address: Address,
    value: Option<Value>,
}

impl SchedulerSpec {
    /// First come, first served.
    pub const FCFS: Self = Self { kind: &SCHEDULERS[0], address: Address::Lbn, value: None };

    /// The kind of scheduler.
    pub const fn kind(&self) -> &'static SchedulerKind {
        self.kind
    }

    /// An empty queue of that kind for a device of so many blocks and cylinders.
    pub fn build(&self, blocks: u64, cylinders: u64) -> Box<dyn Scheduler> {
        let range = if self.address == Address::Lbn { blocks } else { cylinders };
        (self.kind.build)(Settings { address: self.address, value: self.value, range })
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
        let find = |name: &str| SCHEDULERS.iter().find(|kind| kind.name == name);
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
            (Some(parameter), Some(text)) => {
                Some((parameter.parse)(text).map_err(|error| format!("scheduler `{}`: {error}", kind.name))?)
            }
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
            Some(Value::Ratio(ratio)) => write!(f, "({ratio})"),
            Some(Value::Duration(duration)) => write!(f, "({duration})"),
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
