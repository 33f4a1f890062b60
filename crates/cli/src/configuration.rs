//! Where the configuration of a command comes from, and what was wrong with it.

use std::path::{Path, PathBuf};

use sortie_config::{
    Config, ConfigError, Flag, Loaded, Sources, TrustStore, find_project_file, load, project_folder,
};

/// The user's file, in the configuration folder of this system.
const USER_FILE: &str = "config.toml";
/// The folders that were trusted, in the same folder.
const TRUST_FILE: &str = "trust.json";
/// Keys that are understood and do nothing in this version, so that nobody relies on them.
const WITHOUT_EFFECT: &[&str] = &[
    "subagents.tools.allow",
    "subagents.tools.inherit_tools",
    "subagents.tools.inherit_skills",
    "subagents.skills",
];

/// What was configured, and where.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// Everything with its origin.
    pub(crate) loaded: Loaded,
    /// The files.
    pub(crate) places: Places,
    /// What to tell whoever starts work with it.
    pub(crate) warnings: Vec<String>,
}

/// The files of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The user's file, whether it exists or not.
    pub(crate) user_file: PathBuf,
    /// The project's file, if there is one.
    pub(crate) project_file: Option<PathBuf>,
    /// Where trusted folders are noted.
    pub(crate) trust_file: PathBuf,
    /// Whether the project's file may set everything.
    pub(crate) trusted: bool,
}

impl Configuration {
    /// Reads all layers. `folder` is where the command was started.
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
        let loaded = load(&Sources {
            user_file: Some(places.user_file.clone()),
            project_file: places.project_file.clone(),
            environment,
            flags,
            trusted,
            provider_names: sortie_models::vendor_names(),
        })?;
        warnings.extend(loaded.warnings.iter().map(ToString::to_string));
        warnings.extend(without_effect(&loaded));
        warnings.extend(half_prices(&loaded.config));
        Ok(Self {
            loaded,
            places,
            warnings,
        })
    }

    /// The values.
    pub(crate) fn config(&self) -> &Config {
        &self.loaded.config
    }
}

/// A trust file that cannot be read trusts nothing, and says so.
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

/// A cost can only be estimated from both prices.
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

fn without_effect(loaded: &Loaded) -> Vec<String> {
    let set = loaded.origins.iter().filter(|(key, origin)| {
        let key = key.to_string();
        !matches!(origin, sortie_config::Origin::Default)
            && WITHOUT_EFFECT
                .iter()
                .any(|idle| key == *idle || key.starts_with(&format!("{idle}.")))
    });
    set.map(|(key, origin)| format!("{origin}: {key} has no effect in this version"))
        .collect()
}
