//! The conversation: `sortie` without a command, or `sortie chat`.
//!
//! On a terminal, [`Conversation`] draws a live area with the input below the lines that stay. Without
//! one, or on a terminal that cannot move its cursor, [`plain`] reads and writes whole lines.

mod board;
pub(crate) mod canvas;
mod commands;
mod complete;
mod conversation;
mod editor;
mod highlight;
pub(crate) mod history;
pub(crate) mod keys;
mod markdown;
mod plain;
mod prompts;
mod sessions;
mod styled;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sortie_core::id::SessionKey;
use sortie_runtime::NewRun;
use sortie_text::t;

use crate::choice::ModelArguments;
use crate::engine::{Engine, Place};
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::run_flags::RunFlags;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::Signals;
pub(crate) use board::call_words;
use conversation::Conversation;
pub(crate) use markdown::render as render_markdown;
pub(crate) use sessions::{find_session, latest_in, latest_session, latest_sessions, new_session};

/// Opens a conversation with the main agent; `sortie` without a command does the same
///
/// Type a message and press Enter; `/help` lists commands and keys. Every turn is stored: `--continue`
/// returns to the last conversation of this folder. If stdin is not a terminal, all of it is one
/// message, and the reply goes to stdout.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Continues the last conversation in this folder
    #[arg(long = "continue", short = 'C')]
    continues: bool,
    /// Continues a conversation by its session, for example cli:3f9a1c, or by the id of a task in it
    #[arg(long, value_name = "ID", conflicts_with = "continues")]
    resume: Option<String>,
    /// Agent that replies [default: main]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<PathBuf>,
    #[command(flatten)]
    flags: RunFlags,
    #[command(flatten)]
    model: ModelArguments,
}

impl Chat {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        let workspace = settings.workspace(self.workspace.as_deref())?;
        settings.check_configuration()?;
        self.flags.check(&workspace)?;
        let style = Style::of(settings);
        // An empty input fails before anything is started.
        let piped = match style {
            Style::Pipe => Some(plain::whole_input()?),
            Style::Lines | Style::Full => None,
        };
        let place = Place::find(settings).await?;
        place.refuse(settings, settings.own_configuration())?;
        let chosen = self.model.choose(settings, &place).await?;
        let models = settings
            .options
            .model_directory(Duration::ZERO, chosen.record.clone());
        chosen.check(&place, &*models)?;
        let small_model = chosen.small_model.clone();
        let template = NewRun {
            agent: self.agent,
            lang: settings.lang,
            ..chosen.run(String::new(), workspace.clone())
        };
        let template = self.flags.apply(template, settings);
        let builder = settings
            .builder()
            .models(models)
            .small_model(small_model)
            // A pipe has one message, and its process ends with the reply.
            .next_turns_only(style == Style::Pipe);
        let signals = Signals::listen().map_err(Problem::Process)?;
        let engine = Engine::start(settings, place, builder).await?;
        let opened = open(
            &engine,
            settings,
            Which {
                continues: self.continues,
                resume: self.resume.as_deref(),
                folder: &workspace,
            },
        )
        .await;
        let (session, is_new) = match opened {
            Ok(opened) => opened,
            Err(problem) => {
                engine.shut_down().await;
                return Err(problem);
            }
        };
        let template = NewRun {
            session,
            ..template
        };
        let start = Start {
            settings,
            screen,
            engine,
            signals,
            template,
            is_new,
        };
        match (style, piped) {
            (_, Some(message)) => plain::one_message(start, message).await,
            (Style::Lines | Style::Pipe, None) => plain::lines(start).await,
            (Style::Full, None) => Conversation::open(start).await?.run().await,
        }
    }
}

/// Everything that a conversation starts with.
struct Start<'a> {
    settings: &'a Settings,
    screen: &'a Arc<Screen>,
    engine: Engine,
    signals: Signals,
    /// The request of a turn, without its message.
    template: NewRun,
    /// Whether the session has no turn yet.
    is_new: bool,
}

/// How the conversation is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// A live area with the input.
    Full,
    /// Whole lines: the terminal cannot move its cursor, or the output is not a terminal.
    Lines,
    /// Stdin is not a terminal: all of it is one message.
    Pipe,
}

impl Style {
    fn of(settings: &Settings) -> Self {
        let terminal = settings.terminal;
        let name = settings.options.environment.text("TERM");
        let moves_cursor = name.is_some_and(|name| !name.is_empty() && name != "dumb");
        match (
            terminal.input,
            terminal.output && terminal.progress,
            moves_cursor,
        ) {
            (false, _, _) => Self::Pipe,
            (true, true, true) => Self::Full,
            (true, _, _) => Self::Lines,
        }
    }
}

/// Which conversation to open.
struct Which<'a> {
    continues: bool,
    resume: Option<&'a str>,
    folder: &'a std::path::Path,
}

/// Returns the session to open, and whether it is new.
async fn open(
    engine: &Engine,
    settings: &Settings,
    which: Which<'_>,
) -> Result<(SessionKey, bool), Problem> {
    if let Some(id) = which.resume {
        return Ok((find_session(engine, settings.lang, id).await?, false));
    }
    if which.continues {
        return match latest_session(engine, which.folder).await? {
            Some(session) => Ok((session, false)),
            None => {
                output::note(&t!(settings.lang, "chat-nothing-to-continue"));
                Ok((new_session(engine).await?, true))
            }
        };
    }
    Ok((new_session(engine).await?, true))
}
