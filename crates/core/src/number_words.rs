//! Counts of things in sentences: `1 request`, `2 requests`.

/// Returns a number of things: `1 request`, `2 requests`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    numbered(count, &format!("{noun}[|s]"))
}

/// Returns a number and a text about so many things. Each `[one|many]` of `text` is for one and for any other number:
/// `request[|s] [has|have] no response time`.
pub fn numbered(count: impl TryInto<u64>, text: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {}", in_number(count, text))
}

/// Returns `text` for so many things, without the number, as in [`numbered`].
pub fn in_number(count: impl TryInto<u64>, text: &str) -> String {
    let is_one = count.try_into().is_ok_and(|count| count == 1);
    let mut chosen = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, one, many, after)) = choice(rest) {
        chosen.push_str(before);
        chosen.push_str(if is_one { one } else { many });
        rest = after;
    }
    chosen + rest
}

/// The first `[one|many]` of a text, what stands before it and behind it.
fn choice(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, rest) = text.split_once('[')?;
    let (choice, after) = rest.split_once(']')?;
    let (one, many) = choice.split_once('|')?;
    Some((before, one, many, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_agree_with_their_number() {
        assert_eq!([0_u64, 1, 2].map(|count| counted(count, "row")), ["0 rows", "1 row", "2 rows"]);
        let text = "request[|s] [has|have] no issue time; [its time starts|their times start] at the arrival";
        assert_eq!(numbered(1_u8, text), "1 request has no issue time; its time starts at the arrival");
        assert_eq!(
            numbered(7_usize, text),
            "7 requests have no issue time; their times start at the arrival"
        );
        assert_eq!(in_number(2_u64, "no choice"), "no choice");
    }
}
