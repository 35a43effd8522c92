//! Lines of keys in the text of a description.

use toml::de::{DeTable, DeValue};

/// The line of the key at `path`, counted from 1; of the nearest table around it if the key is absent. `None` of a key
/// that only the whole document lacks.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let start = start_in_table(table.get_ref(), path)?;
    Some(line_at(text, start))
}

/// The line of a byte of the text, counted from 1.
pub(super) fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}

/// First byte of the deepest key of `path` that the table has.
fn start_in_table(table: &DeTable, path: &str) -> Option<usize> {
    let fits =
        |key: &str| path.strip_prefix(key).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
    let (key, value, rest) = table
        .iter()
        .filter_map(|(key, value)| Some((key, value, fits(key.get_ref())?)))
        .max_by_key(|(key, ..)| key.get_ref().len())?;
    let inner = start_in_value(value.get_ref(), rest.trim_start_matches('.'));
    Some(inner.unwrap_or_else(|| key.span().start))
}

fn start_in_value(value: &DeValue, path: &str) -> Option<usize> {
    match value {
        DeValue::Table(table) => start_in_table(table, path),
        DeValue::Array(items) => {
            let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            let inner = start_in_value(item.get_ref(), rest.trim_start_matches('.'));
            Some(inner.unwrap_or_else(|| item.span().start))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_that_of_the_key_or_of_the_nearest_table() {
        let text = "kind = \"a\"\n\n[geometry]\nsurfaces = 3\nlist = [1,\n  2]\n[[geometry.zones]]\nfirst = 1\n\
                    [[geometry.zones]]\nfirst = 2\n[\"a.b\"]\nc = { d = 1,\n  e = 2 }\n";
        for (path, line) in [
            ("kind", Some(1)),
            ("geometry", Some(3)),
            ("geometry.surfaces", Some(4)),
            ("geometry.list[1]", Some(6)),
            ("geometry.absent", Some(3)),
            ("geometry.zones[1].first", Some(10)),
            ("geometry.zones[1].absent", Some(9)),
            ("a.b.c.e", Some(13)),
            ("absent", None),
            ("", None),
        ] {
            assert_eq!(line_of(text, path), line, "{path}");
        }
        assert_eq!(line_of("a = ", "a"), None);
    }
}
