//! A kind of device or layer: what it declares, and its entry in the registry.
//!
//! ```text
//! TOML ─▶ Parameters ─▶ Blueprint (checked, shared by all devices of a description) ─▶ build ─▶ Box<dyn Device>
//!                                                                  built children ─────────┘
//! ```

use std::fmt;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use seeklab_core::description::{self, ParameterInfo, schema};
use seeklab_core::{ByteSize, Capabilities, Device, Seed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Table;

use crate::error::DescriptionError;
use crate::fitted::FittedModel;
use crate::power_loss::PowerLossParameters;
use crate::service_law::{Demand, ServiceLaw, WriteBuffer};

/// Number of devices that a device of a kind owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Children {
    /// None.
    None,
    /// One, described by the table `[device]`.
    One,
    /// One or more, described by the tables `[[devices]]`.
    Several,
}

/// `(first block, blocks)` of each whole track.
pub type Tracks = Vec<(u64, u32)>;

/// Declaration of a kind of device or layer.
///
/// A function that is not given forwards to the only child.
pub trait DeviceKind: fmt::Debug + Send + Sync + 'static {
    /// Its parameters, with defaults and ranges.
    type Parameters: fmt::Debug + Clone + Send + Sync + Serialize + DeserializeOwned + JsonSchema;
    /// Its parameters checked and prepared: shared by all devices that are built from one description.
    type Blueprint: fmt::Debug + Send + Sync;

    /// The name in `kind = "…"`.
    const NAME: &'static str;
    /// Its description in one line.
    const DESCRIPTION: &'static str;
    /// The devices that it owns.
    const CHILDREN: Children;

    /// The table of its parameters with those that a name stands for in place of the name, such as the faults of a
    /// preset. `None` if there is none.
    ///
    /// # Errors
    /// A name that is not there, or values that do not fit it.
    fn expanded(_table: &Table) -> Result<Option<Table>, DescriptionError> {
        Ok(None)
    }

    /// Checks and prepares parameters whose ranges have been checked.
    ///
    /// # Errors
    /// A combination that no device can have.
    fn blueprint(parameters: &Self::Parameters) -> Result<Self::Blueprint, DescriptionError>;

    /// Builds a device over its built children; `name` begins the names of its random streams.
    ///
    /// # Errors
    /// Children that do not fit.
    fn build(
        blueprint: &Self::Blueprint,
        children: Vec<Box<dyn Device>>,
        seed: Seed,
        name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError>;

    /// Capabilities of the device, from those of its children.
    fn capabilities(blueprint: &Self::Blueprint, children: Vec<Capabilities>) -> Capabilities;

    /// Parameters of the same device without overheads, buffer and bus, over children that are bare already; `None`
    /// if nothing changes.
    fn bare(_parameters: &Self::Parameters, _children: &[Capabilities]) -> Option<Self::Parameters> {
        None
    }

    /// Returns the number of each of so many children, of a kind that hands requests on by the number that they carry.
    ///
    /// # Errors
    /// Numbers that do not fit the children.
    fn device_numbers(
        _blueprint: &Self::Blueprint,
        _children: usize,
    ) -> Result<Option<Vec<u16>>, DescriptionError> {
        Ok(None)
    }

    /// Its tracks, `None` if it has none.
    fn tracks(_blueprint: &Self::Blueprint, children: Vec<Option<Tracks>>) -> Option<Tracks> {
        only(children).flatten()
    }

    /// Effects of a power loss, `None` of a device that knows no media.
    fn power_loss(
        _parameters: &Self::Parameters,
        children: Vec<Option<PowerLossParameters>>,
    ) -> Option<PowerLossParameters> {
        only(children).flatten()
    }

    /// Checks that nothing of the layer itself lies beyond `size`, the part of the device that is served.
    ///
    /// # Errors
    /// Blocks beyond it.
    fn check_served(_parameters: &Self::Parameters, _size: ByteSize) -> Result<(), DescriptionError> {
        Ok(())
    }

    /// Facts that were fitted to a trace, `None` if it was not fitted.
    ///
    /// # Errors
    /// Parameters that no device can have.
    fn fitted_model(
        _parameters: &Self::Parameters,
        children: Vec<Option<FittedModel>>,
    ) -> Result<Option<FittedModel>, DescriptionError> {
        Ok(only(children).flatten())
    }

    /// Service law for a demand, `None` if the kind has no formula for it, so that it has to be sampled. `child` gives
    /// the law of the only child for a demand.
    fn service_law(_blueprint: &Self::Blueprint, _demand: &Demand, _child: ChildLaw) -> Option<ServiceLaw> {
        None
    }

    /// Buffer of writes that complete before they are on the media, under a demand. `None` if there is none, or the
    /// demand has writes that the buffer does not take.
    fn write_buffer(
        _blueprint: &Self::Blueprint,
        _demand: &Demand,
        children: Vec<Option<WriteBuffer>>,
    ) -> Option<WriteBuffer> {
        only(children).flatten()
    }
}

/// Law of the only child for a demand; `None` if it has no child, or the demand has an order that the child states no
/// law for.
pub type ChildLaw<'a> = &'a dyn Fn(&Demand) -> Option<ServiceLaw>;

/// The only child's, `None` of none or several.
fn only<T>(mut children: Vec<T>) -> Option<T> {
    if children.len() == 1 { children.pop() } else { None }
}

/// The entry of a kind in the registry.
#[derive(Debug)]
pub struct Kind {
    /// The name in `kind = "…"`.
    pub name: &'static str,
    /// Its description in one line.
    pub description: &'static str,
    /// The devices that it owns.
    pub children: Children,
    pub(crate) read: fn(&Table) -> Result<Arc<dyn Declared>, DescriptionError>,
    schema: fn() -> Value,
}

impl Kind {
    /// The entry of that kind.
    pub(crate) const fn of<K: DeviceKind>() -> Self {
        Self {
            name: K::NAME,
            description: K::DESCRIPTION,
            children: K::CHILDREN,
            read: read::<K>,
            schema: schema::schema_of::<K::Parameters>,
        }
    }

    /// The JSON schema of its parameters, children and header not included.
    pub(crate) fn parameter_schema(&self) -> Value {
        (self.schema)()
    }

    /// Every parameter in the order of declaration.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        description::reference(&self.parameter_schema())
    }

    /// The key below which children stand; `None` of a kind without children.
    pub(crate) const fn children_key(&self) -> Option<&'static str> {
        match self.children {
            Children::None => None,
            Children::One => Some("device"),
            Children::Several => Some("devices"),
        }
    }
}

/// Typed parameters of a device, their type erased.
pub(crate) trait Declared: fmt::Debug + Send + Sync {
    /// Every parameter, defaults filled in.
    fn table(&self) -> Table;
    fn build(
        &self,
        children: Vec<Box<dyn Device>>,
        seed: Seed,
        name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError>;
    fn capabilities(&self, children: Vec<Capabilities>) -> Result<Capabilities, DescriptionError>;
    fn bare(&self, children: &[Capabilities]) -> Option<Arc<dyn Declared>>;
    fn device_numbers(&self, children: usize) -> Result<Option<Vec<u16>>, DescriptionError>;
    fn tracks(&self, children: Vec<Option<Tracks>>) -> Result<Option<Tracks>, DescriptionError>;
    fn power_loss(&self, children: Vec<Option<PowerLossParameters>>) -> Option<PowerLossParameters>;
    fn check_served(&self, size: ByteSize) -> Result<(), DescriptionError>;
    fn fitted_model(
        &self,
        children: Vec<Option<FittedModel>>,
    ) -> Result<Option<FittedModel>, DescriptionError>;
    fn service_law(&self, demand: &Demand, child: ChildLaw) -> Option<ServiceLaw>;
    fn write_buffer(&self, demand: &Demand, children: Vec<Option<WriteBuffer>>) -> Option<WriteBuffer>;
}

/// Parameters of one kind, and their blueprint once it was needed.
#[derive(Debug)]
struct Typed<K: DeviceKind> {
    parameters: K::Parameters,
    blueprint: OnceLock<Result<K::Blueprint, DescriptionError>>,
}

fn read<K: DeviceKind>(table: &Table) -> Result<Arc<dyn Declared>, DescriptionError> {
    let beside: &[&str] = match K::CHILDREN {
        Children::None => &[],
        Children::One => &["device"],
        Children::Several => &["devices"],
    };
    let expanded = K::expanded(table)?;
    let parameters = description::read_beside(expanded.as_ref().unwrap_or(table), beside)?;
    Ok(Arc::new(Typed::<K> { parameters, blueprint: OnceLock::new() }))
}

impl<K: DeviceKind> Typed<K> {
    fn blueprint(&self) -> Result<&K::Blueprint, DescriptionError> {
        let made = self.blueprint.get_or_init(|| {
            schema::check_ranges(&self.parameters)?;
            K::blueprint(&self.parameters)
        });
        made.as_ref().map_err(Clone::clone)
    }
}

impl<K: DeviceKind> Declared for Typed<K> {
    fn table(&self) -> Table {
        Table::try_from(&self.parameters).expect("parameters were read from a table")
    }

    fn build(
        &self,
        children: Vec<Box<dyn Device>>,
        seed: Seed,
        name: &str,
    ) -> Result<Box<dyn Device>, DescriptionError> {
        K::build(self.blueprint()?, children, seed, name)
    }

    fn capabilities(&self, children: Vec<Capabilities>) -> Result<Capabilities, DescriptionError> {
        Ok(K::capabilities(self.blueprint()?, children))
    }

    fn bare(&self, children: &[Capabilities]) -> Option<Arc<dyn Declared>> {
        let parameters = K::bare(&self.parameters, children)?;
        Some(Arc::new(Self { parameters, blueprint: OnceLock::new() }))
    }

    fn device_numbers(&self, children: usize) -> Result<Option<Vec<u16>>, DescriptionError> {
        K::device_numbers(self.blueprint()?, children)
    }

    fn tracks(&self, children: Vec<Option<Tracks>>) -> Result<Option<Tracks>, DescriptionError> {
        Ok(K::tracks(self.blueprint()?, children))
    }

    fn power_loss(&self, children: Vec<Option<PowerLossParameters>>) -> Option<PowerLossParameters> {
        K::power_loss(&self.parameters, children)
    }

    fn check_served(&self, size: ByteSize) -> Result<(), DescriptionError> {
        K::check_served(&self.parameters, size)
    }

    fn fitted_model(
        &self,
        children: Vec<Option<FittedModel>>,
    ) -> Result<Option<FittedModel>, DescriptionError> {
        self.blueprint()?;
        K::fitted_model(&self.parameters, children)
    }

    fn service_law(&self, demand: &Demand, child: ChildLaw) -> Option<ServiceLaw> {
        K::service_law(self.blueprint().ok()?, demand, child)
    }

    fn write_buffer(&self, demand: &Demand, children: Vec<Option<WriteBuffer>>) -> Option<WriteBuffer> {
        K::write_buffer(self.blueprint().ok()?, demand, children)
    }
}
