//! Tokens: a public id, and a secret of which only the hash is stored.

use std::fmt;

use sha2::{Digest as _, Sha256};
use sortie_core::id::hex;
use subtle::ConstantTimeEq as _;

use crate::random::{self, NoRandomness};

/// The prefix of tokens, by which people and secret scanners recognise them.
const PREFIX: &str = "sortie_";

/// A whole token. It is shown to its owner once; `Debug` prints only the id.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: String,
    secret: String,
}

impl Token {
    /// Creates a token with this id.
    pub(crate) fn new(id: String) -> Result<Self, NoRandomness> {
        Ok(Self {
            id,
            secret: random::secret()?,
        })
    }

    /// Creates a token from its parts.
    pub(crate) fn of_parts(id: &str, secret: &str) -> Self {
        Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
        }
    }

    /// Returns the public part.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the whole token, for its owner.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }

    /// Returns the token as the value of a cookie.
    pub(crate) fn cookie(&self) -> String {
        format!("{}_{}", self.id, self.secret)
    }

    /// Returns the hash that is stored.
    pub(crate) fn hash(&self) -> String {
        hash_of(&self.secret)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_[secret]", self.id)
    }
}

/// The credentials of a request: an id and a secret that may or may not belong together.
pub(crate) struct Credential<'a> {
    pub(crate) id: &'a str,
    pub(crate) secret: &'a str,
}

impl<'a> Credential<'a> {
    /// Parses a bearer token.
    pub(crate) fn of_token(text: &'a str) -> Option<Self> {
        Self::of_cookie(text.strip_prefix(PREFIX)?)
    }

    pub(crate) fn of_cookie(text: &'a str) -> Option<Self> {
        let (id, secret) = text.split_once('_')?;
        (random::is_id(id) && random::is_secret(secret)).then_some(Self { id, secret })
    }
}

/// Returns the hash of a secret that is stored.
pub(crate) fn hash_of(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Compares two hashes in constant time.
pub(crate) fn same(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_parses_back_and_debug_prints_only_the_id() {
        let token = Token::new(random::id().unwrap()).unwrap();
        let text = token.reveal();
        let read = Credential::of_token(&text).unwrap();
        assert_eq!(read.id, token.id());
        assert!(same(&hash_of(read.secret), &token.hash()));
        assert!(!format!("{token:?}").contains(read.secret));
        let cookie = token.cookie();
        assert_eq!(Credential::of_cookie(&cookie).unwrap().id, token.id());
    }

    #[test]
    fn malformed_tokens_are_not_parsed() {
        let secret = random::secret().unwrap();
        for text in [
            String::new(),
            "sortie_".to_owned(),
            format!("sortie_abcdefgh{secret}"),
            format!("sortie_ABCDEFGH_{secret}"),
            format!("sortie_abcdefg_{secret}"),
            format!("sortie_abcdefgh_{secret}x"),
            format!("sortie_abcdefgh_{}", &secret[1..]),
            format!("abcdefgh_{secret}"),
            format!(" sortie_abcdefgh_{secret}"),
        ] {
            assert!(Credential::of_token(&text).is_none(), "{text}");
        }
    }
}
