//! A pool with one server, and functions that call its tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sortie_core::id::{BlobId, CallId, EffectId, RunId};
use sortie_core::ports::tool::{
    BlobReader, ManageRequest, Permits, Spawned, Spawner, Tool, ToolAnswer, ToolContext,
    ToolFailure, ToolOutcome, ToolReply,
};
use sortie_core::run::{Confinement, SpawnRequest};
use sortie_core::words::Lang;
use sortie_fetch::Guard;
use sortie_mcp::{ApprovalFile, Pool, PoolSettings, ServerConfig, ServerReport};
use tempfile::TempDir;

/// A value that the servers here know and that must appear in no output.
pub(crate) const SECRET: &str = "hunter22-very-secret";
/// The most time that a test waits for a condition.
const SOON: Duration = Duration::from_secs(20);

/// A folder with everything that a pool needs.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the settings of a server that is this binary.
    pub(crate) fn program(&self, behaviour: &str) -> Value {
        json!({
            "command": std::env::current_exe().unwrap(),
            "args": super::server::arguments(behaviour, self.path()),
            "env": { "KEY": "${KEY}" },
        })
    }

    pub(crate) fn pool(&self, server: &Value, guard: Option<Guard>) -> Pool {
        let config: ServerConfig = serde_json::from_value(server.clone()).unwrap();
        let variables = BTreeMap::from([("KEY".to_owned(), SECRET.to_owned())]);
        let settings = PoolSettings {
            variables,
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            workspace: self.path().to_owned(),
            supervisor: Vec::new(),
            guard,
            approvals: Arc::new(ApprovalFile::in_folder(&self.path().join("state"))),
        };
        Pool::new(vec![("srv".to_owned(), config)], settings)
    }

    /// Returns a pool whose one server has been listed.
    pub(crate) async fn listed(&self, behaviour: &str) -> (Pool, ServerReport) {
        let pool = self.pool(&self.program(behaviour), None);
        let report = pool.list_tools().await.remove(0);
        (pool, report)
    }

    /// Returns the number of times that the server was started.
    pub(crate) fn starts(&self) -> usize {
        self.lines("starts").len()
    }

    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Returns the tool whose name ends in `name`.
pub(crate) fn tool(pool: &Pool, name: &str) -> Arc<dyn Tool> {
    let wanted = format!("mcp__srv__{name}");
    let tools = pool.tools();
    let found = tools.iter().find(|tool| tool.spec().name == wanted);
    Arc::clone(found.unwrap_or_else(|| panic!("no {wanted}")))
}

/// Calls a tool as a run does.
pub(crate) async fn run(tool: &dyn Tool, arguments: Value) -> Result<ToolAnswer, String> {
    let call = CallId::new(1, 0);
    let run = RunId::from_uuid(uuid());
    let effect = EffectId::new(run, &call);
    let context = ToolContext {
        run,
        call: &call,
        effect: &effect,
        workspace: Path::new("/"),
        tenant: None,
        lang: Lang::En,
        exec_timeout: Duration::from_secs(1),
        confinement: Confinement::default(),
        read_only: false,
        worktree: None,
        skills: &[],
        permits: &(Arc::new(UnusedHost) as Arc<dyn Permits>),
        spawner: &UnusedHost,
        blobs: &UnusedHost,
    };
    let reply = tool.run(&context, arguments).await;
    let text = format!("{reply:?} {tool:?}");
    assert!(!text.contains(SECRET), "{text}");
    match reply {
        Ok(ToolOutcome::Answer(answer)) => Ok(answer),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.0),
    }
}

/// Waits until a condition holds; fails after [`SOON`].
pub(crate) async fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(SOON, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "not in time: {what}");
}

/// Returns whether a process has ended; a zombie counts as ended.
pub(crate) fn is_gone(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => true,
    }
}

fn uuid() -> uuid::Uuid {
    uuid::Uuid::from_u128(7)
}

/// A tool host without children, blobs, files or hosts.
#[derive(Debug)]
struct UnusedHost;

#[async_trait]
impl Spawner for UnusedHost {
    async fn spawn(&self, _: SpawnRequest) -> Result<Spawned, ToolFailure> {
        Err(ToolFailure::new("nobody"))
    }

    async fn manage(&self, _: ManageRequest) -> ToolReply {
        Err(ToolFailure::new("nobody"))
    }
}

#[async_trait]
impl BlobReader for UnusedHost {
    async fn read_blob(&self, _: &BlobId) -> Option<Vec<u8>> {
        None
    }
}

impl Permits for UnusedHost {
    fn path(&self, _: &Path) -> Result<(), String> {
        Err("nobody".to_owned())
    }

    fn host(&self, _: &str) -> Result<(), String> {
        Err("nobody".to_owned())
    }
}
