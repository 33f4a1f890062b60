//! `sortie agents`.

use clap::Subcommand;
use sortie_core::{AgentDefinition, AgentSource, Lang, ModelChoice};
use sortie_text::{cut_columns, strip_sequences, t};

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;
use crate::wiring;

/// How much of a description the list shows where there is no terminal to ask.
const PLAIN_COLUMNS: usize = 100;
/// About what the other columns of the list take.
const OTHER_COLUMNS: usize = 40;

/// Shows the agents that runs can be made from.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// Lists them
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows one with its prompt
    Show {
        /// Its name
        name: String,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

impl AgentsCommand {
    pub(crate) fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let agents = wiring::agents(settings);
        match self {
            Self::List { json } => {
                let all: Vec<&AgentDefinition> = std::iter::once(agents.main())
                    .chain(agents.children())
                    .collect();
                if json {
                    output::json(&all)?;
                } else {
                    output::text(&list(settings, &all))?;
                }
            }
            Self::Show { name, json } => {
                let Some(agent) = agents.find(&name) else {
                    let known = agents.names();
                    return Err(Problem::NoAgent { name, known });
                };
                if json {
                    output::json(agent)?;
                } else {
                    output::text(&shown(settings.lang, agent))?;
                }
            }
        }
        Ok(Exit::Ok)
    }
}

fn list(settings: &Settings, agents: &[&AgentDefinition]) -> String {
    let lang = settings.lang;
    let room = if settings.terminal.output {
        let (_, columns) = console::Term::stdout().size();
        usize::from(columns).saturating_sub(OTHER_COLUMNS)
    } else {
        PLAIN_COLUMNS
    };
    table::rows(
        vec![
            t!(lang, "column-agent"),
            t!(lang, "column-model"),
            t!(lang, "column-access"),
            t!(lang, "column-when"),
        ],
        agents
            .iter()
            .map(|agent| {
                vec![
                    agent.name.clone(),
                    model(lang, &agent.model),
                    access(lang, agent),
                    cut_columns(&agent.when_to_use, room),
                ]
            })
            .collect(),
    )
}

fn shown(lang: Lang, agent: &AgentDefinition) -> String {
    let mut rows = vec![
        (t!(lang, "field-name"), agent.name.clone()),
        (t!(lang, "field-when"), agent.when_to_use.clone()),
        (t!(lang, "field-model"), model(lang, &agent.model)),
        (t!(lang, "field-tools"), tools(lang, agent)),
        (t!(lang, "field-access"), access(lang, agent)),
        (t!(lang, "field-source"), source(lang, agent.source)),
    ];
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
    }
}
