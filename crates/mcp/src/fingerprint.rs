//! Fingerprint of a tool: a hash over everything in its announcement that can influence a model.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sortie_base::truncate::truncate_in_place;
use sortie_core::id::hex;

/// The SHA-256 of a tool's announcement: name, title, description, input schema and hints.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Returns the fingerprint of an announcement.
    pub(crate) fn of(tool: &rmcp::model::Tool) -> Self {
        let announced = json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": *tool.input_schema,
            "annotations": annotations(tool),
        });
        let mut text = String::new();
        write_canonical(&announced, &mut text);
        Self(hex(&Sha256::digest(text.as_bytes())))
    }

    /// Returns the fingerprint as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Limit of an announcement that is stored for people: a description and a schema of usual size.
const MAX_TEXT_CHARS: usize = 8_000;

/// Returns everything that the fingerprint covers, for people, exactly as the server wrote it.
pub(crate) fn announcement(tool: &rmcp::model::Tool) -> String {
    let mut text = String::new();
    if let Some(title) = &tool.title {
        text.push_str(&format!("title: {title}\n"));
    }
    let description = tool.description.as_deref().unwrap_or_default();
    text.push_str(&format!("{description}\n"));
    let schema = Value::Object((*tool.input_schema).clone());
    text.push_str(&format!("schema: {schema:#}\n"));
    let annotations = annotations(tool);
    if !annotations.is_null() {
        text.push_str(&format!("annotations: {annotations}\n"));
    }
    if truncate_in_place(&mut text, MAX_TEXT_CHARS) {
        text.push('\n');
    }
    text
}

fn annotations(tool: &rmcp::model::Tool) -> Value {
    serde_json::to_value(&tool.annotations).unwrap_or(Value::Null)
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes JSON with sorted keys and no spaces.
fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (index, (name, field)) in fields.into_iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_canonical(field, text);
            }
            text.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(tool: &str) -> Fingerprint {
        Fingerprint::of(&serde_json::from_str(tool).unwrap())
    }

    #[test]
    fn the_fingerprint_covers_everything_a_model_reads() {
        let known = fingerprint(
            r#"{"name": "a", "description": "b", "inputSchema": {"x": 1, "y": {"p": [1], "q": 2}}}"#,
        );
        for (tool, same) in [
            (
                r#"{"inputSchema": {"y": {"q": 2, "p": [1]}, "x": 1}, "description": "b", "name": "a"}"#,
                true,
            ),
            (
                r#"{"name": "a", "description": "b", "inputSchema": {"x": 1, "y": {"p": [1], "q": 2}}, "_meta": {"n": 1}}"#,
                true,
            ),
            (
                r#"{"name": "a", "description": "c", "inputSchema": {"x": 1, "y": {"p": [1], "q": 2}}}"#,
                false,
            ),
            (
                r#"{"name": "a", "description": "b", "inputSchema": {"x": 1, "y": {"p": [2], "q": 2}}}"#,
                false,
            ),
            (
                r#"{"name": "a", "title": "t", "description": "b", "inputSchema": {"x": 1, "y": {"p": [1], "q": 2}}}"#,
                false,
            ),
            (
                r#"{"name": "a", "description": "b", "inputSchema": {"x": 1, "y": {"p": [1], "q": 2}}, "annotations": {"readOnlyHint": true}}"#,
                false,
            ),
        ] {
            assert_eq!(fingerprint(tool) == known, same, "{tool}");
        }
        assert_eq!(known.as_str().len(), 64);
    }
}
