//! The contract is checked in: a change of it is seen.

use std::path::Path;

/// `UPDATE_OPENAPI=1 cargo nextest run -p sortie-server document` writes it anew.
#[test]
fn the_document_is_the_one_that_is_checked_in() {
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
