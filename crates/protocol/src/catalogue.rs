//! What there is: agents, skills, policies, models, settings.

use serde::{Deserialize, Serialize};
use sortie_core::{AgentDefinition, AgentSource, Decision, Layer, ModelChoice, SkillSource};
use utoipa::ToSchema;

/// A way of working that runs are made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// When a parent should choose it.
    pub when_to_use: String,
    /// Which model it wants: `inherit`, `small`, `plan`, or a name.
    pub model: String,
    /// Whether it may change nothing.
    pub read_only: bool,
    /// The colour people see it in.
    #[schema(required)]
    pub color: Option<String>,
    /// `built_in`, `embedder`, `user` or `project`.
    pub source: String,
    /// Which tools it may have, before policy narrows them.
    pub tools: AgentTools,
    /// Its own iteration cap.
    #[schema(required)]
    pub max_iterations: Option<u32>,
    /// What it is told.
    pub prompt: String,
    /// Whether it is the one that people talk to.
    pub main: bool,
}

/// Which tools an agent may have. Deny wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentTools {
    /// Null is every tool; an empty list is none.
    #[schema(required)]
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}

impl Agent {
    /// An agent as people see it.
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

/// Instructions on disk that a model loads when it needs them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// The folder that holds its `SKILL.md`.
    pub folder: String,
    /// `project`, `user` or `extra`.
    pub source: String,
}

impl From<&sortie_core::SkillRef> for Skill {
    fn from(skill: &sortie_core::SkillRef) -> Self {
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

/// Everything that a run may do, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectivePolicy {
    /// The hash by which audits name it.
    pub hash: String,
    /// How calls that change something are treated.
    pub mode: String,
    /// Whether it may change nothing.
    pub read_only: bool,
    /// Whether commands that look dangerous are treated like all others.
    pub allow_dangerous: bool,
    /// Every layer that has a say, the outermost first.
    pub layers: Vec<PolicyLayer>,
    /// What is decided about each tool, whatever its arguments.
    pub tools: Vec<ToolRuling>,
}

/// The rules of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyLayer {
    /// Which layer.
    pub layer: Layer,
    /// Where the rules stand.
    pub source: String,
    /// Only these calls; null is all.
    #[schema(required)]
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
    /// Not denied after all.
    pub except: Vec<String>,
    /// A person is asked about these.
    pub ask: Vec<String>,
    /// Nobody is asked about these.
    pub approve: Vec<String>,
}

impl From<&sortie_core::PolicyLayer> for PolicyLayer {
    fn from(layer: &sortie_core::PolicyLayer) -> Self {
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

/// What is decided about a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolRuling {
    /// The tool.
    pub name: String,
    /// What.
    pub decision: Decision,
    /// By which layer.
    pub layer: Layer,
    /// By which of its rules.
    #[schema(required)]
    pub rule: Option<String>,
    /// Why.
    pub why: String,
}

impl ToolRuling {
    /// The ruling on a tool.
    pub fn of(name: &str, ruling: &sortie_core::Ruling) -> Self {
        Self {
            name: name.to_owned(),
            decision: ruling.decision,
            layer: ruling.layer,
            rule: ruling.rule.clone(),
            why: ruling.why.clone(),
        }
    }
}

/// What would be decided about a call, and what every layer says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// What.
    pub decision: Decision,
    /// By which layer.
    pub layer: Layer,
    /// By which of its rules.
    #[schema(required)]
    pub rule: Option<String>,
    /// Why.
    pub why: String,
    /// Each thing that a layer says.
    pub layers: Vec<LayerOpinion>,
}

/// What a layer says about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LayerOpinion {
    /// Which layer.
    pub layer: Layer,
    /// Where its rules stand.
    pub source: String,
    /// `denies`, `lifts`, `leaves_out`, `allows`, `asks`, `approves`, or `nothing`.
    pub opinion: String,
    /// By which rule.
    #[schema(required)]
    pub rule: Option<String>,
    /// The same as a short sentence.
    pub why: String,
}

/// One setting, with secrets taken out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigLine {
    /// The key, with dots.
    pub key: String,
    /// The value as text.
    pub value: String,
    /// Who set it.
    pub origin: String,
}

/// What one check of this machine found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorLine {
    /// What was looked at.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found, and what to do.
    pub detail: String,
}
