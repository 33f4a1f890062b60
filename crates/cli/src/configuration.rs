//! The configuration of a command: its files, its values, its problems.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sortie_config::{
    Config, ConfigError, Flag, Loaded, Sources, TrustStore, find_project_file, load, project_folder,
};

/// The user's file, in the configuration folder of this system.
const USER_FILE: &str = "config.toml";
/// The list of trusted folders, in the same folder.
const TRUST_FILE: &str = "trust.json";
/// The configuration and its files.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// The values with the origin of each.
    pub(crate) loaded: Loaded,
    pub(crate) places: Places,
    /// Warnings for commands that start work.
    pub(crate) warnings: Vec<String>,
    /// Why the files are ignored: one of them is invalid. Commands that only read or repair work
    /// without them.
    pub(crate) broken: Option<Arc<ConfigError>>,
}

/// The files of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The user's file, whether it exists or not.
    pub(crate) user_file: PathBuf,
    /// The project's file, if it exists.
    pub(crate) project_file: Option<PathBuf>,
    /// The list of trusted folders.
    pub(crate) trust_file: PathBuf,
    /// Whether the project is trusted: its file may then set every key.
    pub(crate) trusted: bool,
}

impl Configuration {
    /// Reads all layers. `folder` is the current folder.
    pub(crate) fn read(
        folder: &Path,
        config_folder: &Path,
        user_file: Option<PathBuf>,
        environment: Vec<(String, String)>,
        assignments: &[String],
    ) -> Result<Self, ConfigError> {
        let mut warnings = Vec::new();
        let project_file = find_project_file(folder);
        let trust_file = config_folder.join(TRUST_FILE);
        let trusted = project_file
            .as_deref()
            .is_some_and(|file| is_trusted(&trust_file, file, &mut warnings));
        if let Some(named) = &user_file
            && !named.exists()
        {
            warnings.push(format!("SORTIE_CONFIG: there is no {}", named.display()));
        }
        let places = Places {
            user_file: user_file.unwrap_or_else(|| config_folder.join(USER_FILE)),
            project_file,
            trust_file,
            trusted,
        };
        let flags = assignments
            .iter()
            .map(|text| Flag::assignment("--config", text))
            .collect::<Result<_, _>>()?;
        let sources = Sources {
            user_file: Some(places.user_file.clone()),
            project_file: places.project_file.clone(),
            environment,
            flags,
            trusted,
            provider_names: sortie_models::vendor_names(),
        };
        let (loaded, broken) = loaded(&sources, &mut warnings)?;
        warnings.extend(loaded.warnings.iter().map(ToString::to_string));
        warnings.extend(half_prices(&loaded.config));
        Ok(Self {
            loaded,
            places,
            warnings,
            broken,
        })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.loaded.config
    }
}

/// Reads all layers. An invalid file of an untrusted project is left out with a warning, so that the
/// project cannot stop the user; any other invalid file stops commands that start work.
fn loaded(
    sources: &Sources,
    warnings: &mut Vec<String>,
) -> Result<(Loaded, Option<Arc<ConfigError>>), ConfigError> {
    let error = match load(sources) {
        Ok(loaded) => return Ok((loaded, None)),
        Err(error) => error,
    };
    let without_project = Sources {
        project_file: None,
        ..sources.clone()
    };
    if !sources.trusted
        && sources.project_file.is_some()
        && let Ok(loaded) = load(&without_project)
    {
        warnings.push(format!("the project's file is ignored: {error}"));
        return Ok((loaded, None));
    }
    let nothing = load(&Sources {
        user_file: None,
        environment: Vec::new(),
        flags: Vec::new(),
        ..without_project
    })?;
    Ok((nothing, Some(Arc::new(error))))
}

/// Whether the project is trusted. A trust file that cannot be read trusts nothing, with a warning.
fn is_trusted(trust_file: &Path, project_file: &Path, warnings: &mut Vec<String>) -> bool {
    let Some(folder) = project_folder(project_file) else {
        return false;
    };
    let store = match TrustStore::open(trust_file) {
        Ok(store) => store,
        Err(error) => {
            warnings.push(error.to_string());
            return false;
        }
    };
    store.is_trusted(folder)
}

/// Returns warnings about prices that are ignored: a cost needs both.
fn half_prices(config: &Config) -> Vec<String> {
    let half = config.models.iter().filter(|(_, model)| {
        model
            .price
            .as_ref()
            .is_some_and(|price| price.input.is_none() || price.output.is_none())
    });
    half.map(|(name, _)| format!("models.{name:?}.price is ignored: it needs input and output"))
        .collect()
}
