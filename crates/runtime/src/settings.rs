//! The operator's settings of the runtime, with their defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use sortie_core::budget::Budget;
use sortie_core::config::{
    AgentConfig, ModelConfig, PolicyConfig, SubagentSkillsConfig, SubagentToolsConfig,
};
use sortie_core::hook::Hook;
use sortie_core::policy::ApproveSpawn;
use sortie_core::ports::store::{AdmissionCaps, DeathLimits, LaneLimit};
use sortie_core::run::{Cleanup, Confinement, Lane};
use sortie_core::tenant::TenantRules;
use sortie_core::words::Lang;
use sortie_core::worker::Label;

/// The operator's settings of the runtime.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The most runs that execute at once, by lane.
    pub lanes: Lanes,
    /// Limits on the depth and the number of runs in a tree.
    pub caps: AdmissionCaps,
    /// Whether runs may spawn subagents at all.
    pub subagents_enabled: bool,
    /// Patterns of the agents that may be spawned; `*` matches all.
    pub allowed_agents: Vec<String>,
    /// Models that a spawn call may name beside those that are configured; `*` matches any run of
    /// characters. `None` is every model of the providers of configured models.
    pub allowed_models: Option<Vec<String>>,
    /// The model of agents that request a small one.
    pub small_model: Option<String>,
    /// The model of agents that plan.
    pub plan_model: Option<String>,
    /// The model of children whose agent names none; `None` uses the parent's model.
    pub child_model: Option<String>,
    /// Defaults of all models; more specific settings override them.
    pub every_model: ModelConfig,
    /// Defaults of single models, by name or by a pattern with `*`.
    pub models: BTreeMap<String, ModelConfig>,
    /// Settings of single agents, by their names in lower case.
    pub agents: BTreeMap<String, AgentConfig>,
    /// What happens to the transcript of a child whose caller does not specify it.
    pub default_cleanup: Cleanup,
    /// The policy rules.
    pub policy: PolicyConfig,
    /// The tools of children.
    pub child_tools: SubagentToolsConfig,
    /// How approval requests are handled.
    pub approvals: ApprovalSettings,
    /// Which agents an approver has to allow before they are started as subagents.
    pub approve_spawn: ApproveSpawn,
    /// The sandbox of shell commands.
    pub confinement: Confinement,
    /// The operator's hooks.
    pub hooks: Vec<Hook>,
    /// Secrets of the user and Sortie's own folders: checks of results read no file in them.
    pub hidden: Vec<PathBuf>,
    /// Which skills children have.
    pub skills: SubagentSkillsConfig,
    /// The default limits of main runs.
    pub main: RunDefaults,
    /// The default limits of children.
    pub child: RunDefaults,
    /// How long a lease is valid without a heartbeat.
    pub lease: Duration,
    /// How many crashes of its process a run survives.
    pub deaths: DeathLimits,
    /// How long running tools may still take when the runtime shuts down.
    pub shutdown_grace: Duration,
    /// The age at which ended runs are archived: out of the lists, still readable; `None` is never.
    pub archive_after: Option<Duration>,
    /// The age at which records of ended trees are deleted; `None` is never.
    pub clean_up_after: Option<Duration>,
    /// Whether a result that reaches a session between two turns starts a turn. If not, it waits for
    /// the next one.
    pub wake_sessions: bool,
    /// How often the scheduler polls the store for work when no notification arrives.
    pub poll_interval: Duration,
    /// The number of delivery attempts to a sink before the delivery is blocked.
    pub max_delivery_attempts: u32,
    /// The command that owns the process, as recorded with its claims.
    pub owner: String,
    /// The part of this process among those that share its store.
    pub worker: WorkerSettings,
    /// The weights and quotas of tenants. The front process stores them for all processes.
    pub tenants: TenantRules,
    /// The language of messages that belong to no run.
    pub lang: Lang,
}

/// The part of a process among those that share its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Whether it starts turns, delivers to sinks and applies retention: all but additional workers
    /// do.
    pub is_front: bool,
    /// The name of the machine, for people.
    pub host: String,
    /// Runs that require other labels are left to other processes.
    pub labels: Vec<Label>,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            is_front: true,
            host: "localhost".to_owned(),
            labels: Vec::new(),
        }
    }
}

/// How approval requests are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// Whether an approver is present; if not, a call that needs approval is denied at once.
    pub wait: bool,
    /// How long a request waits for a decision.
    pub expiry: Duration,
}

/// The most runs that execute at once, by lane.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub main: u32,
    /// Children and background tasks, in total.
    pub subagent: u32,
    /// Children of one parent.
    pub per_parent: u32,
    /// Children in one tree.
    pub per_tree: u32,
}

impl Lanes {
    pub(crate) fn limits(self) -> Vec<LaneLimit> {
        let lanes = [(Lane::Main, self.main), (Lane::Subagent, self.subagent)];
        let open = lanes.into_iter().filter(|(_, max)| *max > 0);
        open.map(|(lane, max_concurrent)| LaneLimit {
            lane,
            max_concurrent,
        })
        .collect()
    }
}

/// Default limits of a run, which its agent or its caller can override.
#[derive(Clone, Copy, Debug)]
pub struct RunDefaults {
    /// The most completions with tool calls.
    pub max_iterations: u32,
    /// The time limit of the run; `None` is unlimited.
    pub timeout: Option<Duration>,
    /// The time limit of one shell command.
    pub exec_timeout: Duration,
    /// The budget of the run and its descendants.
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
            every_model: ModelConfig::default(),
            models: BTreeMap::new(),
            agents: BTreeMap::new(),
            default_cleanup: Cleanup::Keep,
            policy: PolicyConfig::default(),
            child_tools: SubagentToolsConfig::default(),
            approvals: ApprovalSettings {
                wait: false,
                expiry: Duration::from_secs(3600),
            },
            approve_spawn: ApproveSpawn::Changing,
            confinement: Confinement::default(),
            hooks: Vec::new(),
            hidden: Vec::new(),
            skills: SubagentSkillsConfig::default(),
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
            wake_sessions: true,
            poll_interval: Duration::from_secs(1),
            max_delivery_attempts: 8,
            owner: "sortie".to_owned(),
            worker: WorkerSettings::default(),
            tenants: TenantRules::default(),
            lang: Lang::En,
        }
    }
}

/// The settings of an agent that the operator did not configure.
static NOTHING_SET: LazyLock<AgentConfig> = LazyLock::new(AgentConfig::default);

impl Settings {
    /// Returns the settings of a model: by its exact name, else by the longest pattern that
    /// matches.
    pub(crate) fn model(&self, name: &str) -> Option<&ModelConfig> {
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

    /// Hashes all settings that grant authority to children created later.
    pub(crate) fn authority_hash(&self) -> String {
        let rules: Vec<_> = self
            .agents
            .iter()
            .map(|(name, agent)| (name, &agent.tools, &agent.delegate_ceiling))
            .collect();
        let whole = format!(
            "{:?} {:?} {rules:?} {}",
            self.policy, self.child_tools, self.approve_spawn
        );
        sortie_core::id::BlobId::of(whole.as_bytes())
            .as_str()
            .to_owned()
    }

    /// Returns the operator's settings of an agent.
    pub(crate) fn agent(&self, name: &str) -> &AgentConfig {
        self.agents
            .get(&name.to_lowercase())
            .unwrap_or(&NOTHING_SET)
    }

    /// Sets how many children run at once: in the lane, of one parent and in one tree.
    #[must_use]
    pub fn with_max_concurrent(mut self, max: u32) -> Self {
        self.lanes.subagent = max;
        self.lanes.per_parent = max;
        self.lanes.per_tree = max;
        self
    }
}
