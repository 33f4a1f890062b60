//! Decides about new runs: a request becomes a complete [`RunSpec`] or a refusal. Nothing is
//! written; the store admits the run afterwards.

mod checks;
mod context;
mod skills;
mod spawn_approval;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sortie_agent::{PromptContext, system_prompt};
use sortie_base::truncate::truncate;
use sortie_base::wildcard::matches;
use sortie_core::agent::{AgentDefinition, DEFAULT_AGENT, ModelChoice};
use sortie_core::budget::Budget;
use sortie_core::check::Check;
use sortie_core::config::{AgentConfig, ModelConfig};
use sortie_core::hook::HookEvent;
use sortie_core::id::{CallId, RunId, SessionKey};
use sortie_core::policy::{Layer, Mode, PolicyLayer, Rules};
use sortie_core::ports::store::AdmissionCaps;
use sortie_core::ports::tool::{Tool, Touches};
use sortie_core::ports::workspace::Skills;
use sortie_core::run::{
    Announce, Cleanup, Confinement, ContextFork, EdgeMode, Isolation, LABEL_CHARS, Lane, Limits,
    MAX_TASK_CHARS, ParentLink, Priority, RunSpec, Sampling, SandboxMode, SinkAddress,
    SkillNarrowing, SpawnRequest, ToolNarrowing,
};
use sortie_core::skill::SkillRef;
use sortie_core::tenant::Tenant;
use sortie_core::time::Timestamp;
use sortie_core::words::Lang;
use sortie_core::worker::{self, Label};
use sortie_policy::{
    AgentRules, CHANGES_OF_CHILDREN, DefaultDeny, Denial, Draft, Parent, PolicyInputs,
    SubagentRules, ToolFacts,
};
use sortie_text::{one_line, t, text};

use crate::agents::Agents;
use crate::authority::{DecidedPolicy, DecisionCache};
use crate::new_run::NewRun;
use crate::refusal::{Refusal, RefusalReason};
use crate::settings::Settings;
use crate::toolbox::{Toolbox, ToolboxError};
use crate::workspace;

use self::checks::{checked_checks, checked_schema, watched};
pub(crate) use self::context::{Conversation, cache_key_of, forked_prompt, offered_of, system_of};
use self::context::{child_fork, requested_fork, shared_prompt};

/// The longest deadline, a hundred years: later ones are mistakes, and do not fit the store.
const LONGEST_TIMEOUT_MS: u64 = 100 * 365 * 24 * 3_600 * 1_000;
/// Prefixes of model names that are files of the operator.
pub const MODELS_IN_FILES: [&str; 2] = ["script:", "replay:"];
/// The model name that means the parent's model.
pub(crate) const INHERIT: &str = "inherit";
/// The tool that loads skills.
const SKILL_TOOL: &str = "skill";

/// Decides about new runs. Writes nothing.
#[derive(Debug)]
pub struct Planner {
    pub(crate) toolbox: Toolbox,
    pub(crate) agents: Agents,
    pub(crate) settings: Settings,
    pub(crate) skills: Arc<dyn Skills>,
    /// The hash of the settings that grant authority.
    operator: String,
    /// The tools that runs can get: all but those for subagents, if subagents are disabled.
    offered: Vec<ToolFacts>,
    decisions: DecisionCache,
}

/// The run that asks for a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    pub(crate) run: RunId,
    pub(crate) spec: &'a RunSpec,
    pub(crate) call: &'a CallId,
    /// The folder that the run works in.
    pub(crate) workspace: &'a Path,
    /// Deadline of everything that the run starts.
    pub(crate) not_after: Option<Timestamp>,
    /// What a child can be forked with; `None` for a preview.
    pub(crate) conversation: Option<Conversation<'a>>,
}

/// A request for a run, from a person, a program or a parent run.
///
/// Everything that differs between them is resolved here, so that one function ([`Planner::plan`])
/// decides about all.
pub(crate) struct RunRequest<'a> {
    /// The parent, and how it waits for the result; `None` for the root of a tree.
    parent: Option<(Requester<'a>, EdgeMode)>,
    session: SessionKey,
    tenant: Option<Tenant>,
    lang: Lang,
    workspace: PathBuf,
    agent: AgentDefinition,
    lane: Lane,
    priority: Priority,
    task: String,
    label: Option<String>,
    default_deny: DefaultDeny,
    caps: AdmissionCaps,
    /// The model that the caller names.
    model: Option<String>,
    /// The model if neither the caller nor the operator names one.
    default_model: String,
    /// `None` is the configured chain.
    fallbacks: Option<Vec<String>>,
    thinking: Option<String>,
    sampling: Sampling,
    result_schema: Option<Value>,
    checks: Vec<Check>,
    max_iterations: Option<u32>,
    /// `None` is the default, zero is no limit.
    timeout_ms: Option<u64>,
    budget: Budget,
    mode: Mode,
    isolation: Isolation,
    narrowing: ToolNarrowing,
    skills: SkillNarrowing,
    announce: Announce,
    cleanup: Cleanup,
    continues: Option<RunId>,
    /// The conversation that the run starts with, and how much of it.
    fork: Option<(ContextFork, Conversation<'a>)>,
    report_to: Vec<SinkAddress>,
    requires: Vec<Label>,
}

impl<'a> RunRequest<'a> {
    fn parent_spec(&self) -> Option<&'a RunSpec> {
        self.parent.map(|(requester, _)| requester.spec)
    }

    fn depth(&self) -> u32 {
        self.parent_spec().map_or(0, |parent| parent.depth + 1)
    }
}

/// What policy needs to know about a run besides its request.
struct Candidate<'a> {
    request: &'a RunRequest<'a>,
    settings: &'a AgentConfig,
    /// The model and its fallbacks.
    models: &'a [String],
    confinement: Confinement,
}

impl Planner {
    pub fn new(
        tools: Vec<Arc<dyn Tool>>,
        agents: Agents,
        settings: Settings,
        skills: Arc<dyn Skills>,
    ) -> Result<Self, ToolboxError> {
        let toolbox = Toolbox::new(tools)?;
        let offered = toolbox.facts().iter().filter(|tool| {
            settings.subagents_enabled
                || (tool.touches != Touches::Runs && tool.name != CHANGES_OF_CHILDREN)
        });
        Ok(Self {
            offered: offered.cloned().collect(),
            toolbox,
            agents,
            operator: settings.authority_hash(),
            decisions: DecisionCache::default(),
            settings,
            skills,
        })
    }

    /// Decides about a run without a parent. `conversation` is that of its session, for a fork.
    pub(crate) fn root_spec(
        &self,
        run: RunId,
        new: NewRun,
        conversation: Option<Conversation<'_>>,
    ) -> Result<RunSpec, Refusal> {
        self.plan(run, self.root_request(new, conversation)?)
    }

    /// Decides about a child.
    pub(crate) fn child_spec(
        &self,
        requester: Requester<'_>,
        run: RunId,
        request: SpawnRequest,
        continues: Option<RunId>,
    ) -> Result<RunSpec, Refusal> {
        self.plan(run, self.child_request(requester, request, continues)?)
    }

    /// Decides about a run: what it may do, which model it uses, where it works and what limits it.
    fn plan(&self, run: RunId, request: RunRequest<'_>) -> Result<RunSpec, Refusal> {
        let (lang, parent, depth) = (request.lang, request.parent_spec(), request.depth());
        let settings = self.settings.agent(&request.agent.name);
        let model = self.forked_model(&request)?;
        let model_options = self.model_options(settings, &model);
        let sampling = model_options.sampling();
        let fallbacks = chain(
            &model,
            request.fallbacks.clone().or(model_options.fallbacks),
        );
        let confinement = self.confinement(settings, parent);
        let derived = self.policy_for(&Candidate {
            request: &request,
            settings,
            models: &[std::slice::from_ref(&model), &fallbacks].concat(),
            confinement,
        })?;
        let result_schema = checked_schema(lang, request.result_schema.clone())?;
        let mut checks = checked_checks(lang, request.checks.clone())?;
        let hooks = self.settings.hooks.iter();
        checks.extend(
            hooks
                .clone()
                .filter(|hook| hook.decides(HookEvent::Stop, &request.agent.name, None))
                .map(|hook| Check::Hook(hook.name.clone())),
        );
        let hooks = hooks
            .filter_map(|hook| hook.subscription(&request.agent.name))
            .collect();
        let watched = watched(&request.workspace, &checks, &self.settings.hidden);
        let skills = self.skills_for(&request, settings)?;
        let limits = self.limits_for(&request, settings);
        let schema = result_schema.as_deref();
        let agent = request.agent.clone();
        let agent = self.with_prompt(lang, agent, &derived.tools, &skills, schema);
        let context = self.context_of(&request, &agent, &derived.tools)?;
        let shared = shared_prompt(&request);
        let account = if limits.budget.needs_account() {
            Some(run)
        } else {
            parent.and_then(|parent| parent.account)
        };
        Ok(RunSpec {
            parent: request.parent.map(|(requester, mode)| ParentLink {
                run: requester.run,
                call: requester.call.clone(),
                mode,
            }),
            root: parent.map_or(run, |parent| parent.root),
            depth,
            session: request.session,
            tenant: request.tenant,
            lane: request.lane,
            priority: request.priority,
            label: label_of(request.label.as_deref(), &request.task),
            task: checked_task(lang, request.task)?,
            agent,
            model,
            fallbacks,
            thinking: match shared {
                Some(shared) => shared.spec.thinking.clone(),
                None => request
                    .thinking
                    .or(model_options.thinking)
                    .or_else(|| parent.and_then(|parent| parent.thinking.clone())),
            },
            sampling: match shared {
                Some(shared) => shared.spec.sampling,
                None => request.sampling.or(sampling),
            },
            result_schema,
            checks,
            watched,
            workspace: request.workspace,
            lang,
            limits,
            account,
            announce: request.announce,
            cleanup: request.cleanup,
            tools: derived.tools,
            continues: request.continues,
            fork: None,
            context,
            report_to: request.report_to,
            hooks,
            policy_hash: derived.hash,
            policy: derived.policy,
            operator: parent
                .map_or_else(|| self.operator.clone(), |parent| parent.operator.clone()),
            skills,
            confinement,
            isolation: request.isolation,
            not_after: request
                .parent
                .and_then(|(requester, _)| requester.not_after),
            caps: request.caps,
            requires: request.requires,
        })
    }

    /// Resolves what a person or a program asks for.
    fn root_request<'a>(
        &self,
        new: NewRun,
        conversation: Option<Conversation<'a>>,
    ) -> Result<RunRequest<'a>, Refusal> {
        let lang = new.lang;
        let workspace = workspace::checked(lang, &new.workspace)?;
        let agent = match &new.agent {
            None if new.lane == Lane::Main => self.agents.main().clone(),
            None => self.child_agent(lang, DEFAULT_AGENT)?.clone(),
            Some(name) => self.known_agent(lang, name)?.clone(),
        };
        let settings = self.settings.agent(&agent.name);
        let max_depth = self.settings.caps.max_depth;
        Ok(RunRequest {
            parent: None,
            session: new.session,
            tenant: new.tenant,
            lang,
            workspace,
            lane: new.lane,
            priority: new.priority,
            task: new.task,
            label: new.label,
            // No run reads what the children of a background task report.
            default_deny: match new.lane {
                Lane::Main => DefaultDeny::Root,
                Lane::Subagent => DefaultDeny::Leaf,
            },
            caps: AdmissionCaps {
                // The operator's limit bounds what a caller can ask for.
                max_depth: new
                    .max_depth
                    .map_or(max_depth, |depth| depth.min(max_depth)),
                ..self.settings.caps
            },
            model: new.model,
            default_model: new.default_model,
            fallbacks: new.fallbacks,
            thinking: new.thinking,
            sampling: new.sampling,
            result_schema: new.result_schema,
            checks: new.checks,
            max_iterations: new.max_iterations,
            timeout_ms: new.timeout.or(settings.timeout()).map(millis),
            budget: new.budget,
            mode: settings.mode.map_or(new.mode, |mode| mode.within(new.mode)),
            isolation: new
                .isolation
                .or(settings.isolation)
                .unwrap_or(Isolation::None),
            narrowing: ToolNarrowing::default(),
            skills: SkillNarrowing::default(),
            announce: match new.lane {
                Lane::Main => Announce::Steer,
                Lane::Subagent => new.announce.unwrap_or(Announce::Silent),
            },
            cleanup: new.cleanup.unwrap_or(Cleanup::Keep),
            continues: new.continues,
            fork: requested_fork(lang, new.fork, new.continues, conversation)?,
            report_to: new.report_to,
            requires: worker::sorted(new.requires),
            agent,
        })
    }

    /// Resolves what a parent run asks for: what it does not name is its own or the operator's.
    fn child_request<'a>(
        &self,
        requester: Requester<'a>,
        request: SpawnRequest,
        continues: Option<RunId>,
    ) -> Result<RunRequest<'a>, Refusal> {
        let parent = requester.spec;
        let lang = parent.lang;
        if !self.settings.subagents_enabled {
            return Err(Refusal::new(
                RefusalReason::SubagentsDisabled,
                text(lang, "spawn-disabled", &[]),
            ));
        }
        workspace::checked(lang, requester.workspace)?;
        if let Some(model) = request.model.as_deref() {
            self.check_model(parent, model)?;
        }
        self.check_tools(lang, &request.tools)?;
        let name = request.agent.as_deref().unwrap_or(DEFAULT_AGENT);
        let agent = self.child_agent(lang, name)?.clone();
        let settings = self.settings.agent(&agent.name);
        // The operator's limit is that of the agent, else that of all children. A call can only
        // shorten it: 0 asks for no limit and gets the operator's.
        let limit_ms = settings
            .timeout()
            .or(self.settings.child.timeout)
            .map(millis);
        let timeout_ms = request
            .timeout_seconds
            .map(|seconds| at_most(seconds.saturating_mul(1000), limit_ms))
            .or(limit_ms);
        Ok(RunRequest {
            parent: Some((requester, request.mode)),
            session: parent.session.clone(),
            tenant: parent.tenant.clone(),
            lang,
            workspace: requester.workspace.to_owned(),
            lane: Lane::Subagent,
            priority: request.priority.unwrap_or(Priority::Normal),
            task: request.task,
            label: request.label,
            default_deny: DefaultDeny::at(parent.depth + 1, parent.caps.max_depth),
            caps: parent.caps,
            model: request.model,
            default_model: parent.model.clone(),
            fallbacks: None,
            thinking: request.thinking,
            sampling: Sampling::default(),
            result_schema: request.result_schema,
            checks: request.checks,
            max_iterations: None,
            timeout_ms,
            budget: request.budget,
            mode: settings.mode.unwrap_or(parent.policy.mode),
            isolation: stricter(request.isolation, settings.isolation),
            narrowing: request.tools,
            skills: request.skills,
            // A parent that waits for a result always gets it.
            announce: Announce::of_child(request.mode, request.announce),
            cleanup: request.cleanup.unwrap_or(self.settings.default_cleanup),
            continues,
            fork: child_fork(requester, request.fork, continues, settings)?,
            report_to: Vec::new(),
            requires: parent.requires.clone(),
            agent,
        })
    }

    fn known_agent(&self, lang: Lang, name: &str) -> Result<&AgentDefinition, Refusal> {
        self.agents.find(name).ok_or_else(|| {
            Refusal::new(
                RefusalReason::UnknownAgent,
                text(
                    lang,
                    "spawn-unknown-agent",
                    &[("name", name.into()), ("known", self.agents.names().into())],
                ),
            )
        })
    }

    /// Returns an agent that may be sent out: known, allowed, and not the main one.
    fn child_agent(&self, lang: Lang, name: &str) -> Result<&AgentDefinition, Refusal> {
        let agent = self.known_agent(lang, name)?;
        let allowed = self.is_allowed(agent);
        let is_child = self
            .agents
            .children()
            .iter()
            .any(|child| child.name == agent.name);
        if allowed && is_child {
            Ok(agent)
        } else {
            Err(Refusal::new(
                RefusalReason::AgentNotAllowed,
                text(
                    lang,
                    "spawn-agent-not-allowed",
                    &[
                        ("name", agent.name.as_str().into()),
                        ("known", self.agents.names().into()),
                    ],
                ),
            ))
        }
    }

    fn is_allowed(&self, agent: &AgentDefinition) -> bool {
        let mut patterns = self.settings.allowed_agents.iter();
        patterns.any(|pattern| matches(pattern, &agent.name))
    }

    /// Decides what the new run may do, or which layers removed every tool.
    fn policy_for(&self, candidate: &Candidate<'_>) -> Result<DecidedPolicy, Refusal> {
        let request = candidate.request;
        let parent = request.parent_spec();
        let policy = &self.settings.policy;
        let sandboxed = candidate.confinement.sandbox == SandboxMode::Required;
        // A child of a run that another operator's settings admitted gets none of this operator's
        // authority.
        let same_operator = parent.is_none_or(|parent| parent.operator == self.operator);
        let mut operator = self.operator_layers(candidate, sandboxed);
        let mut rules = candidate.settings.tools.rules();
        if !same_operator {
            rules.approve.clear();
            for layer in &mut operator {
                layer.approve.clear();
            }
        }
        let draft = Draft::of(&PolicyInputs {
            depth: request.depth(),
            parent: parent.map(|parent| Parent {
                agent: &parent.agent.name,
                policy: &parent.policy,
                tools: &parent.tools,
                delegate_ceiling: self
                    .settings
                    .agent(&parent.agent.name)
                    .delegate_ceiling
                    .as_deref()
                    .filter(|_| same_operator),
            }),
            operator: &operator,
            agent: AgentRules {
                name: &request.agent.name,
                selection: &request.agent.tools,
                settings: &rules,
                read_only: request.agent.read_only,
            },
            subagents: SubagentRules {
                default_deny: request.default_deny,
                rules: &self.settings.child_tools.rules(),
                inherit: request
                    .narrowing
                    .inherit
                    .unwrap_or(self.settings.child_tools.inherit_tools),
            },
            narrowing: &request.narrowing,
            mode: request.mode,
            allow_dangerous: policy.allow_dangerous && same_operator,
            free_agents: self.free_agents(request).as_deref(),
            sandboxed,
        });
        self.decisions.of(draft, &self.offered).map_err(|denial| {
            Refusal::new(
                RefusalReason::NoToolLeft,
                denied_all_text(request.lang, &request.agent, &denial),
            )
        })
    }

    /// Returns the operator's rules for a run: the global ones, and those of its provider, its
    /// session and its sandbox.
    fn operator_layers(&self, candidate: &Candidate<'_>, sandboxed: bool) -> Vec<PolicyLayer> {
        let policy = &self.settings.policy;
        let vendors: Vec<&str> = candidate
            .models
            .iter()
            .map(|model| model.split(['/', ':']).next().unwrap_or_default())
            .collect();
        let mut layers = vec![layer(
            &policy.rules(),
            Layer::Global,
            "config policy".to_owned(),
        )];
        for (name, rules) in &policy.providers {
            if vendors.iter().any(|vendor| matches(name, vendor)) {
                let source = format!("config policy.providers.{name}");
                layers.push(layer(rules, Layer::Provider, source));
            }
        }
        for (pattern, rules) in &policy.groups {
            if matches(pattern, candidate.request.session.as_str()) {
                let source = format!("config policy.groups.{pattern:?}");
                layers.push(layer(rules, Layer::Group, source));
            }
        }
        if sandboxed {
            let source = "config policy.sandbox".to_owned();
            layers.push(layer(&policy.sandbox, Layer::Sandbox, source));
        }
        layers.retain(|layer| !layer.is_empty());
        layers
    }

    /// Returns how shell commands are confined: never less than those of the parent.
    fn confinement(&self, settings: &AgentConfig, parent: Option<&RunSpec>) -> Confinement {
        let wanted = Confinement {
            sandbox: self.settings.confinement.sandbox,
            network: settings
                .network
                .unwrap_or(self.settings.confinement.network),
        };
        match parent {
            None => wanted,
            Some(parent) => Confinement {
                sandbox: match parent.confinement.sandbox {
                    SandboxMode::Required => SandboxMode::Required,
                    SandboxMode::Off => wanted.sandbox,
                },
                network: wanted.network && parent.confinement.network,
            },
        }
    }

    /// Chooses the model: the caller's, then the definition's, then the operator's for the agent,
    /// for its kind and for all children, then the parent's or the caller's default.
    fn model_for(&self, request: &RunRequest<'_>) -> String {
        let default = request.default_model.as_str();
        let of_children = match request.parent {
            Some(_) => self.settings.child_model.as_deref(),
            None => None,
        };
        let set = self.settings.agent(&request.agent.name).model.as_deref();
        let own = match (&request.agent.model, set) {
            (ModelChoice::Named(name), _) => Some(name.as_str()),
            (ModelChoice::Inherit | ModelChoice::Small | ModelChoice::Plan, Some(INHERIT)) => {
                Some(default)
            }
            (ModelChoice::Inherit | ModelChoice::Small | ModelChoice::Plan, Some(set)) => Some(set),
            (ModelChoice::Inherit, None) => None,
            (ModelChoice::Small, None) => self.settings.small_model.as_deref(),
            (ModelChoice::Plan, None) => self.settings.plan_model.as_deref(),
        };
        let named = request.model.as_deref();
        named
            .filter(|named| *named != INHERIT)
            .or(own)
            .or(of_children)
            .unwrap_or(default)
            .to_owned()
    }

    /// Returns the model options: those set for the agent, else for the model, else for all models.
    fn model_options(&self, agent: &AgentConfig, model: &str) -> ModelConfig {
        let of_model = self.settings.model(model);
        let more_general = of_model.into_iter().chain([&self.settings.every_model]);
        more_general.fold(agent.of_model(), ModelConfig::or)
    }

    /// Returns the limits of a run: the caller's, then the operator's for its agent, then the
    /// defaults of its lane.
    fn limits_for(&self, request: &RunRequest<'_>, settings: &AgentConfig) -> Limits {
        let defaults = match request.lane {
            Lane::Main => &self.settings.main,
            Lane::Subagent => &self.settings.child,
        };
        let agent = &request.agent;
        Limits {
            max_iterations: request
                .max_iterations
                // Never above the cap in the agent's own definition.
                .or(match (settings.max_iterations, agent.max_iterations) {
                    (Some(set), Some(own)) => Some(set.min(own)),
                    (set, own) => set.or(own),
                })
                .unwrap_or(defaults.max_iterations),
            timeout_ms: match request.timeout_ms {
                None => defaults.timeout.map(millis),
                Some(0) => None,
                Some(limit) => Some(limit.min(LONGEST_TIMEOUT_MS)),
            },
            exec_timeout_ms: millis(defaults.exec_timeout),
            budget: request
                .budget
                .within(settings.budget.into())
                .or(defaults.budget),
        }
    }

    /// Returns the definition with the complete prompt of the run, except for its workspace.
    fn with_prompt(
        &self,
        lang: Lang,
        mut agent: AgentDefinition,
        tools: &[String],
        skills: &[SkillRef],
        result_schema: Option<&Value>,
    ) -> AgentDefinition {
        let may_delegate = tools
            .iter()
            .any(|tool| ["task", "spawn_subagent", "fan_out"].contains(&tool.as_str()));
        // Without the tool that loads them, skills would only be names.
        let may_load_skills = tools.iter().any(|tool| tool == SKILL_TOOL);
        let mut allowed = self.agents.children().to_vec();
        allowed.retain(|child| may_delegate && self.is_allowed(child));
        agent.prompt = system_prompt(
            &agent,
            &PromptContext {
                lang,
                agents: &allowed,
                skills: if may_load_skills { skills } else { &[] },
                result_schema,
            },
        );
        agent
    }
}

fn layer(rules: &Rules, layer: Layer, source: String) -> PolicyLayer {
    rules.clone().into_layer(layer, source)
}

/// A caller can ask for isolation, but cannot turn off what the operator has set.
fn stricter(requested: Option<Isolation>, set: Option<Isolation>) -> Isolation {
    match (requested, set) {
        (Some(Isolation::Worktree), _) | (_, Some(Isolation::Worktree)) => Isolation::Worktree,
        (Some(Isolation::None) | None, Some(Isolation::None) | None) => Isolation::None,
    }
}

/// Returns the requested time, limited to what the operator has set; 0 is no limit.
fn at_most(requested: u64, set: Option<u64>) -> u64 {
    match (requested, set) {
        (requested, None | Some(0)) => requested,
        (0, Some(set)) => set,
        (requested, Some(set)) => requested.min(set),
    }
}

/// Returns the fallback models, without the first model.
fn chain(model: &str, fallbacks: Option<Vec<String>>) -> Vec<String> {
    let mut fallbacks = fallbacks.unwrap_or_default();
    fallbacks.retain(|other| other != model);
    fallbacks
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the label of a run: the given one, or the first line of its task.
pub(crate) fn label_of(label: Option<&str>, task: &str) -> String {
    let first_line = || task.trim().lines().next().unwrap_or_default();
    let chosen = label
        .map(str::trim)
        .filter(|label| !label.is_empty())
        .unwrap_or_else(first_line);
    truncate(&one_line(chosen), LABEL_CHARS)
}

fn checked_task(lang: Lang, task: String) -> Result<String, Refusal> {
    if task.trim().is_empty() {
        return Err(Refusal::new(
            RefusalReason::EmptyTask,
            t!(lang, "spawn-empty-task"),
        ));
    }
    if task.chars().count() > MAX_TASK_CHARS {
        return Err(Refusal::new(
            RefusalReason::TaskTooLong,
            t!(lang, "spawn-task-too-long", max = MAX_TASK_CHARS),
        ));
    }
    Ok(task)
}

fn denied_all_text(lang: Lang, agent: &AgentDefinition, denial: &Denial) -> String {
    if let Some(why) = &denial.unreadable {
        return t!(
            lang,
            "fail-unreadable-policy",
            agent = agent.name.as_str(),
            why = why.as_str()
        );
    }
    let why: Vec<String> = denial
        .removed
        .iter()
        .map(|(tool, layer)| format!("{tool} ({})", layer.as_str()))
        .collect();
    text(
        lang,
        "fail-denied-all",
        &[
            ("agent", agent.name.as_str().into()),
            ("why", why.join(", ").into()),
        ],
    )
}
