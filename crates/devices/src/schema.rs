//! Parameters as their structs declare them: names, documentation, units, defaults and ranges.
//!
//! ```text
//! struct (serde, schemars) ─▶ JSON schema ─┬─▶ reference: one row for each parameter
//!                                          ├─▶ check_ranges: a value outside its declared range is refused
//!                                          └─▶ documents for editors
//! ```
//! Beside the keywords of JSON Schema a declaration may carry `x-unit` (the unit of a count), `x-quantity` (the quantity
//! that a text states, set by the newtype) and, for such texts, `x-minimum`, `x-maximum` and `x-below`.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use seeklab_core::{ByteSize, DataRate, Duration, Ratio, RotationSpeed, SignedDuration};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::description::Header;
use crate::error::ParameterError;
use crate::kind::{Children, Kind};

/// One declared parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParameterInfo {
    /// Path below the device's table; `[]` stands for each entry of a list of tables.
    pub path: String,
    /// The variant to which it belongs, such as `electronics.controller = "segmented"`; empty if it always applies.
    pub only_if: String,
    /// Documentation of the field, on one line.
    pub description: String,
    /// Values that it takes, such as `duration` or `whole number of blocks`.
    pub value: String,
    /// Range of its values; empty if its type says all.
    pub range: String,
    /// Value of an omitted parameter as TOML; `None` if it must be given.
    pub default: Option<String>,
}

/// The JSON schema of a parameter struct, without references.
pub(crate) fn schema_of<P: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<P>().to_value()
}

/// Every parameter of a schema, in the order of declaration.
pub(crate) fn reference(schema: &Value) -> Vec<ParameterInfo> {
    let mut rows = Vec::new();
    describe_object(schema, "", "", &mut rows);
    rows
}

/// The JSON schema of a file that describes a device of that kind, for editors.
pub fn document(kind: &Kind) -> Value {
    let mut schema = kind.parameter_schema();
    let object = schema.as_object_mut().expect("parameters are a table");
    object.insert("title".into(), format!("A device of kind {}", kind.name).into());
    object.insert("description".into(), kind.description.into());
    let header = schema_of::<Header>();
    let entry = |table: &mut Map<String, Value>, key: &str| -> Map<String, Value> {
        table.remove(key).and_then(|value| value.as_object().cloned()).unwrap_or_default()
    };
    let mut keys = Map::new();
    keys.insert("kind".into(), json!({ "const": kind.name, "description": "The kind of device." }));
    keys.extend(properties(&header).map(|(key, property)| (key.clone(), property.clone())));
    keys.extend(entry(object, "properties"));
    let mut required = vec![json!("kind")];
    required.extend(object.get("required").and_then(Value::as_array).into_iter().flatten().cloned());
    let child = json!({
        "type": "object",
        "description": "A device that the layer owns: a description of its own.",
        "anyOf": [{ "required": ["kind"] }, { "required": ["base"] }],
    });
    match kind.children {
        Children::None => {}
        Children::One => {
            required.push(json!("device"));
            keys.insert("device".into(), child);
        }
        Children::Several => {
            required.push(json!("devices"));
            keys.insert("devices".into(), json!({ "type": "array", "minItems": 1, "items": child }));
        }
    }
    object.insert("properties".into(), keys.into());
    object.insert("required".into(), required.into());
    schema
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The properties of an object, and of each of its variants.
fn describe_object(schema: &Value, path: &str, only_if: &str, rows: &mut Vec<ParameterInfo>) {
    for (key, property) in properties(schema) {
        let is_required =
            schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key));
        describe(property, &join(path, key), only_if, is_required, rows);
    }
    let variants = tagged_variants(schema);
    if let Some((tag, _, _)) = variants.first() {
        let names: Vec<String> = variants.iter().map(|(_, name, _)| format!("`{name}`")).collect();
        rows.push(ParameterInfo {
            path: join(path, tag),
            only_if: only_if.to_owned(),
            description: one_line(schema["description"].as_str().unwrap_or_default()),
            value: format!("one of {}", names.join(", ")),
            range: String::new(),
            default: None,
        });
    }
    for (tag, name, variant) in variants {
        let only_if = format!("{} = \"{name}\"", join(path, tag));
        for (key, property) in properties(variant).filter(|(key, _)| *key != tag) {
            let is_required = variant["required"]
                .as_array()
                .is_some_and(|required| required.iter().any(|name| name == key));
            describe(property, &join(path, key), &only_if, is_required, rows);
        }
    }
}

fn describe(schema: &Value, path: &str, only_if: &str, is_required: bool, rows: &mut Vec<ParameterInfo>) {
    if properties(schema).next().is_some() || !tagged_variants(schema).is_empty() {
        describe_object(schema, path, only_if, rows);
        return;
    }
    let default = (!is_required).then(|| schema.get("default").map(toml_text).unwrap_or_default());
    rows.push(ParameterInfo {
        path: path.to_owned(),
        only_if: only_if.to_owned(),
        description: one_line(schema["description"].as_str().unwrap_or_default()),
        value: value_in_words(schema),
        range: range_in_words(schema),
        default,
    });
    if properties(&schema["items"]).next().is_some() {
        describe_object(&schema["items"], &format!("{path}[]"), only_if, rows);
    }
}

/// The first paragraph of a documentation, without brackets of references.
fn one_line(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ").replace("\\[", "[").replace("\\]", "]")
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// `(tag, name, schema)` of each variant of a tagged enum.
fn tagged_variants(schema: &Value) -> Vec<(&str, &str, &Value)> {
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    let tagged = variants.filter_map(|variant| {
        let (tag, name) =
            properties(variant).find_map(|(key, value)| Some((key, value["const"].as_str()?)))?;
        Some((tag.as_str(), name, variant))
    });
    tagged.collect()
}

/// Names of a plain enum.
fn choices(schema: &Value) -> Vec<&str> {
    let of_variants = schema["oneOf"].as_array().into_iter().flatten().flat_map(|variant| {
        let listed = variant["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        variant["const"].as_str().into_iter().chain(listed)
    });
    let listed = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    of_variants.chain(listed).collect()
}

fn value_in_words(schema: &Value) -> String {
    let names = choices(schema);
    if !names.is_empty() {
        return format!("one of `{}`", names.join("`, `"));
    }
    if let Some(quantity) = schema["x-quantity"].as_str() {
        return quantity.trim_start_matches("a ").to_owned();
    }
    let of_unit = |what: &str| match schema["x-unit"].as_str() {
        Some(unit) => format!("{what} of {unit}"),
        None => what.to_owned(),
    };
    let is = |name: &str| match &schema["type"] {
        Value::Array(types) => types.iter().any(|one| one == name),
        one => one == name,
    };
    if is("integer") {
        of_unit("whole number")
    } else if is("number") {
        of_unit("number")
    } else if is("boolean") {
        "true or false".to_owned()
    } else if is("array") && properties(&schema["items"]).next().is_some() {
        "list of tables".to_owned()
    } else if is("array") {
        of_unit("list")
    } else if is("object") {
        "table of texts".to_owned()
    } else {
        "text".to_owned()
    }
}

/// The range that a schema declares, such as `1 to 256 surfaces`; empty if its type says all.
fn range_in_words(schema: &Value) -> String {
    let number = |keys: [&str; 2]| keys.iter().find_map(|key| schema.get(*key).map(plain));
    let least = number(["x-minimum", "minimum"]).or_else(|| schema.get("minItems").map(plain));
    let most = number(["x-maximum", "maximum"]).or_else(|| schema.get("maxItems").map(plain));
    let least = least.filter(|least| !(least == "0" && most.is_none()));
    let unit = schema["x-unit"].as_str().map(|unit| format!(" {unit}")).unwrap_or_default();
    match (least, most, schema["x-below"].as_str()) {
        (_, _, Some(below)) => format!("less than {below}"),
        (Some(least), Some(most), _) => format!("{least} to {most}{unit}"),
        (Some(least), None, _) if least == "1" => format!("at least 1{}", unit.trim_end_matches('s')),
        (Some(least), None, _) => format!("at least {least}{unit}"),
        (None, Some(most), _) => format!("at most {most}{unit}"),
        (None, None, None) => String::new(),
    }
}

/// A number without the fraction that JSON may give it, or a text without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && number.as_i64().is_none() && number.as_u64().is_none() => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A JSON value as TOML writes it.
fn toml_text(value: &Value) -> String {
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string())
}

/// Refuses parameters of which one lies outside of the range that its declaration gives.
///
/// # Errors
/// The first such parameter, its path beginning at the struct.
pub(crate) fn check_ranges<P: JsonSchema + Serialize>(parameters: &P) -> Result<(), ParameterError> {
    let value = serde_json::to_value(parameters).expect("parameters have text keys");
    check_value(&schema_of::<P>(), &value, "")
}

fn check_value(schema: &Value, value: &Value, path: &str) -> Result<(), ParameterError> {
    match value {
        Value::Object(table) => check_table(schema, table, path),
        Value::Array(items) => {
            let (least, most) = (schema["minItems"].as_u64(), schema["maxItems"].as_u64());
            let count = items.len() as u64;
            if least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most) {
                let problem = if count == 0 { "is empty".to_owned() } else { format!("{count} of them") };
                return Err(ParameterError::new(path, problem, range_in_words(schema)));
            }
            for (index, item) in items.iter().enumerate() {
                check_value(&schema["items"], item, &format!("{path}[{index}]"))?;
            }
            Ok(())
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            let is_below = schema["minimum"].as_f64().is_some_and(|least| number < least);
            let is_above = schema["maximum"].as_f64().is_some_and(|most| number > most);
            if is_below || is_above {
                return Err(ParameterError::new(path, plain(value), range_in_words(schema)));
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
                return Err(ParameterError::new(path, text, range_in_words(schema)));
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) => Ok(()),
    }
}

fn check_table(schema: &Value, table: &Map<String, Value>, path: &str) -> Result<(), ParameterError> {
    let chosen = variant(schema, table);
    for (key, property) in properties(schema).chain(chosen.into_iter().flat_map(properties)) {
        if let Some(value) = table.get(key) {
            check_value(property, value, &join(path, key))?;
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
pub(crate) fn settable_paths(schema: &Value, table: &toml::Table) -> Vec<String> {
    let mut paths = Vec::new();
    let value = serde_json::to_value(table).expect("a table has text keys");
    collect_paths(schema, &value, "", &mut paths);
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
        Value::Array(items) if items.iter().any(Value::is_object) => {
            paths.push(path.to_owned());
            for (index, item) in items.iter().enumerate() {
                collect_paths(&schema["items"], item, &format!("{path}[{index}]"), paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}
