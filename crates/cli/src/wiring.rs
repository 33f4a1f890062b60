//! Where the parts are put together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sortie_base::redact::Redactor;
use sortie_core::{Clock, ModelDirectory, Store, StoreResult};
use sortie_mcp::Pool;
use sortie_models::Directory;
use sortie_runtime::{FileSink, Parts, ProcessClock, Runtime};
use sortie_store::{Owner, ReadStore, SqliteStore};
use sortie_telemetry::Telemetry;
use sortie_text::{strip_sequences, t};

use crate::equipment::Equipment;
use crate::output;
use crate::problem::Problem;
use crate::provider;
use crate::settings::Settings;
use crate::telemetry;
use crate::workplace::{GitWorktrees, SkillFolders};
use crate::workshop;

/// How long traces of the last runs may take to be sent.
const TELEMETRY_LIMIT: Duration = Duration::from_secs(3);

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
    /// Whether persons reply from elsewhere, so that whatever is asked waits for them.
    pub(crate) serves: bool,
}

/// The models, found by name.
pub(crate) fn models(
    settings: &Settings,
    pace: Duration,
    record: Option<PathBuf>,
) -> Arc<Directory> {
    Arc::new(Directory::new(provider::directory(settings, pace, record)))
}

/// This process, as the one that holds the store from now on.
pub(crate) fn owner(settings: &Settings, clock: &dyn Clock) -> Owner {
    Owner {
        pid: std::process::id(),
        command: settings.command.clone(),
        since: clock.now(),
    }
}

/// The store, for this process alone.
pub(crate) fn open_store(settings: &Settings, owner: &Owner) -> Result<SqliteStore, Problem> {
    Ok(SqliteStore::open(&settings.home, owner)?)
}

/// The store, for reading beside whoever writes it.
pub(crate) fn read_store(settings: &Settings) -> StoreResult<ReadStore> {
    SqliteStore::open_read_only(&settings.home)
}

/// A runtime, and what must live as long as it.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) runtime: Runtime,
    pub(crate) company: Company,
}

/// What lives as long as a runtime.
#[derive(Debug)]
pub(crate) struct Company {
    /// The servers of its tools.
    _servers: Option<Pool>,
    /// Tells others what its runs did.
    telemetry: Option<Telemetry>,
}

impl Company {
    /// Says what is still to be said. The runtime has stopped.
    pub(crate) async fn leave(self) {
        if let Some(telemetry) = self.telemetry {
            telemetry.stop(TELEMETRY_LIMIT).await;
        }
    }
}

impl Started {
    /// Puts runs under way back into the queue, and gives the store back.
    pub(crate) async fn shut_down(self) {
        self.runtime.shut_down().await;
        self.company.leave().await;
    }
}

/// Starts the runtime on the store of this home.
pub(crate) async fn start(
    settings: &Settings,
    models: Arc<Directory>,
    wishes: Wishes,
) -> Result<Started, Problem> {
    let clock = ProcessClock::start();
    let store = open_store(settings, &owner(settings, &clock))?;
    start_on(settings, store, clock, models, wishes).await
}

/// Starts the runtime on a store that this process has opened.
pub(crate) async fn start_on(
    settings: &Settings,
    store: SqliteStore,
    clock: ProcessClock,
    models: Arc<Directory>,
    wishes: Wishes,
) -> Result<Started, Problem> {
    #[cfg(feature = "crash-points")]
    arm(settings)?;
    // Nothing will call the tools of servers where nothing is executed.
    let only_admits = wishes.only_admits;
    let mut equipment = Equipment::of(settings, wishes)?;
    let servers = if only_admits {
        None
    } else {
        workshop::recover(settings, &equipment.sandbox).await;
        equipment.add_servers(settings).await?
    };
    for warning in equipment.unknown_tools(settings.lang) {
        let words = t!(settings.lang, "config-warning", warning = warning);
        output::note(&strip_sequences(&words));
    }
    let store = Arc::new(store);
    let parts = Parts {
        store: Arc::clone(&store) as Arc<dyn Store>,
        models: models as Arc<dyn ModelDirectory>,
        tools: equipment.tools,
        agents: equipment.agents,
        clock: Arc::new(clock),
        sinks: vec![Arc::new(FileSink)],
        worktrees: Arc::new(GitWorktrees::of(settings)),
        skills: Arc::new(SkillFolders::of(settings)),
        redactor: redactor(settings),
    };
    let runtime = Runtime::start(parts, equipment.runtime).await?;
    let telemetry = match only_admits {
        true => None,
        false => start_telemetry(settings, &runtime, store),
    };
    Ok(Started {
        runtime,
        company: Company {
            _servers: servers,
            telemetry,
        },
    })
}

/// Traces that cannot be sent stop nobody, but are told.
fn start_telemetry(
    settings: &Settings,
    runtime: &Runtime,
    store: Arc<SqliteStore>,
) -> Option<Telemetry> {
    let config = telemetry::config(settings)?;
    match Telemetry::start(&config, runtime.subscribe(), store) {
        Ok(telemetry) => Some(telemetry),
        Err(error) => {
            let problem = sortie_core::with_causes(&error);
            output::note(&t!(settings.lang, "telemetry-off", problem = problem));
            None
        }
    }
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
    let traces = telemetry::config(settings).into_iter();
    let traces = traces.flat_map(|config| config.headers.into_iter().map(|(_, value)| value));
    let mut values: Vec<String> = configured
        .chain(&config.web.search.api_key)
        .chain(servers)
        .chain(queries)
        .map(|secret| secret.expose().to_owned())
        .collect();
    values.extend(traces);
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
    runtime.approvals.wait |= wishes.serves;
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
    if let Some(text) = &settings.poison {
        crash::poison(text.clone());
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
