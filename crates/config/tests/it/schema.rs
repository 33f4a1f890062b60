//! Tests of the JSON schema as other programs read it.

use serde_json::Value;
use sortie_config::{Config, schema};

#[test]
fn the_schema_is_checked_in() {
    let text = serde_json::to_string_pretty(&sorted(schema())).unwrap();
    insta::assert_snapshot!("schema", text);
}

#[test]
fn the_schema_judges_as_the_loader_does() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let check = |text: &str, expected: bool| {
        let value: toml::Value = toml::from_str(text).unwrap();
        let value = serde_json::to_value(value).unwrap();
        assert_eq!(validator.is_valid(&value), expected, "{text}");
        let loaded = crate::support::Case::new().user(text).load();
        assert_eq!(loaded.is_ok(), expected, "{text}");
    };
    check("", true);
    check("lang = 'zh'", true);
    check("lang = 'xx'", false);
    check("temperature = 3", false);
    check("[subagents]\nmax_concurrent = 0", false);
    check("[providers.x]\nwire = 'chat'\nheaders = { a = 'b' }", true);
    check("[providers.x]\nwire = 'telegraph'", false);
    check("[providers.x]\napi_key_env = 'sk-1'", false);
    check("[models.'a/b']\nprice = { input = 1.5 }", true);
    check("[models.'a/b']\nprice = { input = -1 }", false);
    check("[agents.x]\ntools = { deny = ['exec'] }", true);
    check("[agents.x]\ntools = { deny = 'exec' }", false);

    // TOML has no null, so unset keys are absent.
    let defaults = toml::Value::try_from(Config::default()).unwrap();
    let defaults = serde_json::to_value(defaults).unwrap();
    assert!(validator.is_valid(&defaults));
}

/// Sorts objects: whether they keep their order depends on the features of the build.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            let fields = fields.into_iter();
            Value::Object(fields.map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
