//! `sortie trust`.

use std::path::PathBuf;

use clap::Args;
use sortie_config::{Revoked, TrustStore, project_folder};
use sortie_text::t;

use crate::exit::Exit;
use crate::output;
use crate::problem::Problem;
use crate::settings::Settings;

/// Trusts a folder: its configuration may then set everything
///
/// The file `sortie.toml` of a folder that is not trusted can only narrow what is allowed: no keys,
/// no addresses, no further tools. Trust is noted in the user's own configuration folder, never in
/// the project.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The folder [default: that of the project's file, else the current one]
    folder: Option<PathBuf>,
    /// Takes the trust back
    #[arg(long, conflicts_with = "list")]
    revoke: bool,
    /// Lists the trusted folders
    #[arg(long)]
    list: bool,
    /// Prints JSON
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
