//! The parameters of a description as rows for people.

use toml::{Table, Value};

use super::Description;

/// Entries of a list of tables that are shown one by one; a longer list is shortened.
const ENTRIES_SHOWN: usize = 4;

/// Characters of a value that are shown.
const VALUE_CHARACTERS: usize = 60;

/// `(path, value, source)` of a parameter.
pub type ParameterRow = (String, String, String);

impl Description {
    /// Every parameter of the tree with the source of its value, long lists shortened.
    pub fn parameters(&self) -> Vec<ParameterRow> {
        let mut rows = Vec::new();
        collect(&self.parameters.table(), "", &mut rows);
        let mut rows: Vec<ParameterRow> = rows
            .into_iter()
            .map(|(path, value)| {
                let source = self.source_of(&path).to_owned();
                (path, value, source)
            })
            .collect();
        for (index, child) in self.children.iter().enumerate() {
            let key = self.child_key(index);
            rows.push((format!("{key}.kind"), child.kind.name.to_owned(), String::new()));
            for (path, value, source) in child.parameters() {
                let path = format!("{key}.{path}");
                let source = match self.explicit_source(&path) {
                    Some(source) => source.to_owned(),
                    None if source.is_empty() => self.default_source().to_owned(),
                    None => source,
                };
                rows.push((path, value, source));
            }
        }
        rows
    }

    /// Source of a parameter's value: its own, that of a table around it, or the default.
    fn source_of(&self, path: &str) -> &str {
        self.explicit_source(path).unwrap_or_else(|| self.default_source())
    }

    fn default_source(&self) -> &str {
        self.header.sources.get("default").map_or("", String::as_str)
    }

    fn explicit_source(&self, path: &str) -> Option<&str> {
        let mut key = path;
        loop {
            if let Some(source) = self.header.sources.get(key) {
                return Some(source);
            }
            key = &key[..key.rfind(['.', '['])?];
        }
    }
}

/// `(path, value)` of every entry of a table.
fn collect(table: &Table, prefix: &str, rows: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(inner) => collect(inner, &path, rows),
            Value::Array(items)
                if (1..=ENTRIES_SHOWN).contains(&items.len()) && items.iter().all(Value::is_table) =>
            {
                for (index, item) in items.iter().filter_map(Value::as_table).enumerate() {
                    collect(item, &format!("{path}[{index}]"), rows);
                }
            }
            value => rows.push((path, shortened(&value.to_string()))),
        }
    }
}

fn shortened(value: &str) -> String {
    let value = value.trim_matches('"');
    if value.len() > VALUE_CHARACTERS {
        format!("{}…", value.chars().take(VALUE_CHARACTERS - 1).collect::<String>())
    } else {
        value.to_owned()
    }
}
