//! `sortie agents`.

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;
use sortie::Assembly;
use sortie_core::agent::{AgentDefinition, AgentSource, ModelChoice};
use sortie_core::words::Lang;
use sortie_definitions::{AgentFiles, LoadedAgent};
use sortie_text::{one_line, strip_sequences, t, truncate_columns};

use super::skills::problem_json;
use crate::commands::tasks::output_columns;
use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Columns of a description in the list if stdout is no terminal.
const WHEN_COLUMNS: usize = 100;

/// Lists and shows agents, and checks their files.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// Lists all agents and their models
    List {
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Checks all agent files; exits with 1 if one of them is rejected
    Check {
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows one agent with its prompt
    Show {
        /// Name of the agent
        name: String,
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
}

impl AgentsCommand {
    pub(crate) fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let Assembly {
            agents,
            agent_files: files,
            ..
        } = settings.builder().assemble()?;
        match self {
            Self::List { json } => {
                let all: Vec<Listed<'_>> = std::iter::once(agents.main())
                    .chain(agents.children())
                    .map(|agent| Listed::of(agent, &files))
                    .collect();
                if json {
                    output::json(&all)?;
                } else {
                    output::text(&list(settings, &all))?;
                }
                Ok(Exit::Ok)
            }
            Self::Show { name, json } => {
                let Some(agent) = agents.find(&name) else {
                    let known = agents.names();
                    return Err(Problem::NoAgent { name, known });
                };
                let listed = Listed::of(agent, &files);
                if json {
                    output::json(&listed)?;
                } else {
                    output::text(&shown(settings.lang, &listed))?;
                }
                Ok(Exit::Ok)
            }
            Self::Check { json } => check(settings, &files, json),
        }
    }
}

/// An agent and the file that defines it.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    agent: &'a AgentDefinition,
    file: Option<String>,
    /// Whether the file may widen permissions; an untrusted file only narrows them.
    trusted: Option<bool>,
    sha256: Option<&'a str>,
}

impl<'a> Listed<'a> {
    fn of(agent: &'a AgentDefinition, files: &'a AgentFiles) -> Self {
        let loaded = match agent.source {
            AgentSource::User | AgentSource::Project => files.get(&agent.name),
            AgentSource::BuiltIn | AgentSource::Embedder => None,
        };
        Self {
            agent,
            file: loaded.map(|loaded| loaded.file.display().to_string()),
            trusted: loaded.map(|loaded| loaded.trusted),
            sha256: loaded.map(|loaded: &LoadedAgent| loaded.sha256.as_str()),
        }
    }
}

/// Reports whether each file is used; fails if one is refused.
fn check(settings: &Settings, files: &AgentFiles, json: bool) -> Result<Exit, Problem> {
    let good = files.is_good();
    if json {
        let all: Vec<_> = files
            .files
            .iter()
            .map(|check| {
                json!({
                    "file": check.file.display().to_string(),
                    "name": check.name,
                    "verdict": check.verdict.as_str(),
                    "problems": check.problems.iter().map(problem_json).collect::<Vec<_>>(),
                })
            })
            .collect();
        output::json(&json!({"ok": good, "files": all}))?;
    } else if files.files.is_empty() {
        output::note(&t!(settings.lang, "agents-no-files"));
    } else {
        output::text(&strip_sequences(&files.report()))?;
    }
    Ok(if good { Exit::Ok } else { Exit::Failed })
}

fn list(settings: &Settings, agents: &[Listed<'_>]) -> String {
    let lang = settings.lang;
    table::rows(
        vec![
            t!(lang, "column-agent"),
            t!(lang, "column-model"),
            t!(lang, "column-access"),
            t!(lang, "column-source"),
            t!(lang, "column-when"),
        ],
        agents
            .iter()
            .map(|listed| {
                let agent = listed.agent;
                vec![
                    one_line(&agent.name),
                    one_line(&model(lang, &agent.model)),
                    access(lang, agent),
                    source(lang, agent.source),
                    truncate_columns(&one_line(&agent.when_to_use), WHEN_COLUMNS),
                ]
            })
            .collect(),
        output_columns(settings),
    )
}

fn shown(lang: Lang, listed: &Listed<'_>) -> String {
    let agent = listed.agent;
    let mut rows = vec![
        (t!(lang, "field-name"), one_line(&agent.name)),
        (t!(lang, "field-when"), one_line(&agent.when_to_use)),
        (
            t!(lang, "field-model"),
            one_line(&model(lang, &agent.model)),
        ),
        (t!(lang, "field-tools"), one_line(&tools(lang, agent))),
        (t!(lang, "field-access"), access(lang, agent)),
        (t!(lang, "field-source"), source(lang, agent.source)),
    ];
    if let Some(file) = &listed.file {
        rows.push((t!(lang, "field-file"), one_line(file)));
    }
    if listed.trusted == Some(false) {
        rows.push((t!(lang, "field-trust"), t!(lang, "agent-narrowed")));
    }
    if let Some(max) = agent.max_iterations {
        rows.push((t!(lang, "field-max-iterations"), max.to_string()));
    }
    format!(
        "{}\n\n{}",
        table::pairs(&rows),
        strip_sequences(&agent.prompt)
    )
}

fn model(lang: Lang, choice: &ModelChoice) -> String {
    match choice {
        ModelChoice::Inherit => t!(lang, "model-inherit"),
        ModelChoice::Small => t!(lang, "model-small"),
        ModelChoice::Plan => t!(lang, "model-plan"),
        ModelChoice::Named(name) => name.clone(),
    }
}

fn access(lang: Lang, agent: &AgentDefinition) -> String {
    if agent.read_only {
        t!(lang, "access-read-only")
    } else {
        t!(lang, "access-full")
    }
}

fn tools(lang: Lang, agent: &AgentDefinition) -> String {
    let allowed = match &agent.tools.allow {
        Some(names) => names.join(", "),
        None => t!(lang, "tools-all"),
    };
    if agent.tools.deny.is_empty() {
        allowed
    } else {
        t!(
            lang,
            "tools-except",
            allowed = allowed,
            denied = agent.tools.deny.join(", ")
        )
    }
}

fn source(lang: Lang, source: AgentSource) -> String {
    match source {
        AgentSource::BuiltIn => t!(lang, "source-built-in"),
        AgentSource::Embedder => t!(lang, "source-embedder"),
        AgentSource::User => t!(lang, "source-user"),
        AgentSource::Project => t!(lang, "source-project"),
    }
}
