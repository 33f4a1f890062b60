//! A server, its runtime, and clients with every kind of key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use sortie_core::policy::Mode;
use sortie_core::skill::SkillRef;
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_protocol::{ConfigLine, DoctorLine, Proof, Role};
use sortie_server::keys::{KeyFile, NewKeyRequest};
use sortie_server::{Host, HostError, Rate, Server, ServerConfig, ServerLimits};
use sortie_test_support::stage::{MODEL, Play, Stage};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A model with one completion.
pub(crate) const SAYS_DONE: &str = r#"
  - say: "done"
"#;

/// The secret by which this server proves its identity to clients.
pub(crate) const PROOF: Proof = Proof::new([5; 32]);

#[derive(Debug)]
struct Binary;

#[async_trait]
impl Host for Binary {
    fn version(&self) -> String {
        "0.0.0-test".to_owned()
    }

    async fn config(&self) -> Result<Vec<ConfigLine>, HostError> {
        Ok(vec![ConfigLine {
            key: "model".to_owned(),
            value: MODEL.to_owned(),
            origin: "test".to_owned(),
        }])
    }

    async fn doctor(&self) -> Result<Vec<DoctorLine>, HostError> {
        Ok(vec![DoctorLine {
            name: "sandbox".to_owned(),
            ok: true,
            detail: "there".to_owned(),
        }])
    }

    async fn models(&self) -> Result<Vec<String>, HostError> {
        Ok(vec![MODEL.to_owned(), "offline".to_owned()])
    }

    async fn skills(&self, _workspace: &Path) -> Result<Vec<SkillRef>, HostError> {
        Ok(Vec::new())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    pub(crate) admin: String,
    pub(crate) operator: String,
    pub(crate) viewer: String,
    pub(crate) acme: String,
    pub(crate) acme_operator: String,
}

/// A server with its runtime, store and keys.
pub(crate) struct World {
    pub(crate) stage: Stage,
    pub(crate) home: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) tokens: Tokens,
    pub(crate) http: reqwest::Client,
    limits: ServerLimits,
    serving: Option<Serving>,
}

struct Serving {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl World {
    pub(crate) async fn begin(rules: &str) -> Self {
        Self::with(rules, patient()).await
    }

    pub(crate) async fn with(rules: &str, limits: ServerLimits) -> Self {
        Self::of(Play::new(rules), limits).await
    }

    pub(crate) async fn of(play: Play, limits: ServerLimits) -> Self {
        // Requests wait for an approver, as in a real server.
        let stage = play.set(|set| set.approvals.wait = true).begin().await;
        let home = TempDir::new().unwrap();
        let tokens = tokens(home.path(), stage.runtime().now());
        let mut world = Self {
            stage,
            home,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            tokens,
            http: client(),
            limits,
            serving: None,
        };
        world.serve().await;
        world
    }

    async fn serve(&mut self) {
        let config = ServerConfig {
            // The same port again after a restart, as clients expect.
            listen: self.address,
            hosts: vec!["sortie.example".to_owned()],
            workspaces: vec![self.stage.workspace().to_owned()],
            tenants: BTreeMap::new(),
            home: self.home.path().to_owned(),
            lang: Lang::En,
            default_model: MODEL.to_owned(),
            default_mode: Mode::Default,
            proof: PROOF,
            limits: self.limits,
        };
        let server = Server::bind(config, self.stage.shared_runtime(), Arc::new(Binary))
            .await
            .unwrap();
        self.address = server.address();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { server.serve(stopped).await.unwrap() });
        self.serving = Some(Serving { stop, task });
    }

    /// Stops the server only; the runtime keeps running.
    pub(crate) async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop.cancel();
            serving.task.await.unwrap();
        }
    }

    /// Stops server and runtime, and starts both again on the same store and keys.
    pub(crate) async fn restart(mut self) -> Self {
        self.stop().await;
        self.stage = self.stage.restart().await;
        // Connections to the previous server are closed.
        self.http = client();
        self.serve().await;
        self
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.http.request(method, self.url(path)).bearer_auth(token)
    }

    /// Returns a request as a browser sends it for a typed address.
    pub(crate) fn typed(&self, url: &str) -> RequestBuilder {
        self.http.get(url).header("Sec-Fetch-Site", "none")
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path, &self.tokens.admin)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, path, &self.tokens.admin)
            .json(body)
    }

    /// Sends a request that must succeed, and returns its JSON.
    pub(crate) async fn json(&self, request: RequestBuilder) -> Value {
        let (status, body) = answer(request).await;
        assert!(status.is_success(), "{status}: {body}");
        body
    }

    /// Creates a task and returns its id.
    pub(crate) async fn task(&self, body: &Value) -> String {
        let task = self.json(self.post("/api/tasks", body)).await;
        task["task_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a task has this status.
    pub(crate) async fn until_status(&self, id: &str, status: &str) -> Value {
        sortie_test_support::stage::until(status, async || {
            let task = self.json(self.get(&format!("/api/tasks/{id}"))).await;
            (task["status"] == status).then_some(task)
        })
        .await
    }
}

/// Limits high enough for the frequent polling of tests; the rate limit has a test of its own.
pub(crate) fn patient() -> ServerLimits {
    let often = NonZeroU32::new(100_000).unwrap();
    ServerLimits {
        rate: Rate {
            per_second: often,
            burst: often,
        },
        ..ServerLimits::default()
    }
}

fn client() -> reqwest::Client {
    sortie_base::http::client().build().unwrap()
}

/// Sends a request; returns the status and the JSON of the response, if it is JSON.
pub(crate) async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response: Response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

/// Returns the name of a problem type.
pub(crate) fn slug(problem: &Value) -> &str {
    problem["type"]
        .as_str()
        .and_then(|kind| kind.strip_prefix("urn:sortie:problem:"))
        .unwrap_or("no problem")
}

fn tokens(home: &Path, now: Timestamp) -> Tokens {
    let file = KeyFile::open(home).unwrap();
    let make = |name: &str, role: Role, tenant: Option<&str>| {
        let input = NewKeyRequest {
            name: name.to_owned(),
            role,
            tenant: tenant.map(|name| name.parse().unwrap()),
            expires_at: None,
        };
        file.create(input, now).unwrap().1.reveal()
    };
    Tokens {
        admin: file.ensure_first(now).unwrap().reveal(),
        operator: make("opal", Role::Operator, None),
        viewer: make("vera", Role::Viewer, None),
        acme: make("acme-boss", Role::Admin, Some("acme")),
        acme_operator: make("acme-op", Role::Operator, Some("acme")),
    }
}
