//! Text that must not be seen, and taking it out of text that will be.

use std::fmt;

/// What stands where a secret would.
const REDACTED: &str = "[redacted]";
/// The shortest text that is looked for: shorter ones (`1`, `on`) are no secrets, and taking them out
/// would make every message unreadable.
const MIN_SECRET_CHARS: usize = 5;

/// Text that prints as `[redacted]`, however it is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Gives the text to the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Takes known secrets out of text.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    /// Longest first, so that a secret inside another leaves no rest of the longer one.
    secrets: Vec<String>,
}

impl Redactor {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known: Vec<String> = Vec::new();
        for secret in secrets {
            // `Bearer …`: the second word alone is as secret as both.
            let words = secret.split_whitespace();
            known.extend(
                words
                    .chain([secret])
                    .filter(|text| is_long(text))
                    .map(str::to_owned),
            );
        }
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        Self { secrets: known }
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret) {
                text = text.replace(secret, REDACTED);
            }
        }
        text
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

fn is_long(text: &str) -> bool {
    text.chars().count() >= MIN_SECRET_CHARS && text != "Bearer" && text != "Basic"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secrets: &[&str], text: &str, expected: &str) {
        let redactor = Redactor::new(secrets.iter().copied());
        assert_eq!(redactor.redact(text), expected);
        let seen = format!(
            "{redactor:?} {:?}",
            secrets.iter().map(|s| Secret::new(*s)).collect::<Vec<_>>()
        );
        assert!(
            secrets
                .iter()
                .all(|secret| secret.len() < MIN_SECRET_CHARS || !seen.contains(secret))
        );
    }

    #[test]
    fn takes_secrets_out() {
        check(&["hunter22"], "key hunter22!", "key [redacted]!");
        check(
            &["Bearer hunter22"],
            "Bearer hunter22, hunter22",
            "[redacted], [redacted]",
        );
        check(
            &["hunter22", "hunter22-long"],
            "hunter22-long",
            "[redacted]",
        );
        check(&["1"], "exit 1", "exit 1");
        check(&[], "nothing", "nothing");
    }
}
