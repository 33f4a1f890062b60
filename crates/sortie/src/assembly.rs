//! From options to a running runtime, in one place.
//!
//! [`Assembly::read`] reads configuration and files and starts nothing, which is enough for programs
//! that only look. [`Assembly::start`] connects the MCP servers, recovers what an earlier process left
//! behind, and starts the runtime.

use std::sync::Arc;

use sortie_base::hidden::write_out_line;
use sortie_base::redact::Redactor;
use sortie_core::hook::{
    HookEvent, HookInput, HookKind, HookSubject, HookVerdict, Letter, LetterState, NewLetter,
};
use sortie_core::id::{CallId, RunId, SessionKey};
use sortie_core::ports::hooks::Hooks as _;
use sortie_core::ports::model::ModelDirectory;
use sortie_core::ports::tool::Tool;
use sortie_core::run::SandboxMode;
use sortie_core::tenant::TenantRules;
use sortie_core::time::Timestamp;
use sortie_definitions::{AgentFiles, SkillTool};
use sortie_hooks::HookHost;
#[cfg(feature = "mcp")]
use sortie_mcp::Pool;
use sortie_runtime::{Agents, FileSink, Parts, Planner, Runtime, Sink};
use sortie_sandbox::{Mode, Sandbox};
#[cfg(feature = "telemetry")]
use sortie_telemetry::Telemetry;
use sortie_text::{strip_sequences, t};
use sortie_tools::{ExecSettings, ToolSettings, memory_tools, standard_tools};

use crate::builder::Builder;
use crate::error::Error;
use crate::notices::Notices;
use crate::options::{OpenStore, Options};
use crate::skills::SkillFolders;
use crate::sortie::{Defaults, Sortie};
use crate::worktrees::GitWorktrees;
use crate::{agent_files, hooks, settings};

/// The folder in the home folder that lists workspaces to be swept after a crash.
const UNSWEPT_FOLDER: &str = "unswept";
/// The folder in the home folder with the notes of main agents.
const MEMORY_FOLDER: &str = "memory";

/// The parts of a runtime, read from configuration and files. Nothing is started.
#[derive(Debug)]
pub struct Assembly {
    /// The tools, without those of MCP servers that are not connected yet.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The built-in agents, the program's own, and those of files.
    pub agents: Agents,
    /// The agent files, with the problems of those that are refused.
    pub agent_files: AgentFiles,
    /// The runtime's settings: the configuration, completed by agent files.
    pub settings: sortie_runtime::Settings,
    /// Why hooks are left out.
    pub hook_problems: Vec<String>,
    hooks: Arc<HookHost>,
    options: Options,
    sandbox: Option<Arc<Sandbox>>,
    models: Arc<dyn ModelDirectory>,
    sinks: Vec<Arc<dyn Sink>>,
    executes: bool,
    notices: Notices,
}

/// The parts that have to live as long as a runtime, besides its store.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// The connections to MCP servers; the servers end with them.
    #[cfg(feature = "mcp")]
    _mcp: Option<Pool>,
    #[cfg(feature = "telemetry")]
    telemetry: Option<Telemetry>,
}

impl Assembly {
    /// Reads configuration and files.
    pub(crate) fn read(builder: Builder) -> Result<Self, Error> {
        let options = builder.checked_options()?;
        let sandbox = sandbox(&options).map(Arc::new);
        let mut tools = standard_tools(ToolSettings {
            exec: ExecSettings {
                environment: options.environment.for_commands(),
            },
            sandbox: sandbox.clone(),
            places: options.places(),
        });
        tools.push(Arc::new(SkillTool::new()));
        if options.config.main.memory {
            tools.extend(memory_tools(&options.home.join(MEMORY_FOLDER)));
        }
        #[cfg(feature = "web")]
        tools.extend(crate::web_tools::web_tools(&options)?);
        tools.extend(builder.tools.iter().cloned());

        let mut settings = builder.adjusted(settings::runtime(&options));
        settings.tenants = TenantRules::of(&options.config.tenants)?;
        let mut agents = Agents::built_in(options.lang);
        for agent in &builder.agents {
            agents.add(agent.clone());
        }
        let names: Vec<String> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
        let agent_files = agent_files::load(&options, &agents, &names);
        agent_files::add(&agent_files, &mut agents, &mut settings);
        let hooks = hooks::find(&options, &agent_files, &names);
        settings.hooks = hooks.hooks;

        Ok(Self {
            tools,
            agents,
            agent_files,
            settings,
            hook_problems: hooks.problems,
            hooks: Arc::new(hooks.host),
            models: builder.model_directory(&options),
            options,
            sandbox,
            sinks: builder.sinks,
            executes: !builder.admit_only,
            notices: builder.notices,
        })
    }

    /// Starts the runtime on a store that this process has locked.
    pub async fn start(mut self, store: OpenStore) -> Result<Sortie, Error> {
        let mut services = Services::default();
        if self.executes {
            self.recover_workspaces().await;
            self.connect(&mut services).await?;
        }
        for warning in self.unknown_tools() {
            let warning = t!(self.options.lang, "config-warning", warning = warning);
            self.notices.send(strip_sequences(&warning));
        }

        for problem in &self.hook_problems {
            self.notices.send(strip_sequences(problem));
        }

        let defaults = Defaults::new(&self.options);
        let database = Arc::new(store.store);
        let mut sinks = self.sinks;
        sinks.push(Arc::new(FileSink));
        let parts = Parts {
            store: Arc::clone(&database) as _,
            models: Arc::clone(&self.models),
            tools: self.tools,
            agents: self.agents,
            clock: Arc::new(store.clock),
            sinks,
            worktrees: Arc::new(GitWorktrees::new(&self.options)),
            hooks: self.hooks,
            skills: Arc::new(SkillFolders::new(&self.options)),
            redactor: redactor(&self.options),
        };
        let runtime = Runtime::start(parts, self.settings).await?;
        #[cfg(feature = "telemetry")]
        if self.executes {
            let (options, notices) = (&self.options, &self.notices);
            services.telemetry = crate::telemetry::start(options, notices, &runtime, database);
        }
        Ok(Sortie::new(runtime, self.models, defaults, services))
    }

    /// Sends a hook a test event: runs its command, or sends it a signed request. Returns what a command
    /// decided.
    pub async fn test_hook(
        &self,
        name: &str,
        (run, at): (RunId, Timestamp),
    ) -> Result<Option<HookVerdict>, String> {
        let mut hooks = self.settings.hooks.iter();
        let hook = hooks.find(|hook| hook.name == name);
        let hook = hook.ok_or_else(|| format!("there is no hook {name}"))?;
        let event = hook.events.first().copied().unwrap_or(HookEvent::Finish);
        let session = SessionKey::cli();
        let subject = HookSubject {
            run,
            parent: None,
            root: run,
            session: &session,
            agent: "general",
            label: "test",
            cwd: &self.options.workspace,
        };
        let mut input = HookInput::new(event, subject).with_task("A test of the hook.");
        if event.is_about_call() {
            let arguments = serde_json::json!({ "command": "true" });
            input = input.with_call("exec", &CallId::from_stored("test"), arguments);
        }
        if hook.claude_names {
            input = input.with_claude_names();
        }
        let run_hook = async {
            match hook.kind {
                HookKind::Command => {
                    let folder = &self.options.workspace;
                    let output = self.hooks.run(name, &input.to_json(), folder).await?;
                    Ok(Some(output.verdict()))
                }
                HookKind::Webhook => {
                    let detail = at.to_rfc3339();
                    let letter = NewLetter::of_hook(name, event, run, &detail, &input);
                    let letter = Letter {
                        id: 0,
                        key: letter.key,
                        receiver: letter.receiver,
                        run: None,
                        kind: "test".to_owned(),
                        body: letter.body,
                        state: LetterState::Pending,
                        attempts: 0,
                        at,
                        next_at: at,
                        error: None,
                    };
                    self.hooks.deliver(name, &letter, at).await.map(|()| None)
                }
            }
        };
        match tokio::time::timeout(hook.timeout, run_hook).await {
            Ok(done) => done,
            Err(_) => Err(format!("no answer after {} s", hook.timeout.as_secs())),
        }
    }

    /// Returns configured rules that name no tool and so have no effect, as sentences.
    pub fn unknown_tools(&self) -> Vec<String> {
        let lang = self.options.lang;
        sortie_runtime::unknown_tools_of(&self.settings, &self.tools)
            .into_iter()
            .map(|(key, unknown)| match unknown.nearest {
                Some(nearest) => t!(
                    lang,
                    "config-unknown-tool-near",
                    key = key,
                    rule = unknown.rule,
                    nearest = nearest
                ),
                None => t!(lang, "config-unknown-tool", key = key, rule = unknown.rule),
            })
            .collect()
    }

    /// Returns the planner of these parts: it decides like a runtime, without a store.
    pub fn into_planner(self) -> Result<Planner, Error> {
        let skills = Arc::new(SkillFolders::new(&self.options));
        Ok(Planner::new(
            self.tools,
            self.agents,
            self.settings,
            skills,
        )?)
    }

    /// Connects the MCP servers and adds their tools. The servers end with the pool.
    #[cfg(feature = "mcp")]
    pub async fn add_mcp_servers(&mut self) -> Result<Option<Pool>, Error> {
        let pool = crate::mcp::connect(&self.options, &self.notices, &self.agent_files).await?;
        self.tools.extend(pool.iter().flat_map(Pool::tools));
        Ok(pool)
    }

    /// Returns a pool of the configured MCP servers, none of them started, and the problems of those
    /// that are left out.
    #[cfg(feature = "mcp")]
    pub fn mcp_pool(&self) -> Result<(Option<Pool>, Vec<String>), Error> {
        crate::mcp::pool(&self.options, &self.notices, &self.agent_files)
    }

    #[cfg(feature = "mcp")]
    async fn connect(&mut self, services: &mut Services) -> Result<(), Error> {
        services._mcp = self.add_mcp_servers().await?;
        Ok(())
    }

    /// Reports MCP servers that this build cannot connect.
    #[cfg(not(feature = "mcp"))]
    async fn connect(&mut self, _services: &mut Services) -> Result<(), Error> {
        for name in self.options.config.mcp_servers.keys() {
            let sentence = format!("MCP server {name}: this build has no MCP (feature `mcp`)");
            self.notices.send(sentence);
        }
        Ok(())
    }

    /// Neutralises what commands of a process that died have left in their workspaces.
    async fn recover_workspaces(&self) {
        let Some(sandbox) = self.sandbox.clone() else {
            return;
        };
        let lang = self.options.lang;
        let recovered = tokio::task::spawn_blocking(move || sandbox.recover()).await;
        match recovered.map_err(std::io::Error::other).flatten() {
            Ok(reports) => {
                for (workspace, things) in reports {
                    let workspace = write_out_line(&workspace.display().to_string());
                    for thing in things {
                        self.notices.send(t!(
                            lang,
                            "recovered-workspace",
                            workspace = &*workspace,
                            thing = write_out_line(&thing.sentence())
                        ));
                    }
                }
            }
            Err(error) => {
                let problem = error.to_string();
                self.notices
                    .send(t!(lang, "recover-failed", problem = problem));
            }
        }
    }
}

impl Services {
    /// Flushes pending telemetry spans. Call it after the runtime has shut down.
    pub(crate) async fn flush(self) {
        #[cfg(feature = "telemetry")]
        crate::telemetry::flush(self.telemetry).await;
    }
}

impl Options {
    /// Returns the built-in agents and those of files.
    pub fn agents(&self) -> Agents {
        let mut agents = Agents::built_in(self.lang);
        let files = agent_files::load(self, &agents, &[]);
        let mut settings = sortie_runtime::Settings::default();
        agent_files::add(&files, &mut agents, &mut settings);
        agents
    }
}

/// Returns the sandbox of shell commands; `None` without a helper.
fn sandbox(options: &Options) -> Option<Sandbox> {
    let mode = match options.config.sandbox.mode {
        SandboxMode::Required => Mode::Best,
        SandboxMode::Off => Mode::Off,
    };
    let helper = options.helper.as_ref()?.path().to_owned();
    let sandbox = Sandbox::probing(mode, options.places(), helper);
    Some(sandbox.with_notes(options.home.join(UNSWEPT_FOLDER)))
}

/// Returns whether a variable of this name is a secret.
fn is_secret(name: &str) -> bool {
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD"]
        .iter()
        .any(|word| name.to_uppercase().contains(word))
}

/// Returns the redactor of all secrets in configuration and environment.
fn redactor(options: &Options) -> Redactor {
    let config = &options.config;
    let providers = config.providers.values().flat_map(|provider| {
        let headers = provider.headers.values();
        let query = provider.query.values();
        provider.api_key.iter().chain(headers).chain(query)
    });
    let servers = config.mcp_servers.values().flat_map(|server| {
        let env = server.env.iter().filter(|(name, _)| is_secret(name));
        env.map(|(_, value)| value).chain(server.headers.values())
    });
    let configured = providers
        .chain(servers)
        .chain(&config.web.search.api_key)
        .chain(&config.store);
    let mut values: Vec<String> = configured
        .map(|secret| secret.expose().to_owned())
        .collect();
    let variables = options.environment.texts();
    values.extend(
        variables
            .filter(|(name, _)| is_secret(name))
            .map(|(_, value)| value.to_owned()),
    );
    values.extend(options.store_passwords());
    values.extend(hooks::secrets(options));
    #[cfg(feature = "telemetry")]
    values.extend(crate::telemetry::header_values(options));
    Redactor::new(values)
}
