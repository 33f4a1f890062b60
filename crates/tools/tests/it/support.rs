//! A workspace, a shell with the best sandbox of this machine, and a runtime that does nothing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sortie_core::id::{BlobId, CallId, EffectId, RunId};
use sortie_core::ports::tool::{
    BlobReader, ManageRequest, Permits, Recovery, Spawned, Spawner, Tool, ToolAnswer, ToolContext,
    ToolFailure, ToolOutcome, ToolReply,
};
use sortie_core::run::{Confinement, SandboxMode, SpawnRequest, Worktree};
use sortie_core::words::Lang;
use sortie_sandbox::{Mode, Offer, Places, Sandbox, probe};
use sortie_tools::{Exec, ExecSettings};

const HELPER: &str = env!("CARGO_BIN_EXE_sortie-tools-helper");
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const RUN: &str = "01900000-0000-7000-8000-000000000001";

pub(crate) static OFFER: LazyLock<Offer> = LazyLock::new(|| probe(&places(), Path::new(HELPER)));

fn places() -> Places {
    Places {
        path: PATH.split(':').map(PathBuf::from).collect(),
        scratch: std::env::temp_dir(),
        ..Places::default()
    }
}

/// Creates a shell with the best sandbox of this machine.
pub(crate) fn shell() -> Exec {
    shell_in(Mode::Best, OFFER.clone())
}

/// Creates a shell with this sandbox.
pub(crate) fn shell_in(mode: Mode, offer: Offer) -> Exec {
    let helper = PathBuf::from(HELPER);
    let sandbox = Sandbox::new(mode, offer, places(), helper);
    let environment = vec![
        ("PATH".into(), PATH.into()),
        ("GIT_AUTHOR_NAME".into(), "T".into()),
        ("GIT_AUTHOR_EMAIL".into(), "t@example.com".into()),
        ("GIT_COMMITTER_NAME".into(), "T".into()),
        ("GIT_COMMITTER_EMAIL".into(), "t@example.com".into()),
    ];
    Exec::new(ExecSettings { environment }, Some(Arc::new(sandbox)))
}

/// The workspace and the settings that commands run with.
#[derive(Debug)]
pub(crate) struct Scene {
    folder: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) confinement: Confinement,
    pub(crate) read_only: bool,
    pub(crate) worktree: Option<Worktree>,
    pub(crate) time: Duration,
    next: AtomicU32,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::named("work 分析")
    }

    /// Creates a scene with a workspace of this name.
    pub(crate) fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let workspace = root.join(name);
        std::fs::create_dir(&workspace).unwrap();
        Self {
            folder,
            workspace,
            confinement: Confinement::default(),
            read_only: false,
            worktree: None,
            time: Duration::from_secs(60),
            next: AtomicU32::new(0),
        }
    }

    /// Creates a scene with an existing workspace, which is not removed.
    pub(crate) fn at(workspace: &Path) -> Self {
        Self {
            workspace: workspace.to_owned(),
            ..Self::new()
        }
    }

    /// Waits until the workspace is empty: clean-up continues for a moment after the result.
    pub(crate) async fn is_left_empty(&self) {
        let look = async {
            while std::fs::read_dir(&self.workspace).unwrap().count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let patience = Duration::from_secs(30);
        if tokio::time::timeout(patience, look).await.is_err() {
            let left: Vec<_> = std::fs::read_dir(&self.workspace).unwrap().collect();
            panic!("this is left in the workspace: {left:?}");
        }
    }

    /// Returns a folder beside the workspace.
    pub(crate) fn outside(&self) -> PathBuf {
        std::fs::canonicalize(self.folder.path()).unwrap()
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace.join(name)).ok()
    }

    /// Switches the sandbox off.
    pub(crate) fn bare(mut self) -> Self {
        self.confinement.sandbox = SandboxMode::Off;
        self
    }

    /// Returns a unique effect id: processes are found by it.
    pub(crate) fn effect(&self) -> EffectId {
        let name = self.folder.path().file_name().unwrap().to_string_lossy();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let call = CallId::from_stored(format!("{name}-{number}"));
        EffectId::new(RUN.parse().unwrap(), &call)
    }

    pub(crate) async fn run(&self, shell: &Exec, command: &str) -> Result<ToolAnswer, ToolFailure> {
        self.run_as(shell, command, &self.effect()).await
    }

    /// Runs a command with this effect id.
    pub(crate) async fn run_as(
        &self,
        shell: &Exec,
        command: &str,
        effect: &EffectId,
    ) -> Result<ToolAnswer, ToolFailure> {
        let call = CallId::new(1, 0);
        let context = self.context(effect, &call);
        match shell.run(&context, json!({"command": command})).await? {
            ToolOutcome::Answer(answer) => Ok(answer),
            other @ (ToolOutcome::Waits(_) | ToolOutcome::Asks { .. }) => panic!("{other:?}"),
        }
    }

    /// Calls a file tool; policy permits all files.
    pub(crate) async fn call(&self, tool: &dyn Tool, arguments: Value) -> ToolReply {
        let (effect, call) = (self.effect(), CallId::new(1, 0));
        let context = ToolContext {
            permits: &ANY_FILE,
            ..self.context(&effect, &call)
        };
        tool.run(&context, arguments).await
    }

    /// Ends the processes that a call has left running.
    pub(crate) async fn stop_remains(&self, shell: &Exec, effect: &EffectId) -> usize {
        let Recovery::Once(Some(remains)) = shell.recovery() else {
            panic!("{:?}", shell.recovery());
        };
        remains.stop(effect).await
    }

    fn context<'a>(&'a self, effect: &'a EffectId, call: &'a CallId) -> ToolContext<'a> {
        ToolContext {
            run: RUN.parse::<RunId>().unwrap(),
            call,
            effect,
            workspace: &self.workspace,
            tenant: None,
            lang: Lang::En,
            exec_timeout: self.time,
            confinement: self.confinement,
            read_only: self.read_only,
            worktree: self.worktree.as_ref(),
            skills: &[],
            permits: &UNUSED_PERMITS,
            spawner: &UnusedPorts,
            blobs: &UnusedPorts,
        }
    }
}

/// Returns the end of the text, which reports how the command ended.
pub(crate) fn ending(answer: &ToolAnswer) -> &str {
    answer.text.lines().next_back().unwrap_or_default()
}

/// Returns the backend that the answer reports.
pub(crate) fn backend(answer: &ToolAnswer) -> Value {
    answer.sandbox.as_ref().unwrap()["backend"].clone()
}

#[derive(Debug)]
struct AnyFile;

static ANY_FILE: LazyLock<Arc<dyn Permits>> = LazyLock::new(|| Arc::new(AnyFile));

impl Permits for AnyFile {
    fn path(&self, _: &Path) -> Result<(), String> {
        Ok(())
    }

    fn host(&self, host: &str) -> Result<(), String> {
        Err(host.to_owned())
    }
}

/// Ports that the shell never uses.
#[derive(Debug)]
struct UnusedPorts;

static UNUSED_PERMITS: LazyLock<Arc<dyn Permits>> = LazyLock::new(|| Arc::new(UnusedPorts));

impl Permits for UnusedPorts {
    fn path(&self, path: &Path) -> Result<(), String> {
        Err(format!("{}", path.display()))
    }

    fn host(&self, host: &str) -> Result<(), String> {
        Err(host.to_owned())
    }
}

#[async_trait]
impl Spawner for UnusedPorts {
    async fn spawn(&self, _: SpawnRequest) -> Result<Spawned, ToolFailure> {
        Err(ToolFailure::new("nobody is sent out here"))
    }

    async fn manage(&self, _: ManageRequest) -> ToolReply {
        Err(ToolFailure::new("nobody was sent out here"))
    }
}

#[async_trait]
impl BlobReader for UnusedPorts {
    async fn read_blob(&self, _: &BlobId) -> Option<Vec<u8>> {
        None
    }
}
