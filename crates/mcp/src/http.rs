//! Streamable HTTP through the network guard, with bounded bodies.
//!
//! The SDK's own client reads JSON bodies without a limit, so POST requests are sent from here.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sortie_fetch::{Guard, Url};
use sse_stream::{Sse, SseStream};

use crate::clean::clean_first;
use crate::process::MAX_MESSAGE_BYTES;

/// Limit of the body of an error response.
const MAX_PROBLEM_BYTES: usize = 64 * 1024;
/// How much of an error response is shown.
const MAX_PROBLEM_CHARS: usize = 300;

type Headers = HashMap<HeaderName, HeaderValue>;
type Problem = StreamableHttpError<reqwest::Error>;

/// A client whose requests all pass the guard.
#[derive(Clone, Debug)]
pub(crate) struct GuardedClient {
    guard: Guard,
}

impl GuardedClient {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard }
    }

    fn check(&self, uri: &str) -> Result<(), Problem> {
        let refused =
            |text: String| StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text));
        let url = Url::parse(uri).map_err(|_| refused("its `url` is not a URL".to_owned()))?;
        let checked = self
            .guard
            .check(&url)
            .map_err(|error| refused(error.to_string()))?;
        drop(checked);
        Ok(())
    }

    async fn send(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: Headers,
    ) -> Result<Response, Problem> {
        self.check(uri)?;
        let mut request = self
            .guard
            .client()
            .post(uri)
            .header(
                ACCEPT,
                format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}"),
            )
            .json(message);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        Ok(request.send().await?)
    }
}

impl StreamableHttpClient for GuardedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        // Credentials are ordinary headers here.
        _bearer: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Problem> {
        let response = self
            .send(&uri, &message, session.as_deref(), headers)
            .await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        if status.is_success() {
            return accept(response, matches!(message, JsonRpcMessage::Request(_))).await;
        }
        refuse(response).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        bearer: Option<String>,
        headers: Headers,
    ) -> Result<(), Problem> {
        self.check(&uri)?;
        self.guard
            .client()
            .delete_session(uri, session, bearer, headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        bearer: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Problem> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session,
            last_event,
            bearer,
            headers,
            MAX_MESSAGE_BYTES,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        bearer: Option<String>,
        headers: Headers,
        max_bytes: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Problem> {
        self.check(&uri)?;
        let client = self.guard.client();
        // The SDK limits each event.
        client
            .get_stream_with_max_sse_event_size(
                uri, session, last_event, bearer, headers, max_bytes,
            )
            .await
    }
}

/// Reads a response: a stream of events, or one message.
async fn accept(
    response: Response,
    is_request: bool,
) -> Result<StreamableHttpPostResponse, Problem> {
    let session = session_of(&response);
    if is_type(&response, EVENT_STREAM_MIME_TYPE) {
        let events = SseStream::from_bytes_stream(bounded(response, MAX_MESSAGE_BYTES));
        return Ok(StreamableHttpPostResponse::Sse(events.boxed(), session));
    }
    let is_json = is_type(&response, JSON_MIME_TYPE);
    let body = read(response, MAX_MESSAGE_BYTES).await?;
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(message) if is_json => Ok(StreamableHttpPostResponse::Json(message, session)),
        // A notification has no response.
        Ok(_) | Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
        Ok(_) | Err(_) => Err(unexpected("its response is not MCP", &body)),
    }
}

/// Reads an error response: an error of the protocol, or a message about the status.
async fn refuse(response: Response) -> Result<StreamableHttpPostResponse, Problem> {
    let status = response.status();
    let session = session_of(&response);
    if status.is_redirection() {
        let text = format!(
            "HTTP {status}: redirects are not followed; write the final address as its `url`"
        );
        return Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(
            text,
        )));
    }
    let is_json = is_type(&response, JSON_MIME_TYPE);
    let body = read(response, MAX_PROBLEM_BYTES).await.unwrap_or_default();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(unexpected(
            &format!("HTTP {status}: check the credentials in its `headers`"),
            &body,
        ));
    }
    match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(message @ JsonRpcMessage::Error(_)) if is_json => {
            Ok(StreamableHttpPostResponse::Json(message, session))
        }
        Ok(_) | Err(_) => Err(unexpected(&format!("HTTP {status}"), &body)),
    }
}

fn unexpected(what: &str, body: &[u8]) -> Problem {
    let shown = clean_first(&String::from_utf8_lossy(body), MAX_PROBLEM_CHARS);
    let text = if shown.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {shown}")
    };
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text))
}

fn session_of(response: &Response) -> Option<String> {
    let session = response.headers().get(HEADER_SESSION_ID)?;
    session.to_str().ok().map(str::to_owned)
}

fn is_type(response: &Response, media_type: &str) -> bool {
    let found = response.headers().get(CONTENT_TYPE);
    found.is_some_and(|found| found.as_bytes().starts_with(media_type.as_bytes()))
}

async fn read(response: Response, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    let mut chunks = Box::pin(bounded(response, max_bytes));
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk?);
    }
    Ok(body)
}

/// Returns the body as a stream that fails beyond the limit.
fn bounded(
    response: Response,
    max_bytes: usize,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let mut left = max_bytes;
    response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
        left = left.checked_sub(chunk.len()).ok_or_else(|| {
            io::Error::other(format!("its response is larger than {max_bytes} bytes"))
        })?;
        Ok(chunk)
    })
}
