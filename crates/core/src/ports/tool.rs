//! Running a tool.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::ChildWait;
use crate::id::{BlobId, CallId, EffectId, RunId};
use crate::message::{ChildRef, Todo};
use crate::request::Question;
use crate::run::{Confinement, SpawnRequest, Worktree};
use crate::skill::SkillRef;
use crate::words::Lang;

/// What a model is told about a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

/// Another name under which a tool can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// The other name.
    pub name: &'static str,
    /// Arguments that are called otherwise under that name: (theirs, ours).
    pub renames: &'static [(&'static str, &'static str)],
}

/// What a tool touches: decides about asking, parallelism and policy groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// Nothing but the run itself: a todo list, a question. Calls run in parallel.
    Nothing,
    /// It looks at files. Calls run in parallel.
    Reads,
    /// It changes files of the workspace.
    Files,
    /// It runs programs.
    Processes,
    /// It asks a server of the network for something. Calls run in parallel.
    Network,
    /// It asks a service of somebody else's, which may do anything.
    Services,
    /// It starts or manages other runs.
    Runs,
}

/// A tool.
///
/// Implementers guarantee that dropping the future of `run` stops the work, including every
/// process it started, and that what they return is bounded.
#[async_trait]
pub trait Tool: Send + Sync + fmt::Debug {
    /// What a model is told about it.
    fn spec(&self) -> &ToolSpec;
    /// What it touches.
    fn touches(&self) -> Touches;
    /// What may be done with a call whose outcome a crash has hidden.
    fn recovery(&self) -> Recovery<'_>;
    /// What a person should see of a call before saying yes: a diff, or the programs that would run.
    async fn preview(&self, _context: &ToolContext<'_>, _arguments: &Value) -> Option<String> {
        None
    }
    /// Other names it answers to.
    fn spellings(&self) -> &[Spelling] {
        &[]
    }
    /// Does it. The arguments fit the schema.
    async fn run(&self, context: &ToolContext<'_>, arguments: Value) -> ToolReply;
}

/// The reply of a tool: an outcome, or a failure for the model to read and react to.
pub type ToolReply = Result<ToolOutcome, ToolFailure>;

/// What may be done with a call whose outcome a crash has hidden.
#[derive(Clone, Copy)]
pub enum Recovery<'a> {
    /// Running it again does no harm.
    Repeatable,
    /// It can find out whether it happened.
    Reconcilable(&'a dyn Reconcile),
    /// Nobody can tell: the model is told to look first, after whatever the call has left running
    /// was ended. `None` says that it leaves nothing behind.
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

/// How a tool finds out, after a crash, whether a call of its happened.
#[async_trait]
pub trait Reconcile: Send + Sync {
    /// What to remember before the call runs.
    async fn fingerprint(&self, context: &ToolContext<'_>, arguments: &Value) -> Value;
    /// Whether the call happened, given what was remembered.
    async fn reconcile(
        &self,
        context: &ToolContext<'_>,
        arguments: &Value,
        fingerprint: &Value,
    ) -> Reconciled;
}

/// What a call that a crash interrupted may have left running.
///
/// Otherwise the model would look whether the call happened while it still happens. Implementers
/// guarantee that they find what an earlier process started by the effect alone, as nothing else
/// survives a crash; that they end nothing of another effect, nor their own process; and that they
/// return within a bounded time, also if something could not be ended.
#[async_trait]
pub trait Remains: Send + Sync {
    /// Ends whatever a call that a crash interrupted has left running; returns how many processes.
    async fn stop(&self, effect: &EffectId) -> usize;
}

/// Whether a call happened before the crash.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    /// It did, and this is its answer.
    Happened(ToolAnswer),
    /// It did not: it may run now.
    NotYet,
    /// Nobody can tell.
    Unknown,
}

/// Where and for whom a tool runs.
#[derive(Clone, Copy)]
pub struct ToolContext<'a> {
    /// The run.
    pub run: RunId,
    /// The call.
    pub call: &'a CallId,
    /// The stable name of the effect.
    pub effect: &'a EffectId,
    /// The folder that file tools are confined to.
    pub workspace: &'a Path,
    /// The language for words of the runtime.
    pub lang: Lang,
    /// How long a shell command may take.
    pub exec_timeout: Duration,
    /// What shell commands are started in.
    pub confinement: Confinement,
    /// Whether the run may change anything.
    pub read_only: bool,
    /// The worktree it works in, if it has one of its own.
    pub worktree: Option<&'a Worktree>,
    /// The skills it may load.
    pub skills: &'a [SkillRef],
    /// What policy says about the very file or server that is used in the end.
    pub permits: &'a dyn Permits,
    /// How other runs are started and managed.
    pub spawner: &'a dyn Spawner,
    /// Where long outputs can be read again.
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

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// An answer.
    Answer(ToolAnswer),
    /// The call waits for children.
    Waits(ChildWait),
    /// The call waits for the answer to a question.
    Asks {
        /// What is asked.
        question: Question,
        /// How long an answer is waited for.
        timeout: Duration,
    },
}

/// The answer of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolAnswer {
    /// What it found or did; the runtime cuts it for the model and keeps the whole.
    pub text: String,
    /// A child it started in the background.
    pub spawned: Option<ChildRef>,
    /// The todo list, if it wrote one.
    pub todos: Option<Vec<Todo>>,
    /// Pictures for models that can look at them.
    pub images: Vec<Image>,
    /// What its commands really ran in.
    pub sandbox: Option<Value>,
}

/// A picture that a tool found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl ToolAnswer {
    /// An answer that is only text.
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

/// Why a tool did not do it: a sentence for the model that says what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailure(pub String);

impl ToolFailure {
    /// A failure with this sentence.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Starts and manages runs on behalf of a run's tools.
#[async_trait]
pub trait Spawner: Send + Sync {
    /// Admits a child of the calling run; the same call gets the same child again.
    async fn spawn(&self, request: SpawnRequest) -> Result<Spawned, ToolFailure>;
    /// Does something about the calling run's children.
    async fn manage(&self, request: ManageRequest) -> ToolReply;
}

/// An admitted child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawned {
    /// The child.
    pub child: ChildRef,
    /// Its place in the queue.
    pub queue_position: Option<u32>,
    /// Whether its result will be announced to the caller; a silent child's is not.
    pub announces: bool,
}

/// What a run wants to know or change about its children. `id` is an id, a unique prefix, or a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManageRequest {
    /// All of them.
    List,
    /// One, with its result if it has one.
    Get {
        /// Which.
        id: String,
    },
    /// Wait until these have finished; empty means all.
    Wait {
        /// Which.
        ids: Vec<String>,
    },
    /// Add to its instruction.
    Steer {
        /// Which.
        id: String,
        /// What.
        message: String,
    },
    /// Stop it.
    Cancel {
        /// Which.
        id: String,
    },
    /// Answer its question.
    Answer {
        /// The request.
        request: String,
        /// The words; `None` hands the question on to a person.
        text: Option<String>,
    },
    /// Show what it changed in its worktree.
    Diff {
        /// Which.
        id: String,
    },
    /// Bring what it changed into the workspace.
    Apply {
        /// Which.
        id: String,
    },
    /// Throw away what it changed.
    Discard {
        /// Which.
        id: String,
    },
}

/// Reads long outputs back.
#[async_trait]
pub trait BlobReader: Send + Sync {
    /// The bytes, if this run has such a blob.
    async fn read_blob(&self, id: &BlobId) -> Option<Vec<u8>>;
}

/// What policy says about the object that a call really uses.
///
/// A call was allowed by its words; what the words lead to (a path through links, a redirect) is
/// asked about here, with what was really opened or will really be asked.
pub trait Permits: Send + Sync {
    /// Whether the file at this path, relative to the workspace and without links, may be used; the
    /// sentence says why not.
    fn path(&self, path: &Path) -> Result<(), String>;
    /// Whether this host may be asked.
    fn host(&self, host: &str) -> Result<(), String>;
}
