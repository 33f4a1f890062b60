//! Where the parts are put together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sortie_core::{Clock, ModelDirectory, StoreResult};
use sortie_models::Directory;
use sortie_runtime::{Agents, FileSink, Parts, ProcessClock, Runtime};
use sortie_store::{Owner, ReadStore, SqliteStore};
use sortie_tools::{ExecSettings, ToolSettings, Unconfined, standard_tools};

use crate::approval::TerminalApprover;
use crate::problem::Problem;
use crate::provider;
use crate::screen::Screen;
use crate::settings::Settings;

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

/// Starts the runtime on the store of this home.
pub(crate) async fn start(
    settings: &Settings,
    screen: &Arc<Screen>,
    models: Arc<Directory>,
    wishes: Wishes,
) -> Result<Runtime, Problem> {
    #[cfg(feature = "crash-points")]
    arm(settings)?;
    let clock = ProcessClock::start();
    let store = open_store(settings, &clock)?;
    let parts = Parts {
        store: Arc::new(store),
        models: models as Arc<dyn ModelDirectory>,
        tools: standard_tools(ToolSettings {
            exec: ExecSettings {
                environment: settings.exec_environment.clone(),
            },
            sandbox: Arc::new(Unconfined),
        }),
        agents: agents(settings),
        approver: Arc::new(TerminalApprover::new(settings, Arc::clone(screen))),
        clock: Arc::new(clock),
        sinks: vec![Arc::new(FileSink)],
    };
    Ok(Runtime::start(parts, runtime_settings(settings, wishes)).await?)
}

fn runtime_settings(settings: &Settings, wishes: Wishes) -> sortie_runtime::Settings {
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
