//! The model of an agent file.

use sortie_core::agent::ModelChoice;

use super::Known;
use crate::Severity;
use crate::fields::Fields;

/// Names for the parent's model.
const INHERIT: [&str; 3] = ["inherit", "default", "parent"];
/// Names for a small and fast model.
const SMALL: [&str; 4] = ["small", "fast", "haiku", "flash"];
/// Names for model sizes of one vendor, which have no meaning for another vendor.
const SIZES: [&str; 5] = ["sonnet", "opus", "fable", "pro", "auto"];
/// Prefixes of files that simulate a model.
const PLAYED: [&str; 2] = ["script:", "replay:"];
const MAX_MODEL_CHARS: usize = 200;

/// Reads the model. An untrusted file can only use a model that the operator has configured.
pub(super) fn choice(fields: &mut Fields, known: &Known<'_>, trusted: bool) -> ModelChoice {
    let Some(name) = fields.text(&["model"]).filter(|name| !name.is_empty()) else {
        return ModelChoice::Inherit;
    };
    let lower = name.to_lowercase();
    if INHERIT.contains(&lower.as_str()) {
        return ModelChoice::Inherit;
    }
    if SMALL.contains(&lower.as_str()) {
        return ModelChoice::Small;
    }
    if lower == "plan" {
        return ModelChoice::Plan;
    }
    let mut replaced = |why: &str| {
        let shown = crate::fields::shown(&name.as_str().into());
        let text = format!("the model {shown} {why}; the parent's model is used");
        fields.problem(Severity::Warning, "model", text);
        ModelChoice::Inherit
    };
    if name.chars().count() > MAX_MODEL_CHARS || name.chars().any(char::is_whitespace) {
        return replaced("is not the name of a model");
    }
    match configured(&name, known) {
        Some(found) if trusted || (known.is_available)(&found) => return ModelChoice::Named(found),
        Some(_) => {
            return replaced(
                "was not made available by the operator, and the folder is not trusted",
            );
        }
        None => {}
    }
    if SIZES.contains(&lower.as_str()) {
        return replaced("is a size name of one vendor");
    }
    if !trusted {
        return replaced("is not configured, and the folder is not trusted");
    }
    let shown = crate::fields::shown(&name.as_str().into());
    let text = format!("the model {shown} is not configured; runs with it will fail");
    fields.problem(Severity::Warning, "model", text);
    ModelChoice::Named(name)
}

/// Returns the model as configured; qwen writes `vendor:model`. Files that simulate a model are excluded.
fn configured(name: &str, known: &Known<'_>) -> Option<String> {
    let lower = name.to_lowercase();
    if PLAYED.iter().any(|prefix| lower.starts_with(prefix)) {
        return None;
    }
    if (known.is_model)(name) {
        return Some(name.to_owned());
    }
    let slashed = name.replacen(':', "/", 1);
    (!name.contains('/') && slashed != name && (known.is_model)(&slashed)).then_some(slashed)
}
