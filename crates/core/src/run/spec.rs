//! The specification of a run. Kept in its journal, so that a restart changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::AgentDefinition;
use crate::budget::Budget;
use crate::check::Check;
use crate::hook::HookSubscription;
use crate::id::{CallId, RunId, Seq, SessionKey};
use crate::policy::Policy;
use crate::ports::store::AdmissionCaps;
use crate::run::{
    Announce, Cleanup, ContextFork, ForkedContext, Isolation, Lane, Priority, SandboxMode,
};
use crate::skill::SkillRef;
use crate::tenant::Tenant;
use crate::time::Timestamp;
use crate::words::Lang;
use crate::worker::Label;

/// The most characters of a label. A longer one ends with an ellipsis; where there is less room,
/// interfaces truncate it.
pub const LABEL_CHARS: usize = 120;
/// The longest task, in characters. Longer ones are pasted files.
pub const MAX_TASK_CHARS: usize = 200_000;

/// What a run is admitted with: the effective values, after all defaults and overrides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The session that the run is created for.
    pub session: SessionKey,
    /// The tenant, which children inherit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    pub parent: Option<ParentLink>,
    /// The root run of the tree; the run itself for a root.
    pub root: RunId,
    /// The distance from the root; 0 for a root.
    pub depth: u32,
    pub lane: Lane,
    pub priority: Priority,
    pub label: String,
    pub task: String,
    /// The agent, as it was when the run was admitted.
    pub agent: AgentDefinition,
    /// `vendor/model` or a built-in name.
    pub model: String,
    /// Models to prompt in turn when the previous one fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<String>,
    /// The reasoning effort: `default`, `low`, `high`, or a vendor's own value.
    pub thinking: Option<String>,
    #[serde(default)]
    pub sampling: Sampling,
    /// The JSON schema that the result must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Arc<Value>>,
    /// What the host checks after the final answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// The SHA-256 of the files that must change, at admission; `None` if there was no such file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub watched: BTreeMap<String, Option<String>>,
    pub workspace: PathBuf,
    /// The language of the texts that the runtime adds to its prompts.
    pub lang: Lang,
    pub limits: Limits,
    pub announce: Announce,
    pub cleanup: Cleanup,
    /// The tools that the run may call, decided at admission.
    pub tools: Vec<String>,
    /// The run whose history it continues.
    pub continues: Option<RunId>,
    /// The position in another run's journal where it branches off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkPoint>,
    /// The conversation that it starts with, before its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<ForkedContext>>,
    /// Sinks outside the store that receive the result.
    pub report_to: Vec<SinkAddress>,
    /// What the operator's hooks observe of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookSubscription>,
    #[serde(default)]
    pub policy: Policy,
    /// The hash of `policy`, by which the audit refers to it.
    #[serde(default)]
    pub policy_hash: String,
    /// The hash of the operator's settings under which its tree began. Later settings cannot widen
    /// what the tree may do.
    #[serde(default)]
    pub operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillRef>,
    #[serde(default)]
    pub confinement: Confinement,
    #[serde(default = "no_isolation")]
    pub isolation: Isolation,
    /// The run whose account it draws from; itself if it has its own budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<RunId>,
    /// The moment by which the whole tree must end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// Limits on the depth and size of its tree: the same for all its runs, and after every
    /// restart.
    pub caps: AdmissionCaps,
    /// The labels that a worker must have to execute it; children inherit them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Label>,
}

impl RunSpec {
    /// Returns the private session of a run.
    pub fn child_session(&self, run: RunId) -> SessionKey {
        SessionKey::of_child(run, &self.task)
    }
}

/// What confines the shell commands of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub sandbox: SandboxMode,
    /// Whether commands may use the network.
    pub network: bool,
}

impl Default for Confinement {
    /// Returns the strictest confinement.
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

/// Sampling parameters of a model. `None` is the provider's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// From 0, always the likeliest token, to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The maximum tokens of one completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

impl Sampling {
    /// Fills unset parameters from `further`, a less specific setting.
    #[must_use]
    pub fn or(self, further: Self) -> Self {
        Self {
            temperature: self.temperature.or(further.temperature),
            max_tokens: self.max_tokens.or(further.max_tokens),
        }
    }
}

/// Where a run branches off another. The other run's journal up to there is its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    pub run: RunId,
    /// The last entry that belongs to the history.
    pub at: Seq,
}

/// The edge from a child to the call that spawned it. Parent and call are the idempotency key of
/// the spawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentLink {
    pub run: RunId,
    pub call: CallId,
    pub mode: EdgeMode,
}

/// Whether a parent's call waits for the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeMode {
    /// The child's result is the tool result (`task`).
    Blocking,
    /// The call returns at once; the result arrives as an announcement (`spawn_subagent`).
    Background,
}

/// The limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Completions with tool calls, before the run must report what it has.
    pub max_iterations: u32,
    /// Time from its first claim; `None` is unlimited.
    pub timeout_ms: Option<u64>,
    /// The timeout of one shell command.
    pub exec_timeout_ms: u64,
    /// Shared with its descendants.
    pub budget: Budget,
}

/// A sink outside the store that receives results, for example `file:/tmp/results.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkAddress {
    pub scheme: String,
    pub target: String,
}

/// The arguments of a spawn tool: parsed, not yet decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpawnRequest {
    pub task: String,
    /// The first characters of the task if missing.
    pub label: Option<String>,
    /// The default agent if missing.
    pub agent: Option<String>,
    pub mode: EdgeMode,
    /// Replaces the agent's model.
    pub model: Option<String>,
    pub thinking: Option<String>,
    /// `None` is the default; `Some(0)` is no limit.
    pub timeout_seconds: Option<u64>,
    pub cleanup: Option<Cleanup>,
    pub tools: ToolNarrowing,
    pub announce: Option<Announce>,
    pub priority: Option<Priority>,
    /// Shared with the child's descendants.
    pub budget: Budget,
    pub isolation: Option<Isolation>,
    pub skills: SkillNarrowing,
    /// An ended run to continue.
    pub resume: Option<String>,
    /// How much of the caller's conversation the child starts with; `None` is the setting of its
    /// agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ContextFork>,
    /// The JSON schema that the result must match.
    pub result_schema: Option<Value>,
    /// What the host checks after the child's final answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

impl SpawnRequest {
    /// Returns a request with only a task.
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
            fork: None,
            result_schema: None,
            checks: Vec::new(),
        }
    }
}

/// A caller's selection of a child's tools. It can only narrow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolNarrowing {
    /// Only these, if set; an empty list means none.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
    /// Whether the child starts from its parent's tools; `None` is as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherit: Option<bool>,
}

/// A caller's selection of a child's skills. It can only narrow, except for folders of the
/// workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillNarrowing {
    /// Whether the child inherits its parent's skills; `None` is as configured.
    pub inherit: Option<bool>,
    /// More folders with skills, inside the workspace.
    pub extra_dirs: Vec<String>,
    /// Only these, if set; an empty list means none.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}
