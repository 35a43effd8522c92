//! Reads parameters from a table, so that a mistake names its key, what is wrong and what would be right.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::description::DescriptionError;
use crate::names::near_matches;

/// The parameters that the table holds.
///
/// # Errors
/// The first mistake, with the path of its key.
pub(crate) fn read<P: DeserializeOwned>(table: &Table) -> Result<P, DescriptionError> {
    read_beside(table, &[])
}

/// As [`read`], for a table that has held these keys too.
pub(crate) fn read_beside<P: DeserializeOwned>(
    table: &Table,
    beside: &[&str],
) -> Result<P, DescriptionError> {
    serde_path_to_error::deserialize(table.clone()).map_err(|error| {
        let path = match error.path().to_string() {
            root if root == "." => String::new(),
            path => path,
        };
        mistake(table, &path, error.inner().message(), beside)
    })
}

/// Says in our words what serde says in its own.
fn mistake(table: &Table, path: &str, message: &str, beside: &[&str]) -> DescriptionError {
    if let Some(key) = message.strip_prefix("missing field ") {
        return located(&join(path, key.trim_matches('`')), "is missing");
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    for (prefix, what) in [("unknown field", "key"), ("unknown variant", "name")] {
        if message.starts_with(prefix) {
            let seen = quoted.next().unwrap_or_default();
            let path = within_tagged(table, path, |key, value| {
                if what == "key" { key == seen } else { value.as_str() == Some(seen) }
            });
            let mut known: Vec<&str> = quoted.collect();
            if path == seen {
                known.extend(beside);
            }
            let near = near_matches(seen, known.iter().copied());
            return located(&path, &format!("unknown {what} `{seen}`{near}"))
                .hint(format!("allowed: {}", known.join(", ")));
        }
    }
    if let Some((problem, hint)) = message.strip_suffix(')').and_then(|text| text.rsplit_once(" (hint: ")) {
        let seen = quoted.next().unwrap_or_default();
        let path = within_tagged(table, path, |_, value| value.as_str() == Some(seen));
        return located(&path, problem).hint(hint);
    }
    let invalid = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((seen, expected)) = invalid.and_then(|text| text.split_once(", expected ")) {
        let value = seen.split_once(' ').map_or(seen, |(_, value)| value).trim_matches(['`', '"']);
        let path = within_tagged(table, path, |_, other| other.to_string().trim_matches('"') == value);
        let expected = in_words(expected);
        return located(&path, &format!("{seen} is not {expected}")).hint(format!("allowed: {expected}"));
    }
    let seen = quoted.next().unwrap_or_default();
    located(&within_tagged(table, path, |_, value| value.as_str() == Some(seen)), message)
}

fn located(path: &str, problem: &str) -> DescriptionError {
    DescriptionError::new(if path.is_empty() { problem.to_owned() } else { format!("{path}: {problem}") })
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns the path of the only entry below `path` that can be meant, otherwise `path`. In a table
/// with a tag (`curve`, `controller`), serde reports no path below the table.
fn within_tagged(table: &Table, path: &str, is_meant: impl Fn(&str, &Value) -> bool) -> String {
    let mut entries = Vec::new();
    collect(&Value::Table(table.clone()), "", "", &mut entries);
    let below: Vec<&str> = entries
        .iter()
        .filter(|(entry, key, value)| {
            let rest = entry.strip_prefix(path);
            rest.is_some_and(|rest| path.is_empty() || rest.starts_with(['.', '['])) && is_meant(key, value)
        })
        .map(|(entry, ..)| entry.as_str())
        .collect();
    let is_leaf =
        entries.iter().any(|(entry, _, value)| entry == path && !value.is_table() && !value.is_array());
    match below.as_slice() {
        [entry] if !is_leaf => (*entry).to_owned(),
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

/// Describes the value that serde expects, without the names of types.
fn in_words(expected: &str) -> &str {
    match expected {
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        "f64" => "a number",
        "a string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    }
}

#[cfg(test)]
mod tests {
    use crate::Description;

    /// The text of `hp-c2247a` with one thing changed gives this error and hint.
    fn check(from: &str, to: &str, expected: &str) {
        let text = include_str!("../catalog/hp-c2247a.toml");
        assert!(text.contains(from), "{from}");
        let error = Description::parse("x", "x.toml", &text.replacen(from, to, 1))
            .and_then(|description| description.build(seeklab_core::Seed(1), "disk0").map(drop))
            .expect_err(expected);
        assert_eq!(format!("{error}\nhint: {}", error.advice().unwrap_or("none")), expected);
    }

    #[test]
    fn mistake_names_its_key_and_the_allowed_values() {
        check(
            "\"5400rpm\"",
            "\"5400\"",
            "x.toml: mechanics.rpm: `5400` has no unit\nhint: write a rotation speed, for example \"5400rpm\"",
        );
        check(
            "\"5400rpm\"",
            "5400",
            "x.toml: mechanics.rpm: integer `5400` is not a rotation speed as text with its unit, for example \
             \"7200rpm\"\nhint: allowed: a rotation speed as text with its unit, for example \"7200rpm\"",
        );
        check(
            "first_block_offset = 73",
            "first_block_ofset = 73",
            "x.toml: geometry.zones[2].first_block_ofset: unknown key `first_block_ofset`; did you mean \
             `first_block_offset`?\nhint: allowed: first_cylinder, last_cylinder, sectors_per_track, \
             surface_sectors, first_block_offset, reserved_blocks, track_skew, cylinder_skew, angles, spares, slips, remaps",
        );
        check(
            "track_skew = 13",
            "track_skew = -13",
            "x.toml: geometry.zones[1].track_skew: integer `-13` is not a whole number from 0 to 4294967295\n\
             hint: allowed: a whole number from 0 to 4294967295",
        );
        check("last_cylinder = 558\n", "", "x.toml: geometry.zones[0].last_cylinder: is missing\nhint: none");
        check(
            "mapping = \"normal\"",
            "mapping = \"serpentin\"",
            "x.toml: geometry.mapping: unknown name `serpentin`; did you mean `serpentine`, \
             `serpentine_per_zone`?\n\
             hint: allowed: normal, serpentine_per_zone, serpentine, surface_first",
        );
        check(
            "surfaces = 13",
            "surfaces = 0",
            "x.toml: geometry.surfaces: 0\nhint: allowed: 1 to 256 surfaces",
        );
        check(
            "last_cylinder = 2050",
            "last_cylinder = 2000000000",
            "x.toml: geometry.zones[7].last_cylinder: 2000000000\n\
             hint: allowed: from the zone's first cylinder, 1794, to 16777215",
        );
    }

    #[test]
    fn key_is_found_below_a_tag() {
        check(
            "sqrt_factor = \"0.33ms\"",
            "sqrt_factor = \"0.33\"",
            "x.toml: mechanics.seek.sqrt_factor: `0.33` has no unit\nhint: write a duration, for example \"0.33ms\"",
        );
        check(
            "segments = 2",
            "segments = \"many\"",
            "x.toml: electronics.buffer.segments: string \"many\" is not a whole number from 0 to 4294967295\n\
             hint: allowed: a whole number from 0 to 4294967295",
        );
    }

    #[test]
    fn text_that_is_not_toml_names_the_line() {
        check("surfaces = 13", "surfaces 13", "x.toml, line 12: key with no value, expected `=`\nhint: none");
    }
}
