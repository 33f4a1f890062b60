//! Where the parts are put together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sortie_core::{Clock, ModelDirectory, StoreResult};
use sortie_mcp::Pool;
use sortie_models::Directory;
use sortie_runtime::{Agents, FileSink, Parts, ProcessClock, Runtime};
use sortie_store::{Owner, ReadStore, SqliteStore};
use sortie_text::Redactor;

use crate::problem::Problem;
use crate::provider;
use crate::settings::Settings;
use crate::workplace::{self, GitWorktrees, SkillFolders};
use crate::workshop;

/// What a command sets about the runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// The small model, where none is configured.
    pub(crate) small_model: Option<String>,
    /// How many children may run at once.
    pub(crate) max_concurrent: Option<u32>,
    /// How deep children may nest.
    pub(crate) max_depth: Option<u32>,
    /// Whether runs are only written and stopped, and none is executed.
    pub(crate) only_admits: bool,
}

/// The models, found by name.
pub(crate) fn models(
    settings: &Settings,
    pace: Duration,
    record: Option<PathBuf>,
) -> Arc<Directory> {
    Arc::new(Directory::new(provider::directory(settings, pace, record)))
}

/// The agents, in the language of the settings.
pub(crate) fn agents(settings: &Settings) -> Agents {
    Agents::built_in(settings.lang)
}

/// The store, for this process alone.
pub(crate) fn open_store(settings: &Settings, clock: &dyn Clock) -> Result<SqliteStore, Problem> {
    let owner = Owner {
        pid: std::process::id(),
        command: settings.command.clone(),
        since: clock.now(),
    };
    Ok(SqliteStore::open(&settings.home, &owner)?)
}

/// The store, for reading beside whoever writes it.
pub(crate) fn read_store(settings: &Settings) -> StoreResult<ReadStore> {
    SqliteStore::open_read_only(&settings.home)
}

/// A runtime, and the servers that must live as long as it.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) runtime: Runtime,
    pub(crate) servers: Option<Pool>,
}

/// Starts the runtime on the store of this home.
pub(crate) async fn start(
    settings: &Settings,
    models: Arc<Directory>,
    wishes: Wishes,
) -> Result<Started, Problem> {
    #[cfg(feature = "crash-points")]
    arm(settings)?;
    let clock = ProcessClock::start();
    let store = open_store(settings, &clock)?;
    let mut tools = workshop::tools(settings)?;
    let mut agents = agents(settings);
    let mut runtime = runtime_settings(settings, wishes);
    let names: Vec<String> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
    let files = workplace::agent_files(settings, &agents, &names);
    workplace::add_agents(&files, &mut agents, &mut runtime);
    let servers = workshop::mcp_servers(settings, &files).await?;
    tools.extend(servers.iter().flat_map(Pool::tools));
    let parts = Parts {
        store: Arc::new(store),
        models: models as Arc<dyn ModelDirectory>,
        tools,
        agents,
        clock: Arc::new(clock),
        sinks: vec![Arc::new(FileSink)],
        worktrees: Arc::new(GitWorktrees::of(settings)),
        skills: Arc::new(SkillFolders::of(settings)),
        redactor: redactor(settings),
    };
    Ok(Started {
        runtime: Runtime::start(parts, runtime).await?,
        servers,
    })
}

/// Whether a variable of this name holds something that must not be repeated.
fn is_secret(name: &str) -> bool {
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD"]
        .iter()
        .any(|word| name.to_uppercase().contains(word))
}

/// What must never be written down: keys that are configured, and those of the environment.
fn redactor(settings: &Settings) -> Redactor {
    let config = settings.configuration.config();
    let providers = config.providers.values();
    let configured = providers.flat_map(|provider| {
        let headers = provider.headers.values();
        provider.api_key.iter().chain(headers)
    });
    let servers = config.mcp_servers.values().flat_map(|server| {
        let env = server.env.iter().filter(|(name, _)| is_secret(name));
        env.map(|(_, value)| value).chain(server.headers.values())
    });
    let queries = config.providers.values().flat_map(|it| it.query.values());
    let mut values: Vec<String> = configured
        .chain(&config.web.search.api_key)
        .chain(servers)
        .chain(queries)
        .map(|secret| secret.expose().to_owned())
        .collect();
    let variables = settings.provider_variables.iter();
    values.extend(
        variables
            .filter(|(name, _)| is_secret(name))
            .map(|(_, value)| value.clone()),
    );
    Redactor::new(values)
}

/// What was configured, and what a command sets about it.
pub(crate) fn runtime_settings(settings: &Settings, wishes: Wishes) -> sortie_runtime::Settings {
    let mut runtime = provider::runtime(settings);
    runtime.small_model = runtime.small_model.or(wishes.small_model);
    if let Some(max) = wishes.max_concurrent {
        runtime = runtime.with_max_concurrent(max);
    }
    if let Some(max) = wishes.max_depth {
        runtime.caps.max_depth = max;
    }
    if wishes.only_admits {
        runtime.lanes.main = 0;
        runtime = runtime.with_max_concurrent(0);
    }
    runtime
}

#[cfg(feature = "crash-points")]
fn arm(settings: &Settings) -> Result<(), Problem> {
    use sortie_runtime::crash;
    if let Some(plan) = &settings.crash_at {
        let plan = plan
            .parse()
            .map_err(|error: crash::BadPlan| Problem::CrashPlan(error.to_string()))?;
        crash::arm(plan);
    }
    match settings.break_part.as_deref() {
        None => Ok(()),
        Some("outbox") => {
            crash::break_outbox();
            Ok(())
        }
        Some(other) => Err(Problem::CrashPlan(format!(
            "SORTIE_BREAK knows only `outbox`; got {other:?}"
        ))),
    }
}
