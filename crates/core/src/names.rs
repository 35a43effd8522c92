//! Names that were probably meant.

/// At most three of `names` that are near to `wrong`, the nearest first: those that differ by few letters,
/// swapped ones counting once (one in three, at least one), and those that contain it.
pub fn near<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wrong = wrong.to_lowercase();
    let allowed = (wrong.chars().count() / 3).max(1);
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .map(|name| (strsim::osa_distance(&wrong, name), name))
        .filter(|(distance, name)| *distance <= allowed || (wrong.len() > 2 && name.contains(&wrong)))
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// `` `a`, `b` ``.
pub fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// `` ; did you mean `a`, `b`? `` for the names nearest to `wrong`, empty if none is near.
pub fn near_matches<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = near(wrong, names);
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", quoted(near)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_suggest_the_nearest_names() {
        let names = ["arrival_ns", "issue_ns", "lbn", "blocks", "sequential"];
        assert_eq!(near("arival_ns", names), ["arrival_ns"]);
        assert_eq!(near("arrival_us", names), ["arrival_ns"]);
        assert_eq!(near("LBA", names), ["lbn"]);
        assert_eq!(near("seq", names), ["sequential"]);
        assert!(near("colour", names).is_empty());
        assert_eq!(quoted(["a", "b"]), "`a`, `b`");
    }

    #[test]
    fn near_names_are_suggested() {
        let names = ["hp-c2247a", "hp-c2249a", "atlas10k"];
        assert_eq!(near_matches("hp_c2247a", names), "; did you mean `hp-c2247a`, `hp-c2249a`?");
        assert_eq!(near_matches("zzz", names), "");
    }
}
