//! `sortie mcp`: the MCP servers and their tools.

use clap::Subcommand;
use serde_json::{Value, json};
use sortie_base::diff;
use sortie_base::hidden::{is_hidden, write_out, write_out_line};
use sortie_core::words::Lang;
use sortie_mcp::{Pool, ServerReport, ServerState, ToolChange};
use sortie_text::{t, truncate_columns};

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::report::indented;
use crate::settings::Settings;

/// Columns of a tool's description in a line; `--json` prints all of it.
const DESCRIPTION_COLUMNS: usize = 100;

/// Shows MCP servers and approves tools whose descriptions changed.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Starts each server and lists its tools, with those that changed since they were approved
    List {
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the tool descriptions that a server offers to models, and what changed in them
    ///
    /// The text is printed as the server wrote it, with hidden characters escaped. Models get it
    /// without hidden characters.
    Show {
        /// Name of the server
        server: String,
        /// Selects only this tool, by the server's own name for it
        #[arg(long, value_name = "TOOL")]
        tool: Option<String>,
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Approves the current descriptions of tools that changed
    ///
    /// A tool whose description differs from the approved one is not offered to any model. Check
    /// the change with `sortie mcp show` first: models read the description and may follow it.
    Approve {
        /// Name of the server
        server: String,
        /// Selects only this tool, by the server's own name for it
        #[arg(long, value_name = "TOOL")]
        tool: Option<String>,
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
}

impl McpCommand {
    pub(crate) async fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        settings.check_configuration()?;
        let (pool, problems) = settings.builder().assemble()?.mcp_pool()?;
        for problem in problems {
            output::note(&write_out_line(&problem));
        }
        let reports = match &pool {
            Some(pool) => pool.list_tools().await,
            None => Vec::new(),
        };
        let done = match self {
            Self::List { json } => list(settings, &reports, json),
            Self::Show { server, tool, json } => {
                show(settings, &reports, &server, tool.as_deref(), json)
            }
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
        ServerState::Unavailable(why) => t!(lang, "mcp-unavailable", why = write_out_line(why)),
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
            tool = write_out_line(&left_out.tool),
            why = write_out_line(&left_out.reason)
        ));
    }
    let first = format!("{}: {state}", write_out_line(&report.server));
    if lines.is_empty() {
        return first;
    }
    format!("{first}\n{}", indented(&lines.join("\n")))
}

fn line(name: &str, description: &str) -> String {
    format!(
        "{}: {}",
        write_out_line(name),
        truncate_columns(&write_out_line(description), DESCRIPTION_COLUMNS)
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

/// Formats the tools of a server for people.
fn show(
    settings: &Settings,
    reports: &[ServerReport],
    server: &str,
    tool: Option<&str>,
    json: bool,
) -> Result<Exit, Problem> {
    let lang = settings.lang;
    let report = usable(settings, reports, server)?;
    let wanted = |name: &str| tool.is_none_or(|tool| name == tool);
    let texts: Vec<_> = report
        .texts
        .iter()
        .filter(|one| wanted(&one.tool))
        .collect();
    let changes: Vec<_> = report
        .changes
        .iter()
        .filter(|one| wanted(&one.tool))
        .collect();
    if let (Some(tool), [], []) = (tool, &*texts, &*changes) {
        let tool = write_out_line(tool);
        return Err(Problem::Nothing(t!(lang, "mcp-no-tool", tool = tool)));
    }
    if json {
        let approved = texts.iter().map(|one| {
            json!({
                "tool": one.tool,
                "approved": true,
                "fingerprint": one.fingerprint.as_str(),
                "text": one.text,
            })
        });
        let changed = changes.iter().map(|one| {
            json!({
                "tool": one.tool,
                "approved": false,
                "fingerprint": one.fingerprint.as_str(),
                "text": one.text,
                "before": one.before,
            })
        });
        output::json(&approved.chain(changed).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let approved = texts.iter().map(|one| {
        let head = t!(
            lang,
            "mcp-tool-approved",
            tool = write_out_line(&one.tool),
            fingerprint = one.fingerprint.as_str()
        );
        described(lang, head, &one.text)
    });
    let changed = changes.iter().map(|one| changed_page(lang, one));
    let pages: Vec<String> = approved.chain(changed).collect();
    output::text(&pages.join("\n\n"))?;
    Ok(Exit::Ok)
}

/// Formats a tool that waits for approval: its text now, and how it differs from the approved one.
fn changed_page(lang: Lang, change: &ToolChange) -> String {
    let head = t!(
        lang,
        "mcp-tool-changed",
        tool = write_out_line(&change.tool),
        fingerprint = change.fingerprint.as_str(),
        server = write_out_line(&change.server)
    );
    match &change.before {
        None => described(lang, head, &change.text),
        Some(before) => {
            let lines: Vec<String> = diff::lines(before, &change.text)
                .into_iter()
                .map(|line| format!("{}{}", line.sign(), line.text()))
                .collect();
            described(lang, head, &lines.join("\n"))
        }
    }
}

/// Formats text of a server under a heading, with hidden characters written out and counted.
fn described(lang: Lang, head: String, text: &str) -> String {
    let is_unseen = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    let mut parts = vec![head];
    let count = text.matches(is_unseen).count();
    if count > 0 {
        parts.push(t!(lang, "mcp-hidden", count = count));
    }
    parts.push(indented(write_out(text).trim_end()));
    parts.join("\n")
}

/// Returns the report of a server, or an error if the server is unusable or unknown.
fn usable<'a>(
    settings: &Settings,
    reports: &'a [ServerReport],
    server: &str,
) -> Result<&'a ServerReport, Problem> {
    let lang = settings.lang;
    let Some(report) = reports.iter().find(|report| report.server == server) else {
        let known: Vec<String> = reports
            .iter()
            .map(|report| write_out_line(&report.server))
            .collect();
        return Err(Problem::Nothing(t!(
            lang,
            "mcp-unknown",
            name = write_out_line(server),
            known = known.join(", ")
        )));
    };
    if let ServerState::Unavailable(why) = &report.state {
        let words = t!(lang, "mcp-unavailable", why = write_out_line(why));
        return Err(Problem::Refused(format!(
            "{}: {words}",
            write_out_line(server)
        )));
    }
    Ok(report)
}

/// Returns the changed tools that the arguments select.
fn changes(
    settings: &Settings,
    reports: &[ServerReport],
    server: &str,
    tool: Option<&str>,
) -> Result<Vec<ToolChange>, Problem> {
    let report = usable(settings, reports, server)?;
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
            output::text(&changed_page(settings.lang, change))?;
            let line = line(&change.tool, &change.description);
            output::text(&t!(settings.lang, "mcp-approved", tool = line))?;
        }
    }
    Ok(Exit::Ok)
}
