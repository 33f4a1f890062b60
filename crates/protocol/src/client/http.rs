//! The HTTP client: one method for each operation.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, InvalidHeaderValue,
    RETRY_AFTER,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sortie_base::secret::Secret;
use sortie_base::{http, retry_after};
use sortie_core::id::{RunId, SessionKey};
use sortie_core::request::RequestId;
use tokio::time::Instant;
use url::Url;

use super::{ClientError, EventStream};
use crate::{
    AnswerBody, Applied, ApprovalBody, CancelBody, Cancelled, CleanBody, Cleaned, Deleted, Diff,
    ForkBody, Health, LettersBody, LettersChanged, LinkBody, LoginLink, MAX_NONCE_CHARS, Me,
    MessageAccepted, NewMessage, NewTask, Problem, Proof, ReplyNoted, Revoked, Role, SteerBody,
    Task, TaskRef, Worker,
};

/// The time limit of a connection; the server is on the same machine.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The time limit of a response: longer than the server's limit for its handlers.
const ANSWER_LIMIT: Duration = Duration::from_secs(45);
/// The time limit of a response that needs no work of the server.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// The largest response of a process that is not verified yet.
const MAX_UNVERIFIED_BYTES: usize = 4096;
/// Largest problem document that is read.
const MAX_PROBLEM_BYTES: usize = 1 << 20;
/// The largest response; results of tasks and diffs are far below.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// The number of attempts while the connection breaks.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(150);
/// The time limit of all attempts while the server asks to wait: longer than its limit for handlers,
/// so that a retry learns the outcome.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a server that was found before may be away: a person or a service manager restarts it,
/// and it recovers its store first.
const RESTART_LIMIT: Duration = Duration::from_secs(20);
/// The pause between two attempts while the server is away.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// The header of the idempotency key: a retry with the same key does not create a second task.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The header of the event after which a stream resumes.
const LAST_EVENT: &str = "last-event-id";
/// The media type of bodies.
const JSON: &str = "application/json";

/// A client of one server. Cheap to clone.
///
/// After a server has stopped, any process may listen at its port. So the listener has to prove that
/// it is the server before the client sends the token.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    bearer: HeaderValue,
    address: SocketAddr,
    base: Url,
    proof: Proof,
    finder: Option<Finder>,
}

/// Finds the present address and secret of the server; both change when it is restarted.
#[derive(Clone)]
struct Finder(Arc<dyn Fn() -> Option<(SocketAddr, Proof)> + Send + Sync>);

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Finder")
    }
}

impl Client {
    /// Creates a client of the server at this address, which has this secret. Sends nothing yet.
    pub fn new(address: SocketAddr, token: &Secret, proof: Proof) -> Result<Self, ClientError> {
        let bearer: Result<HeaderValue, InvalidHeaderValue> =
            format!("Bearer {}", token.expose()).parse();
        let mut bearer = bearer.map_err(|_| ClientError::BadToken)?;
        bearer.set_sensitive(true);
        let http = http::client()
            .connect_timeout(CONNECT_LIMIT)
            // The next request uses the connection on which the server was verified.
            .pool_max_idle_per_host(1)
            .build()
            .map_err(ClientError::Setup)?;
        let base = base(address)?;
        Ok(Self {
            http,
            bearer,
            address,
            base,
            proof,
            finder: None,
        })
    }

    /// Makes the client look for the server again if it does not respond, so that requests that may
    /// be repeated survive a restart of the server.
    #[must_use]
    pub fn with_finder(
        mut self,
        find: impl Fn() -> Option<(SocketAddr, Proof)> + Send + Sync + 'static,
    ) -> Self {
        self.finder = Some(Finder(Arc::new(find)));
        self
    }

    /// Returns the address of the server.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a client of the server at its present address, if it can be found.
    fn present(&self) -> Result<Self, ClientError> {
        let found = self.finder.as_ref().and_then(|finder| (finder.0)());
        let Some((address, proof)) = found else {
            return Ok(self.clone());
        };
        Ok(Self {
            address,
            base: base(address)?,
            proof,
            ..self.clone()
        })
    }

    /// Returns the caller; the quickest check that the server responds.
    pub async fn me(&self) -> Result<Me, ClientError> {
        let request = self.request(Method::GET, &["api", "me"]);
        self.fetch(request.timeout(GREETING_LIMIT), GREETING_LIMIT)
            .await
    }

    /// Returns the processes that execute tasks.
    pub async fn workers(&self) -> Result<Vec<Worker>, ClientError> {
        let request = self.request(Method::GET, &["api", "workers"]);
        self.fetch(request, ANSWER_LIMIT).await
    }

    /// Returns what tenants use, and their limits.
    pub async fn tenants(&self) -> Result<Vec<crate::TenantState>, ClientError> {
        let request = self.request(Method::GET, &["api", "tenants"]);
        self.fetch(request, ANSWER_LIMIT).await
    }

    /// Returns whether the server is ready, and why not.
    pub async fn ready(&self) -> Result<Health, ClientError> {
        let request = self.request(Method::GET, &["readyz"]).header(ACCEPT, JSON);
        let answered = async {
            let response = self.send(request).await?;
            let status = response.status();
            if !status.is_success() && status != StatusCode::SERVICE_UNAVAILABLE {
                return Err(self.refused(response).await);
            }
            let body = self.body(response, MAX_PROBLEM_BYTES).await?;
            let answer = serde_json::from_slice(&body);
            answer.map_err(|_| self.unexpected(&format!("the status is {status}")))
        };
        match tokio::time::timeout(GREETING_LIMIT, answered).await {
            Ok(answered) => answered,
            Err(_) => Err(self.timeout(GREETING_LIMIT)),
        }
    }

    /// Creates a task. A retry with the same idempotency key creates no second one.
    pub async fn create(&self, new: &NewTask, key: &str) -> Result<Task, ClientError> {
        self.once(&["api", "tasks"], new, key).await
    }

    /// Cancels a task and its descendants.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<Cancelled, ClientError> {
        let body = CancelBody {
            reason: Some(reason.to_owned()),
        };
        // A second cancel changes nothing, so it may be retried.
        self.post(&task(run, "cancel"), &body).await
    }

    /// Deletes or counts old tasks. A second attempt finds what the first one left, so it may be retried.
    pub async fn clean(&self, body: &CleanBody) -> Result<Cleaned, ClientError> {
        self.post(&["api", "tasks", "clean"].map(str::to_owned), body)
            .await
    }

    /// Retries dead letters of hooks or drops them. A second attempt finds what the first one left, so it
    /// may be retried.
    pub async fn unblock_letters(&self, body: &LettersBody) -> Result<LettersChanged, ClientError> {
        self.post(&["api", "hooks", "dead"].map(str::to_owned), body)
            .await
    }

    /// Deletes a task and its descendants. If the response to an attempt was lost and the next
    /// attempt does not find the task, the first attempt deleted it: at least one task.
    pub async fn delete(&self, run: RunId) -> Result<Deleted, ClientError> {
        let name = &run.to_string();
        let lost = &AtomicBool::new(false);
        let deleted = self
            .again(|client: Self| async move {
                let sent = AtomicBool::new(false);
                let request = client.request(Method::DELETE, &["api", "tasks", name]);
                let answered: Result<Deleted, ClientError> =
                    client.fetch_noting(request, ANSWER_LIMIT, &sent).await;
                if let Err(error) = &answered
                    && sent.load(Ordering::Relaxed)
                    && may_have_acted(error)
                {
                    lost.store(true, Ordering::Relaxed);
                }
                answered
            })
            .await;
        match deleted {
            Err(error) if error.slug() == Some("not-found") && lost.load(Ordering::Relaxed) => {
                Ok(Deleted {
                    task_id: run,
                    deleted: 1,
                })
            }
            deleted => deleted,
        }
    }

    /// Pauses a task and its descendants.
    pub async fn pause(&self, run: RunId) -> Result<Task, ClientError> {
        self.post(&task(run, "pause"), &Nothing {}).await
    }

    /// Resumes a task and its descendants.
    pub async fn unpause(&self, run: RunId) -> Result<Task, ClientError> {
        self.post(&task(run, "resume"), &Nothing {}).await
    }

    /// Creates a task like one that has ended.
    pub async fn retry(&self, run: RunId, key: &str) -> Result<Task, ClientError> {
        self.once(&as_parts(&task(run, "retry")), &Nothing {}, key)
            .await
    }

    /// Creates a task that continues from an entry of another task's journal.
    pub async fn fork(&self, run: RunId, body: &ForkBody, key: &str) -> Result<Task, ClientError> {
        self.once(&as_parts(&task(run, "fork")), body, key).await
    }

    /// Adds to the instruction of a task.
    pub async fn steer(&self, run: RunId, text: &str, key: &str) -> Result<TaskRef, ClientError> {
        let body = SteerBody {
            text: text.to_owned(),
        };
        self.once(&as_parts(&task(run, "steer")), &body, key).await
    }

    /// Returns the changes in the worktree of a task.
    pub async fn diff(&self, run: RunId) -> Result<Diff, ClientError> {
        self.again(|client: Self| async move {
            let request = client.request(Method::GET, &as_parts(&task(run, "diff")));
            client.fetch(request, ANSWER_LIMIT).await
        })
        .await
    }

    /// Applies the changes of a task to the checkout.
    pub async fn apply(&self, run: RunId, key: &str) -> Result<Applied, ClientError> {
        self.once(&as_parts(&task(run, "apply")), &Nothing {}, key)
            .await
    }

    /// Discards the changes of a task.
    pub async fn discard(&self, run: RunId, key: &str) -> Result<TaskRef, ClientError> {
        self.once(&as_parts(&task(run, "discard")), &Nothing {}, key)
            .await
    }

    /// Decides an approval request. A second attempt is refused as a conflict if the first one was
    /// recorded.
    pub async fn decide(
        &self,
        request: &RequestId,
        body: &ApprovalBody,
    ) -> Result<ReplyNoted, ClientError> {
        self.post(&reply_to("approvals", request), body).await
    }

    pub async fn answer_question(
        &self,
        request: &RequestId,
        text: &str,
    ) -> Result<ReplyNoted, ClientError> {
        let body = AnswerBody {
            request_id: None,
            text: text.to_owned(),
        };
        self.post(&reply_to("questions", request), &body).await
    }

    /// Revokes grants of a session in a folder: one rule, or all of them.
    pub async fn revoke(
        &self,
        session: &SessionKey,
        folder: &str,
        rule: Option<&str>,
    ) -> Result<Revoked, ClientError> {
        let path = &["api", "sessions", session.as_str(), "grants"];
        self.again(|client: Self| async move {
            let mut url = client.url(path);
            url.query_pairs_mut().append_pair("workspace", folder);
            if let Some(rule) = rule {
                url.query_pairs_mut().append_pair("rule", rule);
            }
            let request = client.with_token(Method::DELETE, url);
            client.fetch(request, ANSWER_LIMIT).await
        })
        .await
    }

    /// Creates a link that logs a browser in, once.
    pub async fn login_link(&self, role: Option<Role>) -> Result<LoginLink, ClientError> {
        let path = ["api".to_owned(), "login-links".to_owned()];
        self.post(&path, &LinkBody { role }).await
    }

    /// Opens the event stream, after `last_id` if the server still has the events.
    pub async fn events(&self, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        self.again(|client: Self| async move { client.listen(last_id, false).await })
            .await
    }

    /// Opens the event stream with the text of completions.
    pub async fn events_with_text(
        &self,
        last_id: Option<&str>,
    ) -> Result<EventStream, ClientError> {
        self.again(|client: Self| async move { client.listen(last_id, true).await })
            .await
    }

    /// Sends a message to a session.
    pub async fn send_message(
        &self,
        session: &SessionKey,
        message: &NewMessage,
        key: &str,
    ) -> Result<MessageAccepted, ClientError> {
        let path = ["api", "sessions", session.as_str(), "messages"];
        self.once(&path, message, key).await
    }

    async fn listen(
        &self,
        last_id: Option<&str>,
        with_text: bool,
    ) -> Result<EventStream, ClientError> {
        let mut url = self.url(&["api", "events"]);
        if with_text {
            url.query_pairs_mut().append_pair("text", "true");
        }
        let mut request = self
            .with_token(Method::GET, url)
            .header(ACCEPT, "text/event-stream");
        if let Some(id) = last_id {
            request = request.header(LAST_EVENT, id);
        }
        let response = tokio::time::timeout(GREETING_LIMIT, self.send(request)).await;
        let response = response.map_err(|_| self.timeout(GREETING_LIMIT))??;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let last_id = last_id.map(str::to_owned);
        Ok(EventStream::new(self.clone(), response, last_id))
    }

    /// Sends a request that may take effect twice without harm.
    async fn post<T: DeserializeOwned>(
        &self,
        path: &[String],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.again(|client: Self| async move {
            let request = client.request(Method::POST, &as_parts(path));
            client
                .fetch(client.with_body(request, body)?, ANSWER_LIMIT)
                .await
        })
        .await
    }

    /// Sends a request that must take effect once, and retries while the connection breaks or the
    /// server still executes it.
    async fn once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        key: &str,
    ) -> Result<T, ClientError> {
        self.again(|client: Self| async move {
            let request = client
                .request(Method::POST, path)
                .header(IDEMPOTENCY_KEY, key);
            client
                .fetch(client.with_body(request, body)?, ANSWER_LIMIT)
                .await
        })
        .await
    }

    /// Retries until the outcome is known. A server that asks to wait is given time. One that does
    /// not respond is looked for again if that is possible, and otherwise tried a few times at its
    /// old address.
    async fn again<T, F, Fut>(&self, send: F) -> Result<T, ClientError>
    where
        F: Fn(Self) -> Fut,
        Fut: Future<Output = Result<T, ClientError>>,
    {
        let mut patience = Patience::new(self.finder.is_some());
        loop {
            let error = match send(self.present()?).await {
                Err(error) if self.is_transient(&error) => error,
                ended => return ended,
            };
            let Some(pause) = patience.next(&error) else {
                return Err(error);
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns whether a retry may help. For a client that can look for the server again, another
    /// process at the old address or an old secret indicates a restart.
    fn is_transient(&self, error: &ClientError) -> bool {
        let restarted = matches!(error, ClientError::Unverified { .. }) && self.finder.is_some();
        restarted || error.is_transient()
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(path);
        }
        url
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.with_token(method, self.url(path))
    }

    fn with_token(&self, method: Method, url: Url) -> RequestBuilder {
        self.http
            .request(method, url)
            .header(AUTHORIZATION, self.bearer.clone())
    }

    /// Sends a request with the token: no request leaves in another way.
    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        self.send_noting(request, &AtomicBool::new(false)).await
    }

    /// Like [`Self::send`]; sets `sent` once the server was verified and the request may leave.
    async fn send_noting(
        &self,
        request: RequestBuilder,
        sent: &AtomicBool,
    ) -> Result<Response, ClientError> {
        self.verify().await?;
        sent.store(true, Ordering::Relaxed);
        request.send().await.map_err(|source| self.broken(source))
    }

    /// Verifies that the process at the address is the server. It costs one message on the same
    /// machine and is done for each request, because each may use another connection.
    async fn verify(&self) -> Result<(), ClientError> {
        let mut bytes = [0; MAX_NONCE_CHARS / 2];
        getrandom::fill(&mut bytes).map_err(|_| ClientError::NoRandomness)?;
        let nonce = sortie_core::id::hex(&bytes);
        let mut url = self.url(&["login", "proof"]);
        url.query_pairs_mut().append_pair("nonce", &nonce);
        let sent = self.http.get(url).timeout(GREETING_LIMIT).send().await;
        let response = sent.map_err(|source| self.broken(source))?;
        let unverified = || ClientError::Unverified {
            address: self.address,
        };
        if is_busy(response.status()) {
            return Err(self.refused(response).await);
        }
        let is_answer = response.status().is_success();
        let body = self.body(response, MAX_UNVERIFIED_BYTES).await?;
        let answer = std::str::from_utf8(&body).map_err(|_| unverified())?;
        match is_answer && self.proof.verifies(&nonce, answer.trim()) {
            true => Ok(()),
            false => Err(unverified()),
        }
    }

    fn with_body(
        &self,
        request: RequestBuilder,
        body: &impl Serialize,
    ) -> Result<RequestBuilder, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.unexpected(&error.to_string()))?;
        Ok(request.header(CONTENT_TYPE, JSON).body(body))
    }

    async fn fetch<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        limit: Duration,
    ) -> Result<T, ClientError> {
        self.fetch_noting(request, limit, &AtomicBool::new(false))
            .await
    }

    /// Like [`Self::fetch`]; sets `sent` once the request may have left.
    async fn fetch_noting<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        limit: Duration,
        sent: &AtomicBool,
    ) -> Result<T, ClientError> {
        let answered = async {
            let response = self.send_noting(request.header(ACCEPT, JSON), sent).await?;
            if !response.status().is_success() {
                return Err(self.refused(response).await);
            }
            let body = self.body(response, MAX_ANSWER_BYTES).await?;
            serde_json::from_slice(&body).map_err(|error| self.unexpected(&error.to_string()))
        };
        match tokio::time::timeout(limit, answered).await {
            Ok(answered) => answered,
            Err(_) => Err(self.timeout(limit)),
        }
    }

    async fn refused(&self, response: Response) -> ClientError {
        let status = response.status();
        let retry_after = retry_after(response.headers());
        match self.body(response, MAX_PROBLEM_BYTES).await {
            Ok(body) => match serde_json::from_slice::<Problem>(&body) {
                Ok(problem) => ClientError::Refused {
                    problem: Box::new(problem),
                    retry_after,
                },
                Err(_) => self.unexpected(&format!("the status is {status}")),
            },
            Err(error) => error,
        }
    }

    async fn body(&self, mut response: Response, most: usize) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(part) = response
            .chunk()
            .await
            .map_err(|source| self.broken(source))?
        {
            body.extend_from_slice(&part);
            if body.len() > most {
                return Err(self.unexpected("a response that exceeds the size limit"));
            }
        }
        Ok(body)
    }

    pub(super) fn broken(&self, source: reqwest::Error) -> ClientError {
        if source.is_timeout() {
            return self.timeout(CONNECT_LIMIT);
        }
        ClientError::Unreachable {
            address: self.address,
            source: source.without_url(),
        }
    }

    pub(super) const fn timeout(&self, limit: Duration) -> ClientError {
        ClientError::Timeout {
            address: self.address,
            limit,
        }
    }

    pub(super) fn unexpected(&self, what: &str) -> ClientError {
        ClientError::Unexpected {
            address: self.address,
            what: what.to_owned(),
        }
    }
}

/// Decides how long a request is retried.
#[derive(Debug)]
struct Patience {
    /// Whether the server is looked for again.
    finds: bool,
    /// The end of all attempts, even if the server responds.
    deadline: Instant,
    /// Since when the server has not responded.
    away_since: Option<Instant>,
    attempts: u32,
}

impl Patience {
    fn new(finds: bool) -> Self {
        Self {
            finds,
            deadline: Instant::now() + PATIENCE,
            away_since: None,
            attempts: 0,
        }
    }

    /// Returns the pause before the next attempt, or `None` to give up.
    fn next(&mut self, error: &ClientError) -> Option<Duration> {
        let now = Instant::now();
        if let Some(wait) = error.retry_after() {
            self.away_since = None;
            let pause = wait.min(LONGEST_PAUSE);
            return (now + pause < self.deadline).then_some(pause);
        }
        self.attempts += 1;
        let away_since = *self.away_since.get_or_insert(now);
        if self.finds {
            return (now < away_since + RESTART_LIMIT && now < self.deadline)
                .then_some(RESTART_PAUSE);
        }
        let pause = FIRST_PAUSE * 2_u32.pow(self.attempts.saturating_sub(1).min(ATTEMPTS));
        (self.attempts < ATTEMPTS && now + pause < self.deadline).then_some(pause)
    }
}

fn base(address: SocketAddr) -> Result<Url, ClientError> {
    Url::parse(&format!("http://{address}/")).map_err(|error| ClientError::Unexpected {
        address,
        what: error.to_string(),
    })
}

/// Returns whether the server refused because it is busy; it may do so before it proves its identity.
fn is_busy(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE
}

/// Returns whether the server may have executed a request that ended in this error. A busy server or
/// a refused connection has not.
fn may_have_acted(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { source, .. } => !source.is_connect(),
        ClientError::Timeout { .. } => true,
        ClientError::Refused { problem, .. } => matches!(problem.slug(), "timeout" | "under-way"),
        ClientError::Unexpected { .. }
        | ClientError::Unverified { .. }
        | ClientError::BadToken
        | ClientError::Setup(_)
        | ClientError::NoRandomness => false,
    }
}

/// Returns how long to wait. Sortie sends seconds; a proxy may send a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let header = |name| headers.get(name)?.to_str().ok();
    retry_after::wait(
        header(RETRY_AFTER)?,
        header(DATE),
        retry_after::wall_clock(),
    )
}

/// Response without fields.
#[derive(Serialize)]
struct Nothing {}

fn task(run: RunId, action: &str) -> [String; 4] {
    ["api".into(), "tasks".into(), run.to_string(), action.into()]
}

fn reply_to(kind: &str, request: &RequestId) -> [String; 3] {
    ["api".into(), kind.into(), request.to_string()]
}

fn as_parts(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}
