//! The API token of a client.

use std::fmt;

/// An API token whose `Debug` output is redacted.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Wraps a token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_is_redacted() {
        let token = Token::new("sortie_abcdefgh_secret");
        assert_eq!(
            format!("{token:?} {:?}", Some(&token)),
            "[redacted] Some([redacted])"
        );
    }
}
