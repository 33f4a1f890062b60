//! `sortie tasks pause`, `resume`, `retry` and `steer`.

use clap::Args;
use sortie_core::id::RunId;
use sortie_core::run::RunRecord;
use sortie_protocol::Task;
use sortie_text::t;

use super::long_enough;
use crate::commands::run::instruction;
use crate::engine::Engine;
use crate::exit::Exit;
use crate::ids::short_label;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Pauses a task and its descendants; steps in progress finish, no new one starts
///
/// Deadlines continue to count. `sortie tasks resume` continues the task.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    which: TaskSelection,
}

/// Resumes a paused task and its descendants
///
/// Without a server, the task returns to the queue; `sortie resume` executes it.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    which: TaskSelection,
}

/// Creates a copy of an ended task: same instruction, agent, model, folder and limits
///
/// Without a server, the new task is only queued; `sortie resume` executes it.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    which: TaskSelection,
}

/// Adds to the instruction of an active task; the task reads it before its next step
#[derive(Debug, Args)]
pub(crate) struct Steer {
    #[command(flatten)]
    which: TaskSelection,
    /// Text for the task; `-` reads it from stdin
    text: String,
}

/// Selects the task and the output format.
#[derive(Debug, Args)]
struct TaskSelection {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Prints the task as JSON
    #[arg(long)]
    json: bool,
}

impl Pause {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let done = self.which.with(settings, async |engine, run| {
            engine.pause(run).await?;
            Ok(run)
        });
        let record = done.await?;
        let id = &record.handle;
        self.which
            .print(&record, &t!(settings.lang, "pause-done", id = id))
    }
}

impl Resume {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let done = self.which.with(settings, async |engine, run| {
            engine.unpause(run).await?;
            Ok(run)
        });
        let record = done.await?;
        let id = &record.handle;
        self.which
            .print(&record, &t!(settings.lang, "unpause-done", id = id))
    }
}

impl Retry {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let done = self
            .which
            .with(settings, async |engine, run| engine.retry(run).await);
        let record = done.await?;
        let message = t!(
            settings.lang,
            "retry-done",
            label = short_label(&record.label),
            id = &record.handle
        );
        self.which.print(&record, &message)
    }
}

impl Steer {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let text = instruction(self.text)?;
        let done = self.which.with(settings, async |engine, run| {
            engine.steer(run, &text).await?;
            Ok(run)
        });
        let record = done.await?;
        let id = &record.handle;
        self.which
            .print(&record, &t!(settings.lang, "steer-done", id = id))
    }
}

impl TaskSelection {
    /// Applies an operation to the task; returns the record of the resulting task.
    async fn with(
        &self,
        settings: &Settings,
        act: impl AsyncFnOnce(&Engine, RunId) -> Result<RunId, Problem>,
    ) -> Result<RunRecord, Problem> {
        long_enough(&self.id)?;
        let engine = Engine::idle(settings).await?;
        let done = async {
            let run = engine.resolve(&self.id).await?;
            let run = act(&engine, run).await?;
            engine.get(run).await
        };
        let done = done.await;
        engine.shut_down().await;
        done
    }

    fn print(&self, record: &RunRecord, message: &str) -> Result<Exit, Problem> {
        if self.json {
            output::json(&Task::from(record))?;
        } else {
            output::text(message)?;
        }
        Ok(Exit::Ok)
    }
}
