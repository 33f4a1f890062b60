//! The document of the API. Made from the very routes that answer, so the two cannot differ.

use utoipa::OpenApi as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, ResponseBuilder};

use crate::routes;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Sortie",
        description = "Tasks, conversations, approvals and live events of a running Sortie. Every \
            request needs `Authorization: Bearer sortie_…`. A browser that logged in sends its cookie and, \
            in the header `Sortie-Page-Key`, the page key of the same login; one without the other is \
            refused. Whatever goes wrong is \
            `application/problem+json` and says what to do next.",
        license(name = "Apache-2.0 OR MIT"),
    ),
    components(schemas(
        sortie_protocol::Problem,
        sortie_protocol::ClientMessage,
        sortie_protocol::ServerMessage,
        sortie_protocol::LiveEvent,
    ))
)]
struct Document;

/// Returns the document without its routes.
pub(crate) fn outline() -> OpenApi {
    Document::openapi()
}

/// The document as JSON, the way it is checked in.
pub fn document() -> String {
    let (_, mut document) = routes::all().router.split_for_parts();
    complete(&mut document);
    // Maps with strings as keys always become JSON.
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// Names of functions are unique in their family only; generated clients need more.
fn name(operation: &mut Operation) {
    let family = operation.tags.iter().flatten().next();
    if let (Some(family), Some(id)) = (family, &operation.operation_id) {
        operation.operation_id = Some(format!("{family}_{id}"));
    }
}

/// Every operation can go wrong, and says so in the same shape.
fn complete(document: &mut OpenApi) {
    let problem = Content::new(Some(Ref::from_schema_name("Problem")));
    let response = ResponseBuilder::new()
        .description("What went wrong, and what to do next")
        .content("application/problem+json", problem)
        .build();
    for item in document.paths.paths.values_mut() {
        let operations = [
            &mut item.get,
            &mut item.post,
            &mut item.patch,
            &mut item.delete,
        ];
        for operation in operations.into_iter().flatten() {
            operation
                .responses
                .responses
                .insert("default".to_owned(), RefOr::T(response.clone()));
            name(operation);
        }
    }
}
