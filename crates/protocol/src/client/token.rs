//! Who the client is, for the server alone.

use std::fmt;

/// A token that prints as nothing.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Hides a token.
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
    fn prints_nothing_of_itself() {
        let token = Token::new("sortie_abcdefgh_secret");
        assert_eq!(
            format!("{token:?} {:?}", Some(&token)),
            "[redacted] Some([redacted])"
        );
    }
}
