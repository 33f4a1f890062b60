//! How a run comes to be: a request becomes a decided, complete [`RunSpec`], and the store admits
//! it or not. Nothing is written before the decision.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sortie_agent::{PromptContext, system_prompt};
use sortie_core::{
    AgentDefinition, Announce, Cleanup, EdgeMode, LABEL_CHARS, Lane, Lang, Limits, ModelChoice,
    ParentLink, Priority, RunId, RunSpec, Sampling, SpawnRequest, ToolNarrowing, Touches,
};
use sortie_policy::{DefaultDeny, Denial, GrantQuestion, ToolFacts, grant, matches};
use sortie_text::{first_chars, one_line, t, text};

use crate::runtime::{NewRun, Shared};
use crate::settings::{AgentSettings, ModelDefaults, RunDefaults};

/// The longest task a run can be given. A model that writes more has pasted something into it.
const MAX_TASK_CHARS: usize = 200_000;
/// The longest deadline, a hundred years: later ones are mistakes, and do not fit the store.
const LONGEST_TIMEOUT_MS: u64 = 100 * 365 * 24 * 3_600 * 1_000;
/// What names of models begin with that are files of the operator's.
const MODELS_IN_FILES: [&str; 2] = ["script:", "replay:"];
/// The name of a model that means the parent's.
const INHERIT: &str = "inherit";
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
        let settings = self.settings.agent(&agent.name);
        let tools = self.granted(lang, &agent, None, default_deny, &settings.tools)?;
        let model = self.model_for(&agent, new.model.as_deref(), None, &new.default_model);
        let asking = self.asking(settings, &model);
        let schema = checked_schema(lang, new.result_schema)?;
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
                new.max_iterations
                    .or(settings.max_iterations_within(agent.max_iterations)),
                new.timeout.or(settings.timeout).map(millis),
                new.budget,
            ),
            agent: self.prepared(agent, &tools, lang, &new.workspace, schema.as_deref()),
            task: checked_task(lang, new.task)?,
            fallbacks: chain(&model, new.fallbacks.or(asking.fallbacks)),
            model,
            thinking: new.thinking.or(asking.thinking),
            sampling: new.sampling.or(asking.sampling),
            result_schema: schema,
            workspace: new.workspace,
            lang,
            announce: Announce::Steer,
            cleanup: Cleanup::Keep,
            tools,
            continues: new.continues,
            fork: None,
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
            && MODELS_IN_FILES
                .iter()
                .any(|prefix| model.starts_with(prefix))
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
        let settings = self.settings.agent(&agent.name);
        let tools = self.granted(
            lang,
            &agent,
            Some(&parent.tools),
            default_deny,
            &narrower(&request.tools, &settings.tools, &self.settings.denied_tools),
        )?;
        let model = self.model_for(
            &agent,
            request.model.as_deref(),
            self.settings.child_model.as_deref(),
            &parent.model,
        );
        let asking = self.asking(settings, &model);
        let schema = checked_schema(lang, request.result_schema)?;
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
                settings.max_iterations_within(agent.max_iterations),
                request
                    .timeout_seconds
                    .map(|seconds| seconds.saturating_mul(1000))
                    .or(settings.timeout.map(millis)),
                request.budget.within(parent.limits.budget),
            ),
            agent: self.prepared(agent, &tools, lang, &parent.workspace, schema.as_deref()),
            task: checked_task(lang, request.task)?,
            fallbacks: chain(&model, asking.fallbacks),
            model,
            thinking: request
                .thinking
                .or(asking.thinking)
                .or_else(|| parent.thinking.clone()),
            sampling: asking.sampling,
            result_schema: schema,
            workspace: parent.workspace.clone(),
            lang,
            // Who waits for a result cannot be kept from hearing it.
            announce: match request.mode {
                EdgeMode::Blocking => Announce::Steer,
                EdgeMode::Background => request.announce.unwrap_or(Announce::Steer),
            },
            cleanup: request.cleanup.unwrap_or(self.settings.default_cleanup),
            tools,
            continues,
            fork: None,
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

    /// The call's wish, then the definition's, then what was set for the agent, then its kind's,
    /// then that of all children, then the parent's.
    fn model_for(
        &self,
        agent: &AgentDefinition,
        asked: Option<&str>,
        of_children: Option<&str>,
        parent: &str,
    ) -> String {
        let set = self.settings.agent(&agent.name).model.as_deref();
        let own = match (&agent.model, set) {
            (ModelChoice::Named(name), _) => Some(name.as_str()),
            (ModelChoice::Inherit | ModelChoice::Small | ModelChoice::Plan, Some(INHERIT)) => {
                Some(parent)
            }
            (ModelChoice::Inherit | ModelChoice::Small | ModelChoice::Plan, Some(set)) => Some(set),
            (ModelChoice::Inherit, None) => None,
            (ModelChoice::Small, None) => self.settings.small_model.as_deref(),
            (ModelChoice::Plan, None) => self.settings.plan_model.as_deref(),
        };
        asked
            .filter(|asked| *asked != INHERIT)
            .or(own)
            .or(of_children)
            .unwrap_or(parent)
            .to_owned()
    }

    /// How a model is asked: what was set for the agent, for the model, for all models.
    fn asking(&self, agent: &AgentSettings, model: &str) -> ModelDefaults {
        let of_model = self.settings.model(model);
        let of_all = &self.settings.every_model;
        let nearest = [Some(&agent.asking), of_model, Some(of_all)];
        let mut nearest = nearest.into_iter().flatten();
        nearest.clone().fold(
            ModelDefaults {
                fallbacks: nearest.clone().find_map(|asking| asking.fallbacks.clone()),
                thinking: nearest.find_map(|asking| asking.thinking.clone()),
                sampling: Sampling::default(),
            },
            |asking, further| ModelDefaults {
                sampling: asking.sampling.or(further.sampling),
                ..asking
            },
        )
    }

    fn prepared(
        &self,
        mut agent: AgentDefinition,
        tools: &[String],
        lang: Lang,
        workspace: &Path,
        schema: Option<&Value>,
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
        if let Some(schema) = schema {
            agent.prompt.push_str("\n\n");
            agent
                .prompt
                .push_str(&t!(lang, "prompt-schema", schema = schema.to_string()));
        }
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

/// The models to ask in turn, without the first one.
fn chain(model: &str, fallbacks: Option<Vec<String>>) -> Vec<String> {
    let mut fallbacks = fallbacks.unwrap_or_default();
    fallbacks.retain(|other| other != model);
    fallbacks
}

/// What a caller and an operator leave of a child's tools: both can only narrow.
fn narrower(call: &ToolNarrowing, agent: &ToolNarrowing, denied: &[String]) -> ToolNarrowing {
    let allow = match (&call.allow, &agent.allow) {
        (Some(call), Some(agent)) => Some(
            call.iter()
                .filter(|name| agent.iter().any(|pattern| matches(pattern, name)))
                .cloned()
                .collect(),
        ),
        (Some(one), None) | (None, Some(one)) => Some(one.clone()),
        (None, None) => None,
    };
    ToolNarrowing {
        allow,
        deny: [&call.deny, &agent.deny, denied].concat(),
    }
}

fn checked_schema(lang: Lang, schema: Option<Value>) -> Result<Option<Arc<Value>>, SpawnRefused> {
    let Some(schema) = schema else {
        return Ok(None);
    };
    match jsonschema::validator_for(&schema) {
        Ok(_) => Ok(Some(Arc::new(schema))),
        Err(error) => Err(SpawnRefused(t!(
            lang,
            "spawn-bad-schema",
            problem = one_line(first_chars(&error.to_string(), 4 * LABEL_CHARS))
        ))),
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
