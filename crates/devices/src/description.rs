//! The description of a device: a TOML document with units, sources and overrides.
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
//! Layers nest as they stack: `kind = "queue"` has a table `[device]` that describes what it owns.

use std::collections::BTreeMap;
use std::fmt;

use seeklab_core::{Device, Seed};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::catalog;
use crate::error::ParameterError;
use crate::learnt::Learnt;
use crate::names::near_matches;
use crate::reader;
use crate::registry::{self, Kind};

/// Fields of a description beside the parameters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The device's full name.
    #[serde(default)]
    pub title: String,
    /// Comparison of the model of this device with measurements or another model, with its result.
    #[serde(default)]
    pub validated: String,
    /// Sources of the values: by path of the parameter, and `default` for the rest.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// A device, described completely.
#[derive(Debug, Clone)]
pub struct Description {
    /// Catalog name, or the file's.
    pub name: String,
    /// The file, for messages.
    label: String,
    /// Fields beside the parameters.
    pub header: Header,
    kind: &'static Kind,
    /// Every parameter of the kind, defaults filled in.
    parameters: Table,
}

/// A mistake in a description, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptionError {
    message: String,
    hint: Option<String>,
}

impl DescriptionError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Prefixes the message with `label`, the file or table that the error lies in.
    pub(crate) fn within(self, label: &str) -> Self {
        Self { message: format!("{label}: {}", self.message), ..self }
    }

    /// Returns a hint with what is allowed, if there is one.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DescriptionError {}

impl From<ParameterError> for DescriptionError {
    fn from(error: ParameterError) -> Self {
        Self::new(format!("{}: {}", error.parameter, error.problem))
            .hint(format!("allowed: {}", error.allowed))
    }
}

/// Maximum depth of nested bases and layers.
const DEPTH_MAX: usize = 16;

impl Description {
    /// Reads a description from the text of the file `label`.
    ///
    /// # Errors
    /// Any mistake in the text. The error names the file, the line or key, the value found and the
    /// allowed values.
    pub fn parse(name: &str, label: &str, text: &str) -> Result<Self, DescriptionError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            DescriptionError::new(format!("{label}, line {line}: {}", one_line(error.message())))
        })?;
        Self::from_table(name, label, table, 0)
    }

    /// The description of a table within another description, such as `[device]` of a layer.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub(crate) fn from_table(
        name: &str,
        label: &str,
        mut table: Table,
        depth: usize,
    ) -> Result<Self, DescriptionError> {
        if depth > DEPTH_MAX {
            return Err(DescriptionError::new(format!("{label}: nests more than {DEPTH_MAX} devices")));
        }
        if table.contains_key("base") {
            return Self::from_base(name, label, table);
        }
        let kind = match table.remove("kind") {
            Some(Value::String(kind)) => registry::find(&kind).ok_or_else(|| {
                let names = registry::KINDS.iter().map(|kind| kind.name);
                DescriptionError::new(format!(
                    "{label}: kind: there is no kind `{kind}`{}",
                    near_matches(&kind, names)
                ))
            })?,
            Some(other) => {
                return Err(DescriptionError::new(format!("{label}: kind: `{other}` is not text")));
            }
            None => {
                let names: Vec<&str> = registry::KINDS.iter().map(|kind| kind.name).collect();
                return Err(DescriptionError::new(format!("{label}: there is no key `kind` or `base`"))
                    .hint(format!("write kind = \"…\", one of {}", names.join(", "))));
            }
        };
        let header = take_header(&mut table, label)?;
        let parameters = (kind.complete)(&table).map_err(|error| error.within(label))?;
        let description = Self { name: name.to_owned(), label: label.to_owned(), header, kind, parameters };
        Ok(description)
    }

    /// A device of the catalog with some parameters changed: `base`, `[set]` and a header of its own.
    fn from_base(name: &str, label: &str, mut table: Table) -> Result<Self, DescriptionError> {
        let base = match table.remove("base") {
            Some(Value::String(base)) => base,
            _ => return Err(DescriptionError::new(format!("{label}: base: is not the name of a device"))),
        };
        if label == catalog::label(&base) {
            return Err(DescriptionError::new(format!("{label}: base: a device cannot be its own base")));
        }
        let mut description = catalog::find(&base).map_err(|error| {
            error
                .within(&format!("{label}: base"))
                .hint("a base is a device of the catalog, see `seeklab devices`")
        })?;
        let set = match table.remove("set") {
            Some(Value::Table(set)) => set,
            None => Table::new(),
            Some(_) => return Err(DescriptionError::new(format!("{label}: set: is not a table"))),
        };
        let header = take_header(&mut table, label)?;
        if let Some(key) = table.keys().next() {
            return Err(DescriptionError::new(format!("{label}: unknown key `{key}` beside `base`"))
                .hint("change parameters of the base in a table [set]"));
        }
        description.name = name.to_owned();
        description.label = label.to_owned();
        if !header.title.is_empty() {
            description.header.title = header.title;
        }
        if !header.validated.is_empty() {
            description.header.validated = header.validated;
        }
        for (key, value) in set {
            let text = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            description.set(&key, &text)?;
        }
        // After `set`, which says that a value was set where this says why.
        description.header.sources.extend(header.sources);
        Ok(description)
    }

    /// Changes one parameter, named by its path or, where that is unique, by its last part.
    ///
    /// # Errors
    /// A name that is not there or not unique, or a value that the parameter cannot have.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), DescriptionError> {
        let mut paths = Vec::new();
        collect_paths(&self.parameters, "", &mut paths);
        let matching: Vec<&String> = match paths.iter().find(|path| *path == key) {
            Some(path) => vec![path],
            None => paths.iter().filter(|path| path.ends_with(&format!(".{key}"))).collect(),
        };
        let path = match matching.as_slice() {
            [path] => (*path).clone(),
            [] if lists_hold(&self.parameters, key) => {
                return Err(DescriptionError::new(format!("parameter `{key}` is one of a list")).hint(
                    format!("save `seeklab devices {} --toml` to a file and change it there", self.name),
                ));
            }
            [] => {
                let parts = paths.iter().map(|path| path.rsplit('.').next().unwrap_or(path));
                return Err(DescriptionError::new(format!(
                    "device `{}` has no parameter `{key}`{}",
                    self.name,
                    near_matches(key, parts)
                ))
                .hint(format!("`seeklab devices {} --toml` shows all parameters", self.name)));
            }
            several => {
                let several: Vec<String> = several.iter().map(|path| format!("`{path}`")).collect();
                return Err(DescriptionError::new(format!("parameter `{key}` is ambiguous"))
                    .hint(format!("write one of {}", several.join(", "))));
            }
        };
        let mut table = self.parameters.clone();
        let slot = lookup_mut(&mut table, &path).expect("the path was collected from this table");
        *slot = parse_like(slot, text);
        let label = format!("--set {path}={text}");
        self.parameters = (self.kind.complete)(&table).map_err(|error| error.within(&label))?;
        self.header.sources.insert(path, format!("set to {text}"));
        self.check_buildable(&label)
    }

    fn check_buildable(&self, label: &str) -> Result<(), DescriptionError> {
        (self.kind.build)(&self.parameters, Seed(0), "check").map(drop).map_err(|error| error.within(label))
    }

    /// The parameters as a TOML document with the header, complete and readable again.
    pub fn to_toml(&self) -> String {
        let mut table = Table::new();
        table.insert("kind".into(), self.kind.name.into());
        table.insert("title".into(), self.header.title.clone().into());
        table.insert("validated".into(), self.header.validated.clone().into());
        let sources = self.header.sources.iter().map(|(key, source)| (key.clone(), source.clone().into()));
        table.insert("sources".into(), Value::Table(sources.collect()));
        table.extend(self.parameters.clone());
        toml::to_string(&table).expect("every table of text keys can be written")
    }

    /// Kind and parameters, as they stand in a layer's table `[device]`.
    pub(crate) fn into_table(self) -> Table {
        let mut table = Table::new();
        table.insert("kind".into(), self.kind.name.into());
        if !self.header.validated.is_empty() {
            table.insert("validated".into(), self.header.validated.into());
        }
        table.extend(self.parameters);
        table
    }

    /// Returns the `validated` text of the device, or else that of the device that a layer owns.
    pub fn validated(&self) -> &str {
        let (mut validated, mut table) = (self.header.validated.as_str(), &self.parameters);
        while let ("", Some(Value::Table(device))) = (validated, table.get("device")) {
            validated = device.get("validated").and_then(Value::as_str).unwrap_or_default();
            table = device;
        }
        validated
    }

    /// `(path, value, source)` of every parameter, long lists shortened.
    pub fn parameters(&self) -> Vec<(String, String, String)> {
        let mut paths = Vec::new();
        collect_paths(&self.parameters, "", &mut paths);
        let value = |path: &str| {
            let value = lookup(&self.parameters, path).map(Value::to_string).unwrap_or_default();
            let value = value.trim_matches('"').to_owned();
            if value.len() > 60 {
                format!("{}…", value.chars().take(59).collect::<String>())
            } else {
                value
            }
        };
        paths.iter().map(|path| (path.clone(), value(path), self.source_of(path).to_owned())).collect()
    }

    /// Returns the source of a parameter's value: its own, that of a table around it, or the default.
    fn source_of(&self, path: &str) -> &str {
        let mut key = path;
        loop {
            if let Some(source) = self.header.sources.get(key) {
                return source;
            }
            match key.rsplit_once('.') {
                Some((around, _)) => key = around,
                None => return self.header.sources.get("default").map_or("", String::as_str),
            }
        }
    }

    /// Its tracks as `(first block, blocks)`, `None` of a device that has none.
    pub fn tracks(&self) -> Option<Vec<(u64, u32)>> {
        self.kind.tracks.and_then(|tracks| tracks(&self.parameters).ok())
    }

    /// Returns the fitted model, `None` for a device that was not fitted to a trace.
    ///
    /// # Errors
    /// Parameters that no device can have.
    pub fn learnt(&self) -> Result<Option<Learnt>, DescriptionError> {
        match self.kind.learnt {
            Some(learnt) => learnt(&self.parameters).map_err(|error| error.within(&self.label)),
            None => Ok(None),
        }
    }

    /// The kind of device.
    pub const fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Builds the device; `name` begins the names of its random streams.
    ///
    /// # Errors
    /// Parameters, or a combination of them, that no device can have.
    pub fn build(&self, seed: Seed, name: &str) -> Result<Box<dyn Device>, DescriptionError> {
        (self.kind.build)(&self.parameters, seed, name).map_err(|error| error.within(&self.label))
    }

    /// The same device with its bare mechanics: no overheads, buffer or bus. A kind without mechanics
    /// stays as it is.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn bare(mut self) -> Result<Self, DescriptionError> {
        if let Some(strip) = self.kind.bare {
            self.parameters = strip(&self.parameters).map_err(|error| error.within(&self.label))?;
            self.name.push_str(" (bare)");
        }
        Ok(self)
    }
}

fn take_header(table: &mut Table, label: &str) -> Result<Header, DescriptionError> {
    let mut header = Table::new();
    for key in ["title", "validated", "sources"] {
        if let Some(value) = table.remove(key) {
            header.insert(key.to_owned(), value);
        }
    }
    reader::read(&header).map_err(|error| error.within(label))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn collect_paths(table: &Table, prefix: &str, paths: &mut Vec<String>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) => collect_paths(inner, &path, paths),
            _ => paths.push(path),
        }
    }
}

/// Returns true if a table in a list has the key.
fn lists_hold(table: &Table, path: &str) -> bool {
    let key = path.rsplit('.').next().unwrap_or(path);
    table.values().any(|value| match value {
        Value::Table(inner) => lists_hold(inner, key),
        Value::Array(items) => items
            .iter()
            .filter_map(Value::as_table)
            .any(|item| item.contains_key(key) || lists_hold(item, key)),
        _ => false,
    })
}

fn lookup<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => table.get(path),
        Some((first, rest)) => lookup(table.get(first)?.as_table()?, rest),
    }
}

fn lookup_mut<'a>(table: &'a mut Table, path: &str) -> Option<&'a mut Value> {
    match path.split_once('.') {
        None => table.get_mut(path),
        Some((first, rest)) => lookup_mut(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

/// The text as a value of the kind that stands there, or as text if it cannot be read so.
fn parse_like(old: &Value, text: &str) -> Value {
    match old {
        Value::String(_) => Value::String(text.to_owned()),
        _ => format!("value = {text}")
            .parse::<Table>()
            .ok()
            .and_then(|mut table| table.remove("value"))
            .unwrap_or_else(|| Value::String(text.to_owned())),
    }
}
