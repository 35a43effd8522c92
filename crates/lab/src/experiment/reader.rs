//! Reading the tables of an experiment file, so that every mistake names its key.

use std::ops::RangeInclusive;

use seeklab_devices::names::near_matches;
use toml::{Table, Value};

use crate::failure::Failure;

/// A table of the file, taken apart key by key.
pub(super) struct Reader<'a> {
    label: &'a str,
    /// Path of the table with a dot behind it; empty for the file itself.
    place: String,
    table: Table,
}

impl<'a> Reader<'a> {
    /// The table at `place` of the file `label`, which may have these keys.
    pub(super) fn new(label: &'a str, place: &str, table: Table, known: &[&str]) -> Result<Self, Failure> {
        let place = if place.is_empty() { String::new() } else { format!("{place}.") };
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            let near = near_matches(key, known.iter().copied());
            return Err(Failure::new(format!("{label}: {place}{key}: there is no such key{near}"))
                .hint(format!("allowed: {}", known.join(", "))));
        }
        Ok(Self { label, place, table })
    }

    /// A mistake in the value of `key`.
    pub(super) fn wrong(&self, key: &str, problem: impl std::fmt::Display) -> Failure {
        Failure::new(format!("{}: {}{key}: {problem}", self.label, self.place))
    }

    fn missing(&self, key: &str, example: &str) -> Failure {
        self.wrong(key, "is missing").hint(format!("write for example {key} = {example}"))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Returns true if the value is a whole number.
    pub(super) fn is_count(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(Value::is_integer)
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, Failure> {
        match self.table.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => {
                Err(self.wrong(key, format_args!("{other} is not text")).hint("write it in quotes"))
            }
        }
    }

    pub(super) fn needed_text(&mut self, key: &str, example: &str) -> Result<String, Failure> {
        self.text(key)?.ok_or_else(|| self.missing(key, example))
    }

    pub(super) fn count(&mut self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Failure> {
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
        match count.filter(|count| range.contains(count)) {
            Some(count) => Ok(Some(count)),
            None => Err(self.wrong(key, format_args!("{value} is not allowed")).hint(format!(
                "a whole number from {} to {} is",
                range.start(),
                range.end()
            ))),
        }
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<Option<bool>, Failure> {
        match self.table.remove(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(flag)),
            Some(other) => {
                Err(self.wrong(key, format_args!("{other} is not allowed")).hint("true and false are"))
            }
        }
    }

    /// A list that is not empty.
    pub(super) fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>, Failure> {
        match self.table.remove(key) {
            None => Ok(None),
            Some(Value::Array(values)) if values.is_empty() => {
                Err(self.wrong(key, "is an empty list").hint("name at least one, or leave the key out"))
            }
            Some(Value::Array(values)) => Ok(Some(values)),
            Some(other) => Err(self.wrong(key, "is not a list").hint(format!("write {key} = [{other}]"))),
        }
    }

    pub(super) fn needed_list(&mut self, key: &str, example: &str) -> Result<Vec<Value>, Failure> {
        self.list(key)?.ok_or_else(|| self.missing(key, example))
    }

    /// A list of texts that differ, each read by `read`.
    pub(super) fn texts<T>(
        &mut self,
        key: &str,
        read: impl Fn(&str) -> Result<T, (String, String)>,
    ) -> Result<Option<Vec<T>>, Failure> {
        let Some(values) = self.list(key)? else { return Ok(None) };
        let mut seen: Vec<&str> = Vec::new();
        let mut items = Vec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            let key = format!("{key}[{index}]");
            let text = value.as_str().ok_or_else(|| {
                self.wrong(&key, format_args!("{value} is not text")).hint("write it in quotes")
            })?;
            if seen.contains(&text) {
                return Err(self
                    .wrong(&key, format_args!("`{text}` is there twice"))
                    .hint("remove one of them"));
            }
            seen.push(text);
            let read = read(text);
            items.push(read.map_err(|(problem, hint)| {
                let failure = self.wrong(&key, problem);
                if hint.is_empty() { failure } else { failure.hint(hint) }
            })?);
        }
        Ok(Some(items))
    }
}
