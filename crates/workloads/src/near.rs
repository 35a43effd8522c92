//! Near matches for names that do not exist.

/// `did you mean` for the nearest of `known`, else everything that is allowed.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let limit = (name.len() / 3).max(1);
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|candidate| (distance(name, candidate), *candidate))
        .filter(|(distance, candidate)| {
            *distance <= limit || (name.len() >= 3 && candidate.starts_with(name))
        })
        .collect();
    near.sort();
    if near.is_empty() {
        format!("one of {}", quoted(&known))
    } else {
        let near: Vec<&str> = near.into_iter().map(|(_, candidate)| candidate).take(3).collect();
        format!("did you mean {}?", quoted(&near))
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Letters to insert, remove or change to turn one name into the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_nearest_name_offered_first() {
        let known = ["requests", "read", "size", "sequential"];
        assert_eq!(hint("sise", known), "did you mean `size`?");
        assert_eq!(hint("reads", known), "did you mean `read`?");
        assert_eq!(hint("seq", known), "did you mean `sequential`?");
        assert_eq!(hint("colour", ["size", "read"]), "one of `size`, `read`");
    }
}
