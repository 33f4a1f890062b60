//! Asking the server, one method for each thing that can be asked.

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
use sortie_base::retry_after;
use sortie_core::{RequestId, RunId, SessionKey};
use tokio::time::Instant;
use url::Url;

use super::{ClientError, EventStream, Token};
use crate::{
    AnswerBody, Applied, ApprovalBody, CancelBody, Cancelled, Deleted, Diff, ForkBody, Health,
    LinkBody, LoginLink, MAX_NONCE_CHARS, Me, NewTask, Problem, Proof, ReplyNoted, Revoked, Role,
    SteerBody, Task, TaskRef,
};

/// How long a connection may take; the server is near.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long an answer may take: longer than the server gives its own handlers.
const ANSWER_LIMIT: Duration = Duration::from_secs(45);
/// How long a server may take to say who is asking: it has nothing to do for it.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// The largest answer of somebody who has not shown yet who it is.
const MAX_STRANGE_BYTES: usize = 4096;
/// The largest refusal.
const MAX_PROBLEM_BYTES: usize = 1 << 20;
/// The largest answer; results of tasks and diffs are far below.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// How often something that must happen once is asked for, if the connection breaks.
const ATTEMPTS: u32 = 4;
/// Before the second attempt; twice as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(150);
/// How long a server that says that it needs time may take altogether: longer than it gives its own
/// handlers, so that whoever asks hears what came of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a server that was found before may be away: it is started again by a person or a service
/// manager, and recovers its store first.
const RESTART_LIMIT: Duration = Duration::from_secs(20);
/// Between two attempts at a server that is away.
const RESTART_PAUSE: Duration = Duration::from_millis(50);
/// Names one wish, so that repeating it is not wishing it twice.
const WISH: &str = "idempotency-key";
/// Where a stream is to go on.
const LAST_EVENT: &str = "last-event-id";
/// What bodies are.
const JSON: &str = "application/json";

/// A server, and who asks it. Cheap to clone.
///
/// The port of a server that has gone may be anybody's. So whoever listens there shows first that it is
/// the server, and gets the token then.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    bearer: HeaderValue,
    address: SocketAddr,
    base: Url,
    proof: Proof,
    finder: Option<Finder>,
}

/// Finds the server where it is now: its address and its secret change when it is started again.
#[derive(Clone)]
struct Finder(Arc<dyn Fn() -> Option<(SocketAddr, Proof)> + Send + Sync>);

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Finder")
    }
}

impl Client {
    /// A client of the server at this address, which knows this secret. Nothing is asked yet.
    pub fn new(address: SocketAddr, token: &Token, proof: Proof) -> Result<Self, ClientError> {
        let bearer: Result<HeaderValue, InvalidHeaderValue> =
            format!("Bearer {}", token.expose()).parse();
        let mut bearer = bearer.map_err(|_| ClientError::BadToken)?;
        bearer.set_sensitive(true);
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            // The token goes to this address and to nobody else.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            // The connection on which the server has shown who it is is the one that is used next.
            .pool_max_idle_per_host(1)
            .build()
            .map_err(ClientError::NoMeans)?;
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

    /// The same client, which looks for the server again when it does not answer: requests that may be
    /// repeated then outlive a restart of the server.
    #[must_use]
    pub fn with_finder(
        mut self,
        find: impl Fn() -> Option<(SocketAddr, Proof)> + Send + Sync + 'static,
    ) -> Self {
        self.finder = Some(Finder(Arc::new(find)));
        self
    }

    /// Where the server is.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The client of the server where it is now, if it can be found.
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

    /// Who is asking; the quickest way to know that the server is there.
    pub async fn me(&self) -> Result<Me, ClientError> {
        let asked = self.request(Method::GET, &["api", "me"]);
        self.answer(asked.timeout(GREETING_LIMIT), GREETING_LIMIT)
            .await
    }

    /// Whether the server can do its work; the answer says why not.
    pub async fn ready(&self) -> Result<Health, ClientError> {
        let asked = self.request(Method::GET, &["readyz"]).header(ACCEPT, JSON);
        let answered = async {
            let response = self.send(asked).await?;
            let status = response.status();
            if !status.is_success() && status != StatusCode::SERVICE_UNAVAILABLE {
                return Err(self.refused(response).await);
            }
            let body = self.body(response, MAX_PROBLEM_BYTES).await?;
            let answer = serde_json::from_slice(&body);
            answer.map_err(|_| self.strange(&format!("it answered {status}")))
        };
        match tokio::time::timeout(GREETING_LIMIT, answered).await {
            Ok(answered) => answered,
            Err(_) => Err(self.slow(GREETING_LIMIT)),
        }
    }

    /// Makes a task; `wish` names the wish, so that it is made once however often it is asked for.
    pub async fn create(&self, new: &NewTask, wish: &str) -> Result<Task, ClientError> {
        self.once(&["api", "tasks"], new, wish).await
    }

    /// Stops a task and everything below it.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<Cancelled, ClientError> {
        let body = CancelBody {
            reason: Some(reason.to_owned()),
        };
        // Stopping what has stopped changes nothing: it may be asked again.
        self.post(&task(run, "cancel"), &body).await
    }

    /// Removes a task and everything below it. If the answer to an attempt was lost and the task is not
    /// there at the next one, that attempt removed it: at least one task.
    pub async fn delete(&self, run: RunId) -> Result<Deleted, ClientError> {
        let name = &run.to_string();
        let lost = &AtomicBool::new(false);
        let deleted = self
            .again(|client: Self| async move {
                let sent = AtomicBool::new(false);
                let asked = client.request(Method::DELETE, &["api", "tasks", name]);
                let answered: Result<Deleted, ClientError> =
                    client.answer_noting(asked, ANSWER_LIMIT, &sent).await;
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

    /// Lets a task and everything below it rest.
    pub async fn pause(&self, run: RunId) -> Result<Task, ClientError> {
        self.post(&task(run, "pause"), &Nothing {}).await
    }

    /// Lets them go on.
    pub async fn unpause(&self, run: RunId) -> Result<Task, ClientError> {
        self.post(&task(run, "resume"), &Nothing {}).await
    }

    /// Makes a task like one that has ended.
    pub async fn retry(&self, run: RunId, wish: &str) -> Result<Task, ClientError> {
        self.once(&as_parts(&task(run, "retry")), &Nothing {}, wish)
            .await
    }

    /// Makes a task that branches off another.
    pub async fn fork(&self, run: RunId, body: &ForkBody, wish: &str) -> Result<Task, ClientError> {
        self.once(&as_parts(&task(run, "fork")), body, wish).await
    }

    /// Adds to a task's instruction.
    pub async fn steer(&self, run: RunId, text: &str, wish: &str) -> Result<TaskRef, ClientError> {
        let body = SteerBody {
            text: text.to_owned(),
        };
        self.once(&as_parts(&task(run, "steer")), &body, wish).await
    }

    /// What a task changed in its worktree.
    pub async fn diff(&self, run: RunId) -> Result<Diff, ClientError> {
        self.again(|client: Self| async move {
            let asked = client.request(Method::GET, &as_parts(&task(run, "diff")));
            client.answer(asked, ANSWER_LIMIT).await
        })
        .await
    }

    /// Brings it into the checkout.
    pub async fn apply(&self, run: RunId, wish: &str) -> Result<Applied, ClientError> {
        self.once(&as_parts(&task(run, "apply")), &Nothing {}, wish)
            .await
    }

    /// Throws it away.
    pub async fn discard(&self, run: RunId, wish: &str) -> Result<TaskRef, ClientError> {
        self.once(&as_parts(&task(run, "discard")), &Nothing {}, wish)
            .await
    }

    /// Decides about a call. A second attempt is refused as a conflict if the first one was noted.
    pub async fn decide(
        &self,
        request: &RequestId,
        body: &ApprovalBody,
    ) -> Result<ReplyNoted, ClientError> {
        self.post(&reply_to("approvals", request), body).await
    }

    /// Answers a question.
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

    /// Takes back what was allowed for a session in a folder; all of it if no rule is named.
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
            let asked = client.with_token(Method::DELETE, url);
            client.answer(asked, ANSWER_LIMIT).await
        })
        .await
    }

    /// A link that lets a browser in, once.
    pub async fn login_link(&self, role: Option<Role>) -> Result<LoginLink, ClientError> {
        let path = ["api".to_owned(), "login-links".to_owned()];
        self.post(&path, &LinkBody { role }).await
    }

    /// Listens to what happens; after `last_id`, if the server still knows.
    pub async fn events(&self, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        self.again(|client: Self| async move { client.listen(last_id).await })
            .await
    }

    async fn listen(&self, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        let mut asked = self
            .request(Method::GET, &["api", "events"])
            .header(ACCEPT, "text/event-stream");
        if let Some(id) = last_id {
            asked = asked.header(LAST_EVENT, id);
        }
        let response = tokio::time::timeout(GREETING_LIMIT, self.send(asked)).await;
        let response = response.map_err(|_| self.slow(GREETING_LIMIT))??;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let last_id = last_id.map(str::to_owned);
        Ok(EventStream::new(self.clone(), response, last_id))
    }

    /// Asks for something that can happen twice without harm.
    async fn post<T: DeserializeOwned>(
        &self,
        path: &[String],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.again(|client: Self| async move {
            let asked = client.request(Method::POST, &as_parts(path));
            client
                .answer(client.with_body(asked, body)?, ANSWER_LIMIT)
                .await
        })
        .await
    }

    /// Asks for something that must happen once, again and again while the connection breaks or the
    /// server is still at it.
    async fn once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        wish: &str,
    ) -> Result<T, ClientError> {
        self.again(|client: Self| async move {
            let asked = client.request(Method::POST, path).header(WISH, wish);
            client
                .answer(client.with_body(asked, body)?, ANSWER_LIMIT)
                .await
        })
        .await
    }

    /// Asks until the outcome is known. A server that says when to come back is there, and is given time.
    /// One that does not answer is looked for again if it can be, and a few times at its old address
    /// otherwise.
    async fn again<T, F, Fut>(&self, ask: F) -> Result<T, ClientError>
    where
        F: Fn(Self) -> Fut,
        Fut: Future<Output = Result<T, ClientError>>,
    {
        let mut patience = Patience::new(self.finder.is_some());
        loop {
            let error = match ask(self.present()?).await {
                Err(error) if self.may_pass(&error) => error,
                ended => return ended,
            };
            let Some(pause) = patience.next(&error) else {
                return Err(error);
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Whether asking again may help. Another program at the old address, or an old secret, is what a
    /// restart looks like to a client that can look for the server again.
    fn may_pass(&self, error: &ClientError) -> bool {
        let restarted = matches!(error, ClientError::Stranger { .. }) && self.finder.is_some();
        restarted || error.may_pass()
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

    /// Sends a token with what is asked: the only way that a request leaves.
    async fn send(&self, asked: RequestBuilder) -> Result<Response, ClientError> {
        self.send_noting(asked, &AtomicBool::new(false)).await
    }

    /// As [`Self::send`]; sets `sent` once the server was recognised and the request may leave.
    async fn send_noting(
        &self,
        asked: RequestBuilder,
        sent: &AtomicBool,
    ) -> Result<Response, ClientError> {
        self.recognise().await?;
        sent.store(true, Ordering::Relaxed);
        asked.send().await.map_err(|source| self.broken(source))
    }

    /// Lets whoever listens at the address show that it is the server. It costs a message to a process
    /// of this machine, and is done each time: a connection may be another one each time.
    async fn recognise(&self) -> Result<(), ClientError> {
        let mut bytes = [0; MAX_NONCE_CHARS / 2];
        getrandom::fill(&mut bytes).map_err(|_| ClientError::NoRandomness)?;
        let nonce = sortie_core::hex(&bytes);
        let mut url = self.url(&["login", "proof"]);
        url.query_pairs_mut().append_pair("nonce", &nonce);
        let sent = self.http.get(url).timeout(GREETING_LIMIT).send().await;
        let response = sent.map_err(|source| self.broken(source))?;
        let stranger = || ClientError::Stranger {
            address: self.address,
        };
        if is_busy(response.status()) {
            return Err(self.refused(response).await);
        }
        let is_answer = response.status().is_success();
        let body = self.body(response, MAX_STRANGE_BYTES).await?;
        let answer = std::str::from_utf8(&body).map_err(|_| stranger())?;
        match is_answer && self.proof.holds(&nonce, answer.trim()) {
            true => Ok(()),
            false => Err(stranger()),
        }
    }

    fn with_body(
        &self,
        asked: RequestBuilder,
        body: &impl Serialize,
    ) -> Result<RequestBuilder, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.strange(&error.to_string()))?;
        Ok(asked.header(CONTENT_TYPE, JSON).body(body))
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        asked: RequestBuilder,
        limit: Duration,
    ) -> Result<T, ClientError> {
        self.answer_noting(asked, limit, &AtomicBool::new(false))
            .await
    }

    /// As [`Self::answer`]; sets `sent` once the request may have left.
    async fn answer_noting<T: DeserializeOwned>(
        &self,
        asked: RequestBuilder,
        limit: Duration,
        sent: &AtomicBool,
    ) -> Result<T, ClientError> {
        let answered = async {
            let response = self.send_noting(asked.header(ACCEPT, JSON), sent).await?;
            if !response.status().is_success() {
                return Err(self.refused(response).await);
            }
            let body = self.body(response, MAX_ANSWER_BYTES).await?;
            serde_json::from_slice(&body).map_err(|error| self.strange(&error.to_string()))
        };
        match tokio::time::timeout(limit, answered).await {
            Ok(answered) => answered,
            Err(_) => Err(self.slow(limit)),
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
                Err(_) => self.strange(&format!("it answered {status}")),
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
                return Err(self.strange("an answer without an end"));
            }
        }
        Ok(body)
    }

    pub(super) fn broken(&self, source: reqwest::Error) -> ClientError {
        if source.is_timeout() {
            return self.slow(CONNECT_LIMIT);
        }
        ClientError::Unreachable {
            address: self.address,
            source: source.without_url(),
        }
    }

    pub(super) const fn slow(&self, limit: Duration) -> ClientError {
        ClientError::Slow {
            address: self.address,
            limit,
        }
    }

    pub(super) fn strange(&self, what: &str) -> ClientError {
        ClientError::Strange {
            address: self.address,
            what: what.to_owned(),
        }
    }
}

/// How long a request is repeated.
#[derive(Debug)]
struct Patience {
    /// Whether the server is looked for again.
    finds: bool,
    /// When even a server that is there has had enough time.
    deadline: Instant,
    /// Since when the server has not answered.
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

    /// How long to wait before the next attempt; `None` if there is none.
    fn next(&mut self, error: &ClientError) -> Option<Duration> {
        let now = Instant::now();
        if let Some(wished) = error.retry_after() {
            self.away_since = None;
            let pause = wished.min(LONGEST_PAUSE);
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
    Url::parse(&format!("http://{address}/")).map_err(|error| ClientError::Strange {
        address,
        what: error.to_string(),
    })
}

/// A server may say that it has no time before it says who it is.
fn is_busy(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE
}

/// Whether the server may have acted on a request that was sent and ended in this error. A server that is
/// busy, or a refused connection, has not.
fn may_have_acted(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { source, .. } => !source.is_connect(),
        ClientError::Slow { .. } => true,
        ClientError::Refused { problem, .. } => matches!(problem.slug(), "timeout" | "under-way"),
        ClientError::Strange { .. }
        | ClientError::Stranger { .. }
        | ClientError::BadToken
        | ClientError::NoMeans(_)
        | ClientError::NoRandomness => false,
    }
}

/// When to ask again. Our servers say it in seconds; a proxy before them may send a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let header = |name| headers.get(name)?.to_str().ok();
    retry_after::wait(
        header(RETRY_AFTER)?,
        header(DATE),
        retry_after::wall_clock(),
    )
}

/// A body that says nothing.
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
