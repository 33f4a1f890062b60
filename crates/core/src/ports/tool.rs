//! The tool port.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::ChildWait;
use crate::fan_out::FanOutRequest;
use crate::id::{BlobId, CallId, EffectId, RunId};
use crate::message::{ChildRef, Todo};
use crate::request::Question;
use crate::run::{Confinement, SpawnRequest, Worktree};
use crate::skill::SkillRef;
use crate::tenant::Tenant;
use crate::words::Lang;

/// The description of a tool in a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

/// Another name for a tool, with renamed arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spelling {
    pub name: &'static str,
    /// Renamed arguments: (name under this spelling, the tool's name).
    pub renames: &'static [(&'static str, &'static str)],
}

/// What a tool accesses. Decides about approvals, parallelism and policy groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// Only the run itself: a todo list, a question. Calls run in parallel.
    Nothing,
    /// Reads files. Calls run in parallel.
    Reads,
    /// Changes files of the workspace.
    Files,
    /// Starts programs on this machine.
    Processes,
    /// Sends requests to network servers. Calls run in parallel.
    Network,
    /// Uses a third-party service, which may have any effect.
    Services,
    /// Starts or manages other runs.
    Runs,
}

/// A tool.
///
/// Implementers guarantee that dropping the future of `run` stops the work, including every process
/// it started, and that the result is bounded.
#[async_trait]
pub trait Tool: Send + Sync + fmt::Debug {
    /// Returns the description for prompts.
    fn spec(&self) -> &ToolSpec;
    fn touches(&self) -> Touches;
    /// Returns how a call whose outcome a crash has hidden is recovered.
    fn recovery(&self) -> Recovery<'_>;
    /// Returns what an approver should see of a call: a diff, or the programs that would start.
    async fn preview(&self, _context: &ToolContext<'_>, _arguments: &Value) -> Option<String> {
        None
    }
    /// Returns other names for the tool.
    fn spellings(&self) -> &[Spelling] {
        &[]
    }
    /// Runs the call. The arguments match the schema.
    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply;
}

/// The outcome of a tool call, or a failure that the model reads.
pub type ToolReply = Result<ToolOutcome, ToolFailure>;

/// How a call whose outcome a crash has hidden is recovered.
#[derive(Clone, Copy)]
pub enum Recovery<'a> {
    /// The call is repeated; repeating it does no harm.
    Repeatable,
    /// The tool finds out whether the call happened.
    Reconcilable(&'a dyn Reconcile),
    /// The outcome stays unknown. Processes that the call left running are ended, and the result
    /// tells the model to check first. `None` if the tool leaves no processes.
    Once(Option<&'a dyn Remains>),
}

impl fmt::Debug for Recovery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repeatable => "repeatable",
            Self::Reconcilable(_) => "reconcilable",
            Self::Once(_) => "once",
        })
    }
}

/// Finds out, after a crash, whether a call happened.
#[async_trait]
pub trait Reconcile: Send + Sync {
    /// Returns what to remember before the call runs.
    async fn fingerprint(&self, context: &ToolContext<'_>, arguments: &Value) -> Value;
    /// Tells whether the call happened, given what was remembered.
    async fn reconcile(
        &self,
        context: &ToolContext<'_>,
        arguments: &Value,
        fingerprint: &Value,
    ) -> Reconciled;
}

/// Ends what an interrupted call left running.
///
/// Without it the model would check whether the call happened while it is still happening.
/// Implementers guarantee that they find processes of an earlier process by the effect alone,
/// because nothing else survives a crash; that they end no process of another effect, nor their
/// own; and that they return within a bounded time, even if a process could not be ended.
#[async_trait]
pub trait Remains: Send + Sync {
    /// Ends all processes of an interrupted call; returns how many.
    async fn stop(&self, effect: &EffectId) -> usize;
}

/// Whether a call happened before the crash.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    /// It happened, with this result.
    Happened(ToolAnswer),
    /// It did not happen and may run now.
    NotYet,
    /// It cannot be determined.
    Unknown,
}

/// The context of a tool call.
#[derive(Clone, Copy)]
pub struct ToolContext<'a> {
    pub run: RunId,
    pub call: &'a CallId,
    pub effect: &'a EffectId,
    /// The folder that file tools are confined to.
    pub workspace: &'a Path,
    /// The tenant of the run: what a tool keeps for later runs must not reach another one.
    pub tenant: Option<&'a Tenant>,
    /// The language of the runtime's texts.
    pub lang: Lang,
    /// The timeout of a shell command.
    pub exec_timeout: Duration,
    /// What confines shell commands.
    pub confinement: Confinement,
    /// Whether calls that change something are denied.
    pub read_only: bool,
    /// The run's own worktree, if it has one.
    pub worktree: Option<&'a Worktree>,
    /// The skills that the run may load.
    pub skills: &'a [SkillRef],
    /// Checks policy for the file or host that is finally used. Shared, so that work on another
    /// thread can check too.
    pub permits: &'a Arc<dyn Permits>,
    /// Starts and manages other runs.
    pub spawner: &'a dyn Spawner,
    /// Reads long outputs of the run.
    pub blobs: &'a dyn BlobReader,
}

impl fmt::Debug for ToolContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("effect", self.effect)
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// An argument of `web_fetch` that only the host passes, for checks: the answer is the status of the
/// response. It is not in the tool's schema, so a model's call with it is refused.
pub const STATUS_ONLY: &str = "status_only";

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    Answer(ToolAnswer),
    /// The call waits for children.
    Waits(ChildWait),
    /// The call waits for the answer to a question.
    Asks {
        question: Question,
        /// How long the call waits for an answer.
        timeout: Duration,
    },
}

/// The result of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolAnswer {
    /// The full text; the runtime truncates it for the model and stores the whole.
    pub text: String,
    /// A child that the call started in the background.
    pub spawned: Option<ChildRef>,
    /// The todo list, if the call wrote one.
    pub todos: Option<Vec<Todo>>,
    /// Images for models that accept them.
    pub images: Vec<Image>,
    /// The sandbox that its commands ran in.
    pub sandbox: Option<Value>,
}

/// An image that a tool returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    pub bytes: Vec<u8>,
}

impl ToolAnswer {
    /// Returns a result that is only text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

impl From<ToolAnswer> for ToolOutcome {
    fn from(answer: ToolAnswer) -> Self {
        Self::Answer(answer)
    }
}

/// Why a tool failed: a sentence that tells the model what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailure(pub String);

impl ToolFailure {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Starts and manages runs on behalf of a run's tools.
#[async_trait]
pub trait Spawner: Send + Sync {
    /// Admits a child of the calling run. The same call always gets the same child.
    async fn spawn(&self, request: SpawnRequest) -> Result<Spawned, ToolFailure>;
    /// Starts what is next of a fan-out: the call waits, and is made again whenever there is more to
    /// start or to cancel.
    async fn fan_out(&self, _request: FanOutRequest) -> ToolReply {
        Err(ToolFailure::new("No subagents can be started here."))
    }
    /// Manages children of the calling run.
    async fn manage(&self, request: ManageRequest) -> ToolReply;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawned {
    pub child: ChildRef,
    /// The position of a child that waits for a slot; `None` if it runs or is about to.
    pub queue_position: Option<u32>,
    /// Whether the result is announced to the caller; not for a silent child.
    pub announces: bool,
}

/// An operation on the children of a run. `id` is an id, a unique prefix, or a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManageRequest {
    List,
    /// Shows one child, with its result if it has one.
    Get {
        id: String,
    },
    /// Waits until these have ended; empty means all.
    Wait {
        ids: Vec<String>,
    },
    /// Sends a message to a child.
    Steer {
        id: String,
        message: String,
    },
    Cancel {
        id: String,
    },
    /// Answers a child's question.
    Answer {
        request: String,
        /// `None` hands the question to a person.
        text: Option<String>,
    },
    /// Shows the changes in a child's worktree.
    Diff {
        id: String,
    },
    /// Applies a child's changes to the workspace.
    Apply {
        id: String,
    },
    /// Discards a child's changes.
    Discard {
        id: String,
    },
}

/// Reads long outputs by their id.
#[async_trait]
pub trait BlobReader: Send + Sync {
    /// Returns the bytes, if this run has such a blob.
    async fn read_blob(&self, id: &BlobId) -> Option<Vec<u8>>;
}

/// Checks policy for the object that a call really uses.
///
/// A call is allowed by its arguments; what they lead to (a path through links, a redirect) is
/// checked here, for the file that was opened or the host that will be contacted.
pub trait Permits: fmt::Debug + Send + Sync {
    /// Checks the file at this path, relative to the workspace and without links. The error is a
    /// sentence.
    fn path(&self, path: &Path) -> Result<(), String>;
    /// Checks a host before it is contacted.
    fn host(&self, host: &str) -> Result<(), String>;
}
