//! `sortie workers`.

use clap::Args;
use sortie_protocol::Worker;
use sortie_text::t;

use crate::commands::tasks::output_columns;
use crate::engine::Place;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Lists the processes that execute tasks of the store
///
/// A worker that is `lost` has not renewed its lease: another one continues its tasks. A store in a
/// file has one process, which is listed while it is a server.
#[derive(Debug, Args)]
pub(crate) struct Workers {
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Workers {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let workers = match Place::find(settings).await? {
            Place::There(client) => client.workers().await?,
            Place::Here => {
                let records = settings.options.read_store()?.workers_now().await?;
                records.iter().map(Worker::from).collect()
            }
        };
        if self.json {
            output::json(&workers)?;
        } else if workers.is_empty() {
            output::note(&t!(settings.lang, "no-workers"));
        } else {
            output::text(&shown(settings, &workers))?;
        }
        Ok(Exit::Ok)
    }
}

fn shown(settings: &Settings, workers: &[Worker]) -> String {
    let head = [
        "column-id",
        "column-status",
        "column-tasks",
        "column-lanes",
        "column-labels",
        "column-command",
    ];
    let rows = workers
        .iter()
        .map(|worker| {
            let lanes = worker.lanes.iter();
            let lanes: Vec<String> = lanes
                .map(|lane| format!("{} {}", lane.lane, lane.limit))
                .collect();
            vec![
                worker.id.clone(),
                worker.state.to_string(),
                worker.tasks.to_string(),
                lanes.join(", "),
                worker.labels.join(", "),
                worker.command.clone(),
            ]
        })
        .collect();
    let head = head.map(|key| t!(settings.lang, key)).to_vec();
    table::rows(head, rows, output_columns(settings))
}
