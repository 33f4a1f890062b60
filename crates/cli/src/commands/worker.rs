//! `sortie worker`.

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use sortie::WorkerOptions;
use sortie_core::run::Lane;
use sortie_core::worker::{Label, MAX_LABELS};
use sortie_text::t;

use crate::choice;
use crate::exit::Exit;
use crate::open_files;
use crate::output;
use crate::problem::Problem;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::{Signal, Signals};

/// Executes tasks of a shared store, beside a server and other workers
///
/// Needs a store in PostgreSQL (`docs/scale.md`). Every worker has a home folder of its own, and the
/// same configuration, tools and workspaces as the server. SIGTERM or Ctrl-C puts its tasks back into
/// the queue, where other workers find them; a second Ctrl-C exits at once.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// Label that tasks can require, such as gpu; can be repeated
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<Label>,
    /// Most tasks at once in each lane [default: as configured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: Option<u32>,
    /// Lane to take tasks from, main or subagent; can be repeated [default: both]
    #[arg(long = "lane", value_name = "LANE")]
    lanes: Vec<Lane>,
    /// Prints the id of the worker as a line of JSON
    #[arg(long)]
    json: bool,
}

impl Worker {
    pub(crate) async fn run(
        self,
        settings: &Settings,
        screen: &Arc<Screen>,
    ) -> Result<Exit, Problem> {
        let lang = settings.lang;
        settings.check_configuration()?;
        if self.labels.len() > MAX_LABELS {
            return Err(Problem::Typed(t!(
                lang,
                "worker-too-many-labels",
                max = MAX_LABELS
            )));
        }
        let (_, small_model) = choice::servers_models(settings).await;
        open_files::raise().map_err(Problem::Process)?;
        let mut signals = Signals::listen().map_err(Problem::Process)?;
        let store = settings.options.open_worker_store()?;
        #[cfg(feature = "crash-points")]
        settings.arm_crash_points()?;
        // Approvers reply through the server.
        let builder = settings
            .builder()
            .small_model(small_model)
            .approver(true)
            .worker(WorkerOptions {
                labels: self.labels,
                lanes: self.lanes,
            })
            .lane_limit(self.limit);
        let sortie = builder.build_on(store).await?;
        let id = sortie.runtime().worker_id().to_string();
        if self.json {
            output::json_line(&json!({ "id": id, "pid": std::process::id() }))?;
        } else {
            screen.line(&t!(lang, "worker-started", id = &id));
        }
        match signals.next().await {
            Signal::Interrupt | Signal::Terminate => {}
        }
        screen.line(&t!(lang, "serve-stopping"));
        tokio::select! {
            telemetry = sortie.release_store() => {
                telemetry.flush().await;
                screen.line(&t!(lang, "worker-stopped"));
                Ok(Exit::Ok)
            }
            () = second_interrupt(&mut signals) => {
                output::note(&t!(lang, "abandoned"));
                Ok(Exit::Cancelled)
            }
        }
    }
}

/// Waits for a second Ctrl-C, which skips the rest of the shutdown.
async fn second_interrupt(signals: &mut Signals) {
    loop {
        match signals.next().await {
            Signal::Interrupt => return,
            // Service managers may send SIGTERM more than once.
            Signal::Terminate => {}
        }
    }
}
