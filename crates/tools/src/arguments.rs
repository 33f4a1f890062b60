//! Parses the JSON arguments of a tool call into the types of the tool.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sortie_core::ports::tool::{ToolFailure, ToolSpec};

/// Builds the description of a tool for the model.
pub(crate) fn spec(name: &str, description: &str, parameters: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
    }
}

/// Parses the arguments into the type of the tool.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolFailure> {
    serde_json::from_value(arguments).map_err(|error| {
        ToolFailure::new(format!(
            "The arguments do not fit this tool: {error}. Correct them and call it again."
        ))
    })
}

/// Deserializes a non-negative integer. Models write `10.0` for `10`, which JSON Schema accepts as
/// an integer.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let rounded = number
        .as_f64()
        .filter(|float| *float >= 0.0 && float.is_finite());
    match (number.as_u64(), rounded) {
        (Some(whole), _) => Ok(Some(whole)),
        // A float that large saturates; the limit of the tool then applies.
        (None, Some(float)) => Ok(Some(float.ceil() as u64)),
        (None, None) => Err(D::Error::custom(format!(
            "{number} is not a number of at least 0"
        ))),
    }
}

/// Rejects text that is longer than the limit of the tool.
pub(crate) fn at_most(name: &str, text: &str, max_bytes: usize) -> Result<(), ToolFailure> {
    if text.len() <= max_bytes {
        return Ok(());
    }
    Err(ToolFailure::new(format!(
        "`{name}` has {} bytes; the limit is {max_bytes}. Shorten it or split the call.",
        text.len()
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample {
        #[serde(default, deserialize_with = "whole")]
        number: Option<u64>,
    }

    #[test]
    fn numbers() {
        let check = |value: Value, expected: Result<Option<u64>, ()>| {
            let parsed = parse::<Sample>(value.clone()).map(|sample| sample.number);
            assert_eq!(parsed.map_err(|_| ()), expected, "{value}");
        };
        check(json!({}), Ok(None));
        check(json!({"number": null}), Ok(None));
        check(json!({"number": 10}), Ok(Some(10)));
        check(json!({"number": 10.0}), Ok(Some(10)));
        check(json!({"number": 0.2}), Ok(Some(1)));
        check(json!({"number": 1e300}), Ok(Some(u64::MAX)));
        check(json!({"number": -1}), Err(()));
        check(json!({"number": "10"}), Err(()));
    }
}
