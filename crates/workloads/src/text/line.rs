//! Reading the one-line form of a workload into the table that its TOML form would give.

use toml::{Table, Value};

use crate::presets;
use crate::registry;
use seeklab_core::{DescriptionError, Mistake};

/// A short way to write two items on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shorthand {
    /// The kind of workload that takes it.
    pub kind: &'static str,
    /// The short key.
    pub key: &'static str,
    /// The item that it implies, as key and value.
    pub implies: Option<(&'static str, &'static str)>,
    /// The key that its value goes to.
    pub to: &'static str,
}

/// Every shorthand, in the order of the help text.
pub const SHORTHANDS: &[Shorthand] = &[
    Shorthand {
        kind: "synthetic",
        key: "poisson",
        implies: Some(("arrivals.process", "poisson")),
        to: "arrivals.rate",
    },
    Shorthand {
        kind: "synthetic",
        key: "constant",
        implies: Some(("arrivals.process", "constant")),
        to: "arrivals.rate",
    },
    Shorthand {
        kind: "synthetic",
        key: "closed",
        implies: Some(("arrivals.process", "closed")),
        to: "arrivals.population",
    },
    Shorthand { kind: "synthetic", key: "think", implies: None, to: "arrivals.think" },
    Shorthand {
        kind: "synthetic",
        key: "zipf",
        implies: Some(("address.distribution", "zipf")),
        to: "address.exponent",
    },
];

/// Keys that choose what the other keys of their table mean.
const TAGS: [&str; 2] = ["process", "distribution"];

/// The kind and the table that a line stands for.
pub(crate) fn parse(line: &str) -> Result<(String, Table), DescriptionError> {
    let mut items = line.split(',').map(str::trim).peekable();
    let mut base = Table::new();
    let mut kind = "synthetic".to_owned();
    if let Some(name) = items.next_if(|item| !item.contains('=')) {
        if registry::find(name).is_some() {
            name.clone_into(&mut kind);
        } else if let Some(preset) = presets::find(name) {
            base = preset.table();
        } else if name.is_empty() {
            return Err(DescriptionError::new(Mistake::Syntax, "", "an empty description")
                .hint("write for example `random,poisson=80/s`"));
        } else {
            return Err(DescriptionError::unknown(Mistake::UnknownName, "workload", name, registry::names()));
        }
    }
    let mut given = Table::new();
    put(items, &kind, &mut given)?;
    merge(&mut base, given);
    Ok((kind, base))
}

/// The table that a line of items alone stands for.
///
/// # Errors
/// An item that is no `key=value`, or a key that stands twice.
pub(crate) fn items(line: &str) -> Result<Table, DescriptionError> {
    let mut given = Table::new();
    put(line.split(',').map(str::trim).filter(|item| !item.is_empty()), "", &mut given)?;
    Ok(given)
}

/// Puts items into a table, with the shorthands of a kind.
fn put<'a>(
    items: impl Iterator<Item = &'a str>,
    kind: &str,
    given: &mut Table,
) -> Result<(), DescriptionError> {
    for item in items {
        let Some((key, value)) = item.split_once('=') else {
            return Err(DescriptionError::new(Mistake::Syntax, "", format!("`{item}` has no value"))
                .hint("write `key=value`; a kind or preset comes first and once"));
        };
        let (key, value) = (key.trim(), value.trim());
        match SHORTHANDS.iter().find(|short| short.kind == kind && short.key == key) {
            Some(short) => {
                if let Some((implied, choice)) = short.implies {
                    insert(given, implied, choice, key)?;
                }
                insert(given, short.to, value, key)?;
            }
            None => insert(given, key, value, key)?,
        }
    }
    Ok(())
}

/// Puts a value under a dotted path; `written` is the key as the user wrote it.
fn insert(table: &mut Table, path: &str, value: &str, written: &str) -> Result<(), DescriptionError> {
    let twice = || {
        DescriptionError::new(Mistake::Syntax, path, format!("`{written}` sets a value that is already set"))
            .hint("remove one of the two items")
    };
    match path.split_once('.') {
        None if path.is_empty() => {
            Err(DescriptionError::new(Mistake::Syntax, "", format!("`{written}={value}` has no key")))
        }
        None => match table.insert(path.to_owned(), Value::String(value.to_owned())) {
            None => Ok(()),
            Some(_) => Err(twice()),
        },
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
            match inner {
                Value::Table(inner) => {
                    insert(inner, rest, value, written).map_err(|error| error.under(first))
                }
                _ => Err(twice()),
            }
        }
    }
}

/// Lays `given` over `base`: tables are merged key by key, unless the given one chooses anew.
pub(crate) fn merge(base: &mut Table, given: Table) {
    for (key, value) in given {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above))
                if !TAGS.iter().any(|tag| above.contains_key(*tag)) =>
            {
                merge(below, above);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
