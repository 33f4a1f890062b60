//! `sortie tasks pause`, `resume`, `retry` and `steer`.

use clap::Args;
use serde_json::json;
use sortie_base::hidden::write_out_line;
use sortie_core::id::RunId;
use sortie_core::run::RunRecord;
use sortie_protocol::Task;
use sortie_text::t;

use super::long_enough;
use crate::commands::run::instruction;
use crate::engine::{Controller, Engine, Taken};
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
        let done = self.which.control(settings, async |controller, run| {
            controller.pause(run).await
        });
        let (record, taken) = done.await?;
        let done = t!(settings.lang, "pause-done", id = &record.handle);
        self.which.print_taken(settings, &record, &taken, done)
    }
}

impl Resume {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let done = self.which.control(settings, async |controller, run| {
            controller.unpause(run).await
        });
        let (record, taken) = done.await?;
        let done = t!(settings.lang, "unpause-done", id = &record.handle);
        self.which.print_taken(settings, &record, &taken, done)
    }
}

impl Retry {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        long_enough(&self.which.id)?;
        let engine = Engine::idle(settings).await?;
        let done = async {
            let run = engine.resolve(&self.which.id).await?;
            let again = engine.retry(run).await?;
            engine.get(again).await
        };
        let done = done.await;
        engine.shut_down().await;
        let record = done?;
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
        let done = self.which.control(settings, async |controller, run| {
            controller.steer(run, &text).await
        });
        let (record, taken) = done.await?;
        let done = t!(settings.lang, "steer-done", id = &record.handle);
        self.which.print_taken(settings, &record, &taken, done)
    }
}

impl TaskSelection {
    /// Applies an operation to the task, whichever process executes it; returns its record.
    async fn control(
        &self,
        settings: &Settings,
        act: impl AsyncFnOnce(&Controller<'_>, RunId) -> Result<Taken, Problem>,
    ) -> Result<(RunRecord, Taken), Problem> {
        long_enough(&self.id)?;
        let controller = Controller::find(settings).await?;
        let done = async {
            let run = controller.resolve(&self.id).await?;
            let taken = act(&controller, run).await?;
            Ok((controller.get(run).await?, taken))
        };
        let done = done.await;
        controller.shut_down().await;
        done
    }

    fn print_taken(
        &self,
        settings: &Settings,
        record: &RunRecord,
        taken: &Taken,
        applied: String,
    ) -> Result<Exit, Problem> {
        if self.json
            && let Taken::Left { owner } = taken
        {
            let mut task = serde_json::to_value(Task::from(record))
                .map_err(|error| Problem::Process(error.into()))?;
            task["left_for"] = json!(owner);
            output::json(&task)?;
            return Ok(Exit::Ok);
        }
        let message = left_text(settings, record, taken).unwrap_or(applied);
        self.print(record, &message)
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

/// Returns the text about an operation that the owner of the store has not applied yet.
pub(super) fn left_text(settings: &Settings, record: &RunRecord, taken: &Taken) -> Option<String> {
    match taken {
        Taken::Applied => None,
        Taken::Left { owner } => Some(t!(
            settings.lang,
            "control-left",
            id = &record.handle,
            owner = write_out_line(owner)
        )),
    }
}
