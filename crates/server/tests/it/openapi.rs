//! Tests that the checked-in OpenAPI document matches the routes, so that a change is visible.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// `UPDATE_OPENAPI=1 cargo nextest run -p sortie-server document` rewrites the document.
#[test]
fn checked_in_document_matches_the_routes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let document = sortie_server::document();
    #[expect(
        clippy::disallowed_methods,
        reason = "how a developer updates the file"
    )]
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == document,
        "crates/server/openapi.json is not what the routes say; look at the difference with \
         UPDATE_OPENAPI=1"
    );
}

#[test]
fn every_operation_has_a_unique_id_and_documents_problems() {
    let document: Value = serde_json::from_str(&sortie_server::document()).unwrap();
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{path}: {name} twice");
            let problem = &operation["responses"]["default"]["content"];
            assert!(problem.get("application/problem+json").is_some(), "{path}");
        }
    }
}
