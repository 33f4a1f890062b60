//! `sortie status`.

use std::net::SocketAddr;

use clap::Args;
use serde_json::{Value, json};
use sortie_core::ports::store::ListFilter;
use sortie_core::request::RequestFilter;
use sortie_protocol::Stats;
use sortie_protocol::client::Client;
use sortie_text::t;

use crate::engine;
use crate::exit::Exit;
use crate::output;
use crate::private;
use crate::problem::Problem;
use crate::serving::{self, ServerFile, ServerPresence};
use crate::settings::Settings;

/// Shows whether a server is running, since when, and its active runs
///
/// For health checks: exits with 0 if a server responds and can write to its store, else with 1.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// The status of a server that is ready.
const READY: &str = "ready";

/// The state of a server.
enum State {
    None,
    Starting(ServerFile),
    Silent {
        file: ServerFile,
        address: SocketAddr,
        problem: String,
    },
    /// The server responds but is not ready: it is stopping, or its store accepts no writes.
    Broken {
        file: ServerFile,
        address: SocketAddr,
        problem: String,
    },
    Answers {
        file: ServerFile,
        address: SocketAddr,
    },
}

impl Status {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let found = self.look(settings).await;
        // Health checks know only two exit codes; the problem is printed beside them.
        found.or_else(|problem| {
            let is_fine = problem.report(settings.lang) == Exit::Ok;
            Ok(if is_fine { Exit::Ok } else { Exit::Failed })
        })
    }

    async fn look(&self, settings: &Settings) -> Result<Exit, Problem> {
        private::enforce(settings)?;
        let state = state(settings).await?;
        let work = match &state {
            State::Answers { .. } => Some(work(settings).await?),
            State::None | State::Starting(_) | State::Silent { .. } | State::Broken { .. } => None,
        };
        if self.json {
            output::json(&as_json(&state, work.as_ref()))?;
        } else {
            for line in as_text(settings, &state, work.as_ref()) {
                output::text(&line)?;
            }
        }
        Ok(match state {
            State::Answers { .. } => Exit::Ok,
            State::None | State::Starting(_) | State::Silent { .. } | State::Broken { .. } => {
                Exit::Failed
            }
        })
    }
}

async fn state(settings: &Settings) -> Result<State, Problem> {
    let (file, address) = match serving::look(&settings.options.home).map_err(Problem::Process)? {
        ServerPresence::Absent => return Ok(State::None),
        ServerPresence::Starting(file) => return Ok(State::Starting(file)),
        ServerPresence::Listening { file, address } => (file, address),
    };
    let client = Client::new(address, &engine::token(settings)?, file.proof)?;
    Ok(match client.ready().await {
        Ok(health) if health.status == READY => State::Answers { file, address },
        Ok(health) => State::Broken {
            file,
            address,
            problem: health.reason.unwrap_or(health.status),
        },
        Err(error) => State::Silent {
            file,
            address,
            problem: sortie_core::error::with_causes(&error),
        },
    })
}

/// Returns the counts of tasks by status, and how many requests wait for an approver.
async fn work(settings: &Settings) -> Result<(Stats, usize), Problem> {
    let store = settings.options.read_store()?;
    // Archived tasks count too, as in `sortie tasks stats`.
    let every_task = ListFilter {
        archived: true,
        ..ListFilter::default()
    };
    let stats = store.stats(every_task).await?;
    let requests = store.requests(RequestFilter::default()).await?;
    Ok((stats.into(), requests.len()))
}

fn as_json(state: &State, work: Option<&(Stats, usize)>) -> Value {
    let about = |word: &str, file: &ServerFile| {
        json!({
            "status": word,
            "pid": file.pid,
            "address": file.address,
            "started_at": file.started_at,
            "version": file.version,
        })
    };
    let mut value = match state {
        State::None => json!({"status": "none"}),
        State::Starting(file) => about("starting", file),
        State::Silent { file, problem, .. } => {
            let mut value = about("silent", file);
            value["problem"] = json!(problem);
            value
        }
        State::Broken { file, problem, .. } => {
            let mut value = about("broken", file);
            value["problem"] = json!(problem);
            value
        }
        State::Answers { file, .. } => about("running", file),
    };
    if let Some((stats, requests)) = work {
        value["tasks"] = json!(stats);
        value["requests"] = json!(requests);
    }
    value
}

fn as_text(settings: &Settings, state: &State, work: Option<&(Stats, usize)>) -> Vec<String> {
    let lang = settings.lang;
    let mut lines = vec![match state {
        State::None => t!(lang, "status-none"),
        State::Starting(file) => t!(lang, "status-starting", pid = file.pid.to_string()),
        State::Silent {
            file,
            address,
            problem,
        } => t!(
            lang,
            "status-silent",
            address = address.to_string(),
            pid = file.pid.to_string(),
            problem = problem
        ),
        State::Broken {
            file,
            address,
            problem,
        } => t!(
            lang,
            "status-broken",
            address = address.to_string(),
            pid = file.pid.to_string(),
            problem = problem
        ),
        State::Answers { file, address } => t!(
            lang,
            "status-running",
            address = address.to_string(),
            since = &file.started_at,
            pid = file.pid.to_string(),
            version = &file.version
        ),
    }];
    if let Some((stats, requests)) = work {
        lines.push(t!(
            lang,
            "status-tasks",
            running = stats.running,
            pending = stats.pending,
            requests = *requests
        ));
    }
    lines
}
