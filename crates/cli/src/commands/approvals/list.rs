//! `sortie approvals list`.

use clap::Args;
use sortie_base::hidden::write_out_line;
use sortie_core::request::{OpenRequest, RequestFilter};
use sortie_core::request_view::RequestView;
use sortie_core::time::{Clock, Timestamp};
use sortie_runtime::ProcessClock;
use sortie_text::{t, truncate_columns};

use super::{reply_words, time_left, what};
use crate::commands::tasks::{handles, output_columns};
use crate::exit::Exit;
use crate::ids::Handles;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Columns of a request in a line; `sortie approvals show` prints all of it.
const WHAT_COLUMNS: usize = 60;
/// Columns of a label and of a reply in a line.
const LABEL_COLUMNS: usize = 30;

/// Lists open approval requests and questions
#[derive(Debug, Args)]
pub(super) struct List {
    /// Lists decided requests as well, newest first
    #[arg(long)]
    all: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let store = settings.options.read_store()?;
        let filter = RequestFilter {
            replied: self.all,
            ..RequestFilter::default()
        };
        let requests = store.requests(filter).await?;
        if self.json {
            let all: Vec<_> = requests.iter().map(RequestView::from).collect();
            output::json(&all)?;
            return Ok(Exit::Ok);
        }
        if requests.is_empty() {
            output::note(&t!(settings.lang, "approvals-none"));
            return Ok(Exit::Ok);
        }
        let tasks = requests.iter().map(|request| request.task_id);
        let handles = handles(&store, tasks).await?;
        let now = ProcessClock::start().now();
        output::text(&self.table(settings, &requests, &handles, now))?;
        Ok(Exit::Ok)
    }

    fn table(
        &self,
        settings: &Settings,
        requests: &[OpenRequest],
        handles: &Handles,
        now: Timestamp,
    ) -> String {
        let lang = settings.lang;
        let mut head = vec![
            t!(lang, "column-id"),
            t!(lang, "column-kind"),
            t!(lang, "column-task"),
            t!(lang, "column-agent"),
            t!(lang, "column-label"),
            t!(lang, "column-what"),
            t!(lang, "column-expires"),
        ];
        if self.all {
            head.push(t!(lang, "column-reply"));
        }
        let row = |request: &OpenRequest| {
            let mut row = vec![
                request.request.id.to_string(),
                request.request.kind.name().to_owned(),
                handles.of(request.task_id),
                write_out_line(&request.agent),
                truncate_columns(&write_out_line(&request.label), LABEL_COLUMNS),
                truncate_columns(&what(lang, request), WHAT_COLUMNS),
                time_left(request, now),
            ];
            if self.all {
                let words = reply_words(lang, request.reply.as_ref());
                row.push(truncate_columns(&words, WHAT_COLUMNS));
            }
            row
        };
        let rows = requests.iter().map(row).collect();
        table::rows(head, rows, output_columns(settings))
    }
}
