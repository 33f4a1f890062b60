//! `sortie demo`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sortie_models::OFFLINE_MODEL;
use sortie_runtime::NewRun;
use sortie_text::t;

use crate::engine::Place;
use crate::exit::Exit;
use crate::foreground::{Foreground, Format};
use crate::problem::Problem;
use crate::screen::Screen;
use crate::settings::Settings;

/// How long the model waits before each answer if stderr is a terminal.
const WATCHED_PACE: Duration = Duration::from_millis(120);

/// Demonstrates Sortie without a network or an API key
///
/// The main agent starts three `explore` subagents in the current folder and combines their
/// reports. The model is built in: it follows fixed rules and reports only what the tools found.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder to survey [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    workspace: Option<PathBuf>,
    /// Milliseconds that the model waits before each completion [default: 120 on a terminal, else
    /// 0]
    #[arg(long, value_name = "MS")]
    pace: Option<u64>,
    /// Prints the task as JSON instead of the report
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        let workspace = settings.workspace(self.workspace.as_deref())?;
        let place = Place::find(settings).await?;
        place.refuse(settings, self.pace.is_some().then_some("--pace"))?;
        let pace = match self.pace {
            Some(ms) => Duration::from_millis(ms),
            None if settings.terminal.progress => WATCHED_PACE,
            None => Duration::ZERO,
        };
        let models = settings.options.model_directory(pace, None);
        let foreground =
            Foreground::start(settings, screen, place, settings.builder().models(models)).await?;
        screen.line(&t!(
            settings.lang,
            "demo-intro",
            path = workspace.display().to_string()
        ));
        let new = NewRun {
            label: Some(t!(settings.lang, "demo-label")),
            model: Some(OFFLINE_MODEL.to_owned()),
            lang: settings.lang,
            ..NewRun::new(t!(settings.lang, "demo-prompt"), workspace, OFFLINE_MODEL)
        };
        foreground.run(new, Format::of(self.json, false)).await
    }
}
