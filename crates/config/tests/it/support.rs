//! A folder with a user file and a project file, and the loaded configuration as text.

use std::fs;
use std::path::{Path, PathBuf};

use sortie_config::{ConfigError, Flag, Loaded, Origin, Sources, load, show};
use tempfile::TempDir;

/// The sources of one test's configuration.
pub(crate) struct Case {
    folder: TempDir,
    pub(crate) sources: Sources,
}

impl Case {
    /// Creates a case in which nothing is set and the project is trusted.
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            sources: Sources {
                trusted: true,
                ..Sources::default()
            },
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> Option<PathBuf> {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        Some(path)
    }

    pub(crate) fn user(mut self, text: impl AsRef<[u8]>) -> Self {
        self.sources.user_file = self.write("user.toml", text);
        self
    }

    pub(crate) fn project(mut self, text: impl AsRef<[u8]>) -> Self {
        self.sources.project_file = self.write("sortie.toml", text);
        self
    }

    pub(crate) fn untrusted(mut self) -> Self {
        self.sources.trusted = false;
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        let variable = (name.to_owned(), value.to_owned());
        self.sources.environment.push(variable);
        self
    }

    pub(crate) fn assign(mut self, text: &str) -> Self {
        let flag = Flag::assignment("-c", text).unwrap();
        self.sources.flags.push(flag);
        self
    }

    pub(crate) fn flag(mut self, flag: Flag) -> Self {
        self.sources.flags.push(flag);
        self
    }

    pub(crate) fn load(&self) -> Result<Loaded, ConfigError> {
        load(&self.sources)
    }

    /// Loads the configuration and returns its values with origins and warnings, or the error.
    pub(crate) fn report(&self) -> String {
        let text = match self.load() {
            Ok(loaded) => rendered(&loaded),
            Err(error) => format!("error: {error}"),
        };
        self.without_folder(&text)
    }

    pub(crate) fn without_folder(&self, text: &str) -> String {
        let folder = format!("{}/", self.folder.path().display());
        text.replace(&folder, "")
    }
}

/// Writes one line for each value that is not a default, and one for each warning.
fn rendered(loaded: &Loaded) -> String {
    let keys = show(loaded).into_iter();
    let keys = keys
        .filter(|shown| shown.origin != Origin::Default)
        .map(|shown| format!("{} = {} ({})", shown.key, shown.text(), shown.origin));
    let warnings = loaded.warnings.iter();
    let warnings = warnings.map(|warning| format!("warning: {warning}"));
    keys.chain(warnings).collect::<Vec<_>>().join("\n")
}

pub(crate) fn folder(root: &Path, name: &str) -> PathBuf {
    let path = root.join(name);
    fs::create_dir_all(&path).unwrap();
    path
}
