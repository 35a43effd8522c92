//! Checks on tables whose keys depend on the value of one of them.

/// The value of a key that `owner` cannot do without.
pub(super) fn need<T>(value: Option<T>, key: &str, owner: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("`{owner}` needs `{key}` (hint: add `{key}`)"))
}

/// Refuses every key that was given although `owner` has no use for it.
pub(super) fn refuse(given: &[(&str, bool)], owner: &str, takes: &str) -> Result<(), String> {
    match given.iter().find(|(_, given)| *given) {
        Some((key, _)) => Err(format!("`{owner}` has no `{key}` (hint: it takes {takes})")),
        None => Ok(()),
    }
}
