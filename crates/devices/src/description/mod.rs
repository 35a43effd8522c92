//! The description of a device: a tree of nodes, each with a kind, typed parameters and children.
//!
//! ```toml
//! kind = "disk"                      # or base = "cheetah-36es", a device of the catalog, changed by [set]
//! title = "Quantum Atlas 10K"
//! validated = "measured response times, 1.7 % demerit"
//! [sources]
//! default = "DiskSim 4.0 valid/atlas10k.parv"
//! "mechanics.rpm" = "data sheet"
//! [geometry]
//! …
//! ```
//! A child is a description in the table `[device]`, several children are the tables `[[devices]]`. Every question about
//! a description (capabilities, tracks, validation, fitted facts, bare mechanics) is a walk over the tree, which a layer
//! forwards to its only child unless its kind answers itself.

mod read;
mod rows;
mod set;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Capabilities, DescriptionError, Device, Seed};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::fitted::FittedModel;
use crate::kind::{Children, Declared, Kind, Tracks};
use crate::power_loss::PowerLossParameters;
use crate::registry;
use crate::service_law::{Demand, ServiceLaw, WriteBuffer};

pub use read::SCHEMA;
pub use rows::ParameterRow;

/// Text of a description beside the parameters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The device's full name.
    #[serde(default)]
    pub title: String,
    /// The measurements with which the model of this device was compared, their conditions, and the result.
    #[serde(default)]
    pub validated: String,
    /// Sources of values: by path of the parameter, and `default` for the rest.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// A device, described completely; a node of the tree with all that is below it.
#[derive(Debug, Clone)]
pub struct Description {
    /// Catalog name, or the file's; a child's own name.
    pub name: String,
    /// The file, or the key of a child, for messages.
    label: String,
    /// The file's text, for lines in messages; only of the root, and not of a changed device of the catalog.
    text: Option<Arc<str>>,
    /// Text beside the parameters.
    pub header: Header,
    kind: &'static Kind,
    parameters: Arc<dyn Declared>,
    children: Vec<Description>,
}

impl Description {
    /// The kind of device.
    pub const fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// The devices that this one owns.
    pub fn children(&self) -> &[Self] {
        &self.children
    }

    /// Returns the number of each of its [devices](Self::children), of a kind that hands requests on by the number that they
    /// carry; `None` of any other kind.
    ///
    /// # Errors
    /// Numbers that do not fit the devices.
    pub fn device_numbers(&self) -> Result<Option<Vec<u16>>, DescriptionError> {
        self.parameters.device_numbers(self.children.len()).map_err(|error| self.place(error))
    }

    /// Checks that it may stand beneath another device: it does not hand requests on by device number.
    fn beneath_another(&self) -> Result<(), DescriptionError> {
        if self.parameters.device_numbers(self.children.len())?.is_none() {
            return Ok(());
        }
        let problem = format!("`{}` stands beneath another device", self.kind.name);
        Err(DescriptionError::invalid("kind", problem).hint(
            "put the layer in front of each of its [[devices]]: requests are handed on by device number",
        ))
    }

    /// Builds the device; `name` begins the names of its random streams. An only child takes the same name, one of
    /// several its own behind it.
    ///
    /// # Errors
    /// Parameters, or a combination of them, that no device can have.
    pub fn build(&self, seed: Seed, name: &str) -> Result<Box<dyn Device>, DescriptionError> {
        self.build_here(seed, name).map_err(|error| self.place(error))
    }

    /// Names file and line of a mistake.
    fn place(&self, error: DescriptionError) -> DescriptionError {
        let error = match &self.text {
            Some(text) => error.located(text),
            None => error,
        };
        error.within(&self.label)
    }

    /// As [`build`](Self::build), the file not named in errors.
    fn build_here(&self, seed: Seed, name: &str) -> Result<Box<dyn Device>, DescriptionError> {
        let children = self.of_children(|child| match self.kind.children {
            Children::Several => child.build_here(seed, &format!("{name}.{}", child.name)),
            Children::None | Children::One => child.build_here(seed, name),
        });
        self.parameters.build(children?, seed, name)
    }

    /// The answer of each child; a mistake has the path from here.
    fn of_children<T>(
        &self,
        ask: impl Fn(&Self) -> Result<T, DescriptionError>,
    ) -> Result<Vec<T>, DescriptionError> {
        let answers = self
            .children
            .iter()
            .enumerate()
            .map(|(index, child)| ask(child).map_err(|error| error.under(&self.child_key(index))));
        answers.collect()
    }

    /// Capabilities of the device, without building it.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn capabilities(&self) -> Result<Capabilities, DescriptionError> {
        self.capabilities_here().map_err(|error| self.place(error))
    }

    fn capabilities_here(&self) -> Result<Capabilities, DescriptionError> {
        self.parameters.capabilities(self.of_children(Self::capabilities_here)?)
    }

    /// The validation of the model: its own statement, or that of its only child.
    pub fn validated(&self) -> &str {
        match self.children.as_slice() {
            [child] if self.header.validated.is_empty() => child.validated(),
            _ => &self.header.validated,
        }
    }

    /// Its tracks as `(first block, blocks)`, `None` of a device that has none.
    pub fn tracks(&self) -> Option<Tracks> {
        let children = self.children.iter().map(Self::tracks).collect();
        self.parameters.tracks(children).ok().flatten()
    }

    /// Effects of a power loss, `None` of a device that knows no media.
    pub fn power_loss(&self) -> Option<PowerLossParameters> {
        self.parameters.power_loss(self.children.iter().map(Self::power_loss).collect())
    }

    /// Checks that nothing in the description lies beyond `size`, the part of the device that is served.
    ///
    /// # Errors
    /// Blocks of a fault beyond it.
    pub fn check_served(&self, size: ByteSize) -> Result<(), DescriptionError> {
        self.check_served_here(size).map_err(|error| self.place(error))
    }

    fn check_served_here(&self, size: ByteSize) -> Result<(), DescriptionError> {
        self.parameters.check_served(size)?;
        match (self.kind.children, self.children.as_slice()) {
            (Children::One, [child]) => {
                child.check_served_here(size).map_err(|error| error.under(&self.child_key(0)))
            }
            // One of several devices has addresses of its own.
            _ => Ok(()),
        }
    }

    /// Facts that were fitted to a trace, `None` of a device that was not fitted to one.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn fitted_model(&self) -> Result<Option<FittedModel>, DescriptionError> {
        self.fitted_model_here().map_err(|error| self.place(error))
    }

    fn fitted_model_here(&self) -> Result<Option<FittedModel>, DescriptionError> {
        self.parameters.fitted_model(self.of_children(Self::fitted_model_here)?)
    }

    /// Service law for a demand: that of its kind over those of its children. `sample` gives the law of a device whose
    /// kind has no formula for the demand; it is called only for demands without an order.
    pub fn service_law(
        &self,
        demand: &Demand,
        sample: &dyn Fn(&Self) -> Option<ServiceLaw>,
    ) -> Option<ServiceLaw> {
        let child = |demand: &Demand| match self.children.as_slice() {
            [child] => child.service_law(demand, sample),
            _ => None,
        };
        let formula = self.parameters.service_law(demand, &child);
        formula.or_else(|| if demand.order.is_none() { sample(self) } else { None })
    }

    /// Buffer of the writes of a demand that complete before they are on the media; `None` if the demand has no writes,
    /// or no buffer takes them.
    pub fn write_buffer(&self, demand: &Demand) -> Option<WriteBuffer> {
        if demand.reads >= 1.0 {
            return None;
        }
        let children = self.children.iter().map(|child| child.write_buffer(demand)).collect();
        self.parameters.write_buffer(demand, children)
    }

    /// The same device with its bare mechanics: no overheads, buffer or bus. A device without mechanics stays as it is.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn bare(mut self) -> Result<Self, DescriptionError> {
        if self.strip()? {
            self.name.push_str(" (bare)");
        }
        Ok(self)
    }

    /// Leaves the bare mechanics; returns `true` if that changed anything.
    fn strip(&mut self) -> Result<bool, DescriptionError> {
        let mut is_changed = false;
        for child in &mut self.children {
            is_changed |= child.strip()?;
        }
        let children: Vec<_> = self.children.iter().map(Self::capabilities).collect::<Result<_, _>>()?;
        if let Some(parameters) = self.parameters.bare(&children) {
            self.parameters = parameters;
            is_changed = true;
        }
        Ok(is_changed)
    }

    /// The same device beneath a layer of that kind with these parameters.
    ///
    /// # Errors
    /// Parameters that the layer cannot have, or that do not fit the device.
    ///
    /// # Panics
    /// If there is no kind of that name with one child.
    pub fn beneath(self, layer: &str, parameters: &impl Serialize) -> Result<Self, DescriptionError> {
        let kind = registry::find(layer).filter(|kind| kind.children == Children::One);
        let kind = kind.expect("the caller names a layer");
        self.beneath_another()?;
        let table = Table::try_from(parameters);
        let table = table.map_err(|error| DescriptionError::invalid("", error.to_string()))?;
        let header = Header { title: self.header.title.clone(), ..Header::default() };
        let device = Self {
            name: self.name.clone(),
            label: self.label.clone(),
            text: None,
            header,
            kind,
            parameters: (kind.read)(&table)?,
            children: vec![Self { text: None, ..self }],
        };
        device.build_here(Seed(0), "check")?;
        Ok(device)
    }

    /// The description as a TOML document with the header, complete and readable again.
    pub fn to_toml(&self) -> String {
        let mut table = Table::new();
        table.insert("schema".into(), SCHEMA.into());
        table.insert("title".into(), self.header.title.clone().into());
        table.insert("validated".into(), self.header.validated.clone().into());
        table.insert("sources".into(), Value::Table(Table::new()));
        table.extend(self.to_table());
        toml::to_string(&table).expect("every table of text keys can be written")
    }

    /// Kind, header, parameters and children, as they stand in a table of a description.
    fn to_table(&self) -> Table {
        let Header { title, validated, sources } = &self.header;
        let mut table = Table::new();
        table.insert("kind".into(), self.kind.name.into());
        for (key, text) in [("title", title), ("validated", validated)] {
            if !text.is_empty() {
                table.insert(key.into(), text.clone().into());
            }
        }
        if !sources.is_empty() {
            let sources = sources.iter().map(|(key, source)| (key.clone(), source.clone().into()));
            table.insert("sources".into(), Value::Table(sources.collect()));
        }
        table.extend(self.parameters.table());
        match (self.kind.children, self.children.as_slice()) {
            (Children::One, [child]) => drop(table.insert("device".into(), child.to_table().into())),
            (Children::Several, children) => {
                let tables = children.iter().map(|child| {
                    let mut table = child.to_table();
                    table.insert("name".into(), child.name.clone().into());
                    Value::Table(table)
                });
                table.insert("devices".into(), Value::Array(tables.collect()));
            }
            _ => {}
        }
        table
    }

    /// The key of a child in its parent's table, such as `device` or `devices[1]`.
    fn child_key(&self, index: usize) -> String {
        match self.kind.children {
            Children::Several => format!("devices[{index}]"),
            Children::None | Children::One => "device".to_owned(),
        }
    }
}

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod tests;
