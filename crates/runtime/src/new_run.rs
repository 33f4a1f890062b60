//! The request of a person or a program for a run.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sortie_core::budget::Budget;
use sortie_core::check::Check;
use sortie_core::id::{RunId, SessionKey};
use sortie_core::policy::Mode;
use sortie_core::run::{
    Announce, Cleanup, ContextFork, Isolation, Lane, Priority, Sampling, SinkAddress,
};
use sortie_core::tenant::Tenant;
use sortie_core::words::Lang;
use sortie_core::worker::Label;

/// A request of a person or a program for a run.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The session that the run belongs to.
    pub session: SessionKey,
    /// The agent; if `None`, the main agent, or `general` for a background task.
    pub agent: Option<String>,
    pub task: String,
    /// The name that people see.
    pub label: Option<String>,
    /// The model; takes precedence over the agent's.
    pub model: Option<String>,
    /// The model if neither the request, the agent nor the operator names one.
    pub default_model: String,
    /// Models to call in turn if the one before cannot reply; `None` is the configured chain.
    pub fallbacks: Option<Vec<String>>,
    pub thinking: Option<String>,
    /// Temperature, limits and other sampling options.
    pub sampling: Sampling,
    /// The JSON schema that the result has to fit.
    pub result_schema: Option<Value>,
    /// What the host checks after the final answer.
    pub checks: Vec<Check>,
    /// The folder that the run works in, by a path without links.
    pub workspace: PathBuf,
    /// The language of everything that the run and its model read.
    pub lang: Lang,
    /// The lane whose slots the run uses.
    pub lane: Lane,
    /// The priority in the queue.
    pub priority: Priority,
    /// The most completions with tool calls.
    pub max_iterations: Option<u32>,
    /// `None` is the default, zero is no limit.
    pub timeout: Option<Duration>,
    /// What the run and all its descendants may spend.
    pub budget: Budget,
    /// An ended run whose history this one continues.
    pub continues: Option<RunId>,
    /// How much of the conversation of its session the run starts with; `None` is nothing.
    pub fork: Option<ContextFork>,
    /// Sinks that get the result.
    pub report_to: Vec<SinkAddress>,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// Whether the run works in a worktree; `None` is the setting of its agent.
    pub isolation: Option<Isolation>,
    /// The tenant that the run belongs to.
    pub tenant: Option<Tenant>,
    /// How deep its tree may be, if less than the operator's limit.
    pub max_depth: Option<u32>,
    /// Whether the result of a background task is announced to its session, if that is a
    /// conversation; `None` is not.
    pub announce: Option<Announce>,
    /// What happens to the transcript after the end; `None` keeps it.
    pub cleanup: Option<Cleanup>,
    /// The labels that a worker must have to execute the run and its descendants.
    pub requires: Vec<Label>,
}

impl NewRun {
    /// Creates a request for a main run in `workspace`, with every default. Resolves links in the
    /// path now, and never again.
    pub fn new(task: impl Into<String>, workspace: impl Into<PathBuf>, model: &str) -> Self {
        let given: PathBuf = workspace.into();
        // The tools report a folder that does not exist.
        let workspace = given.canonicalize().unwrap_or(given);
        Self::in_checked_folder(task, workspace, model)
    }

    /// The same for a folder that was checked before and whose path has no links: if a link is put
    /// there meanwhile, the run is refused rather than admitted to another folder.
    pub fn in_checked_folder(
        task: impl Into<String>,
        workspace: impl Into<PathBuf>,
        model: &str,
    ) -> Self {
        Self {
            session: SessionKey::cli(),
            agent: None,
            task: task.into(),
            label: None,
            model: None,
            default_model: model.to_owned(),
            fallbacks: None,
            thinking: None,
            sampling: Sampling::default(),
            result_schema: None,
            checks: Vec::new(),
            workspace: workspace.into(),
            lang: Lang::En,
            lane: Lane::Main,
            priority: Priority::Normal,
            max_iterations: None,
            timeout: None,
            budget: Budget::default(),
            continues: None,
            fork: None,
            report_to: Vec::new(),
            mode: Mode::Default,
            isolation: None,
            tenant: None,
            max_depth: None,
            announce: None,
            cleanup: None,
            requires: Vec::new(),
        }
    }

    /// Turns the request into one for a background task without a main agent.
    #[must_use]
    pub fn in_background(mut self) -> Self {
        self.lane = Lane::Subagent;
        self
    }
}
