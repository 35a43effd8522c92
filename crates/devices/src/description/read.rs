//! Reading of descriptions from TOML.

use seeklab_core::description::{self, DescriptionError, Mistake};
use toml::{Table, Value};

use super::{Description, Header};
use crate::catalog;
use crate::kind::Kind;
use crate::registry;

/// The version of the schema of descriptions, which a document names as `schema`.
pub const SCHEMA: i64 = 1;

/// Levels of bases and layers at most.
const DEPTH_MAX: usize = 16;

impl Description {
    /// Reads a description from the text of the file `label`.
    ///
    /// # Errors
    /// A mistake in it, with file, line and key, the value found and the allowed values.
    pub fn parse(name: &str, label: &str, text: &str) -> Result<Self, DescriptionError> {
        let read = description::parse(text).and_then(|table| Self::read(name, label, table, 0));
        let mut read = read.map_err(|error| error.located(text).within(label))?;
        read.text = Some(text.into());
        Ok(read)
    }

    /// As [`parse`](Self::parse), of a table, which has no lines.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn from_table(name: &str, label: &str, table: Table) -> Result<Self, DescriptionError> {
        Self::read(name, label, table, 0).map_err(|error| error.within(label))
    }

    /// The description of a table at a depth of nesting; errors have the path in the table.
    fn read(name: &str, label: &str, mut table: Table, depth: usize) -> Result<Self, DescriptionError> {
        if depth > DEPTH_MAX {
            return Err(DescriptionError::invalid("", format!("nests more than {DEPTH_MAX} devices")));
        }
        check_schema(&mut table)?;
        if table.contains_key("base") {
            return Self::from_base(name, label, table);
        }
        let kind = take_kind(&mut table)?;
        let header = take_header(&mut table)?;
        let children = take_children(kind, &mut table, depth)?;
        let parameters = (kind.read)(&table)?;
        Ok(Self {
            name: name.to_owned(),
            label: label.to_owned(),
            text: None,
            header,
            kind,
            parameters,
            children,
        })
    }

    /// A device of the catalog with some parameters changed: `base`, `[set]` and a header of its own.
    fn from_base(name: &str, label: &str, mut table: Table) -> Result<Self, DescriptionError> {
        let base = match table.remove("base") {
            Some(Value::String(base)) => base,
            _ => return Err(DescriptionError::invalid("base", "is not the name of a device")),
        };
        if label == catalog::label(&base) {
            return Err(DescriptionError::invalid("base", "a device cannot be its own base"));
        }
        let mut description = catalog::find(&base).map_err(|error| {
            error.under("base").hint("a base is a device of the catalog, see `seeklab devices`")
        })?;
        let set = match table.remove("set") {
            Some(Value::Table(set)) => set,
            None => Table::new(),
            Some(_) => return Err(DescriptionError::invalid("set", "is not a table")),
        };
        let header = take_header(&mut table)?;
        if let Some(key) = table.keys().next() {
            let problem = format!("unknown key `{key}` beside `base`");
            return Err(DescriptionError::new(Mistake::UnknownKey, key, problem)
                .hint("change parameters of the base in a table [set]"));
        }
        description.name = name.to_owned();
        description.label = label.to_owned();
        description.text = None;
        if !header.title.is_empty() {
            description.header.title = header.title;
        }
        for (key, value) in set {
            let text = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            description.change(&key, &text).map_err(|error| error.through(&format!("set.{key}")))?;
        }
        // After `set`, which replaces the base's statement and notes that a value was set: the file knows more.
        if !header.validated.is_empty() {
            description.header.validated = header.validated;
        }
        description.header.sources.extend(header.sources);
        Ok(description)
    }
}

fn take_kind(table: &mut Table) -> Result<&'static Kind, DescriptionError> {
    match table.remove("kind") {
        Some(Value::String(kind)) => registry::kind(&kind).map_err(|error| error.under("kind")),
        Some(other) => Err(DescriptionError::invalid("kind", format!("`{other}` is not text"))),
        None => {
            let names: Vec<&str> = registry::KINDS.iter().map(|kind| kind.name).collect();
            Err(DescriptionError::new(Mistake::Missing, "", "there is no key `kind` or `base`")
                .hint(format!("write kind = \"…\", one of {}", names.join(", "))))
        }
    }
}

fn take_header(table: &mut Table) -> Result<Header, DescriptionError> {
    let mut header = Table::new();
    for key in ["title", "validated", "sources"] {
        if let Some(value) = table.remove(key) {
            header.insert(key.to_owned(), value);
        }
    }
    description::read(&header)
}

/// The descriptions of the children of a device of that kind.
fn take_children(kind: &Kind, table: &mut Table, depth: usize) -> Result<Vec<Description>, DescriptionError> {
    let Some(key) = kind.children_key() else { return Ok(Vec::new()) };
    let is_several = key == "devices";
    let wrong = |path: &str, seen: &Value| {
        let allowed = if is_several { "a list of tables" } else { "a table" };
        let problem = format!("{} `{seen}` is not {allowed}", seen.type_str());
        DescriptionError::refused(path, problem, allowed)
    };
    let tables = match table.remove(key) {
        None => return Err(DescriptionError::new(Mistake::Missing, key, "is missing")),
        Some(Value::Table(table)) if !is_several => {
            let child = Description::read(key, key, table, depth + 1);
            let child = child.and_then(|child| child.beneath_another().map(|()| child));
            return Ok(vec![child.map_err(|error| error.under(key))?]);
        }
        Some(Value::Array(tables)) if is_several => tables,
        Some(other) => return Err(wrong(key, &other)),
    };
    if tables.is_empty() {
        return Err(DescriptionError::refused(key, "is empty", "at least 1 device"));
    }
    let mut children: Vec<Description> = Vec::with_capacity(tables.len());
    for (index, table) in tables.into_iter().enumerate() {
        let place = format!("{key}[{index}]");
        let Value::Table(mut table) = table else { return Err(wrong(&place, &table)) };
        let wrong_name = |problem: String| DescriptionError::invalid(format!("{place}.name"), problem);
        let name = match table.remove("name") {
            None => index.to_string(),
            Some(Value::String(name)) => name,
            Some(other) => return Err(wrong_name(format!("`{other}` is not text"))),
        };
        if children.iter().any(|other| other.name == name) {
            return Err(wrong_name(format!("`{name}` stands twice"))
                .hint("allowed: a different name for each device"));
        }
        let child = Description::read(&name, &place, table, depth + 1);
        let child = child.and_then(|child| child.beneath_another().map(|()| child));
        children.push(child.map_err(|error| error.under(&place))?);
    }
    Ok(children)
}

/// Takes the version of the schema off a document. A document without one has version 1.
fn check_schema(table: &mut Table) -> Result<(), DescriptionError> {
    match table.remove("schema") {
        None | Some(Value::Integer(SCHEMA)) => Ok(()),
        Some(Value::Integer(newer)) if newer > SCHEMA => {
            let problem = format!("{newer} is newer than {SCHEMA}, the version that this program reads");
            Err(DescriptionError::invalid("schema", problem)
                .hint("update seeklab, or describe the device anew with this version"))
        }
        Some(other) => Err(DescriptionError::refused("schema", other.to_string(), SCHEMA)),
    }
}
