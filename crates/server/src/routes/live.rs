//! Live events as server-sent events.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use sortie_protocol::Resume;
use utoipa::IntoParams;

use crate::app::Shared;
use crate::body::QueryParams;
use crate::guard::Caller;
use crate::hub::{NewSubscription, Outgoing, Subscriber, Topic};
use crate::problem::Problem;
use crate::routes::events::last_event_id;
use crate::routes::sse::{self, Line};

/// Selects what is streamed besides events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct With {
    /// Whether to stream the text of completions.
    text: Option<bool>,
}

#[utoipa::path(get, path = "/api/events", tag = "live",
    params(With, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
/// Streams the live events that the key may see: a snapshot first, then events as over the WebSocket.
/// Ids are `epoch-seq`; `Last-Event-ID` resumes.
pub(crate) async fn events(
    State(Shared(app)): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    QueryParams(with): QueryParams<With>,
) -> Result<Response, Problem> {
    let resume = last_event_id(&headers)
        .and_then(|id| id.rsplit_once('-'))
        .and_then(|(epoch, seq)| {
            Some(Resume {
                epoch: epoch.to_owned(),
                seq: seq.parse().ok()?,
            })
        });
    let mut listener = Subscriber::new(&app, caller.clone());
    listener.subscribe(NewSubscription {
        id: "events".to_owned(),
        topic: Topic::All,
        text: with.text.unwrap_or_default(),
        resume,
    });
    let app_too = Arc::clone(&app);
    Ok(sse::answer(&app, caller, async move |lines| {
        loop {
            let out = listener.next().await.ok()?;
            if matches!(out, Outgoing::Control(_)) {
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
