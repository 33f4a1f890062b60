//! Sends requests and follows redirects: each hop is checked like a first request.

use std::error::Error as _;
use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Method, Request, StatusCode};
use tokio::time::timeout;
use url::Url;

use crate::guard::{Checked, Guard};
use crate::problem::{NetError, Refused};
use crate::resolve::NoAddress;

/// Limit of redirects. Real sites need three or four: scheme, `www`, language.
pub const MAX_REDIRECTS: usize = 8;
/// Timeout for the response headers, unless the request sets its own.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Headers that may be sent to another origin. All other headers are for the first origin only.
const FOR_EVERYBODY: [HeaderName; 4] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::USER_AGENT,
];

/// The caller's own rule for hosts; an error is the reason for the refusal.
pub type Permits<'a> = &'a (dyn Fn(&str) -> Result<(), String> + Sync);

/// A response whose body has not been read.
#[derive(Debug)]
pub struct Response {
    checked: Checked,
    hops: Vec<Url>,
    inner: reqwest::Response,
}

impl Response {
    /// The URL that answered.
    pub fn url(&self) -> &Url {
        self.checked.url()
    }

    /// The host that answered.
    pub fn host(&self) -> &str {
        self.checked.host()
    }

    /// The URLs that redirected, in order.
    pub fn hops(&self) -> &[Url] {
        &self.hops
    }

    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// The value of `Content-Length`.
    pub fn content_length(&self) -> Option<u64> {
        self.inner.content_length()
    }

    /// The address of the connection.
    pub fn remote_address(&self) -> Option<std::net::SocketAddr> {
        self.inner.remote_addr()
    }

    /// The underlying response, for a caller that reads a stream.
    pub fn into_inner(self) -> reqwest::Response {
        self.inner
    }

    pub(crate) fn inner_mut(&mut self) -> &mut reqwest::Response {
        &mut self.inner
    }
}

impl Guard {
    /// Sends a GET request.
    pub async fn get(&self, url: Url, permits: Permits<'_>) -> Result<Response, NetError> {
        self.execute(Request::new(Method::GET, url), permits).await
    }

    /// Sends a request and follows its redirects.
    ///
    /// Across origins only harmless headers are sent, and a body only to the same host; a request over
    /// TLS is never redirected to plain HTTP. The headers of each response must arrive within a minute, or within
    /// the timeout of the request, which then limits reading the body too.
    pub async fn execute(
        &self,
        mut request: Request,
        permits: Permits<'_>,
    ) -> Result<Response, NetError> {
        let mut hops = Vec::new();
        loop {
            let checked = self.check_permitted(request.url(), permits)?;
            *request.url_mut() = checked.url().clone();
            let again = Again::of(&request);
            let inner = self.send(request, checked.host()).await?;
            let Some(target) = target(&checked, &inner)? else {
                return Ok(Response {
                    checked,
                    hops,
                    inner,
                });
            };
            if hops.len() == MAX_REDIRECTS {
                return Err(NetError::TooManyRedirects {
                    host: checked.host().to_owned(),
                    limit: MAX_REDIRECTS,
                });
            }
            let target = self.check_permitted(&target, permits)?;
            request = again.redirected(inner.status(), &checked, &target)?;
            hops.push(checked.into_url());
        }
    }

    fn check_permitted(&self, url: &Url, permits: Permits<'_>) -> Result<Checked, Refused> {
        let checked = self.check(url)?;
        permits(checked.host()).map_err(Refused::NotPermitted)?;
        Ok(checked)
    }

    async fn send(&self, request: Request, host: &str) -> Result<reqwest::Response, NetError> {
        let limit = request.timeout().copied().unwrap_or(HEAD_TIMEOUT);
        match timeout(limit, self.client().execute(request)).await {
            Ok(answer) => answer.map_err(|error| transport(host, error)),
            Err(_) => Err(NetError::TimedOut {
                host: host.to_owned(),
            }),
        }
    }
}

/// The parts of a request that are needed to send it again.
struct Again {
    method: Method,
    headers: HeaderMap,
    timeout: Option<Duration>,
    body: Resend,
}

enum Resend {
    Nothing,
    Bytes(bytes::Bytes),
    Gone,
}

impl Again {
    fn of(request: &Request) -> Self {
        let body = match request.body() {
            None => Resend::Nothing,
            Some(body) => match body.as_bytes() {
                Some(bytes) => Resend::Bytes(bytes::Bytes::copy_from_slice(bytes)),
                None => Resend::Gone,
            },
        };
        Self {
            method: request.method().clone(),
            headers: request.headers().clone(),
            timeout: request.timeout().copied(),
            body,
        }
    }

    /// Returns the request for the next hop: as the fetch standard defines it, with fewer headers.
    fn redirected(
        mut self,
        status: StatusCode,
        from: &Checked,
        to: &Checked,
    ) -> Result<Request, NetError> {
        let hosts = || (from.host().to_owned(), to.host().to_owned());
        if from.url().scheme() == "https" && to.url().scheme() == "http" {
            let (from, to) = hosts();
            return Err(Refused::Downgrade { from, to }.into());
        }
        if becomes_get(status, &self.method) {
            self.method = Method::GET;
            self.body = Resend::Nothing;
            self.headers.remove(header::CONTENT_TYPE);
            self.headers.remove(header::CONTENT_LENGTH);
        }
        if from.url().origin() != to.url().origin() {
            self.headers = harmless(&self.headers, &self.body);
        }
        let mut request = Request::new(self.method, to.url().clone());
        *request.headers_mut() = self.headers;
        *request.timeout_mut() = self.timeout;
        match self.body {
            Resend::Nothing => {}
            Resend::Gone => {
                let (host, _) = hosts();
                return Err(NetError::BodyGone { host });
            }
            Resend::Bytes(_) if from.host() != to.host() => {
                let (from, to) = hosts();
                return Err(Refused::BodyAcross { from, to }.into());
            }
            Resend::Bytes(bytes) => *request.body_mut() = Some(bytes.into()),
        }
        Ok(request)
    }
}

fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        StatusCode::SEE_OTHER => *method != Method::GET && *method != Method::HEAD,
        _ => false,
    }
}

fn harmless(headers: &HeaderMap, body: &Resend) -> HeaderMap {
    let kind = match body {
        Resend::Nothing => None,
        Resend::Bytes(_) | Resend::Gone => Some(header::CONTENT_TYPE),
    };
    FOR_EVERYBODY
        .into_iter()
        .chain(kind)
        .filter_map(|name| Some((name.clone(), headers.get(&name)?.clone())))
        .collect()
}

/// Returns the target of a redirect, if the response is one.
fn target(from: &Checked, answer: &reqwest::Response) -> Result<Option<Url>, NetError> {
    let points = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = answer.headers().get(header::LOCATION).filter(|_| points) else {
        return Ok(None);
    };
    let location = std::str::from_utf8(location.as_bytes()).ok();
    let joined = location.and_then(|location| from.url().join(location).ok());
    joined.map(Some).ok_or_else(|| NetError::BadRedirect {
        host: from.host().to_owned(),
    })
}

/// Converts an error of the HTTP client. A refusal of the resolver arrives as its cause.
pub(crate) fn transport(host: &str, error: reqwest::Error) -> NetError {
    let host = host.to_owned();
    if let Some(refused) = cause::<Refused>(&error) {
        return NetError::Refused(refused.clone());
    }
    if cause::<NoAddress>(&error).is_some() {
        return NetError::Unresolved { host };
    }
    if error.is_timeout() {
        return NetError::TimedOut { host };
    }
    NetError::Transport {
        host,
        // A URL may contain secrets.
        source: error.without_url(),
    }
}

fn cause<T: std::error::Error + 'static>(error: &reqwest::Error) -> Option<&T> {
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(found) = source.downcast_ref::<T>() {
            return Some(found);
        }
        next = source.source();
    }
    None
}
