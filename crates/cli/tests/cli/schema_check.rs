//! A strict check of a document against a JSON schema of the kind that `seeklab schema` prints.
//!
//! # Scope and limits
//! Objects are closed: a key that the schema does not declare is a difference, as is a keyword that the check does not
//! know. Numbers' formats are not checked.

use serde_json::{Map, Value};

/// Returns every difference between a document and its schema, each with its path.
pub(crate) fn differences(schema: &Value, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, document, "document", &mut found);
    found
}

/// Keywords that say nothing about the form of a value.
const REMARKS: [&str; 5] = ["$schema", "title", "description", "format", "default"];

/// Keywords for the form of a value.
const FORMS: [&str; 15] = [
    "type",
    "const",
    "enum",
    "anyOf",
    "oneOf",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
];

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let rules = match schema {
        Value::Bool(true) => return,
        Value::Object(rules) => rules,
        other => return found.push(format!("{path}: `{other}` is no schema")),
    };
    for keyword in rules.keys() {
        let is_known = [&REMARKS[..], &FORMS].concat().contains(&keyword.as_str()) || is_hint(keyword);
        if !is_known {
            found.push(format!("{path}: the check does not know the keyword `{keyword}`"));
        }
    }
    if let Some(types) = rules.get("type") {
        let names = types.as_array().map_or_else(|| vec![types.clone()], Clone::clone);
        if !names.iter().any(|name| has_type(value, name.as_str().unwrap_or_default())) {
            return found.push(format!("{path}: {value} has not the type {types}"));
        }
    }
    if value.is_null() && rules.get("type").is_some() {
        return;
    }
    if rules.get("const").is_some_and(|only| only != value)
        || rules.get("enum").and_then(Value::as_array).is_some_and(|names| !names.contains(value))
        || rules.get("minimum").and_then(Value::as_f64).is_some_and(|least| value.as_f64() < Some(least))
        || rules.get("maximum").and_then(Value::as_f64).is_some_and(|most| value.as_f64() > Some(most))
    {
        found.push(format!("{path}: {value} is not allowed by {schema}"));
    }
    for alternatives in [rules.get("anyOf"), rules.get("oneOf")].into_iter().flatten() {
        let alternatives = alternatives.as_array().map_or(&[][..], Vec::as_slice);
        check_alternatives(alternatives, rules, value, path, found);
    }
    match value {
        Value::Object(table) if !has_alternatives(rules) => check_object(rules, table, path, found),
        Value::Array(entries) => check_list(rules, entries, path, found),
        _ => {}
    }
}

/// Keywords of units and ranges.
fn is_hint(keyword: &str) -> bool {
    keyword.starts_with("x-") || keyword == "examples"
}

fn has_alternatives(rules: &Map<String, Value>) -> bool {
    rules.contains_key("anyOf") || rules.contains_key("oneOf")
}

/// One alternative must hold, together with the keys that are declared beside the alternatives.
fn check_alternatives(
    alternatives: &[Value],
    rules: &Map<String, Value>,
    value: &Value,
    path: &str,
    found: &mut Vec<String>,
) {
    let differences = alternatives.iter().map(|alternative| {
        let mut found = Vec::new();
        check(&with_keys_of(alternative, rules), value, path, &mut found);
        found
    });
    if let Some(fewest) = differences.min_by_key(Vec::len) {
        found.extend(fewest);
    }
}

/// The alternative with the properties of the object that it belongs to.
fn with_keys_of(alternative: &Value, rules: &Map<String, Value>) -> Value {
    let (Some(common), Some(own)) = (rules.get("properties"), alternative.get("properties")) else {
        return alternative.clone();
    };
    let mut joined = alternative.clone();
    let common = common.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    let own = own.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    joined["properties"] = Value::Object(common.chain(own).collect());
    joined
}

fn check_object(rules: &Map<String, Value>, table: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    let required = rules.get("required").and_then(Value::as_array).into_iter().flatten();
    for key in required.filter_map(Value::as_str).filter(|key| !table.contains_key(*key)) {
        found.push(format!("{path}: `{key}` is missing"));
    }
    let by_pattern = rules.get("patternProperties").and_then(Value::as_object);
    for (key, value) in table {
        let path = format!("{path}.{key}");
        // The only patterns are those of numbers.
        let of_number =
            by_pattern.filter(|_| key.parse::<u64>().is_ok()).and_then(|patterns| patterns.values().next());
        let declared = rules.get("properties").and_then(|properties| properties.get(key));
        let others = rules.get("additionalProperties").filter(|others| **others != Value::Bool(false));
        match declared.or(of_number).or(others) {
            Some(schema) => check(schema, value, &path, found),
            None => found.push(format!("{path}: is not declared")),
        }
    }
}

fn check_list(rules: &Map<String, Value>, entries: &[Value], path: &str, found: &mut Vec<String>) {
    let bound = |key: &str| rules.get(key).and_then(Value::as_u64);
    let count = entries.len() as u64;
    if bound("minItems").is_some_and(|least| count < least)
        || bound("maxItems").is_some_and(|most| count > most)
    {
        found.push(format!("{path}: has {count} entries"));
    }
    let first = rules.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (index, entry) in entries.iter().enumerate() {
        if let Some(schema) = first.get(index).or(rules.get("items")) {
            check(schema, entry, &format!("{path}[{index}]"), found);
        }
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[test]
fn every_kind_of_difference_is_found() {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer", "minimum": 0 },
            "rows": { "type": "array", "items": { "type": ["number", "null"] } },
            "state": { "anyOf": [{ "oneOf": [{ "const": "on" }] }, { "type": "null" }] },
            "by_number": { "type": "object", "patternProperties": { "^\\d+$": { "type": "string" } } },
        },
        "required": ["count"],
    });
    let found = |document: Value| differences(&schema, &document);
    assert_eq!(
        found(
            serde_json::json!({ "count": 1, "rows": [1.5, null], "state": "on", "by_number": { "7": "a" } })
        ),
        [""; 0]
    );
    for wrong in [
        serde_json::json!({}),
        serde_json::json!({ "count": 1.5 }),
        serde_json::json!({ "count": null }),
        serde_json::json!({ "count": 1, "rows": ["a"] }),
        serde_json::json!({ "count": 1, "state": "off" }),
        serde_json::json!({ "count": 1, "by_number": { "a": "b" } }),
        serde_json::json!({ "count": 1, "another": 1 }),
        serde_json::json!([]),
    ] {
        assert_eq!(found(wrong.clone()).len(), 1, "{wrong}: {:?}", found(wrong.clone()));
    }
    assert_eq!(differences(&serde_json::json!({ "not": {} }), &Value::Null).len(), 1);
}
