//! The token in the URL of the page: who does not know it reaches nothing but the metrics.

use std::fmt;

use seeklab_lab::failure::Failure;
use subtle::ConstantTimeEq;

/// Random bytes of a token.
const BYTES: usize = 16;

/// 128 random bits, as text for a URL.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Draws a token from the operating system.
    ///
    /// # Errors
    /// If it gives no random bytes.
    pub(crate) fn random() -> Result<Self, Failure> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| Failure::new(format!("the operating system gives no random bytes: {error}")))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The token as it stands in the URL.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Returns true if `text` is the token. The time does not depend on the place of the first difference.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

/// A token is not printed by accident.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_has_128_bits_that_differ_and_matches_itself_alone() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.text().len(), 2 * BYTES);
        assert!(one.is(one.text()) && !one.is(other.text()));
        assert!(!one.is("") && !one.is(&one.text()[..31]) && !one.is(&format!("{}0", one.text())));
        assert_eq!(format!("{one:?}"), "Token(…)");
    }
}
