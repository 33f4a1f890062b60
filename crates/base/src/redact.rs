//! The one redactor: removes secrets from text on its way to a journal, an audit record, a log, a
//! recording, a model or a person.
//!
//! A second redactor with another minimum length would show a secret in one log that another hides.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// Replaces a secret in text.
pub const REDACTED: &str = "[redacted]";
/// Shorter values (`1`, `on`, `debug`) occur in text by chance; removing them would make every
/// message unreadable.
const MIN_SECRET_CHARS: usize = 8;
/// Schemes of an `Authorization` header: the credentials behind one are as secret as the whole value.
const SCHEMES: [&str; 3] = ["Bearer", "Basic", "Token"];

/// Keys that are recognized by their shape alone.
static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"\bsk-[A-Za-z0-9_-]{20,}",
        r"\bsk[-_][A-Za-z0-9]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{16,}",
        r"\bgithub_pat_[A-Za-z0-9_]{16,}",
        r"\bglpat-[A-Za-z0-9_-]{20,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b",
        r"\bAIza[0-9A-Za-z_-]{20,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"\bnpm_[A-Za-z0-9]{36}\b",
        r"\bpypi-AgE[A-Za-z0-9_-]{40,}",
        r"\bhf_[A-Za-z0-9]{16,}",
        r"\bgsk_[A-Za-z0-9]{16,}",
        r"\bxai-[A-Za-z0-9]{16,}",
        r"\btvly-[A-Za-z0-9-]{20,}",
        r"\b(?:sk|rk)_live_[A-Za-z0-9]{16,}",
    ];
    compiled(&shapes)
});

/// Further shapes in error messages of providers and servers. They match ordinary text and paths too,
/// so they are never applied to what an approver reads or to the content of files: a command could
/// hide its target behind the word `bearer`.
static ERROR_SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"\b(?:key|sk|pk)[-_][A-Za-z0-9_-]{9,}",
        // A bearer token has a digit in it or is longer than words are: "Bearer authentication" stays.
        r"\b[Bb]earer +(?:[A-Za-z._~+/-]{8,}[0-9]|[A-Za-z._~+/-]{0,7}[0-9][A-Za-z0-9._~+/-]{7})[A-Za-z0-9._~+/=-]*",
        r"\b[Bb]earer +[A-Za-z._~+/-]{20,}=*",
    ];
    compiled(&shapes)
});

/// The shapes are constants and a test compiles them: building fails for all of them or for none.
fn compiled(shapes: &[&str]) -> Option<Regex> {
    RegexBuilder::new(&shapes.join("|")).build().ok()
}

/// Removes known secrets, and everything with the shape of a key, from text.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a value that contains another is removed as a whole.
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
    /// Creates a redactor that knows these values. Values that are too short are ignored.
    pub fn new<V: AsRef<str>>(values: impl IntoIterator<Item = V>) -> Self {
        let mut known: Vec<String> = Vec::new();
        for value in values {
            let value = value.as_ref().trim();
            known.extend(credentials(value).map(str::to_owned));
            known.push(value.to_owned());
        }
        known.retain(|value| value.chars().nth(MIN_SECRET_CHARS - 1).is_some());
        known.sort_by(|a, b| Reverse(a.len()).cmp(&Reverse(b.len())).then(a.cmp(b)));
        known.dedup();
        Self { values: known }
    }

    /// Returns the text without known values and without anything that has the shape of a key.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        // Known values first: a shape may match the head of one, and the rest would then be shown.
        without_shapes(self.redact_known(text), &SHAPES)
    }

    /// Returns an error message of a provider or server without known values, without anything that
    /// has the shape of a key, and without bearer tokens.
    pub fn redact_error(&self, text: &str) -> String {
        without_shapes(self.redact(text), &ERROR_SHAPES).into_owned()
    }

    /// Returns the text without known values. Text with the shape of a key stays: use this where
    /// changing what a model wrote does harm.
    pub fn redact_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        for value in &self.values {
            if redacted.contains(value.as_str()) {
                redacted = Cow::Owned(redacted.replace(value.as_str(), REDACTED));
            }
        }
        redacted
    }

    /// Returns the JSON value with every key and every string redacted.
    ///
    /// Redact before serializing: a shape that spans lines could swallow the end of a document.
    pub fn redact_json(&self, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(self.redact(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.redact_json(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, field)| (self.redact(name).into_owned(), self.redact_json(field)))
                .collect(),
        }
    }

    /// Returns whether the redactor knows no value.
    pub fn knows_none(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns how many bytes at the end of the text may be the beginning of a known value. A stream
    /// holds them back until more text arrives.
    pub fn unfinished_bytes(&self, text: &str) -> usize {
        let begun = |value: &String| {
            let ends = value.char_indices().map(|(end, _)| end).skip(1);
            ends.filter(|end| text.ends_with(&value[..*end])).max()
        };
        self.values.iter().filter_map(begun).max().unwrap_or(0)
    }
}

/// Returns the text without anything that matches the shapes.
fn without_shapes<'a>(text: Cow<'a, str>, shapes: &Option<Regex>) -> Cow<'a, str> {
    // Showing nothing is better than showing a secret.
    let Some(shapes) = shapes else {
        return Cow::Borrowed(REDACTED);
    };
    match shapes.replace_all(&text, REDACTED) {
        Cow::Borrowed(_) => text,
        Cow::Owned(redacted) => Cow::Owned(redacted),
    }
}

/// Returns the credentials of an `Authorization` value.
fn credentials(value: &str) -> Option<&str> {
    let (scheme, rest) = value.split_once(' ')?;
    let known = SCHEMES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(scheme));
    known.then(|| rest.trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(values: &[&str], text: &str, expected: &str) {
        let redactor = Redactor::new(values);
        assert_eq!(redactor.redact(text), expected);
        let shown = format!("{redactor:?}");
        assert!(!values.iter().any(|value| shown.contains(value)), "{shown}");
    }

    #[test]
    fn known_values_are_removed_and_short_ones_stay() {
        check(&["hunter22"], "key hunter22!", "key [redacted]!");
        check(&["achtacht"], "eight: achtacht", "eight: [redacted]");
        check(
            &["Sortie"],
            "a header X-Title: Sortie",
            "a header X-Title: Sortie",
        );
        check(&["1"], "exit 1", "exit 1");
        check(&[], "plain text, 中文", "plain text, 中文");
        check(
            &["hunter22", "hunter22-long"],
            "hunter22-long",
            "[redacted]",
        );
        check(
            &["Bearer hunter22"],
            "Bearer hunter22, hunter22",
            "[redacted], [redacted]",
        );
        check(
            &["correct horse battery"],
            "the battery is correct",
            "the battery is correct",
        );
    }

    #[test]
    fn keys_are_recognized_by_their_shape() {
        for (text, expected) in [
            (
                "OPENAI_API_KEY=sk-proj-a1B2a1B2a1B2a1B2a1B2",
                "OPENAI_API_KEY=[redacted]",
            ),
            ("sk-ant-api03-abcdefghijklmnop", "[redacted]"),
            ("的 sk-0123456789abcdef 的", "的 [redacted] 的"),
            ("ghp_0123456789abcdef0123456789abcdef0123", "[redacted]"),
            ("AKIAIOSFODNN7EXAMPLE!", "[redacted]!"),
            ("AIzaSyA0123456789012345678901234567890", "[redacted]"),
            ("xoxb-1234567890-abc", "[redacted]"),
            (
                "gsk_0123456789abcdef0 and xai-0123456789abcdef",
                "[redacted] and [redacted]",
            ),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb",
                "a\n[redacted]\nb",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\ntruncated in the middle",
                "[redacted]",
            ),
        ] {
            check(&[], text, expected);
        }
        for text in [
            "task-sk-12 and risk-free",
            "a task-manager-for-busy-people",
            "sk-short",
            "Bearer authentication is required",
            "the bearer of 12 letters",
        ] {
            check(&[], text, text);
        }
    }

    #[test]
    fn a_shape_that_matches_a_part_of_a_known_value_leaves_nothing_of_it() {
        let long = "sk-abcdefghijklmnopqrstuv.wxyz0123456789";
        check(&[long], long, "[redacted]");
        let pair = "3f2a9c1e77aa4b5c:9d8e7f6a5b4c3d2e";
        assert_eq!(
            Redactor::new([pair]).redact_error(&format!("got Bearer {pair}")),
            "got Bearer [redacted]"
        );
    }

    #[test]
    fn bearer_tokens_are_removed_from_errors_only() {
        let redactor = Redactor::default();
        for (text, expected) in [
            (
                "Authorization: Bearer abcdefgh12",
                "Authorization: [redacted]",
            ),
            ("bearer a1b2c3d4e5==", "[redacted]"),
            ("bad key-0123456789abcdef", "bad [redacted]"),
            (
                "Bearer authentication is required",
                "Bearer authentication is required",
            ),
        ] {
            assert_eq!(redactor.redact_error(text), expected);
        }
        // What an approver reads: a command must not hide a path behind the word.
        let command = "rm -rf bearer x1/../../../home/me/keep";
        assert_eq!(redactor.redact(command), command);
    }

    #[test]
    fn text_of_a_model_loses_known_values_only() {
        let redactor = Redactor::new(["hunter22"]);
        let text = "sk-ant-api03-abcdefghijklmnop hunter22";
        let expected = "sk-ant-api03-abcdefghijklmnop [redacted]";
        assert_eq!(redactor.redact_known(text), expected);
    }

    #[test]
    fn json_is_redacted_in_depth() {
        let redactor = Redactor::new(["hunter22-very-secret"]);
        let value = json!({"a": ["x hunter22-very-secret"], "hunter22-very-secret": 1});
        assert_eq!(
            redactor.redact_json(&value),
            json!({"a": ["x [redacted]"], "[redacted]": 1})
        );
    }

    #[test]
    fn a_stream_holds_back_the_beginning_of_a_value() {
        let redactor = Redactor::new(["secret-key", "钥匙钥匙钥匙钥匙"]);
        for (text, bytes) in [
            ("it is sec", 3),
            ("it is secret-ke", 9),
            ("it was a", 0),
            ("its", 1),
            ("钥匙", 6),
        ] {
            assert_eq!(redactor.unfinished_bytes(text), bytes, "{text}");
        }
    }
}
