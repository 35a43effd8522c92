//! The reference of declared parameters: rows, and tables in Markdown.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::error::join;
use super::schema::{choices, entries, forms, is_type, items, properties, tagged_variants};

/// One declared parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ParameterInfo {
    /// Path below the table of the description; `[]` stands for each entry of a list of tables, `NAME` for a name that
    /// the author chooses.
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

/// Every parameter of a schema, in the order of declaration.
pub fn reference(schema: &Value) -> Vec<ParameterInfo> {
    let mut rows = Vec::new();
    describe_object(schema, "", "", &mut rows);
    rows
}

/// The rows as tables in Markdown, one for each condition.
pub fn reference_tables(rows: &[ParameterInfo]) -> String {
    let mut text = String::new();
    let mut only_if = None;
    for parameter in rows {
        if only_if.as_ref() != Some(&parameter.only_if) {
            if !parameter.only_if.is_empty() {
                text += &format!("\nIf `{}`:\n", parameter.only_if);
            }
            text += "\n| key | value | range | default | |\n| --- | --- | --- | --- | --- |\n";
            only_if = Some(parameter.only_if.clone());
        }
        let default = match &parameter.default {
            None => "required".to_owned(),
            Some(default) if default.is_empty() => String::new(),
            Some(default) => format!("`{default}`"),
        };
        text += &format!(
            "| `{}` | {} | {} | {default} | {} |\n",
            parameter.path,
            parameter.value,
            parameter.range,
            parameter.description.replace('|', "\\|"),
        );
    }
    text
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
            default: schema["default"].get(tag).map(toml_text),
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
    let is_table = properties(schema).next().is_some() || !tagged_variants(schema).is_empty();
    let is_plain = forms(schema).skip(1).any(|form| is_type(form, "string") || is_type(form, "array"));
    if is_table && !is_plain {
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
    if properties(items(schema)).next().is_some() {
        describe_object(items(schema), &format!("{path}[]"), only_if, rows);
    }
    if let Some(entry) = entries(schema) {
        describe_object(entry, &format!("{path}.NAME"), only_if, rows);
    }
    if is_table {
        describe_object(schema, path, only_if, rows);
    }
}

/// The first paragraph of a documentation, without brackets of references.
fn one_line(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ").replace("\\[", "[").replace("\\]", "]")
}

fn value_in_words(schema: &Value) -> String {
    let several: Vec<&Value> =
        forms(schema).skip(1).filter(|form| form["type"] != "null" && form["anyOf"].is_null()).collect();
    if !several.is_empty() {
        let words: Vec<String> = several.into_iter().map(value_in_words).collect();
        return words.join(" or ");
    }
    if let Some((tag, ..)) = tagged_variants(schema).first() {
        return format!("table with `{tag}`");
    }
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
    let is = |name: &str| is_type(schema, name);
    if is("integer") {
        of_unit("whole number")
    } else if is("number") {
        of_unit("number")
    } else if is("boolean") {
        "true or false".to_owned()
    } else if is("array") && properties(items(schema)).next().is_some() {
        "list of tables".to_owned()
    } else if is("array") {
        of_unit("list")
    } else if entries(schema).is_some_and(|entry| properties(entry).next().is_some()) {
        "table of tables".to_owned()
    } else if is("object") {
        "table of texts".to_owned()
    } else {
        "text".to_owned()
    }
}

/// The range that a schema declares, such as `1 to 256 surfaces`; empty if its type says all.
pub(super) fn range_in_words(schema: &Value) -> String {
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
pub(super) fn plain(value: &Value) -> String {
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
