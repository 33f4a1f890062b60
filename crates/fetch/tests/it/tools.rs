//! The web tools against real sockets and hostile pages.

mod fetch;
mod search;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sortie_core::id::{BlobId, CallId, EffectId};
use sortie_core::ports::tool::{
    BlobReader, ManageRequest, Permits, STATUS_ONLY, Spawned, Spawner, Tool, ToolAnswer,
    ToolContext, ToolFailure, ToolOutcome, ToolReply,
};
use sortie_core::run::{Confinement, SpawnRequest};
use sortie_core::words::Lang;

const RUN: &str = "01900000-0000-7000-8000-000000000001";

/// A tool host that provides only permits.
#[derive(Debug)]
struct Bare {
    denied: &'static [&'static str],
}

impl Permits for Bare {
    fn path(&self, _path: &Path) -> Result<(), String> {
        Err("no files here".to_owned())
    }

    fn host(&self, host: &str) -> Result<(), String> {
        match self.denied.contains(&host) {
            true => Err(format!("{host} is denied by policy.")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Spawner for Bare {
    async fn spawn(&self, _request: SpawnRequest) -> Result<Spawned, ToolFailure> {
        Err(ToolFailure::new("no runs here"))
    }

    async fn manage(&self, _request: ManageRequest) -> ToolReply {
        Err(ToolFailure::new("no runs here"))
    }
}

#[async_trait]
impl BlobReader for Bare {
    async fn read_blob(&self, _id: &BlobId) -> Option<Vec<u8>> {
        None
    }
}

/// Calls a tool for a run whose policy denies some hosts.
async fn call_denying(
    tool: &dyn Tool,
    arguments: Value,
    denied: &'static [&'static str],
) -> Result<ToolAnswer, ToolFailure> {
    let schema = jsonschema::validator_for(&tool.spec().parameters).unwrap();
    // What only the host passes is refused in the call of a model.
    let is_host = arguments.get(STATUS_ONLY).is_some();
    assert_eq!(schema.is_valid(&arguments), !is_host, "{arguments}");
    let bare = Bare { denied };
    let run = RUN.parse().unwrap();
    let call = CallId::new(1, 0);
    let context = ToolContext {
        run,
        call: &call,
        effect: &EffectId::new(run, &call),
        workspace: Path::new("."),
        tenant: None,
        lang: Lang::En,
        exec_timeout: Duration::ZERO,
        confinement: Confinement::default(),
        read_only: false,
        worktree: None,
        skills: &[],
        permits: &(Arc::new(Bare { denied }) as Arc<dyn Permits>),
        spawner: &bare,
        blobs: &bare,
    };
    match tool.run(&context, arguments).await? {
        ToolOutcome::Answer(answer) => Ok(answer),
        other @ (ToolOutcome::Waits(_) | ToolOutcome::Asks { .. }) => panic!("{other:?}"),
    }
}

/// Returns the text that the model reads: the result, or the failure after a `!`.
async fn call(tool: &dyn Tool, arguments: Value) -> String {
    match call_denying(tool, arguments, &[]).await {
        Ok(answer) => answer.text,
        Err(failure) => format!("! {failure}"),
    }
}

/// Returns the text inside the frame, and checks the frame.
fn unframed(text: &str) -> &str {
    let (_, rest) = text
        .split_once("----- begin ")
        .unwrap_or_else(|| panic!("{text}"));
    let (mark, rest) = rest.split_once(" -----\n").unwrap();
    let end = format!("\n----- end {mark} -----");
    let (body, after) = rest.split_once(&end).unwrap();
    assert!(!after.contains(mark), "{text}");
    body
}
