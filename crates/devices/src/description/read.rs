//! Reading of descriptions from TOML.

use toml::{Table, Value};

use super::{Description, DescriptionError, Header};
use crate::catalog;
use crate::kind::Kind;
use crate::reader;
use crate::registry;

/// The version of the schema of descriptions, which a document names as `schema`.
pub const SCHEMA: i64 = 1;

/// Levels of bases and layers at most.
const DEPTH_MAX: usize = 16;

impl Description {
    /// Reads a description from the text of the file `label`.
    ///
    /// # Errors
    /// A mistake in it, with file, line or key, the value found and the allowed values.
    pub fn parse(name: &str, label: &str, text: &str) -> Result<Self, DescriptionError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            DescriptionError::new(format!("{label}, line {line}: {}", one_line(error.message())))
        })?;
        Self::from_table(name, label, table, 0)
    }

    /// The description of a table at a depth of nesting.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn from_table(
        name: &str,
        label: &str,
        mut table: Table,
        depth: usize,
    ) -> Result<Self, DescriptionError> {
        if depth > DEPTH_MAX {
            return Err(DescriptionError::new(format!("{label}: nests more than {DEPTH_MAX} devices")));
        }
        check_schema(&mut table, label)?;
        if table.contains_key("base") {
            return Self::from_base(name, label, table);
        }
        let kind = take_kind(&mut table, label)?;
        let header = take_header(&mut table, label)?;
        let children = take_children(kind, &mut table, depth).map_err(|error| error.within(label))?;
        let parameters = (kind.read)(&table).map_err(|error| error.within(label))?;
        Ok(Self { name: name.to_owned(), label: label.to_owned(), header, kind, parameters, children })
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
        for (key, value) in set {
            let text = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            description.set(&key, &text)?;
        }
        // After `set`, which replaces the base's statement and notes that a value was set: the file knows more.
        if !header.validated.is_empty() {
            description.header.validated = header.validated;
        }
        description.header.sources.extend(header.sources);
        Ok(description)
    }
}

fn take_kind(table: &mut Table, label: &str) -> Result<&'static Kind, DescriptionError> {
    match table.remove("kind") {
        Some(Value::String(kind)) => {
            registry::kind(&kind).map_err(|error| error.within(&format!("{label}: kind")))
        }
        Some(other) => Err(DescriptionError::new(format!("{label}: kind: `{other}` is not text"))),
        None => {
            let names: Vec<&str> = registry::KINDS.iter().map(|kind| kind.name).collect();
            Err(DescriptionError::new(format!("{label}: there is no key `kind` or `base`"))
                .hint(format!("write kind = \"…\", one of {}", names.join(", "))))
        }
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

/// The descriptions of the children of a device of that kind.
fn take_children(kind: &Kind, table: &mut Table, depth: usize) -> Result<Vec<Description>, DescriptionError> {
    let Some(key) = kind.children_key() else { return Ok(Vec::new()) };
    let is_several = key == "devices";
    let wrong = |seen: &Value| {
        let allowed = if is_several { "a list of tables" } else { "a table" };
        DescriptionError::new(format!("{key}: {} `{seen}` is not {allowed}", seen.type_str()))
            .hint(format!("allowed: {allowed}"))
    };
    let tables = match table.remove(key) {
        None => return Err(DescriptionError::new(format!("{key}: is missing"))),
        Some(Value::Table(table)) if !is_several => {
            return Ok(vec![Description::from_table(key, key, table, depth + 1)?]);
        }
        Some(Value::Array(tables)) if is_several => tables,
        Some(other) => return Err(wrong(&other)),
    };
    if tables.is_empty() {
        return Err(DescriptionError::new(format!("{key}: is empty")).hint("allowed: at least 1 device"));
    }
    let mut children: Vec<Description> = Vec::with_capacity(tables.len());
    for (index, table) in tables.into_iter().enumerate() {
        let label = format!("{key}[{index}]");
        let Value::Table(mut table) = table else { return Err(wrong(&table)) };
        let name = match table.remove("name") {
            None => index.to_string(),
            Some(Value::String(name)) => name,
            Some(other) => {
                return Err(DescriptionError::new(format!("{label}.name: `{other}` is not text")));
            }
        };
        if children.iter().any(|other| other.name == name) {
            return Err(DescriptionError::new(format!("{label}.name: `{name}` stands twice"))
                .hint("allowed: a different name for each device"));
        }
        children.push(Description::from_table(&name, &label, table, depth + 1)?);
    }
    Ok(children)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Takes the version of the schema off a document. A document without one has version 1.
fn check_schema(table: &mut Table, label: &str) -> Result<(), DescriptionError> {
    match table.remove("schema") {
        None | Some(Value::Integer(SCHEMA)) => Ok(()),
        Some(Value::Integer(newer)) if newer > SCHEMA => Err(DescriptionError::new(format!(
            "{label}: schema: {newer} is newer than {SCHEMA}, the version that this program reads"
        ))
        .hint("update seeklab, or describe the device anew with this version")),
        Some(other) => {
            Err(DescriptionError::new(format!("{label}: schema: {other}")).hint(format!("allowed: {SCHEMA}")))
        }
    }
}
