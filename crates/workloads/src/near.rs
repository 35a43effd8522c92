//! Near matches for names that do not exist.

use seeklab_core::names::{near, quoted};

/// `did you mean` for the nearest of `known`, else everything that is allowed.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let near = near(name, known.iter().copied());
    if near.is_empty() {
        format!("one of {}", quoted(known))
    } else {
        format!("did you mean {}?", quoted(near))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_suggested_first() {
        let known = ["requests", "read", "size", "sequential"];
        assert_eq!(hint("sise", known), "did you mean `size`?");
        assert_eq!(hint("reads", known), "did you mean `read`?");
        assert_eq!(hint("seq", known), "did you mean `sequential`?");
        assert_eq!(hint("colour", ["size", "read"]), "one of `size`, `read`");
    }
}
