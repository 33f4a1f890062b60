//! The operator's hooks, and their letters that were given up.

use axum::Json;
use axum::extract::State;
use sortie_core::hook::LetterState;
use sortie_core::ports::store::Unblock;
use sortie_protocol::{DeadLetter, DeliveryAction, Hook, LettersBody, LettersChanged};

use crate::app::Shared;
use crate::body::JsonBody;
use crate::guard::Caller;
use crate::problem::Problem;
use crate::routes::diagnosis::require_all;

/// The most letters of a list.
const MAX_LISTED: u32 = 1_000;

#[utoipa::path(get, path = "/api/hooks", tag = "hooks",
    responses((status = 200, body = Vec<Hook>)))]
/// Returns the hooks, with the numbers of their letters.
pub(crate) async fn list(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<Hook>>, Problem> {
    require_all(&caller)?;
    let counts = app.runtime.letter_counts().await?;
    let hooks = app.runtime.hooks().iter();
    Ok(Json(hooks.map(|hook| Hook::new(hook, &counts)).collect()))
}

#[utoipa::path(get, path = "/api/hooks/dead", tag = "hooks",
    responses((status = 200, body = Vec<DeadLetter>)))]
/// Returns the letters that were given up, the oldest first, at most 1,000.
pub(crate) async fn dead(
    State(Shared(app)): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<DeadLetter>>, Problem> {
    require_all(&caller)?;
    let letters = app.runtime.letters(LetterState::Dead, MAX_LISTED).await?;
    Ok(Json(letters.iter().map(DeadLetter::from).collect()))
}

#[utoipa::path(post, path = "/api/hooks/dead", tag = "hooks", request_body = LettersBody,
    responses((status = 200, body = LettersChanged)))]
/// Retries letters that were given up, or drops them: one, or all.
pub(crate) async fn unblock(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    JsonBody(body): JsonBody<LettersBody>,
) -> Result<Json<LettersChanged>, Problem> {
    require_all(&caller)?;
    let choice = match body.action {
        DeliveryAction::Retry => Unblock::Retry,
        DeliveryAction::Dismiss => Unblock::Dismiss,
    };
    let changed = app.runtime.unblock_letters(body.id, choice).await?;
    tracing::info!(changed, by = caller.person(), "changed dead letters");
    Ok(Json(LettersChanged { changed }))
}
