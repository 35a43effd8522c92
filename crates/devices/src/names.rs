//! Near matches for names that are not there.

use seeklab_core::names::{near, quoted};

/// `` ; did you mean `a`, `b`? `` for the names nearest to `wrong`, empty if none is near.
pub fn near_matches<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = near(wrong, names);
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", quoted(near)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        let names = ["hp-c2247a", "hp-c2249a", "atlas10k"];
        assert_eq!(near_matches("hp_c2247a", names), "; did you mean `hp-c2247a`, `hp-c2249a`?");
        assert_eq!(near_matches("zzz", names), "");
    }
}
