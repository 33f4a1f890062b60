//! Checks a result against its JSON schema.

use serde_json::Value;
use sortie_core::schema::SchemaBounds;

/// Schema errors that a model reads at once.
const SHOWN_PROBLEMS: usize = 5;
/// Characters of one schema error.
const PROBLEM_CHARS: usize = 300;

/// Returns the result as valid JSON without a code fence, or what is wrong with it.
pub(crate) fn fit(schema: &Value, text: &str) -> Result<String, String> {
    let bare = without_fence(text);
    let value: Value =
        serde_json::from_str(bare).map_err(|error| format!("it is not JSON: {error}"))?;
    let unusable = |error: String| format!("the schema is invalid: {error}");
    SchemaBounds::of(schema)
        .map_err(unusable)?
        .check_depth(&value)?;
    let validator =
        jsonschema::validator_for(schema).map_err(|error| unusable(error.to_string()))?;
    let problems: Vec<String> = validator
        .iter_errors(&value)
        .take(SHOWN_PROBLEMS)
        .map(|error| {
            let text = format!("{}: {error}", error.instance_path());
            sortie_text::first_chars(&text, PROBLEM_CHARS).to_owned()
        })
        .collect();
    if problems.is_empty() {
        Ok(bare.to_owned())
    } else {
        Err(problems.join("; "))
    }
}

/// Removes the code fence that models like to put around JSON.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inside = text
        .strip_prefix("```json")
        .or_else(|| text.strip_prefix("```"))
        .and_then(|rest| rest.strip_suffix("```"));
    inside.map_or(text, str::trim)
}
