//! `sortie mcp`: the servers of tools, and what they offer.

use clap::Subcommand;
use serde_json::{Value, json};
use sortie_mcp::{Pool, ServerReport, ServerState, ToolChange};
use sortie_text::{cut_columns, t};

use crate::equipment::Equipment;
use crate::escape::escaped;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::report::indented;
use crate::settings::Settings;
use crate::wiring::Wishes;
use crate::workshop;

/// How much of a tool's description one line shows; `--json` has all of it.
const DESCRIPTION_COLUMNS: usize = 100;

/// Shows the servers of tools, and approves tools that have changed.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Starts each server and lists its tools, and those that have changed since they were approved
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Approves tools that have changed, as they are now
    ///
    /// A tool that says something else than when it was approved is not offered to anybody. Look at
    /// it with `sortie mcp list` first: what a tool says of itself is read by models.
    Approve {
        /// The server
        server: String,
        /// Only this tool, by the server's own name for it
        #[arg(long, value_name = "TOOL")]
        tool: Option<String>,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

impl McpCommand {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        settings.check_configuration()?;
        let files = Equipment::of(settings, Wishes::default())?.files;
        let (pool, problems) = workshop::mcp_pool(settings, &files)?;
        for problem in problems {
            output::note(&escaped(&problem));
        }
        let reports = match &pool {
            Some(pool) => pool.list_tools().await,
            None => Vec::new(),
        };
        let done = match self {
            Self::List { json } => list(settings, &reports, json),
            Self::Approve { server, tool, json } => {
                let changes = changes(settings, &reports, &server, tool.as_deref());
                approve(settings, pool.as_ref(), changes, json).await
            }
        };
        if let Some(pool) = pool {
            pool.shut_down().await;
        }
        done
    }
}

fn list(settings: &Settings, reports: &[ServerReport], json: bool) -> Result<Exit, Problem> {
    if json {
        output::json(&reports.iter().map(report_json).collect::<Vec<_>>())?;
    } else if reports.is_empty() {
        output::note(&t!(settings.lang, "mcp-none"));
    } else {
        let pages: Vec<String> = reports
            .iter()
            .map(|report| page(settings, report))
            .collect();
        output::text(&pages.join("\n\n"))?;
    }
    Ok(Exit::Ok)
}

fn page(settings: &Settings, report: &ServerReport) -> String {
    let lang = settings.lang;
    let state = match &report.state {
        ServerState::Disabled => t!(lang, "mcp-disabled"),
        ServerState::Ready => t!(lang, "mcp-ready", count = report.tools.len()),
        ServerState::Unavailable(why) => t!(lang, "mcp-unavailable", why = escaped(why)),
    };
    let mut lines = Vec::new();
    for tool in &report.tools {
        lines.push(line(&tool.name, &tool.description));
    }
    for change in &report.changes {
        let line = line(&change.tool, &change.description);
        lines.push(t!(lang, "mcp-changed", tool = line));
    }
    for left_out in &report.left_out {
        lines.push(t!(
            lang,
            "mcp-left-out",
            tool = escaped(&left_out.tool),
            why = escaped(&left_out.reason)
        ));
    }
    let first = format!("{}: {state}", escaped(&report.server));
    if lines.is_empty() {
        return first;
    }
    format!("{first}\n{}", indented(&lines.join("\n")))
}

fn line(name: &str, description: &str) -> String {
    format!(
        "{}: {}",
        escaped(name),
        cut_columns(&escaped(description), DESCRIPTION_COLUMNS)
    )
}

fn report_json(report: &ServerReport) -> Value {
    let (state, why) = match &report.state {
        ServerState::Disabled => ("disabled", None),
        ServerState::Ready => ("ready", None),
        ServerState::Unavailable(why) => ("unavailable", Some(why)),
    };
    json!({
        "server": report.server,
        "state": state,
        "why": why,
        "tools": report.tools.iter().map(|tool| json!({
            "name": tool.name,
            "description": tool.description,
        })).collect::<Vec<_>>(),
        "changed": report.changes.iter().map(change_json).collect::<Vec<_>>(),
        "left_out": report.left_out.iter().map(|left_out| json!({
            "tool": left_out.tool,
            "why": left_out.reason,
        })).collect::<Vec<_>>(),
    })
}

fn change_json(change: &ToolChange) -> Value {
    json!({
        "server": change.server,
        "tool": change.tool,
        "description": change.description,
        "fingerprint": change.fingerprint.as_str(),
    })
}

/// The changed tools that a person means.
fn changes(
    settings: &Settings,
    reports: &[ServerReport],
    server: &str,
    tool: Option<&str>,
) -> Result<Vec<ToolChange>, Problem> {
    let lang = settings.lang;
    let Some(report) = reports.iter().find(|report| report.server == server) else {
        let known: Vec<String> = reports
            .iter()
            .map(|report| escaped(&report.server))
            .collect();
        return Err(Problem::Nothing(t!(
            lang,
            "mcp-unknown",
            name = escaped(server),
            known = known.join(", ")
        )));
    };
    if let ServerState::Unavailable(why) = &report.state {
        let words = t!(lang, "mcp-unavailable", why = escaped(why));
        return Err(Problem::Refused(format!("{}: {words}", escaped(server))));
    }
    let wanted = |change: &&ToolChange| tool.is_none_or(|tool| change.tool == tool);
    Ok(report.changes.iter().filter(wanted).cloned().collect())
}

async fn approve(
    settings: &Settings,
    pool: Option<&Pool>,
    changes: Result<Vec<ToolChange>, Problem>,
    json: bool,
) -> Result<Exit, Problem> {
    let changes = changes?;
    if let Some(pool) = pool {
        let approved = pool.approve(&changes).await;
        approved.map_err(|error| Problem::Process(std::io::Error::other(error)))?;
    }
    if json {
        output::json(&json!({"approved": changes.iter().map(change_json).collect::<Vec<_>>()}))?;
    } else if changes.is_empty() {
        output::note(&t!(settings.lang, "mcp-nothing-changed"));
    } else {
        for change in &changes {
            let line = line(&change.tool, &change.description);
            output::text(&t!(settings.lang, "mcp-approved", tool = line))?;
        }
    }
    Ok(Exit::Ok)
}
