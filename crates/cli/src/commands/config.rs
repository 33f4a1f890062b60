//! `sortie config`.

use std::path::PathBuf;

use clap::Subcommand;
use sortie_config::{PROJECT_FILE, set, show, unset};
use sortie_text::t;

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::table;

/// Shows and changes the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Shows every key with its value and the layer that set it; secrets are redacted
    Show {
        /// Shows only keys that begin with this text
        key: Option<String>,
        /// Shows only keys that a file, a variable or a flag sets
        #[arg(long)]
        changed: bool,
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints the JSON schema of the configuration files
    Schema,
    /// Shows which files are read, and whether the project's file is trusted
    Path {
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Sets a key in your configuration file
    Set {
        /// Key to set, for example `subagents.max_concurrent`
        key: String,
        /// New value, written as in TOML; a text needs no quotation marks
        value: String,
        /// Changes the project's file instead of yours
        #[arg(long)]
        project: bool,
    },
    /// Removes a key from your configuration file
    Unset {
        /// Key to remove, for example `subagents.max_concurrent`
        key: String,
        /// Changes the project's file instead of yours
        #[arg(long)]
        project: bool,
    },
}

impl ConfigCommand {
    pub(crate) fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        match self {
            Self::Show { key, changed, json } => shown(settings, key.as_deref(), changed, json),
            Self::Schema => {
                output::json(&sortie_config::schema())?;
                Ok(Exit::Ok)
            }
            Self::Path { json } => paths(settings, json),
            Self::Set {
                key,
                value,
                project,
            } => {
                let file = target(settings, project);
                set(&file, &key, &value).map_err(Problem::ConfigEdit)?;
                let path = file.display().to_string();
                output::note(&t!(settings.lang, "config-set", key = key, path = path));
                Ok(Exit::Ok)
            }
            Self::Unset { key, project } => {
                let file = target(settings, project);
                let path = file.display().to_string();
                let words = if unset(&file, &key).map_err(Problem::ConfigEdit)? {
                    t!(settings.lang, "config-unset", key = key, path = path)
                } else {
                    t!(settings.lang, "config-not-set", key = key, path = path)
                };
                output::note(&words);
                Ok(Exit::Ok)
            }
        }
    }
}

fn shown(
    settings: &Settings,
    begins: Option<&str>,
    changed: bool,
    json: bool,
) -> Result<Exit, Problem> {
    settings.check_configuration()?;
    let mut keys = show(&settings.configuration.loaded);
    keys.retain(|shown| {
        begins.is_none_or(|begins| shown.key.to_string().starts_with(begins))
            && !(changed && matches!(shown.origin, sortie_config::Origin::Default))
    });
    if keys.is_empty()
        && let Some(begins) = begins
    {
        output::note(&t!(settings.lang, "config-no-key", key = begins));
    }
    if json {
        output::json(&keys)?;
    } else if !keys.is_empty() {
        let lang = settings.lang;
        let head = vec![
            t!(lang, "column-key"),
            t!(lang, "column-value"),
            t!(lang, "column-origin"),
        ];
        let rows = keys
            .iter()
            .map(|shown| {
                vec![
                    shown.key.to_string(),
                    shown.text(),
                    shown.origin.to_string(),
                ]
            })
            .collect();
        output::text(&table::rows(head, rows, None))?;
    }
    Ok(Exit::Ok)
}

fn paths(settings: &Settings, json: bool) -> Result<Exit, Problem> {
    let places = &settings.configuration.places;
    let project = places
        .project_file
        .as_ref()
        .map(|file| file.display().to_string());
    if json {
        output::json(&serde_json::json!({
            "user_file": places.user_file.display().to_string(),
            "user_file_exists": places.user_file.exists(),
            "project_file": project,
            "project_trusted": places.trusted,
            "trust_file": places.trust_file.display().to_string(),
        }))?;
        return Ok(Exit::Ok);
    }
    let lang = settings.lang;
    let trusted = if places.trusted {
        t!(lang, "trust-yes")
    } else {
        t!(lang, "trust-no")
    };
    let rows = [
        (
            t!(lang, "config-user-file"),
            places.user_file.display().to_string(),
        ),
        (
            t!(lang, "config-project-file"),
            match project {
                Some(path) => format!("{path} ({trusted})"),
                None => t!(lang, "config-none"),
            },
        ),
        (
            t!(lang, "config-trust-file"),
            places.trust_file.display().to_string(),
        ),
    ];
    output::text(&table::pairs(&rows))?;
    Ok(Exit::Ok)
}

fn target(settings: &Settings, project: bool) -> PathBuf {
    let places = &settings.configuration.places;
    if project {
        places
            .project_file
            .clone()
            .unwrap_or_else(|| settings.options.workspace.join(PROJECT_FILE))
    } else {
        places.user_file.clone()
    }
}
