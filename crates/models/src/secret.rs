//! Keys, and how they stay out of everything that is written down.

use std::fmt;
use std::sync::Arc;

/// What stands in the place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";
/// Secrets shorter than this are not looked for in texts: they would be found everywhere.
const SHORTEST: usize = 6;

/// How keys begin, and how many more characters make one.
const SHAPES: [(&str, usize); 12] = [
    ("sk-", 16),
    ("sk_", 16),
    ("gsk_", 16),
    ("xai-", 16),
    ("AIza", 20),
    ("AKIA", 12),
    ("ghp_", 16),
    ("github_pat_", 16),
    ("hf_", 16),
    ("xoxb-", 10),
    ("Bearer ", 8),
    ("bearer ", 8),
];

/// A key. It prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps a key, without the white space that copying leaves around it.
    pub fn new(key: &str) -> Self {
        Self(Arc::from(key.trim()))
    }

    /// The key itself, to be sent and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is so short that it stands in other words by chance.
    pub(crate) fn is_short(&self) -> bool {
        self.0.len() < SHORTEST
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl From<&str> for Secret {
    fn from(key: &str) -> Self {
        Self::new(key)
    }
}

/// The text without the secrets that are known, nor anything that has the shape of one.
pub(crate) fn without_secrets(text: &str, known: &[Secret]) -> String {
    let mut text = text.to_owned();
    for secret in known {
        let key = secret.expose();
        if key.len() >= SHORTEST && text.contains(key) {
            text = text.replace(key, REDACTED);
        }
    }
    SHAPES.iter().fold(text, |text, (start, more)| {
        without_shape(&text, start, *more)
    })
}

fn without_shape(text: &str, start: &str, more: usize) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(start) {
        let after = &rest[at + start.len()..];
        let length = after.find(|c| !is_key_char(c)).unwrap_or(after.len());
        let in_a_word = rest[..at].chars().next_back().is_some_and(is_key_char);
        clean.push_str(&rest[..at]);
        if length >= more && !in_a_word {
            clean.push_str(REDACTED);
        } else {
            clean.push_str(&rest[at..at + start.len() + length]);
        }
        rest = &after[length..];
    }
    clean.push_str(rest);
    clean
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_of_texts() {
        let known = [Secret::from("hunter2-hunter2"), Secret::from("ab")];
        for (text, expected) in [
            ("nothing here, ab", "nothing here, ab"),
            ("key=hunter2-hunter2!", "key=[redacted]!"),
            ("sk-ant-api03-abcdefghijklmnop", "[redacted]"),
            ("\"sk-proj-0123456789abcdef\"", "\"[redacted]\""),
            ("AIzaSyA0123456789012345678901234567890", "[redacted]"),
            (
                "gsk_0123456789abcdef0 and xai-0123456789abcdef",
                "[redacted] and [redacted]",
            ),
            (
                "Authorization: Bearer abcdefgh12",
                "Authorization: [redacted]",
            ),
            (
                "a task-manager-for-busy-people",
                "a task-manager-for-busy-people",
            ),
            ("sk-short", "sk-short"),
            ("的 sk-0123456789abcdef 的", "的 [redacted] 的"),
        ] {
            assert_eq!(without_secrets(text, &known), expected);
        }
    }

    #[test]
    fn a_secret_prints_as_nothing() {
        let secret = Secret::new(" sk-1234567890 \n");
        assert_eq!(
            format!("{secret:?} {:?}", Some(&secret)),
            "[redacted] Some([redacted])"
        );
        assert_eq!(secret.expose(), "sk-1234567890");
    }
}
