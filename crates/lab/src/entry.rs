//! Entries of TOML files that are text or a table.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};
use toml::Table;

/// A device or a workload: text, or a table that describes it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Entry {
    /// A name, a file or a line.
    Text(String),
    /// A description.
    Table(Table),
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> de::Visitor<'de> for Form {
            type Value = Entry;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a name, a file or a line as text, or a table that describes it")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Entry, E> {
                Ok(Entry::Text(text.to_owned()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, table: A) -> Result<Entry, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(table)).map(Entry::Table)
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for Entry {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Entry".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "object" }] })
    }
}
