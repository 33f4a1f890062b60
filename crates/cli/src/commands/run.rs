//! `sortie run`.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sortie_core::id::SessionKey;
use sortie_core::ports::store::ListFilter;
use sortie_core::run::MAX_TASK_CHARS;
use sortie_runtime::NewRun;
use sortie_text::t;

use crate::chat::{latest_session, new_session};
use crate::choice::ModelArguments;
use crate::engine::{Engine, Place};
use crate::exit::Exit;
use crate::foreground::{Foreground, Format};
use crate::problem::Problem;
use crate::run_flags::RunFlags;
use crate::screen::Screen;
use crate::settings::Settings;

/// The most bytes read from stdin: more than the longest instruction, so that a longer one is
/// detected.
const MAX_INPUT_BYTES: u64 = 4 * (MAX_TASK_CHARS as u64 + 1);

/// Runs the main agent on an instruction and prints its final text
///
/// The final text goes to stdout, progress lines to stderr. Ctrl-C cancels the run and its
/// subagents and prints what was kept; a second Ctrl-C exits at once. SIGTERM puts the run back
/// into the queue, for `sortie resume`. If `sortie serve` owns the store, the server executes the
/// run and this process waits; SIGTERM then ends only the waiting.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Instruction for the agent; several words are joined, `-` reads it from stdin
    #[arg(required = true, value_name = "PROMPT")]
    prompt: Vec<String>,
    /// Continues this session, for example cli:work, or starts it [default: a new session]
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionKey>,
    /// Continues the last session in this folder, with its history
    #[arg(long = "continue", conflicts_with = "session")]
    continues: bool,
    /// Agent to run [default: main]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<PathBuf>,
    /// Prints the task as JSON instead of the final text
    #[arg(long)]
    json: bool,
    /// Prints each event as a line of JSON, and the task as the last line
    #[arg(long, conflicts_with = "json")]
    stream_json: bool,
    /// Most turns with tool calls before the run must report its result [default:
    /// main.max_iterations]
    #[arg(long, value_name = "N")]
    max_iterations: Option<u32>,
    /// Time limit of the run; 0 is no limit [default: main.timeout_seconds]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Most subagents that run at once [default: subagents.max_concurrent]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_concurrent: Option<u32>,
    /// Most levels of subagents: 1 is no nesting, 0 is none at all [default: subagents.max_depth]
    #[arg(long, value_name = "N")]
    max_depth: Option<u32>,
    #[command(flatten)]
    flags: RunFlags,
    #[command(flatten)]
    model: ModelArguments,
}

impl Run {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        let prompt = instruction(self.prompt.join(" "))?;
        let workspace = settings.workspace(self.workspace.as_deref())?;
        settings.check_configuration()?;
        self.flags.check(&workspace)?;
        let place = Place::find(settings).await?;
        let own = self.max_concurrent.is_some().then_some("--max-concurrent");
        place.refuse(settings, own)?;
        let chosen = self.model.choose(settings, &place).await?;
        let models = settings
            .options
            .model_directory(Duration::ZERO, chosen.record.clone());
        chosen.check(&place, &*models)?;
        let small_model = chosen.small_model.clone();
        let new = NewRun {
            agent: self.agent,
            max_iterations: self.max_iterations,
            timeout: self.timeout.map(Duration::from_secs),
            // Without a server, the flag sets the operator's own limit instead.
            max_depth: self.max_depth.filter(|_| place.is_there()),
            lang: settings.lang,
            ..chosen.run(prompt, workspace)
        };
        let new = self.flags.apply(new, settings);
        let builder = settings
            .builder()
            .models(models)
            .small_model(small_model)
            .max_concurrent(self.max_concurrent)
            .max_depth(self.max_depth);
        let foreground = Foreground::start(settings, screen, place, builder).await?;
        if let Err(problem) = foreground.engine().check_agent(new.agent.as_deref()) {
            return Err(foreground.failed(problem).await);
        }
        let continued = continued(foreground.engine(), new, self.session, self.continues).await;
        let new = match continued {
            Ok(new) => new,
            Err(problem) => return Err(foreground.failed(problem).await),
        };
        foreground
            .run(new, Format::of(self.json, self.stream_json))
            .await
    }
}

/// Returns the request as a turn of the session that is to be continued, or of a new one.
async fn continued(
    engine: &Engine,
    new: NewRun,
    session: Option<SessionKey>,
    continues_last: bool,
) -> Result<NewRun, Problem> {
    let session = match (session, continues_last) {
        (Some(session), _) => Some(session),
        (None, true) => latest_session(engine, &new.workspace).await?,
        (None, false) => None,
    };
    let Some(session) = session else {
        return Ok(NewRun {
            session: new_session(engine).await?,
            ..new
        });
    };
    let filter = ListFilter {
        session: Some(session.clone()),
        roots_only: true,
        limit: 1,
        ..ListFilter::default()
    };
    let last = engine.list(filter).await?.into_iter().next();
    if let Some(last) = last.as_ref().filter(|last| !last.status.is_terminal()) {
        let words = t!(
            new.lang,
            "session-busy",
            session = session.as_str(),
            id = last.run_id.to_string()
        );
        return Err(Problem::Refused(words));
    }
    Ok(NewRun {
        session,
        continues: last.map(|last| last.run_id),
        ..new
    })
}

/// Returns the instruction from the command line or from stdin. Rejects one that is too long here:
/// a server would only report that the request is too large.
pub(crate) fn instruction(typed: String) -> Result<String, Problem> {
    let text = if typed == "-" { read_stdin()? } else { typed };
    if text.trim().is_empty() {
        return Err(Problem::EmptyInput);
    }
    if text.chars().count() > MAX_TASK_CHARS {
        return Err(Problem::LongInput);
    }
    Ok(text)
}

/// Reads an instruction from stdin.
pub(crate) fn read_stdin() -> Result<String, Problem> {
    typed_on(&mut io::stdin().lock())
}

fn typed_on(input: &mut impl Read) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    let mut bounded = input.take(MAX_INPUT_BYTES);
    bounded.read_to_end(&mut bytes).map_err(Problem::Input)?;
    if bounded.limit() == 0 {
        return Err(Problem::LongInput);
    }
    String::from_utf8(bytes)
        .map_err(|error| Problem::Input(io::Error::new(io::ErrorKind::InvalidData, error)))
}
