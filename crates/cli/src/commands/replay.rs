//! `sortie replay`.

use std::sync::Arc;

use clap::Args;
use sha2::{Digest, Sha256};
use sortie_core::event::Event;
use sortie_core::id::{RunId, Seq, hex};
use sortie_core::policy::Mode;
use sortie_core::ports::model::ModelDirectory;
use sortie_core::ports::store::ListFilter;
use sortie_core::run::ForkPoint;
use sortie_runtime::{Fork, Tapes, projection, replay_tree};
use sortie_store::ReadStore;
use sortie_text::t;

use super::tasks;
use crate::engine::Place;
use crate::exit::Exit;
use crate::foreground::{Foreground, Format};
use crate::output;
use crate::problem::Problem;
use crate::screen::Screen;
use crate::settings::Settings;

/// Recomputes an ended task and its subagents from their journals, or branches off one
///
/// Without `--from`, the command sends no prompt and runs no tool: it computes all decisions again
/// from the recorded completions and tool results, and fails if the new journal differs in any
/// byte. With `--from`, a new task continues after that event, with real prompts and tool calls.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Handle or id of the task; at least 8 characters of an id
    id: String,
    /// Starts a new task after the event with this number; `sortie tasks events` prints the numbers
    #[arg(long, value_name = "EVENT")]
    from: Option<i64>,
    /// Model of the new task, with --from [default: the task's model]
    #[arg(long, value_name = "MODEL", requires = "from")]
    model: Option<String>,
    /// Runs calls that change something without an approval
    #[arg(long, requires = "from")]
    yes: bool,
    /// Prints the recomputed journal, one JSON object per line
    #[arg(long, conflicts_with_all = ["from", "json"])]
    journal: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        let (store, record) = tasks::open(settings, &self.id).await?;
        match self.from {
            None => self.again(settings, &store, record.run_id).await,
            Some(at) => {
                let point = ForkPoint {
                    run: record.run_id,
                    at: Seq(at),
                };
                self.fork(settings, screen, point).await
            }
        }
    }

    async fn again(
        &self,
        settings: &Settings,
        store: &ReadStore,
        root: RunId,
    ) -> Result<Exit, Problem> {
        let lang = settings.lang;
        let (tapes, tree) = tapes(store, root).await?;
        if tapes.values().any(Vec::is_empty) {
            return Err(Problem::NothingToReplay(root));
        }
        let recorded: String = tree.iter().map(|run| projection(&tapes[run])).collect();
        let replayed = replay_tree(&tapes, &tree).map_err(Box::new)?;
        let identical = replayed.projection == recorded;
        let digest = hex(&Sha256::digest(replayed.projection.as_bytes()));
        let events = replayed.projection.lines().count();
        if self.journal {
            output::text(&replayed.projection)?;
        } else if self.json {
            output::json(&serde_json::json!({
                "task_id": root,
                "identical": identical,
                "runs": replayed.runs,
                "events": events,
                "sha256": digest,
            }))?;
        } else {
            output::text(&t!(
                lang,
                "replay-identical",
                runs = replayed.runs,
                events = events,
                digest = digest
            ))?;
        }
        Ok(if identical { Exit::Ok } else { Exit::Failed })
    }

    async fn fork(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
        point: ForkPoint,
    ) -> Result<Exit, Problem> {
        settings.check_configuration()?;
        let place = Place::find(settings).await?;
        let model = self
            .model
            .map(|name| settings.options.absolute_model(&name));
        let models = settings
            .options
            .model_directory(std::time::Duration::ZERO, None);
        // A server checks the model itself: it has its own providers.
        if let (Place::Here, Some(model)) = (&place, &model) {
            models.find(model)?;
        }
        let foreground =
            Foreground::start(settings, screen, place, settings.builder().models(models)).await?;
        let fork = Fork {
            point,
            model,
            label: None,
            mode: if self.yes {
                Mode::Yolo
            } else {
                settings.configuration.config().approvals.mode
            },
        };
        let run = match foreground.engine().fork(fork).await {
            Ok(run) => run,
            Err(problem) => return Err(foreground.failed(problem).await),
        };
        screen.line(&t!(
            settings.lang,
            "replay-forked",
            id = run.to_string(),
            from = point.run.to_string(),
            at = point.at.to_string()
        ));
        foreground.finish(run, Format::of(self.json, false)).await
    }
}

/// Reads the journals of a tree, and those of the runs that its runs were forked from.
async fn tapes(store: &ReadStore, root: RunId) -> Result<(Tapes, Vec<RunId>), Problem> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(run) = tree.get(next).copied() {
        let children = store
            .list(ListFilter {
                parent: Some(run),
                archived: true,
                ..ListFilter::default()
            })
            .await?;
        tree.extend(children.iter().map(|record| record.run_id));
        next += 1;
    }
    tree.sort();
    let mut tapes = Tapes::new();
    let mut wanted = tree.clone();
    while let Some(run) = wanted.pop() {
        if tapes.contains_key(&run) {
            continue;
        }
        let entries = store.read(run, Seq(0)).await?;
        if let Some(Event::Admitted { spec }) = entries.first().map(|entry| &entry.event) {
            wanted.extend(spec.continues);
            wanted.extend(spec.fork.map(|point| point.run));
        }
        tapes.insert(run, entries);
    }
    Ok((tapes, tree))
}
