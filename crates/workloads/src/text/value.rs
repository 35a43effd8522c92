//! Reading a TOML value into a description, with the path of every mistake.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use toml::Value;

use crate::error::Error;

/// Reads a TOML value; unlike the reader of the `toml` crate it knows where in the value it is, so
/// that a mistake names its key and offers near matches.
pub(crate) struct Reader<'a> {
    value: &'a Value,
    /// True if counts are written as text, as on a line.
    line: bool,
}

impl<'a> Reader<'a> {
    /// Reads a value that was written in TOML.
    pub(crate) const fn toml(value: &'a Value) -> Self {
        Self { value, line: false }
    }

    /// Reads a value whose parts were written on a line, where a count is text like all else.
    pub(crate) const fn line(value: &'a Value) -> Self {
        Self { value, line: true }
    }

    fn integer<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) if self.line => match text.trim().replace('_', "").parse::<u64>() {
                Ok(count) => visitor.visit_u64(count),
                Err(_) => Err(Error::invalid("", format!("`{text}` is not a whole number"))
                    .with_hint("write for example 1000")),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) if self.line => match text.trim().parse::<f64>() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(Error::invalid("", format!("`{text}` is not a number"))
                    .with_hint("write for example 0.9")),
            },
            _ => self.deserialize_any(visitor),
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(integer) => match u64::try_from(*integer) {
                Ok(count) => visitor.visit_u64(count),
                Err(_) => visitor.visit_i64(*integer),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(truth) => visitor.visit_bool(*truth),
            Value::Datetime(time) => visitor.visit_str(&time.to_string()),
            Value::Array(items) => {
                visitor.visit_seq(Items { items: items.iter().enumerate(), line: self.line })
            }
            Value::Table(table) => {
                visitor.visit_map(Entries { entries: table.iter(), current: None, line: self.line })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) => {
                let name: StrDeserializer<Error> = text.as_str().into_deserializer();
                visitor.visit_enum(name)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.integer(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) if self.line => match text.trim().parse::<bool>() {
                Ok(truth) => visitor.visit_bool(truth),
                Err(_) => Err(Error::invalid("", format!("`{text}` is neither `true` nor `false`"))),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number(visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u128 f32 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
    line: bool,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((index, value)) = self.items.next() else { return Ok(None) };
        seed.deserialize(Reader { value, line: self.line })
            .map(Some)
            .map_err(|error| error.under(&format!("[{index}]")))
    }
}

struct Entries<'a> {
    entries: toml::map::Iter<'a, String, Value>,
    current: Option<(&'a str, &'a Value)>,
    line: bool,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.current = Some((key, value));
        let key: StrDeserializer<Error> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (key, value) = self.current.take().expect("serde asks for a value after its key");
        seed.deserialize(Reader { value, line: self.line }).map_err(|error| error.under(key))
    }
}
