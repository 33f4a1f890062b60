//! What a new run promises about its result: a schema, and checks by the host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use sortie_core::check::{Check, MAX_CHECK_CHARS, MAX_CHECKS};
use sortie_core::run::LABEL_CHARS;
use sortie_core::schema::SchemaBounds;
use sortie_core::words::Lang;
use sortie_text::{first_chars, one_line, t};

use crate::dispatch::hash_inside;
use crate::refusal::{Refusal, RefusalReason};

/// Refuses checks that are too many, too long or empty.
pub(super) fn checked_checks(lang: Lang, checks: Vec<Check>) -> Result<Vec<Check>, Refusal> {
    let is_long = |check: &Check| {
        let mut texts = check.texts().into_iter();
        // Only the operator's configuration adds hooks.
        matches!(check, Check::Hook(_))
            || texts.any(|text| text.trim().is_empty() || text.chars().count() > MAX_CHECK_CHARS)
    };
    if checks.len() > MAX_CHECKS || checks.iter().any(is_long) {
        let message = t!(
            lang,
            "spawn-bad-checks",
            count = MAX_CHECKS,
            max = MAX_CHECK_CHARS
        );
        return Err(Refusal::new(RefusalReason::InvalidChecks, message));
    }
    Ok(checks)
}

/// Returns the hashes of the files that must change, as they are now.
pub(super) fn watched(
    workspace: &Path,
    checks: &[Check],
    hidden: &[PathBuf],
) -> BTreeMap<String, Option<String>> {
    let files = checks.iter().filter_map(Check::watched);
    files
        .map(|file| (file.to_owned(), hash_inside(workspace, file, hidden)))
        .collect()
}

pub(super) fn checked_schema(
    lang: Lang,
    schema: Option<Value>,
) -> Result<Option<Arc<Value>>, Refusal> {
    let Some(schema) = schema else {
        return Ok(None);
    };
    // Measured first: a validator follows a schema by recursion.
    let checked = SchemaBounds::of(&schema).and_then(|_| {
        let compiled = jsonschema::validator_for(&schema);
        compiled.map(drop).map_err(|error| error.to_string())
    });
    match checked {
        Ok(()) => Ok(Some(Arc::new(schema))),
        Err(problem) => Err(Refusal::new(
            RefusalReason::InvalidSchema,
            t!(
                lang,
                "spawn-bad-schema",
                problem = one_line(first_chars(&problem, LABEL_CHARS))
            ),
        )),
    }
}
