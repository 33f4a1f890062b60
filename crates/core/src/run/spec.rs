//! Everything a run was admitted with. Kept in its journal, so that a restart changes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::AgentDefinition;
use crate::budget::Budget;
use crate::id::{CallId, RunId, Seq, SessionKey};
use crate::policy::Policy;
use crate::ports::store::AdmissionCaps;
use crate::run::{Announce, Cleanup, Isolation, Lane, Priority, SandboxMode};
use crate::skill::SkillRef;
use crate::tenant::Tenant;
use crate::time::Timestamp;
use crate::words::Lang;

/// How many characters of the task become its label when none is given.
pub const LABEL_CHARS: usize = 30;
/// The longest task a run can be given. Whoever writes more has pasted something into it.
pub const MAX_TASK_CHARS: usize = 200_000;

/// What a run was admitted with: the effective values, after every default and override.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The session that asked.
    pub session: SessionKey,
    /// Whose it is; its children are too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// The run that asked, if one did.
    pub parent: Option<ParentLink>,
    /// The first run of the tree; the run itself for a root.
    pub root: RunId,
    /// How far below the root; 0 for a root.
    pub depth: u32,
    /// The queue it waits in.
    pub lane: Lane,
    /// How urgent it is.
    pub priority: Priority,
    /// What people call it.
    pub label: String,
    /// What it is to do.
    pub task: String,
    /// The agent, as it was when the run was admitted.
    pub agent: AgentDefinition,
    /// The model to ask, `vendor/model` or a built-in name.
    pub model: String,
    /// Models to ask in turn when the one before cannot answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<String>,
    /// How hard the model should think: `default`, `low`, `high`, or the vendor's own word.
    pub thinking: Option<String>,
    /// How freely the model chooses its words, and how many.
    #[serde(default)]
    pub sampling: Sampling,
    /// The JSON schema that the result has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Arc<Value>>,
    /// The folder it works in.
    pub workspace: PathBuf,
    /// The language of the words it reads from the runtime.
    pub lang: Lang,
    /// What it may use.
    pub limits: Limits,
    /// How its result reaches its parent.
    pub announce: Announce,
    /// What happens to its transcript at the end.
    pub cleanup: Cleanup,
    /// The tools it may call: the narrowed set, decided at admission.
    pub tools: Vec<String>,
    /// The run whose history it goes on from.
    pub continues: Option<RunId>,
    /// The place in another run's journal where it branches off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkPoint>,
    /// Places outside the store that want the result.
    pub report_to: Vec<SinkAddress>,
    /// What it may do with them, and who says so.
    #[serde(default)]
    pub policy: Policy,
    /// The hash of `policy`, by which audits and people name it.
    #[serde(default)]
    pub policy_hash: String,
    /// The hash of the settings under which its tree began: others cannot widen what it may do.
    #[serde(default)]
    pub operator: String,
    /// The skills it may load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillRef>,
    /// What its shell commands are started in.
    #[serde(default)]
    pub confinement: Confinement,
    /// Where it works.
    #[serde(default = "no_isolation")]
    pub isolation: Isolation,
    /// The run whose account it draws from; itself if it has a budget of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<RunId>,
    /// The moment at which the whole tree has to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// How deep and how large its tree may be: the same for all its runs, and after every restart.
    pub caps: AdmissionCaps,
}

impl RunSpec {
    /// The private session of a run.
    pub fn child_session(&self, run: RunId) -> SessionKey {
        SessionKey::of_child(run, &self.task)
    }
}

/// What shell commands of a run are started in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Whether there is a sandbox.
    pub sandbox: SandboxMode,
    /// Whether commands may reach the network.
    pub network: bool,
}

impl Default for Confinement {
    /// The strictest.
    fn default() -> Self {
        Self {
            sandbox: SandboxMode::Required,
            network: false,
        }
    }
}

const fn no_isolation() -> Isolation {
    Isolation::None
}

/// How freely a model chooses its words, and how many. `None` is the provider's own default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// From 0, always the likeliest word, to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

impl Sampling {
    /// These wishes, completed by those of somebody further away.
    #[must_use]
    pub fn or(self, further: Self) -> Self {
        Self {
            temperature: self.temperature.or(further.temperature),
            max_tokens: self.max_tokens.or(further.max_tokens),
        }
    }
}

/// Where a run branches off another: what the other had journaled up to there is its past too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The other run.
    pub run: RunId,
    /// The last of its entries that counts.
    pub at: Seq,
}

/// The edge from a child to the call that made it. With the parent's id, the key of idempotence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentLink {
    /// The parent.
    pub run: RunId,
    /// The parent's call.
    pub call: CallId,
    /// Whether the call waits for the result.
    pub mode: EdgeMode,
}

/// Whether a parent's call waits for the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeMode {
    /// The call's answer is the child's result (`task`).
    Blocking,
    /// The call is answered at once; the result comes as an announcement (`spawn_subagent`).
    Background,
}

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Answers with tool calls before the run has to report what it has.
    pub max_iterations: u32,
    /// Running time from its first claim; `None` is unlimited.
    pub timeout_ms: Option<u64>,
    /// How long one shell command may take.
    pub exec_timeout_ms: u64,
    /// What it and all below it may spend.
    pub budget: Budget,
}

/// A place outside the store that wants a result, for example `file:/tmp/results.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkAddress {
    /// Which kind of place.
    pub scheme: String,
    /// Where.
    pub target: String,
}

/// What a model asked for when it called a spawn tool: parsed, not yet decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// What the child is to do.
    pub task: String,
    /// What people call it; the first characters of the task if missing.
    pub label: Option<String>,
    /// The agent to run; the default agent if missing.
    pub agent: Option<String>,
    /// Whether the caller waits.
    pub mode: EdgeMode,
    /// The model to use instead of the agent's.
    pub model: Option<String>,
    /// How hard to think.
    pub thinking: Option<String>,
    /// `None`: the default; `Some(0)`: no limit.
    pub timeout_seconds: Option<u64>,
    /// What happens to the transcript.
    pub cleanup: Option<Cleanup>,
    /// Tools to narrow the child to.
    pub tools: ToolNarrowing,
    /// How the result comes back.
    pub announce: Option<Announce>,
    /// How urgent.
    pub priority: Option<Priority>,
    /// What it and all below it may spend.
    pub budget: Budget,
    /// Where it works.
    pub isolation: Option<Isolation>,
    /// Skills to narrow the child to.
    pub skills: SkillNarrowing,
    /// A finished run to go on from.
    pub resume: Option<String>,
    /// The JSON schema that the result has to fit.
    pub result_schema: Option<Value>,
}

impl SpawnRequest {
    /// A request with nothing but a task.
    pub fn new(task: impl Into<String>, mode: EdgeMode) -> Self {
        Self {
            task: task.into(),
            label: None,
            agent: None,
            mode,
            model: None,
            thinking: None,
            timeout_seconds: None,
            cleanup: None,
            tools: ToolNarrowing::default(),
            announce: None,
            priority: None,
            budget: Budget::default(),
            isolation: None,
            skills: SkillNarrowing::default(),
            resume: None,
            result_schema: None,
        }
    }
}

/// A caller's wish about a child's tools. It can only narrow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolNarrowing {
    /// Only these, if given; an empty list means none.
    pub allow: Option<Vec<String>>,
    /// Not these.
    pub deny: Vec<String>,
    /// Whether the child starts from its parent's tools; `None` is as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherit: Option<bool>,
}

/// A caller's wish about a child's skills. It can only narrow, but for folders of the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillNarrowing {
    /// Whether the child has its parent's skills; `None` is as configured.
    pub inherit: Option<bool>,
    /// More folders with skills, beneath the workspace.
    pub extra_dirs: Vec<String>,
    /// Only these, if given; an empty list means none.
    pub allow: Option<Vec<String>>,
    /// Not these.
    pub deny: Vec<String>,
}
