//! Reads the keys of front matter one by one. Invalid values are reported and are not fatal by themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sortie_base::truncate::truncate;
use sortie_text::one_line;

use crate::front_matter::Parsed;
use crate::{Problem, Severity};

/// Limit of an invalid value in a message.
const SHOWN_CHARS: usize = 60;

/// Keys that were not read yet, and problems of those that were.
#[derive(Debug)]
pub(crate) struct Fields {
    file: PathBuf,
    keys: BTreeMap<String, Value>,
    lines: BTreeMap<String, usize>,
    /// Problems of the file.
    pub(crate) problems: Vec<Problem>,
}

/// A key as it was written, and its value.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) value: Value,
}

impl Fields {
    /// The keys of a file.
    pub(crate) fn new(file: &Path, parsed: Parsed) -> Self {
        let mut fields = Self {
            file: file.to_owned(),
            keys: parsed.keys,
            lines: parsed.lines,
            problems: Vec::new(),
        };
        if let Some(line) = parsed.mended {
            fields.problems.push(
                Problem::new(
                    Severity::Note,
                    file,
                    "this is not valid YAML and was read as plain text; put the value in quotes",
                )
                .at(Some(line)),
            );
        }
        fields
    }

    /// Takes a key by any of its names, each in camelCase, kebab-case or snake_case.
    pub(crate) fn take(&mut self, names: &[&str]) -> Option<Field> {
        let wanted: Vec<String> = names.iter().map(|name| plain(name)).collect();
        let mut found: Vec<String> = self
            .keys
            .keys()
            .filter(|key| wanted.contains(&plain(key)))
            .cloned()
            .collect();
        // If a system has used several names, the first one takes precedence.
        found.sort_by_key(|key| wanted.iter().position(|name| *name == plain(key)));
        let key = found.first()?.clone();
        for other in &found[1..] {
            self.keys.remove(other);
            let text =
                format!("`{key}` and `{other}` are two spellings of one key; keep one of them");
            self.problem(Severity::Refusal, other, text);
        }
        let value = self.keys.remove(&key)?;
        Some(Field { key, value })
    }

    /// Takes text; a number or a boolean is read as its spelling.
    pub(crate) fn text(&mut self, names: &[&str]) -> Option<String> {
        let field = self.take(names)?;
        if field.value.is_null() {
            return None;
        }
        let text = scalar(&field.value);
        if text.is_none() {
            self.wrong(&field, "text");
        }
        text
    }

    /// Takes a boolean, in any of the spellings of YAML 1.1.
    pub(crate) fn flag(&mut self, names: &[&str]) -> Option<bool> {
        let field = self.take(names)?;
        let flag = match scalar(&field.value)?.to_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        };
        if flag.is_none() {
            self.wrong(&field, "true or false");
        }
        flag
    }

    /// Takes a restriction: it applies unless it is missing or clearly disabled.
    pub(crate) fn restriction(&mut self, names: &[&str]) -> bool {
        let wanted: Vec<String> = names.iter().map(|name| plain(name)).collect();
        let is_there = self.keys.keys().any(|key| wanted.contains(&plain(key)));
        self.flag(names).unwrap_or(is_there)
    }

    /// Takes a whole number from 1 to `max`; a larger one counts as `max`.
    pub(crate) fn whole(&mut self, names: &[&str], max: u64) -> Option<u64> {
        let field = self.take(names)?;
        let number = whole(&field.value).filter(|number| *number > 0);
        if number.is_none() {
            self.wrong(&field, "a whole number from 1");
        }
        number.map(|number| number.min(max))
    }

    /// Takes a number from 0 to `max`.
    pub(crate) fn number(&mut self, names: &[&str], max: f64) -> Option<f64> {
        let field = self.take(names)?;
        let number = scalar(&field.value).and_then(|text| text.parse().ok());
        let number = number.filter(|number: &f64| (0.0..=max).contains(number));
        if number.is_none() {
            self.wrong(&field, &format!("a number from 0 to {max}"));
        }
        number
    }

    /// Takes a list of words: a YAML list, or text with commas.
    pub(crate) fn list(&mut self, names: &[&str]) -> Option<Vec<String>> {
        let field = self.take(names)?;
        let list = words(&field.value);
        if list.is_none() {
            self.wrong(&field, "a list of names");
        }
        list
    }

    /// Returns the remaining keys, which are unknown.
    pub(crate) fn unknown(&self) -> Vec<String> {
        self.keys.keys().cloned().collect()
    }

    /// Reports something about a key.
    pub(crate) fn problem(&mut self, severity: Severity, key: &str, text: impl Into<String>) {
        let line = self.lines.get(key).copied();
        self.problems
            .push(Problem::new(severity, &self.file, text).at(line));
    }

    /// Reports an invalid value, which is omitted.
    pub(crate) fn wrong(&mut self, field: &Field, expected: &str) {
        let text = format!(
            "`{}` must be {expected}, not {}; it is left out",
            field.key,
            shown(&field.value)
        );
        self.problem(Severity::Warning, &field.key, text);
    }
}

/// Returns the value as one short line.
pub(crate) fn shown(value: &Value) -> String {
    truncate(&one_line(&value.to_string()), SHOWN_CHARS)
}

/// Returns the text of a value that is not a collection.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns a whole number, also one written as text or as `10.0`.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    let text = scalar(value)?;
    text.strip_suffix(".0").unwrap_or(&text).parse().ok()
}

/// Returns the items of a list or of text with commas; commas in parentheses do not separate.
pub(crate) fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(items) => {
            let texts: Option<Vec<String>> = items.iter().map(scalar).collect();
            Some(texts?.iter().flat_map(|text| split_commas(text)).collect())
        }
        Value::Null => Some(Vec::new()),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            scalar(value).map(|text| split_commas(&text))
        }
        Value::Object(_) => None,
    }
}

fn split_commas(text: &str) -> Vec<String> {
    let mut depth = 0_u32;
    let mut words = vec![String::new()];
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match words.last_mut() {
            Some(word) if character != ',' || depth > 0 => word.push(character),
            Some(_) | None => words.push(String::new()),
        }
    }
    let words = words.iter().map(|word| word.trim().to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

/// Normalizes a key: `maxTurns`, `max-turns` and `max_turns` are the same.
fn plain(key: &str) -> String {
    key.chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_in_every_form() {
        let check = |value: Value, expected: Option<&[&str]>| {
            let found = words(&value);
            let found: Option<Vec<&str>> = found
                .as_ref()
                .map(|words| words.iter().map(String::as_str).collect());
            assert_eq!(found.as_deref(), expected, "{value}");
        };
        check(json!("Read, Grep"), Some(&["Read", "Grep"]));
        check(json!(["Read", "Grep"]), Some(&["Read", "Grep"]));
        check(
            json!("Agent(a, b), Bash(git log, git diff)"),
            Some(&["Agent(a, b)", "Bash(git log, git diff)"]),
        );
        check(
            json!("Bash(f(x), y), Read"),
            Some(&["Bash(f(x), y)", "Read"]),
        );
        check(json!("Bash(git, Read"), Some(&["Bash(git, Read"]));
        check(json!(" , "), Some(&[]));
        check(json!(null), Some(&[]));
        check(json!([]), Some(&[]));
        check(json!([["a"]]), None);
        check(json!({"a": true}), None);
    }

    #[test]
    fn one_key_in_many_styles_and_never_twice() {
        let file = Path::new("a.md");
        let parse = |yaml: &str| Fields::new(file, crate::front_matter::parse(yaml, 2).unwrap());
        for yaml in [
            "maxTurns: 3",
            "max_turns: 3",
            "max-turns: '3'",
            "MaxTurns: 3.0",
        ] {
            assert_eq!(parse(yaml).whole(&["maxTurns"], 9), Some(3), "{yaml}");
        }
        let mut fields = parse("disallowedTools: Bash\ndisallowed_tools: Read");
        assert!(fields.list(&["disallowedTools"]).is_some());
        let problem = fields.problems.pop().unwrap();
        assert_eq!(
            (problem.severity, problem.line),
            (Severity::Refusal, Some(3)),
            "{problem}"
        );
    }
}
