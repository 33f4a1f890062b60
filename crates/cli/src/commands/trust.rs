//! `sortie trust`.

use std::path::PathBuf;

use clap::Args;
use sortie_config::{Revoked, TrustStore, project_folder};
use sortie_text::t;

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Trusts a folder, so that its `sortie.toml` can set every key
///
/// The `sortie.toml` of an untrusted folder can only restrict: it cannot set keys, addresses or
/// further tools. Trust is stored in your configuration folder, never in the project.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// Folder to trust [default: the folder of the project's `sortie.toml`, else the current
    /// folder]
    folder: Option<PathBuf>,
    /// Removes trust from the folder
    #[arg(long, conflicts_with = "list")]
    revoke: bool,
    /// Lists all trusted folders
    #[arg(long)]
    list: bool,
    /// Prints the result as JSON
    #[arg(long, requires = "list")]
    json: bool,
}

impl Trust {
    pub(crate) fn run(self, settings: &Settings) -> Result<Exit, Problem> {
        let lang = settings.lang;
        let places = &settings.configuration.places;
        let mut store = TrustStore::open(&places.trust_file).map_err(Problem::Trust)?;
        if self.list {
            return listed(settings, &store, self.json);
        }
        let folder = match &self.folder {
            Some(folder) => settings.options.workspace.join(folder),
            None => places
                .project_file
                .as_deref()
                .and_then(project_folder)
                .unwrap_or(&settings.options.workspace)
                .to_owned(),
        };
        if self.revoke {
            let words = match store.revoke(&folder).map_err(Problem::Trust)? {
                Revoked::Removed => {
                    t!(lang, "trust-revoked", path = folder.display().to_string())
                }
                Revoked::NotThere => {
                    t!(lang, "trust-not-there", path = folder.display().to_string())
                }
            };
            output::note(&words);
        } else {
            let folder = store.trust(&folder).map_err(Problem::Trust)?;
            let path = folder.display().to_string();
            output::note(&t!(lang, "trust-given", path = path));
        }
        Ok(Exit::Ok)
    }
}

fn listed(settings: &Settings, store: &TrustStore, json: bool) -> Result<Exit, Problem> {
    let folders: Vec<String> = store
        .list()
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    if json {
        output::json(&folders)?;
    } else if folders.is_empty() {
        output::note(&t!(settings.lang, "trust-empty"));
    } else {
        output::text(&folders.join("\n"))?;
    }
    Ok(Exit::Ok)
}
