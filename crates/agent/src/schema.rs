//! A result that has to fit a JSON schema.

use serde_json::Value;
use sortie_core::SchemaBounds;

/// How many misfits a model is told of at once.
const SHOWN_PROBLEMS: usize = 5;
/// How much of one misfit it is told.
const PROBLEM_CHARS: usize = 300;

/// The result as JSON that fits, without a fence around it; or what is wrong with it.
pub(crate) fn fit(schema: &Value, words: &str) -> Result<String, String> {
    let bare = without_fence(words);
    let value: Value =
        serde_json::from_str(bare).map_err(|error| format!("it is not JSON: {error}"))?;
    let unusable = |error: String| format!("the schema itself is not usable: {error}");
    SchemaBounds::of(schema).map_err(unusable)?.admit(&value)?;
    let validator =
        jsonschema::validator_for(schema).map_err(|error| unusable(error.to_string()))?;
    let problems: Vec<String> = validator
        .iter_errors(&value)
        .take(SHOWN_PROBLEMS)
        .map(|error| {
            let words = format!("{}: {error}", error.instance_path());
            sortie_text::first_chars(&words, PROBLEM_CHARS).to_owned()
        })
        .collect();
    if problems.is_empty() {
        Ok(bare.to_owned())
    } else {
        Err(problems.join("; "))
    }
}

/// Models like to put JSON into a fence; what is inside is what they mean.
fn without_fence(words: &str) -> &str {
    let words = words.trim();
    let inside = words
        .strip_prefix("```json")
        .or_else(|| words.strip_prefix("```"))
        .and_then(|rest| rest.strip_suffix("```"));
    inside.map_or(words, str::trim)
}
