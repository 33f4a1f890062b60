//! Shared by the tests of the tools: a temporary workspace, and a runtime that only records.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Map, Value};
use sortie_core::id::{BlobId, CallId, EffectId, RunId};
use sortie_core::message::ChildRef;
use sortie_core::ports::tool::{
    BlobReader, ManageRequest, Permits, Reconciled, Recovery, Spawned, Spawner, Spelling, Tool,
    ToolAnswer, ToolContext, ToolFailure, ToolOutcome, ToolReply,
};
use sortie_core::run::{Confinement, SandboxMode, SpawnRequest};
use sortie_core::tenant::Tenant;
use sortie_core::words::Lang;

use crate::confine::Workspace;

const RUN: &str = "01900000-0000-7000-8000-000000000001";
const CHILD: &str = "01900000-0000-7000-8000-000000000002";

/// A temporary workspace that is removed at the end of the test.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: tempfile::TempDir,
    blobs: Mutex<BTreeMap<BlobId, Vec<u8>>>,
}

impl Folder {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let this = Self {
            folder: tempfile::tempdir().unwrap(),
            blobs: Mutex::default(),
        };
        for (name, content) in files {
            this.write(name, content.as_bytes());
        }
        this
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::open(self.path()).unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub(crate) fn link(&self, name: &str, target: &Path) {
        std::os::unix::fs::symlink(target, self.path().join(name)).unwrap();
    }

    pub(crate) fn fifo(&self, name: &str) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, self.path().join(name), mode).unwrap();
    }

    /// Sets the modification time of a file to that many seconds ago.
    pub(crate) fn age(&self, name: &str, seconds: u64) {
        let file = std::fs::File::options()
            .write(true)
            .open(self.path().join(name))
            .unwrap();
        let day = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        file.set_modified(day - Duration::from_secs(seconds))
            .unwrap();
    }

    pub(crate) fn keep_blob(&self, bytes: &[u8]) -> BlobId {
        let id = BlobId::of(bytes);
        self.blobs
            .lock()
            .unwrap()
            .insert(id.clone(), bytes.to_vec());
        id
    }

    /// Returns whether a write left its temporary file behind in any folder.
    pub(crate) fn has_leftovers(&self) -> bool {
        fn within(folder: &Path) -> bool {
            std::fs::read_dir(folder)
                .unwrap()
                .map(Result::unwrap)
                .any(|entry| {
                    entry.file_name().to_string_lossy().starts_with(".sortie-")
                        || (entry.file_type().unwrap().is_dir() && within(&entry.path()))
                })
        }
        within(self.path())
    }

    /// Returns a unique effect id: tests run concurrently and find processes by it.
    pub(crate) fn effect(&self) -> EffectId {
        let name = self.path().file_name().unwrap().to_string_lossy();
        EffectId::new(RUN.parse().unwrap(), &CallId::from_stored(name))
    }
}

#[async_trait]
impl BlobReader for Folder {
    async fn read_blob(&self, id: &BlobId) -> Option<Vec<u8>> {
        self.blobs.lock().unwrap().get(id).cloned()
    }
}

/// A spawner that records its requests.
#[derive(Debug)]
pub(crate) struct Delegation {
    pub(crate) lang: Lang,
    pub(crate) queue_position: Option<u32>,
    pub(crate) announces: bool,
    pub(crate) refusal: Option<String>,
    pub(crate) permits: Arc<dyn Permits>,
    pub(crate) sandbox: SandboxMode,
    pub(crate) requests: Mutex<Vec<SpawnRequest>>,
    pub(crate) managed: Mutex<Vec<ManageRequest>>,
}

impl Default for Delegation {
    fn default() -> Self {
        Self {
            lang: Lang::En,
            queue_position: None,
            announces: true,
            refusal: None,
            permits: Arc::new(Rules::default()),
            // Tests of the confinement itself use a real sandbox.
            sandbox: SandboxMode::Off,
            requests: Mutex::default(),
            managed: Mutex::default(),
        }
    }
}

impl Delegation {
    pub(crate) fn requests(&self) -> Vec<SpawnRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn managed(&self) -> Vec<ManageRequest> {
        self.managed.lock().unwrap().clone()
    }

    pub(crate) fn child(&self) -> ChildRef {
        ChildRef {
            run: CHILD.parse().unwrap(),
            agent: "explore".into(),
            label: "child".into(),
        }
    }
}

#[async_trait]
impl Spawner for Delegation {
    async fn spawn(&self, request: SpawnRequest) -> Result<Spawned, ToolFailure> {
        if let Some(refusal) = &self.refusal {
            return Err(ToolFailure::new(refusal));
        }
        self.requests.lock().unwrap().push(request);
        Ok(Spawned {
            child: self.child(),
            queue_position: self.queue_position,
            announces: self.announces,
        })
    }

    async fn manage(&self, request: ManageRequest) -> ToolReply {
        self.managed.lock().unwrap().push(request);
        Ok(ToolAnswer::text("managed").into())
    }
}

/// A policy that permits everything except these paths and what is beneath them.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) denied: Vec<&'static str>,
}

impl Rules {
    pub(crate) fn deny(denied: &[&'static str]) -> Arc<dyn Permits> {
        Arc::new(Self {
            denied: denied.to_vec(),
        })
    }
}

impl Permits for Rules {
    fn path(&self, path: &Path) -> Result<(), String> {
        match self.denied.iter().find(|denied| path.starts_with(denied)) {
            Some(denied) => Err(format!("rule `{denied}` denies it")),
            None => Ok(()),
        }
    }

    fn host(&self, host: &str) -> Result<(), String> {
        Err(format!("no host is asked here: {host}"))
    }
}

/// Everything that the context of a call borrows.
struct Setting {
    run: RunId,
    call: CallId,
    effect: EffectId,
    exec_timeout: Duration,
}

impl Setting {
    fn new(folder: &Folder, exec_timeout: Duration) -> Self {
        Self {
            run: RUN.parse().unwrap(),
            call: CallId::new(1, 0),
            effect: folder.effect(),
            exec_timeout,
        }
    }

    fn context<'a>(&'a self, folder: &'a Folder, delegation: &'a Delegation) -> ToolContext<'a> {
        ToolContext {
            run: self.run,
            call: &self.call,
            effect: &self.effect,
            workspace: folder.path(),
            tenant: None,
            lang: delegation.lang,
            exec_timeout: self.exec_timeout,
            confinement: Confinement {
                sandbox: delegation.sandbox,
                network: false,
            },
            read_only: false,
            worktree: None,
            skills: &[],
            permits: &delegation.permits,
            spawner: delegation,
            blobs: folder,
        }
    }
}

const GENEROUS: Duration = Duration::from_secs(60);

pub(crate) async fn outcome_with(
    tool: &dyn Tool,
    folder: &Folder,
    arguments: Value,
    delegation: &Delegation,
) -> ToolReply {
    let setting = Setting::new(folder, GENEROUS);
    tool.run(&setting.context(folder, delegation), arguments)
        .await
}

pub(crate) async fn outcome_of_tenant(
    tool: &dyn Tool,
    folder: &Folder,
    arguments: Value,
    (delegation, tenant): (&Delegation, Option<&Tenant>),
) -> ToolReply {
    let setting = Setting::new(folder, GENEROUS);
    let context = ToolContext {
        tenant,
        ..setting.context(folder, delegation)
    };
    tool.run(&context, arguments).await
}

pub(crate) async fn answer_with(
    tool: &dyn Tool,
    folder: &Folder,
    arguments: Value,
    delegation: &Delegation,
) -> Result<ToolAnswer, ToolFailure> {
    answered(outcome_with(tool, folder, arguments, delegation).await)
}

pub(crate) async fn answer(
    tool: &dyn Tool,
    folder: &Folder,
    arguments: Value,
) -> Result<ToolAnswer, ToolFailure> {
    answer_with(tool, folder, arguments, &Delegation::default()).await
}

/// Returns the preview that an approver would see.
pub(crate) async fn preview(
    tool: &dyn Tool,
    folder: &Folder,
    arguments: &Value,
    delegation: &Delegation,
) -> String {
    let setting = Setting::new(folder, GENEROUS);
    let context = setting.context(folder, delegation);
    tool.preview(&context, arguments).await.unwrap()
}

pub(crate) async fn call(
    tool: &dyn Tool,
    folder: &Folder,
    arguments: Value,
) -> Result<String, ToolFailure> {
    call_within(tool, folder, arguments, GENEROUS).await
}

pub(crate) async fn call_within(
    tool: &dyn Tool,
    folder: &Folder,
    arguments: Value,
    exec_timeout: Duration,
) -> Result<String, ToolFailure> {
    let setting = Setting::new(folder, exec_timeout);
    let delegation = Delegation::default();
    let reply = tool
        .run(&setting.context(folder, &delegation), arguments)
        .await;
    answered(reply).map(|answer| answer.text)
}

fn answered(reply: ToolReply) -> Result<ToolAnswer, ToolFailure> {
    match reply? {
        ToolOutcome::Answer(answer) => Ok(answer),
        other @ (ToolOutcome::Waits(_) | ToolOutcome::Asks { .. }) => {
            panic!("an answer was expected: {other:?}")
        }
    }
}

pub(crate) async fn fingerprint(tool: &dyn Tool, folder: &Folder, arguments: &Value) -> Value {
    let Recovery::Reconcilable(reconcile) = tool.recovery() else {
        panic!("{:?}", tool.recovery());
    };
    let setting = Setting::new(folder, GENEROUS);
    let delegation = Delegation::default();
    let context = setting.context(folder, &delegation);
    reconcile.fingerprint(&context, arguments).await
}

/// Ends the processes that a call has left running.
pub(crate) async fn stop_remains(tool: &dyn Tool, folder: &Folder) -> usize {
    let Recovery::Once(Some(remains)) = tool.recovery() else {
        panic!("{:?}", tool.recovery());
    };
    let setting = Setting::new(folder, GENEROUS);
    let delegation = Delegation::default();
    let context = setting.context(folder, &delegation);
    remains.stop(context.effect).await
}

pub(crate) async fn recover(
    tool: &dyn Tool,
    folder: &Folder,
    arguments: &Value,
    fingerprint: &Value,
) -> String {
    let Recovery::Reconcilable(reconcile) = tool.recovery() else {
        panic!("{:?}", tool.recovery());
    };
    let setting = Setting::new(folder, GENEROUS);
    let delegation = Delegation::default();
    let context = setting.context(folder, &delegation);
    match reconcile.reconcile(&context, arguments, fingerprint).await {
        Reconciled::Happened(answer) => answer.text,
        Reconciled::NotYet => "not yet".to_owned(),
        Reconciled::Unknown => "unknown".to_owned(),
    }
}

/// Renames the arguments of a spelling to the names of the tool.
pub(crate) fn rename(spelling: &Spelling, arguments: &Value) -> Value {
    let renamed: Map<String, Value> = arguments
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| {
            let ours = spelling.renames.iter().find(|(theirs, _)| theirs == name);
            (
                ours.map_or(name.as_str(), |(_, ours)| ours).to_owned(),
                value.clone(),
            )
        })
        .collect();
    Value::Object(renamed)
}
