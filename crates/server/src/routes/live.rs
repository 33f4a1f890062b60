//! Everything that happens, as server-sent events.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use sortie_protocol::Resume;
use utoipa::IntoParams;

use crate::app::Shared;
use crate::body::Asked;
use crate::guard::Caller;
use crate::hub::{Listener, Out, Wanted, Wish};
use crate::problem::Problem;
use crate::routes::events::last_event_id;
use crate::routes::sse::{self, Line};

/// What beside events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct With {
    /// What models say while they say it.
    text: Option<bool>,
}

/// Everything that happens and that the key may see: a snapshot first, then events as over the
/// WebSocket. Ids are `epoch-seq`; `Last-Event-ID` goes on where that was.
#[utoipa::path(get, path = "/api/events", tag = "live",
    params(With, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub(crate) async fn events(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Asked(with): Asked<With>,
) -> Result<Response, Problem> {
    let resume = last_event_id(&headers)
        .and_then(|id| id.rsplit_once('-'))
        .and_then(|(epoch, seq)| {
            Some(Resume {
                epoch: epoch.to_owned(),
                seq: seq.parse().ok()?,
            })
        });
    let mut listener = Listener::new(&app, caller.clone());
    listener.subscribe(Wish {
        id: "events".to_owned(),
        wanted: Wanted::All,
        text: with.text.unwrap_or_default(),
        resume,
    });
    let app_too = Arc::clone(&app);
    Ok(sse::answer(&app, caller, async move |lines| {
        loop {
            let out = listener.next().await.ok()?;
            if matches!(out, Out::Control(_)) {
                continue;
            }
            let id = out
                .seq()
                .map(|seq| format!("{}-{seq}", app_too.hub.epoch()));
            lines
                .send(Line::new(out.name(), id.as_deref(), out.bytes()))
                .await?;
        }
    }))
}
