//! Takes secrets out of text on its way to a journal, an audit, a log or a person.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";
/// Shorter values than this are words that occur by themselves, and no secrets.
const MIN_SECRET_CHARS: usize = 8;

/// Keys that can be told by their shape alone.
static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"\bsk-[A-Za-z0-9_-]{20,}",
        r"\bgh[pousr]_[A-Za-z0-9]{36,}",
        r"\bgithub_pat_[A-Za-z0-9_]{50,}",
        r"\bglpat-[A-Za-z0-9_-]{20,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[0-9A-Za-z_-]{35}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"\bnpm_[A-Za-z0-9]{36}\b",
        r"\bpypi-AgE[A-Za-z0-9_-]{40,}",
        r"\bhf_[A-Za-z0-9]{30,}",
        r"\bgsk_[A-Za-z0-9]{40,}",
        r"\bxai-[A-Za-z0-9]{40,}",
        r"\btvly-[A-Za-z0-9-]{20,}",
        r"\b(?:sk|rk)_live_[A-Za-z0-9]{20,}",
    ];
    // The shapes are constants, and a test reads them; if one were bad, all would be.
    RegexBuilder::new(&shapes.join("|")).build().ok()
});

/// Takes configured secrets and everything with the shape of a key out of text.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The longest first, so that one that contains another goes as a whole.
    values: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("values", &self.values.len())
            .finish()
    }
}

impl Redactor {
    /// A redactor that knows these secrets besides the shapes of keys.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<String> = values
            .into_iter()
            .filter(|value| value.chars().count() >= MIN_SECRET_CHARS)
            .collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    /// The text without secrets.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = match &*SHAPES {
            Some(shapes) => shapes.replace_all(text, REDACTED),
            // Rather nothing than a secret.
            None => Cow::Borrowed(REDACTED),
        };
        for value in &self.values {
            if clean.contains(value.as_str()) {
                clean = Cow::Owned(clean.replace(value.as_str(), REDACTED));
            }
        }
        clean
    }

    /// The value without secrets, in keys and in strings.
    pub fn clean_json(&self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.clean(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.clean_json(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, field)| (self.clean(name).into_owned(), self.clean_json(field)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: &str) {
        let redactor = Redactor::new(["hunter22-very-secret".to_owned(), "short".to_owned()]);
        assert_eq!(redactor.clean(text), expected);
    }

    #[test]
    fn keys_go_and_words_stay() {
        check("plain text, 中文", "plain text, 中文");
        check("short stays", "short stays");
        check("x=hunter22-very-secret;", "x=[redacted];");
        check(
            &format!("OPENAI_API_KEY=sk-proj-{}", "a1B2".repeat(8)),
            "OPENAI_API_KEY=[redacted]",
        );
        check(&format!("ghp_{}", "a".repeat(36)), "[redacted]");
        check("AKIAIOSFODNN7EXAMPLE!", "[redacted]!");
        check(&format!("AIza{}", "x".repeat(35)), "[redacted]");
        check("xoxb-1234567890-abc", "[redacted]");
        check(
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
            "a\n[redacted]\nb",
        );
        check(
            "-----BEGIN PRIVATE KEY-----\ncut off in the middle",
            "[redacted]",
        );
        check("task-sk-12 and risk-free", "task-sk-12 and risk-free");
    }

    #[test]
    fn json_is_cleaned_in_depth() {
        let redactor = Redactor::new(["hunter22-very-secret".to_owned()]);
        assert_eq!(
            redactor
                .clean_json(&json!({"a": ["x hunter22-very-secret"], "hunter22-very-secret": 1})),
            json!({"a": ["x [redacted]"], "[redacted]": 1})
        );
    }

    #[test]
    fn what_it_knows_is_not_shown() {
        let redactor = Redactor::new(["hunter22-very-secret".to_owned()]);
        assert!(!format!("{redactor:?}").contains("hunter22"));
    }
}
