//! Near matches for names that are not there.

/// `; did you mean `a`, `b`?` for the names nearest to `wrong`, empty if none is near.
pub fn near_matches<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let wrong = wrong.to_lowercase();
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .map(|name| (distance(&wrong, name), name))
        .filter(|(distance, name)| {
            *distance <= 2.max(name.len() / 3) || name.contains(&wrong) && wrong.len() > 2
        })
        .collect();
    near.sort_unstable();
    near.truncate(3);
    if near.is_empty() {
        return String::new();
    }
    let names: Vec<String> = near.iter().map(|(_, name)| format!("`{name}`")).collect();
    format!("; did you mean {}?", names.join(", "))
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_near_names_suggested() {
        let names = ["hp-c2247a", "hp-c2249a", "atlas10k"];
        assert_eq!(near_matches("hp_c2247a", names), "; did you mean `hp-c2247a`, `hp-c2249a`?");
        assert_eq!(near_matches("zzz", names), "");
    }
}
