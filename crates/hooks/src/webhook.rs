//! Sends letters to a web service: signed, through the network guard, without following redirects.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use reqwest::{Method, Request};
use serde_json::{Value, json};
use sortie_core::hook::Letter;
use sortie_core::time::Timestamp;
use sortie_fetch::{Allow, Guard, HostRule};
use url::Url;

use crate::{Signed, Signer};

/// A webhook that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum BadWebhook {
    #[error("its address is not a URL")]
    Url,
    #[error("its host cannot be used: {0}")]
    Host(String),
}

/// A web service, and the secret that signs what is sent to it.
#[derive(Debug)]
pub struct Webhook {
    url: Url,
    signer: Signer,
    guard: Guard,
    timeout: Duration,
}

impl Webhook {
    /// Creates a webhook. Its host may be a private one, because the operator named it; a redirect is
    /// not followed.
    pub fn new(url: &str, signer: Signer, timeout: Duration) -> Result<Self, BadWebhook> {
        let url: Url = url.parse().map_err(|_| BadWebhook::Url)?;
        let host = url.host_str().ok_or(BadWebhook::Url)?;
        let port = url.port_or_known_default().ok_or(BadWebhook::Url)?;
        let named = HostRule::exact(host.trim_start_matches('[').trim_end_matches(']'), port);
        let bad = |error: String| BadWebhook::Host(error);
        let allow = Allow {
            hosts: vec![named.map_err(|error| bad(error.to_string()))?],
            ..Allow::default()
        };
        let guard = Guard::new(allow).map_err(|error| bad(error.to_string()))?;
        guard.check(&url).map_err(|error| bad(error.to_string()))?;
        Ok(Self {
            url,
            signer,
            guard,
            timeout,
        })
    }

    /// Sends a letter; a status of 200 to 299 means that it was accepted.
    pub(crate) async fn send(&self, letter: &Letter, now: Timestamp) -> Result<(), String> {
        let url = self
            .guard
            .check(&self.url)
            .map_err(|error| error.to_string())?;
        let body = body_of(letter);
        let timestamp = now.0.div_euclid(1_000);
        let signature = self.signer.sign(Signed {
            id: &letter.key,
            timestamp,
            body: body.as_bytes(),
        });
        let mut request = Request::new(Method::POST, url.into_url());
        *request.timeout_mut() = Some(self.timeout);
        let headers = request.headers_mut();
        for (name, value) in [
            ("webhook-id", letter.key.clone()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signature),
        ] {
            let value = HeaderValue::from_str(&value).map_err(|error| error.to_string())?;
            headers.insert(name, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("sortie"));
        *request.body_mut() = Some(body.into());
        let sent = self.guard.client().execute(request).await;
        let status = sent.map_err(|error| failure(&error))?.status();
        match status.as_u16() {
            200..=299 => Ok(()),
            300..=399 => Err(format!("status {status}: redirects are not followed")),
            _ => Err(format!("status {status}")),
        }
    }
}

/// Returns the causes of a failure without the address, which may contain a secret.
fn failure(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut causes = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        causes.push(source.to_string());
        cause = source.source();
    }
    causes
        .pop()
        .unwrap_or_else(|| "the request failed".to_owned())
}

/// Returns the body in the form that Standard Webhooks recommends.
fn body_of(letter: &Letter) -> String {
    let data: Value = serde_json::from_str(&letter.body).unwrap_or(Value::Null);
    json!({
        "type": format!("sortie.{}", letter.kind),
        "timestamp": letter.at.to_rfc3339(),
        "data": data,
    })
    .to_string()
}
