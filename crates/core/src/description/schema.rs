//! The schema that a struct declares, and what follows from it.
//!
//! ```text
//! struct (serde, schemars) ─▶ JSON schema ─┬─▶ reference: one row for each parameter
//!                                          ├─▶ check_ranges: a value outside its declared range is refused
//!                                          └─▶ documents for editors
//! ```
//! Beside the keywords of JSON Schema a declaration may carry `x-unit` (the unit of a count), `x-quantity` (the quantity
//! that a text states, set by the newtype) and, for such texts, `x-minimum`, `x-maximum` and `x-below`. A value that is
//! written in several forms has them in `anyOf`.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::{DescriptionError, join};
use super::reference::{plain, range_in_words};
use crate::units::{ByteSize, DataRate, Duration, Ratio, RotationSpeed, SignedDuration};

/// The JSON schema of a declared struct, without references.
pub fn schema_of<P: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<P>().to_value()
}

/// The schema itself, and every form of a value that is written in several.
pub(super) fn forms(schema: &Value) -> impl Iterator<Item = &Value> {
    let mut forms = vec![schema];
    let mut seen = 0;
    while let Some(form) = forms.get(seen).copied() {
        let more = form["anyOf"].as_array().into_iter().flatten();
        forms.extend(more);
        seen += 1;
    }
    forms.into_iter()
}

/// The properties of a table.
pub fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    forms(schema).flat_map(|form| form["properties"].as_object().into_iter().flatten())
}

/// The schema of the entries of a list; null if it is no list.
pub(super) fn items(schema: &Value) -> &Value {
    forms(schema).map(|form| &form["items"]).find(|items| !items.is_null()).unwrap_or(&Value::Null)
}

/// The schema of the entries of a table whose keys are names that its author chooses.
pub(super) fn entries(schema: &Value) -> Option<&Value> {
    Some(&schema["additionalProperties"]).filter(|entry| entry.is_object())
}

/// `(tag, name, schema)` of each variant of a tagged enum.
pub(super) fn tagged_variants(schema: &Value) -> Vec<(&str, &str, &Value)> {
    let variants = forms(schema).flat_map(|form| form["oneOf"].as_array().into_iter().flatten());
    let tagged = variants.filter_map(|variant| {
        let (tag, name) =
            properties(variant).find_map(|(key, value)| Some((key, value["const"].as_str()?)))?;
        Some((tag.as_str(), name, variant))
    });
    tagged.collect()
}

/// Names of a plain enum.
pub(super) fn choices(schema: &Value) -> Vec<&str> {
    let variants = forms(schema).flat_map(|form| form["oneOf"].as_array().into_iter().flatten());
    let of_variants = variants.flat_map(|variant| {
        let listed = variant["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        variant["const"].as_str().into_iter().chain(listed)
    });
    let listed = forms(schema).flat_map(|form| form["enum"].as_array().into_iter().flatten());
    of_variants.chain(listed.filter_map(Value::as_str)).collect()
}

/// A step of a path: a key, or an index of a list.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split(['.', '[']).filter(|step| !step.is_empty()).map(|step| {
        let index = step.strip_suffix(']').and_then(|index| index.parse().ok());
        index.map_or(Step::Key(step), Step::Index)
    })
}

/// Schema and value at a path; the value is null where a key is absent.
fn at<'a>(schema: &'a Value, value: &Value, path: &str) -> Option<(&'a Value, Value)> {
    let mut here = (schema, value.clone());
    for step in steps(path) {
        let (schema, value) = here;
        here = match step {
            Step::Key(key) => {
                let chosen = value.as_object().and_then(|table| variant(schema, table));
                let mut declared = properties(schema).chain(chosen.into_iter().flat_map(properties));
                let (_, property) = declared.find(|(name, _)| *name == key)?;
                (property, value[key].clone())
            }
            Step::Index(index) => (items(schema), value[index].clone()),
        };
    }
    Some(here)
}

fn json_of(table: &toml::Table) -> Value {
    serde_json::to_value(table).expect("a table has text keys")
}

/// Tag and name of the form that the table at `path` has chosen, if its keys depend on one of them.
pub(super) fn choice_at<'a>(
    schema: &'a Value,
    table: &toml::Table,
    path: &str,
) -> Option<(&'a str, &'a str)> {
    let (schema, value) = at(schema, &json_of(table), path)?;
    let value = value.as_object()?;
    let chosen =
        |(tag, name, _): &(&str, &str, &Value)| value.get(*tag).and_then(Value::as_str) == Some(*name);
    tagged_variants(schema).into_iter().find(chosen).map(|(tag, name, _)| (tag, name))
}

/// An example of the value at `path`, as TOML writes it.
pub(super) fn example_at(schema: &Value, table: &toml::Table, path: &str) -> Option<String> {
    let (schema, _) = at(schema, &json_of(table), path)?;
    let tagged = tagged_variants(schema);
    if let Some((tag, name, _)) = tagged.first() {
        return Some(format!("{{ {tag} = \"{name}\", … }}"));
    }
    let example = forms(schema).find_map(|form| form["examples"].get(0))?;
    Some(toml::Value::try_from(example).ok()?.to_string())
}

/// Reads texts as the numbers and truths that the schema declares in their place: on a line, every value is text. A
/// text that cannot be read so stays.
pub fn type_texts(schema: &Value, table: &mut toml::Table) {
    let chosen = json_of(table).as_object().and_then(|table| variant(schema, table)).cloned();
    let declared: Vec<(&String, &Value)> =
        properties(schema).chain(chosen.iter().flat_map(properties)).collect();
    for (key, value) in table.iter_mut() {
        let known = declared.iter().find(|(name, _)| *name == key).map(|(_, property)| *property);
        let Some(property) = known.or_else(|| entries(schema)) else { continue };
        match value {
            toml::Value::Table(inner) => type_texts(property, inner),
            toml::Value::String(text) => {
                if let Some(typed) = typed(property, text.trim()) {
                    *value = typed;
                }
            }
            _ => {}
        }
    }
}

fn typed(schema: &Value, text: &str) -> Option<toml::Value> {
    let digits = || text.replace('_', "");
    if is_type(schema, "integer") {
        digits().parse().ok().map(toml::Value::Integer)
    } else if is_type(schema, "number") {
        digits().parse().ok().map(toml::Value::Float)
    } else if is_type(schema, "boolean") {
        text.parse().ok().map(toml::Value::Boolean)
    } else {
        None
    }
}

/// Returns true if the schema declares that JSON type, alone or beside others.
pub(super) fn is_type(schema: &Value, name: &str) -> bool {
    match &schema["type"] {
        Value::Array(types) => types.iter().any(|one| one == name),
        one => one == name,
    }
}

/// Refuses parameters of which one lies outside of the range that its declaration gives.
///
/// # Errors
/// The first such parameter, its path beginning at the struct.
pub fn check_ranges<P: JsonSchema + Serialize>(parameters: &P) -> Result<(), DescriptionError> {
    let value = serde_json::to_value(parameters).expect("parameters have text keys");
    check_value(&schema_of::<P>(), &value, "")
}

fn check_value(schema: &Value, value: &Value, path: &str) -> Result<(), DescriptionError> {
    match value {
        Value::Object(table) => check_table(schema, table, path),
        Value::Array(entries) => {
            let (least, most) = (schema["minItems"].as_u64(), schema["maxItems"].as_u64());
            let count = entries.len() as u64;
            if least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most) {
                let problem = if count == 0 { "is empty".to_owned() } else { format!("{count} of them") };
                return Err(DescriptionError::refused(path, problem, range_in_words(schema)));
            }
            for (index, item) in entries.iter().enumerate() {
                check_value(items(schema), item, &format!("{path}[{index}]"))?;
            }
            Ok(())
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let is_below = schema["minimum"].as_f64().is_some_and(|least| number < least);
            let is_above = schema["maximum"].as_f64().is_some_and(|most| number > most);
            if is_below || is_above {
                return Err(DescriptionError::refused(path, plain(value), range_in_words(schema)));
            }
            Ok(())
        }
        Value::String(text) => {
            let Some(quantity) = schema["x-quantity"].as_str() else { return Ok(()) };
            let bound = |key: &str| schema[key].as_str().and_then(|bound| magnitude(quantity, bound));
            let Some(magnitude) = magnitude(quantity, text) else { return Ok(()) };
            let is_outside = bound("x-minimum").is_some_and(|least| magnitude < least)
                || bound("x-maximum").is_some_and(|most| magnitude > most)
                || bound("x-below").is_some_and(|below| magnitude >= below);
            if is_outside {
                return Err(DescriptionError::refused(path, text.as_str(), range_in_words(schema)));
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

fn check_table(schema: &Value, table: &Map<String, Value>, path: &str) -> Result<(), DescriptionError> {
    let chosen = variant(schema, table);
    for (key, property) in properties(schema).chain(chosen.into_iter().flat_map(properties)) {
        if let Some(value) = table.get(key) {
            check_value(property, value, &join(path, key))?;
        }
    }
    if let Some(entry) = entries(schema) {
        for (name, value) in table {
            check_value(entry, value, &join(path, name))?;
        }
    }
    Ok(())
}

/// The variant of a tagged enum that a table has chosen.
fn variant<'a>(schema: &'a Value, table: &Map<String, Value>) -> Option<&'a Value> {
    let is_chosen = |(tag, name, _): &(&str, &str, &Value)| {
        table.get(*tag).and_then(Value::as_str).is_some_and(|chosen| chosen == *name)
    };
    tagged_variants(schema).into_iter().find(is_chosen).map(|(.., variant)| variant)
}

/// A quantity in its base unit, for comparisons of values of one quantity.
fn magnitude(quantity: &str, text: &str) -> Option<f64> {
    match quantity {
        "a duration" => text.parse::<Duration>().ok().map(|value| value.as_ns() as f64),
        "a duration, which may be negative" => {
            text.parse::<SignedDuration>().ok().map(|value| value.as_ns() as f64)
        }
        "a ratio" => text.parse::<Ratio>().ok().map(Ratio::as_f64),
        "a rotation speed" => text.parse::<RotationSpeed>().ok().map(|value| value.as_micro_rpm() as f64),
        "a size" => text.parse::<ByteSize>().ok().map(|value| value.as_bytes() as f64),
        "a rate" => text.parse::<DataRate>().ok().map(|value| value.as_bytes_per_s() as f64),
        _ => None,
    }
}

/// Paths of parameters that a table may hold, those left out included; each entry of a list of tables by its index.
///
/// Paths whose last part is not in a list come first.
pub fn settable_paths(schema: &Value, table: &toml::Table) -> Vec<String> {
    let mut paths = Vec::new();
    collect_paths(schema, &json_of(table), "", &mut paths);
    paths
}

fn collect_paths(schema: &Value, value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(table) => {
            let chosen = variant(schema, table);
            let declared: Vec<(&String, &Value)> =
                properties(schema).chain(chosen.into_iter().flat_map(properties)).collect();
            for (key, property) in &declared {
                collect_paths(property, table.get(*key).unwrap_or(&Value::Null), &join(path, key), paths);
            }
            for (key, value) in table.iter().filter(|(key, _)| declared.iter().all(|(name, _)| name != key)) {
                collect_paths(&Value::Null, value, &join(path, key), paths);
            }
        }
        Value::Null if schema["properties"].is_object() && tagged_variants(schema).is_empty() => {
            for (key, property) in properties(schema) {
                collect_paths(property, &Value::Null, &join(path, key), paths);
            }
        }
        Value::Array(entries) if entries.iter().any(Value::is_object) => {
            paths.push(path.to_owned());
            for (index, item) in entries.iter().enumerate() {
                collect_paths(items(schema), item, &format!("{path}[{index}]"), paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}
