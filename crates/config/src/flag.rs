//! Keys set on the command line.

use std::fmt;

use toml::Value;

use crate::{ConfigError, KeyPath};

/// A key that a flag sets.
#[derive(Clone)]
pub struct Flag {
    pub(crate) flag: String,
    pub(crate) key: KeyPath,
    pub(crate) value: FlagValue,
}

#[derive(Clone)]
pub(crate) enum FlagValue {
    Typed(Value),
    /// The text as typed; its type depends on the key.
    Typing(String),
}

impl Flag {
    /// Creates the value of a flag that sets one key, for example `--model`.
    pub fn new(flag: &str, key: &str, value: impl Into<Value>) -> Self {
        Self {
            flag: flag.to_owned(),
            key: KeyPath::parse(key).unwrap_or_else(|| KeyPath::from_iter([key])),
            value: FlagValue::Typed(value.into()),
        }
    }

    /// Parses a flag for any key: `key=value`, with the value as in the environment.
    pub fn assignment(flag: &str, text: &str) -> Result<Self, ConfigError> {
        let bad = || ConfigError::BadAssignment {
            flag: flag.to_owned(),
        };
        let (key, value) = split_assignment(text).ok_or_else(bad)?;
        Ok(Self {
            flag: flag.to_owned(),
            key,
            value: FlagValue::Typing(value.to_owned()),
        })
    }
}

/// Prints no value: it might be a secret.
impl fmt::Debug for Flag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}=…", self.flag, self.key)
    }
}

/// Splits at the first `=` after a complete key; quoted names may contain one.
fn split_assignment(text: &str) -> Option<(KeyPath, &str)> {
    text.match_indices('=').find_map(|(at, _)| {
        let key = KeyPath::parse(text[..at].trim())?;
        Some((key, text[at + 1..].trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, &str)>) {
        let found = split_assignment(text).map(|(key, value)| (key.to_string(), value));
        let expected = expected.map(|(key, value)| (key.to_owned(), value));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn assignments() {
        check("model=a/b", Some(("model", "a/b")));
        check("a.b = x=y ", Some(("a.b", "x=y")));
        check(
            r#"models."a=b/c".thinking=low"#,
            Some((r#"models."a=b/c".thinking"#, "low")),
        );
        check("model=", Some(("model", "")));
        check("model", None);
        check("=x", None);
        check("", None);
    }

    #[test]
    fn debug_shows_no_value() {
        let flag = Flag::assignment("-c", "providers.x.api_key=sk-1").unwrap();
        assert_eq!(format!("{flag:?}"), "-c providers.x.api_key=…");
    }
}
