//! Reading of tables into declared structs, so that a mistake names its key, the value found and what is allowed.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

use super::error::{DescriptionError, Mistake, join};
use super::position::line_at;
use super::schema;

/// The table of a TOML document.
///
/// # Errors
/// Text that is not TOML, with its line.
pub fn parse(text: &str) -> Result<Table, DescriptionError> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let words: Vec<&str> = error.message().split_whitespace().collect();
        DescriptionError::new(Mistake::Syntax, "", words.join(" ")).on_line(line)
    })
}

/// The struct that a table describes.
///
/// # Errors
/// The first mistake, with the path of its key.
pub fn read<T: DeserializeOwned + JsonSchema>(table: &Table) -> Result<T, DescriptionError> {
    read_beside(table, &[])
}

/// As [`read`], for a table that has held these keys too.
///
/// # Errors
/// As [`read`].
pub fn read_beside<T: DeserializeOwned + JsonSchema>(
    table: &Table,
    beside: &[&str],
) -> Result<T, DescriptionError> {
    let value = Value::Table(table.clone());
    T::deserialize(TomlReader { value: &value })
        .map_err(|wrong| wrong.explain(table, &schema::schema_of::<T>(), beside))
}

/// A mistake as serde reports it.
#[derive(Debug)]
struct Wrong {
    path: String,
    seen: Seen,
    problem: Problem,
}

/// The part of the text at which serde stumbled.
#[derive(Debug)]
enum Seen {
    Key(String),
    Value(String),
    Nothing,
}

#[derive(Debug)]
enum Problem {
    /// A key that is not among these.
    UnknownKey(&'static [&'static str]),
    /// A name that is not among these.
    UnknownName(&'static [&'static str]),
    Missing,
    /// A problem in words, and a hint.
    Other(String, Option<String>),
}

impl Wrong {
    fn under(self, key: &str) -> Self {
        Self { path: join(key, &self.path), ..self }
    }

    /// The mistake with its whole path, and with what the schema allows there.
    fn explain(self, table: &Table, schema: &serde_json::Value, beside: &[&str]) -> DescriptionError {
        let path = match &self.seen {
            Seen::Key(seen) => below(table, &self.path, |key, _| key == seen),
            Seen::Value(seen) => below(table, &self.path, |_, value| plain(value) == *seen),
            Seen::Nothing => self.path,
        };
        // The choice that a table of several forms has made, such as `process = "closed"`.
        let (around, key) = path.rsplit_once('.').unwrap_or(("", &path));
        let chosen = schema::choice_at(schema, table, around);
        let chosen = chosen.map(|(tag, name)| format!(" where `{tag} = \"{name}\"`")).unwrap_or_default();
        let error = match (self.problem, self.seen) {
            (Problem::UnknownKey(known), Seen::Key(seen)) => {
                let more = if path == seen { beside } else { &[] };
                let known = known.iter().chain(more).copied();
                DescriptionError::unknown_where(Mistake::UnknownKey, "key", &seen, &chosen, known)
            }
            (Problem::UnknownName(known), Seen::Value(seen)) => {
                DescriptionError::unknown(Mistake::UnknownName, "name", &seen, known.iter().copied())
            }
            (Problem::Other(problem, hint), _) => {
                let error = DescriptionError::invalid("", problem);
                match hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
            _ => {
                let error = DescriptionError::new(Mistake::Missing, "", format!("is missing{chosen}"));
                match schema::example_at(schema, table, &path) {
                    Some(example) => error.hint(format!("write for example {key} = {example}")),
                    None => error,
                }
            }
        };
        error.under(&path)
    }
}

/// Returns the path of the only entry below `path` that can be meant, otherwise `path`. In a table whose keys depend on
/// one of them (`curve`, `process`), serde reports no path below the table.
fn below(table: &Table, path: &str, is_meant: impl Fn(&str, &Value) -> bool) -> String {
    let mut entries = Vec::new();
    collect(&Value::Table(table.clone()), "", "", &mut entries);
    if let Some((_, key, value)) = entries.iter().find(|(entry, ..)| entry == path)
        && (is_meant(key, value) || !(value.is_table() || value.is_array()))
    {
        return path.to_owned();
    }
    let meant: Vec<&str> = entries
        .iter()
        .filter(|(entry, key, value)| {
            let rest = entry.strip_prefix(path);
            rest.is_some_and(|rest| path.is_empty() || rest.starts_with(['.', '['])) && is_meant(key, value)
        })
        .map(|(entry, ..)| entry.as_str())
        .collect();
    match meant.as_slice() {
        [entry] => (*entry).to_owned(),
        _ => path.to_owned(),
    }
}

/// `(path, key, value)` of every entry at every depth.
fn collect(value: &Value, path: &str, key: &str, entries: &mut Vec<(String, String, Value)>) {
    if !path.is_empty() {
        entries.push((path.to_owned(), key.to_owned(), value.clone()));
    }
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                collect(value, &join(path, key), key, entries);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, &format!("{path}[{index}]"), "", entries);
            }
        }
        _ => {}
    }
}

/// The value as text without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    /// Takes the hint that quantities append in parentheses out of the text again.
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        let seen = message.split('`').nth(1).map_or(Seen::Nothing, |seen| Seen::Value(seen.to_owned()));
        let hinted = message.strip_suffix(')').and_then(|text| text.rsplit_once(" (hint: "));
        let problem = match hinted {
            Some((problem, hint)) => Problem::Other(problem.to_owned(), Some(hint.to_owned())),
            None => Problem::Other(message, None),
        };
        Self { path: String::new(), seen, problem }
    }

    fn invalid_type(unexpected: de::Unexpected, expected: &dyn de::Expected) -> Self {
        let (seen, words) = match unexpected {
            de::Unexpected::Str(text) => (Seen::Value(text.to_owned()), unexpected.to_string()),
            de::Unexpected::Float(number) => {
                (Seen::Value(Value::Float(number).to_string()), unexpected.to_string())
            }
            de::Unexpected::Signed(number) => (Seen::Value(number.to_string()), unexpected.to_string()),
            de::Unexpected::Unsigned(number) => (Seen::Value(number.to_string()), unexpected.to_string()),
            de::Unexpected::Bool(truth) => (Seen::Value(truth.to_string()), unexpected.to_string()),
            de::Unexpected::Map => (Seen::Nothing, "a table".to_owned()),
            de::Unexpected::Seq => (Seen::Nothing, "a list".to_owned()),
            other => (Seen::Nothing, other.to_string()),
        };
        let expected = expected.to_string();
        let expected = in_words(&expected);
        let hint = format!("allowed: {expected}");
        let problem = Problem::Other(format!("{words} is not {expected}"), Some(hint));
        Self { path: String::new(), seen, problem }
    }

    fn invalid_value(unexpected: de::Unexpected, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Self {
        let expected = expected.to_string();
        let problem = Problem::Other(format!("has {length} entries"), Some(format!("allowed: {expected}")));
        Self { path: String::new(), seen: Seen::Nothing, problem }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self {
            path: String::new(),
            seen: Seen::Key(field.to_owned()),
            problem: Problem::UnknownKey(expected),
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let seen = Seen::Value(variant.to_owned());
        Self { path: String::new(), seen, problem: Problem::UnknownName(expected) }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { path: field.to_owned(), seen: Seen::Nothing, problem: Problem::Missing }
    }
}

/// Describes the value that serde expects, without the names of types.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "i32" | "i64" => "a whole number",
        "f64" => "a number",
        "a string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        expected if expected.starts_with("struct ") || expected.starts_with("internally tagged enum ") => {
            "a table"
        }
        expected => expected,
    }
}

/// Reads a TOML value; unlike the deserializer of the `toml` crate it knows where in the table it is.
struct TomlReader<'a> {
    value: &'a Value,
}

impl<'de> Deserializer<'de> for TomlReader<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(integer) => match u64::try_from(*integer) {
                Ok(count) => visitor.visit_u64(count),
                Err(_) => visitor.visit_i64(*integer),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(truth) => visitor.visit_bool(*truth),
            Value::Datetime(time) => visitor.visit_str(&time.to_string()),
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter().enumerate() }),
            Value::Table(table) => visitor.visit_map(Entries { entries: table.iter(), current: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.value {
            Value::String(text) => {
                let name: StrDeserializer<Wrong> = text.as_str().into_deserializer();
                visitor.visit_enum(name)
            }
            other => {
                let problem = format!("{} `{other}` is not a name", other.type_str());
                let hint = format!("allowed: {}", variants.join(", "));
                Err(Wrong {
                    path: String::new(),
                    seen: Seen::Value(plain(other)),
                    problem: Problem::Other(problem, Some(hint)),
                })
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        let Some((index, value)) = self.items.next() else { return Ok(None) };
        let read = seed.deserialize(TomlReader { value });
        read.map(Some).map_err(|wrong| wrong.under(&format!("[{index}]")))
    }
}

struct Entries<'a> {
    entries: toml::map::Iter<'a, String, Value>,
    current: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.current = Some((key, value));
        let name: StrDeserializer<Wrong> = key.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|wrong| wrong.under(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let (key, value) = self.current.take().expect("serde asks for a value after its key");
        seed.deserialize(TomlReader { value }).map_err(|wrong| wrong.under(key))
    }
}
