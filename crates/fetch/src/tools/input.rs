//! Parses the arguments of a tool call.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sortie_core::ports::tool::ToolFailure;

/// Parses arguments into the tool's own type.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolFailure> {
    serde_json::from_value(arguments).map_err(|error| {
        ToolFailure::new(format!(
            "The arguments do not fit this tool: {error}. Correct them and call it again."
        ))
    })
}

/// Reads a non-negative whole number; models write `10.0` for `10`, which JSON schemas accept.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if !(number >= 0.0 && number.is_finite()) {
        return Err(D::Error::custom(format!(
            "{number} is not a number of at least 0"
        )));
    }
    // A float that large saturates; every limit then lowers it.
    Ok(Some(number.ceil() as usize))
}
