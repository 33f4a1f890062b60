//! The options of a [`Sortie`](crate::Sortie), one method each.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sortie_config::Config;
use sortie_core::agent::AgentDefinition;
use sortie_core::ports::model::ModelDirectory;
use sortie_core::ports::tool::Tool;
use sortie_core::run::Lane;
use sortie_core::words::Lang;
use sortie_core::worker::Label;
use sortie_runtime::Sink;

use crate::assembly::Assembly;
use crate::error::Error;
use crate::notices::Notices;
use crate::options::{OpenStore, Options, SandboxHelper};
use crate::sortie::Sortie;

/// Configures and starts a [`Sortie`]. Only [`home`](Self::home) is required.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    options: Options,
    models: Option<Arc<dyn ModelDirectory>>,
    small_model: Option<String>,
    max_concurrent: Option<u32>,
    max_depth: Option<u32>,
    approver: bool,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) agents: Vec<AgentDefinition>,
    pub(crate) sinks: Vec<Arc<dyn Sink>>,
    pub(crate) admit_only: bool,
    next_turns_only: bool,
    worker: Option<WorkerOptions>,
    lane_limit: Option<u32>,
    pub(crate) notices: Notices,
}

/// What a worker executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerOptions {
    /// The labels that tasks can require.
    pub labels: Vec<Label>,
    /// The lanes to take tasks from; all if empty.
    pub lanes: Vec<Lane>,
}

impl From<Options> for Builder {
    fn from(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }
}

impl Builder {
    /// Sets the folder of the store. One process at a time can run tasks in it; tasks that a
    /// process leaves unfinished continue in the next one.
    #[must_use]
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.home = folder.into();
        self
    }

    /// Sets the folder in which tasks work unless their request names another. Unset: the current
    /// folder.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.workspace = folder.into();
        self
    }

    /// Sets the model of requests that name none: `vendor/model`, `offline`, `script:FILE`.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.options.config.model = Some(name.into());
        self
    }

    /// Sets the model of agents that want a small one, where the configuration names none.
    #[must_use]
    pub fn small_model(mut self, name: Option<String>) -> Self {
        self.small_model = name;
        self
    }

    /// Replaces the directory of models by the program's own.
    #[must_use]
    pub fn models(mut self, models: Arc<dyn ModelDirectory>) -> Self {
        self.models = Some(models);
        self
    }

    /// Adds a tool. Call it once for each tool.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds an agent, or replaces the built-in one of the same name.
    #[must_use]
    pub fn agent(mut self, agent: AgentDefinition) -> Self {
        self.agents.push(agent);
        self
    }

    /// Adds a sink: a place outside the store to which results are delivered at least once.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn Sink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Sets the operator's configuration: what `sortie.toml` can set. It replaces a
    /// [`model`](Self::model) that was set before.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.options.config = config;
        self
    }

    /// Sets the environment, usually all variables of the process: keys of providers, `PATH`,
    /// `HOME`. Without it no key is found, and shell commands start with an empty environment.
    #[must_use]
    pub fn environment<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        self.options.environment = variables.into_iter().collect();
        self
    }

    /// Sets the language of messages and of built-in prompts. Unset: English.
    #[must_use]
    pub const fn lang(mut self, lang: Lang) -> Self {
        self.options.lang = lang;
        self
    }

    /// Lets shell commands run in the sandbox, through this binary; see
    /// [`sandbox_helper`](crate::sandbox_helper).
    #[must_use]
    pub fn sandbox_helper(mut self, helper: Option<SandboxHelper>) -> Self {
        self.options.helper = helper;
        self
    }

    /// Lets calls that need approval wait for [`Approvals`](crate::Approvals). Without this no
    /// approver is present, and such a call is denied at once.
    #[must_use]
    pub const fn approver(mut self, present: bool) -> Self {
        self.approver = present;
        self
    }

    /// Limits how many children run at once, instead of the configuration.
    #[must_use]
    pub const fn max_concurrent(mut self, max: Option<u32>) -> Self {
        self.max_concurrent = max;
        self
    }

    /// Limits how deep children nest, instead of the configuration.
    #[must_use]
    pub const fn max_depth(mut self, max: Option<u32>) -> Self {
        self.max_depth = max;
        self
    }

    /// Admits, cancels and delivers, but executes no run.
    #[must_use]
    pub const fn admit_only(mut self) -> Self {
        self.admit_only = true;
        self
    }

    /// Lets a result that reaches a session between two turns wait for the next one, instead of starting
    /// a turn. For programs that end with the task that they run.
    #[must_use]
    pub const fn next_turns_only(mut self, only: bool) -> Self {
        self.next_turns_only = only;
        self
    }

    /// Limits how many tasks this process executes at once in each lane, instead of the
    /// configuration; with 0 it leaves all of them to workers.
    #[must_use]
    pub const fn lane_limit(mut self, max: Option<u32>) -> Self {
        self.lane_limit = max;
        self
    }

    /// Makes this process a worker: it executes tasks of a shared store, and leaves turns for waiting
    /// results, deliveries to sinks and retention to the process that owns the store. Build it on a
    /// store of [`Options::open_worker_store`].
    #[must_use]
    pub fn worker(mut self, worker: WorkerOptions) -> Self {
        self.worker = Some(worker);
        self
    }

    /// Sets the receiver of sentences for the operator, such as that an MCP server does not start.
    /// Unset: they are logged as warnings.
    #[must_use]
    pub fn on_notice(mut self, receive: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.notices = Notices::new(receive);
        self
    }

    /// Locks the store, recovers what an earlier process left behind, and starts to run tasks.
    pub async fn build(self) -> Result<Sortie, Error> {
        let options = self.checked_options()?;
        // Both take milliseconds, and neither needs the other.
        let opening = tokio::task::spawn_blocking(move || options.open_store());
        let assembly = self.assemble();
        let store = opening
            .await
            .map_err(|panicked| Error::Io(panicked.into()))??;
        assembly?.start(store).await
    }

    /// Does the same on a store that this process has locked.
    pub async fn build_on(self, store: OpenStore) -> Result<Sortie, Error> {
        self.assemble()?.start(store).await
    }

    /// Reads configuration and files, and starts nothing.
    pub fn assemble(self) -> Result<Assembly, Error> {
        Assembly::read(self)
    }

    /// Returns the options with absolute folders.
    pub(crate) fn checked_options(&self) -> Result<Options, Error> {
        let mut options = self.options.clone();
        if options.home.as_os_str().is_empty() {
            return Err(Error::NoHome);
        }
        options.home = std::path::absolute(&options.home).map_err(Error::Io)?;
        let here = std::env::current_dir().map_err(Error::Io)?;
        options.workspace = here.join(&options.workspace);
        Ok(options)
    }

    pub(crate) fn model_directory(&self, options: &Options) -> Arc<dyn ModelDirectory> {
        match &self.models {
            Some(models) => Arc::clone(models),
            None => options.model_directory(Duration::ZERO, None),
        }
    }

    /// Returns configured settings with what was set on the builder.
    pub(crate) fn adjusted(
        &self,
        mut settings: sortie_runtime::Settings,
    ) -> sortie_runtime::Settings {
        settings.approvals.wait = self.approver;
        if settings.small_model.is_none() {
            settings.small_model.clone_from(&self.small_model);
        }
        if let Some(max) = self.max_depth {
            settings.caps.max_depth = max;
        }
        if let Some(max) = self.lane_limit {
            (settings.lanes.main, settings.lanes.subagent) = (max, max);
        }
        if let Some(worker) = &self.worker {
            settings.worker.is_front = false;
            settings.worker.labels.clone_from(&worker.labels);
            let is_open = |lane| worker.lanes.is_empty() || worker.lanes.contains(&lane);
            if !is_open(Lane::Main) {
                settings.lanes.main = 0;
            }
            if !is_open(Lane::Subagent) {
                settings.lanes.subagent = 0;
            }
        }
        settings.wake_sessions = !self.next_turns_only && !self.admit_only;
        if self.admit_only {
            settings.lanes.main = 0;
        }
        let max_concurrent = self.max_concurrent.filter(|_| !self.admit_only);
        match max_concurrent.or(self.admit_only.then_some(0)) {
            Some(max) => settings.with_max_concurrent(max),
            None => settings,
        }
    }
}
