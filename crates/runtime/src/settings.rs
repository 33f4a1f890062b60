//! What an operator can set, with the defaults of the product.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use sortie_core::budget::Budget;
use sortie_core::policy::{Mode, Rules};
use sortie_core::ports::store::{AdmissionCaps, DeathLimits, LaneLimit};
use sortie_core::run::{Cleanup, Confinement, Isolation, Lane, Sampling};
use sortie_core::words::Lang;

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many runs may run at once.
    pub lanes: Lanes,
    /// Depth and number of runs in a tree.
    pub caps: AdmissionCaps,
    /// Whether runs may send out subagents at all.
    pub subagents_enabled: bool,
    /// Agents that may be sent out; `*` is all.
    pub allowed_agents: Vec<String>,
    /// Models that a spawn call may name beside those that are configured; `*` matches any run of
    /// characters. `None` is every model of the providers of configured models.
    pub allowed_models: Option<Vec<String>>,
    /// The model for agents that want a small one.
    pub small_model: Option<String>,
    /// The model for agents that plan.
    pub plan_model: Option<String>,
    /// The model of children whose agent wants none in particular, else their parent's.
    pub child_model: Option<String>,
    /// What holds for every model, unless something nearer says otherwise.
    pub every_model: ModelDefaults,
    /// What holds for single models, by name, which may hold `*`.
    pub models: BTreeMap<String, ModelDefaults>,
    /// What an operator set for single agents, by their names in small letters.
    pub agents: BTreeMap<String, AgentSettings>,
    /// What happens to the transcripts of children whose caller says nothing.
    pub default_cleanup: Cleanup,
    /// The rules of who may do what.
    pub policy: PolicySettings,
    /// How people are asked.
    pub approvals: ApprovalSettings,
    /// What shell commands are started in.
    pub confinement: Confinement,
    /// The skills of children.
    pub skills: SkillSettings,
    /// The limits of main runs.
    pub main: RunDefaults,
    /// The limits of children.
    pub child: RunDefaults,
    /// How long a claim holds without a heartbeat.
    pub lease: Duration,
    /// How many deaths of its process a run survives.
    pub deaths: DeathLimits,
    /// How long tools under way may still take when the runtime shuts down.
    pub shutdown_grace: Duration,
    /// When transcripts of ended runs are archived; `None` is never.
    pub archive_after: Option<Duration>,
    /// When records of ended trees are removed; `None` is never.
    pub clean_up_after: Option<Duration>,
    /// How often the store is asked for work when nobody gives a hint.
    pub poll_interval: Duration,
    /// How often delivery outside the store is tried before it is blocked.
    pub max_delivery_attempts: u32,
    /// The command that owns the process, for the record of claims.
    pub owner: String,
    /// The language of sentences that belong to no run.
    pub lang: Lang,
}

/// The rules of who may do what, as an operator wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicySettings {
    /// For every run.
    pub global: Rules,
    /// For runs whose model is of a vendor, by the vendor's name.
    pub providers: BTreeMap<String, Rules>,
    /// For runs of sessions, by their key, which may hold `*`.
    pub groups: BTreeMap<String, Rules>,
    /// For runs whose commands are in a sandbox.
    pub sandbox: Rules,
    /// For children: `allow` also lifts what they are denied by default.
    pub children: Rules,
    /// Whether a child starts from the tools of its parent.
    pub inherit_tools: bool,
    /// Whether commands that look dangerous are treated like all others.
    pub allow_dangerous: bool,
}

/// How people are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// Whether anybody will answer; else what would be asked is refused at once.
    pub wait: bool,
    /// How long an answer is waited for.
    pub expiry: Duration,
}

/// The skills of children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSettings {
    /// Whether a child has those of its parent.
    pub inherit: bool,
    /// Only these; `None` is all. `*` matches any run of characters.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
    /// More folders with skills, for children only.
    pub extra_dirs: Vec<String>,
}

/// How a model is asked, unless somebody nearer says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelDefaults {
    /// Models to ask in turn when it cannot answer.
    pub fallbacks: Option<Vec<String>>,
    /// How hard to think.
    pub thinking: Option<String>,
    /// How freely to choose words, and how many.
    pub sampling: Sampling,
}

/// What an operator set for an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentSettings {
    /// Its model, where its definition names none; `inherit` is its parent's.
    pub model: Option<String>,
    /// How its model is asked.
    pub asking: ModelDefaults,
    /// Its iteration cap.
    pub max_iterations: Option<u32>,
    /// Its running time; zero is unlimited.
    pub timeout: Option<Duration>,
    /// The rules for it.
    pub rules: Rules,
    /// What it may hand on to its children instead of what it may do itself.
    pub delegate_ceiling: Option<Vec<String>>,
    /// What it and everything below it may spend.
    pub budget: Budget,
    /// How its calls that change something are treated, if stricter than its parent's.
    pub mode: Option<Mode>,
    /// Where it works.
    pub isolation: Option<Isolation>,
    /// Whether its commands may reach the network.
    pub network: Option<bool>,
    /// The skills it may load; `None` is all that it would have.
    pub skills: Option<Vec<String>>,
}

/// How many runs may run at once.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// Main runs.
    pub main: u32,
    /// Children and background tasks, all together.
    pub subagent: u32,
    /// Children of one parent.
    pub per_parent: u32,
    /// Children of one tree.
    pub per_tree: u32,
}

impl Lanes {
    pub(crate) fn limits(self) -> Vec<LaneLimit> {
        vec![
            LaneLimit {
                lane: Lane::Main,
                max_concurrent: self.main,
            },
            LaneLimit {
                lane: Lane::Subagent,
                max_concurrent: self.subagent,
            },
        ]
    }
}

/// Limits of a run, unless its agent or its caller says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct RunDefaults {
    /// Answers with tool calls.
    pub max_iterations: u32,
    /// Running time; `None` is unlimited.
    pub timeout: Option<Duration>,
    /// One shell command.
    pub exec_timeout: Duration,
    /// What it and everything below it may spend.
    pub budget: Budget,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lanes: Lanes {
                main: 8,
                subagent: 5,
                per_parent: 5,
                per_tree: 5,
            },
            caps: AdmissionCaps {
                max_children_per_tree: 200,
                max_depth: 1,
            },
            subagents_enabled: true,
            allowed_agents: vec!["*".to_owned()],
            allowed_models: None,
            small_model: None,
            plan_model: None,
            child_model: None,
            every_model: ModelDefaults::default(),
            models: BTreeMap::new(),
            agents: BTreeMap::new(),
            default_cleanup: Cleanup::Keep,
            policy: PolicySettings {
                inherit_tools: true,
                ..PolicySettings::default()
            },
            approvals: ApprovalSettings {
                wait: false,
                expiry: Duration::from_secs(3600),
            },
            confinement: Confinement::default(),
            skills: SkillSettings {
                inherit: true,
                allow: None,
                deny: Vec::new(),
                extra_dirs: Vec::new(),
            },
            main: RunDefaults {
                max_iterations: 50,
                timeout: None,
                exec_timeout: Duration::from_secs(30),
                budget: Budget::default(),
            },
            child: RunDefaults {
                max_iterations: 15,
                timeout: Some(Duration::from_secs(30 * 60)),
                exec_timeout: Duration::from_secs(300),
                budget: Budget::default(),
            },
            lease: Duration::from_secs(30),
            deaths: DeathLimits {
                without_progress: 3,
                total: 25,
            },
            shutdown_grace: Duration::from_secs(5),
            archive_after: Some(Duration::from_secs(7 * 24 * 3600)),
            clean_up_after: None,
            poll_interval: Duration::from_secs(1),
            max_delivery_attempts: 8,
            owner: "sortie".to_owned(),
            lang: Lang::En,
        }
    }
}

impl AgentSettings {
    /// The iteration cap, never above the one in the agent's own definition.
    pub(crate) fn max_iterations_within(&self, own: Option<u32>) -> Option<u32> {
        let set = self.max_iterations?;
        Some(own.map_or(set, |own| set.min(own)))
    }
}

/// What holds for an agent that nobody set anything for.
static NOTHING_SET: LazyLock<AgentSettings> = LazyLock::new(AgentSettings::default);

impl Settings {
    /// What was set for a model: by its whole name, else by the longest pattern that fits.
    pub(crate) fn model(&self, name: &str) -> Option<&ModelDefaults> {
        self.models.get(name).or_else(|| {
            let fitting = self
                .models
                .iter()
                .filter(|(pattern, _)| sortie_base::wildcard::matches(pattern, name));
            fitting
                .max_by_key(|(pattern, _)| pattern.len())
                .map(|(_, model)| model)
        })
    }

    /// A hash over everything that gives authority to children that are made later.
    pub(crate) fn authority_hash(&self) -> String {
        let rules: Vec<_> = self
            .agents
            .iter()
            .map(|(name, agent)| (name, &agent.rules, &agent.delegate_ceiling))
            .collect();
        let whole = format!("{:?} {rules:?}", self.policy);
        sortie_core::id::BlobId::of(whole.as_bytes())
            .as_str()
            .to_owned()
    }

    /// What was set for an agent.
    pub(crate) fn agent(&self, name: &str) -> &AgentSettings {
        self.agents
            .get(&name.to_lowercase())
            .unwrap_or(&NOTHING_SET)
    }

    /// Lets this many children run at once, in the lane, of one parent and of one tree.
    #[must_use]
    pub fn with_max_concurrent(mut self, max: u32) -> Self {
        self.lanes.subagent = max;
        self.lanes.per_parent = max;
        self.lanes.per_tree = max;
        self
    }
}
