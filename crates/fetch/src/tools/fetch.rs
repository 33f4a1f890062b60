//! `web_fetch`: returns one page as readable text.

use std::sync::Arc;
use std::time::Duration;

use crate::{BodyLimits, Guard, Response, Url};
use async_trait::async_trait;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request};
use serde::Deserialize;
use serde_json::{Value, json};
use sortie_base::truncate::first_chars;
use sortie_core::ports::tool::{
    Recovery, STATUS_ONLY, Spelling, Tool, ToolAnswer, ToolContext, ToolFailure, ToolReply,
    ToolSpec, Touches,
};

use crate::tools::aside::Aside;
use crate::tools::cache::{Cache, Page, may_keep};
use crate::tools::failure::{status_failure, unreachable};
use crate::tools::frame::frame;
use crate::tools::html::{Format, Reading};
use crate::tools::input::{parse, whole};
use crate::tools::page::{Content, Raw, render};

/// Limit of bytes that are read.
const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;
/// Maximum time between two chunks.
const MAX_SILENCE: Duration = Duration::from_secs(10);
/// Maximum time for one page, including redirects and reading.
const MAX_TIME: Duration = Duration::from_secs(45);
/// Default limit of characters that are returned: a little less than
/// the runtime keeps of one tool result.
const DEFAULT_CHARS: usize = 20_000;
/// Upper limit of `max_chars`.
const MAX_CHARS: usize = 200_000;
/// Preferred content types; every type is accepted.
const ACCEPTED: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5";

/// The tool `web_fetch`, which fetches a page.
#[derive(Debug)]
pub struct WebFetch {
    spec: ToolSpec,
    guard: Guard,
    cache: Cache,
    aside: Aside,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    url: String,
    #[serde(default)]
    format: Option<Format>,
    #[serde(default, deserialize_with = "whole")]
    max_chars: Option<usize>,
}

impl WebFetch {
    /// Creates the tool. All of its requests pass this guard.
    pub fn new(guard: Guard) -> Self {
        Self {
            spec: ToolSpec {
                name: "web_fetch".to_owned(),
                description: "Fetch a public web page as Markdown (default), plain text or HTML. Also returns JSON, feeds, text files and images. Cached for 15 minutes.".to_owned(),
                parameters: json!({
                    "type": "object",
                    "properties": {
                        "url": {"type": "string"},
                        "format": {"enum": ["markdown", "text", "html"]},
                        "max_chars": {"type": "integer", "description": "default 20000"}
                    },
                    "required": ["url"],
                    "additionalProperties": false
                }),
            },
            guard,
            cache: Cache::default(),
            aside: Aside::default(),
        }
    }

    async fn page(
        &self,
        context: &ToolContext<'_>,
        url: &Url,
        format: Format,
    ) -> Result<Arc<Page>, ToolFailure> {
        let permits = |host: &str| context.permits.host(host);
        let checked = self
            .guard
            .check(url)
            .map_err(|error| unreachable(&error.into()))?;
        if let Some(page) = self.cache.get(checked.url().as_str(), format) {
            // Another run with other permits may have cached it.
            let mut hosts = page.hosts.iter();
            hosts
                .try_for_each(|host| permits(host))
                .map_err(ToolFailure::new)?;
            return Ok(page);
        }
        let response = self.guard.execute(request(checked.url()), &permits).await;
        let response = response.map_err(|error| unreachable(&error))?;
        let keep = may_keep(response.headers());
        let page = Arc::new(self.read(response, format).await?);
        if keep {
            self.cache
                .put(checked.url().as_str(), format, Arc::clone(&page));
        }
        Ok(page)
    }

    /// Returns the status of the final response, after redirects. Nothing is cached.
    async fn status(&self, context: &ToolContext<'_>, arguments: &Value) -> ToolReply {
        let text = arguments.get("url").and_then(Value::as_str);
        let url = url(text.unwrap_or_default())?;
        let permits = |host: &str| context.permits.host(host);
        let checked = self.guard.check(&url);
        let checked = checked.map_err(|error| unreachable(&error.into()))?;
        let sent = self.guard.execute(request(checked.url()), &permits);
        let response = tokio::time::timeout(MAX_TIME, sent).await;
        let late = |_| {
            let seconds = MAX_TIME.as_secs();
            ToolFailure::new(format!("No response arrived within {seconds} seconds."))
        };
        let response = response.map_err(late)?;
        let response = response.map_err(|error| unreachable(&error))?;
        Ok(ToolAnswer::text(response.status().as_u16().to_string()).into())
    }

    async fn read(&self, response: Response, format: Format) -> Result<Page, ToolFailure> {
        if !response.status().is_success() {
            return Err(status_failure(&response));
        }
        if let Some(coding) = foreign_coding(&response) {
            return Err(ToolFailure::new(format!(
                "{} sends only {coding} content, which cannot be decoded. Use another source.",
                response.host()
            )));
        }
        let url = response.url().clone();
        let hosts = hosts(&response);
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let content_type = content_type.map(str::to_owned);
        let limits = BodyLimits {
            max_bytes: MAX_BODY_BYTES,
            idle: MAX_SILENCE,
            total: MAX_TIME,
        };
        let body = response
            .head(limits)
            .await
            .map_err(|error| unreachable(&error))?;
        let raw = Raw {
            url: url.clone(),
            content_type,
            bytes: body.bytes,
            cut: body.cut,
        };
        let content = self.aside.run(move || render(raw, format)).await;
        let broke = || ToolFailure::new("The page could not be parsed. Use another source.");
        Ok(Page {
            url: url.into(),
            hosts,
            content: content.ok_or_else(broke)??,
        })
    }
}

#[async_trait]
impl Tool for WebFetch {
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
            name: "WebFetch",
            renames: &[],
        }]
    }

    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply {
        if arguments.get(STATUS_ONLY) == Some(&Value::Bool(true)) {
            return self.status(context, &arguments).await;
        }
        let arguments: Arguments = parse(arguments)?;
        let url = url(&arguments.url)?;
        let format = arguments.format.unwrap_or_default();
        let max_chars = arguments
            .max_chars
            .unwrap_or(DEFAULT_CHARS)
            .clamp(1, MAX_CHARS);
        let page = tokio::time::timeout(MAX_TIME, self.page(context, &url, format)).await;
        let late = |_| {
            ToolFailure::new(format!(
                "The page did not arrive within {} seconds. Try again later, or use another source.",
                MAX_TIME.as_secs()
            ))
        };
        let page = page.map_err(late)??;
        Ok(answer(context, &page, max_chars).into())
    }
}

/// Parses a URL; models often omit the scheme.
fn url(text: &str) -> Result<Url, ToolFailure> {
    let text = text.trim();
    let whole = match text.contains("://") || text.starts_with("data:") {
        true => text.to_owned(),
        false => format!("https://{text}"),
    };
    Url::parse(&whole).map_err(|error| {
        ToolFailure::new(format!(
            "Error: `url` is not a valid URL ({error}). Use a complete URL such as https://example.org/page."
        ))
    })
}

fn request(url: &Url) -> Request {
    let mut request = Request::new(Method::GET, url.clone());
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    request
}

/// Returns the compression that a server uses although the request did not accept it.
fn foreign_coding(response: &Response) -> Option<String> {
    let coding = response.headers().get(CONTENT_ENCODING)?.to_str().ok();
    let coding = coding.unwrap_or("unknown").trim().to_ascii_lowercase();
    let is_word = coding.len() <= 20 && coding.chars().all(|c| c.is_ascii_alphanumeric());
    match coding.as_str() {
        "" | "identity" => None,
        _ if is_word => Some(coding),
        _ => Some("encoded".to_owned()),
    }
}

fn hosts(response: &Response) -> Vec<String> {
    let hops = response.hops().iter().filter_map(Url::host_str);
    let mut hosts: Vec<String> = hops
        .map(|host| host.trim_matches(['[', ']']).to_owned())
        .collect();
    hosts.push(response.host().to_owned());
    hosts.dedup();
    hosts
}

fn answer(context: &ToolContext<'_>, page: &Page, max_chars: usize) -> ToolAnswer {
    let moved = match page.hosts.as_slice() {
        [first, .., last] if first != last => format!("({first} redirected to {last})\n"),
        _ => String::new(),
    };
    let host = page.hosts.last().map_or("the web", String::as_str);
    match &page.content {
        Content::Text(reading) => ToolAnswer::text(format!(
            "{moved}{}",
            text(context, page, host, reading, max_chars)
        )),
        Content::Picture(image) => ToolAnswer {
            text: format!(
                "{moved}(a picture from {host}: {}, {} bytes)",
                image.media_type,
                image.bytes.len()
            ),
            images: vec![image.clone()],
            ..ToolAnswer::default()
        },
    }
}

fn text(
    context: &ToolContext<'_>,
    page: &Page,
    host: &str,
    reading: &Reading,
    max_chars: usize,
) -> String {
    let shown = first_chars(&reading.text, max_chars);
    let total = reading.text.chars().count();
    let title = match reading.title.as_str() {
        "" => String::new(),
        title => format!("# {title}\n"),
    };
    let shown = if shown.is_empty() {
        "(no readable text)"
    } else {
        shown
    };
    let body = format!("{title}{}\n\n{shown}", page.url);
    let mut text = frame(context.effect, "web page", host, &body);
    if total > max_chars {
        let more = total.min(MAX_CHARS);
        text.push_str(&format!(
            "\n(the first {max_chars} of {total} characters; more with max_chars={more})"
        ));
    }
    if reading.cut {
        text.push_str("\n(truncated: the page exceeds the size limit)");
    }
    text
}
