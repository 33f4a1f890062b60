//! The configuration for display: every value and its origin.

use serde::Serialize;
use serde_json::Value;

use crate::key::quoted;
use crate::{KeyPath, Loaded, Origin};

/// A value and the layer that set it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownKey {
    pub key: KeyPath,
    /// The value; a secret is redacted.
    pub value: Value,
    /// The layer that set the value.
    pub origin: Origin,
}

impl ShownKey {
    /// Returns the value in TOML notation.
    pub fn text(&self) -> String {
        written(&self.value)
    }
}

/// Returns every value that is set, by key.
pub fn show(loaded: &Loaded) -> Vec<ShownKey> {
    // This cannot fail: secrets serialise as redacted, and all keys of the configuration are
    // strings.
    let config = serde_json::to_value(&loaded.config).unwrap_or_default();
    let mut shown = Vec::new();
    collect(&config, &KeyPath::root(), loaded, &mut shown);
    shown.sort_by(|one, other| one.key.cmp(&other.key));
    shown
}

fn collect(value: &Value, path: &KeyPath, loaded: &Loaded, shown: &mut Vec<ShownKey>) {
    if let Value::Object(fields) = value {
        for (name, value) in fields {
            collect(value, &path.join(name), loaded, shown);
        }
        return;
    }
    let origin = loaded.origins.get(path).cloned();
    shown.push(ShownKey {
        key: path.clone(),
        value: value.clone(),
        origin: origin.unwrap_or(Origin::Default),
    });
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(written).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}
