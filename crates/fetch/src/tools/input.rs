//! Turning a model's JSON into what a tool means by it.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sortie_core::ToolFailure;

/// The arguments as the tool's own type.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolFailure> {
    serde_json::from_value(arguments).map_err(|error| {
        ToolFailure::new(format!(
            "The arguments do not fit this tool: {error}. Correct them and call it again."
        ))
    })
}

/// Reads a whole number that is not negative; models write `10.0` for `10`, and schemas agree.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if !(number >= 0.0 && number.is_finite()) {
        return Err(D::Error::custom(format!(
            "{number} is not a number from 0 upwards"
        )));
    }
    // A float that large saturates, which every bound then cuts.
    Ok(Some(number.ceil() as usize))
}
