//! A server with a runtime behind it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use sortie_base::secret::Secret;
use sortie_core::policy::Mode;
use sortie_core::skill::SkillRef;
use sortie_core::words::Lang;
use sortie_protocol::client::Client;
use sortie_protocol::{ConfigLine, DoctorLine, Proof};
use sortie_server::keys::KeyFile;
use sortie_server::{Host, HostError, Server, ServerConfig, ServerLimits};
use sortie_test_support::stage::{MODEL, Play, Stage};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The secret that the server shares with its clients.
pub(crate) const PROOF: Proof = Proof::new([5; 32]);

/// A host without data.
#[derive(Debug)]
struct Binary;

#[async_trait]
impl Host for Binary {
    fn version(&self) -> String {
        "0.0.0-test".to_owned()
    }

    async fn config(&self) -> Result<Vec<ConfigLine>, HostError> {
        Ok(Vec::new())
    }

    async fn doctor(&self) -> Result<Vec<DoctorLine>, HostError> {
        Ok(Vec::new())
    }

    async fn models(&self) -> Result<Vec<String>, HostError> {
        Ok(Vec::new())
    }

    async fn skills(&self, _workspace: &Path) -> Result<Vec<SkillRef>, HostError> {
        Ok(Vec::new())
    }
}

/// A server whose model completes with `done`.
pub(crate) struct World {
    pub(crate) stage: Stage,
    pub(crate) address: SocketAddr,
    pub(crate) token: Secret,
    serving: Option<(CancellationToken, JoinHandle<()>)>,
    home: TempDir,
}

impl World {
    pub(crate) async fn begin() -> Self {
        let play = Play::new("\n  - say: done\n");
        let stage = play.set(|set| set.approvals.wait = true).begin().await;
        let home = TempDir::new().unwrap();
        let keys = KeyFile::open(home.path()).unwrap();
        let token = keys.ensure_first(stage.runtime().now()).unwrap().reveal();
        let mut world = Self {
            stage,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            token: Secret::new(token),
            serving: None,
            home,
        };
        world.serve_again().await;
        world
    }

    /// Starts a server, at another address than the one before it.
    pub(crate) async fn serve_again(&mut self) {
        let config = ServerConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            hosts: Vec::new(),
            workspaces: vec![self.stage.workspace().to_owned()],
            tenants: BTreeMap::new(),
            home: self.home.path().to_owned(),
            lang: Lang::En,
            default_model: MODEL.to_owned(),
            default_mode: Mode::Default,
            proof: PROOF,
            limits: ServerLimits::default(),
        };
        let server = Server::bind(config, self.stage.shared_runtime(), Arc::new(Binary));
        let server = server.await.unwrap();
        self.address = server.address();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { server.serve(stopped).await.unwrap() });
        self.serving = Some((stop, task));
    }

    /// Returns a client with the administrator's key.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, &self.token, PROOF).unwrap()
    }

    /// Stops the server only; the runtime keeps running.
    pub(crate) async fn stop(&mut self) {
        if let Some((stop, task)) = self.serving.take() {
            stop.cancel();
            task.await.unwrap();
        }
    }
}
