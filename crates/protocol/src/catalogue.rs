//! Agents, skills, policies and settings of a server.

use serde::{Deserialize, Serialize};
use sortie_core::agent::{AgentDefinition, AgentSource, ModelChoice};
use sortie_core::policy::{Decision, Layer};
use sortie_core::skill::SkillSource;
use utoipa::ToSchema;

/// An agent definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    /// The name of the agent.
    pub name: String,
    /// When a parent should choose the agent.
    pub when_to_use: String,
    /// The model that the agent uses: `inherit`, `small`, `plan`, or a name.
    pub model: String,
    /// Whether the agent must not change anything.
    pub read_only: bool,
    /// The colour of the agent in terminals and in the page.
    #[schema(required)]
    pub color: Option<String>,
    /// `built_in`, `embedder`, `user` or `project`.
    pub source: String,
    /// The tools that the agent may have, before policy narrows them.
    pub tools: AgentTools,
    /// The agent's own limit of iterations.
    #[schema(required)]
    pub max_iterations: Option<u32>,
    /// The system prompt.
    pub prompt: String,
    /// Whether the agent is the main agent.
    pub main: bool,
}

/// The tools that an agent may have. Deny takes precedence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentTools {
    /// Null allows every tool, an empty list none.
    #[schema(required)]
    pub allow: Option<Vec<String>>,
    /// Tools that are never allowed.
    pub deny: Vec<String>,
}

impl Agent {
    /// Converts a definition. `main` says whether it is the main agent.
    pub fn of(agent: &AgentDefinition, main: bool) -> Self {
        Self {
            name: agent.name.clone(),
            when_to_use: agent.when_to_use.clone(),
            model: match &agent.model {
                ModelChoice::Inherit => "inherit".to_owned(),
                ModelChoice::Small => "small".to_owned(),
                ModelChoice::Plan => "plan".to_owned(),
                ModelChoice::Named(name) => name.clone(),
            },
            read_only: agent.read_only,
            color: agent.color.clone(),
            source: match agent.source {
                AgentSource::BuiltIn => "built_in",
                AgentSource::Embedder => "embedder",
                AgentSource::User => "user",
                AgentSource::Project => "project",
            }
            .to_owned(),
            tools: AgentTools {
                allow: agent.tools.allow.clone(),
                deny: agent.tools.deny.clone(),
            },
            max_iterations: agent.max_iterations,
            prompt: agent.prompt.clone(),
            main,
        }
    }
}

/// The models that a task can name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelChoices {
    /// The model of tasks that name none; null if every task has to name one.
    #[schema(required)]
    pub default: Option<String>,
    /// The models of vendors whose key is set and of model servers on the machine of the server, and
    /// `offline`, the built-in model of the demo. Tasks may name others.
    pub models: Vec<String>,
}

/// Instructions in a file that a model loads when it needs them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Skill {
    /// The name of the skill.
    pub name: String,
    /// When to use the skill.
    pub description: String,
    /// The folder of its `SKILL.md`.
    pub folder: String,
    /// `project`, `user` or `extra`.
    pub source: String,
}

impl From<&sortie_core::skill::SkillRef> for Skill {
    fn from(skill: &sortie_core::skill::SkillRef) -> Self {
        Self {
            name: skill.name.clone(),
            description: skill.description.clone(),
            folder: skill.folder.display().to_string(),
            source: match skill.source {
                SkillSource::Project => "project",
                SkillSource::User => "user",
                SkillSource::Extra => "extra",
            }
            .to_owned(),
        }
    }
}

/// The policy of a run, with the origin of each rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectivePolicy {
    /// The hash by which the audit log names the policy.
    pub hash: String,
    /// How calls that change something are treated.
    pub mode: String,
    /// Whether the run must not change anything.
    pub read_only: bool,
    /// Whether dangerous commands need no approval of their own.
    pub allow_dangerous: bool,
    /// The layers that have rules, the outermost first.
    pub layers: Vec<PolicyLayer>,
    /// The decision about each tool, whatever its arguments.
    pub tools: Vec<ToolRuling>,
}

/// The rules of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyLayer {
    /// The layer.
    pub layer: Layer,
    /// Where the rules are defined.
    pub source: String,
    /// Calls that are allowed; null allows all.
    #[schema(required)]
    pub allow: Option<Vec<String>>,
    /// Calls that are denied.
    pub deny: Vec<String>,
    /// Exceptions from `deny`.
    pub except: Vec<String>,
    /// Calls that need an approval.
    pub ask: Vec<String>,
    /// Calls that need no approval.
    pub approve: Vec<String>,
}

impl From<&sortie_core::policy::PolicyLayer> for PolicyLayer {
    fn from(layer: &sortie_core::policy::PolicyLayer) -> Self {
        Self {
            layer: layer.layer,
            source: layer.source.clone(),
            allow: layer.allow.clone(),
            deny: layer.deny.clone(),
            except: layer.except.clone(),
            ask: layer.ask.clone(),
            approve: layer.approve.clone(),
        }
    }
}

/// The policy decision about a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolRuling {
    /// The name of the tool.
    pub name: String,
    /// The decision.
    pub decision: Decision,
    /// The layer that decided.
    pub layer: Layer,
    /// The rule of that layer.
    #[schema(required)]
    pub rule: Option<String>,
    /// The reason.
    pub why: String,
}

impl ToolRuling {
    /// Converts the ruling on a tool.
    pub fn of(name: &str, ruling: &sortie_core::policy::Ruling) -> Self {
        Self {
            name: name.to_owned(),
            decision: ruling.decision,
            layer: ruling.layer,
            rule: ruling.rule.clone(),
            why: ruling.why.clone(),
        }
    }
}

/// The decision about a hypothetical call, with the opinion of every layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// The decision.
    pub decision: Decision,
    /// The layer that decided.
    pub layer: Layer,
    /// The rule of that layer.
    #[schema(required)]
    pub rule: Option<String>,
    /// The reason.
    pub why: String,
    /// The opinions of the layers.
    pub layers: Vec<LayerOpinion>,
}

/// The opinion of one layer about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LayerOpinion {
    /// The layer.
    pub layer: Layer,
    /// Where its rules are defined.
    pub source: String,
    /// `denies`, `lifts`, `leaves_out`, `allows`, `asks`, `approves`, or `nothing`.
    pub opinion: String,
    /// The rule that matched.
    #[schema(required)]
    pub rule: Option<String>,
    /// The opinion as a short sentence.
    pub why: String,
}

/// One setting, redacted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigLine {
    /// The dotted key.
    pub key: String,
    /// The value as text.
    pub value: String,
    /// The layer of the configuration that set it.
    pub origin: String,
}

/// The result of one check of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorLine {
    /// The name of the check.
    pub name: String,
    /// Whether the check passed.
    pub ok: bool,
    /// The finding, and what to do about it.
    pub detail: String,
}
