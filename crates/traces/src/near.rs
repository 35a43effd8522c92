//! Names that were probably meant.

/// Those of `names` that differ from `name` by few letters, the nearest first.
pub(crate) fn near_matches<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let allowed = 1 + name.chars().count() / 4;
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Letters to insert, drop or replace to get from `from` to `to` (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let replace = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replace.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_typing_errors_recognised() {
        let names = ["arrival_ns", "issue_ns", "lbn", "blocks"];
        assert_eq!(near_matches("arival_ns", names), ["arrival_ns"]);
        assert_eq!(near_matches("arrival_us", names), ["arrival_ns"]);
        assert_eq!(near_matches("lba", names), ["lbn"]);
        assert!(near_matches("colour", names).is_empty());
    }
}
