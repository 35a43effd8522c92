//! Kinds of schedulers: what a file of this folder declares.

use std::fmt;

use seeklab_core::{Duration, QuantityError, Ratio, Scheduler};

use super::Address;

/// One kind of scheduler: its name, its parameter, its description and its construction.
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
    pub(super) build: fn(&Settings) -> Box<dyn Scheduler>,
}

impl SchedulerKind {
    /// A kind without a parameter that orders by logical block alone, or by nothing.
    pub(super) const fn new(
        name: &'static str,
        description: &'static str,
        build: fn(&Settings) -> Box<dyn Scheduler>,
    ) -> Self {
        Self { name, parameter: None, by_cylinder: false, description, build }
    }

    /// The same kind, with a form that orders by cylinder.
    pub(super) const fn by_cylinder(self) -> Self {
        Self { by_cylinder: true, ..self }
    }

    /// The same kind, with a parameter in brackets.
    pub(super) const fn with(self, parameter: Parameter) -> Self {
        Self { parameter: Some(parameter), ..self }
    }
}

/// A scheduler's parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Meaning of the parameter, with unit and default.
    pub description: &'static str,
    pub(super) default: Value,
}

/// Value of a scheduler's parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Ratio(Ratio),
    Duration(Duration),
}

impl Value {
    /// Reads a value of the same quantity.
    pub(super) fn parse_like(self, text: &str) -> Result<Self, QuantityError> {
        Ok(match self {
            Self::Ratio(_) => Self::Ratio(text.parse()?),
            Self::Duration(_) => Self::Duration(text.parse()?),
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Ratio(ratio) => ratio.fmt(f),
            Self::Duration(duration) => duration.fmt(f),
        }
    }
}

/// Settings of one scheduler that is built.
pub(super) struct Settings {
    pub(super) address: Address,
    pub(super) value: Option<Value>,
    /// Logical blocks or cylinders of the device.
    pub(super) range: u64,
}

impl Settings {
    /// The parameter of a kind that takes a ratio.
    pub(super) fn ratio(&self) -> Ratio {
        match self.value {
            Some(Value::Ratio(ratio)) => ratio,
            _ => unreachable!("the kind declares a ratio"),
        }
    }

    /// The parameter of a kind that takes a duration.
    pub(super) fn duration(&self) -> Duration {
        match self.value {
            Some(Value::Duration(duration)) => duration,
            _ => unreachable!("the kind declares a duration"),
        }
    }
}
