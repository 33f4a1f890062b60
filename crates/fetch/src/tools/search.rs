//! `web_search`: sends a query to the search provider that the operator has configured.

use std::fmt;
use std::time::Duration;

use crate::{Allow, BodyLimits, Guard, GuardError, HostRule, Response, Url};
use async_trait::async_trait;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_base::secret::Secret;
use sortie_core::ports::tool::{
    Recovery, Spelling, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply, ToolSpec, Touches,
};

use crate::tools::aside::Aside;
use crate::tools::failure::{retry_after, status_failure, unreachable};
use crate::tools::frame::frame;
use crate::tools::input::{parse, whole};
use crate::tools::provider::{PROVIDERS, Provider, QueryIn};
use crate::tools::results::{SearchResult, results};

/// Default number of results.
const DEFAULT_COUNT: usize = 8;
/// Limit of the query; providers accept less.
const MAX_QUERY_CHARS: usize = 400;
/// Limit of a provider's response.
const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;
/// Timeout of one search.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Settings of the search tool.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SearchSettings {
    /// The provider's name, one of [`PROVIDERS`]; empty for none.
    pub provider: String,
    /// The API key, if the provider requires one.
    pub key: Option<Secret>,
    /// Overrides the usual address. May be on this machine.
    pub base_url: Option<String>,
    /// Number of results if the model gives none.
    pub count: Option<usize>,
}

impl fmt::Debug for SearchSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An invalid address may contain a password.
        let clean = |base: &&String| !base.contains(['@', '?']);
        f.debug_struct("SearchSettings")
            .field("provider", &self.provider)
            .field("key", &self.key)
            .field("base_url", &self.base_url.as_ref().filter(clean))
            .field("count", &self.count)
            .finish()
    }
}

/// Invalid settings of `web_search`.
#[derive(Debug, thiserror::Error)]
pub enum BadSearch {
    /// The provider is unknown.
    #[error("there is no search provider {name:?}; use one of {known}")]
    Provider {
        /// The name in the settings.
        name: String,
        known: String,
    },
    /// The key is missing or invalid.
    #[error("the search provider {0} needs an API key; set it, or choose another provider")]
    Key(&'static str),
    /// The address is missing.
    #[error("the search provider {0} has no default address; set base_url")]
    NoBase(&'static str),
    /// The address is invalid.
    #[error(
        "base_url is not the address of a search provider; write it like http://localhost:8888"
    )]
    Base,
    /// The guard cannot start.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

#[derive(Debug)]
pub struct WebSearch {
    spec: ToolSpec,
    provider: &'static Provider,
    endpoint: Url,
    host: String,
    key: Option<HeaderValue>,
    count: usize,
    guard: Guard,
    aside: Aside,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    query: String,
    #[serde(default, deserialize_with = "whole")]
    count: Option<usize>,
}

impl WebSearch {
    /// Creates the tool, or returns `None` if no provider is configured. Its guard opens the host and
    /// port of the provider, also on a private network, and otherwise only the public internet.
    pub fn new(settings: &SearchSettings) -> Result<Option<Self>, BadSearch> {
        let name = settings.provider.trim();
        if name.is_empty() {
            return Ok(None);
        }
        let provider = Provider::find(name).ok_or_else(|| BadSearch::Provider {
            name: name.to_owned(),
            known: PROVIDERS.map(|provider| provider.name).join(", "),
        })?;
        let endpoint = endpoint(provider, settings.base_url.as_deref())?;
        let guard = guard(&endpoint)?;
        let checked = guard.check(&endpoint).map_err(|_| BadSearch::Base)?;
        Ok(Some(Self {
            spec: spec(provider),
            provider,
            host: checked.host().to_owned(),
            endpoint: checked.into_url(),
            key: key(provider, settings.key.as_ref())?,
            count: settings.count.unwrap_or(DEFAULT_COUNT),
            guard,
            aside: Aside::default(),
        }))
    }

    fn request(&self, query: &str, count: usize) -> Request {
        let mut url = self.endpoint.clone();
        let mut request = match self.provider.query_in {
            QueryIn::Query {
                query: name,
                count: count_name,
                fixed,
            } => {
                let mut pairs = url.query_pairs_mut();
                pairs.append_pair(name, query).extend_pairs(fixed);
                if let Some(count_name) = count_name {
                    pairs.append_pair(count_name, &count.to_string());
                }
                drop(pairs);
                Request::new(Method::GET, url)
            }
            QueryIn::Body {
                query: name,
                count: count_name,
            } => {
                let mut request = Request::new(Method::POST, url);
                let body = json!({name: query, count_name: count}).to_string();
                *request.body_mut() = Some(body.into());
                let kind = HeaderValue::from_static("application/json");
                request.headers_mut().insert(CONTENT_TYPE, kind);
                request
            }
        };
        let headers = request.headers_mut();
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/html;q=0.9"),
        );
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let (Some(header), Some(key)) = (self.provider.key, &self.key) {
            headers.insert(HeaderName::from_static(header.name), key.clone());
        }
        request
    }

    async fn search(
        &self,
        context: &ToolContext<'_>,
        query: &str,
        count: usize,
    ) -> Result<Vec<SearchResult>, ToolFailure> {
        let permits = |host: &str| {
            // The query and the key are for the configured provider only.
            if host != self.host {
                return Err(format!(
                    "Error: the search provider redirects to {host}, which is not followed. Continue without web_search and report that `base_url` of the provider must be corrected."
                ));
            }
            context.permits.host(host)
        };
        let request = self.request(query, count);
        let response = self.guard.execute(request, &permits).await;
        let response = response.map_err(|error| unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.refused(&response));
        }
        let limits = BodyLimits {
            max_bytes: MAX_BODY_BYTES,
            idle: MAX_TIME,
            total: MAX_TIME,
        };
        let body = response
            .whole(limits)
            .await
            .map_err(|error| unreachable(&error))?;
        let answers = self.provider.answers;
        let found = self.aside.run(move || results(answers, &body, count)).await;
        found.and_then(Result::ok).ok_or_else(|| {
            ToolFailure::new(format!(
                "Error: the response of {} contains no results; the provider may have blocked automated queries. Retry later, or continue without web_search.",
                self.provider.name
            ))
        })
    }

    fn refused(&self, response: &Response) -> ToolFailure {
        let name = self.provider.name;
        match response.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ToolFailure::new(format!(
                "Error: {name} rejected the API key or the request (status {}). Continue without web_search and report this.",
                response.status().as_u16()
            )),
            StatusCode::TOO_MANY_REQUESTS => {
                let wait =
                    retry_after(response).map_or("a while".to_owned(), |s| format!("{s} seconds"));
                ToolFailure::new(format!(
                    "Error: web_search is rate-limited by {name}; retry after {wait}, or continue without it."
                ))
            }
            _ => status_failure(response),
        }
    }
}

#[async_trait]
impl Tool for WebSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn touches(&self) -> Touches {
        Touches::Network
    }

    fn recovery(&self) -> Recovery<'_> {
        Recovery::Repeatable
    }

    fn spellings(&self) -> &[Spelling] {
        &[Spelling {
            name: "WebSearch",
            renames: &[],
        }]
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        let arguments: Arguments = parse(arguments)?;
        let query = arguments.query.trim();
        if query.is_empty() || query.chars().count() > MAX_QUERY_CHARS {
            return Err(ToolFailure::new(format!(
                "Error: `query` must have 1 to {MAX_QUERY_CHARS} characters. Use a few keywords."
            )));
        }
        let count = arguments.count.unwrap_or(self.count);
        let count = count.clamp(1, self.provider.max_count);
        let found = tokio::time::timeout(MAX_TIME, self.search(context, query, count)).await;
        let found = found.map_err(|_| {
            ToolFailure::new(format!(
                "Error: {} did not respond in time. Retry later, or continue without web_search.",
                self.provider.name
            ))
        })??;
        if found.is_empty() {
            return Ok(ToolAnswer::text("No results. Try fewer or other keywords.").into());
        }
        let text = frame(context.effect, "search results", &self.host, &list(&found));
        Ok(ToolAnswer::text(text).into())
    }
}

fn list(found: &[SearchResult]) -> String {
    let items = (1..).zip(found).map(|(number, found)| {
        let lines = [&found.title, &found.url, &found.snippet];
        let lines: Vec<&str> = lines
            .into_iter()
            .map(String::as_str)
            .filter(|line| !line.is_empty())
            .collect();
        format!("{number}. {}", lines.join("\n   "))
    });
    items.collect::<Vec<_>>().join("\n")
}

fn spec(provider: &Provider) -> ToolSpec {
    ToolSpec {
        name: "web_search".to_owned(),
        description: "Search the web; returns titles, URLs and snippets. Read a page with web_fetch before you rely on it.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "count": {"type": "integer", "description": format!("{} at most", provider.max_count)}
            },
            "required": ["query"],
            "additionalProperties": false
        }),
    }
}

fn endpoint(provider: &Provider, base_url: Option<&str>) -> Result<Url, BadSearch> {
    let base = base_url.map(str::trim).filter(|base| !base.is_empty());
    let base = base
        .or(provider.base)
        .ok_or(BadSearch::NoBase(provider.name))?;
    let url = Url::parse(base).map_err(|_| BadSearch::Base)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(BadSearch::Base);
    }
    let whole = format!("{}{}", base.trim_end_matches('/'), provider.path);
    Url::parse(&whole).map_err(|_| BadSearch::Base)
}

fn guard(endpoint: &Url) -> Result<Guard, BadSearch> {
    let host = endpoint.host_str().ok_or(BadSearch::Base)?;
    let host = host.trim_matches(['[', ']']);
    let port = endpoint.port_or_known_default().ok_or(BadSearch::Base)?;
    let rule = HostRule::exact(host, port).map_err(|_| BadSearch::Base)?;
    Ok(Guard::new(Allow {
        hosts: vec![rule],
        ..Allow::default()
    })?)
}

fn key(provider: &Provider, key: Option<&Secret>) -> Result<Option<HeaderValue>, BadSearch> {
    let Some(header) = provider.key else {
        return Ok(None);
    };
    match key.filter(|key| !key.is_empty()) {
        None if header.needed => Err(BadSearch::Key(provider.name)),
        None => Ok(None),
        Some(key) => {
            let value = HeaderValue::from_str(&format!("{}{}", header.prefix, key.expose())).ok();
            let value = value.map(|mut value| {
                value.set_sensitive(true);
                value
            });
            value.map(Some).ok_or(BadSearch::Key(provider.name))
        }
    }
}
