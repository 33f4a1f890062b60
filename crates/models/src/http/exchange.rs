//! One request and its response over HTTP, with a limit on every wait and every size.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, Request, Response, Url};
use serde_json::Value;
use sortie_base::redact::Redactor;
use sortie_base::secret::Secret;
use sortie_base::truncate::truncate;
use sortie_core::message::Arguments;
use sortie_core::ports::model::{AnswerPart, DeltaSink, ModelAnswer, ModelError};
use sortie_wire::{Decoder, Encoded, Flow, Mode, RefusedReply, bounds};
use tokio::time::Instant;

use super::{Failure, HttpModel};
use crate::governor::RateHint;
use crate::tool_mode::unsupported;
use crate::warm::Lead;

/// The maximum length of a failure's cause in an error.
const SHOWN_CAUSE_CHARS: usize = 300;
/// The longest time between the first and the last byte of a response; a server that trickles for
/// longer counts as silent.
const LONGEST_ANSWER: Duration = Duration::from_secs(30 * 60);
/// The same for servers on this machine, which may be slow.
const LONGEST_LOCAL_ANSWER: Duration = Duration::from_secs(2 * 60 * 60);
/// How long to wait for the end of the stream after a complete response.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(20);

/// A request that can be sent repeatedly.
pub(super) struct Exchange<'a> {
    model: &'a HttpModel,
    mode: Mode,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        model: &'a HttpModel,
        mode: Mode,
        encoded: Encoded,
    ) -> Result<Self, ModelError> {
        let provider = &model.provider;
        let wrong = |what: &str| {
            ModelError::fatal(format!(
                "the {what} of {} in the configuration cannot be sent",
                provider.name
            ))
        };
        let mut url = Url::parse(&format!("{}{}", provider.base_url, encoded.path))
            .map_err(|_| wrong("base URL"))?;
        if !provider.query.is_empty() {
            let query = provider.query.iter();
            let query = query.map(|(name, value)| (name, value.expose()));
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &provider.key {
            let value = Secret::new(format!("{}{}", provider.key_prefix, key.expose()));
            let name = header_name(&provider.key_header).ok_or_else(|| wrong("key header"))?;
            headers.insert(name, secret_value(&value).ok_or_else(|| wrong("key"))?);
        }
        for (name, value) in &provider.fixed_headers {
            let name = header_name(name).ok_or_else(|| wrong("name of a header"))?;
            let value = HeaderValue::from_str(value).map_err(|_| wrong("headers"))?;
            headers.insert(name, value);
        }
        for (name, value) in &provider.headers {
            let name = header_name(name).ok_or_else(|| wrong("name of a header"))?;
            headers.insert(name, secret_value(value).ok_or_else(|| wrong("headers"))?);
        }
        Ok(Self {
            model,
            mode,
            url,
            headers,
            body: encoded.body.into(),
        })
    }

    fn longest(&self) -> Duration {
        if self.model.facts.free {
            LONGEST_LOCAL_ANSWER
        } else {
            LONGEST_ANSWER
        }
    }

    pub(super) fn body_bytes(&self) -> u64 {
        self.body.len() as u64
    }

    /// Sends the request and reads the response. The cache lead is released with the first byte.
    pub(super) async fn run(
        &self,
        lead: &mut Option<Lead>,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, Failure> {
        let first_byte = self.model.provider.first_byte_timeout;
        let deadline = Instant::now() + first_byte;
        let sent = self.model.client.execute(self.request());
        let response = tokio::time::timeout_at(deadline, sent)
            .await
            .map_err(|_| self.silent(first_byte))?
            .map_err(|error| self.broken("could not be reached", error))?;
        let hint = RateHint::read(|name| response.headers().get(name)?.to_str().ok());
        self.model.gate.hint(&hint);
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let mut incoming = Incoming::new(self, response, Some(deadline));
        let first = incoming.chunk().await?;
        if let Some(lead) = lead.take() {
            lead.arrived();
        }
        // Some servers send one document although a stream was requested.
        let whole = self.mode == Mode::Whole || incoming.is_json();
        let answer = if whole {
            let body = incoming.all(first).await?;
            sortie_wire::decode_whole(&self.model.facts.dialect, &body, deltas)
        } else {
            incoming.pieces(first, deltas).await
        };
        Ok(self.without_secrets(answer?))
    }

    fn request(&self) -> Request {
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(self.body.clone().into());
        request
    }

    async fn refused(&self, response: Response) -> Failure {
        let status = response.status();
        if status.is_redirection() {
            return self.redirected(&response).into();
        }
        let headers = response.headers().clone();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let mut incoming = Incoming::new(self, response, None);
        let body = incoming.some(bounds::ERROR_BODY_BYTES).await;
        let refusal = RefusedReply {
            status: status.as_u16(),
            retry_after: text("retry-after"),
            date: text("date"),
            now: sortie_base::retry_after::wall_clock(),
            retry_after_ms: text("retry-after-ms"),
            body: &body,
        };
        let mut error = sortie_wire::classify(&self.model.facts.dialect, &refusal);
        // A provider may echo what it was sent.
        error.message = self.redact(&error.message);
        Failure {
            error,
            unsupported: unsupported(status.as_u16(), &body),
        }
    }

    fn redirected(&self, response: &Response) -> ModelError {
        let location = response.headers().get(LOCATION);
        let location = location.and_then(|location| location.to_str().ok());
        let target = location.and_then(|location| self.url.join(location).ok());
        let target = target.map_or_else(String::new, |url| format!(" to {}", host(&url)));
        ModelError::fatal(format!(
            "{} redirects{target} ({}); this is not followed, because the API key would be sent there: correct `base_url` under [providers.{}] in the configuration",
            host(&self.url),
            response.status().as_u16(),
            self.model.provider.name,
        ))
    }

    /// Removes the secrets of the provider, and text that looks like a key.
    fn redact(&self, text: &str) -> String {
        self.model.provider.redactor().redact_error(text)
    }

    /// Removes secrets that the provider echoes in its response: the journal stores the response.
    pub(super) fn without_secrets(&self, mut answer: ModelAnswer) -> ModelAnswer {
        let redactor = self.model.provider.redactor();
        answer.model = redactor.redact_known(&answer.model).into_owned();
        for part in &mut answer.parts {
            match part {
                AnswerPart::Text(text) => *text = redactor.redact_known(text).into_owned(),
                AnswerPart::Reasoning { text, native } => {
                    *text = redactor.redact_known(text).into_owned();
                    if let Some(native) = native {
                        redact_json(native, &redactor);
                    }
                }
                AnswerPart::Call {
                    provider_id,
                    name,
                    arguments,
                } => {
                    *provider_id = provider_id
                        .as_deref()
                        .map(|id| redactor.redact_known(id).into_owned());
                    *name = redactor.redact_known(name).into_owned();
                    match arguments {
                        Arguments::Json(value) => redact_json(value, &redactor),
                        Arguments::Malformed { raw, error } => {
                            *raw = redactor.redact_known(raw).into_owned();
                            *error = redactor.redact_known(error).into_owned();
                        }
                    }
                }
            }
        }
        answer
    }

    fn endless(&self, longest: Duration) -> ModelError {
        ModelError::retryable(format!(
            "{} did not finish its completion within {}",
            host(&self.url),
            seconds(longest)
        ))
    }

    fn silent(&self, waited: Duration) -> ModelError {
        ModelError::retryable(format!(
            "{} sent no data for {}",
            host(&self.url),
            seconds(waited)
        ))
    }

    fn broken(&self, what: &str, error: reqwest::Error) -> ModelError {
        // The URL may carry a key in its query.
        let error = error.without_url();
        let mut causes = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            causes = format!("{causes}: {cause}");
            source = cause.source();
        }
        let causes = self.redact(&causes);
        ModelError::retryable(format!(
            "{} {what}: {}",
            host(&self.url),
            truncate(&causes, SHOWN_CAUSE_CHARS)
        ))
    }
}

/// A response while it arrives.
struct Incoming<'a> {
    exchange: &'a Exchange<'a>,
    response: Response,
    /// The deadline for the first byte.
    deadline: Option<Instant>,
    /// When the last line arrived, or the response began: half a line does not count as progress.
    alive: Instant,
    /// The deadline for the whole response.
    end: Instant,
}

impl<'a> Incoming<'a> {
    fn new(exchange: &'a Exchange<'a>, response: Response, deadline: Option<Instant>) -> Self {
        let now = Instant::now();
        Self {
            end: now + exchange.longest(),
            alive: now,
            exchange,
            response,
            deadline,
        }
    }

    fn is_json(&self) -> bool {
        let kind = self.response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        kind.to_ascii_lowercase().starts_with("application/json")
    }

    /// Returns the next bytes, or `None` at the end.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, ModelError> {
        let provider = &self.exchange.model.provider;
        let (until, waited) = match self.deadline.take() {
            Some(deadline) => (deadline, provider.first_byte_timeout),
            None => (self.alive + provider.idle_timeout, provider.idle_timeout),
        };
        let chunk = tokio::time::timeout_at(until.min(self.end), self.response.chunk()).await;
        let chunk = chunk
            .map_err(|_| match Instant::now() < self.end {
                true => self.exchange.silent(waited),
                false => self.exchange.endless(self.exchange.longest()),
            })?
            .map_err(|error| {
                self.exchange.broken(
                    "closed the connection in the middle of the completion",
                    error,
                )
            })?;
        // A document has no lines, so every byte counts as progress.
        let counts = self.exchange.mode == Mode::Whole || self.is_json();
        if let Some(bytes) = &chunk
            && (counts || bytes.contains(&b'\n'))
        {
            self.alive = Instant::now();
        }
        Ok(chunk.map(|bytes| bytes.to_vec()))
    }

    async fn pieces(
        &mut self,
        first: Option<Vec<u8>>,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelAnswer, ModelError> {
        let mut decoder = Decoder::new(&self.exchange.model.facts.dialect);
        let mut next = first;
        while let Some(bytes) = next {
            if decoder.bytes(&bytes, deltas)? == Flow::Done {
                self.drain().await;
                break;
            }
            next = match self.chunk().await {
                Ok(next) => next,
                Err(mut error) => {
                    error.shown = decoder.shown();
                    return Err(error);
                }
            };
        }
        decoder.end()
    }

    /// Reads the end of a complete response, so that the connection can be reused.
    async fn drain(&mut self) {
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        // If the server keeps the stream open, the cost is a new connection, not the response.
        tokio::time::timeout(DRAIN_TIMEOUT, rest).await.ok();
    }

    async fn all(&mut self, first: Option<Vec<u8>>) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        let mut next = first;
        while let Some(bytes) = next {
            if body.len() + bytes.len() > bounds::STREAM_BYTES {
                return Err(ModelError::retryable(format!(
                    "{} sent more than {} bytes",
                    host(&self.exchange.url),
                    bounds::STREAM_BYTES
                )));
            }
            body.extend_from_slice(&bytes);
            next = self.chunk().await?;
        }
        Ok(body)
    }

    /// Reads what arrives, up to `most` bytes: part of an error message is better than none.
    async fn some(&mut self, most: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < most {
            match self.chunk().await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) | Err(_) => break,
            }
        }
        body.truncate(most);
        body
    }
}

/// Removes known secrets from the strings of a value. Text that only looks like a key stays: a
/// changed argument would change the tool call.
fn redact_json(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => *text = redactor.redact_known(text).into_owned(),
        Value::Array(items) => {
            for item in items {
                redact_json(item, redactor);
            }
        }
        Value::Object(fields) => {
            for field in fields.values_mut() {
                redact_json(field, redactor);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn header_name(name: &str) -> Option<HeaderName> {
    name.parse().ok()
}

fn secret_value(value: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns host and port, the only parts of a URL that an error may show.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        return format!("{} ms", duration.as_millis());
    }
    format!("{} s", duration.as_secs())
}
