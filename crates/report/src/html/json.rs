//! JSON inside a `<script>` element.

use std::fmt::Write;

use serde::Serialize;

/// `value` as JSON that cannot end the element it stands in, nor open another.
pub(super) fn embedded(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("charts hold numbers and text");
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // In JSON these occur within strings only, where an escape means the same.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(text, "\\u{:04x}", u32::from(character)).expect("a string takes any text");
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_text_ends_the_script() {
        let text = super::embedded(&["</script><!-- & \u{2028}"]);
        assert_eq!(text, r#"["\u003c/script\u003e\u003c!-- \u0026 \u2028"]"#);
        let back: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(back, ["</script><!-- & \u{2028}"]);
    }
}
