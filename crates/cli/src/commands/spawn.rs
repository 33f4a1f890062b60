//! `sortie spawn`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sortie_core::check::Check;
use sortie_core::id::{RunId, SessionKey};
use sortie_core::run::{Announce, ContextFork, SinkAddress};
use sortie_core::worker::Label;
use sortie_protocol::Task;
use sortie_runtime::NewRun;
use sortie_text::t;

use super::run::instruction;
use crate::arguments::{CleanupArgument, PriorityArgument};
use crate::choice::ModelArguments;
use crate::engine::Place;
use crate::exit::Exit;
use crate::foreground::{Foreground, Format};
use crate::ids::short_label;
use crate::output;
use crate::problem::Problem;
use crate::run_flags::RunFlags;
use crate::screen::Screen;
use crate::settings::Settings;

/// Runs one subagent as a background task, without a main agent
///
/// Commits the task to the store, prints its id, executes it and waits for its end. With `--detach`
/// the command only queues the task; `sortie resume` executes it. If `sortie serve` owns the store,
/// the server executes it in both cases.
#[derive(Debug, Args)]
pub(crate) struct Spawn {
    /// Instruction for the subagent; several words are joined, `-` reads it from stdin
    #[arg(required = true)]
    task: Vec<String>,
    /// Agent that executes the task
    #[arg(long, value_name = "NAME", default_value = "general")]
    agent: String,
    /// Label for people [default: the first line of the task]
    #[arg(long)]
    label: Option<String>,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<PathBuf>,
    /// Position in the queue relative to other tasks
    #[arg(long, value_enum, default_value_t)]
    priority: PriorityArgument,
    /// Time limit of the task; 0 is no limit [default: subagents.timeout_seconds]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// File to which the result is appended as a line of JSON; can be repeated
    #[arg(long, value_name = "file:PATH")]
    report_to: Vec<String>,
    /// Session that the result is announced to, written channel:chat_id; ID alone means api:ID
    ///
    /// A turn of the session that is active reads the result; else the next one does, or the server
    /// starts one.
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Starts with the conversation of the session: clean, last:N messages, or cached
    ///
    /// cached repeats the last prompt of the session unchanged, so that the provider's prompt cache is
    /// hit.
    #[arg(long, value_name = "FORK", requires = "session")]
    fork: Option<ContextFork>,
    /// Check of the result as JSON, for example {"file_changed": "a.txt"}; can be repeated
    ///
    /// Sortie runs the checks after the final answer, outside the task: command, file_exists,
    /// file_changed, matches {file, regex}, sha256 {file, hash}, http {url, status}.
    #[arg(long, value_name = "JSON", value_parser = parse_check)]
    check: Vec<Check>,
    /// What happens to the transcript once the result is delivered
    #[arg(long, value_enum, default_value_t)]
    cleanup: CleanupArgument,
    /// Label that the worker of the task must have, such as gpu; can be repeated
    ///
    /// Needs workers (`docs/scale.md`); without one that has all labels the task stays in the queue.
    #[arg(long = "require", value_name = "LABEL")]
    requires: Vec<Label>,
    /// Waits for the end of the task; this is the default
    #[arg(long, conflicts_with = "detach")]
    wait: bool,
    /// Queues the task and exits; `sortie resume` or the server executes it
    #[arg(long)]
    detach: bool,
    /// Prints the task as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: RunFlags,
    #[command(flatten)]
    model: ModelArguments,
}

impl Spawn {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        let task = instruction(self.task.join(" "))?;
        let report_to = self
            .report_to
            .iter()
            .map(|address| sink(settings, address))
            .collect::<Result<_, _>>()?;
        let workspace = settings.workspace(self.workspace.as_deref())?;
        settings.check_configuration()?;
        self.flags.check(&workspace)?;
        let place = Place::find(settings).await?;
        let chosen = self.model.choose(settings, &place).await?;
        let models = settings
            .options
            .model_directory(Duration::ZERO, chosen.record.clone());
        chosen.check(&place, &*models)?;
        let small_model = chosen.small_model.clone();
        let new = NewRun {
            agent: Some(self.agent),
            label: self.label,
            priority: self.priority.into(),
            timeout: self.timeout.map(Duration::from_secs),
            report_to,
            lang: settings.lang,
            cleanup: Some(self.cleanup.into()),
            fork: self.fork,
            requires: self.requires,
            checks: self.check,
            ..chosen.run(task, workspace).in_background()
        };
        let mut new = self.flags.apply(new, settings);
        if let Some(session) = self.session {
            new.session = session;
            new.announce = Some(Announce::Steer);
        }
        let mut builder = settings.builder().models(models).small_model(small_model);
        if self.detach {
            builder = builder.admit_only();
        }
        let format = Format::of(self.json, false);
        let foreground = Foreground::start(settings, screen, place, builder).await?;
        if let Err(problem) = foreground.engine().check_agent(new.agent.as_deref()) {
            return Err(foreground.failed(problem).await);
        }
        let run = match foreground.engine().create(new).await {
            Ok(run) => run,
            Err(error) => return Err(foreground.failed(error).await),
        };
        if self.detach {
            queued(settings, foreground, run, format).await
        } else {
            foreground.mention_leftovers();
            started(settings, screen, &foreground, run).await?;
            foreground.finish(run, format).await
        }
    }
}

fn parse_check(text: &str) -> Result<Check, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

async fn started(
    settings: &Settings,
    screen: &Screen,
    foreground: &Foreground<'_>,
    run: RunId,
) -> Result<(), Problem> {
    let record = foreground.engine().get(run).await?;
    screen.line(&t!(
        settings.lang,
        "spawn-waits",
        label = short_label(&record.label),
        id = &record.handle
    ));
    Ok(())
}

async fn queued(
    settings: &Settings,
    foreground: Foreground<'_>,
    run: RunId,
    format: Format,
) -> Result<Exit, Problem> {
    let record = foreground.engine().get(run).await;
    let in_server = foreground.engine().is_server();
    foreground.shut_down().await;
    let record = record?;
    match format {
        Format::Json | Format::StreamJson => output::json(&Task::from(&record))?,
        Format::Text => {
            let (label, id) = (short_label(&record.label), &record.handle);
            output::text(&if in_server {
                t!(settings.lang, "spawn-in-server", label = label, id = id)
            } else {
                t!(settings.lang, "spawn-queued", label = label, id = id)
            })?;
            if let Some(position) = record.queue_position {
                output::note(&t!(
                    settings.lang,
                    "task-queued-position",
                    position = position
                ));
            }
        }
    }
    Ok(Exit::Ok)
}

/// Parses a sink address, `file:PATH`.
fn sink(settings: &Settings, address: &str) -> Result<SinkAddress, Problem> {
    match address.split_once(':') {
        Some(("file", path)) if !path.is_empty() => Ok(SinkAddress {
            scheme: "file".to_owned(),
            target: without_links(&settings.options.workspace.join(path))
                .display()
                .to_string(),
        }),
        Some(_) | None => Err(Problem::Sink(address.to_owned())),
    }
}

/// Resolves symbolic links now: a link that an agent creates later is not followed.
fn without_links(path: &Path) -> PathBuf {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    // A missing folder is reported when the result is delivered.
    let folder = folder.canonicalize();
    folder.map_or_else(|_| path.to_owned(), |folder| folder.join(name))
}
