//! The JSON schema of the configuration.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::Config;

/// Returns the JSON schema of `sortie.toml`, for editors and other programs.
pub fn schema() -> Value {
    generated(SchemaSettings::draft2020_12())
}

/// Returns the schema with every reference replaced by its definition.
pub(crate) fn inlined() -> Value {
    generated(SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true))
}

fn generated(settings: SchemaSettings) -> Value {
    let generator = settings.for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Config>().to_value();
    drop_null(&mut schema);
    schema
}

/// Removes `null` from the schema: TOML has no null, and an unset key is absent.
fn drop_null(value: &mut Value) {
    match value {
        Value::Object(object) => {
            drop_null_of(object);
            object.values_mut().for_each(drop_null);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn drop_null_of(schema: &mut Map<String, Value>) {
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                // The description of a field takes precedence over that of its type.
                schema.entry(key).or_insert(value);
            }
        }
    }
}
