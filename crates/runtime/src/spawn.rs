//! How a run comes to be: a request becomes a decided, complete [`RunSpec`], and the store admits
//! it or not. Nothing is written before the decision.

use std::path::Path;
use std::time::Duration;

use sortie_agent::{PromptContext, system_prompt};
use sortie_core::{
    AgentDefinition, Announce, Cleanup, EdgeMode, LABEL_CHARS, Lane, Lang, Limits, ModelChoice,
    ParentLink, Priority, RunId, RunSpec, SpawnRequest, ToolNarrowing, Touches,
};
use sortie_policy::{DefaultDeny, Denial, GrantQuestion, ToolFacts, grant, matches};
use sortie_text::{first_chars, one_line, t, text};

use crate::runtime::{NewRun, Shared};
use crate::settings::RunDefaults;

/// The longest task a run can be given. A model that writes more has pasted something into it.
const MAX_TASK_CHARS: usize = 200_000;
/// The longest deadline, a hundred years: later ones are mistakes, and do not fit the store.
const LONGEST_TIMEOUT_MS: u64 = 100 * 365 * 24 * 3_600 * 1_000;
/// What names of models begin with that are files of the operator's.
const MODEL_IN_A_FILE: &str = "script:";
/// The agent of a spawn that names none.
const DEFAULT_CHILD_AGENT: &str = "general";

/// Why there will be no run: a sentence for whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SpawnRefused(pub(crate) String);

/// Who asks for a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    pub(crate) run: RunId,
    pub(crate) spec: &'a RunSpec,
    pub(crate) call: &'a sortie_core::CallId,
}

impl Shared {
    /// Decides about a run without a parent.
    pub(crate) fn root_spec(&self, run: RunId, new: NewRun) -> Result<RunSpec, SpawnRefused> {
        let lang = new.lang;
        let lane = new.lane;
        let agent = match &new.agent {
            None if lane == Lane::Main => self.agents.main().clone(),
            None => self.child_agent(lang, DEFAULT_CHILD_AGENT)?.clone(),
            Some(name) => self.known_agent(lang, name)?.clone(),
        };
        let defaults = match lane {
            Lane::Main => &self.settings.main,
            Lane::Subagent => &self.settings.child,
        };
        let depth = 0;
        // A background task has nobody who would read what its own children report.
        let default_deny = match lane {
            Lane::Main => DefaultDeny::Root,
            Lane::Subagent => DefaultDeny::Leaf,
        };
        let tools = self.granted(lang, &agent, None, default_deny, &ToolNarrowing::default())?;
        let model = self.model_for(&agent, new.model.as_deref(), &new.default_model);
        Ok(RunSpec {
            session: new.session,
            parent: None,
            root: run,
            depth,
            lane,
            priority: new.priority,
            label: label_of(new.label.as_deref(), &new.task),
            limits: limits_of(
                defaults,
                &agent,
                new.max_iterations,
                new.timeout.map(millis),
                new.budget,
            ),
            agent: self.prepared(agent, &tools, lang, &new.workspace),
            task: checked_task(lang, new.task)?,
            model,
            thinking: new.thinking,
            workspace: new.workspace,
            lang,
            announce: Announce::Steer,
            cleanup: Cleanup::Keep,
            tools,
            continues: new.continues,
            report_to: new.report_to,
            approved: new.approved,
            caps: self.settings.caps,
        })
    }

    /// Decides about a child.
    pub(crate) fn child_spec(
        &self,
        requester: Requester<'_>,
        request: SpawnRequest,
        continues: Option<RunId>,
    ) -> Result<RunSpec, SpawnRefused> {
        let parent = requester.spec;
        let lang = parent.lang;
        if !self.settings.subagents_enabled {
            return Err(SpawnRefused(text(lang, "spawn-disabled", &[])));
        }
        if let Some(model) = &request.model
            && model.starts_with(MODEL_IN_A_FILE)
            && *model != parent.model
        {
            // A run's words must not open files, and errors about them must not show any.
            return Err(SpawnRefused(t!(
                lang,
                "spawn-model-not-allowed",
                model = one_line(first_chars(model, 4 * LABEL_CHARS))
            )));
        }
        let name = request.agent.as_deref().unwrap_or(DEFAULT_CHILD_AGENT);
        let agent = self.child_agent(lang, name)?.clone();
        let depth = parent.depth + 1;
        let default_deny = DefaultDeny::at(depth, parent.caps.max_depth);
        let tools = self.granted(
            lang,
            &agent,
            Some(&parent.tools),
            default_deny,
            &request.tools,
        )?;
        Ok(RunSpec {
            session: parent.session.clone(),
            parent: Some(ParentLink {
                run: requester.run,
                call: requester.call.clone(),
                mode: request.mode,
            }),
            root: parent.root,
            depth,
            lane: Lane::Subagent,
            priority: request.priority.unwrap_or(Priority::Normal),
            label: label_of(request.label.as_deref(), &request.task),
            limits: limits_of(
                &self.settings.child,
                &agent,
                None,
                request
                    .timeout_seconds
                    .map(|seconds| seconds.saturating_mul(1000)),
                request.budget.within(parent.limits.budget),
            ),
            model: self.model_for(&agent, request.model.as_deref(), &parent.model),
            agent: self.prepared(agent, &tools, lang, &parent.workspace),
            task: checked_task(lang, request.task)?,
            thinking: request.thinking.or_else(|| parent.thinking.clone()),
            workspace: parent.workspace.clone(),
            lang,
            // Who waits for a result cannot be kept from hearing it.
            announce: match request.mode {
                EdgeMode::Blocking => Announce::Steer,
                EdgeMode::Background => request.announce.unwrap_or(Announce::Steer),
            },
            cleanup: request.cleanup.unwrap_or(Cleanup::Keep),
            tools,
            continues,
            report_to: Vec::new(),
            approved: parent.approved,
            caps: parent.caps,
        })
    }

    fn known_agent(&self, lang: Lang, name: &str) -> Result<&AgentDefinition, SpawnRefused> {
        self.agents.find(name).ok_or_else(|| {
            SpawnRefused(text(
                lang,
                "spawn-unknown-agent",
                &[("name", name.into()), ("known", self.agents.names().into())],
            ))
        })
    }

    /// An agent that may be sent out: known, allowed, and not the main one.
    fn child_agent(&self, lang: Lang, name: &str) -> Result<&AgentDefinition, SpawnRefused> {
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
            Err(SpawnRefused(text(
                lang,
                "spawn-agent-not-allowed",
                &[
                    ("name", agent.name.as_str().into()),
                    ("known", self.agents.names().into()),
                ],
            )))
        }
    }

    fn is_allowed(&self, agent: &AgentDefinition) -> bool {
        let mut patterns = self.settings.allowed_agents.iter();
        patterns.any(|pattern| matches(pattern, &agent.name))
    }

    fn granted(
        &self,
        lang: Lang,
        agent: &AgentDefinition,
        parent: Option<&[String]>,
        default_deny: DefaultDeny,
        narrowing: &ToolNarrowing,
    ) -> Result<Vec<String>, SpawnRefused> {
        let offered: Vec<ToolFacts> = self
            .toolbox
            .facts()
            .iter()
            .filter(|tool| self.settings.subagents_enabled || tool.touches != Touches::Runs)
            .cloned()
            .collect();
        grant(&GrantQuestion {
            registered: &offered,
            parent,
            agent: &agent.tools,
            read_only: agent.read_only,
            default_deny,
            narrowing,
        })
        .map_err(|denial| SpawnRefused(nothing_left(lang, agent, &denial)))
    }

    fn model_for(&self, agent: &AgentDefinition, asked: Option<&str>, parent: &str) -> String {
        let own = match &agent.model {
            ModelChoice::Inherit => None,
            ModelChoice::Small => self.settings.small_model.as_deref(),
            ModelChoice::Plan => self.settings.plan_model.as_deref(),
            ModelChoice::Named(name) => Some(name.as_str()),
        };
        asked.or(own).unwrap_or(parent).to_owned()
    }

    fn prepared(
        &self,
        mut agent: AgentDefinition,
        tools: &[String],
        lang: Lang,
        workspace: &Path,
    ) -> AgentDefinition {
        let may_delegate = tools
            .iter()
            .any(|tool| tool == "task" || tool == "spawn_subagent");
        let mut allowed = self.agents.children().to_vec();
        allowed.retain(|child| may_delegate && self.is_allowed(child));
        agent.prompt = system_prompt(
            &agent,
            &PromptContext {
                lang,
                workspace,
                agents: &allowed,
            },
        );
        agent
    }
}

fn limits_of(
    defaults: &RunDefaults,
    agent: &AgentDefinition,
    max_iterations: Option<u32>,
    timeout_ms: Option<u64>,
    budget: sortie_core::Budget,
) -> Limits {
    let timeout_ms = match timeout_ms {
        None => defaults.timeout.map(millis),
        Some(0) => None,
        Some(limit) => Some(limit.min(LONGEST_TIMEOUT_MS)),
    };
    Limits {
        max_iterations: max_iterations
            .or(agent.max_iterations)
            .unwrap_or(defaults.max_iterations),
        timeout_ms,
        exec_timeout_ms: millis(defaults.exec_timeout),
        budget,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn label_of(label: Option<&str>, task: &str) -> String {
    let chosen = label
        .map(str::trim)
        .filter(|label| !label.is_empty())
        .map_or_else(
            || one_line(first_chars(task.trim(), LABEL_CHARS)),
            |label| one_line(first_chars(label, 4 * LABEL_CHARS)),
        );
    chosen.trim().to_owned()
}

fn checked_task(lang: Lang, task: String) -> Result<String, SpawnRefused> {
    if task.trim().is_empty() {
        return Err(SpawnRefused(t!(lang, "spawn-empty-task")));
    }
    if task.chars().count() > MAX_TASK_CHARS {
        return Err(SpawnRefused(t!(
            lang,
            "spawn-task-too-long",
            max = MAX_TASK_CHARS
        )));
    }
    Ok(task)
}

fn nothing_left(lang: Lang, agent: &AgentDefinition, denial: &Denial) -> String {
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
