//! The JSON schema of a tool's parameters, as models read it.

use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A schema without `"additionalProperties": false`.
///
/// Every request carries the schemas of all tools, and this key is 29 bytes in each. The runtime
/// checks arguments against the whole schema and names an unknown one to the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters<'a>(pub(crate) &'a Value);

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(None)?;
                for (key, value) in fields {
                    match key.as_str() {
                        "additionalProperties" if *value == Value::Bool(false) => {}
                        // Data of any form, not a schema.
                        "enum" | "const" | "default" | "examples" => {
                            map.serialize_entry(key, value)?;
                        }
                        // Schemas by names, which can be any word.
                        "properties" | "patternProperties" | "$defs" | "definitions" => {
                            map.serialize_entry(key, &Named(value))?;
                        }
                        _ => map.serialize_entry(key, &Self(value))?,
                    }
                }
                map.end()
            }
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Self(item))?;
                }
                list.end()
            }
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                other.serialize(serializer)
            }
        }
    }
}

/// Schemas by name.
struct Named<'a>(&'a Value);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => serializer.collect_map(
                fields
                    .iter()
                    .map(|(name, schema)| (name, Parameters(schema))),
            ),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)) => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_closing_keys_of_schemas_are_left_out() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "additionalProperties": false,
                "open": {"type": "object", "additionalProperties": {"type": "string"}},
                "closed": {"items": {"properties": {}, "additionalProperties": false}},
                "any": {"anyOf": [{"additionalProperties": false}, {"type": "null"}]},
                "data": {"const": {"additionalProperties": false}}
            }
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "additionalProperties": false,
                "open": {"type": "object", "additionalProperties": {"type": "string"}},
                "closed": {"items": {"properties": {}}},
                "any": {"anyOf": [{}, {"type": "null"}]},
                "data": {"const": {"additionalProperties": false}}
            }
        });
        let shown = serde_json::to_value(Parameters(&schema));
        assert_eq!(shown.expect("it is JSON"), expected);
    }
}
