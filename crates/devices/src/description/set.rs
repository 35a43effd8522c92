//! Changes of single parameters.

use seeklab_core::description::schema::settable_paths;
use seeklab_core::names::near_matches;
use seeklab_core::{DescriptionError, Mistake, Seed};
use toml::{Table, Value};

use super::Description;

/// Paths that a hint lists.
const PATHS_LISTED: usize = 6;

/// Opening of the statement that values differ from those of a validated device.
const CHANGED: &str = "changed: ";

impl Description {
    /// Changes one parameter, named by its path or, where that is unique, by its last part.
    ///
    /// # Errors
    /// A name that is not there or not unique, or a value that the parameter cannot have.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), DescriptionError> {
        let path = self.path_of(key)?;
        self.change_at(&path, text).map_err(|error| error.within(&format!("--set {path}={text}")))
    }

    /// As [`set`](Self::set), the option not named in errors.
    pub(super) fn change(&mut self, key: &str, text: &str) -> Result<(), DescriptionError> {
        let path = self.path_of(key)?;
        self.change_at(&path, text)
    }

    fn change_at(&mut self, path: &str, text: &str) -> Result<(), DescriptionError> {
        let mut changed = self.clone();
        changed.set_at(path, text)?;
        changed.header.sources.insert(path.to_owned(), format!("set to {text}"));
        changed.build_here(Seed(0), "check")?;
        *self = changed;
        Ok(())
    }

    /// Paths of all parameters of the tree that can be set.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = settable_paths(&self.kind.parameter_schema(), &self.parameters.table());
        for (index, child) in self.children.iter().enumerate() {
            let key = self.child_key(index);
            paths.extend(child.paths().into_iter().map(|path| format!("{key}.{path}")));
        }
        paths
    }

    /// The only path that `key` can mean.
    fn path_of(&self, key: &str) -> Result<String, DescriptionError> {
        let paths = self.paths();
        if paths.iter().any(|path| path == key) {
            return Ok(key.to_owned());
        }
        let end = format!(".{key}");
        let matching: Vec<&String> = paths.iter().filter(|path| path.ends_with(&end)).collect();
        let (listed, single): (Vec<&String>, Vec<&String>) =
            matching.iter().partition(|path| in_list(path, key));
        match (single.as_slice(), listed.as_slice()) {
            ([path], _) | ([], [path]) => Ok((*path).clone()),
            ([], []) => {
                let parts = paths.iter().map(|path| path.rsplit('.').next().unwrap_or(path));
                let near = near_matches(key, parts);
                let problem = format!("device `{}` has no parameter `{key}`{near}", self.name);
                Err(DescriptionError::new(Mistake::UnknownKey, "", problem)
                    .hint(format!("`seeklab devices {} --toml` shows all parameters", self.name)))
            }
            ([], several) => {
                Err(DescriptionError::invalid("", format!("parameter `{key}` is one of a list"))
                    .hint(write_one_of(several)))
            }
            (several, _) => Err(DescriptionError::invalid("", format!("parameter `{key}` is ambiguous"))
                .hint(write_one_of(several))),
        }
    }

    /// Changes the parameter of that path, and the statements on validation from here down to it.
    fn set_at(&mut self, path: &str, text: &str) -> Result<bool, DescriptionError> {
        let part = path.rsplit('.').next().unwrap_or(path);
        for index in 0..self.children.len() {
            if let Some(rest) = path.strip_prefix(&format!("{}.", self.child_key(index))) {
                let key = self.child_key(index);
                let is_changed =
                    self.children[index].set_at(rest, text).map_err(|error| error.under(&key))?;
                if is_changed && !self.header.validated.is_empty() {
                    note_change(&mut self.header.validated, part);
                }
                return Ok(is_changed);
            }
        }
        let old = self.parameters.table();
        let mut table = old.clone();
        put(&mut table, path, text);
        self.parameters = (self.kind.read)(&table)?;
        let is_changed = self.parameters.table() != old;
        if is_changed {
            note_change(&mut self.header.validated, part);
        }
        Ok(is_changed)
    }
}

/// Returns `true` if the path leads through a list on its way to `key`.
fn in_list(path: &str, key: &str) -> bool {
    path[..path.len() - key.len()].contains('[')
}

fn write_one_of(paths: &[&String]) -> String {
    let listed: Vec<String> = paths.iter().take(PATHS_LISTED).map(|path| format!("`{path}`")).collect();
    let more =
        if paths.len() > PATHS_LISTED { format!(", …; {} in all", paths.len()) } else { String::new() };
    format!("write one of {}{more}", listed.join(", "))
}

/// Adds a parameter to the statement, which is about an unchanged device until then.
fn note_change(validated: &mut String, part: &str) {
    match validated.strip_prefix(CHANGED) {
        None => *validated = format!("{CHANGED}{part}"),
        Some(parts) if parts.split(", ").any(|other| other == part) => {}
        Some(_) => *validated += &format!(", {part}"),
    }
}

/// Puts a value into the place of `path`, which lies in a table that is there.
fn put(table: &mut Table, path: &str, text: &str) {
    let (key, rest) = match path.find(['.', '[']) {
        Some(end) => (&path[..end], &path[end..]),
        None => (path, ""),
    };
    if rest.is_empty() {
        let value = parse_like(table.get(key), text);
        table.insert(key.to_owned(), value);
        return;
    }
    let mut rest = rest;
    let mut value = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
    while let Some((index, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let index: usize = index.parse().expect("the path was collected from this table");
        value = &mut value.as_array_mut().expect("the path was collected from this table")[index];
        rest = after;
    }
    let inner = value.as_table_mut().expect("the path was collected from this table");
    put(inner, rest.trim_start_matches('.'), text);
}

/// The text as a value of the kind that stands there, or as text if it cannot be read so.
fn parse_like(old: Option<&Value>, text: &str) -> Value {
    let parsed =
        || format!("value = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    match old {
        Some(Value::String(_)) => Value::String(text.to_owned()),
        _ => parsed().unwrap_or_else(|| Value::String(text.to_owned())),
    }
}
