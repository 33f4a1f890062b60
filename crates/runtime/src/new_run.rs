//! What a person or a program asks for.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sortie_core::{
    Budget, Isolation, Lane, Lang, Mode, Priority, RunId, Sampling, SessionKey, SinkAddress, Tenant,
};

/// A run to be made by a person or a program.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The session that asks.
    pub session: SessionKey,
    /// The agent; the main agent, or `general` for a background task, if missing.
    pub agent: Option<String>,
    /// What it is to do.
    pub task: String,
    /// What people call it.
    pub label: Option<String>,
    /// The model, whatever the agent wants.
    pub model: Option<String>,
    /// The model if the agent wants none in particular.
    pub default_model: String,
    /// Models to ask in turn when the one before cannot answer; `None` is the configured chain.
    pub fallbacks: Option<Vec<String>>,
    /// How hard to think.
    pub thinking: Option<String>,
    /// How freely the model chooses its words, and how many.
    pub sampling: Sampling,
    /// The JSON schema that the result has to fit.
    pub result_schema: Option<Value>,
    /// The folder it works in, by a path without links.
    pub workspace: PathBuf,
    /// Its language.
    pub lang: Lang,
    /// The queue.
    pub lane: Lane,
    /// How urgent.
    pub priority: Priority,
    /// Its own iteration cap.
    pub max_iterations: Option<u32>,
    /// `None` is the default, zero is no limit.
    pub timeout: Option<Duration>,
    /// What it and everything below it may spend.
    pub budget: Budget,
    /// A finished run to go on from.
    pub continues: Option<RunId>,
    /// Places outside that want the result.
    pub report_to: Vec<SinkAddress>,
    /// How calls that change something are treated.
    pub mode: Mode,
    /// Where it works; `None` is as its agent is set.
    pub isolation: Option<Isolation>,
    /// Whose it is.
    pub tenant: Option<Tenant>,
    /// How deep its tree may be, if less than an operator has set.
    pub max_depth: Option<u32>,
}

impl NewRun {
    /// A main run in `workspace`, with every default. Links that lead there are followed now, and
    /// never again.
    pub fn new(task: impl Into<String>, workspace: impl Into<PathBuf>, model: &str) -> Self {
        let given: PathBuf = workspace.into();
        // A folder that is not there is told about by whoever works in it.
        let workspace = given.canonicalize().unwrap_or(given);
        Self::in_checked_folder(task, workspace, model)
    }

    /// The same in a folder that somebody has looked at, whose path has no links: if one is put there
    /// meanwhile, the run is refused, rather than admitted elsewhere.
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
            workspace: workspace.into(),
            lang: Lang::En,
            lane: Lane::Main,
            priority: Priority::Normal,
            max_iterations: None,
            timeout: None,
            budget: Budget::default(),
            continues: None,
            report_to: Vec::new(),
            mode: Mode::Default,
            isolation: None,
            tenant: None,
            max_depth: None,
        }
    }

    /// The same as a background task without a main agent.
    #[must_use]
    pub fn in_background(mut self) -> Self {
        self.lane = Lane::Subagent;
        self
    }
}
